"""Reads of comments: who sees which, and the people they mention.

A reading is independent of what others say: while a sample waits for its first or second reading, one sees only
one's own comments on it, whatever page asks. Adjudicators, and those who have decided, see all.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db.models import BigIntegerField, Exists, ExpressionWrapper, OuterRef, QuerySet

from synthesis.models import ReviewItem, Sample, SampleComment
from synthesis.selectors_queue import WAITS

MENTION = re.compile(r"(?<![\w.@+-])@([\w.@+-]{1,150})")  # of Django's user names


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a comment; `mention` is true where it names an account."""

    text: str
    mention: bool


@dataclass(frozen=True, slots=True)
class Said:
    comment: SampleComment
    parts: list[Part]


def visible_to(viewer: Any) -> QuerySet[SampleComment]:
    """Comments this person sees now, with their authors."""
    return not_blind(viewer, SampleComment.objects.select_related("author"), "author")


def not_blind(viewer: Any, rows: QuerySet[Any], writer: str) -> QuerySet[Any]:
    """Of what `writer` said about a sample, what this person may know now."""
    said_by = ExpressionWrapper(OuterRef(writer), output_field=BigIntegerField())
    kept_back = _waits(OuterRef("sample")).annotate(said_by=said_by).exclude(said_by=viewer.pk)
    # one anti-join, so that a page reads no more items than it has samples
    return rows.filter(~Exists(kept_back.filter(~Exists(_read(viewer, OuterRef("sample"))))))


def is_blind(viewer: Any, sample: Sample) -> bool:
    """Whether others' comments on this sample are kept from this person until they have decided."""
    return _waits(sample.pk).exclude(Exists(_read(viewer, sample.pk))).exists()


def _waits(sample: Any) -> QuerySet[ReviewItem]:
    """Readings of a sample that are to be independent, and not decided."""
    return ReviewItem.objects.filter(sample=sample, round__lt=ReviewItem.Round.THIRD, state__in=WAITS)


def _read(viewer: Any, sample: Any) -> QuerySet[ReviewItem]:
    return ReviewItem.objects.filter(sample=sample, decided_by=viewer)


def names_in(text: str) -> set[str]:
    """What may be a user name after an @; a full stop behind it belongs to the sentence."""
    found = set(MENTION.findall(text))
    return found | {name.rstrip(".-+@") for name in found}


def mentioned(text: str) -> QuerySet[User]:
    return User.objects.filter(username__in=names_in(text), is_active=True)


def said(comments: Sequence[SampleComment]) -> list[Said]:
    """Comments with their mentions marked; one query."""
    names = set().union(*(names_in(comment.text) for comment in comments))
    known = (
        set(User.objects.filter(username__in=names).values_list("username", flat=True)) if names else set()
    )
    return [Said(comment, _parts(comment.text, known)) for comment in comments]


def _parts(text: str, known: set[str]) -> list[Part]:
    parts, end = [], 0
    for found in MENTION.finditer(text):
        name = next((n for n in (found[1], found[1].rstrip(".-+@")) if n in known), "")
        if name:
            stop = found.start() + 1 + len(name)
            parts += [Part(text[end : found.start()], False), Part(text[found.start() : stop], True)]
            end = stop
    return [part for part in [*parts, Part(text[end:], False)] if part.text]
