"""The exchange format of rules: the paper's three fields and four optional ones, as JSON Schema 2020-12."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from trace_site.lib.files import storable

# characters, and things in a list
LONGEST_NAME, LONGEST_SENTENCE, LONGEST_RULE = 400, 2000, 10_000
LONGEST_SIGNAL, LONGEST_CODE, LONGEST_DOMAIN = 200, 80, 60
MOST_CONFUSABLES = MOST_SIGNALS = MOST_TESTS = 200
MOST_CLAUSES = 100
MOST_EXPECTED = MOST_CONFUSABLES + 1  # tools of a test: all that the rule names
NAME = {"type": "string", "minLength": 3, "maxLength": LONGEST_NAME}
SENTENCE = {"type": "string", "pattern": r"\S", "maxLength": LONGEST_SENTENCE}
CODE_PATTERN = "^[A-Z][A-Z0-9_]*$"

CLAUSE = {
    "type": "object",
    "required": ["when", "route_to"],
    "properties": {
        "when": SENTENCE,
        "route_to": NAME,
        "exception": {"type": "boolean"},
        "signals": {
            "type": "array",
            "items": {"type": "string", "pattern": r"\S", "maxLength": LONGEST_SIGNAL},
            "maxItems": MOST_SIGNALS,
        },
    },
}
TEST = {
    "type": "object",
    "required": ["query", "tools"],
    "properties": {
        "query": SENTENCE,
        "tools": {
            "type": "array",
            "items": NAME,
            "minItems": 1,
            "maxItems": MOST_EXPECTED,
            "uniqueItems": True,
        },
    },
}
RULE_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "TRACE business rule",
    "description": "T(r) is the target and its confusables. Texts are trimmed at both ends. Fields not listed here "
    "are not kept; an import names them.",
    "type": "object",
    "required": ["tool_name", "confusables", "rule_text"],
    "properties": {
        "tool_name": NAME,
        "confusables": {
            "type": "array",
            "items": NAME,
            "minItems": 1,
            "maxItems": MOST_CONFUSABLES,
            "uniqueItems": True,
        },
        "rule_text": {"type": "string", "pattern": r"\S", "maxLength": LONGEST_RULE},
        "code": {"type": "string", "pattern": CODE_PATTERN, "maxLength": LONGEST_CODE},
        "domain": {"type": "string", "pattern": r"\S", "maxLength": LONGEST_DOMAIN},
        "clauses": {"type": "array", "items": CLAUSE, "maxItems": MOST_CLAUSES},
        "tests": {"type": "array", "items": TEST, "maxItems": MOST_TESTS},
    },
}
FIELDS = tuple(RULE_SCHEMA["properties"])
TYPE_WORDS = {"object": "an object", "array": "a list", "string": "text", "boolean": "true or false"}
LONGEST_SHOWN = 80
MOST_PROBLEMS = 20  # told of one rule; a file of nothing but mistakes must not cost minutes


class RepeatedKeys(dict[str, Any]):
    """A JSON object in which `repeated` was given more than once; plain JSON parsers drop the first one silently."""

    repeated: str = ""


def keep_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object_pairs_hook that remembers a key given twice until the rule it stands in is checked."""
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    seen: set[str] = set()
    marked = RepeatedKeys(found)
    marked.repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
    return marked


def _items(validator: Any, items: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """A list that is too long is one mistake, however many mistakes it holds."""
    if isinstance(instance, list) and len(instance) <= schema.get("maxItems", len(instance)):
        yield from Draft202012Validator.VALIDATORS["items"](validator, items, instance, schema)


def _unique(validator: Any, unique: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Names are compared as they are stored, trimmed; other values are somebody else's mistake."""
    names = [item.strip() for item in instance if isinstance(item, str)] if isinstance(instance, list) else []
    if len(set(names)) < len(names):
        yield ValidationError("names the same tool twice")


_Validator = extend(Draft202012Validator, {"items": _items, "uniqueItems": _unique})
_validator = _Validator(RULE_SCHEMA)


def schema_problems(entry: Any) -> Iterator[tuple[str, str]]:
    """(JSON pointer inside the entry, sentence) for what the schema refuses, in document order."""
    errors = list(islice(_validator.iter_errors(entry), MOST_PROBLEMS))
    for error in sorted(errors, key=lambda error: [str(part) for part in error.path]):
        yield "".join(f"/{_escape(str(part))}" for part in error.absolute_path), _sentence(error)
    if not errors:
        yield from _flaws({key: entry[key] for key in FIELDS if key in entry}, "")
        if isinstance(entry, RepeatedKeys):
            yield f"/{_escape(entry.repeated)}", "stands twice in one object; keep one."


def unknown_fields(entry: Any) -> set[str]:
    """Fields of a valid entry that the format does not know: `evidence`, `clauses.comment`."""
    found = set(entry) - set(FIELDS)
    for key, part in (("clauses", CLAUSE), ("tests", TEST)):
        known: Any = part["properties"]
        found |= {f"{key}.{name}" for item in entry.get(key, []) for name in item if name not in known}
    return found


def _flaws(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    """What no schema can say: text that cannot be stored, and keys given twice. `value` is valid, so not deep."""
    if isinstance(value, RepeatedKeys):
        yield f"{pointer}/{_escape(value.repeated)}", "stands twice in one object; keep one."
    if isinstance(value, str) and not storable(value):
        yield (
            pointer,
            "holds a character that cannot be stored (NUL or half of a surrogate pair); take it out.",
        )
    inner = (
        value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, item in inner:
        yield from _flaws(item, f"{pointer}/{_escape(str(key))}")


def _sentence(error: ValidationError) -> str:
    value: Any = error.instance
    limit: Any = error.validator_value
    match error.validator:
        case "required":
            return f"'{next(key for key in limit if key not in value)}' is missing."
        case "type":
            return f"must be {TYPE_WORDS.get(str(limit), str(limit))}, not {_kind(value)}."
        case "pattern" if limit == CODE_PATTERN:
            return (
                f"'{_shown(value)}' is not a rule code; write capitals, digits and underscores, "
                "such as PAYOUT_VERSION."
            )
        case "pattern" | "minItems":
            return "is empty."
        case "minLength":
            return f"'{_shown(value)}' is not a tool name; write API/ENDPOINT."
        case "maxLength":
            return f"has {len(value):,} characters ('{_shown(value)}'); the limit is {limit:,}."
        case "maxItems":
            return f"lists {len(value):,} things; the limit is {limit:,}."
    return f"{error.message}."


def _shown(value: str) -> str:
    return value if len(value) <= LONGEST_SHOWN else f"{value[:LONGEST_SHOWN]}…"


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    kinds = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list"}
    return "an object" if isinstance(value, dict) else kinds.get(type(value), type(value).__name__)


def _escape(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")
