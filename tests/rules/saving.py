"""Rules as tests need them: saved as the next version, published when asked, without a request."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from rules.book import version_findings
from rules.core.checks.check import Finding, has_errors
from rules.core.rule import make_content
from rules.health import recheck
from rules.models import Rule, RuleVersion
from rules.services import checked_entry, new_rule, next_version, publish_checked
from trace_site.audit import models as audit_models


@dataclass(frozen=True, slots=True)
class SavedRule:
    """`changed` is False when the newest version already said the same. `published` tells whether it is now live."""

    version: RuleVersion
    findings: list[Finding]
    changed: bool
    published: bool


@transaction.atomic
def rule_save(
    *,
    target: str,
    confusables: Sequence[str],
    text: str,
    clauses: Iterable[dict[str, Any]] = (),
    tests: Iterable[dict[str, Any]] = (),
    domain: str = "",
    code: str = "",
    note: str = "",
    rule: Rule | None = None,
    actor: Any = None,
    publish: bool = False,
) -> SavedRule:
    """Save what a form holds as the next version of `rule`, or of a new rule.

    Names are tool names. Without `code` one is made from the target's endpoint; without `domain` it is the target's.
    Raises TraceError code `bad_rule` (extra: problems with JSON pointers); with `publish`, findings that are errors
    leave the version saved and unpublished.
    """
    content = make_content(target=target, confusables=confusables, text=text, clauses=clauses, tests=tests)
    entry = checked_entry(content, rule.code if rule else code, rule.domain_id if rule else domain)
    rule = new_rule(entry) if rule is None else Rule.objects.select_for_update().get(pk=rule.pk)
    version, changed = next_version(rule, content, note=note, actor=actor)
    if changed:
        detail = {"version": version.number, "note": note}
        audit_models.record(actor=actor, action="rule.saved", obj=rule, detail=detail)
    findings = version_findings(version)
    if publish and not has_errors(findings):
        publish_checked([version], actor)
    elif changed:
        recheck([rule.pk])
    return SavedRule(version, findings, changed, rule.published_id == version.pk)
