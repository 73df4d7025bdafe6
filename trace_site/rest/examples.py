"""How the API's description shows an example: of a request, of an answer, of a page of rows."""

import json
from pathlib import Path
from typing import Any

from drf_spectacular.utils import OpenApiExample

AT = "2026-11-21T09:00:00Z"


def examples_beside(module: str) -> dict[str, Any]:
    """{name: value} of the examples.json in the folder of a module's file.

    An object with "$ref" is the example of that name, with the object's other fields in place of its own.
    """
    found: dict[str, Any] = json.loads(Path(module).with_name("examples.json").read_text("utf-8"))

    def whole(value: Any) -> Any:
        if isinstance(value, list):
            return [whole(item) for item in value]
        if not isinstance(value, dict):
            return value
        base = whole(found[value["$ref"]]) if "$ref" in value else {}
        return base | {name: whole(item) for name, item in value.items() if name != "$ref"}

    return {name: whole(value) for name, value in found.items()}


def request_example(value: Any, name: str = "request") -> OpenApiExample:
    return OpenApiExample(name, value=value, request_only=True)


def answer_example(value: Any, status: int = 200, name: str = "answer") -> OpenApiExample:
    return OpenApiExample(name, value=value, response_only=True, status_codes=[str(status)])


def page_example(row: Any, following: Any = None) -> OpenApiExample:
    return answer_example({"results": [row], "next": following})
