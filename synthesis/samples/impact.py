"""What a change of rules or tools makes stale among samples and snapshots, and what writing the samples again costs.

Live samples are those the machine finished, nobody rejected and no newer one of their slot replaces; what is content
stale already cannot become so. For rules they are samples of the published versions: another version, or none, takes
them out of every later snapshot. For tools they are samples whose pool holds one.
The cost is, per style, the live samples times the model calls that one sample of the style takes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Count, Func, IntegerField, Q, QuerySet, Sum
from django.urls import reverse
from django.utils.http import urlencode

from catalog.models import Tool
from rules.models import Rule
from synthesis.llm.writers import configured
from synthesis.models import Attempt, Sample, SnapshotSample, SynthesisRun
from synthesis.samples.staleness import REPLACED, without_stale
from trace_site.impact import Impact, Subject

CALLS = (
    3.0 * 1.25
)  # query, trace, judge; a quarter of the samples is tried twice, until runs here tell better
MEASURED = 2000  # newest samples of language-model runs that the calls of one sample are measured on
MOST_TOOLS = 100  # looked up in the index; beyond it samples are read one by one
MOST_READ = 10_000  # samples then read; of more, one in so many is read and the counts are scaled
LIVE = Q(machine=Sample.Machine.READY) & ~Q(human=Sample.Human.REJECTED) & ~REPLACED


@dataclass(frozen=True, slots=True)
class Stale:
    """Live samples by style, how many of all are approved, and the snapshots that hold some of them."""

    styles: Mapping[str, int]
    approved: int
    snapshots: frozenset[int]
    estimated: bool = False

    @property
    def samples(self) -> int:
        return sum(self.styles.values())


def stale_of_rules(rules: Sequence[int]) -> Stale:
    versions = Rule.objects.filter(pk__in=rules, published__isnull=False).values("published")
    return _counted(without_stale(Sample.objects.filter(LIVE, rule_version__in=versions)))


def stale_of_tools(tools: Sequence[int]) -> Stale:
    names = list(Tool.objects.filter(pk__in=tools).values_list("name", flat=True))
    if len(names) <= MOST_TOOLS:
        return _counted(without_stale(Sample.objects.filter(LIVE, pool__has_any_keys=names)))
    return _read(frozenset(names))


def _counted(live: QuerySet[Sample]) -> Stale:
    rows = (
        live.order_by()
        .values_list("style")
        .annotate(Count("pk"), approved=Count("pk", filter=Q(human=Sample.Human.APPROVED)))
    )
    found = list(rows)
    held = SnapshotSample.objects.filter(sample__in=live).order_by().values_list("snapshot", flat=True)
    return Stale(
        {style: count for style, count, _ in found},
        sum(approved for _, _, approved in found),
        frozenset(held.distinct()) if found else frozenset(),
    )


def _read(names: frozenset[str]) -> Stale:
    """Many tools are in most pools: reading one sample in n is exact for n = 1 and close beyond."""
    live = without_stale(Sample.objects.filter(LIVE))
    every = max(1, live.count() // MOST_READ)
    # by a hash: samples of one rule or style follow each other, and every n-th id could always be of one kind
    rows = (
        live.annotate(turn=Func("id", function="hashint8", output_field=IntegerField()) % every)
        .filter(turn=0)
        .order_by()
    )
    found = [
        (pk, style, human)
        for pk, style, human, pool in rows.values_list("pk", "style", "human", "pool").iterator(2000)
        if not names.isdisjoint(pool)
    ]
    styles: dict[str, int] = {}
    for _, style, _ in found:
        styles[style] = styles.get(style, 0) + every
    held = SnapshotSample.objects.filter(sample__in=[pk for pk, _, _ in found])
    return Stale(
        styles,
        every * sum(human == Sample.Human.APPROVED for _, _, human in found),
        frozenset(held.order_by().values_list("snapshot", flat=True).distinct()),
        every > 1,
    )


def stale(subject: Subject, ids: Sequence[int]) -> Stale:
    return stale_of_rules(ids) if subject == "rules" else stale_of_tools(ids)


def calls_per_sample() -> dict[str, float]:
    """{style: model calls per finished sample, retries and dropped samples counted in}; empty without an endpoint.

    Measured on the newest samples of language-model runs; `CALLS` (under "") where a style has none.
    """
    if not configured():
        return {}
    runs = SynthesisRun.objects.filter(writer__startswith="llm").order_by("-id").values("pk")[:5]
    newest = Sample.objects.filter(run__in=runs).exclude(machine=Sample.Machine.PENDING)
    made = newest.order_by("-id").values("pk")[:MEASURED]
    tried = Attempt.objects.filter(sample__in=made).order_by().values_list("sample__style")
    ready = Count("sample", filter=Q(outcome="ready"), distinct=True)
    measured = tried.annotate(Sum("calls"), ready=ready)
    found = {style: calls / ready for style, calls, ready in measured if calls and ready}
    return {"": CALLS} | found


def regeneration_calls(styles: Mapping[str, int]) -> int:
    """Σ over styles of live samples × calls per sample; 0 with the offline writers, which call nobody."""
    calls = calls_per_sample()
    return round(sum(count * calls.get(style, calls.get("", 0.0)) for style, count in styles.items()))


def of_rules(rules: list[int]) -> list[Impact]:
    """The teller of `rules` (trace_site.impact)."""
    url = ""
    if len(rules) == 1 and (rule := Rule.objects.filter(pk=rules[0]).first()):
        url = f"{reverse('synthesis:samples')}?{urlencode({'rule': rule.code, 'machine': 'ready'})}"
    return _lines(stale_of_rules(rules), url)


def of_tools(tools: list[int]) -> list[Impact]:
    """The teller of `tools`; samples written with tools that an import added stand in the way of undoing it."""
    found = stale_of_tools(tools)
    return _lines(found, blocks=f"{found.samples:,} samples were written with tools it added in their pools.")


def _lines(found: Stale, url: str = "", blocks: str = "") -> list[Impact]:
    if not found.samples:
        return []
    about = " (estimated from a part of them)" if found.estimated else ""
    many = "" if found.samples == 1 else "s"
    lines = [
        Impact(
            "samples", found.samples, f"sample{many}, {found.approved:,} approved{about}", url, blocks=blocks
        )
    ]
    if held := len(found.snapshots):
        what = "snapshot holds some of them" if held == 1 else "snapshots hold some of them"
        lines.append(Impact("snapshots", held, what, reverse("synthesis:snapshots")))
    words = "model calls to write them again" + (
        " (estimate)" if configured() else ", with the offline writers"
    )
    return [*lines, Impact("calls", regeneration_calls(found.styles), words)]
