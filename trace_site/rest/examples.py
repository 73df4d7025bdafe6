"""The examples that the API's description shows. They stand in the examples.json of each feature, found by name:

    "RuleRow": {...}                            that shape, wherever it is read or answered, alone, listed or in a page
    "tool_block 200": {...}                     what this operation answers, instead of its shape's example
    "tool_block 409 blocked already": {...}     one more, with a name
    "change_add request withdraw a rule": {...} the same of a body

An object with "$ref" is the example of that name in its file, with the object's other fields in place of its own. Names
of other kinds are parts that a file refers to so. Refusals have no shape of their own: only what is named is shown.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings


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
