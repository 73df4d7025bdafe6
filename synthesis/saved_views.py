"""Named selections of the queue and of the sample list: one's own, or shared with everybody.

The query is stored as the page's own form writes it, see views_saved.
"""

from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from synthesis.models import SavedView
from trace_site import audit
from trace_site.access import ADMIN, roles_of
from trace_site.lib.errors import TraceError

MOST = 50  # a person and page


def views_of(person: Any, page: str) -> QuerySet[SavedView]:
    """Own and shared ones, by name."""
    rows = SavedView.objects.filter(Q(owner=person) | Q(shared=True), page=page)
    return rows.select_related("owner").order_by("name", "id")


@transaction.atomic
def view_save(*, owner: Any, page: str, name: str, query: str, shared: bool = False) -> SavedView:
    """Save under a name; one's own view of that name is replaced. Raises TraceError `bad_input`."""
    name = _name(name)
    if len(query) > 1000:
        raise TraceError("the filters are too long to save.", code="bad_input", where="query")
    mine = SavedView.objects.filter(owner=owner, page=page)
    if not mine.filter(name=name).exists() and mine.count() >= MOST:
        raise TraceError(
            f"you have {MOST} saved views here.", code="bad_input", where="name", hint="Delete one first."
        )
    row, _ = SavedView.objects.update_or_create(
        owner=owner, page=page, name=name, defaults={"query": query, "shared": shared}
    )
    audit.record(actor=owner, action="saved_view.saved", obj=row, detail={"query": query, "shared": shared})
    return row


@transaction.atomic
def view_change(*, view: int, actor: Any, name: str, shared: bool) -> SavedView:
    """Rename it, share it or keep it to oneself."""
    row = _own(view, actor)
    name = _name(name)
    taken = SavedView.objects.filter(owner=row.owner, page=row.page, name=name).exclude(pk=row.pk)
    if taken.exists():
        raise TraceError(
            f"there is a view {name!r} already.", code="bad_input", where="name", hint="Choose another name."
        )
    row.name, row.shared = name, shared
    row.save(update_fields=["name", "shared"])
    audit.record(actor=actor, action="saved_view.changed", obj=row, detail={"shared": shared})
    return row


@transaction.atomic
def view_delete(*, view: int, actor: Any) -> SavedView:
    """Remove it for everybody who sees it."""
    row = _own(view, actor)
    audit.record(actor=actor, action="saved_view.deleted", obj=row, detail={"query": row.query})
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
