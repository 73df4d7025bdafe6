"""Decisions about samples, append-only: the one place that writes them, and which of them stand."""

from collections.abc import Sequence
from typing import Any

from django.db import connection
from django.db.models import F, QuerySet

from synthesis.models import Decision, ReviewItem, Sample
from trace_site.audit import models as audit_models
from trace_site.lib.files import content_hash
from trace_site.webhooks.services import emit

TEXTS = ("query", "trace", "answer")  # what a decision is about


def texts_of(sample: Sample) -> dict[str, Any]:
    return {name: getattr(sample, name) for name in TEXTS}


def seen_key(sample: Sample) -> str:
    """Names the text a person has on screen, so that nobody approves words they did not see."""
    return content_hash([sample.query, sample.trace, sample.answer])[:16]


def standing_decisions() -> QuerySet[Decision]:
    """Decisions about items that were not taken back."""
    rows = Decision.objects.filter(item__state=ReviewItem.State.DECIDED, take=F("item__takes"))
    return rows.exclude(verdict=Decision.Verdict.UNDO)


def own_decisions(reviewer: Any) -> QuerySet[Decision]:
    """The decisions of one's own that stand, newest first."""
    found = standing_decisions().filter(reviewer=reviewer, item__decided_by=reviewer)
    return found.select_related("item").order_by("-at", "-pk")


def decision_write(decision: Decision, detail: dict[str, Any]) -> None:
    """A person's, with its entry in the audit."""
    decision.save(force_insert=True)
    action = f"sample.{decision.verdict}"
    audit_models.record(actor=decision.reviewer, action=action, obj=decision.sample, detail=detail)


# Approval without reading. Three statements over arrays of ids: as one, with the rest of a batch as a subquery,
# PostgreSQL has no idea how many rows it has.

WRITE_UNREAD = """
INSERT INTO synthesis_decision
  (sample_id, item_id, round, take, reviewer_id, policy, verdict, reason, note, follow_up, before, after, at)
SELECT s.id, i.id, coalesce(i.round, 1), coalesce(i.takes, 0), %(reviewer)s, %(policy)s, 'approve', '', '', '',
  CASE WHEN i.id IS NULL THEN '{}' ELSE jsonb_build_object('human', s.human, 'approved_by', s.approved_by) END,
  jsonb_build_object('human', 'approved', 'approved_by', %(by)s::text, 'approved_how', %(how)s::text), now()
FROM unnest(%(samples)s::bigint[], %(items)s::bigint[]) AS unread (sample, item)
JOIN synthesis_sample s ON s.id = unread.sample LEFT JOIN synthesis_reviewitem i ON i.id = unread.item
ORDER BY unread.item, s.id
"""
# decided, so that an item which somebody opens again waits for a decision of its own
END_ITEMS = "UPDATE synthesis_reviewitem SET state = 'decided', decided_at = now() WHERE id = ANY(%s)"
APPROVE = """
UPDATE synthesis_sample SET human = 'approved', approved_by = %s, approved_how = %s, updated_at = now()
WHERE id = ANY(%s)
"""


def decisions_unread(
    rows: Sequence[tuple[int, int | None]], *, policy: str, by: str, how: str, reviewer: Any = None
) -> None:
    """A decision that names `policy` for every (sample, its item if it has one)."""
    given = {"policy": policy[:200], "by": by[:200], "how": how, "reviewer": reviewer and reviewer.pk}
    given |= {"samples": [sample for sample, _ in rows], "items": [item for _, item in rows]}
    with connection.cursor() as cursor:
        cursor.execute(WRITE_UNREAD, given)


def approve_unread(
    rows: Sequence[tuple[int, int]], *, policy: str, by: str, how: str, reviewer: Any = None
) -> None:
    """Approve the samples of (sample, its item); the items are locked and wait."""
    if not rows:
        return
    decisions_unread(rows, policy=policy, by=by, how=how, reviewer=reviewer)
    with connection.cursor() as cursor:
        cursor.execute(END_ITEMS, [[item for _, item in rows]])
        cursor.execute(APPROVE, [by[:200], how, [sample for sample, _ in rows]])
    emit("sample.approved", {"count": len(rows), "sample": None, "by": by})
