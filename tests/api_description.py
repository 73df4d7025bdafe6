"""The API's own description as tests read it: its operations, and schemas that a JSON Schema validator understands."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from drf_spectacular.generators import SchemaGenerator


@dataclass(frozen=True, eq=False)
class Operation:
    """`path` is the template, such as /api/v1/rules/{id}."""

    method: str
    path: str
    said: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    def answers(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """(status, media type, what is said of it)"""
        for status, answer in self.said["responses"].items():
            for media, content in answer.get("content", {}).items():
                yield status, media, content

    def bodies(self) -> dict[str, dict[str, Any]]:
        body: dict[str, dict[str, Any]] = self.said.get("requestBody", {}).get("content", {})
        return body

    def examples(self, content: dict[str, Any]) -> list[Any]:
        return [example["value"] for example in content.get("examples", {}).values()]


@cache
def description() -> dict[str, Any]:
    found: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return found


def operations() -> list[Operation]:
    return [
        Operation(method.upper(), path, said)
        for path, methods in description()["paths"].items()
        for method, said in methods.items()
    ]


def json_schema(said: Any) -> Any:
    """An OpenAPI 3.0 schema as JSON Schema: references followed, `nullable` made a type."""
    if isinstance(said, list):
        return [json_schema(item) for item in said]
    if not isinstance(said, dict):
        return said
    if "$ref" in said:
        return json_schema(description()["components"]["schemas"][said["$ref"].rsplit("/", 1)[1]])
    turned = {key: json_schema(value) for key, value in said.items() if key not in ("nullable", "example")}
    return {"anyOf": [turned, {"type": "null"}]} if said.get("nullable") else turned
