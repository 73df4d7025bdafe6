"""What a run has to write: sample rows planned before anything is written, so that a killed run knows what is left.

A rule run fills each published rule up to `per_rule` samples over the styles it supports; an RRB run fills its domains
up to `anchors` samples, stratified by domain and API. What is not current is written again in its own slot, beside the
old row; planning again when nothing is missing plans nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Any

from django.db.models import QuerySet

from rules.models import RuleVersion
from synthesis.core.anchors import plan_anchors, stratified
from synthesis.core.clauses import reasons_unsupported
from synthesis.core.keys import Ground, slot_name
from synthesis.core.plan import Group, Held, Planned, Slot, State, plan_style, shuffled
from synthesis.core.queries import RULE_STYLES, RuleText, Writers
from synthesis.core.recipe import Recipe, read_recipe
from synthesis.generate.imports import spare, spoken_for
from synthesis.models import Sample, SynthesisRun
from synthesis.samples.inputs import Inputs, rows_of, telling_writers
from synthesis.samples.sources import CatalogView, load_catalog, published_rules
from synthesis.samples.staleness import ABANDONED, FILLED, written_again
from synthesis.samples.units import alone, count, give_up, join, take_over
from trace_site.jobs import JobContext
from trace_site.lib.errors import TraceError

AUTOMATIC = "automatic"  # in a run's params: the rule versions that it was started for by itself
REWRITE = "rewrite"  # or "keep": outdated samples stay, only stale and missing ones are written
BATCH = 500
# why a run gives up what it planned
MOVED = "Its rule, tools, prompts or models have changed since it was planned."
NEWER = "A newer sample stands in its place."
TAKEN = "It was decided, frozen, or given a trace by a person meanwhile."


@dataclass(frozen=True, slots=True)
class PlanPart:
    """The plan of one rule and style, or of one domain and tier. `skipped`: why the style cannot be written."""

    domain: str
    rule: str
    kind: str
    planned: Planned
    skipped: str = ""


@dataclass(slots=True)
class RunPlan:
    """The plan of one run, by rule and style or by domain and tier, and what each slot stands on.

    `rules`: {what a slot's `of` says: its rule}, empty for an RRB run, whose slots say the anchor.
    """

    inputs: Inputs
    seed: int
    parts: list[PlanPart] = field(default_factory=list)
    rules: dict[str, tuple[RuleVersion, RuleText]] = field(default_factory=dict)

    def ground(self, of: str) -> Ground:
        made = self.inputs.of_rule(self.rules[of][1]) if self.rules else self.inputs.of_anchor(of)
        assert made is not None, of
        return made

    def key_of(self, of: str, kind: str, index: int) -> str:
        return self.inputs.key(self.ground(of), kind, index, self.seed)


def inputs_of(
    branch: str,
    params: Mapping[str, Any],
    writers: Writers,
    catalog: CatalogView,
    rules: Iterable[tuple[RuleVersion, RuleText]],
) -> Inputs:
    texts = {version.pk: text for version, text in rules}
    share = read_recipe(params.get("recipe", {})).trace.permission_share
    return Inputs.today(catalog, texts, branch, writers, share)


def plan(ctx: JobContext, run: SynthesisRun, writers: Writers, catalog: CatalogView) -> None:
    """Create the run's sample rows, once; a resumed run finds them made, and plans again what it had to give up."""
    with alone(ctx):
        run.refresh_from_db()
        imported = run.branch == SynthesisRun.Branch.IMPORTED
        was_planned = run.params.get("planned")
        if was_planned and not drop_overtaken(run, writers, catalog):
            return
        before = count(run) if was_planned else 0
        if not imported:
            found = planned(run.branch, run.seed, run.params, writers, catalog)
            run.skipped = [
                {"rule": part.rule, "style": part.kind, "reason": part.skipped}
                for part in found.parts
                if part.skipped
            ]
            slots = (slot for part in found.parts for slot in part.planned.slots())
            while some := list(islice(slots, BATCH)):  # a plan may have more rows than fit in memory
                rows = [_sample(run, writers.name, found, slot) for slot in some]
                Sample.objects.bulk_create(rows, ignore_conflicts=True)
                # what another run planned and left is shared with it
                join(run, Sample.objects.filter(key__in=[row.key for row in rows]))
        elif not was_planned:
            join(run, spare(run.params.get("domain", "")))
        settle_plan(run, before)


def settle_plan(run: SynthesisRun, before: int) -> None:
    """The run is planned. before: how many units of the plan were there already."""
    run.units = (run.units or 0) + count(run) - before
    run.params["planned"] = True
    run.save(update_fields=["params", "skipped", "units"])


def plan_counts(
    *, branch: str, writer: str, recipe: Recipe, seed: int = 0, params: Mapping[str, Any]
) -> dict[str, Any]:
    """What a run with these params would plan, written nowhere. `params` as in `SynthesisRun.params`.

    {"new", "content_stale", "outdated", "kept", "skipped", "samples", "rows": [the same per domain, rule and style]};
    samples = new + content_stale + outdated is what would be written; skipped counts styles a rule cannot support.
    """
    writers = telling_writers(writer, recipe)
    asked = {**params, "recipe": recipe.as_dict()}
    parts = planned(branch, seed, asked, writers, load_catalog()).parts
    rows: list[dict[str, Any]] = [
        {"domain": part.domain, "rule": part.rule, "style": part.kind, "skipped": part.skipped}
        | part.planned.counts()
        for part in parts
    ]
    totals = {name: sum(row[name] for row in rows) for name in Planned().counts()}
    written = sum(totals.values()) - totals["kept"]
    return {**totals, "skipped": sum(bool(row["skipped"]) for row in rows), "samples": written, "rows": rows}


def planned(
    branch: str, seed: int, params: Mapping[str, Any], writers: Writers, catalog: CatalogView
) -> RunPlan:
    """The plan of a rule or RRB run over the samples as they stand; reads only."""
    reached = (params.get("domain", ""), params.get("rule", ""), params.get(AUTOMATIC, ()))
    rules = published_rules(*reached) if branch == "rule" else []
    found = RunPlan(inputs_of(branch, params, writers, catalog, rules), seed)
    rewrite = params.get("outdated", REWRITE) == REWRITE
    if branch == "rule":
        _rules(found, rules, params, writers, rewrite)
    else:
        _anchors(found, params, writers, rewrite)
    return found


def drop_overtaken(run: SynthesisRun, writers: Writers, catalog: CatalogView) -> bool:
    """Give up what a resumed run planned and would not plan today; whether there was any. Inside `alone`."""
    if run.branch == SynthesisRun.Branch.IMPORTED:
        gone = spoken_for(run)
        give_up(run, gone, TAKEN)
        return bool(gone)
    take_over(run)
    waiting = run.samples.filter(machine=Sample.Machine.PENDING, attempts__isnull=True)
    if not waiting.exists():
        return False
    inputs = inputs_of(run.branch, run.params, writers, catalog, published_rules())
    old = [row.pk for row, state in inputs.states(rows_of(waiting)) if state != State.CURRENT]
    give_up(run, old, MOVED)
    newer = list(run.samples.filter(FILLED, machine=Sample.Machine.PENDING).values_list("pk", flat=True))
    give_up(run, newer, NEWER)
    return bool(old or newer)


def _rules(
    found: RunPlan,
    rules: Sequence[tuple[RuleVersion, RuleText]],
    params: Mapping[str, Any],
    writers: Writers,
    rewrite: bool,
) -> None:
    if not rules:
        raise TraceError(
            "no rule is published.",
            code="no_rules",
            hint="Publish one first: manage.py rules_import --publish.",
        )
    wanted = [*RULE_STYLES, *(["underspecified"] if params.get("underspecified") else [])]
    codes = {version.rule_id: f"{text.domain} {text.code}" for version, text in rules}
    samples = Sample.objects.filter(branch="rule", rule_version__rule__in=codes)
    groups = _groups(found.inputs, samples, codes)
    for version, rule in rules:
        of = codes[version.rule_id]
        found.rules[of] = version, rule
        reasons = unsupported(rule, found.inputs.catalog, writers)
        for style in (style for style in wanted if style in reasons):
            found.parts.append(PlanPart(rule.domain, rule.code, style, Planned(), reasons[style]))
        styles = [style for style in wanted if style not in reasons]
        # an equal mix: 12 over three styles is 4 each; a remainder goes to the first styles
        each, left = divmod(params["per_rule"], len(styles) or 1)
        for place, style in enumerate(styles):
            goal = each + (place < left)
            slots = plan_style(of, style, groups[of], goal, rewrite=rewrite, key_of=found.key_of)
            found.parts.append(PlanPart(rule.domain, rule.code, style, slots))


def unsupported(rule: RuleText, catalog: CatalogView, writers: Writers) -> dict[str, str]:
    """{style: why not}. Without a live target a rule teaches nothing, opt-in styles neither."""
    reasons = {**writers.unsupported(rule, catalog.tools), **reasons_unsupported(rule, catalog.tools)}
    return {**reasons, "underspecified": reasons["explicit"]} if "explicit" in reasons else reasons


def _anchors(found: RunPlan, params: Mapping[str, Any], writers: Writers, rewrite: bool) -> None:
    domain, catalog = params.get("domain", ""), found.inputs.catalog
    strata: defaultdict[str, list[str]] = defaultdict(list)
    for name, tool in catalog.tools.items():
        if not tool.deprecated and domain in ("", catalog.domains[name]):
            strata[f"{catalog.domains[name]} {tool.api}"].append(name)
    if not strata:
        raise TraceError(f"the domain {domain!r} has no tool to ask for.", code="no_tools", where="--domain")
    samples = Sample.objects.filter(branch="rrb", anchor__isnull=False)
    groups = _groups(found.inputs, samples.filter(domain_id=domain) if domain else samples)
    slots = plan_anchors(
        stratified(strata, 0),
        groups,
        params["anchors"],
        rewrite=rewrite,
        key_of=found.key_of,
        tiers_of=cache(lambda anchor: tiers_of(found.ground(anchor), catalog, writers)),
    )
    parts: defaultdict[tuple[str, str], Planned] = defaultdict(Planned)
    for slot in slots.listed:
        parts[catalog.domains[slot.of], slot.kind].listed.append(slot)
    for (anchor, tier), number in slots.kept.items():
        parts[catalog.domains[anchor], tier].kept[anchor, tier] += number
    found.parts += [PlanPart(of, "", tier, part) for (of, tier), part in sorted(parts.items())]


def _groups(
    inputs: Inputs, samples: QuerySet[Sample], codes: Mapping[int, str] | None = None
) -> defaultdict[str, Group]:
    """What stands in the slots, by rule (`codes`: {rule id: its name in the plan}) or by anchor."""
    of_version: dict[int, str] = {}
    if codes is not None:
        versions = RuleVersion.objects.filter(rule__in=codes).values_list("pk", "rule_id")
        of_version = {pk: codes[rule] for pk, rule in versions}
    groups: defaultdict[str, Group] = defaultdict(Group)
    # what an ended run planned and never wrote is planned anew, and under the same key shared with it
    samples = samples.exclude(ABANDONED)
    again = written_again(inputs.branch)  # their slots are spoken for unless rule or tools have changed
    for row, state in inputs.states(rows_of(samples)):
        if row.number is not None:  # a row without a number stands in no slot
            of = of_version[row.version or 0] if codes is not None else row.anchor or ""
            spoken = row.pk in again
            if spoken and state == State.OUTDATED:
                state = State.CURRENT
            groups[of].add(Held(row.kind, row.number, row.key, state, row.gone and not spoken))
    return groups


def tiers_of(made: Ground, catalog: CatalogView, writers: Writers) -> list[str]:
    return writers.tiers(made.of, [catalog.tools[name] for name in made.tools])


def _sample(run: SynthesisRun, writer: str, found: RunPlan, slot: Slot) -> Sample:
    inputs, made = found.inputs, found.ground(slot.of)
    own, batch = inputs.seeds(made, slot.kind, slot.index, found.seed)
    name = slot_name(run.branch, made.domain, made.of, slot.kind, slot.index)
    version = found.rules[slot.of][0].pk if found.rules else None
    anchor = None if found.rules else inputs.catalog.ids[slot.of]
    row = sample_row(run, writer, inputs, made, slot.kind, slot.index, own, batch)
    row.slot, row.domain_id, row.rule_version_id, row.anchor_id = name, made.domain, version, anchor
    return row


def sample_row(
    run: SynthesisRun,
    writer: str,
    inputs: Inputs,
    made: Ground,
    kind: str,
    index: int,
    seed: int,
    batch: int | None = None,
) -> Sample:
    """A row to be written; its place (slot, domain, rule version or anchor) is the caller's to say."""
    key, behind = inputs.made_from(made, kind, index, seed, batch)
    kinds = {"style": kind} if made.rule else {"tier": kind}
    pool = shuffled(made.tools, seed)
    return Sample(
        run=run, key=key, branch=run.branch, seed=seed, pool=pool, writer=writer, made_from=behind, **kinds
    )
