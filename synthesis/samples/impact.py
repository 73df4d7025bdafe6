"""What a change of rules or tools makes stale among samples and snapshots, and what writing the samples again costs.

Live samples are those the machine finished, nobody rejected and no newer one of their slot replaces; what is content
stale already cannot become so. For rules they are samples of the published versions: another version, or none, takes
them out of every later snapshot. For tools they are samples whose pool holds one.
The cost is the live samples times the model calls that one sample takes.
"""

from collections.abc import Sequence
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
from trace_site.jobs import Job

RETRIES = 1.25  # calls of a purpose (query, trace, judge) for one sample, until runs here tell better
RECENT = 5  # runs
ENOUGH = 20  # samples to measure on
MEASURED = 2000  # of the newest samples
MOST_TOOLS = 100  # looked up in the index; beyond it samples are read one by one
MOST_READ = 10_000  # samples then read; of more, one in so many is read and the counts are scaled
LIVE = Q(machine=Sample.Machine.READY) & ~Q(human=Sample.Human.REJECTED) & ~REPLACED


@dataclass(frozen=True, slots=True)
class Stale:
    """Live samples, how many of them are approved, and the snapshots that hold some of them."""

    samples: int
    approved: int
    snapshots: frozenset[int]
    estimated: bool = False


def stale_of_rules(rules: Sequence[int]) -> Stale:
    versions = Rule.objects.filter(pk__in=rules, published__isnull=False).values("published")
    return _counted(without_stale(Sample.objects.filter(LIVE, rule_version__in=versions)))


def stale_of_tools(tools: Sequence[int]) -> Stale:
    names = list(Tool.objects.filter(pk__in=tools).values_list("name", flat=True))
    if len(names) <= MOST_TOOLS:
        return _counted(without_stale(Sample.objects.filter(LIVE, pool__has_any_keys=names)))
    return _read(frozenset(names))


def _counted(live: QuerySet[Sample]) -> Stale:
    approved = Count("pk", filter=Q(human=Sample.Human.APPROVED))
    found = live.aggregate(samples=Count("pk"), approved=approved)
    held = SnapshotSample.objects.filter(sample__in=live).order_by().values_list("snapshot", flat=True)
    return Stale(**found, snapshots=frozenset(held.distinct()) if found["samples"] else frozenset())


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
    columns = rows.values_list("pk", "human", "pool").iterator(2000)
    found = {pk: human for pk, human, pool in columns if not names.isdisjoint(pool)}
    held = SnapshotSample.objects.filter(sample__in=list(found)).order_by()
    return Stale(
        every * len(found),
        every * sum(human == Sample.Human.APPROVED for human in found.values()),
        frozenset(held.values_list("snapshot", flat=True).distinct()),
        every > 1,
    )


def stale(subject: Subject, ids: Sequence[int]) -> Stale:
    return stale_of_rules(ids) if subject == "rules" else stale_of_tools(ids)


def ended_runs(branch: str, writer: str) -> QuerySet[SynthesisRun]:
    """Runs of the branch by this kind of writer that are done, the newest first."""
    runs = SynthesisRun.objects.filter(branch=branch, job__state=Job.State.DONE).order_by("-pk")
    return runs.filter(writer__startswith="llm:") if writer == "llm" else runs.filter(writer=writer)


def regeneration_calls(samples: int) -> int:
    """Model calls to write so many again, as the newest runs of rules needed them; 0 with the offline writers."""
    if not configured():
        return 0
    runs = ended_runs(SynthesisRun.Branch.RULE, "llm").values("pk")[:RECENT]
    newest = Sample.objects.filter(run__in=runs).order_by("-pk").values("pk")[:MEASURED]
    tried = Attempt.objects.filter(sample__in=newest)
    found = tried.aggregate(calls=Sum("calls"), samples=Count("sample", distinct=True))
    known = found["samples"] >= ENOUGH
    return round(samples * (found["calls"] / found["samples"] if known else 3 * RETRIES))


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
    return [*lines, Impact("calls", regeneration_calls(found.samples), words)]
