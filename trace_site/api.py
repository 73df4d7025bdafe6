"""The one error shape of the REST API: {"message", "code", "extra"}."""

import json
from typing import Any

from rest_framework.response import Response
from rest_framework.views import exception_handler

from trace_site.lib.errors import TraceError

STATUS = {"not_found": 404, "conflict": 409, "forbidden": 403, "unavailable": 503}


def handle_error(error: Exception, context: dict[str, Any]) -> Response | None:
    if isinstance(error, TraceError):
        refusal = Response(error.as_dict(), status=STATUS.get(error.code, 400))
        if refusal.status_code == 503:
            refusal["Retry-After"] = "1"
        return refusal
    response = exception_handler(error, context)
    if response is not None:
        detail = getattr(error, "detail", None)
        response.data = {
            "message": str(detail if isinstance(detail, str) else getattr(error, "default_detail", error)),
            "code": getattr(error, "default_code", "error"),
            "extra": json.loads(json.dumps(response.data)),  # plain text, which every renderer can write
        }
    return response
