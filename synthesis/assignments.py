"""Part of the queue given to one person: they meet it first, and nobody else meets it.

Only free items are given: what somebody holds, what is another's, and what the person has read in another round stay
where they are. Taking back returns what is not decided to everybody; a claim somebody holds on it lasts until it ends.
"""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now
from django.urls import reverse

from synthesis.claims import open_to
from synthesis.models import Assignment, ReviewItem
from synthesis.selectors_queue import in_filters
from trace_site import audit
from trace_site.access import ADMIN, REVIEWER, roles_of
from trace_site.lib.errors import TraceError
from trace_site.notices import tell

State = ReviewItem.State
UNDECIDED = (State.HELD, State.OPEN, State.CLAIMED, State.WITHDRAWN)
WAITS = (State.HELD, State.OPEN, State.CLAIMED)
MOST = 10_000  # items of one assignment: nobody else is served those that are locked while they are given


def count_free(assignee: Any, filters: Mapping[str, Any]) -> int:
    """How many `assign` finds free; MOST + 1 means more than MOST."""
    return assignable(assignee, filters)[: MOST + 1].count()


def assignable(assignee: Any, filters: Mapping[str, Any]) -> QuerySet[ReviewItem]:
    """Free items of a selection that this person may read."""
    return in_filters(open_to(assignee, ReviewItem.objects.filter(assigned_to=None)), filters)


@transaction.atomic
def assign(
    *, assignee: Any, actor: Any, filters: Mapping[str, Any], count: int | None = None, note: str = ""
) -> Assignment:
    """Give `assignee` the first `count` free items of a selection, or all of them, MOST at a time.

    Raises TraceError: `not_allowed`, `bad_input`; `conflict` where nothing is free.
    """
    _check_may_give(actor, assignee)
    if count is not None and count < 1:
        raise TraceError("give at least one item.", code="bad_input", where="count")
    rows = assignable(assignee, filters).select_for_update(skip_locked=True, no_key=True, of=("self",))
    return _give(rows[: min(count or MOST, MOST)], assignee, actor, filters, note)


@transaction.atomic
def take_back(*, assignment: Assignment, actor: Any) -> int:
    """Return what is not decided to everybody; how many items. Raises `not_allowed`, `bad_state`."""
    row = _running(assignment, actor)
    count = _free(row)
    audit.record(actor=actor, action="assignment.taken_back", obj=row, detail={"items": count})
    if row.assignee_id != actor.pk and count:
        text = f"{actor} took back {_samples(count)} that were assigned to you."
        tell([row.assignee], "assignment", text, link=reverse("synthesis:review"), key=f"assignment {row.pk}")
    return count


@transaction.atomic
def reassign(*, assignment: Assignment, assignee: Any, actor: Any) -> Assignment:
    """Give what is open of an assignment to somebody else.

    What the old assignee is reading now stays with them; what the new one has read in another round is everybody's.
    """
    row = _running(assignment, actor)
    _check_may_give(actor, assignee)
    if row.assignee_id == assignee.pk:
        raise TraceError(f"{assignee} has it already.", code="bad_input", where="assignee")
    ids = list(open_to(row.assignee, row.items.all()).values_list("pk", flat=True))
    _free(row)  # and hold what it frees
    free = assignable(assignee, {}).filter(pk__in=ids)
    new = _give(free, assignee, actor, row.filters, row.note)
    audit.record(
        actor=actor, action="assignment.reassigned", obj=row, detail={"to": new.pk, "items": new.count}
    )
    return new


def end_done() -> int:
    """Sweeper: end every assignment of which nothing is left; how many."""
    left = ReviewItem.objects.filter(assignment=OuterRef("pk"), state__in=WAITS)
    return Assignment.objects.filter(~Exists(left), ended_at=None).update(ended_at=Now())


def assignment_row(pk: int) -> Assignment:
    """Raises TraceError `not_found`."""
    row = Assignment.objects.select_related("assignee", "assigned_by").filter(pk=pk).first()
    if row is None:
        raise TraceError(f"there is no assignment {pk}.", code="not_found", where="assignment")
    return row


def may_end(actor: Any, assignment: Assignment) -> bool:
    """Admins, and who took it for themselves."""
    own = assignment.assignee_id == actor.pk == assignment.assigned_by_id
    return ADMIN in roles_of(actor) or own


def _give(
    rows: QuerySet[ReviewItem], assignee: Any, actor: Any, filters: Mapping[str, Any], note: str
) -> Assignment:
    ids = list(rows.values_list("pk", flat=True))
    if not ids:
        raise TraceError(
            "no item of this selection is free.",
            code="conflict",
            where="assignment",
            hint="What somebody holds, what is another's, and what the person has read already is not given.",
        )
    row = Assignment.objects.create(
        assignee=assignee, assigned_by=actor, filters=dict(filters), count=len(ids), note=note[:300]
    )
    ReviewItem.objects.filter(pk__in=ids).update(assignment=row, assigned_to=assignee)
    audit.record(
        actor=actor,
        action="assignment.made",
        obj=row,
        detail={"assignee": str(assignee), "items": len(ids), "filters": row.filters},
    )
    if assignee.pk != actor.pk:
        text = f"{actor} gave you {_samples(len(ids))} to review{': ' + note if note else '.'}"
        tell([assignee], "assignment", text, link=reverse("synthesis:review"), key=f"assignment {row.pk}")
    return row


def _free(row: Assignment) -> int:
    """What is not decided belongs to everybody; how many items still waited."""
    left = row.items.filter(state__in=UNDECIDED).order_by("-sample", "-round")
    states = dict(left.select_for_update(no_key=True).values_list("pk", "state"))
    ReviewItem.objects.filter(pk__in=states).update(assignment=None, assigned_to=None)
    Assignment.objects.filter(pk=row.pk).update(ended_at=Now())
    return sum(state != State.WITHDRAWN for state in states.values())


def _running(assignment: Assignment, actor: Any) -> Assignment:
    row = Assignment.objects.select_for_update(of=("self",)).select_related("assignee").get(pk=assignment.pk)
    if not may_end(actor, row):
        raise TraceError(
            "only an admin, or the person who took it for themselves, may change this assignment.",
            code="not_allowed",
            where=f"assignment {row.pk}",
        )
    if row.ended_at is not None:
        raise TraceError(
            "it has ended: all of it is decided, or it was taken back.",
            code="bad_state",
            where=f"assignment {row.pk}",
        )
    return row


def _check_may_give(actor: Any, assignee: Any) -> None:
    if ADMIN not in roles_of(actor) and not (REVIEWER in roles_of(actor) and assignee.pk == actor.pk):
        raise TraceError(
            "reviewers take items for themselves; only an admin gives them to others.",
            code="not_allowed",
            where="assignee",
        )
    if not (assignee.is_active and roles_of(assignee) & {REVIEWER, ADMIN}):
        raise TraceError(
            f"{assignee} does not review.", code="bad_input", where="assignee", hint="Choose a reviewer."
        )


def _samples(count: int) -> str:
    return f"{count:,} sample{'' if count == 1 else 's'}"
