"""How the API's description shows an example: of a request, of an answer, of a page of rows."""

import json
from pathlib import Path
from typing import Any

from drf_spectacular.utils import OpenApiExample

AT = "2026-11-21T09:00:00Z"


def examples_beside(module: str) -> dict[str, Any]:
    """{name: value} of the examples.json in the folder of a module's file."""
    found: dict[str, Any] = json.loads(Path(module).with_name("examples.json").read_text("utf-8"))
    return found


def request_example(value: Any, name: str = "request") -> OpenApiExample:
    return OpenApiExample(name, value=value, request_only=True)


def answer_example(value: Any, status: int = 200, name: str = "answer") -> OpenApiExample:
    return OpenApiExample(name, value=value, response_only=True, status_codes=[str(status)])


def page_example(row: Any, following: Any = None) -> OpenApiExample:
    return answer_example({"results": [row], "next": following})
