"""Progress of the team: what each has decided, how fast they read, what is left, and who holds what.

Counts come from indexes and rollups; the number of queries is the same for any team and any number of samples. Nothing
here says whose readings are good: see `quality.agreement`.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import connection
from django.db.models import Count, Max, Min, Q, QuerySet, Sum

from synthesis.models import Assignment, ReviewItem, SampleComment
from synthesis.review.queue import WAITS, reviewers
from synthesis.review.selectors import not_blind
from synthesis.samples.counts import in_queue, waiting_total
from trace_site.database import database_now

BREAK = timedelta(minutes=5)  # as long as a claim lasts

# a gap longer than a break is none of the reading; what was taken back was time, but no item
PACE = """
SELECT reviewer_id, sum(step), extract(epoch FROM sum(gap)) FROM (
  SELECT reviewer_id, CASE verdict WHEN 'undo' THEN -1 ELSE 1 END AS step,
    at - lag(at) OVER (PARTITION BY reviewer_id ORDER BY at) AS gap
  FROM synthesis_decision WHERE reviewer_id = ANY(%s) AND at >= %s AND policy = ''
) steps WHERE gap <= %s::interval GROUP BY 1
"""


def team(now: datetime | None = None) -> dict[str, Any]:
    """{"members": everybody who may review, by name, "left": what waits for a reading, "per_hour", "reading_today",
    "seconds_left": of reading by one person at today's pace, None before there is one, "seconds_left_each": shared by
    those who read today}. Six queries, and one for the time.

    Of a member: "items" that followed another within a break, and the "seconds" between them; "assigned" items wait
    for them, "held" are claimed, the first until "frees_at".
    """
    now = now or database_now()
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    names = dict(reviewers().values_list("pk", "username"))
    monday = day - timedelta(days=day.weekday())
    rows = ReviewItem.objects.filter(decided_by__in=names, decided_at__gte=monday).order_by()
    counts = {"today": Count("pk", filter=Q(decided_at__gte=day)), "week": Count("pk")}
    decided = {who: found for who, *found in rows.values_list("decided_by").annotate(**counts)}
    with connection.cursor() as cursor:
        cursor.execute(PACE, (list(names), day, str(BREAK)))
        paces = {who: (int(items), float(seconds)) for who, items, seconds in cursor.fetchall()}
    waiting = in_queue({}).filter(held=False, assigned_to__gt=0).order_by()
    assigned = dict(waiting.values_list("assigned_to").annotate(sum=Sum("n")))
    claimed = ReviewItem.objects.filter(state=ReviewItem.State.CLAIMED).order_by().values_list("claimed_by")
    held = {who: found for who, *found in claimed.annotate(count=Count("pk"), frees=Min("claimed_until"))}
    members: list[dict[str, Any]] = []
    for who, name in names.items():
        (today, week), (count, frees) = decided.get(who, (0, 0)), held.get(who, (0, None))
        items, seconds = paces.get(who, (0, 0.0))
        row = {"pk": who, "name": name, "today": today, "week": week, "items": items, "seconds": seconds}
        row |= {"per_hour": _per_hour(items, seconds), "assigned": assigned.get(who, 0)}
        members.append({**row, "held": count, "frees_at": frees})
    left, reading = waiting_total(), sum(row["today"] > 0 for row in members)
    per_hour = _per_hour(sum(row["items"] for row in members), sum(row["seconds"] for row in members))
    alone = 3600 * left / per_hour if per_hour else None
    each = alone / reading if alone is not None and reading else None
    found = {"members": members, "left": left, "per_hour": per_hour, "reading_today": reading}
    return {**found, "seconds_left": alone, "seconds_left_each": each}


def _per_hour(items: int, seconds: float) -> float | None:
    return 3600 * items / seconds if items > 0 and seconds >= 1 else None


def assignments(ended: bool | None = False) -> QuerySet[Assignment, Any]:
    """Running assignments, those that ended, or (None) both, newest first. With `done`, `left` and `gone` of their
    items and the time of the `last` decision. `gone` items wait no more: their sample or rule was replaced.
    """
    state = ReviewItem.State
    rows: QuerySet[Assignment, Any] = Assignment.objects.select_related("assignee", "assigned_by")
    if ended is not None:
        rows = rows.filter(ended_at__isnull=not ended)
    return rows.order_by("-pk").annotate(
        done=Count("items", filter=Q(items__state=state.DECIDED)),
        left=Count("items", filter=Q(items__state__in=WAITS)),
        gone=Count("items", filter=Q(items__state=state.WITHDRAWN)),
        last=Max("items__decided_at"),
    )


# Comments: who sees which, and the people they mention.
#
# A reading is independent of what others say: while a sample waits for its first or second reading, one sees only
# one's own comments on it, whatever page asks. Adjudicators, and those who have decided, see all.


MENTION = re.compile(r"(?<![\w.@+-])@([\w.@+-]{1,150})")  # of Django's user names


def visible_to(viewer: Any) -> QuerySet[SampleComment]:
    """Comments this person sees now, with their authors."""
    return not_blind(viewer, SampleComment.objects.select_related("author"), "author")


def names_in(text: str) -> set[str]:
    """What may be a user name after an @; a full stop behind it belongs to the sentence."""
    found = set(MENTION.findall(text))
    return found | {name.rstrip(".-+@") for name in found}


def with_mentions(comments: Sequence[SampleComment]) -> list[dict[str, Any]]:
    """[{"comment", "parts": [{"text", "mention": whether it names an account}]}]; one query."""
    names = set().union(*(names_in(comment.text) for comment in comments))
    known = set(User.objects.filter(username__in=names).values_list("username", flat=True))
    found = []
    for comment in comments:
        text, parts, end = comment.text, [], 0
        for match in MENTION.finditer(text):
            if name := next((name for name in (match[1], match[1].rstrip(".-+@")) if name in known), ""):
                stop = match.start() + 1 + len(name)
                parts += [(text[end : match.start()], False), (text[match.start() : stop], True)]
                end = stop
        parts.append((text[end:], False))
        shown = [{"text": part, "mention": mention} for part, mention in parts if part]
        found.append({"comment": comment, "parts": shown})
    return found
