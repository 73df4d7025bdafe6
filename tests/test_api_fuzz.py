"""Every operation of the API against wrong input: never a crash, never an answer without a token, one error shape.

The inputs are made from the OpenAPI document, bent and broken with a fixed seed, so a new operation is tried too.
"""

import json
import random
from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
from rest_framework.test import APIClient

from catalog.models import CatalogImport
from rules.models import ChangeRequest, RuleChange
from tests.api_description import description, json_schema
from tests.api_description import operations as all_operations
from tests.factories import make_cluster, make_rule, make_tool
from tests.tokens import token_of
from trace_site.access import ROLES
from trace_site.deliveries import Delivery
from trace_site.lib.errors import TraceError
from trace_site.webhooks import services as webhooks
from trace_site.webhooks.services import Webhook

pytestmark = pytest.mark.django_db
JSON = "application/json"
TEXTS = [
    "", " ", "x", "HR", "hr", "a" * 5000, "\u202e\u0000x", "\ud800", "'; DROP TABLE x; --", "<script>", "=1+1", "🙂",
    "../../etc/passwd", "%00", "%s %d {0}", "null", "-1", "1e999", "2026-13-45", "0001-01-01", "Pay/Get",
]  # fmt: skip
NUMBERS = [0, 1, -1, 2, 200, 201, 2**31, 2**63, -(2**63) - 1, 10**30, 1.5, 1e308]
OTHERS: list[Any] = [None, True, False, [], {}, [[]], [None], {"": {}}, [{}], "text", 7, ["a"] * 300]


@cache
def schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(description(), default=str))
    return found


def operations() -> list[tuple[str, str]]:
    return [(path, method) for path, methods in schema()["paths"].items() for method in methods]


def made(dice: random.Random, shape: dict[str, Any], depth: int = 0) -> Any:
    """A value after `shape`, bent now and then."""
    if dice.random() < 0.12 or depth > 5:
        return dice.choice([*TEXTS, *NUMBERS, *OTHERS])
    if reference := shape.get("$ref"):
        return made(dice, schema()["components"]["schemas"][reference.rpartition("/")[2]], depth + 1)
    for several in ("oneOf", "anyOf", "allOf"):
        if several in shape:
            return made(dice, dice.choice(shape[several]), depth + 1)
    if "enum" in shape and dice.random() < 0.8:
        return dice.choice(shape["enum"])
    kind = shape.get("type")
    if kind == "object" or "properties" in shape:
        required = shape.get("required", [])
        value = {
            name: made(dice, inner, depth + 1)
            for name, inner in shape.get("properties", {}).items()
            if dice.random() < (0.92 if name in required else 0.6)
        }
        return {**value, "unknown": 1} if dice.random() < 0.05 else value
    if kind == "array":
        return [made(dice, shape.get("items", {}), depth + 1) for _ in range(dice.randint(0, 3))]
    if kind in ("integer", "number"):
        return dice.choice(NUMBERS)
    if kind == "boolean":
        return dice.random() < 0.5
    return dice.choice(TEXTS)


@pytest.fixture
def stored(user_with, monkeypatch) -> dict[str, list[int]]:
    """One of everything that an address may name, by the first part of the address."""

    def away(*args: object, **kwargs: object) -> None:
        raise TraceError("no network in this test.", code="webhook_unreachable")

    monkeypatch.setattr(webhooks, "post", away)
    everybody = user_with(*ROLES)
    tools = [make_tool(f"Pay/Get{n}") for n in range(3)]
    rule = make_rule(*tools[:2])
    asked = ChangeRequest.objects.create(title="Pay", author=everybody)
    change = RuleChange.objects.create(request=asked, rule=rule, base=rule.published, edited_by=everybody)
    hook = Webhook.objects.create(url="https://x.example", salt="s", events=["ping"], created_by=everybody)
    told = Delivery.objects.create(webhook=hook, event="ping", payload={})
    took = CatalogImport.objects.create(
        filename="a", format="jsonl", domain=tools[0].domain, digest="0", counts={}, actor=everybody
    )
    return {
        "tools": [tool.pk for tool in tools],
        "rules": [rule.pk],
        "change-requests": [asked.pk],
        "changes": [change.pk],
        "webhooks": [hook.pk],
        "delivery": [told.pk],
        "clusters": [make_cluster(*tools).pk],
        "imports": [took.pk],
    }


def address(dice: random.Random, path: str, operation: dict[str, Any], stored: dict[str, list[int]]) -> str:
    known = [*stored.get(path.split("/")[3], []), *stored.get("delivery", [])]
    for name in ("id", "number", "delivery"):
        at = dice.choice(known * 3 + [0, 2**31, 2**63, 10**25])
        path = path.replace(f"{{{name}}}", str(at))
    path = path.replace("{key}", str(UUID(int=dice.getrandbits(128))))
    path = path.replace("{domain}", dice.choice(["hr", "none"]))
    path = path.replace("{prompt}", dice.choice(["judge", "query_rule", "none"]))
    names = ["Pay/Get0", "Pay", "%00", "a/b/c", "🙂"] if operation else ["Pay"]  # one that every route takes
    path = path.replace("{name}", dice.choice(names))
    asked = [parameter["name"] for parameter in operation.get("parameters", []) if parameter["in"] == "query"]
    given = {name: dice.choice([*TEXTS, *NUMBERS]) for name in asked if dice.random() < 0.4}
    if dice.random() < 0.05:
        given["unknown"] = "1"
    pairs = (f"{name}={quote(str(value).encode('utf-8', 'surrogatepass'))}" for name, value in given.items())
    return f"{path}?{'&'.join(pairs)}"


@pytest.mark.parametrize(("path", "method"), operations(), ids=lambda part: str(part))
@pytest.mark.parametrize(("seed", "examples"), [("", 5), pytest.param(" again", 50, marks=pytest.mark.long)])
def test_wrong_input_is_refused_in_one_shape_and_never_crashes(path, method, seed, examples, stored):
    operation = schema()["paths"][path][method]
    dice = random.Random(f"{path} {method}{seed}")
    token = token_of(ChangeRequest.objects.get().author)
    client = APIClient(raise_request_exception=False)
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    for number in range(examples):
        where = address(dice, path, operation, stored)
        headers = {"Authorization": f"Token {token}"}
        if dice.random() < 0.2:
            headers["Idempotency-Key"] = dice.choice(["k", f"k{number}", "", "x" * 300])
        if dice.random() < 0.7:
            headers["If-Match"] = dice.choice(['"1"', '"2"', "*", "x", "", 'W/"1"', '"1", "2"'])
        body = json.dumps(made(dice, content["schema"])).encode() if content else b""
        if dice.random() < 0.08:
            body = dice.choice([b"{", b"\xff\xfe", b"[" * 5000, b'{"a": NaN}', b"null", b'"x"'])
        answer = client.generic(method.upper(), where, body, content_type="application/json", headers=headers)
        said = f"{method} {where} {headers} {body[:400]!r} -> {answer.status_code}"
        assert answer.status_code < 500 or answer.status_code == 503, said
        if answer.status_code >= 400:
            assert set(answer.json()) == {"message", "code", "extra"} and answer.json()["message"], said
        if method == "get" and answer.status_code == 405:
            pytest.fail(said)


def test_no_operation_answers_without_a_token_that_is_known(stored, settings):
    settings.API_RATE = settings.API_ADDRESS_RATE = 1_000_000
    settings.RETRIEVE_RATE = settings.RETRIEVE_ADDRESS_RATE = 1_000_000
    answered = []
    for path, method in operations():
        where = address(random.Random(1), path, {}, stored)
        for given in ("", "Token none", "Bearer x", "Token"):
            headers = {"Authorization": given} if given else {}
            answer = APIClient().generic(
                method.upper(), where, b"{}", content_type="application/json", headers=headers
            )
            if answer.status_code != 401 or answer.json()["code"] not in (
                "not_authenticated",
                "authentication_failed",
            ):
                answered.append(f"{method} {path} {given!r}: {answer.status_code}")
    assert answered == []


def test_a_method_that_is_not_there_is_405(stored, settings):
    settings.API_RATE = settings.API_ADDRESS_RATE = 1_000_000
    settings.RETRIEVE_RATE = settings.RETRIEVE_ADDRESS_RATE = 1_000_000
    headers = {"Authorization": f"Token {token_of(ChangeRequest.objects.get().author)}"}
    answered = []
    for path, described in sorted(schema()["paths"].items()):
        where = address(random.Random(1), path, {}, stored)
        for method in sorted({"get", "post", "put", "patch", "delete"} - set(described)):
            answer = APIClient().generic(
                method.upper(), where, b"{}", content_type="application/json", headers=headers
            )
            if answer.status_code not in (405, 404) or answer.json()["code"] not in (
                "method_not_allowed",
                "not_found",
            ):
                answered.append(f"{method} {path}: {answer.status_code}")
    assert answered == []


def with_nulls(value: Any, shape: dict[str, Any]) -> Iterator[Any]:
    """The value once for each of its optional fields, which is null there."""
    shape = next((one for one in shape.get("anyOf", ()) if one.get("type") != "null"), shape)
    if isinstance(value, dict):
        for name, inner in shape.get("properties", {}).items():
            if name not in shape.get("required", ()):
                yield {**value, name: None}
            yield from ({**value, name: one} for one in with_nulls(value.get(name), inner))
    if isinstance(value, list) and value:
        yield from ([one, *value[1:]] for one in with_nulls(value[0], shape.get("items", {})))


def test_null_is_like_left_out_in_every_optional_field_of_every_operation(stored):
    headers = {"Authorization": f"Token {token_of(ChangeRequest.objects.get().author)}", "If-Match": '"1"'}
    client, tried = APIClient(raise_request_exception=False), 0
    for one in all_operations():
        body = one.bodies().get("application/json")
        where = address(random.Random(1), one.path, {}, stored).partition("?")[0]
        for example in one.examples(body) if body else ():
            for given in with_nulls(example, json_schema(body["schema"])):
                answer = client.generic(one.method, where, json.dumps(given), JSON, headers=headers)
                told = answer.content.decode()
                assert answer.status_code in (200, 201, 202, 204, 400, 404, 409, 412, 428, 503), told
                assert answer.status_code < 300 or "null" not in json.loads(told)["message"], (
                    one.path,
                    given,
                )
                tried += 1
    assert tried > 50
