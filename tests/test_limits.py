"""Every body, field and plan has a limit, and the largest that is allowed costs little."""

import json
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from django import forms
from django.apps import apps
from django.core.exceptions import ValidationError
from django.db import transaction
from django.urls import URLResolver, get_resolver
from rest_framework import serializers
from rest_framework.test import APIClient

from rules.models import ChangeRequest
from tests.api_description import Operation, description, operations
from tests.test_api_fuzz import stored  # noqa: F401
from trace_site import limits
from trace_site.impact import declared_by_apps
from trace_site.rest.schema import DEEPEST, InputSerializer, finite

SECONDS, MEMORY = 2.0, 64_000_000  # of one request
CHOSEN = (
    serializers.BooleanField,
    serializers.ChoiceField,
    serializers.DateField,
    serializers.DateTimeField,
    serializers.FileField,
    serializers.UUIDField,
)
BY_THE_BODY = {("ImportIn", "content")}  # a whole file as JSON, as long as the address reads


def names() -> set[str]:
    """Every route by its name with its namespace."""
    found = set()

    def walk(patterns, prefix=""):
        for pattern in patterns:
            if isinstance(pattern, URLResolver):
                walk(pattern.url_patterns, f"{prefix}{pattern.namespace}:" if pattern.namespace else prefix)
            else:
                found.add(f"{prefix}{pattern.name}")

    walk(get_resolver().url_patterns)
    return found


def test_larger_bodies_are_read_at_addresses_that_exist(settings):
    assert set(declared_by_apps("larger_bodies")) <= names()
    assert limits.most_bytes("/catalog/imports/new/") > limits.CATALOG_FILE
    assert limits.most_bytes("/login/") == limits.most_bytes("/no/such/page") == limits.BODY
    assert settings.DATA_UPLOAD_MAX_MEMORY_SIZE == limits.IN_MEMORY


def test_a_larger_body_is_refused_before_it_is_read_and_before_who_sent_it_is_asked(client, db):
    for path, kind in (("/login/", "text/plain"), ("/api/v1/rules/check", "application/json")):
        at = {"content_type": "text/plain"}
        assert client.generic("POST", path, b"x" * limits.BODY, **at).status_code != 413
        refused = client.generic("POST", path, b"x" * (limits.BODY + 1), **at)
        assert refused.status_code == 413 and refused["Content-Type"].startswith(kind)
        assert b"1,000,000 bytes" in refused.content
        assert client.generic("POST", path, b"x", CONTENT_LENGTH="9" * 30, **at).status_code == 413


def of_ours(kind: type) -> list[type]:
    """Its subclasses, as far as the site's addresses lead to them."""
    names()
    found, waiting = [], [kind]
    while waiting:
        below = waiting.pop().__subclasses__()
        found += below
        waiting += below
    ours = [
        one for one in found if one.__module__.split(".")[0] in {app.name for app in apps.get_app_configs()}
    ]
    return sorted(set(ours), key=lambda one: (one.__module__, one.__qualname__))


def fields() -> Iterator[tuple[type, str, Any]]:
    for kind in of_ours(InputSerializer):
        for name, field in kind().fields.items():
            yield kind, name, field


def unbounded(field: Any) -> bool:
    if isinstance(field, serializers.ListSerializer):
        return field.max_length is None
    if isinstance(field, serializers.ListField):
        return field.max_length is None or unbounded(field.child)
    if isinstance(field, serializers.CharField):
        return field.max_length is None
    if isinstance(field, serializers.FloatField) and finite not in field.validators:
        return True
    if isinstance(field, serializers.IntegerField | serializers.FloatField):
        return field.max_value is None or field.min_value is None
    if isinstance(field, serializers.JSONField):
        return not field.validators
    return not isinstance(field, (*CHOSEN, InputSerializer))


def test_every_field_that_the_api_reads_has_a_limit() -> None:
    found = {(kind.__name__, name) for kind, name, field in fields() if unbounded(field)}
    assert found == BY_THE_BODY


def beyond(field: Any) -> list[Any]:
    """Values that are one more than the field takes."""
    if isinstance(field, serializers.ListSerializer):
        return [[{}] * (field.max_length + 1)]
    if isinstance(field, serializers.ListField):
        value = 1 if isinstance(field.child, serializers.IntegerField) else "x"
        return [[value] * (field.max_length + 1), *([one] for one in beyond(field.child))]
    if isinstance(field, serializers.CharField):
        return ["x" * (field.max_length + 1)]
    if isinstance(field, serializers.FloatField):
        return [field.max_value * 1.001, field.min_value - 1, "inf", "nan"]
    if isinstance(field, serializers.IntegerField):
        return [field.max_value + 1, field.min_value - 1]
    if isinstance(field, serializers.JSONField) and field.validators:
        return [{str(number): 0 for number in range(300)}, {"a": "x" * 3000}, [[]] * 300]
    return []


def test_what_is_one_beyond_the_limit_of_a_field_is_refused_at_that_field(db) -> None:
    taken, asked = [], 0
    for kind, name, field in fields():
        for value in beyond(field):
            asked += 1
            given = kind(data={name: value})
            if given.is_valid() or name not in given.errors:
                taken.append((kind.__name__, name, str(value)[:40]))
    assert taken == [] and asked > 100


def test_every_field_of_a_form_has_a_limit_and_holds_it(db) -> None:
    loose, taken = [], []
    for kind in of_ours(forms.Form):
        for name, field in kind.base_fields.items():  # type: ignore[attr-defined]
            at = f"{kind.__name__}.{name}"
            values: list[Any] = []
            if isinstance(field, forms.IntegerField):  # FloatField too
                if field.max_value is None or field.min_value is None:
                    loose.append(at)
                    continue
                values = [field.max_value + 1, field.min_value - 1]
            elif isinstance(field, forms.CharField):
                if field.max_length is None:
                    loose.append(at)
                    continue
                values = ["x" * (field.max_length + 1)]
            elif isinstance(field, forms.ChoiceField):
                values = [
                    ["no choice of ours"]
                    if isinstance(field, forms.MultipleChoiceField)
                    else "no choice of ours"
                ]
            for value in values:
                try:
                    field.clean(value)
                    taken.append(at)
                except ValidationError:
                    pass
    assert loose == [] and taken == []


WITH_A_BODY = [operation for operation in operations() if "application/json" in operation.bodies()]
NUMBERS = ("id", "number", "delivery")


def largest(said: dict[str, Any], most: int) -> Any:
    """The largest value of a schema, its lists of at most `most` things."""
    if reference := said.get("$ref"):
        return largest(description()["components"]["schemas"][reference.rpartition("/")[2]], most)
    for several in ("allOf", "oneOf", "anyOf"):
        if several in said:
            return largest(said[several][0], most)
    if "enum" in said:
        return said["enum"][-1]
    kind = said.get("type")
    if kind == "object" or "properties" in said:
        return {name: largest(part, most) for name, part in said.get("properties", {}).items()}
    if kind == "array":
        return [largest(said.get("items", {}), most)] * min(most, said.get("maxItems", most))
    if kind in ("integer", "number"):
        return min(said.get("maximum", 2**31), 2**31)
    if kind == "boolean":
        return True
    if said.get("format") in ("date-time", "date"):
        return "2026-11-23T00:00:00Z"[: 20 if said["format"] == "date-time" else 10]
    return "x" * said.get("maxLength", 20) if kind == "string" else {"x": "x" * 1000}


def most_of(operation: Operation) -> int:
    """Bytes of its largest JSON body."""
    own = limits.RULES_FILE if operation.path.endswith("/rules/import") else limits.IN_MEMORY
    return min(limits.most_bytes(place_of(operation, {})), own)


def largest_body(operation: Operation) -> bytes:
    said, body = operation.bodies()["application/json"]["schema"], b""
    for many in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000):
        found = json.dumps(largest(said, many)).encode()
        if len(found) > most_of(operation):
            break
        body = found
    return body


def place_of(operation: Operation, known: dict[str, list[int]]) -> str:
    """The operation's address, of a stored object where there is one."""
    path = operation.path
    first = path.split("/")[3]
    for name in NUMBERS:
        ids = known.get("delivery" if name == "delivery" else first, [])
        path = path.replace(f"{{{name}}}", str(ids[0] if ids else 1))
    return path.replace("{prompt}", "judge").replace("{name}", "Pay/Get0")


@pytest.fixture
def api(stored):  # noqa: F811
    """ask(operation, body) -> its answer, with nothing of it left behind"""
    client = APIClient(raise_request_exception=False, headers={"If-Match": '"1", "2", "3"'})
    client.force_authenticate(ChangeRequest.objects.get().author)

    def ask(operation: Operation, body: bytes, keep: bool = False) -> Any:
        with transaction.atomic():
            before = rows()
            answer = client.generic(
                operation.method, place_of(operation, stored), body, content_type="application/json"
            )
            if answer.status_code >= 400:
                assert set(answer.json()) == {"message", "code", "extra"} and len(answer.content) < 30_000
                assert rows() == before
            transaction.set_rollback(True)
        return answer

    return ask


def rows() -> dict[str, int]:
    ours = [
        model for model in apps.get_models() if model._meta.app_label in ("rules", "catalog", "synthesis")
    ]
    return {model.__name__: model.objects.count() for model in ours if model._meta.managed}


@pytest.mark.parametrize("operation", WITH_A_BODY, ids=str)
def test_the_largest_body_costs_little_and_one_beyond_is_refused(operation: Operation, api: Any) -> None:
    most, body = most_of(operation), largest_body(operation)
    full = body + b" " * (most - len(body))
    before = time.process_time()
    answer = api(operation, full)
    assert time.process_time() - before <= SECONDS
    away = answer.status_code == 503  # no engine in this test
    assert (answer.status_code < 500 or away) and answer.status_code != 413, answer.content
    tracemalloc.start()
    try:
        api(operation, full)
        assert tracemalloc.get_traced_memory()[1] <= MEMORY
    finally:
        tracemalloc.stop()
    assert api(operation, full + b" ").status_code == 413
    deep = b'{"x": ' + b"[" * DEEPEST + b"]" * DEEPEST + b"}"
    assert api(operation, deep).status_code in (400, 404)  # what is not there is not read for
