"""The exchange format of rules: its JSON Schema (2020-12), and files of it, JSON or CSV, as bytes in.

The format is the paper's three fields and four optional ones. Names stay names, the database never enters. A file that
nobody can read whole (cut, wrong encoding, nested too deep) is refused with a TraceError naming line and column. What
is wrong in one rule is a problem of that rule.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, Literal

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from catalog.core.tokens import split_name
from catalog.core.words import name_words
from rules.core.rule import (
    CLAUSE,
    FIELDS,
    REQUIRED,
    TEST,
    RuleContent,
    keyed,
    make_content,
    pointed_row,
    written,
)
from rules.core.tables import read_table
from trace_site.lib.errors import TraceError
from trace_site.lib.files import deeper_than, storable
from trace_site.lib.letters import entered_all, invisible
from trace_site.lib.texts import Twice, decode, keep_twice, parse_json, pointer_step

LONGEST_CODE, LONGEST_DOMAIN = 80, 60
LONGEST_CONTENT, SHORTEST_COUNTED = 60_000, 20  # of all its texts and names; a short one counts as so many
MOST_PROBLEMS = 20  # told of one rule; a file of nothing but mistakes must not cost minutes
LONGEST_SHOWN = 80
CODE_PATTERN = "^[A-Z][A-Z0-9_]*$"
RULE_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "TRACE business rule",
    "description": "T(r) is the target and its confusables. Texts are trimmed at both ends. Fields not listed here "
    "are not kept; an import names them.",
    "type": "object",
    "required": [FIELDS[name].key for name in REQUIRED],
    "properties": {
        **{FIELDS[name].key: FIELDS[name].schema for name in REQUIRED},
        "code": written(LONGEST_CODE, CODE_PATTERN),
        "domain": written(LONGEST_DOMAIN),
        **{one.key: one.schema for name, one in FIELDS.items() if name not in REQUIRED},
    },
}
KEYS = tuple(RULE_SCHEMA["properties"])
TYPE_WORDS = {"object": "an object", "array": "a list", "string": "text", "boolean": "true or false"}
VALUE_WORDS = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list"}


def to_json(content: RuleContent, *, code: str, domain: str) -> dict[str, Any]:
    """One rule in the exchange format; importing it again changes nothing."""
    return {"code": code, "domain": domain, **keyed(asdict(content))}


def _items(validator: Any, items: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """A list that is too long is one mistake, however many mistakes it holds."""
    if isinstance(instance, list) and len(instance) <= schema.get("maxItems", len(instance)):
        yield from Draft202012Validator.VALIDATORS["items"](validator, items, instance, schema)


def _unique(validator: Any, unique: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Names are compared as they are stored, trimmed; other values are somebody else's mistake."""
    names = [item.strip() for item in instance if isinstance(item, str)] if isinstance(instance, list) else []
    if len(set(names)) < len(names):
        yield ValidationError("names the same tool twice")


RuleValidator = extend(Draft202012Validator, {"items": _items, "uniqueItems": _unique})
COMPLETE = RuleValidator(RULE_SCHEMA)


def schema_problems(entry: Any, validator: Any = COMPLETE) -> Iterator[tuple[str, str]]:
    """(JSON pointer inside the entry, sentence) for what the schema refuses, in document order."""
    errors = list(islice(validator.iter_errors(entry), MOST_PROBLEMS))
    for error in sorted(errors, key=lambda error: [str(part) for part in error.path]):
        yield "".join(f"/{pointer_step(str(part))}" for part in error.absolute_path), _sentence(error)
    if not errors and (too_much := size_problem(entry)):
        yield too_much
    elif not errors:
        yield from _flaws({key: entry[key] for key in KEYS if key in entry}, "")
        yield from _repeated_key(entry, "")


def size_problem(entry: Mapping[str, Any]) -> tuple[str, str] | None:
    """What stands against an entry that is too large in all."""
    clauses, tests = entry.get("clauses", []), entry.get("tests", [])
    texts = [entry.get("rule_text", ""), *entry.get("confusables", [])]
    texts += [text for one in tests for text in (one.get("query", ""), *one.get("tools", []))]
    texts += [one.get(name, "") for one in clauses for name in ("when", "route_to")]
    texts += [signal for one in clauses for signal in one.get("signals", [])]
    if (size := sum(max(len(text), SHORTEST_COUNTED) for text in texts)) <= LONGEST_CONTENT:
        return None
    return "", f"has {size:,} characters in all; at most {LONGEST_CONTENT:,} fit. Make it two rules."


def unknown_fields(entry: Any) -> set[str]:
    """Fields of a valid entry that the format does not know: `evidence`, `clauses.comment`."""
    found = set(entry) - set(KEYS)
    for key, part in (("clauses", CLAUSE), ("tests", TEST)):
        known: Any = part["properties"]
        found |= {f"{key}.{name}" for item in entry.get(key, []) for name in item if name not in known}
    return found


def _flaws(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    """What no schema can say: text that cannot be stored, and keys given twice. `value` is valid, so not deep."""
    yield from _repeated_key(value, pointer)
    if isinstance(value, str) and not storable(value):
        sentence = "holds a character that cannot be stored (NUL or half of a surrogate pair); take it out."
        yield pointer, sentence
    listed = dict(enumerate(value)) if isinstance(value, list) else value
    for key, item in listed.items() if isinstance(listed, Mapping) else ():
        yield from _flaws(item, f"{pointer}/{pointer_step(str(key))}")


def _repeated_key(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Twice):
        yield f"{pointer}/{pointer_step(value.earlier[0][0])}", "stands twice in one object; keep one."


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
        case "enum":
            return f"'{shown}' is none of {', '.join(filter(None, limit))}."
        case "pattern" | "minItems":
            return "is empty."
        case "minLength":
            return f"'{shown}' is not a tool name; write API/ENDPOINT."
        case "maxLength":
            return f"has {len(value):,} characters ('{shown}'); the limit is {limit:,}."
        case "maxItems":
            return f"lists {len(value):,} things; the limit is {limit:,}."
    return f"{error.message}."


# A file of rules: checked entries and located problems out.

DEEPEST = 40
LONGEST_MADE_CODE = 75


@dataclass(frozen=True, slots=True)
class RuleEntry:
    """One rule of a file. `pointer` is its place; an empty code or domain was not given."""

    content: RuleContent
    code: str
    domain: str
    pointer: str

    @property
    def key(self) -> tuple[str, str]:
        return (self.domain, self.code)


@dataclass(slots=True)
class EntryProblems:
    """What is wrong in a file: (JSON pointer, sentence). `ignored` counts the rules that hold an unknown field."""

    items: list[tuple[str, str]] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)

    def add(self, pointer: str, sentence: str) -> None:
        self.items.append((pointer, sentence))


@dataclass(frozen=True, slots=True)
class RulesFile:
    """`place` turns a problem's JSON pointer into what people look up: file#/0/code, or file:5, column code."""

    format: Literal["json", "csv"]
    entries: list[RuleEntry]
    problems: EntryProblems
    place: Callable[[str], str]


def read_rules(data: bytes, shown: str, most: int) -> RulesFile:
    """Read a file of at most `most` rules; `shown` is its name in messages. Raises TraceError."""
    text = decode(data, shown)
    if not text.strip():
        raise TraceError("the file is empty.", code="bad_rules", where=shown, hint="Choose a file of rules.")
    if text.lstrip()[0] not in "[{":
        return _read_csv(text, shown, most)
    document = _parsed(text, shown)
    items = document.get("rules") if isinstance(document, dict) else document
    if isinstance(items, list) and len(items) > most:
        raise TraceError(f"{len(items):,} rules; the limit is {most:,}.", code="too_large", where=shown)
    entries, problems = parse_document(document)
    return RulesFile("json", entries, problems, lambda pointer: f"{shown}#{pointer}")


def parse_document(document: Any) -> tuple[list[RuleEntry], EntryProblems]:
    """Read a list of rules, or an object whose `rules` is that list, or one rule."""
    problems, prefix = EntryProblems(), ""
    if isinstance(document, dict) and isinstance(document.get("rules"), list):
        document, prefix = document["rules"], "/rules"
    elif isinstance(document, dict) and "tool_name" in document:
        document = [document]
    if not isinstance(document, list):
        problems.add("", 'must be a list of rules, or an object {"rules": [...]}.')
        return [], problems
    if not document:
        problems.add("", "holds no rules.")
    found = (parse_entry(item, f"{prefix}/{number}", problems) for number, item in enumerate(document))
    return [entry for entry in found if entry], problems


def parse_entry(item: Any, pointer: str, problems: EntryProblems) -> RuleEntry | None:
    unseen = invisible(item)
    _without_null(item, RULE_SCHEMA)
    if found := list(schema_problems(entered_all(item))):
        problems.items += [(pointer + inner, sentence) for inner, sentence in found]
        return None
    problems.ignored.update([*unknown_fields(item), *["characters that nobody sees"] * (unseen > 0)])
    content = make_content(**{name: item.get(one.key) for name, one in FIELDS.items()})
    if content.target in content.confusables:
        place = content.confusables.index(content.target)
        problems.add(f"{pointer}/confusables/{place}", "the target is listed among its own confusables.")
        return None
    return RuleEntry(content, item.get("code", "").strip(), item.get("domain", "").strip(), pointer)


def _without_null(value: Any, schema: Mapping[str, Any]) -> None:
    """Take out what is optional and null: it is like left out."""
    if isinstance(value, list):
        for item in value[: schema.get("maxItems")]:
            _without_null(item, schema.get("items", {}))
    for name, part in schema.get("properties", {}).items() if isinstance(value, dict) else ():
        if name in value and value[name] is None and name not in schema["required"]:
            del value[name]
        _without_null(value.get(name), part)


def _read_csv(text: str, shown: str, most: int) -> RulesFile:
    table, problems = read_table(text, shown, most), EntryProblems()
    if not table.items:
        problems.add("", "holds no rules.")
    problems.ignored.update(dict.fromkeys(table.ignored, len(table.items)))
    problems.items += [
        (f"/{number}/{column}" if column else f"/{number}", sentence)
        for number, column, sentence in table.problems
    ]
    broken = {number for number, _, _ in table.problems}
    whole = ((number, item) for number, item in enumerate(table.items) if number not in broken)
    entries = [parse_entry(item, f"/{number}", problems) for number, item in whole]

    def place(pointer: str) -> str:
        number, _, inside = pointer.removeprefix("/").partition("/")
        column, entry = pointed_row(inside)
        line = f":{table.lines[int(number)]}" if number else ""
        in_cell = f", entry {entry + 1}" if entry is not None else ""
        return f"{shown}{line}{f', column {column}' if column else ''}{in_cell}"

    return RulesFile("csv", [entry for entry in entries if entry], problems, place)


def _parsed(text: str, shown: str) -> Any:
    hint = "A file of rules is one JSON list."
    value = parse_json(text, shown, hint, object_pairs_hook=keep_twice)
    if deeper_than(DEEPEST, value):
        message = f"nested deeper than {DEEPEST} levels."
        raise TraceError(message, code="bad_json", where=shown, hint=hint)
    return value


# How rules without a code get one.


def base_code(target: str) -> str:
    """The code a rule gets from its target's endpoint: `Payroll/get-payslip.v2` -> GET_PAYSLIP_V2."""
    try:
        endpoint = split_name(target)[1]
    except TraceError:
        endpoint = target
    words = [word for word in name_words(endpoint) if word.isascii()]
    code = "_".join(words).upper()[:LONGEST_MADE_CODE].strip("_") or "RULE"
    return code if code[0].isalpha() else f"RULE_{code}"


def new_code(target: str, used: set[str]) -> str:
    """The first of BASE, BASE_2, BASE_3, ... that is not used."""
    base = code = base_code(target)
    number = 2
    while code in used:
        code, number = f"{base}_{number}", number + 1
    return code


def find_codes(entries: Sequence[RuleEntry], known: Sequence[tuple[str, RuleContent]]) -> list[str]:
    """One code per entry of one domain: its own, that of the known rule (code, content) it repeats, or a new one.

    An entry without a code repeats the known rule with a generated code and the same target and confusables,
    else the first one left with the same target. New codes are numbered in file order.
    """
    codes = [entry.code for entry in entries]
    used = set(filter(None, codes))
    for exact in (True, False):
        for place, entry in enumerate(entries):
            if not codes[place]:
                codes[place] = _repeated(entry.content, known, used, exact)
                used.add(codes[place])
    used.update(code for code, _ in known)
    for place, entry in enumerate(entries):
        if not codes[place]:
            codes[place] = new_code(entry.content.target, used)
            used.add(codes[place])
    return codes


def _repeated(
    content: RuleContent, known: Sequence[tuple[str, RuleContent]], used: set[str], exact: bool
) -> str:
    pattern = re.compile(rf"{re.escape(base_code(content.target))}(_\d+)?")
    for code, rule in known:
        if rule.target != content.target or code in used or not pattern.fullmatch(code):
            continue
        if not exact or set(rule.confusables) == set(content.confusables):
            return code
    return ""
