"""Writes on rules that change control is made of: versions, publishing, withdrawing. Versions are immutable."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import transaction

from rules.book import ToolNames, rule_book, rule_key
from rules.core.check import Finding, check_rule
from rules.core.rule import RuleContent, make_content, to_json
from rules.core.rule_book import RuleBook
from rules.core.rules_file import EntryProblems, RuleEntry, parse_entry
from rules.health import recheck
from rules.models import Rule, RuleVersion
from trace_site.audit import models as audit_models
from trace_site.lib.errors import TraceError
from trace_site.webhooks.services import emit, emit_all

OPTIONAL = ("code", "domain")


@transaction.atomic
def rule_withdraw(*, rule: Rule, actor: Any = None, detail: dict[str, Any] | None = None) -> Rule:
    """Take a rule out of what is taught; its versions stay. `detail` is added to the audit entry."""
    rule = Rule.objects.select_for_update().get(pk=rule.pk)
    if rule.published_id is not None:
        withdrawn = rule.published_id
        rule.published = None
        rule.save(update_fields=["published"])
        what = {"version_id": withdrawn} | (detail or {})
        audit_models.record(actor=actor, action="rule.withdrawn", obj=rule, detail=what)
        emit("rule.withdrawn", _told(rule) | what)
        recheck([rule.pk], before=[withdrawn])
    return rule


def rule_preview(
    *,
    target: str,
    confusables: Sequence[str],
    text: str,
    clauses: Iterable[dict[str, Any]] = (),
    tests: Iterable[dict[str, Any]] = (),
    rule: Rule | None = None,
    book: RuleBook | None = None,
) -> list[Finding]:
    """The findings a form's content would get; writes nothing. Raises TraceError code `bad_rule`."""
    content = make_content(target=target, confusables=confusables, text=text, clauses=clauses, tests=tests)
    checked_entry(content, rule.code if rule else "", rule.domain_id if rule else "")
    return check_rule(content, book or rule_book(), rule_key(rule) if rule else None)


def checked_entry(content: RuleContent, code: str, domain: str, names: ToolNames | None = None) -> RuleEntry:
    """Apply the exchange format's checks and the catalog's to what a form holds.

    Raises TraceError code `bad_rule` (extra: problems with JSON pointers). `names` saves reading the catalog again.
    """
    problems = EntryProblems()
    item = to_json(content, code=code, domain=domain)
    given = {key: value for key, value in item.items() if value != "" or key not in OPTIONAL}
    entry = parse_entry(given, "", problems)
    if entry:
        names = names or ToolNames()
        names.check(entry, problems)
        entry = names.with_domain(entry, problems)
    if entry is None or problems.items:
        listed = [{"pointer": pointer, "message": sentence} for pointer, sentence in problems.items]
        pointer, sentence = problems.items[0]
        raise TraceError(sentence, code="bad_rule", where=pointer, extra={"problems": listed})
    return entry


def build_version(rule: Rule, number: int, content: RuleContent, ids: dict[str, int]) -> RuleVersion:
    """An unsaved version."""
    return RuleVersion(
        rule=rule,
        number=number,
        target_id=ids[content.target],
        confusable_ids=[ids[name] for name in content.confusables],
        text=content.text,
        clauses=list(content.clauses),
        tests=list(content.tests),
        content_hash=content.content_hash(),
    )


def publish_checked(versions: Iterable[RuleVersion], actor: Any, detail: dict[str, Any] | None = None) -> int:
    """Set `published` of each version's rule; the caller has checked the findings and holds the rules.

    `detail` is added to the audit entries: {"via": "import"} or {"request": id}.
    """
    moved: list[tuple[Rule, dict[str, Any]]] = []
    for version in versions:
        rule = version.rule
        if rule.published_id != version.pk:
            change = {"version": version.number, "version_id": version.pk, "before": rule.published_id}
            rule.published = version
            moved.append((rule, change | (detail or {})))
    Rule.objects.bulk_update([rule for rule, _ in moved], ["published"], batch_size=500)
    audit_models.record_all(actor=actor, action="rule.published", objects=moved)
    emit_all("rule.published", [_told(rule) | what for rule, what in moved])
    if moved:
        before = [change["before"] for _, change in moved if change["before"]]
        recheck((rule.pk for rule, _ in moved), before)
    return len(moved)


def _told(rule: Rule) -> dict[str, Any]:
    """What a webhook learns of a rule whatever happened to it."""
    return {"rule": rule.pk, "code": rule.code, "domain": rule.domain_id}
