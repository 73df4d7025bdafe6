"""Carrying a change request out: every check again under locks, then versions and publishing in one transaction."""

from collections.abc import Sequence
from typing import Any

from django.db import IntegrityError, transaction

from rules.book import ToolNames
from rules.changes.conflicts import (
    Proposal,
    change_label,
    changes_of,
    proposals_of,
    request_conflicts,
    request_findings,
)
from rules.core.check import Finding, has_errors
from rules.core.rules_file import RuleEntry
from rules.models import ChangeRequest, Rule, RuleChange, RuleVersion
from rules.services import build_version, checked_entry, publish_checked, rule_withdraw
from trace_site.audit import models as audit_models
from trace_site.lib.errors import TraceError

Entries = dict[int, RuleEntry]  # by change


def check_complete(changes: Sequence[RuleChange], proposals: Sequence[Proposal], names: ToolNames) -> Entries:
    """Refuse a request that holds nothing, an unfinished rule, or a change that changes nothing."""
    if not changes:
        raise TraceError(
            "The request holds no change.", code="bad_state", hint="Edit a rule and add it, or cancel it."
        )
    entries: Entries = {}
    for proposal in proposals:
        try:
            entries[proposal.change.pk] = checked_entry(
                proposal.content, proposal.code, proposal.domain, names
            )
        except TraceError as error:
            code = change_label(proposal.change)
            error.where = f"{code}{error.where}"
            error.extra |= {"change": proposal.change.pk, "label": code}
            raise
        _refuse_nothing(proposal)
    return entries


def _refuse_nothing(proposal: Proposal) -> None:
    change, base = proposal.change, proposal.change.base
    live = change.rule is not None and base is not None and base.pk == change.rule.published_id
    if base and live and base.content_hash == proposal.content.content_hash():
        raise TraceError(
            f"The change of {change_label(change)} says what v{base.number} says already.",
            code="bad_state",
            hint="Edit it, or remove it from the request.",
            extra={"change": change.pk},
        )


def check_clear(request: ChangeRequest, changes: Sequence[RuleChange], proposals: Sequence[Proposal]) -> None:
    """Raise TraceError `conflict` or `findings` with the first thing that blocks; extra lists all of them."""
    blocking = [conflict for conflict in request_conflicts(request, changes) if conflict.blocks]
    if blocking:
        raise TraceError(
            blocking[0].sentence,
            code="conflict",
            hint="Open the change, compare it with what is there now, and save it on top of that.",
            extra={"conflicts": [conflict.sentence for conflict in blocking]},
        )
    findings = request_findings(changes, proposals)
    for change in changes:
        if has_errors(findings.get(change.pk, [])):
            raise _findings_error(change, findings[change.pk])


def _findings_error(change: RuleChange, findings: Sequence[Finding]) -> TraceError:
    first = next(finding for finding in findings if finding.level == "error")
    return TraceError(
        f"{change_label(change)}: {first.sentence}",
        code="findings",
        hint=first.fix,
        extra={"change": change.pk, "findings": [finding.as_dict() for finding in findings]},
    )


def carry_out(request: ChangeRequest, actor: Any) -> list[RuleVersion]:
    """Make and publish what the request proposes; returns the published versions. The caller holds the catalog and
    the request.

    Raises TraceError `conflict`, `findings`, `bad_rule` or `bad_state`; then nothing is written.
    """
    edited = {change.rule_id for change in request.changes.all() if change.rule_id}
    list(Rule.objects.select_for_update(no_key=True).filter(pk__in=edited).order_by("pk"))
    changes = changes_of(request)
    proposals, names = proposals_of(changes), ToolNames()
    check_clear(request, changes, proposals)
    rules = _rules(proposals, check_complete(changes, proposals, names))
    detail = {"request": request.pk}
    versions = _versions(proposals, rules, names.ids(), detail)
    publish_checked(versions, actor, detail)
    for change in changes:
        if change.rule and change.action == RuleChange.Action.WITHDRAW:
            rule_withdraw(rule=change.rule, actor=actor, detail=detail)
    return versions


def _versions(
    proposals: Sequence[Proposal], rules: dict[int, Rule], ids: dict[str, int], detail: dict[str, Any]
) -> list[RuleVersion]:
    """The versions that the changes become, each by whoever wrote it; the number of queries does not grow with them."""
    rows = (
        RuleVersion.objects.filter(rule__in=rules.values()).order_by("rule_id", "-number").distinct("rule_id")
    )
    newest = {version.rule_id: version for version in rows}
    made, versions = [], []
    for proposal in proposals:
        change, rule = proposal.change, rules[proposal.change.pk]
        version = newest.get(rule.pk)
        if version is None or version.content_hash != proposal.content.content_hash():
            version = build_version(rule, version.number + 1 if version else 1, proposal.content, ids)
            version.note = (change.note or f"change request {change.request_id}")[:300]
            version.author = change.edited_by
            made.append(version)
        version.rule = rule
        versions.append(version)
    RuleVersion.objects.bulk_create(made, batch_size=500)
    changes = [proposal.change for proposal in proposals]
    for change, version in zip(changes, versions, strict=True):
        change.version = version
    RuleChange.objects.bulk_update(changes, ["version"], batch_size=500)
    for author in {version.author for version in made}:
        saved = [
            (version.rule, {"version": version.number, "note": version.note, **detail})
            for version in made
            if version.author == author
        ]
        audit_models.record_all(actor=author, action="rule.saved", objects=saved)
    return versions


def _rules(proposals: Sequence[Proposal], entries: Entries) -> dict[int, Rule]:
    """Change id -> its rule; the rows of new rules are made. Raises TraceError code `duplicate_code`."""
    rules = {proposal.change.pk: proposal.change.rule for proposal in proposals if proposal.change.rule}
    new = {pk: entry for pk, entry in entries.items() if pk not in rules}
    rows = [Rule(domain_id=entry.domain, code=entry.code) for entry in new.values()]
    try:
        with transaction.atomic():
            Rule.objects.bulk_create(rows, batch_size=500)
    except IntegrityError as error:
        raise TraceError(
            "A rule with one of the new codes was made meanwhile.",
            code="duplicate_code",
            where="/code",
            hint="Look at the conflicts of the request, and choose another code.",
        ) from error
    return rules | dict(zip(new, rows, strict=True))


def title_of(changes: Sequence[RuleChange]) -> str:
    """A title made from what is changed, for a request that was given none."""
    parts = [
        f"{'Withdraw ' if change.action == RuleChange.Action.WITHDRAW else ''}{change_label(change)}"
        for change in changes
    ]
    title = ", ".join(parts)
    return title if len(title) <= 200 else f"{title[:199]}…"
