"""Part of the queue given to one person: they meet it first, and nobody else meets it.

Only free items are given: what somebody holds, what is another's, and what the person has read in another round stay
where they are. Taking back returns what is not decided to everybody; a claim somebody holds on it lasts until it ends.
"""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now
from django.urls import reverse

from synthesis.models import Assignment, Decision, ReviewItem, Sample, SampleComment, SavedView
from synthesis.review.queue import WAITS, State, open_to
from synthesis.review.selectors import in_filters
from synthesis.team.selectors import names_in
from trace_site.access import ADMIN, REVIEWER, roles_of
from trace_site.audit import models as audit_models
from trace_site.lib.errors import TraceError
from trace_site.notices.services import tell

MOST = 10_000  # items of one assignment: nobody else is served those that are locked while they are given


def assignable(assignee: Any, filters: Mapping[str, Any]) -> QuerySet[ReviewItem]:
    """Free items of a selection that this person may read."""
    return in_filters(open_to(assignee, ReviewItem.objects.filter(assigned_to=None)), filters)


@transaction.atomic
def assign(
    *, assignee: Any, actor: Any, filters: Mapping[str, Any], count: int | None = None, note: str = ""
) -> Assignment:
    """Give `assignee` the first `count` free items of a selection, or all of them, MOST at a time. Raises TraceError:
    `not_allowed`, `bad_input`; `conflict` where nothing is free.
    """
    _check_may_give(actor, assignee)
    if count is not None and count < 1:
        raise TraceError("give at least one item.", code="bad_input", where="count")
    rows = assignable(assignee, filters).select_for_update(skip_locked=True, no_key=True, of=("self",))
    return _give(rows[: min(count or MOST, MOST)], assignee, actor, filters, note)


@transaction.atomic
def take_back(*, assignment: int, actor: Any) -> int:
    """Return what is not decided to everybody; how many items. Raises `not_found`, `not_allowed`, `bad_state`."""
    row = _running(assignment, actor)
    count = _free(row)
    audit_models.record(actor=actor, action="assignment.taken_back", obj=row, detail={"items": count})
    if row.assignee_id != actor.pk and count:
        text = f"{actor} took back {count:,} sample{'' if count == 1 else 's'} that were assigned to you."
        tell([row.assignee], "assignment", text, link=reverse("synthesis:review"), key=f"assignment {row.pk}")
    return count


@transaction.atomic
def reassign(*, assignment: int, assignee: Any, actor: Any) -> Assignment:
    """Give what is open of an assignment to somebody else. What the old assignee is reading now stays with them; what
    the new one has read in another round is everybody's.
    """
    row = _running(assignment, actor)
    _check_may_give(actor, assignee)
    if row.assignee_id == assignee.pk:
        raise TraceError(f"{assignee} has it already.", code="bad_input", where="assignee")
    ids = list(open_to(row.assignee, row.items.all()).values_list("pk", flat=True))
    _free(row)  # and hold what it frees
    free = assignable(assignee, {}).filter(pk__in=ids)
    new = _give(free, assignee, actor, row.filters, row.note)
    detail = {"to": new.pk, "items": new.count}
    audit_models.record(actor=actor, action="assignment.reassigned", obj=row, detail=detail)
    return new


def end_done() -> int:
    """Sweeper: end every assignment of which nothing is left; how many."""
    left = ReviewItem.objects.filter(assignment=OuterRef("pk"), state__in=WAITS)
    return Assignment.objects.filter(~Exists(left), ended_at=None).update(ended_at=Now())


def may_end(actor: Any, assignment: Assignment) -> bool:
    """Admins, and who took it for themselves."""
    return ADMIN in roles_of(actor) or assignment.assignee_id == actor.pk == assignment.assigned_by_id


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
    given = {"filters": dict(filters), "count": len(ids), "note": note[:300]}
    row = Assignment.objects.create(assignee=assignee, assigned_by=actor, **given)
    ReviewItem.objects.filter(pk__in=ids).update(assignment=row, assigned_to=assignee)
    detail = {"assignee": str(assignee), "items": len(ids), "filters": row.filters}
    audit_models.record(actor=actor, action="assignment.made", obj=row, detail=detail)
    if assignee.pk != actor.pk:
        samples = f"{len(ids):,} sample{'' if len(ids) == 1 else 's'}"
        text = f"{actor} gave you {samples} to review{': ' + note if note else '.'}"
        tell([assignee], "assignment", text, link=reverse("synthesis:review"), key=f"assignment {row.pk}")
    return row


def _free(row: Assignment) -> int:
    """What is not decided belongs to everybody; how many items still waited."""
    left = row.items.filter(state__in=(*WAITS, State.WITHDRAWN)).order_by("-sample", "-round")
    states = dict(left.select_for_update(no_key=True).values_list("pk", "state"))
    ReviewItem.objects.filter(pk__in=states).update(assignment=None, assigned_to=None)
    Assignment.objects.filter(pk=row.pk).update(ended_at=Now())
    return sum(state != State.WITHDRAWN for state in states.values())


def _running(pk: int, actor: Any) -> Assignment:
    rows = Assignment.objects.select_for_update(of=("self",)).select_related("assignee")
    row = rows.filter(pk=pk).first()
    if row is None:
        raise TraceError(f"there is no assignment {pk}.", code="not_found", where="assignment")
    if not may_end(actor, row):
        message = "only an admin, or the person who took it for themselves, may change this assignment."
        raise TraceError(message, code="not_allowed", where=f"assignment {row.pk}")
    if row.ended_at is not None:
        message = "it has ended: all of it is decided, or it was taken back."
        raise TraceError(message, code="bad_state", where=f"assignment {row.pk}")
    return row


def _check_may_give(actor: Any, assignee: Any) -> None:
    if ADMIN not in roles_of(actor) and not (REVIEWER in roles_of(actor) and assignee.pk == actor.pk):
        message = "reviewers take items for themselves; only an admin gives them to others."
        raise TraceError(message, code="not_allowed", where="assignee")
    if not (assignee.is_active and roles_of(assignee) & {REVIEWER, ADMIN}):
        message = f"{assignee} does not review."
        raise TraceError(message, code="bad_input", where="assignee", hint="Choose a reviewer.")


# What people say about a sample: plain text, append-only. Who decided it, and who is mentioned, is told that
# somebody wrote, never what: the text may name a verdict that a reader must not know yet.


LONGEST = 2000


@transaction.atomic
def comment_add(*, sample: Sample, author: Any, text: str) -> SampleComment:
    """Raises TraceError `bad_input` for an empty or too long text, `not_allowed` for somebody without a role."""
    text = text.replace("\r\n", "\n").strip()
    if not roles_of(author):
        raise TraceError("commenting needs a role.", code="not_allowed", hint="An admin gives you one.")
    if not text or len(text) > LONGEST:
        wrong = f"it has {len(text):,} characters." if text else "the comment is empty."
        raise TraceError(wrong, code="bad_input", where="text", hint=f"Write 1 to {LONGEST:,} characters.")
    row = SampleComment.objects.create(sample=sample, author=author, text=text)
    audit_models.record(actor=author, action="sample.commented", obj=row)
    link = f"{reverse('synthesis:sample', args=[sample.pk])}#comments"
    mentioned = User.objects.filter(username__in=names_in(text), is_active=True)
    named = set(mentioned.values_list("pk", flat=True)) - {author.pk}
    decided = Decision.objects.filter(sample=sample, policy="", reviewer__is_active=True)
    readers = set(decided.values_list("reviewer", flat=True)) - named - {author.pk, None}
    about = f"a comment on sample {sample.pk}"
    tell(named, "comment", f"{author} mentioned you in {about}.", link=link)
    key = f"comment {sample.pk} {author.pk}"
    tell(readers, "comment", f"{author} wrote {about}, which you decided.", link=link, key=key)
    return row


# Named selections of the queue and of the sample list: one's own, or shared with everybody.
#
# The query is stored as the page's own form writes it.


MOST_SAVED = 50  # a person and page


@transaction.atomic
def view_save(*, owner: Any, page: str, name: str, query: str, shared: bool = False) -> SavedView:
    """Save under a name; one's own view of that name is replaced. Raises TraceError `bad_input`."""
    name = _name(name)
    if len(query) > 1000:
        raise TraceError("the filters are too long to save.", code="bad_input", where="query")
    mine = SavedView.objects.filter(owner=owner, page=page)
    if not mine.filter(name=name).exists() and mine.count() >= MOST_SAVED:
        message = f"you have {MOST_SAVED} saved views here."
        raise TraceError(message, code="bad_input", where="name", hint="Delete one first.")
    given = {"query": query, "shared": shared}
    row, _ = SavedView.objects.update_or_create(owner=owner, page=page, name=name, defaults=given)
    audit_models.record(actor=owner, action="saved_view.saved", obj=row, detail=given)
    return row


@transaction.atomic
def view_change(*, view: int, actor: Any, name: str, shared: bool) -> SavedView:
    """Rename it, share it or keep it to oneself."""
    row = _own(view, actor)
    name = _name(name)
    if SavedView.objects.filter(owner=row.owner, page=row.page, name=name).exclude(pk=row.pk).exists():
        message = f"there is a view {name!r} already."
        raise TraceError(message, code="bad_input", where="name", hint="Choose another name.")
    row.name, row.shared = name, shared
    row.save(update_fields=["name", "shared"])
    audit_models.record(actor=actor, action="saved_view.changed", obj=row, detail={"shared": shared})
    return row


@transaction.atomic
def view_delete(*, view: int, actor: Any) -> SavedView:
    """Remove it for everybody who sees it."""
    row = _own(view, actor)
    audit_models.record(actor=actor, action="saved_view.deleted", obj=row, detail={"query": row.query})
    row.delete()
    return row


def _name(name: str) -> str:
    name = " ".join(name.split())
    if not 0 < len(name) <= 60:
        raise TraceError("a view needs a name.", code="bad_input", where="name", hint="1 to 60 characters.")
    return name


def _own(view: int, actor: Any) -> SavedView:
    """The row, locked, if it is the actor's, or shared and the actor an admin."""
    row = SavedView.objects.select_for_update().filter(pk=view).first()
    if row is None or not (row.owner_id == actor.pk or row.shared):
        raise TraceError("there is no such saved view.", code="not_found", where="view")
    if row.owner_id != actor.pk and ADMIN not in roles_of(actor):
        raise TraceError("only its owner or an admin may change it.", code="not_allowed", where=row.name)
    return row
