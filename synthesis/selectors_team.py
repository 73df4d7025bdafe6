"""Progress of the team: what each has decided, how fast they read, what is left, and who holds what.

Counts come from indexes and rollups; the number of queries is the same for any team and any number of samples. Nothing
here says whose readings are good: see selectors_reviewers.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import connection
from django.db.models import Count, Max, Min, Q, QuerySet, Sum
from django.utils import timezone

from synthesis.models import Assignment, ReviewItem
from synthesis.selectors_counts import in_queue, waiting_total
from synthesis.selectors_queue import WAITS
from trace_site.access import ADMIN, REVIEWER

BREAK = timedelta(minutes=5)  # as long as a claim lasts

# a gap longer than a break is none of the reading; what was taken back was time, but no item
PACE = """
SELECT reviewer_id, sum(step), extract(epoch FROM sum(gap)) FROM (
  SELECT reviewer_id, CASE verdict WHEN 'undo' THEN -1 ELSE 1 END AS step,
    at - lag(at) OVER (PARTITION BY reviewer_id ORDER BY at) AS gap
  FROM synthesis_decision WHERE reviewer_id = ANY(%s) AND at >= %s AND policy = ''
) steps WHERE gap <= %s::interval GROUP BY 1
"""


@dataclass(frozen=True, slots=True)
class Pace:
    """Items that followed another within a break, and the seconds between them."""

    items: int = 0
    seconds: float = 0.0

    @property
    def per_hour(self) -> float | None:
        return 3600 * self.items / self.seconds if self.items > 0 and self.seconds >= 1 else None

    def __add__(self, other: "Pace") -> "Pace":
        return Pace(self.items + other.items, self.seconds + other.seconds)


@dataclass(frozen=True, slots=True)
class Member:
    """One who reviews. `assigned` items wait for them; `held` are claimed, the first until `frees_at`."""

    pk: int
    name: str
    today: int
    week: int
    pace: Pace
    assigned: int
    held: int
    frees_at: datetime | None


@dataclass(frozen=True, slots=True)
class Team:
    members: list[Member]
    left: int

    @property
    def pace(self) -> Pace:
        return sum((member.pace for member in self.members), Pace())

    @property
    def today(self) -> int:
        return sum(member.today for member in self.members)

    @property
    def reading_today(self) -> int:
        return sum(member.today > 0 for member in self.members)

    @property
    def seconds_left(self) -> float | None:
        """Of reading, by one person, until nothing is left at today's pace; None before there is one."""
        per_hour = self.pace.per_hour
        return 3600 * self.left / per_hour if per_hour else None

    @property
    def seconds_left_each(self) -> float | None:
        """The same shared by those who read today."""
        whole = self.seconds_left
        return whole / self.reading_today if whole is not None and self.reading_today else None


def team(now: datetime | None = None) -> Team:
    """Everybody who may review, by name. Six queries."""
    now = now or timezone.now()
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    names = dict(reviewers().values_list("pk", "username"))
    decided = _decided(names, day)
    paces = _paces(names, day)
    assigned = _assigned()
    held = _held()
    members = [
        Member(
            pk,
            name,
            *decided.get(pk, (0, 0)),
            paces.get(pk, Pace()),
            assigned.get(pk, 0),
            *held.get(pk, (0, None)),
        )
        for pk, name in names.items()
    ]
    return Team(members, waiting_total())


def reviewers() -> QuerySet[User]:
    """Everybody who may read the queue, by name."""
    found = User.objects.filter(Q(is_superuser=True) | Q(groups__name__in=(REVIEWER, ADMIN)), is_active=True)
    return found.distinct().order_by("username")


def _decided(people: Collection[int], day: datetime) -> dict[int, tuple[int, int]]:
    """{person: (decisions that stand today, since Monday)}"""
    week = day - timedelta(days=day.weekday())
    rows = ReviewItem.objects.filter(decided_by__in=people, decided_at__gte=week).order_by()
    counted = rows.values("decided_by").annotate(
        today=Count("pk", filter=Q(decided_at__gte=day)), week=Count("pk")
    )
    return {row["decided_by"]: (row["today"], row["week"]) for row in counted}


def _paces(people: Collection[int], day: datetime) -> dict[int, Pace]:
    with connection.cursor() as cursor:
        cursor.execute(PACE, (list(people), day, str(BREAK)))
        return {pk: Pace(int(items), float(seconds)) for pk, items, seconds in cursor.fetchall()}


def _assigned() -> dict[int, int]:
    """{person: items that wait for them alone}"""
    rows = in_queue({}).filter(held=False, assigned_to__gt=0).order_by()
    return dict(rows.values_list("assigned_to").annotate(sum=Sum("n")))


def _held() -> dict[int, tuple[int, datetime | None]]:
    rows = ReviewItem.objects.filter(state=ReviewItem.State.CLAIMED).order_by()
    counted = rows.values("claimed_by").annotate(count=Count("pk"), frees=Min("claimed_until"))
    return {row["claimed_by"]: (row["count"], row["frees"]) for row in counted}


def assignments(ended: bool = False) -> QuerySet[Assignment, Any]:
    """Running assignments, or those that ended, newest first."""
    return assignments_all().filter(ended_at__isnull=not ended).order_by("-pk")


def assignments_all() -> QuerySet[Assignment, Any]:
    """With `done`, `left` and `gone` of their items and the time of the last decision. `gone` items wait no more:
    their sample or rule was replaced.
    """
    state = ReviewItem.State
    rows: QuerySet[Assignment, Any] = Assignment.objects.select_related("assignee", "assigned_by").annotate(
        done=Count("items", filter=Q(items__state=state.DECIDED)),
        left=Count("items", filter=Q(items__state__in=WAITS)),
        gone=Count("items", filter=Q(items__state=state.WITHDRAWN)),
        last=Max("items__decided_at"),
    )
    return rows
