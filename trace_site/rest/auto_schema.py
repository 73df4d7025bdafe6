"""What the OpenAPI document says of an operation without being told: tag, id, summary, description, keys of pages."""

import inspect
import re
from typing import Any

from drf_spectacular.openapi import AutoSchema

from trace_site.rest.schema import PAGE_PARAMETERS

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
