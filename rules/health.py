"""What the checks say about every rule, kept in RuleHealth so that no list ever checks 5,000 rules.

In: the rules, or tools, that changed. Out: rows of RuleHealth, for them and for every rule whose findings may change
with them, written in the caller's transaction. What it keeps is what checking everything anew would give.
"""

from collections.abc import Iterable, Iterator, Sequence

from django.db import transaction
from django.utils import timezone

from catalog.models import Tool
from rules.book import cached_book, newest_rules, rules_as_of
from rules.core.findings import Finding, OtherRule, RuleBook, RuleKey, check_reading, has_errors
from rules.core.shelf import Shelf
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
    shelf, versions = newest_rules()
    ids = None if rules is None else sorted(set(rules))
    if ids is None or len(ids) > MANY:
        return _write(shelf, versions, book, shelf.rules.keys())
    changed = set(Rule.objects.filter(pk__in=ids).values_list("domain_id", "code"))
    live = [book.shelf.rules[key] for key in changed & book.shelf.rules.keys()]
    old = rules_as_of(sorted(set(before)))
    touched = changed | _near(live, shelf, book, len(live) + len(old))
    if old:
        touched |= _near(old, shelf, book.changed((), old), len(live) + len(old))
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


def words_of(rule: OtherRule) -> str:
    return f"{rule.code} {rule.content.target} {rule.content.text}".casefold()


def _near(rules: Sequence[OtherRule], shelf: Shelf, book: RuleBook, changes: int) -> set[RuleKey]:
    """The rules that may get a finding, or lose one, by these being among the published; `changes` says how many."""
    near: set[RuleKey] = set()
    for rule in rules:
        near |= shelf.holding(rule.content.tools)
        near |= shelf.speaking_like(rule.reading, book.shelf, changes)
        before = book.redirects.leading_to(rule.content.confusables)
        behind = book.redirects.reached_from(rule.content.target)
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
                words=words_of(shelf.rules[key]),
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
