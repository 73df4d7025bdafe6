"""Tells those who may adjudicate that samples wait for it: one notice a person, however many samples.

A sweeper rather than a line in the decision that makes the dispute: decisions of many reviewers then never wait for
each other's notices, and the number told is the number that waits.
"""

from collections import defaultdict
from datetime import datetime

from django.contrib.auth.models import User
from django.urls import reverse

from synthesis.models import ReviewItem
from synthesis.review.selectors import reviewers
from trace_site.notices.services import Notice, mark_read, tell

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
