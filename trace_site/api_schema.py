"""What /api/v1/schema says once for every operation: keys, pages, ETags and the one error shape."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, inline_serializer
from rest_framework import serializers

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


def page_of(serializer: type[serializers.Serializer[Any]]) -> serializers.Serializer[Any]:
    """The answer of keyset_response, for extend_schema(responses=...)."""
    name = serializer.__name__.removesuffix("Serializer")
    fields = {
        "results": serializer(many=True),
        "next": serializers.CharField(allow_null=True, help_text="what ?after= takes; null on the last page"),
    }
    return inline_serializer(f"{name}Page", fields)


def describe_common(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """A postprocessing hook of drf-spectacular: refusals of every operation, the key of every POST."""
    result["components"].setdefault("schemas", {})["Error"] = ERROR
    for operations in result["paths"].values():
        for method, operation in operations.items():
            texts = dict(REFUSALS)
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
