"""What a rule says: `RuleContent`, and its exchange format as JSON Schema 2020-12.

The format is the paper's three fields and four optional ones. Names stay names, the database never enters.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from trace_site.lib.files import content_hash, storable

# characters, and things in a list
LONGEST_NAME, LONGEST_SENTENCE, LONGEST_RULE = 400, 2000, 10_000
LONGEST_SIGNAL, LONGEST_CODE, LONGEST_DOMAIN = 200, 80, 60
MOST_CONFUSABLES = MOST_SIGNALS = MOST_TESTS = 200
MOST_CLAUSES = 100
MOST_EXPECTED = MOST_CONFUSABLES + 1  # tools of a test: all that the rule names
MOST_PROBLEMS = 20  # told of one rule; a file of nothing but mistakes must not cost minutes
LONGEST_SHOWN = 80
CODE_PATTERN = "^[A-Z][A-Z0-9_]*$"


def _text(longest: int, pattern: str = r"\S") -> dict[str, Any]:
    return {"type": "string", "pattern": pattern, "maxLength": longest}


def _names(most: int) -> dict[str, Any]:
    return {"type": "array", "items": NAME, "minItems": 1, "maxItems": most, "uniqueItems": True}


NAME = {"type": "string", "minLength": 3, "maxLength": LONGEST_NAME}
CLAUSE = {
    "type": "object",
    "required": ["when", "route_to"],
    "properties": {
        "when": _text(LONGEST_SENTENCE),
        "route_to": NAME,
        "exception": {"type": "boolean"},
        "signals": {"type": "array", "items": _text(LONGEST_SIGNAL), "maxItems": MOST_SIGNALS},
    },
}
TEST = {
    "type": "object",
    "required": ["query", "tools"],
    "properties": {"query": _text(LONGEST_SENTENCE), "tools": _names(MOST_EXPECTED)},
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
        "confusables": _names(MOST_CONFUSABLES),
        "rule_text": _text(LONGEST_RULE),
        "code": _text(LONGEST_CODE, CODE_PATTERN),
        "domain": _text(LONGEST_DOMAIN),
        "clauses": {"type": "array", "items": CLAUSE, "maxItems": MOST_CLAUSES},
        "tests": {"type": "array", "items": TEST, "maxItems": MOST_TESTS},
    },
}
FIELDS = tuple(RULE_SCHEMA["properties"])
TYPE_WORDS = {"object": "an object", "array": "a list", "string": "text", "boolean": "true or false"}
VALUE_WORDS = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list"}


@dataclass(frozen=True, slots=True)
class RuleContent:
    """What one version of a rule says."""

    target: str
    confusables: tuple[str, ...]
    text: str
    clauses: tuple[dict[str, Any], ...] = ()
    tests: tuple[dict[str, Any], ...] = ()

    @property
    def tools(self) -> tuple[str, ...]:
        """T(r) = {target} + confusables."""
        return (self.target, *self.confusables)

    def content_hash(self) -> str:
        """The order of the confusables says nothing, so it is not hashed."""
        return content_hash(asdict(self) | {"confusables": sorted(self.confusables)})

    def names(self) -> list[tuple[str, str]]:
        """(JSON pointer, name) of every tool the content mentions in a field."""
        named = [("/tool_name", self.target)]
        named += [(f"/confusables/{i}", name) for i, name in enumerate(self.confusables)]
        named += [(f"/clauses/{i}/route_to", clause["route_to"]) for i, clause in enumerate(self.clauses)]
        for i, test in enumerate(self.tests):
            named += [(f"/tests/{i}/tools/{j}", name) for j, name in enumerate(test["tools"])]
        return named


def pointed_row(pointer: str) -> tuple[str, int | None]:
    """The field and the row of it that a JSON pointer leads to: `/clauses/1/route_to` -> ("clauses", 1)."""
    name, _, rest = pointer.lstrip("/").partition("/")
    number = rest.partition("/")[0]
    return name, int(number) if number.isdecimal() else None


def make_content(
    *,
    target: str,
    confusables: Sequence[str],
    text: str,
    clauses: Iterable[Mapping[str, Any]] = (),
    tests: Iterable[Mapping[str, Any]] = (),
) -> RuleContent:
    """Trim texts, fill the optional fields of clauses, drop what the format does not know."""
    return RuleContent(
        target=target.strip(),
        confusables=tuple(name.strip() for name in confusables),
        text=text.strip(),
        clauses=tuple(
            {
                "when": clause["when"].strip(),
                "route_to": clause["route_to"].strip(),
                "exception": bool(clause.get("exception", False)),
                "signals": [signal.strip() for signal in clause.get("signals", []) if signal.strip()],
            }
            for clause in clauses
        ),
        tests=tuple(
            {"query": test["query"].strip(), "tools": [name.strip() for name in test["tools"]]}
            for test in tests
        ),
    )


def to_json(content: RuleContent, *, code: str, domain: str) -> dict[str, Any]:
    """One rule in the exchange format; importing it again changes nothing."""
    return {
        "code": code,
        "domain": domain,
        "tool_name": content.target,
        "confusables": list(content.confusables),
        "rule_text": content.text,
        "clauses": [{key: row[key] for key in CLAUSE["properties"] if key in row} for row in content.clauses],
        "tests": [{key: row[key] for key in TEST["properties"] if key in row} for row in content.tests],
    }


class RepeatedKeys(dict[str, Any]):
    """A JSON object in which `repeated` was given more than once; plain JSON parsers drop the first one silently."""

    repeated: str = ""


def keep_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object_pairs_hook that remembers a key given twice until the rule it stands in is checked."""
    found = dict(pairs)
    if len(found) < len(pairs):
        found = RepeatedKeys(found)
        found.repeated = Counter(key for key, _ in pairs).most_common(1)[0][0]
    return found


def _items(validator: Any, items: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """A list that is too long is one mistake, however many mistakes it holds."""
    if isinstance(instance, list) and len(instance) <= schema.get("maxItems", len(instance)):
        yield from Draft202012Validator.VALIDATORS["items"](validator, items, instance, schema)


def _unique(validator: Any, unique: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Names are compared as they are stored, trimmed; other values are somebody else's mistake."""
    names = [item.strip() for item in instance if isinstance(item, str)] if isinstance(instance, list) else []
    if len(set(names)) < len(names):
        yield ValidationError("names the same tool twice")


_validator = extend(Draft202012Validator, {"items": _items, "uniqueItems": _unique})(RULE_SCHEMA)


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
    rows = (
        value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, item in rows:
        yield from _flaws(item, f"{pointer}/{_escape(str(key))}")


def _sentence(error: ValidationError) -> str:
    value: Any = error.instance
    limit: Any = error.validator_value
    shown = value[:LONGEST_SHOWN] + "…" * (len(value) > LONGEST_SHOWN) if isinstance(value, str) else ""
    match error.validator:
        case "required":
            return f"'{next(key for key in limit if key not in value)}' is missing."
        case "type":
            kind = "null" if value is None else "an object" if isinstance(value, dict) else ""
            kind = kind or VALUE_WORDS.get(type(value), type(value).__name__)
            return f"must be {TYPE_WORDS.get(str(limit), str(limit))}, not {kind}."
        case "pattern" if limit == CODE_PATTERN:
            return f"'{shown}' is not a rule code; write capitals, digits and underscores, such as PAYOUT_VERSION."
        case "pattern" | "minItems":
            return "is empty."
        case "minLength":
            return f"'{shown}' is not a tool name; write API/ENDPOINT."
        case "maxLength":
            return f"has {len(value):,} characters ('{shown}'); the limit is {limit:,}."
        case "maxItems":
            return f"lists {len(value):,} things; the limit is {limit:,}."
    return f"{error.message}."


def _escape(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")
