"""Readings for tests about quality: samples read once or twice through the real queue, with what each asked."""

from typing import Any

from django.contrib.auth.models import User

from synthesis.models import ReviewItem, Sample, SecondShare
from synthesis.review import services as review_services
from synthesis.review.queue import claim_item
from tests.factories import make_sample


def read_by_two(share: float = 1.0) -> None:
    SecondShare.objects.update_or_create(domain=None, style="", defaults={"share": share})


def decide(sample: Sample, reviewer: User, verdict: str, words: str = "") -> Sample:
    """Claim what waits of this sample and decide; an edit appends `words` to the query."""
    item = ReviewItem.objects.filter(sample=sample, state__in=["open", "claimed"]).get()
    claim = claim_item(reviewer, item.pk).claim
    if verdict == "reject":
        return review_services.reject(sample=sample.pk, reviewer=reviewer, reason="unnatural", claim=claim)
    if verdict == "approve":
        return review_services.approve(sample=sample.pk, reviewer=reviewer, claim=claim)
    texts = {"query": f"{sample.query} {words or 'today'}", "trace": sample.trace}
    return review_services.edit(sample=sample.pk, reviewer=reviewer, claim=claim, **texts)


def read(sample: Sample | None, *readings: tuple[User, str], **overrides: Any) -> Sample:
    """A sample with these readings in a row: (who, verdict) or (who, verdict, words of the edit)."""
    sample = sample or make_sample(**overrides)
    for who, verdict, *words in readings:
        decide(sample, who, verdict, *words)
    return Sample.objects.get(pk=sample.pk)
