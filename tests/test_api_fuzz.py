"""Bodies, queries and addresses made up from the API's description: refused or served, never a crash.

For every operation hypothesis draws values that are right by type, nearly right, or nothing of the kind. An answer
must be one of those that the description promises.
"""

import json
import logging
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from rest_framework.authtoken.models import Token
from rest_framework.test import APIClient

from rules import changes
from rules.services import rule_save
from tests.api_description import Operation, json_schema, operations
from tests.factories import make_cluster, make_tool
from tests.rules.contents import texts

pytestmark = pytest.mark.django_db
EXAMPLES = 25
TEXT = "Use Pay/get from 2024 on, and Pay/getOld for every month before that."
ANY_JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), texts(10),
        st.sampled_from(["", "\0", 10**30]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(8), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
NUMBERS = st.integers(0, 3) | st.sampled_from([-1, 2**31, 2**63, 10**40]) | st.integers()


def values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Mostly what the schema says, sometimes not."""
    return st.one_of(right(schema), right(schema), right(schema), ANY_JSON)


def right(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return st.one_of([right(part) for part in schema[key]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "object":
            return _objects(schema.get("properties", {}), set(schema.get("required", ())))
        case "array":
            return st.lists(values(schema["items"]), max_size=3)
        case "integer":
            return NUMBERS
        case "number":
            return st.floats(allow_nan=False) | NUMBERS
        case "boolean":
            return st.booleans()
        case "string":
            known = ["Pay/get", "Pay/getOld", "hr", "X", "2027-01-01T00:00:00Z", "", "\0", "x" * 11_000]
            return st.sampled_from(known) | texts(20)
    return ANY_JSON


def _objects(properties: dict[str, Any], required: set[str]) -> st.SearchStrategy[Any]:
    drawn = {name: values(part) for name, part in properties.items()}
    return st.fixed_dictionaries(
        {name: drawn[name] for name in drawn if name in required},
        optional={name: part for name, part in drawn.items() if name not in required},
    )


def calls(operation: Operation, known: dict[str, list[str]]) -> st.SearchStrategy[dict[str, Any]]:
    """A path, headers and a body for the operation."""
    parts, query, headers = {}, {}, {}
    for parameter in operation.said.get("parameters", []):
        name, schema = parameter["name"], json_schema(parameter["schema"])
        if parameter["in"] == "path":
            ids = known["numbers" if schema.get("type") == "integer" else "names"]
            parts[name] = st.sampled_from([quote(one, safe="/") for one in ids])
        elif parameter["in"] == "query":
            query[name] = values(schema).map(_plain)
        elif name == "If-Match":
            headers["HTTP_IF_MATCH"] = st.sampled_from(['"1"', '"2"', "*", "x", '""', 'W/"1"', '"9', ",", ""])
    return st.builds(
        partial(_call, operation),
        st.fixed_dictionaries(parts),
        st.fixed_dictionaries({}, optional=query),
        st.fixed_dictionaries(headers),
        _bodies(operation),
    )


def _bodies(operation: Operation) -> st.SearchStrategy[tuple[str, str]]:
    """(media type, text): mostly JSON as described, sometimes another type, sometimes neither."""
    if not (bodies := operation.bodies()):
        return st.just(("", ""))
    schema = json_schema(bodies.get("application/json", {}).get("schema", {}))
    told = st.tuples(st.just("application/json"), values(schema).map(_json))
    media = st.sampled_from([*bodies, "text/plain", "x"])
    return st.one_of(told, told, told, st.tuples(media, texts(30)))


def _call(
    operation: Operation,
    parts: dict[str, str],
    query: dict[str, str],
    headers: dict[str, str],
    body: tuple[str, str],
) -> dict[str, Any]:
    path = operation.path.format(**parts)
    return {
        "method": operation.method,
        "path": f"{path}?{urlencode(query)}" if query else path,
        "data": body[1].encode("utf-8", "surrogatepass"),
        "content_type": body[0],
        **headers,
    }


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@pytest.fixture
def world(user_with) -> dict[str, list[str]]:
    """One of each thing, and the ids and names that reach them."""
    tools = [make_tool(name) for name in ("Pay/get", "Pay/getOld", "Pay/third")]
    make_cluster(*tools[:2])
    fields = {"target": "Pay/get", "confusables": ["Pay/getOld"]}
    rule = rule_save(**fields, text=TEXT, code="X", publish=True).version.rule
    rule_save(**fields, text=f"{TEXT} Ask.", rule=rule)
    author = user_with("expert")
    request = changes.request_create(actor=author)
    change = changes.change_add(request=request, actor=author, rule=rule)
    ids = [rule.pk, request.pk, change.pk, tools[0].pk, 0, 2**63, 10**30]
    return {"numbers": [str(number) for number in ids], "names": ["Pay/get", "no/such", "%00", "é/漢"]}


@pytest.mark.parametrize("operation", operations(), ids=str)
def test_no_call_crashes_and_every_answer_is_one_of_those_described(
    operation: Operation, world, user_with, caplog
) -> None:
    caplog.set_level(logging.CRITICAL, "django.request")
    client = APIClient()
    token = Token.objects.create(user=user_with("admin"))
    client.credentials(HTTP_AUTHORIZATION=f"Token {token.key}")
    promised = set(operation.said["responses"]) | {"413", "415", "429"}

    @settings(
        max_examples=EXAMPLES, deadline=None, phases=[Phase.generate], derandomize=True,
        suppress_health_check=list(HealthCheck), database=None,
    )  # fmt: skip
    @given(calls(operation, world))
    def call(drawn: dict[str, Any]) -> None:
        with transaction.atomic():
            answer = client.generic(**drawn)
            transaction.set_rollback(True)
        assert answer.status_code < 500 or answer.status_code == 503
        assert str(answer.status_code) in promised, answer.content[:500]
        if answer.status_code >= 400:
            assert set(answer.json()) == {"message", "code", "extra"}

    call()
