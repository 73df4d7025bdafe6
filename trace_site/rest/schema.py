"""What the API reads and answers in every operation: pages, ETags, strict JSON; and how OpenAPI describes it."""

import inspect
import json
import math
import re
from collections.abc import Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import IO, Any

from django.apps import apps
from django.conf import settings
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, inline_serializer
from rest_framework import serializers
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

from trace_site.access import SAFE
from trace_site.lib.files import deeper_than, levels_of, storable_json, strict_json
from trace_site.lib.letters import entered_all
from trace_site.rest.shapes import Shape

PAGE_PARAMETERS = [
    OpenApiParameter("after", str, description="the `next` of the page before"),
    OpenApiParameter("limit", int, description="rows of a page, 1 to 200", default=50),
]
IF_MATCH = OpenApiParameter(
    "If-Match",
    str,
    OpenApiParameter.HEADER,
    required=True,
    description="the ETag that the object was read with",
    examples=[OpenApiExample("revision 3", value='"3"')],
)


def page_of(serializer: type[serializers.Serializer[Any]]) -> serializers.Serializer[Any]:
    """The answer of keyset_response, for extend_schema(responses=...)."""
    name = serializer.__name__.removesuffix("Serializer")
    fields = {
        "results": serializer(many=True),
        "next": serializers.CharField(allow_null=True, help_text="what ?after= takes; null on the last page"),
    }
    return inline_serializer(f"{name}Page", fields)


# What the API reads: one JSON object, without a key given twice or a field nobody knows.

DEEPEST = 100  # objects and lists inside one another
ID: dict[str, Any] = {"min_value": 0, "max_value": 2**53}
MOST_UNKNOWN = 20  # fields that a refusal names
MOST_VALUES = 200  # of a JSON field
LONGEST_VALUE = 2_000  # characters of a text in one


class StrictJSONParser(JSONParser):
    """JSON in UTF-8. Refuses NaN, a key given twice, text no database stores, and nesting that has no end.

    Texts come in one spelling."""

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        try:
            text = stream.read().decode("utf-8-sig")
            data = strict_json(text)
        except RecursionError as error:
            raise ParseError("The JSON is nested too deep.") from error
        except UnicodeDecodeError as error:
            raise ParseError(f"The body is not UTF-8: byte {error.start} fits no character.") from error
        except json.JSONDecodeError as error:
            raise ParseError(
                f"Not JSON: {error.msg} in line {error.lineno}, column {error.colno}."
            ) from error
        except ValueError as error:
            raise ParseError(str(error)) from error
        if deeper_than(DEEPEST, data):
            raise ParseError(f"The JSON is nested deeper than {DEEPEST} levels.")
        if not storable_json(data, text):
            raise ParseError("A text holds a NUL or half of a surrogate pair, which no database stores.")
        return entered_all(data)


def finite(value: float) -> None:
    """Of a number that is stored or compared. Raises ValidationError."""
    if not math.isfinite(value):
        raise serializers.ValidationError("Send a finite number.")


def few_values(value: Any) -> None:
    """Of a JSON field that any object may be sent in: as much as a recipe holds. Raises ValidationError."""
    for count, item in enumerate(chain.from_iterable(levels_of(value)), start=1):
        if isinstance(item, str) and len(item) > LONGEST_VALUE:
            raise serializers.ValidationError(f"A text in it is longer than {LONGEST_VALUE:,} characters.")
        if count > MOST_VALUES:
            raise serializers.ValidationError(f"It holds more than {MOST_VALUES} values.")


class InputSerializer(Shape):
    """A serializer that names what it does not know instead of dropping it."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping) and (unknown := sorted(set(map(str, data)) - set(self.fields))):
            known = ", ".join(self.fields) or "none"
            more = f" {len(unknown):,} fields are unknown." if len(unknown) > MOST_UNKNOWN else ""
            raise serializers.ValidationError(
                {
                    key[:80]: [f"There is no such field. Fields: {known}.{more}"]
                    for key in unknown[:MOST_UNKNOWN]
                }
            )
        if type(data) is dict and None in data.values():  # null is like left out
            data = {
                name: value for name, value in data.items() if value is not None or self._keeps_null(name)
            }
        return super().to_internal_value(data)

    def _keeps_null(self, name: str) -> bool:
        field = self.fields[name]
        return field.allow_null or (field.required and not self.partial)


# The OpenAPI document: what it says first, of an operation without being told, and once for every operation.

DESCRIPTION = """
Everything the site's pages do with the catalog, the rules and their review, for programs.

**Sign in.** Make a token on the account page and send `Authorization: Token <token>`. It may do what its owner may do,
and ends after a while and when its owner's password changes. A service token, which an admin makes for the account of a
program, has scopes: `retrieve`, `read` for GET, `write` for the rest. What people decide (approve, reject, apply,
schedule, bypass, review samples, promote, roll back) is refused to it. A signed-in browser may use the API as well; its
writes need the CSRF header.

**Errors** have one shape, `{"message", "code", "extra"}`: a sentence for people, a stable code for programs, facts.
400 wrong input (`extra` names the fields) · 401 no token, or one that has ended · 403 `not_allowed` · 404 `not_found` ·
409 `conflict`, `frozen`, `stale_revision`, `bad_state`, `findings` · 412 somebody changed it meanwhile ·
413 too large · 415 not JSON · 422 `key_reused` · 428 `If-Match` is missing · 429 too many requests ·
503 ask again after `Retry-After`; without it, something stored is missing or damaged (`store_corrupt`).

**Repeating a POST.** Send an `Idempotency-Key` (a UUID). The same request with the same key within 24 hours has its
effect once; the stored answer comes back with `Idempotent-Replayed: true`. Another request with that key is refused
with 422, one that is still running with 409. Refused requests are not stored: mend them and send the key again.

**Lists** are read in pages: `?limit=` (1 to 200, default 50) and `?after=`, which is the `next` of the page before.
`next` is null on the last page.

**Edits** of versioned objects need `If-Match` with the `ETag` that the object was read with.

**Webhooks** tell another server what happened. Each delivery is a POST with the headers `X-Trace-Event`,
`X-Trace-Delivery` (the same on every retry) and `X-Trace-Signature: t=<unix time>,v1=<hex>`, where `v1` is the
HMAC-SHA256 of `<t>.<body>` under the webhook's secret.
"""

TAGS = [
    {"name": "retrieve", "description": "Which tools answer a request."},
    {"name": "catalog", "description": "Domains, tools, imports and look-alikes."},
    {"name": "rules", "description": "Rules, their versions and findings."},
    {"name": "change-requests", "description": "Changes of rules, from draft to applied."},
    {"name": "synthesis", "description": "Runs of the writers, samples with every attempt, yield per rule."},
    {
        "name": "snapshots",
        "description": "Frozen datasets: composition, card, files, and what differs between two.",
    },
    {"name": "training", "description": "Runs, their stages and curves, and what a run would take."},
    {
        "name": "evaluation",
        "description": "What rules tell apart in each domain, and whether a model may take the champion's place.",
    },
    {"name": "audit", "description": "Who did what, when, before and after."},
    {"name": "webhooks", "description": "Events sent to other servers, and their delivery log."},
]
IDEMPOTENCY_KEY = {
    "in": "header",
    "name": "Idempotency-Key",
    "schema": {"type": "string", "maxLength": 200},
    "description": "repeat the request safely: the same key has its effect once in 24 hours",
    "example": "7b0f6f0e-6f0a-4a56-9b39-3d6c1f4b2a10",
}
ERROR = {
    "type": "object",
    "required": ["message", "code", "extra"],
    "properties": {
        "message": {"type": "string", "example": "/text: This field is required."},
        "code": {"type": "string", "example": "bad_input"},
        "extra": {"type": "object", "additionalProperties": {}},
    },
}
REFUSALS = {
    "400": "wrong input",
    "401": "no token, or an unknown one",
    "403": "not allowed",
    "429": "too many requests; see Retry-After",
}
ON_CREATE = {
    "409": "a request with this key still runs, or a clash",
    "422": "the key belongs to another request",
}
ON_EDIT = {"412": "somebody changed it meanwhile", "428": "If-Match is missing"}
TAGS_BY_ROOM = {
    "tools": "catalog",
    "domains": "catalog",
    "clusters": "catalog",
    "imports": "catalog",
    "queries": "catalog",
    "rule-suggestions": "rules",
    "coverage": "evaluation",
    "changes": "change-requests",
    "review": "synthesis",
}
PEOPLE_DECIDE = "People decide this: a service token gets 403."
VERBS = {"GET": "read", "POST": "create", "PUT": "save", "PATCH": "change", "DELETE": "remove"}


class OperationSchema(AutoSchema):
    """`operation_ids` of a view names what its class's name does not tell."""

    def get_tags(self) -> list[str]:
        room = self.path.split("/")[3]
        return [TAGS_BY_ROOM.get(room, room)]

    def get_operation_id(self) -> str:
        said: dict[str, str] = getattr(self.view, "operation_ids", {})
        return said.get(self.method.lower()) or operation_id(type(self.view).__name__, self.method)

    def get_summary(self) -> str:
        return self._sentences()[0]

    def get_description(self) -> str:  # type: ignore[override]  # as drf-spectacular does
        return self._sentences()[1]

    def _sentences(self) -> tuple[str, str]:
        """The first sentence of the method's docstring without its full stop, and the rest."""
        told = " ".join((inspect.getdoc(getattr(self.view, self.method.lower())) or "").split())
        summary, _, rest = told.partition(". ")
        decides = getattr(self.view, "decides", False) and self.method not in SAFE
        return summary.removesuffix("."), f"{rest} {PEOPLE_DECIDE}".strip() if decides else rest

    def get_override_parameters(self) -> list[Any]:
        answers = self.get_response_serializers()
        answer: Any = answers.get(200) if isinstance(answers, dict) else answers
        if isinstance(answer, type):
            answer = answer()
        return PAGE_PARAMETERS if {"results", "next"} <= set(getattr(answer, "fields", ())) else []

    def get_request_serializer(self) -> Any:
        return None

    def get_response_serializers(self) -> Any:
        return {204: None}


def operation_id(view: str, method: str) -> str:
    """ToolsList: tools_list, tool_create. ToolOne: tool_read, tool_change... Of any other view its name."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", view).lower()
    if name.endswith("_one"):
        return f"{name.removesuffix('_one')}_{VERBS[method]}"
    if name.endswith("s_list") and method == "POST":
        return f"{name.removesuffix('s_list')}_create"
    return name


def describe_common(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """A postprocessing hook of drf-spectacular: what the document says first, and of every operation its
    refusals, its examples and the key of a POST."""
    result["info"]["description"], result["tags"] = DESCRIPTION, TAGS
    result["components"].setdefault("schemas", {})["Error"] = ERROR
    for path, operations in result["paths"].items():
        for method, operation in operations.items():
            texts = dict(REFUSALS)
            if "{" in path:
                texts["404"] = "no such object"
            if method == "post" and operation["tags"] != ["retrieve"]:  # asking again is answered anew
                operation.setdefault("parameters", []).append(IDEMPOTENCY_KEY)
                texts |= ON_CREATE
            if any(parameter["name"] == "If-Match" for parameter in operation.get("parameters", [])):
                texts |= ON_EDIT
            for status, text in texts.items():
                operation["responses"].setdefault(status, {"description": text})
            for status, answer in operation["responses"].items():
                if status >= "400" and "content" not in answer:
                    answer["content"] = {
                        "application/json": {"schema": {"$ref": "#/components/schemas/Error"}}
                    }
            show_examples(operation)
    return result


# The examples that the API's description shows. They stand in the examples.json of each feature, found by name:
#
#     "RuleRow": {...}                            that shape, where it is read or answered, alone, listed or in a page
#     "tool_block 200": {...}                     what this operation answers, instead of its shape's example
#     "tool_block 409 blocked already": {...}     one more, with a name
#     "change_add request withdraw a rule": {...} the same of a body
#
# An object with "$ref" is the example of that name in its file, with the object's other fields in place of its own.
# Names of other kinds are parts that a file refers to so. Refusals have no shape of their own: only what is named is
# shown.


@cache
def examples() -> dict[str, Any]:
    """{name: value} of every examples.json."""
    homes = [Path(app.path) for app in apps.get_app_configs() if Path(app.path).parent == settings.BASE_DIR]
    shown: dict[str, Any] = {}
    for file in (file for home in homes for file in sorted(home.rglob("examples.json"))):
        found = json.loads(file.read_text("utf-8"))
        shown |= {name: _whole(value, found) for name, value in found.items()}
    return shown


def _whole(value: Any, found: dict[str, Any]) -> Any:
    """An example with what it refers to."""
    if isinstance(value, list):
        return [_whole(item, found) for item in value]
    if not isinstance(value, dict):
        return value
    own = {name: _whole(item, found) for name, item in value.items() if name != "$ref"}
    if "$ref" not in value:
        return own
    base = _whole(found[value["$ref"]], found)
    return {**base, **own} if own else base


def show_examples(operation: dict[str, Any]) -> None:
    """Adds to a described operation the examples of its JSON body and answers."""
    contents = {"request": operation.get("requestBody", {}), **operation["responses"]}
    for place, said in contents.items():
        if json_content := said.get("content", {}).get("application/json"):
            name = "request" if place == "request" else "answer"
            if shown := _shown(name, f"{operation['operationId']} {place}", json_content["schema"]):
                json_content["examples"] = {title: {"value": value} for title, value in shown.items()}


def _shown(name: str, place: str, schema: dict[str, Any]) -> dict[str, Any]:
    """{title: example}; `name` is the title of the one that has none of its own."""
    usual = examples()[place] if place in examples() else _of_schema(schema)
    named = {key[len(place) + 1 :]: value for key, value in examples().items() if key.startswith(f"{place} ")}
    return ({} if usual is None else {name: usual}) | named


def _of_schema(schema: dict[str, Any]) -> Any:
    """The example of a shape, of a list or of a page, whose `next` is the id of its last row; None: there is none."""
    if "items" in schema:
        row = _of_schema(schema["items"])
        return None if row is None else [row]
    shape = schema.get("$ref", "").rpartition("/")[2].removesuffix("Request").removeprefix("Patched")
    row = examples().get(shape.removesuffix("Page"))
    if shape in examples() or row is None:
        return examples().get(shape)
    return {"results": [row], "next": str(row["id"]) if "id" in row else None}
