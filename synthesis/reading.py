"""What one screen of the review queue shows: a claimed item with its sample, a look back, or why there is nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import F

from synthesis import claims
from synthesis.conflicts import conflict
from synthesis.core.rejections import REASONS
from synthesis.decisions import standing
from synthesis.models import Decision, ReviewItem, Sample
from synthesis.selectors_queue import queue_state
from synthesis.wishes import Wish, seen_key, wish_of
from trace_site.lib.errors import TraceError

State, Round = ReviewItem.State, ReviewItem.Round


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two readings an adjudicator weighs, without a name."""

    number: int
    decision: Decision
    wish: Wish

    @property
    def who(self) -> str:
        return "One reviewer" if self.number == 1 else "Another reviewer"

    @property
    def reason(self) -> str:
        return REASONS.get(self.wish.reason, "")


@dataclass(frozen=True, slots=True)
class Reading:
    """`item` is claimed by the reader, or `decision` is their own and stands, or `why` says why neither is so."""

    sample: Sample
    item: ReviewItem | None = None
    decision: Decision | None = None
    why: str = ""
    sides: tuple[Side, ...] = ()
    previous: Decision | None = None  # the own decision before this one
    following: int | None = None  # the sample of the own decision after this one


def next_reading(reviewer: Any, filters: Mapping[str, Any], besides: list[int]) -> Reading | None:
    """The next item claimed for `reviewer`; None: see `empty_queue`."""
    item = claims.claim_next(reviewer, filters, besides=besides)
    return _live(item, reviewer) if item else None


def reading_of(sample: Sample, reviewer: Any) -> Reading:
    """The sample's waiting item, claimed; else one's own decision about it; else why not."""
    items = list(ReviewItem.objects.filter(sample=sample).order_by("-round"))
    waiting = next((item for item in items if item.state in (State.OPEN, State.CLAIMED)), None)
    if waiting is not None:
        try:
            return _live(claims.claim_item(reviewer, waiting.pk), reviewer, sample)
        except TraceError as error:
            if error.code != "conflict":
                raise
    own = next((item for item in items if item.decided_by_id == reviewer.pk), None)
    if own is not None and (decision := own_decisions(reviewer).filter(item=own).first()):
        return _back(sample, decision, reviewer)
    why = conflict(items, reviewer).message if items else "it does not wait for review."
    return Reading(sample, why=why)


def own_decisions(reviewer: Any) -> Any:
    """The decisions of one's own that stand, newest first."""
    found = Decision.objects.filter(reviewer=reviewer, item__decided_by=reviewer, item__state=State.DECIDED)
    found = found.filter(take=F("item__takes"))  # what was taken back and decided again stands once
    return found.exclude(verdict=Decision.Verdict.UNDO).select_related("item").order_by("-at", "-pk")


def empty_queue(reviewer: Any, filters: Mapping[str, Any]) -> dict[str, Any]:
    """Why nothing comes, in counts, and what there is to do instead."""
    undecided = Sample.objects.filter(human=Sample.Human.PENDING)
    decided = Sample.objects.filter(human__in=(Sample.Human.APPROVED, Sample.Human.REJECTED))
    return {
        **queue_state(reviewer, filters),
        "writing": undecided.filter(machine=Sample.Machine.PENDING).exists(),
        "dropped": undecided.filter(machine=Sample.Machine.DROPPED).exists(),
        "decided": decided.exists(),
    }


def _live(item: ReviewItem, reviewer: Any, sample: Sample | None = None) -> Reading:
    sample = sample or shown_samples().get(pk=item.sample_id)
    sides = _sides(sample) if item.round == Round.THIRD else ()
    return Reading(sample, item=item, sides=sides, previous=own_decisions(reviewer).first())


def shown_samples() -> Any:
    return Sample.objects.select_related("domain", "rule_version__rule", "rule_version__target", "anchor")


def _sides(sample: Sample) -> tuple[Side, ...]:
    """In an order that does not tell who came first."""
    found = [standing(sample, number) for number in (Round.FIRST, Round.SECOND)]
    decisions = [decision for decision in found if decision is not None]
    if int(seen_key(sample), 16) % 2:
        decisions.reverse()
    return tuple(Side(at, decision, wish_of(decision)) for at, decision in enumerate(decisions, 1))


def _back(sample: Sample, decision: Decision, reviewer: Any) -> Reading:
    own = own_decisions(reviewer)
    later = own.filter(at__gt=decision.at).last()
    return Reading(
        sample,
        decision=decision,
        previous=own.filter(at__lt=decision.at).first(),
        following=later.sample_id if later else None,
    )
