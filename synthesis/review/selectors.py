"""What one screen of the review queue shows: a claimed item with its sample, a look back, or why there is nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import BigIntegerField, Count, Exists, ExpressionWrapper, Min, OuterRef, Q, QuerySet
from django.db.models.functions import Now, TruncDay

from catalog.models import Tool
from rules.models import Rule
from synthesis.models import Decision, ReviewItem, Sample
from synthesis.review import queue
from synthesis.review.queue import COLUMNS, WAITS, Round, State
from synthesis.samples.counts import queue_totals, waiting_total
from synthesis.samples.decisions import own_decisions, seen_key, standing_decisions
from synthesis.samples.rejections import REASONS
from synthesis.samples.selectors import pool_tools
from trace_site.audit.log import Veil
from trace_site.lib.errors import TraceError

OPEN_AGAIN = Q(state=State.OPEN, first_by__isnull=False)  # of these there is an index


def in_filters(items: QuerySet[ReviewItem], filters: Mapping[str, Any]) -> QuerySet[ReviewItem]:
    """Items that match every filter given: branch, domain, style, tier, round, batch, rule (its code)."""
    found = items.filter(**{name: filters[name] for name in COLUMNS if filters.get(name)})
    if code := filters.get("rule"):  # by id: the index of a rule's open items has their order
        found = found.filter(rule__in=list(Rule.objects.filter(code=code).values_list("pk", flat=True)))
    return found


def queue_state(reviewer: Any, filters: Mapping[str, Any]) -> dict[str, Any]:
    """Why `reviewer` gets nothing: counts of what is left in the selection, and when the oldest lease ends.

    {"left", "claimed_by_others", "frees_at", "assigned_to_others", "read_by_you", "adjudications_read_by_you", "held",
    "elsewhere"}. Nothing here grows with the queue: rollups, what is claimed now, open adjudications, one batch.
    """
    counts = _of_batch(reviewer, filters) if filters.get("batch") else queue_totals(reviewer, filters)
    claimed = ReviewItem.objects.filter(state=State.CLAIMED).exclude(claimed_by=reviewer)
    claims = in_filters(claimed, filters).aggregate(count=Count("pk"), frees=Min("claimed_until"))
    read = in_filters(_read_by(reviewer), filters).filter(OPEN_AGAIN | Q(state=State.CLAIMED), rank=0)
    thirds = read.aggregate(all=Count("pk"), not_first=Count("pk", filter=~Q(first_by=reviewer)))
    if not filters.get("batch"):  # the rollup knows who read first, the second reader is looked up
        counts["read_by_you"] += thirds["not_first"]
    others = {"claimed_by_others": claims["count"], "frees_at": claims["frees"]}
    return {**counts, **others, "adjudications_read_by_you": thirds["all"]}


def _read_by(reviewer: Any) -> QuerySet[ReviewItem]:
    """Waiting items of samples this person has decided in another round."""
    mine = ReviewItem.objects.filter(sample=OuterRef("sample"), decided_by=reviewer)
    waiting = ReviewItem.objects.filter(state__in=(State.OPEN, State.CLAIMED))
    return waiting.filter(Exists(mine), round__gt=Round.FIRST)


def _of_batch(reviewer: Any, filters: Mapping[str, Any]) -> dict[str, int]:
    """As `queue_totals`, of the items of one batch."""
    found = in_filters(ReviewItem.objects.filter(state__in=WAITS), filters)
    waits = ~Q(state=State.HELD)
    others = Q(assigned_to__isnull=False) & ~Q(assigned_to=reviewer)
    counts: dict[str, int] = found.aggregate(
        left=Count("pk", filter=waits),
        held=Count("pk", filter=~waits),
        assigned_to_others=Count("pk", filter=waits & others),
    )
    read = in_filters(_read_by(reviewer), filters).count()
    everywhere = queue_totals(reviewer, {})["left"]
    return {**counts, "read_by_you": read, "elsewhere": everywhere - counts["left"]}


def progress(user: Any) -> dict[str, int]:
    """A reviewer's day: own decisions, what is left for everybody, per cent. What one undid does not count."""
    today = ReviewItem.objects.filter(decided_by=user, decided_at__gte=TruncDay(Now())).count()
    left = waiting_total()
    percent = round(100 * today / (today + left)) if today + left else 0
    return {"today": today, "left": left, "percent": percent}


@dataclass(frozen=True, slots=True)
class Screen:
    """`item` is claimed by the reader, or `decision` is their own and stands, or `why` says why neither is so."""

    sample: Sample
    item: ReviewItem | None = None
    decision: Decision | None = None
    why: str = ""
    sides: Sequence[Mapping[str, Any]] = ()  # {"number", "decision", "reason"} of two readings to adjudicate
    previous: Decision | None = None  # the own decision before this one
    following: int | None = None  # the sample of the own decision after this one
    lease_seconds = round(queue.LEASE.total_seconds())

    @property
    def seen(self) -> str:
        return seen_key(self.sample)

    @property
    def pool(self) -> list[Tool]:
        return pool_tools(self.sample)

    @property
    def rule_text(self) -> str:
        return self.sample.rule_version.text if self.sample.rule_version else ""


def next_screen(reviewer: Any, filters: Mapping[str, Any], besides: list[int]) -> Screen | None:
    """The next item claimed for `reviewer`; None: see `empty_queue`."""
    item = queue.claim_next(reviewer, filters, besides=besides)
    return _claimed(item, shown_samples().get(pk=item.sample_id), reviewer) if item else None


def screen_of(sample: Sample, reviewer: Any) -> Screen:
    """The sample's waiting item, claimed; else one's own decision about it; else why not."""
    items = list(ReviewItem.objects.filter(sample=sample).order_by("-round"))
    waiting = next((item for item in items if item.state in (State.OPEN, State.CLAIMED)), None)
    if waiting is not None:
        try:
            return _claimed(queue.claim_item(reviewer, waiting.pk), sample, reviewer)
        except TraceError as error:
            if error.code != "conflict":
                raise
    item = next((item for item in items if item.decided_by_id == reviewer.pk), None)
    own = own_decisions(reviewer)
    if item is not None and (decision := own.filter(item=item).first()):
        later = own.filter(at__gt=decision.at).last()
        previous, following = own.filter(at__lt=decision.at).first(), later.sample_id if later else None
        return Screen(sample, decision=decision, previous=previous, following=following)
    why = queue.conflict(items, reviewer).message if items else "it does not wait for review."
    return Screen(sample, why=why)


def _claimed(item: ReviewItem, sample: Sample, reviewer: Any) -> Screen:
    shown: list[dict[str, Any]] = []
    if item.round == Round.THIRD:
        first = "round" if int(seen_key(sample), 16) % 2 == 0 else "-round"  # does not tell who came first
        sides = standing_decisions().filter(sample=sample, round__lt=Round.THIRD).order_by(first)
        for number, side in enumerate(sides, start=1):
            shown.append({"number": number, "decision": side, "reason": REASONS.get(side.reason, "")})
    return Screen(sample, item=item, sides=shown, previous=own_decisions(reviewer).first())


def shown_samples() -> QuerySet[Sample]:
    return Sample.objects.select_related("domain", "rule_version__rule", "rule_version__target", "anchor")


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


# What the audit list does not tell while a reading waits: how the readings before it ended, taken back or not, and
# what was said about the sample.
_BLIND: dict[str, Any] = {"object_type": "sample", "column": "sample_id", "key": "sample_id"}
_BLIND["waiting"] = lambda: ReviewItem.objects.filter(state__in=WAITS).order_by()
COMMENTS = Veil(**_BLIND, actions=frozenset(), told_as="", table="synthesis_samplecomment")
READINGS = Veil(
    **_BLIND,
    actions=frozenset({"sample.approve", "sample.edit", "sample.reject", "sample.undo"}),
    told_as="sample.read",
    table="synthesis_decision",
)


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
    return ReviewItem.objects.filter(sample=sample, round__lt=Round.THIRD, state__in=WAITS)


def _read(viewer: Any, sample: Any) -> QuerySet[ReviewItem]:
    return ReviewItem.objects.filter(sample=sample, decided_by=viewer)
