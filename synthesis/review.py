"""Decisions about samples. Every change is conditional on the state the person saw: of two reviewers one wins, the
other gets TraceError "conflict". Decisions are append-only rows; an undo is one more of them.
"""

import random
from typing import Any

from django.db import transaction

from catalog.queries import benchmark_firewall
from synthesis.core.filters import Candidate, Failure, query_failures, trace_failures
from synthesis.core.recipe import read_recipe
from synthesis.models import Decision, Sample
from synthesis.selectors_review import waiting
from synthesis.sources import load_catalog, published_codes, rule_texts
from trace_site import audit
from trace_site.lib.errors import TraceError
from trace_site.webhooks import emit

REASONS = {
    "wrong_tool": "wrong tool",
    "wrong_rule": "rule misread",
    "unnatural": "nobody would type this",
    "leak": "gives the answer away",
    "unclear": "several tools fit",
    "bad_trace": "reasoning does not lead to the answer",
    "duplicate": "almost a duplicate",
    "personal_data": "personal data",
    "other": "other (see note)",
}
STATE = ("human", "query", "trace", "answer", "approved_by")


def approve(*, sample: Sample | int, reviewer: Any, note: str = "") -> Sample:
    return _decide(
        sample,
        reviewer,
        Decision.Verdict.APPROVE,
        note=note,
        human=Sample.Human.APPROVED,
        approved_by=str(reviewer),
    )


def reject(*, sample: Sample | int, reviewer: Any, reason: str, note: str = "") -> Sample:
    """Reject with a reason; a later run writes a sample in its place."""
    if reason not in REASONS:
        raise TraceError(
            "choose a reason.", code="bad_reason", where="reason", hint=f"One of: {', '.join(REASONS)}."
        )
    return _decide(
        sample, reviewer, Decision.Verdict.REJECT, reason=reason, note=note, human=Sample.Human.REJECTED
    )


def edit(
    *,
    sample: Sample | int,
    reviewer: Any,
    query: str,
    trace: str,
    answer: list[str] | None = None,
    note: str = "",
) -> Sample:
    """Correct and approve in one step; what the filter refuses is not taken."""
    row = _row(sample)
    answer = list(row.answer) if answer is None else answer
    if failures := check(sample=row, query=query, trace=trace, answer=answer):
        raise TraceError(
            " ".join(f"{failure.check}: {failure.message}" for failure in failures),
            code="filtered",
            where=f"sample {row.pk}",
            hint="Correct it and try again.",
            extra={"failures": [failure.as_dict() for failure in failures]},
        )
    return _decide(
        row,
        reviewer,
        Decision.Verdict.EDIT,
        note=note,
        human=Sample.Human.APPROVED,
        query=query,
        trace=trace,
        answer=answer,
        approved_by=str(reviewer),
    )


def check(*, sample: Sample, query: str, trace: str, answer: list[str] | None = None) -> list[Failure]:
    """What filter V says about a text as a person typed it, benchmark queries included."""
    catalog = load_catalog(neighbours=False)
    recipe = read_recipe(sample.run.params.get("recipe", {}))
    context = catalog.filter_context(recipe, codes=published_codes())
    rule = rule_texts([sample.rule_version])[0] if sample.rule_version else None
    pool = catalog.pool(sample.pool or sample.answer)
    candidate = Candidate(
        branch=sample.branch,
        query=query,
        answer=tuple(sample.answer if answer is None else answer),
        pool=frozenset(tool.name for tool in pool),
        trace=trace,
        style=sample.style,
        tier=sample.tier,
        rule_code=rule.code if rule else "",
        rule_tools=rule.tools if rule else (),
        permission_tags=frozenset(tag for tool in pool for tag in tool.permissions),
    )
    failures = query_failures(candidate, context)
    if trace or sample.trace:
        failures += trace_failures(candidate, context)
    if query != sample.query and (hit := benchmark_firewall().check(query)):
        failures.append(Failure("near_duplicate", "The query repeats a benchmark query.", hit.query))
    return failures


def undo(*, reviewer: Any) -> Sample:
    """Take back one's own last decision that still stands."""
    with transaction.atomic():
        for decision in Decision.objects.filter(reviewer=reviewer, policy="").order_by("-pk")[:200]:
            if decision.verdict == Decision.Verdict.UNDO or _undone(decision):
                continue
            return _take_back(decision, reviewer)
    raise TraceError("you have no decision to undo.", code="nothing_to_undo")


def _undone(decision: Decision) -> bool:
    return Decision.objects.filter(
        sample=decision.sample_id, verdict=Decision.Verdict.UNDO, after__undoes=decision.pk
    ).exists()


def _take_back(decision: Decision, reviewer: Any) -> Sample:
    later = Decision.objects.filter(sample=decision.sample_id, pk__gt=decision.pk)
    if later.exclude(verdict=Decision.Verdict.UNDO).exists():
        raise _conflict(decision.sample_id)
    before = {name: decision.before[name] for name in STATE}
    changed = Sample.objects.filter(pk=decision.sample_id, human=decision.after["human"]).update(**before)
    if not changed:
        raise _conflict(decision.sample_id)
    row = Sample.objects.get(pk=decision.sample_id)
    Decision.objects.create(
        sample=row,
        reviewer=reviewer,
        verdict=Decision.Verdict.UNDO,
        before=decision.after,
        after={**before, "undoes": decision.pk},
    )
    audit.record(actor=reviewer, action="sample.undo", obj=row, detail={"undoes": decision.pk})
    return row


def _row(sample: Sample | int) -> Sample:
    if isinstance(sample, Sample):
        return sample
    rows = Sample.objects.select_related("rule_version__rule")
    found = rows.filter(pk=sample).first()
    if found is None:
        raise TraceError(f"there is no sample {sample}.", code="no_such_sample", where=f"sample {sample}")
    return found


@transaction.atomic
def _decide(
    sample: Sample | int, reviewer: Any, verdict: str, *, reason: str = "", note: str = "", **changes: Any
) -> Sample:
    """Move a waiting sample and record it, or lose to whoever came first."""
    row = _row(sample)
    before = {name: getattr(row, name) for name in STATE}
    waiting = Sample.objects.filter(pk=row.pk, machine=Sample.Machine.READY, human=Sample.Human.PENDING)
    # what was read must be what is approved: a text changed in between is a conflict too
    if not waiting.filter(query=row.query, trace=row.trace).update(**changes):
        raise _conflict(row.pk)
    row = Sample.objects.get(pk=row.pk)
    Decision.objects.create(
        sample=row,
        reviewer=reviewer,
        verdict=verdict,
        reason=reason,
        note=note,
        before=before,
        after={name: getattr(row, name) for name in STATE},
    )
    audit.record(
        actor=reviewer, action=f"sample.{verdict}", obj=row, detail={"reason": reason} if reason else {}
    )
    if row.human == Sample.Human.APPROVED:
        emit("sample.approved", {"count": 1, "sample": row.pk, "by": str(reviewer)})
    return row


def _conflict(sample: int) -> TraceError:
    return TraceError(
        "somebody else has decided it meanwhile.",
        code="conflict",
        where=f"sample {sample}",
        hint="Take the next one.",
    )


@transaction.atomic
def policy_approve(*, count: int | None, actor: Any = None, seed: int = 0) -> dict[str, int]:
    """Approve by an explicit, audited policy instead of reading: `count` waiting samples by lot, or all of them."""
    rows = list(waiting().select_for_update(skip_locked=True).only("pk", *STATE))
    asked = len(rows) if count is None else min(count, len(rows))
    chosen = rows if count is None else random.Random(seed).sample(rows, asked)
    how = "all" if count is None else f"{count} by lot, seed {seed}"
    policy = f"auto-approve {how}: {asked} of {len(rows)} waiting, none read"
    Sample.objects.filter(pk__in=[row.pk for row in chosen]).update(
        human=Sample.Human.APPROVED, approved_by=f"policy {policy}"[:200]
    )
    after = {"human": Sample.Human.APPROVED, "approved_by": f"policy {policy}"[:200]}
    Decision.objects.bulk_create(
        (
            Decision(
                sample=row,
                reviewer=actor,
                policy=policy,
                verdict=Decision.Verdict.APPROVE,
                before={"human": row.human, "approved_by": row.approved_by},
                after=after,
            )
            for row in chosen
        ),
        batch_size=1000,
    )
    if chosen:
        audit.record(
            actor=actor,
            action="review.policy",
            obj=chosen[0],
            detail={"policy": policy, "samples": len(chosen)},
        )
        emit("sample.approved", {"count": len(chosen), "sample": None, "by": f"policy {policy}"})
    return {"approved": len(chosen), "waiting": len(rows) - len(chosen)}
