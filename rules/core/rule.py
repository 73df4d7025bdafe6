"""What one version of a rule says: `RuleContent`, the list of its fields, and its hash.

Each field stands here once: its name, its key in the exchange format and the API, what people call it, what it may
hold. Draft, form, exchange, API, difference and pages follow.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, get_type_hints

from trace_site.lib.files import content_hash

# characters, and things in a list
LONGEST_NAME, LONGEST_SENTENCE, LONGEST_RULE, LONGEST_SIGNAL = 400, 2000, 10_000, 200
MOST_CONFUSABLES = MOST_SIGNALS = MOST_TESTS = 200
MOST_CLAUSES = 100
MOST_EXPECTED = MOST_CONFUSABLES + 1  # tools of a test: all that the rule names


@dataclass(frozen=True, slots=True)
class RuleField:
    """`schema`: JSON Schema of its value. `help` is told beside a plain field, and in the API."""

    key: str
    label: str
    schema: dict[str, Any]
    help: str = ""

    @property
    def choices(self) -> list[str]:
        """What may be chosen beside nothing; none: any text."""
        return self.schema.get("enum", [""])[1:]


def written(longest: int, pattern: str = r"\S") -> dict[str, Any]:
    return {"type": "string", "pattern": pattern, "maxLength": longest}


def optional_text(longest: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": longest}


def choice(*values: str) -> dict[str, Any]:
    return {"type": "string", "enum": ["", *values]}


def tool_names(most: int) -> dict[str, Any]:
    return {"type": "array", "items": NAME, "minItems": 1, "maxItems": most, "uniqueItems": True}


NAME = {"type": "string", "minLength": 3, "maxLength": LONGEST_NAME}
CLAUSE = {
    "type": "object",
    "required": ["when", "route_to"],
    "properties": {
        "when": written(LONGEST_SENTENCE),
        "route_to": NAME,
        "exception": {"type": "boolean"},
        "signals": {"type": "array", "items": written(LONGEST_SIGNAL), "maxItems": MOST_SIGNALS},
    },
}
TEST = {
    "type": "object",
    "required": ["query", "tools"],
    "properties": {"query": written(LONGEST_SENTENCE), "tools": tool_names(MOST_EXPECTED)},
}
CLAUSES = {"type": "array", "items": CLAUSE, "maxItems": MOST_CLAUSES}
TESTS = {"type": "array", "items": TEST, "maxItems": MOST_TESTS}


@dataclass(frozen=True, slots=True)
class RuleContent:
    """What one version of a rule says."""

    target: Annotated[str, RuleField("tool_name", "The target", NAME)]
    confusables: Annotated[
        tuple[str, ...], RuleField("confusables", "The list of look-alikes", tool_names(MOST_CONFUSABLES))
    ]
    text: Annotated[str, RuleField("rule_text", "The rule's text", written(LONGEST_RULE))]
    clauses: Annotated[tuple[dict[str, Any], ...], RuleField("clauses", "Clause", CLAUSES)] = ()
    tests: Annotated[tuple[dict[str, Any], ...], RuleField("tests", "Test", TESTS)] = ()

    @property
    def tools(self) -> tuple[str, ...]:
        """T(r) = {target} + confusables."""
        return (self.target, *self.confusables)

    @property
    def plain(self) -> list[tuple[RuleField, str]]:
        """The plain fields that say something."""
        return [(one, value) for name, one in PLAIN.items() if (value := getattr(self, name))]

    def content_hash(self) -> str:
        """Neither the order of the confusables nor an empty plain field says anything, so they are not hashed."""
        said = without_empty(asdict(self))
        return content_hash(said | {"confusables": sorted(self.confusables)})

    def names(self) -> list[tuple[str, str]]:
        """(JSON pointer, name) of every tool the content mentions in a field."""
        named = [("/tool_name", self.target)]
        named += [(f"/confusables/{i}", name) for i, name in enumerate(self.confusables)]
        named += [(f"/clauses/{i}/route_to", clause["route_to"]) for i, clause in enumerate(self.clauses)]
        for i, test in enumerate(self.tests):
            named += [(f"/tests/{i}/tools/{j}", name) for j, name in enumerate(test["tools"])]
        return named


FIELDS: dict[str, RuleField] = {
    name: hint.__metadata__[0] for name, hint in get_type_hints(RuleContent, include_extras=True).items()
}
REQUIRED = ("target", "confusables", "text")
# one text or choice, which may be left out
PLAIN = {name: one for name, one in FIELDS.items() if one.schema["type"] == "string" and name not in REQUIRED}

WHOLE = {"type": "object", "properties": {name: one.schema for name, one in FIELDS.items()}}


def without_empty(said: dict[str, Any]) -> dict[str, Any]:
    """Without the plain fields that are empty: what was stored before a field came is equal to what is stored since."""
    return {name: value for name, value in said.items() if value or name not in PLAIN}


def filled(value: Any, schema: Mapping[str, Any]) -> Any:
    """What the schema knows of a value, in its order; what is missing is empty."""
    match schema["type"]:
        case "object":
            return {name: filled(value.get(name), part) for name, part in schema["properties"].items()}
        case "array":
            return [filled(item, schema["items"]) for item in value or ()]
        case "boolean":
            return bool(value)
    return value or ""


def keyed(said: Mapping[str, Any]) -> dict[str, Any]:
    """Every field by its key in the exchange format."""
    whole = filled(said, WHOLE)
    return {one.key: whole[name] for name, one in FIELDS.items()}


def pointed_row(pointer: str) -> tuple[str, int | None]:
    """The field and the row of it that a JSON pointer leads to: `/clauses/1/route_to` -> ("clauses", 1)."""
    name, _, rest = pointer.lstrip("/").partition("/")
    number = rest.partition("/")[0]
    return name, int(number) if number.isdecimal() else None


def make_content(**said: Any) -> RuleContent:
    """Of the fields by name: trim texts, fill what is missing, drop what the format does not know."""
    whole = _trimmed(filled(said, WHOLE))
    for clause in whole["clauses"]:
        clause["signals"] = [signal for signal in clause["signals"] if signal]
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in whole.items()
    }
    return RuleContent(**fields)


def _trimmed(value: Any) -> Any:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, dict):
        return {name: _trimmed(part) for name, part in value.items()}
    return [_trimmed(item) for item in value] if isinstance(value, list) else value
