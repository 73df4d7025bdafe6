"""Rules as tests need them: saved as the next version, published when asked, without a request."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from catalog.services import catalog_lock
from rules.book import CatalogNames, content_problems, refused_content, version_findings
from rules.core.check import Finding, has_errors
from rules.core.rule import make_content
from rules.core.rules_file import new_code
from rules.models import Rule, RuleVersion
from rules.services import publish_checked, recheck, versions_save
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
    if publish:
        catalog_lock()
    content = make_content(target=target, confusables=confusables, text=text, clauses=clauses, tests=tests)
    code, domain = (rule.code, rule.domain_id) if rule else (code, domain)
    names = CatalogNames(name for _, name in content.names())
    if problems := content_problems(content, names, code=code, domain=domain):
        raise refused_content(problems)
    rule = (
        new_rule(target, names.domains[target], code)
        if rule is None
        else Rule.objects.select_for_update().get(pk=rule.pk)
    )
    before = rule.versions.count()
    (version,) = versions_save([(rule, content, note, actor)])
    changed = rule.versions.count() > before
    findings = version_findings(version)
    if publish and not has_errors(findings):
        publish_checked([version], actor)
    elif changed:
        recheck([rule.pk])
    return SavedRule(version, findings, changed, rule.published_id == version.pk)


def new_rule(target: str, domain: str, code: str) -> Rule:
    """The row of a rule that does not exist yet. Raises TraceError code `duplicate_code`."""
    if not code:
        taken = Rule.objects.filter(domain_id=domain).values_list("code", flat=True)
        code = new_code(target, set(taken))
    rule, created = Rule.objects.get_or_create(domain_id=domain, code=code)
    if not created:
        raise TraceError(
            f"the rule {code} already exists in the domain '{domain}'.",
            code="duplicate_code",
            where="/code",
            hint="Edit that rule, or choose another code.",
        )
    return rule
