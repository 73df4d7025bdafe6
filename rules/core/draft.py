"""What an unfinished rule may hold: the types and sizes of the exchange format, nothing said about completeness.

In: whatever an editor or a program sent as {target, confusables, text, clauses, tests}. Out: the same with every
field present, exactly as typed, and the JSON pointers of what has the wrong type or is too long.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from rules.core.rule import RuleContent, make_content
from rules.core.schema import MOST_PROBLEMS, RULE_SCHEMA
from trace_site.lib.files import storable

KEPT = {"type", "properties", "items", "maxLength", "maxItems"}
FIELDS = {"target": "tool_name", "confusables": "confusables", "text": "rule_text"} | {
    name: name for name in ("clauses", "tests")
}
TYPES = {"object": "an object", "array": "a list", "string": "text", "boolean": "true or false"}


def _loosened(schema: Any) -> Any:
    return {
        key: {name: _loosened(part) for name, part in value.items()}
        if key == "properties"
        else _loosened(value)
        if key == "items"
        else value
        for key, value in schema.items()
        if key in KEPT
    }


_validator = Draft202012Validator(_loosened(RULE_SCHEMA))


def draft_problems(content: Any) -> list[tuple[str, str]]:
    """(JSON pointer of the exchange format, sentence); empty when `fill_draft` may be called."""
    if not isinstance(content, Mapping):
        return [("", "must be an object.")]
    given = {FIELDS[key]: value for key, value in content.items() if key in FIELDS}
    problems = []
    for error in islice(_validator.iter_errors(given), MOST_PROBLEMS):
        pointer = "".join(f"/{part}" for part in error.absolute_path)
        problems.append((pointer, _sentence(error)))
    if not problems and not all(map(storable, _texts(given))):
        problems.append(("", "holds a NUL or half a character, which no text can."))
    return problems


def fill_draft(content: Mapping[str, Any]) -> dict[str, Any]:
    """Every field in one order, so that equal drafts are equal values; unknown keys are dropped."""
    return {
        "target": content.get("target", ""),
        "confusables": list(content.get("confusables", [])),
        "text": content.get("text", ""),
        "clauses": [
            {
                "when": clause.get("when", ""),
                "route_to": clause.get("route_to", ""),
                "exception": bool(clause.get("exception", False)),
                "signals": list(clause.get("signals", [])),
            }
            for clause in content.get("clauses", [])
        ],
        "tests": [
            {"query": test.get("query", ""), "tools": list(test.get("tools", []))}
            for test in content.get("tests", [])
        ],
    }


def draft_of(content: RuleContent) -> dict[str, Any]:
    """A version's content as the draft that begins from it."""
    return fill_draft(
        {
            "target": content.target,
            "confusables": content.confusables,
            "text": content.text,
            "clauses": content.clauses,
            "tests": content.tests,
        }
    )


def content_of(draft: Mapping[str, Any]) -> RuleContent:
    """What the draft says so far; may be incomplete."""
    return make_content(**fill_draft(draft))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)


def _sentence(error: ValidationError) -> str:
    if error.validator == "type":
        return f"must be {TYPES.get(str(error.validator_value), error.validator_value)}."
    unit = "entries" if error.validator == "maxItems" else "characters"
    value: Any = error.instance
    return f"is too long: {len(value):,} {unit}, at most {error.validator_value:,}."
