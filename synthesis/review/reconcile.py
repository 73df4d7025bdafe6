"""Whether the items of the review queue are what samples and rules say, and setting right what is not.

Triggers keep them (migration 0003), each seeing what was committed before its own statement. Two transactions at once
on siblings of one slot, or on a rule and a sample of it, can each miss the other; then an item waits that should not,
or none does. This finds those, a part of the samples at a time.
"""

import random
from collections import defaultdict
from datetime import datetime

from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import Case, Exists, Max, OuterRef, Q, QuerySet, Value, When
from django.urls import reverse

from synthesis.models import ReviewItem, Sample
from synthesis.review.selectors import WAITS, reviewers
from synthesis.samples.standing import OVERTAKEN, REPLACED
from trace_site.notices.services import Notice, mark_read, tell

WIDTH = 20_000  # sample ids that one sweep looks at, beside the newest as many
Human, Round = Sample.Human, ReviewItem.Round
ROUND = Case(
    When(human=Human.PENDING, then=Value(Round.FIRST)),
    When(human=Human.SECOND, then=Value(Round.SECOND)),
    default=Value(Round.THIRD),
)


def wanted() -> QuerySet[Sample]:
    """Samples that wait for a reading, with its `wanted_round`: the triggers' rule in Python."""
    rows = Sample.objects.filter(~REPLACED, ~OVERTAKEN, machine=Sample.Machine.READY)
    return rows.filter(human__in=(Human.PENDING, Human.SECOND, Human.DISPUTED)).annotate(wanted_round=ROUND)


def wrong(first: int | None = None, last: int | None = None) -> set[int]:
    """Samples (ids from `first` to `last`) whose items are not the one they should have."""
    waiting = ReviewItem.objects.filter(state__in=WAITS)
    it = waiting.filter(sample=OuterRef("pk"), round=OuterRef("wanted_round"))
    right = wanted().filter(Q(wanted_round=OuterRef("round")), pk=OuterRef("sample"))
    missing = wanted().filter(~Exists(it), _between("pk", first, last)).order_by()
    extra = waiting.filter(~Exists(right), _between("sample", first, last), calibration=False).order_by()
    return {*missing.values_list("pk", flat=True), *extra.values_list("sample", flat=True)}


@transaction.atomic
def repair(samples: set[int]) -> None:
    """Have the triggers' function look at these samples again."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT synthesis_review_sync(%s)", [sorted(samples)])


def sweep() -> int:
    """Look at the newest samples and at one part of the others, drawn by lot; how many were set right."""
    newest: int = Sample.objects.aggregate(last=Max("pk"))["last"] or 0
    parts = {newest // WIDTH, random.randrange(newest // WIDTH + 1)}
    found = {pk for part in parts for pk in wrong(part * WIDTH, (part + 1) * WIDTH)}
    if found:
        repair(found)
    return len(found)


def _between(name: str, first: int | None, last: int | None) -> Q:
    between = Q() if first is None else Q(**{f"{name}__gte": first})
    return between if last is None else between & Q(**{f"{name}__lte": last})


# Tells those who may adjudicate that samples wait for it: one notice a person, however many samples.
#
# A sweeper rather than a line in the decision that makes the dispute: decisions of many reviewers then never wait for
# each other's notices, and the number told is the number that waits.


KEY = "adjudication"
MOST = 1000  # disputes that are looked at


def tell_waiting() -> int:
    """Bring everybody's notice in step with what waits for them; how many were told."""
    disputes = ReviewItem.objects.filter(state=ReviewItem.State.OPEN, rank=0, round=ReviewItem.Round.THIRD)
    rows = list(disputes.order_by("-id").values_list("sample", "opened_at", "assigned_to")[:MOST])
    notices = Notice.objects.filter(key=KEY)
    if not rows:
        mark_read(notices)
        return 0
    readers = _readers([sample for sample, _, _ in rows])
    told = 0
    for person in reviewers():
        mine = [
            opened
            for sample, opened, owner in rows
            if owner in (None, person.pk) and person.pk not in readers[sample]
        ]
        told += _tell(person, mine)
    return told


def _readers(samples: list[int]) -> dict[int, set[int]]:
    read = ReviewItem.objects.filter(sample__in=samples, decided_by__isnull=False)
    readers: dict[int, set[int]] = defaultdict(set)
    for sample, person in read.values_list("sample", "decided_by"):
        readers[sample].add(person or 0)
    return readers


def _tell(person: User, opened: list[datetime]) -> bool:
    """A notice still unread gets the new number; a read one is followed by another when a dispute is newer."""
    last = Notice.objects.filter(recipient=person, key=KEY).order_by("-id").first()
    unread = last is not None and last.read_at is None
    if not opened:
        if unread:
            mark_read(Notice.objects.filter(recipient=person, key=KEY))
        return False
    count = len(opened)
    text = "1 sample waits" if count == 1 else f"{count:,}{' or more' if count == MOST else ''} samples wait"
    text += " for adjudication: two readings disagree."
    if last is not None and (last.text == text if unread else max(opened) <= last.at):
        return False
    tell([person], "adjudication", text, link=f"{reverse('synthesis:review')}?round=3", key=KEY)
    return True
