"""What the editor is told while one types: what is missing, what the checks say, and where.

In: a draft as typed. Out: notes, each with the field or row it belongs to. An unfinished row or an unknown tool is
told about and left out, so that the findings about the rest stay.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from catalog.models import Tool
from rules.book import cached_book
from rules.core.draft import content_of
from rules.core.findings import Finding, RuleKey, check_rule
from rules.core.rule import to_json
from rules.core.schema import schema_problems

OPTIONAL = ("code", "domain")
Problem = tuple[str, str]  # (JSON pointer of the exchange format, sentence)


@dataclass(frozen=True, slots=True)
class DraftCheck:
    """`findings` point into the draft as typed; empty while target, look-alikes or text are missing."""

    problems: list[Problem]
    findings: list[Finding]


def check_draft(draft: dict[str, Any], *, code: str = "", own: RuleKey | None = None) -> DraftCheck:
    """Writes nothing."""
    problems = list(_problems(draft, code))
    kept = _finished(draft, problems)
    if kept is None:
        return DraftCheck(problems, [])
    content, numbers = kept
    findings = check_rule(content_of(content), cached_book(), own)
    return DraftCheck(problems, [_as_typed(finding, numbers, draft["text"]) for finding in findings])


def _problems(draft: dict[str, Any], code: str) -> Iterable[Problem]:
    content = content_of(draft)
    if not content.target:
        yield "/tool_name", "is empty."
    item = to_json(content, code=code, domain="") | {"tool_name": content.target or "API/ENDPOINT"}
    yield from schema_problems({key: value for key, value in item.items() if value or key not in OPTIONAL})
    named = [(pointer, name) for pointer, name in content.names() if name]
    known = set(Tool.objects.filter(name__in={name for _, name in named}).values_list("name", flat=True))
    for pointer, name in named:
        if name not in known:
            yield pointer, f"'{name}' is not in the catalog."


def _finished(
    draft: dict[str, Any], problems: list[Problem]
) -> tuple[dict[str, Any], dict[str, list[int]]] | None:
    """The draft without what has a problem, and which rows were kept; None when too little is left to check."""
    broken = {tuple(pointer.split("/")[1:3]) for pointer, _ in problems}
    if {("tool_name",), ("rule_text",)} & broken:
        return None
    numbers = {
        name: [n for n in range(len(draft[name])) if (name, str(n)) not in broken]
        for name in ("confusables", "clauses", "tests")
    }
    rows = {name: [draft[name][n] for n in kept] for name, kept in numbers.items()}
    return ({**draft, **rows}, numbers) if rows["confusables"] else None


def _as_typed(finding: Finding, numbers: dict[str, list[int]], text: str) -> Finding:
    """The finding with its place counted in the draft: rows as numbered there, the text with its leading blanks."""
    place = finding.place
    _, name, *rest = f"{place.pointer}/".split("/")
    if name in numbers and rest[0].isdecimal():
        number = numbers[name][int(rest[0])]
        return replace(finding, place=replace(place, pointer=f"/{name}/{number}"))
    blanks = len(text) - len(text.lstrip())
    if name == "rule_text" and blanks and place.start is not None and place.end is not None:
        moved = replace(place, start=place.start + blanks, end=place.end + blanks)
        return replace(finding, place=moved)
    return finding
