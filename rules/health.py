"""What the checks say about every rule, kept in RuleHealth so that no list ever checks 5,000 rules.

In: the rules, or tools, that changed. Out: rows of RuleHealth, for them and for every rule whose findings may change
with them, written in the caller's transaction. What it keeps is what checking everything anew would give.
"""

from collections.abc import Iterable, Iterator

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from catalog.models import Tool
from rules.book import cached_book, newest_rules
from rules.core.findings import Finding, OtherRule, RuleBook, RuleKey, check_reading, has_errors
from rules.core.shelf import Shelf
from rules.models import Rule, RuleHealth

MANY = 200  # changed rules from which on checking everything costs no more
__all__ = ["cached_book", "check_all", "light_of", "recheck", "recheck_missing", "recheck_tools"]


@transaction.atomic
def recheck(rules: Iterable[int] | None) -> int:
    """Check the rules with these ids and all that depends on them; None: every rule. Returns how many were checked.

    Call it after the versions are saved and the rules published or withdrawn, in the same transaction.
    """
    book = cached_book()
    shelf, versions = newest_rules()
    ids = None if rules is None else sorted(set(rules))
    if ids is None or len(ids) > MANY:
        return _write(shelf, versions, book, shelf.rules.keys())
    changed = set(Rule.objects.filter(pk__in=ids).values_list("domain_id", "code"))
    touched = changed | _naming(changed)
    for key in changed & book.shelf.rules.keys():
        touched |= _near(book.shelf.rules[key], shelf, book)
    return _write(shelf, versions, book, touched)


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
    shelf, versions = newest_rules()
    touched = shelf.holding(names)
    for key, rule in shelf.rules.items():
        text = rule.content.text.casefold()
        if key not in touched and "/" in text and any(api in text for api in apis):
            touched.add(key)
    _write(shelf, versions, cached_book(), touched)


def check_all(domain: str = "") -> Iterator[tuple[RuleKey, list[Finding]]]:
    """Every rule's newest version, checked anew; writes nothing."""
    book, (shelf, _) = cached_book(), newest_rules()
    for key in sorted(shelf.rules):
        if domain in ("", key[0]):
            yield key, check_reading(shelf.rules[key].reading, book, key)


def light_of(findings: list[Finding]) -> str:
    if has_errors(findings):
        return RuleHealth.Light.ERROR
    return RuleHealth.Light.WARNING if findings else RuleHealth.Light.OK


def _naming(keys: Iterable[RuleKey]) -> set[RuleKey]:
    """The rules with a finding that names one of these: it may go with what they said before."""
    named = Q()
    for code in sorted({code for _, code in keys}):
        named |= Q(findings__contains=[{"other": code}]) | Q(findings__contains=[{"path": [code]}])
    return (
        set(RuleHealth.objects.filter(named).values_list("rule__domain_id", "rule__code")) if named else set()
    )


def _near(rule: OtherRule, shelf: Shelf, book: RuleBook) -> set[RuleKey]:
    """The rules that may get a finding for what this published rule says now."""
    reading, content = rule.reading, rule.content
    near = shelf.holding(content.tools) | shelf.texts_like(reading)
    near |= {other.key for case in reading.situations for other, _ in shelf.cases_like(case.wording)}
    near |= {other.key for query in reading.queries for other, _ in shelf.queries_like(query)}
    before = book.redirects.leading_to(content.confusables)
    behind = book.redirects.reached_from(content.target)
    for key in shelf.holding(before):
        other = shelf.rules[key].content
        if other.target in before and not behind.isdisjoint(other.confusables):
            near.add(key)
    return near


def _write(shelf: Shelf, versions: dict[RuleKey, int], book: RuleBook, keys: Iterable[RuleKey]) -> int:
    wanted = sorted(key for key in keys if key in shelf.rules)
    named = (
        Rule.objects.all()
        if len(wanted) > MANY
        else Rule.objects.filter(code__in=[code for _, code in wanted])
    )
    ids = {(domain, code): pk for pk, domain, code in named.values_list("pk", "domain_id", "code")}
    now, rows = timezone.now(), []
    for key in wanted:
        findings = check_reading(shelf.rules[key].reading, book, key)
        told = [finding.as_dict() for finding in findings]
        rows.append(
            RuleHealth(
                rule_id=ids[key],
                version_id=versions[key],
                light=light_of(findings),
                findings=told,
                checked_at=now,
            )
        )
    RuleHealth.objects.bulk_create(
        rows,
        batch_size=500,
        update_conflicts=True,
        unique_fields=["rule"],
        update_fields=["version", "light", "findings", "checked_at"],
    )
    return len(rows)
