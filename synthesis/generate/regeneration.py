"""Rejected samples that are written again: asked for by a decision, taken by a run, at most MOST times in a slot.

A run takes what waits and has equal options: branch, writers, endpoints, recipe and budget of the run that wrote the
rejected samples. Runs start from a button, or by themselves once enough wait; never while another is at it.
"""

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Max, Q
from django.db.models.functions import Now

from synthesis.core.keys import seed_again
from synthesis.core.queries import Writers
from synthesis.generate.automatic import payable
from synthesis.generate.estimates import Figure
from synthesis.generate.planning import (
    AUTOMATIC,
    NEWER,
    drop_overtaken,
    inputs_of,
    sample_row,
    settle_plan,
    tiers_of,
    unsupported,
)
from synthesis.generate.services import hold_starts, queue_run
from synthesis.models import Decision, Regeneration, Sample, SynthesisRun
from synthesis.samples.impact import RETRIES
from synthesis.samples.inputs import Inputs
from synthesis.samples.rejections import OF_TRACE, critique
from synthesis.samples.sources import CatalogView, published_rules
from synthesis.samples.staleness import ABANDONED, GONE, WRITTEN_AGAIN
from synthesis.samples.units import alone, count, give_up, note
from trace_site.jobs import Job, JobContext
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash

State = Regeneration.State
MOST = 3  # replacements in one slot for one rule version
TAKEN = "A later run writes it again."
STOPPED = (Job.State.FAILED, Job.State.CANCELLED, Job.State.QUARANTINED)
HELD_BY_STOPPED = Q(state=State.WRITING, run__job__state__in=STOPPED)
OPTIONS = ("recipe", "budget", "endpoints", "underspecified", "outdated")


def ask(sample: Sample, decision: Decision) -> Regeneration:
    """A rejected sample waits to be written again; or does not, and says why. In the transaction of the decision."""
    why = _never(sample)
    told = critique((one.reason, one.note) for one in refusals(sample))
    ended = {"state": State.ENDED, "why": why, "ended_at": Now()} if why else {}
    return Regeneration.objects.create(sample=sample, decision=decision, critique=told, **ended)


def _never(sample: Sample) -> str:
    if sample.branch == SynthesisRun.Branch.IMPORTED:
        return "An imported query is nobody's to write: correct it and import it again."
    if not sample.slot:
        return "It was made before places in the plan were kept."
    # how often what stood there, for its rule version, was written again or is to be
    rows = Regeneration.objects.filter(sample__branch=sample.branch, sample__slot=sample.slot)
    rows = rows.filter(sample__rule_version=sample.rule_version_id).exclude(sample=sample)
    if rows.filter(Q(state__in=WRITTEN_AGAIN) | Q(replacement__isnull=False)).count() >= MOST:
        return f"Written again {MOST} times in this place and rejected each time: dropped."
    return ""


def take_back(sample: Sample) -> None:
    """The rejection is undone. Raises TraceError "conflict" once a run has it."""
    asked = Regeneration.objects.select_for_update(of=("self",)).filter(sample=sample).first()
    if asked is None:
        return
    if asked.run_id is not None:
        raise TraceError(
            f"its replacement is being written or was written (run {asked.run_id}); the rejection stands.",
            code="conflict",
            where=f"sample {sample.pk}",
            hint="Decide about the new sample in its place.",
        )
    asked.delete()


@transaction.atomic
def start(*, actor: Any = None, wake: bool = True) -> list[SynthesisRun]:
    """Queue a run for what waits, one for each set of options. What a stopped run holds is taken from it."""
    hold_starts()
    _release_stopped()
    waiting = Regeneration.objects.select_for_update(of=("self",)).filter(state=State.WAITING)
    groups: defaultdict[str, list[Regeneration]] = defaultdict(list)
    for asked in waiting.select_related("sample__run").order_by("pk"):
        run = asked.sample.run
        groups[content_hash([run.branch, run.writer, _options(run)])].append(asked)
    queued = [_queued(group, actor, wake) for group in groups.values()]
    return [made for made in queued if made is not None]


def _options(run: SynthesisRun) -> dict[str, Any]:
    """What the run again is started with. What an automatic run wrote is written again on the same month's budget."""
    options = {name: run.params[name] for name in OPTIONS if name in run.params}
    return options if AUTOMATIC not in run.params else {**options, "budget": {}, AUTOMATIC: []}


def sweep() -> int:
    """Start by itself what is due; how many runs."""
    if not is_due():
        return 0
    with transaction.atomic():
        hold_starts()
        return len(start()) if is_due() else 0


def _queued(group: list[Regeneration], actor: Any, wake: bool) -> SynthesisRun | None:
    """`per_rule` and `anchors` are 0: no run that somebody starts is taken for this one. None: no budget is left."""
    of = group[0].sample.run
    options = _options(of)
    if AUTOMATIC in options and of.writer.startswith("llm"):
        if (left := payable()) is None:
            return None
        options["budget"] = left
    params = {**options, "per_rule": 0, "anchors": 0, "domain": "", "rule": "", "regenerate": len(group)}
    title = f"{len(group)} rejected {of.branch} sample{'' if len(group) == 1 else 's'} written again ({of.writer})"
    run = queue_run(of.branch, of.writer, of.seed, params, actor, wake, title=title)
    Regeneration.objects.filter(pk__in=[asked.pk for asked in group]).update(state=State.WRITING, run=run)
    return run


def _release_stopped() -> None:
    """Take from stopped runs what they have not written; they give it up, and say so."""
    held = Regeneration.objects.select_for_update(of=("self",)).filter(HELD_BY_STOPPED)
    taken = list(held.values_list("pk", "run"))
    unwritten = Sample.objects.filter(machine=Sample.Machine.PENDING, attempts__isnull=True)
    for run in SynthesisRun.objects.filter(pk__in={run for _, run in taken}):
        give_up(run, list(unwritten.filter(run=run).values_list("pk", flat=True)), TAKEN)
    Regeneration.objects.filter(pk__in=[pk for pk, _ in taken]).update(state=State.WAITING, run=None)


def refusals(sample: Sample) -> list[Decision]:
    """The rejections of a sample that were not taken back, in order."""
    rows = list(Decision.objects.filter(sample=sample, policy="").order_by("pk"))
    undone = {row.after.get("undoes") for row in rows if row.verdict == Decision.Verdict.UNDO}
    return [row for row in rows if row.verdict == Decision.Verdict.REJECT and row.pk not in undone]


@dataclass(frozen=True, slots=True)
class Again:
    """Rejected samples to write again. `writing`: of runs under way; `stopped`: {run that stopped: how many}."""

    waiting: int
    writing: int
    stopped: dict[int, int]

    @property
    def to_start(self) -> int:
        """What the button starts."""
        return self.waiting + sum(self.stopped.values())


def again() -> Again:
    """One query."""
    rows = (
        Regeneration.objects.filter(state__in=WRITTEN_AGAIN).order_by().values_list("run", "run__job__state")
    )
    counts = list(rows.annotate(count=Count("pk")))
    stopped = {run: count for run, state, count in counts if state in STOPPED}
    waiting = sum(count for run, _, count in counts if run is None)
    return Again(waiting, sum(c for *_, c in counts) - waiting - sum(stopped.values()), stopped)


def is_due() -> bool:
    """Whether enough wait, or one long enough, and none is being written."""
    most, minutes = settings.REVIEW_REGENERATE_COUNT, settings.REVIEW_REGENERATE_MINUTES
    late = Q(state=State.WAITING, at__lte=Now() - timedelta(minutes=minutes))
    found = Regeneration.objects.filter(state__in=WRITTEN_AGAIN).aggregate(
        writing=Count("pk", filter=Q(state=State.WRITING)),
        waiting=Count("pk", filter=Q(state=State.WAITING)),
        late=Count("pk", filter=late),
    )
    if found["writing"]:
        return False
    return 0 < most <= found["waiting"] or (minutes > 0 and found["late"] > 0)


# What a run writes in place of rejected samples: one new row in the slot of each, told why the old one was refused.
#
# The new sample has a seed of its own, drawn from the old one's and the critique, and so another key; everything else
# is as today's plan would have it. A rejected sample whose rule, tools or place have moved on meanwhile is not
# written.


SAME = "The same sample was written before."


def plan_again(ctx: JobContext, run: SynthesisRun, writers: Writers, catalog: CatalogView) -> None:
    """Create the rows of the run; those that a killed attempt made are found and kept."""
    with alone(ctx):
        run.refresh_from_db()
        drop_overtaken(run, writers, catalog)
        before = count(run)
        inputs = inputs_of(run.branch, run.params, writers, catalog, published_rules())
        rows = _rows(run, writers, inputs)
        taken = set(Sample.objects.filter(key__in=[row.key for _, row in rows]).values_list("key", flat=True))
        for asked, row in rows:
            if row.key in taken:
                end(asked, SAME)
        Sample.objects.bulk_create(row for _, row in rows if row.key not in taken)
        settle_plan(run, before)


def end(asked: Regeneration, why: str) -> None:
    assert asked.run is not None
    note(asked.run, 1, why)
    Regeneration.objects.filter(pk=asked.pk).update(state=State.ENDED, why=why[:300], ended_at=Now())


def _rows(run: SynthesisRun, writers: Writers, inputs: Inputs) -> list[tuple[Regeneration, Sample]]:
    """The rows to create for what the run has taken and has no row for yet; what cannot be written is ended."""
    made = [pk for pk in run.samples.values_list("made_from__again__of", flat=True) if pk]
    taken = Regeneration.objects.filter(run=run, state=State.WRITING).exclude(sample__in=made)
    standing = Sample.objects.filter(slot__in=taken.values("sample__slot")).exclude(slot="")
    standing = standing.exclude(GONE | ABANDONED)
    newest = dict(standing.values_list("slot").annotate(newest=Max("pk")))
    found = []
    for asked in taken.select_related("run", "sample__anchor", "sample__rule_version__rule").order_by("pk"):
        old = asked.sample
        why = NEWER if newest.get(old.slot, 0) > old.pk else _overtaken(old, inputs, writers)
        if why:
            end(asked, why)
        else:
            found.append((asked, _row(run, writers.name, inputs, asked)))
    return found


def _overtaken(old: Sample, inputs: Inputs, writers: Writers) -> str:
    """Why nothing can be written in its place today; empty when it can."""
    if (version := old.rule_version) is not None:
        rule = inputs.rules.get(version.pk)
        if rule is None:
            return f"{version.rule.code} v{version.number} is not the published version any more."
        return unsupported(rule, inputs.catalog, writers).get(old.style, "")
    made = inputs.of_anchor(old.anchor.name if old.anchor else "")
    if made is None:
        return f"{old.anchor} is retired."
    few = old.tier not in tiers_of(made, inputs.catalog, writers)
    return f"Its pool has too few tools that a {old.tier} query could ask for." if few else ""


def _row(run: SynthesisRun, writer: str, inputs: Inputs, asked: Regeneration) -> Sample:
    old = asked.sample
    made = inputs.of(old.rule_version_id, old.anchor.name if old.anchor else None)
    assert made is not None
    kind, index = old.style or old.tier, int(old.made_from["index"])
    seed = seed_again(old.seed, asked.critique, inputs.share)
    row = sample_row(run, writer, inputs, made, kind, index, seed)
    row.slot, row.domain_id = old.slot, old.domain_id
    row.rule_version_id, row.anchor_id = old.rule_version_id, old.anchor_id
    again: dict[str, Any] = {"of": old.pk, "critique": asked.critique, "refused": []}
    if asked.decision.reason in OF_TRACE and set(old.answer) <= set(made.tools):
        row.query, row.answer, row.explanation = old.query, old.answer, old.explanation
    else:  # its query and those rejected before it in its place
        again["refused"] = [old.query, *old.made_from.get("again", {}).get("refused", ())]
    row.made_from["again"] = again
    return row


def calls_to_write_again() -> Figure:
    """What the button would ask of models; one query."""
    rows = Regeneration.objects.filter(Q(state=State.WAITING) | HELD_BY_STOPPED)
    kept = Count("pk", filter=Q(decision__reason="bad_trace"))
    found = rows.filter(sample__run__writer__startswith="llm").aggregate(count=Count("pk"), kept=kept)
    if not found["count"]:
        return Figure(0, "the offline writers ask no model")
    basis = "a query, a trace and a judge call each, a quarter more for retries"
    if found["kept"]:
        basis += f"; {found['kept']} keep their query"
    return Figure(round(RETRIES * (3 * found["count"] - found["kept"])), basis)
