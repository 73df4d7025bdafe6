"""What the checks say about every rule, kept in RuleHealth so that no list ever checks 5,000 rules.

In: the rules, or tools, that changed. Out: rows of RuleHealth, for them and for every rule whose findings may change
with them, written in the caller's transaction. What it keeps is what checking everything anew would give.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction
from django.utils import timezone

from catalog.models import Tool
from rules.book import cached_book, newest_rules, rules_as_of
from rules.core.check import Finding, check_reading, check_rule, has_errors
from rules.core.draft import content_of
from rules.core.rule_book import OtherRule, RuleBook, RuleKey
from rules.core.rules_file import schema_problems, to_json
from rules.models import Rule, RuleHealth

MANY = 200  # changed rules from which on checking everything costs no more
__all__ = ["cached_book", "check_all", "light_of", "recheck", "recheck_missing", "recheck_tools"]


@transaction.atomic
def recheck(rules: Iterable[int] | None, before: Iterable[int] = ()) -> int:
    """Check the rules with these ids and all that depends on them; None: every rule. Returns how many were checked.

    Call it after the versions are saved and the rules published or withdrawn, in the same transaction; `before` are
    the versions that were published until then.
    """
    book = cached_book()
    newest, versions = newest_rules()
    ids = None if rules is None else sorted(set(rules))
    if ids is None or len(ids) > MANY:
        return _write(newest, versions, book, newest.rules.keys())
    changed = set(Rule.objects.filter(pk__in=ids).values_list("domain_id", "code"))
    live = [book.rules[key] for key in changed & book.rules.keys()]
    old = rules_as_of(sorted(set(before)))
    touched = changed | newest.concerned_by(live, book, len(live) + len(old))
    if old:
        touched |= newest.concerned_by(old, book.changed((), old), len(live) + len(old))
    return _write(newest, versions, book, touched)


def recheck_missing() -> int:
    """Check the rules that never were: those written before there was a table for it, or by SQL."""
    return recheck(ids) if (ids := list(Rule.objects.filter(health=None).values_list("pk", flat=True))) else 0


@transaction.atomic
def recheck_tools(ids: list[int]) -> None:
    """Check the rules that name one of the tools, or in whose text its API is named."""
    if not Rule.objects.exists():
        return
    names = set(Tool.objects.filter(pk__in=ids).values_list("name", flat=True))
    apis = {f"{name.partition('/')[0]}/".casefold() for name in names}
    newest, versions = newest_rules()
    touched = newest.holding(names)
    for key, rule in newest.rules.items():
        text = rule.content.text.casefold()
        if key not in touched and "/" in text and any(api in text for api in apis):
            touched.add(key)
    _write(newest, versions, cached_book(), touched)


def check_all(domain: str = "") -> Iterator[tuple[RuleKey, list[Finding]]]:
    """Every rule's newest version, checked anew; writes nothing."""
    book, (newest, _) = cached_book(), newest_rules()
    for key in sorted(newest.rules):
        if domain in ("", key[0]):
            yield key, check_reading(newest.rules[key].reading, book, key)


def light_of(findings: list[Finding]) -> str:
    if has_errors(findings):
        return RuleHealth.Light.ERROR
    return RuleHealth.Light.WARNING if findings else RuleHealth.Light.OK


def words_of(rule: OtherRule) -> str:
    return f"{rule.code} {rule.content.target} {rule.content.text}".casefold()


def _write(newest: RuleBook, versions: dict[RuleKey, int], book: RuleBook, keys: Iterable[RuleKey]) -> int:
    wanted = sorted(key for key in keys if key in newest.rules)
    named = (
        Rule.objects.all()
        if len(wanted) > MANY
        else Rule.objects.filter(code__in=[code for _, code in wanted])
    )
    ids = {(domain, code): pk for pk, domain, code in named.values_list("pk", "domain_id", "code")}
    now, rows = timezone.now(), []
    for key in wanted:
        findings = check_reading(newest.rules[key].reading, book, key)
        told = [finding.as_dict() for finding in findings]
        rows.append(
            RuleHealth(
                rule_id=ids[key],
                version_id=versions[key],
                light=light_of(findings),
                findings=told,
                words=words_of(newest.rules[key]),
                checked_at=now,
            )
        )
    RuleHealth.objects.bulk_create(
        rows,
        batch_size=500,
        update_conflicts=True,
        unique_fields=["rule"],
        update_fields=["version", "light", "findings", "words", "checked_at"],
    )
    return len(rows)


# What the editor is told while one types: what is missing, what the checks say, and where.
#
# In: a draft as typed. Out: notes, each with the field or row it belongs to. An unfinished row or an unknown tool is
# told about and left out, so that the findings about the rest stay.


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
