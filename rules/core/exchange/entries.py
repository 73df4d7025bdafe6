"""The rules of a file as checked entries, and how those without a code get one.

In: JSON entries. Out: `RuleEntry` values, and what is wrong with the rest.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from catalog.core.tokens import split_name
from catalog.core.words import name_words
from rules.core.exchange.schema import schema_problems, unknown_fields
from rules.core.rule import RuleContent, make_content
from trace_site.lib.errors import TraceError

MAX_CODE = 80


@dataclass(frozen=True, slots=True)
class RuleEntry:
    """One rule of a file. `pointer` is its place; an empty code or domain was not given."""

    content: RuleContent
    code: str
    domain: str
    pointer: str


@dataclass(slots=True)
class EntryProblems:
    """What is wrong in a file: (JSON pointer, sentence). `ignored` counts the rules that hold an unknown field."""

    items: list[tuple[str, str]] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)

    def add(self, pointer: str, sentence: str) -> None:
        self.items.append((pointer, sentence))


def parse_document(document: Any) -> tuple[list[RuleEntry], EntryProblems]:
    """Read a list of rules, or an object whose `rules` is that list."""
    problems = EntryProblems()
    items, prefix = document_items(document, problems)
    parsed = (parse_entry(item, f"{prefix}/{number}", problems) for number, item in enumerate(items))
    return [entry for entry in parsed if entry], problems


def document_items(document: Any, problems: EntryProblems) -> tuple[list[Any], str]:
    """The rules of a document as they stand there, and the JSON pointer of their list."""
    prefix = ""
    if isinstance(document, dict) and isinstance(document.get("rules"), list):
        document, prefix = document["rules"], "/rules"
    elif isinstance(document, dict) and "tool_name" in document:
        document = [document]
    if not isinstance(document, list):
        problems.add("", 'must be a list of rules, or an object {"rules": [...]}.')
        return [], prefix
    if not document:
        problems.add("", "holds no rules.")
    return document, prefix


def parse_entry(item: Any, pointer: str, problems: EntryProblems) -> RuleEntry | None:
    found = list(schema_problems(item))
    for inner, sentence in found:
        problems.add(pointer + inner, sentence)
    if found:
        return None
    problems.ignored.update(unknown_fields(item))
    content = make_content(
        target=item["tool_name"],
        confusables=item["confusables"],
        text=item["rule_text"],
        clauses=item.get("clauses", []),
        tests=item.get("tests", []),
    )
    if content.target in content.confusables:
        place = content.confusables.index(content.target)
        problems.add(f"{pointer}/confusables/{place}", "the target is listed among its own confusables.")
        return None
    return RuleEntry(content, item.get("code", "").strip(), item.get("domain", "").strip(), pointer)


def base_code(target: str) -> str:
    """The code a rule gets from its target's endpoint: `Payroll/get-payslip.v2` -> GET_PAYSLIP_V2."""
    try:
        endpoint = split_name(target)[1]
    except TraceError:
        endpoint = target
    words = [word for word in name_words(endpoint) if word.isascii()]
    code = "_".join(words).upper()[: MAX_CODE - 5].strip("_") or "RULE"
    return code if code[0].isalpha() else f"RULE_{code}"


@dataclass(frozen=True, slots=True)
class KnownRule:
    """A rule already there, as far as finding it again needs."""

    code: str
    target: str
    confusables: frozenset[str]


def find_codes(
    entries: Sequence[RuleEntry], known: Sequence[KnownRule], taken: Iterable[str] = ()
) -> list[str]:
    """One code per entry of one domain: its own, that of the rule it repeats, or a new one.

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
    used.update(taken, (rule.code for rule in known))
    for place, entry in enumerate(entries):
        if not codes[place]:
            codes[place] = _fresh(base_code(entry.content.target), used)
            used.add(codes[place])
    return codes


def _repeated(content: RuleContent, known: Sequence[KnownRule], used: set[str], exact: bool) -> str:
    pattern = re.compile(rf"{re.escape(base_code(content.target))}(_\d+)?")
    for rule in known:
        same = not exact or rule.confusables == frozenset(content.confusables)
        if rule.target == content.target and same and rule.code not in used and pattern.fullmatch(rule.code):
            return rule.code
    return ""


def _fresh(base: str, used: set[str]) -> str:
    code, number = base, 2
    while code in used:
        code, number = f"{base}_{number}", number + 1
    return code
