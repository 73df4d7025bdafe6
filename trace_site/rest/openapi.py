"""The OpenAPI document: what it says first, of an operation without being told, and once for every operation."""

import inspect
import re
from typing import Any

from drf_spectacular.openapi import AutoSchema

from trace_site.rest.schema import PAGE_PARAMETERS

DESCRIPTION = """
Everything the site's pages do with the catalog, the rules and their review, for programs.

**Sign in.** Make a token on the account page and send `Authorization: Token <token>`. It may do what its owner may do,
and ends after a while and when its owner's password changes. A service token, which an admin makes, has scopes:
`retrieve`, `read` for GET, `write` for the rest. A signed-in browser may use the API as well; its writes need the CSRF
header.

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
    "changes": "change-requests",
    "review": "synthesis",
}
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
        return summary.removesuffix("."), rest

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
    """A postprocessing hook of drf-spectacular: what the document says first, refusals, the key of every POST."""
    result["info"]["description"], result["tags"] = DESCRIPTION, TAGS
    result["components"].setdefault("schemas", {})["Error"] = ERROR
    for path, operations in result["paths"].items():
        for method, operation in operations.items():
            texts = dict(REFUSALS)
            if "{" in path:
                texts["404"] = "no such object"
            if method == "post":
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
    return result
