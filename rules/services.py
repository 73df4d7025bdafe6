"""Writes on rules that change control is made of: versions, publishing, withdrawing. Versions are immutable."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import transaction

from catalog.models import Tool
from rules.book import ToolNames, entry_of, refused_entry, rule_key
from rules.core.check import Finding, check_rule
from rules.core.rule import RuleContent
from rules.core.rule_book import RuleBook
from rules.health import recheck
from rules.models import Rule, RuleVersion
from trace_site.audit import models as audit_models
from trace_site.webhooks.services import emit, emit_all


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


def rule_preview(*, content: RuleContent, rule: Rule | None, book: RuleBook) -> list[Finding]:
    """The findings that a content would get; writes nothing. Raises TraceError code `bad_rule`."""
    code, domain = (rule.code, rule.domain_id) if rule else ("", "")
    _, problems = entry_of(content, code, domain, ToolNames(name for _, name in content.names()))
    if problems:
        raise refused_entry(problems)
    return check_rule(content, book, rule_key(rule) if rule else None)


def versions_save(
    drafts: Sequence[tuple[Rule, RuleContent, str, Any]], detail: dict[str, Any] | None = None
) -> list[RuleVersion]:
    """For every (rule, content, note, author) the rule's newest version where it says the same, else the next one.

    The caller holds the rules; the number of queries does not grow with them. `detail` is added to the audit entries.
    """
    rows = RuleVersion.objects.filter(rule__in=[rule.pk for rule, *_ in drafts])
    newest = {version.rule_id: version for version in rows.order_by("rule_id", "-number").distinct("rule_id")}
    names = {name for _, content, *_ in drafts for name in content.tools}
    ids: dict[str, int] = dict(Tool.objects.filter(name__in=names).values_list("name", "pk"))
    made, versions = [], []
    for rule, content, note, author in drafts:
        version, said = newest.get(rule.pk), content.content_hash()
        if version is None or version.content_hash != said:
            version = RuleVersion(
                number=version.number + 1 if version else 1,
                target_id=ids[content.target],
                confusable_ids=[ids[name] for name in content.confusables],
                text=content.text,
                clauses=list(content.clauses),
                tests=list(content.tests),
                content_hash=said,
                note=note[:300],
                author=author,
            )
            made.append(version)
        version.rule = rule
        versions.append(version)
    RuleVersion.objects.bulk_create(made, batch_size=500)
    for author in {version.author for version in made}:
        saved = [
            (version.rule, {"version": version.number, "note": version.note, **(detail or {})})
            for version in made
            if version.author == author
        ]
        audit_models.record_all(actor=author, action="rule.saved", objects=saved)
    return versions


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
