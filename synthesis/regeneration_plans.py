"""What a run writes in place of rejected samples: one new row in the slot of each, told why the old one was refused.

The new sample has a seed of its own, drawn from the old one's and the critique, and so another key; everything else is
as today's plan would have it. A rejected sample whose rule, tools or place have moved on meanwhile is not written.
"""

from collections.abc import Iterable
from typing import Any

from django.db.models import Max, QuerySet
from django.db.models.functions import Now

from synthesis.core.keys import seed_again
from synthesis.core.pools import shuffled
from synthesis.core.queries import Writers
from synthesis.core.rejections import OF_TRACE
from synthesis.inputs import Inputs
from synthesis.models import Regeneration, Sample, SynthesisRun
from synthesis.planning import NEWER, drop_overtaken, tiers_of, unsupported
from synthesis.run_plan import inputs_of
from synthesis.selectors import GONE
from synthesis.selectors_standing import ABANDONED
from synthesis.selectors_units import count
from synthesis.sources import CatalogView, published_rules
from synthesis.units import alone, note
from trace_site.jobs import JobContext

State = Regeneration.State
NO_PLACE = "It was made before places in the plan were kept."
SAME = "The same sample was written before."


def plan_again(ctx: JobContext, run: SynthesisRun, writers: Writers, catalog: CatalogView) -> None:
    """Create the rows of the run; those that a killed attempt made are found and kept."""
    with alone(ctx):
        run.refresh_from_db()
        drop_overtaken(run, writers, catalog)
        before = count(run)
        texts = {version.pk: text for version, text in published_rules()}
        inputs = inputs_of(run.branch, run.params, writers, catalog, texts)
        rows = _rows(run, writers, inputs, _taken(run))
        taken = set(Sample.objects.filter(key__in=[row.key for _, row in rows]).values_list("key", flat=True))
        for asked, row in rows:
            if row.key in taken:
                end(asked, SAME)
        Sample.objects.bulk_create(row for _, row in rows if row.key not in taken)
        run.units = (before if run.units is None else run.units) + count(run) - before
        run.params["planned"] = True
        run.save(update_fields=["params", "units"])


def settle(rows: Iterable[Sample]) -> None:
    """Put down what became of the rejected samples that these were written for, in the transaction of the rows."""
    for row in rows:
        if again := row.made_from.get("again"):
            ready = row.machine == Sample.Machine.READY
            Regeneration.objects.filter(sample=again["of"], state=State.WRITING).update(
                state=State.WRITTEN if ready else State.ENDED,
                why="" if ready else "No attempt passed filter and judge.",
                replacement=row,
                ended_at=Now(),
            )


def end(asked: Regeneration, why: str) -> None:
    assert asked.run is not None
    note(asked.run, 1, why)
    Regeneration.objects.filter(pk=asked.pk).update(state=State.ENDED, why=why[:300], ended_at=Now())


def _taken(run: SynthesisRun) -> QuerySet[Regeneration]:
    """What the run has taken and has no row for yet."""
    made = [pk for pk in run.samples.values_list("made_from__again__of", flat=True) if pk]
    rows = Regeneration.objects.filter(run=run, state=State.WRITING).exclude(sample__in=made)
    return rows.select_related("run", "sample__anchor", "sample__rule_version__rule").order_by("pk")


def _rows(
    run: SynthesisRun, writers: Writers, inputs: Inputs, taken: QuerySet[Regeneration]
) -> list[tuple[Regeneration, Sample]]:
    """The rows to create; what cannot be written any more is ended."""
    found = []
    newest = _newest_in(taken)
    for asked in taken:
        old = asked.sample
        why = NEWER if newest.get(old.slot, 0) > old.pk else _overtaken(old, inputs, writers)
        if why:
            end(asked, why)
        else:
            found.append((asked, _row(run, writers.name, inputs, asked)))
    return found


def _newest_in(taken: QuerySet[Regeneration]) -> dict[str, int]:
    """{slot: the newest sample that stands in it}"""
    rows = Sample.objects.filter(slot__in=taken.values("sample__slot")).exclude(slot="")
    rows = rows.exclude(GONE | ABANDONED)
    return dict(rows.values_list("slot").annotate(newest=Max("pk")))


def _overtaken(old: Sample, inputs: Inputs, writers: Writers) -> str:
    """Why nothing can be written in its place today; empty when it can."""
    if "index" not in old.made_from:
        return NO_PLACE
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
    key, behind = inputs.made_from(made, kind, index, seed, None)
    keeps = asked.decision.reason in OF_TRACE and set(old.answer) <= set(made.tools)
    again = {"of": old.pk, "critique": asked.critique, "refused": [] if keeps else _refused(old)}
    kept: dict[str, Any] = {"query": old.query, "answer": old.answer, "explanation": old.explanation}
    return Sample(
        run=run,
        key=key,
        slot=old.slot,
        branch=old.branch,
        domain_id=old.domain_id,
        rule_version_id=old.rule_version_id,
        anchor_id=old.anchor_id,
        style=old.style,
        tier=old.tier,
        seed=seed,
        pool=shuffled(made.tools, seed),
        writer=writer,
        made_from={**behind, "again": again},
        **(kept if keeps else {}),
    )


def _refused(old: Sample) -> list[str]:
    """Its query and those rejected before it in its place."""
    return [old.query, *old.made_from.get("again", {}).get("refused", ())]
