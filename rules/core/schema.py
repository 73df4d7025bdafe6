"""The exchange format of rules: the paper's three fields and four optional ones, as JSON Schema 2020-12."""

from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

NAME = {"type": "string", "minLength": 3, "maxLength": 400}
SENTENCE = {"type": "string", "pattern": r"\S", "maxLength": 2000}
CODE_PATTERN = "^[A-Z][A-Z0-9_]*$"

CLAUSE = {
    "type": "object",
    "required": ["when", "route_to"],
    "properties": {
        "when": SENTENCE,
        "route_to": NAME,
        "exception": {"type": "boolean"},
        "signals": {"type": "array", "items": {"type": "string", "pattern": r"\S", "maxLength": 200}},
    },
}
TEST = {
    "type": "object",
    "required": ["query", "tools"],
    "properties": {
        "query": SENTENCE,
        "tools": {"type": "array", "items": NAME, "minItems": 1, "uniqueItems": True},
    },
}
RULE_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "TRACE business rule",
    "description": "T(r) is the target and its confusables. Fields not listed here are ignored.",
    "type": "object",
    "required": ["tool_name", "confusables", "rule_text"],
    "properties": {
        "tool_name": NAME,
        "confusables": {"type": "array", "items": NAME, "minItems": 1, "maxItems": 200, "uniqueItems": True},
        "rule_text": {"type": "string", "pattern": r"\S", "maxLength": 10_000},
        "code": {"type": "string", "pattern": CODE_PATTERN, "maxLength": 80},
        "domain": {"type": "string", "pattern": r"\S", "maxLength": 60},
        "clauses": {"type": "array", "items": CLAUSE, "maxItems": 100},
        "tests": {"type": "array", "items": TEST, "maxItems": 200},
    },
}
_validator = Draft202012Validator(RULE_SCHEMA)
TYPE_WORDS = {
    "object": "an object",
    "array": "a list",
    "string": "text",
    "boolean": "true or false",
}


def schema_problems(entry: Any) -> Iterator[tuple[str, str]]:
    """(JSON pointer inside the entry, sentence) for everything the schema refuses, in document order."""
    for error in sorted(_validator.iter_errors(entry), key=lambda error: [str(part) for part in error.path]):
        pointer = "".join(f"/{_escape(str(part))}" for part in error.absolute_path)
        yield pointer, _sentence(error)


def _sentence(error: ValidationError) -> str:
    value: Any = error.instance
    match error.validator:
        case "required":
            required: Any = error.validator_value
            return f"'{next(key for key in required if key not in value)}' is missing."
        case "type":
            wanted = TYPE_WORDS.get(str(error.validator_value), str(error.validator_value))
            return f"must be {wanted}, not {_kind(value)}."
        case "pattern" if error.validator_value == CODE_PATTERN:
            return f"'{value}' is not a rule code; write capitals, digits and underscores, such as PAYOUT_VERSION."
        case "pattern" | "minItems":
            return "is empty."
        case "minLength":
            return f"'{value}' is not a tool name; write API/ENDPOINT."
        case "uniqueItems":
            return "names the same tool twice."
    return f"{error.message}."


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    kinds = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "text",
        list: "a list",
        dict: "an object",
    }
    return kinds.get(type(value), type(value).__name__)


def _escape(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")
