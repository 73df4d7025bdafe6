"""Rules as tests need them: saved as the next version, published when asked, without a request."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from catalog.models import Tool
from rules.book import version_findings
from rules.core.check import Finding, has_errors
from rules.core.rule import RuleContent, make_content
from rules.core.rules_file import KnownRule, RuleEntry, find_codes
from rules.health import recheck
from rules.models import Rule, RuleVersion
from rules.services import build_version, checked_entry, publish_checked
from trace_site.audit import models as audit_models
from trace_site.lib.errors import TraceError


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


def new_rule(entry: RuleEntry) -> Rule:
    """The row of a rule that does not exist yet. Raises TraceError code `duplicate_code`."""
    domain, code = entry.domain, entry.code
    if not code:
        taken = Rule.objects.filter(domain_id=domain).values_list("code", flat=True)
        code = find_codes([entry], [KnownRule(name, "", frozenset()) for name in taken])[0]
    rule, created = Rule.objects.get_or_create(domain_id=domain, code=code)
    if not created:
        raise TraceError(
            f"the rule {code} already exists in the domain '{domain}'.",
            code="duplicate_code",
            where="/code",
            hint="Edit that rule, or choose another code.",
        )
    return rule


def next_version(rule: Rule, content: RuleContent, *, note: str, actor: Any) -> tuple[RuleVersion, bool]:
    """The newest version if it says the same, else a new one; and whether it is new. The caller holds the rule."""
    newest = rule.versions.order_by("-number").first()
    content_hash = content.content_hash()
    if newest is not None and newest.content_hash == content_hash:
        return newest, False
    ids: dict[str, int] = dict(Tool.objects.filter(name__in=content.tools).values_list("name", "pk"))
    version = build_version(rule, (newest.number if newest else 0) + 1, content, ids)
    version.note, version.author = note[:300], actor
    version.save(force_insert=True)
    return version, True
