"""Reads of the change pages: the list with its filters, one request with everything that helps to decide."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Count, Exists, OuterRef, Prefetch, Q, QuerySet, Subquery
from django.db.models.functions import Now
from django.shortcuts import get_object_or_404

from rules.book import Problem, version_contents
from rules.changes.permits import VERBS, ReviewVerdict, approvals_missing, refusal, words_on
from rules.changes.proposals import (
    Conflict,
    change_label,
    changes_of,
    proposals_of,
    request_conflicts,
    request_findings,
)
from rules.core.check import Finding
from rules.core.draft import RuleDiff, content_of, diff_rules
from rules.core.rule import RuleContent
from rules.models import OPEN, Approval, ChangeRequest, RuleChange, RuleVersion, State
from trace_site.access import WRITERS, roles_of
from trace_site.audit.models import AuditEntry
from trace_site.impact import Impact, impact_of
from trace_site.lib.errors import TraceError
from trace_site.paging import number_of

SHOWN_ENTRIES = 200


@dataclass(frozen=True, slots=True)
class Happened:
    at: datetime
    who: str
    action: str
    text: str
    detail: dict[str, Any]


def timeline(request: ChangeRequest) -> list[Happened]:
    """Newest first; the audit holds the comments too."""
    entries = AuditEntry.objects.filter(object_type="changerequest", object_id=str(request.pk))
    happened = []
    for entry in entries.select_related("actor").order_by("-id")[:SHOWN_ENTRIES]:
        who = entry.actor.username if entry.actor else "the schedule"
        detail = dict(entry.detail)
        if "at" in detail:
            detail["at"] = datetime.fromisoformat(detail["at"])
        said = next(
            (detail[name] for name in ("reason", "comment", "why", "note", "text") if detail.get(name)), ""
        )
        happened.append(Happened(entry.at, who, entry.action.removeprefix("request."), str(said), detail))
    return happened


NEWS_DAYS = 7
SHOWN_CHANGES = 3
SHOWN_REQUESTS = 5
NOTHING = RuleContent(target="", confusables=(), text="")


@dataclass(frozen=True, slots=True)
class ChangeView:
    """One change as it is decided on. `before` is None for a new rule, `after` for a withdrawal."""

    change: RuleChange
    label: str
    before: RuleContent | None
    after: RuleContent | None
    diff: RuleDiff
    problems: Sequence[Problem]
    findings: list[Finding] | None
    conflicts: list[Conflict]

    @property
    def notes(self) -> list[Conflict]:
        """What stands in the way, or only should be known; other requests are listed apart."""
        return [conflict for conflict in self.conflicts if conflict.other_request is None]

    @property
    def others(self) -> list[ChangeRequest]:
        """Other open requests on the same rule or code."""
        return [conflict.other_request for conflict in self.conflicts if conflict.other_request]

    @property
    def stuck(self) -> bool:
        """Whether the rule moved on since the change began, which putting it on top would settle."""
        return any(conflict.since for conflict in self.conflicts)


@dataclass(frozen=True, slots=True)
class RequestDetail:
    request: ChangeRequest
    changes: list[ChangeView]
    words: list[ReviewVerdict]
    missing: int
    timeline: list[Happened]
    possible: dict[str, TraceError | None]  # verb -> why not; verbs of other states are left out
    editors: list[str]  # names of everybody who wrote in it beside the author

    @property
    def is_open(self) -> bool:
        return State(self.request.state) in OPEN

    @property
    def impact(self) -> list[dict[str, Any]]:
        """What was counted as stale when the request was applied."""
        applied = (event.detail for event in self.timeline if event.action == "applied")
        lines = next(applied, {}).get("impact", [])
        return [line for line in lines if line["count"]]

    @property
    def may(self) -> list[str]:
        return [verb for verb, error in self.possible.items() if error is None]

    @property
    def blocking(self) -> list[Conflict]:
        return [conflict for view in self.changes for conflict in view.conflicts if conflict.blocks]

    @property
    def reasons(self) -> list[str]:
        """Why something that is possible now is not this person's to do; each sentence once."""
        wanted = ("submit", "approve", "apply", "cancel", "reopen", "edit")
        found = ((verb, self.possible.get(verb)) for verb in wanted)
        told = [error for verb, error in found if error and (verb == "apply" or error.code == "not_allowed")]
        return list(dict.fromkeys(f"{error.message} {error.hint}".strip() for error in told))


def request_rows(*, user: Any, state: str = "", whose: str = "", search: str = "") -> QuerySet[ChangeRequest]:
    """Requests for keyset paging, newest first; `whose` is "", `mine` or `waiting`. Three queries a page."""
    shown = RuleChange.objects.select_related("rule").order_by("id")[:SHOWN_CHANGES]
    size = (
        RuleChange.objects.filter(request=OuterRef("pk")).order_by().values("request").annotate(n=Count("pk"))
    )
    rows = ChangeRequest.objects.select_related("author").annotate(size=Subquery(size.values("n")))
    rows = rows.prefetch_related(Prefetch("changes", shown, to_attr="first_changes"))
    if state in State.values:
        rows = rows.filter(state=state)
    if whose == "mine":
        rows = rows.filter(Q(author=user.pk) | Q(editor_ids__contains=[user.pk]))
    elif whose == "waiting":
        rows = rows.filter(pk__in=waiting_for(user).values("pk"))
    return _searched(rows, search)


def _searched(rows: QuerySet[ChangeRequest], search: str) -> QuerySet[ChangeRequest]:
    """Every word must occur in the title, the author's name, or a change's rule, new code or target."""
    for word in search.split():
        fields = ("rule__code", "code", "content__target")
        inside = reduce(or_, (Q(**{f"{name}__icontains": word}) for name in fields))
        held = RuleChange.objects.filter(inside, request=OuterRef("pk"))
        wanted = Q(title__icontains=word) | Q(author__username__icontains=word) | Exists(held)
        rows = rows.filter(wanted | Q(pk=number_of(word)))  # no request has the number 0
    return rows


def waiting_for(user: Any) -> QuerySet[ChangeRequest]:
    """Requests in review that this person may decide on and has not."""
    if roles_of(user).isdisjoint(WRITERS):
        return ChangeRequest.objects.none()
    spoken = Approval.objects.filter(request=OuterRef("pk"), reviewer=user.pk, revision=OuterRef("revision"))
    rows = ChangeRequest.objects.filter(state=State.IN_REVIEW).exclude(author=user.pk)
    return rows.exclude(editor_ids__contains=[user.pk]).exclude(Exists(spoken))


def rejected_of(user: Any) -> QuerySet[ChangeRequest]:
    """What was rejected lately and is not reopened: news for its author."""
    since = Now() - timedelta(days=NEWS_DAYS)
    return ChangeRequest.objects.filter(state=State.REJECTED, author=user.pk, updated_at__gte=since)


def blocked_of(user: Any) -> QuerySet[ChangeRequest]:
    """The person's scheduled requests that could not be applied."""
    return ChangeRequest.objects.filter(state=State.SCHEDULED, author=user.pk).exclude(blocked="")


def state_counts() -> list[tuple[str, str, int]]:
    """(state, label, how many) of every state, in the order of a request's life."""
    counts = dict(ChangeRequest.objects.order_by("state").values_list("state").annotate(n=Count("pk")))
    return [(state.value, state.label.lower(), counts.get(state.value, 0)) for state in State]


def open_requests_of(rule_id: int) -> list[ChangeRequest]:
    """The newest requests about the rule that may still be applied."""
    held = RuleChange.objects.filter(rule=rule_id, request=OuterRef("pk"))
    rows = ChangeRequest.objects.filter(Exists(held), state__in=OPEN).select_related("author")
    return list(rows.order_by("-id")[:SHOWN_REQUESTS])


def request_row(pk: int) -> ChangeRequest:
    return get_object_or_404(ChangeRequest.objects.select_related("author", "applied_by"), pk=pk)


def request_detail(pk: int, user: Any) -> RequestDetail:
    """Everything on the page of a request but the impact; the number of queries does not grow with its changes."""
    request = request_row(pk)
    changes, words = changes_of(request), words_on(request)
    possible = {
        verb: refusal(verb, request, user, words)
        for verb, (states, _) in VERBS.items()
        if State(request.state) in states
    }
    editors = User.objects.filter(pk__in=request.editor_ids).order_by("username")
    return RequestDetail(
        request=request,
        changes=_views(request, changes),
        words=words,
        missing=approvals_missing(words),
        timeline=timeline(request),
        possible=possible,
        editors=[user.username for user in editors],
    )


def _views(request: ChangeRequest, changes: Sequence[RuleChange]) -> list[ChangeView]:
    """What is judged against the world of today is left out once the request has ended."""
    is_open = State(request.state) in OPEN
    versions = [version for change in changes for version in (change.base, change.base_published) if version]
    olds = version_contents(versions)
    proposals = proposals_of(changes) if is_open else []
    problems = {one.change.pk: one.problems for one in proposals}
    findings = request_findings(changes, proposals)
    conflicts = request_conflicts(request, changes, proposals) if is_open else []
    views = []
    for change in changes:
        withdraws = change.action == RuleChange.Action.WITHDRAW
        old_id = change.base_published_id if withdraws else change.base_id
        before = olds[old_id] if old_id else None
        after = None if withdraws else content_of(change.content)
        views.append(
            ChangeView(
                change,
                change_label(change),
                before,
                after,
                diff_rules(before or NOTHING, after or NOTHING),
                problems=problems.get(change.pk, ()),
                findings=findings.get(change.pk),
                conflicts=[conflict for conflict in conflicts if conflict.change.pk == change.pk],
            )
        )
    return views


def request_impact(pk: int) -> tuple[list[Impact], list[tuple[str, list[Impact]]]]:
    """What applying makes stale: in total, and per changed rule; a new rule makes nothing stale."""
    rules = [change.rule for change in changes_of(request_row(pk)) if change.rule]
    total = impact_of("rules", [rule.pk for rule in rules])
    each = [(rule.code, impact_of("rules", [rule.pk])) for rule in rules]
    return total, each if len(each) > 1 else []


def compare_versions(rule_id: int, first: int, second: int) -> tuple[RuleVersion, RuleVersion, RuleDiff]:
    """Two versions of one rule by number, and what the second changed. Raises Http404."""
    rows = RuleVersion.objects.select_related("rule__domain", "author", "target").filter(rule=rule_id)
    old, new = get_object_or_404(rows, number=first), get_object_or_404(rows, number=second)
    contents = version_contents([old, new])
    return old, new, diff_rules(contents[old.pk], contents[new.pk])


def published_by(request: ChangeRequest) -> Iterable[RuleVersion]:
    made = request.changes.exclude(version=None).values("version")
    return RuleVersion.objects.filter(pk__in=made).select_related("rule").order_by("rule__code")
