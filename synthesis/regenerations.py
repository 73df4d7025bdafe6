"""Rejected samples that are written again: asked for by a decision, taken by a run, at most MOST times in a slot.

A run takes what waits and has equal options: branch, writers, endpoints, recipe and budget of the run that wrote the
rejected samples. Runs start from a button, or by themselves once enough wait; never while another is at it.
"""

from collections import defaultdict
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from synthesis.core.rejections import critique
from synthesis.models import Decision, Regeneration, Sample, SynthesisRun
from synthesis.selectors_regenerations import held_by_stopped, is_due, refusals, times_written
from synthesis.services import hold_starts, queue_run
from synthesis.units import give_up
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash

State = Regeneration.State
MOST = 3  # replacements in one slot for one rule version
TAKEN = "A later run writes it again."
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
    if times_written(sample) >= MOST:
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
        groups[_options(asked.sample.run)].append(asked)
    return [_queued(group, actor, wake) for group in groups.values()]


def sweep() -> int:
    """Start by itself what is due; how many runs."""
    if not is_due():
        return 0
    with transaction.atomic():
        hold_starts()
        return len(start()) if is_due() else 0


def _options(run: SynthesisRun) -> str:
    return content_hash([run.branch, run.writer, {name: run.params.get(name) for name in OPTIONS}])


def _queued(group: list[Regeneration], actor: Any, wake: bool) -> SynthesisRun:
    """`per_rule` and `anchors` are 0: no run that somebody starts is taken for this one."""
    of = group[0].sample.run
    options = {name: of.params[name] for name in OPTIONS if name in of.params}
    params = {**options, "per_rule": 0, "anchors": 0, "domain": "", "rule": "", "regenerate": len(group)}
    title = f"{len(group)} rejected {of.branch} sample{'' if len(group) == 1 else 's'} written again ({of.writer})"
    run = queue_run(of.branch, of.writer, of.seed, params, actor, wake, title=title)
    Regeneration.objects.filter(pk__in=[asked.pk for asked in group]).update(state=State.WRITING, run=run)
    return run


def _release_stopped() -> None:
    """Take from stopped runs what they have not written; they give it up, and say so."""
    held = Regeneration.objects.select_for_update(of=("self",)).filter(held_by_stopped())
    taken = list(held.values_list("pk", "run"))
    unwritten = Sample.objects.filter(machine=Sample.Machine.PENDING, attempts__isnull=True)
    for run in SynthesisRun.objects.filter(pk__in={run for _, run in taken}):
        give_up(run, list(unwritten.filter(run=run).values_list("pk", flat=True)), TAKEN)
    Regeneration.objects.filter(pk__in=[pk for pk, _ in taken]).update(state=State.WAITING, run=None)
