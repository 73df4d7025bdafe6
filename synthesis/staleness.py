"""Whether samples are as they would be written today, and why not. Derived by comparing keys, never stored.

Content stale: the rule version, T(r), or the pool's tools say something else now; the sample may be wrong and stays
out of snapshots. Outdated: only prompt, model, parameters, few-shot queries or recipe changed; it is still right.
Compared with the writers as they are configured now and the recipe of the newest run of the branch.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet

from rules.models import RuleVersion
from synthesis.contents import content_stale
from synthesis.core.plan import State
from synthesis.core.queries import RuleText
from synthesis.core.reasons import BEFORE_KEYS, Reason, reasons
from synthesis.core.recipe import Recipe, default_recipe, read_recipe
from synthesis.inputs import Inputs, telling_writers
from synthesis.models import Sample, SynthesisRun
from synthesis.sample_rows import Old, Row, old_of, rows_of
from synthesis.sources import CatalogView, catalog_around, few_shot_queries, rule_texts
from synthesis.writers.recorded import NAME as RECORDED

MOST_AROUND = 200  # rows whose pools are read one by one; for more the whole catalog is
LEVELS = {"current": State.CURRENT, "outdated": State.OUTDATED, "content": State.STALE}


@dataclass(frozen=True, slots=True)
class Staleness:
    state: State
    reasons: tuple[Reason, ...] = ()

    @property
    def level(self) -> str:
        """`current`, `outdated` or `content`."""
        return next(name for name, state in LEVELS.items() if state == self.state)


def why(sample: Sample) -> list[Reason]:
    """Empty for a current sample."""
    return list(stale_map(Sample.objects.filter(pk=sample.pk))[sample.pk].reasons)


def stale_map(samples: QuerySet[Sample]) -> dict[int, Staleness]:
    """{sample id: its state with reasons}, in a fixed number of queries. For a page of samples."""
    rows = list(rows_of(samples))
    today = Today(rows)
    made = dict(Sample.objects.filter(pk__in=[row.pk for row in rows]).values_list("pk", "made_from"))
    return {
        row.pk: Staleness(state, today.reasons(row, state, made[row.pk])) for row, state in today.states(rows)
    }


def states(samples: QuerySet[Sample]) -> dict[int, State]:
    """{sample id: its state}, for any number of samples; no reasons."""
    rows = list(rows_of(samples))
    return {row.pk: state for row, state in Today(rows).states(rows)}


def stale_filter(samples: QuerySet[Sample], level: str) -> QuerySet[Sample]:
    """Those of one level: `current`, `outdated` or `content`; anything else filters nothing."""
    if level not in LEVELS:
        return samples
    if level == "content":
        return samples.filter(content_stale(samples))
    found = states(samples)
    hits = [pk for pk, state in found.items() if state == LEVELS[level]]
    if 2 * len(hits) <= len(found):
        return samples.filter(pk__in=hits)
    return samples.exclude(pk__in=[pk for pk, state in found.items() if state != LEVELS[level]])


@dataclass(slots=True)
class Today:
    """Today's inputs for the given rows: their rules as published now, the tools around them, each writer's own."""

    rows: Sequence[Row]
    catalog: CatalogView = field(init=False)
    numbers: dict[int, int] = field(init=False)  # {sample's version: its number}
    rules: dict[int, RuleText] = field(init=False)  # {sample's version: the version published now}
    current: dict[int, RuleText] = field(init=False)  # {published version: its text}
    old: dict[int, Old] = field(init=False)
    _inputs: dict[tuple[str, str], Inputs] = field(default_factory=dict)
    _texts: list[str] | None = None

    def __post_init__(self) -> None:
        self.numbers, self.rules, self.current = _published({row.version for row in self.rows if row.version})
        self.old = old_of([row.pk for row in self.rows if row.content is None])
        self.catalog = self._catalog()

    def _catalog(self) -> CatalogView:
        if len(self.rows) > MOST_AROUND:
            return catalog_around(None)
        names = {row.anchor for row in self.rows if row.anchor}
        names |= {name for rule in self.current.values() for name in rule.tools}
        names |= {name for old in self.old.values() for name in old.answer}
        return catalog_around(names)

    def states(self, rows: Iterable[Row]) -> list[tuple[Row, State]]:
        groups: dict[tuple[str, str], list[Row]] = {}
        for row in rows:
            groups.setdefault(_writers_of(row), []).append(row)
        found = [pair for group in groups.values() for pair in self.inputs(group[0]).states(group)]
        return sorted(found, key=lambda pair: pair[0].pk)

    def inputs(self, row: Row) -> Inputs:
        branch, writer = kind = _writers_of(row)
        if kind not in self._inputs:
            recipe, models = _newest(branch, writer)
            writers = telling_writers(writer, recipe, models)
            share = recipe.trace.permission_share
            if writer == "llm" and self._texts is None:
                self._texts = few_shot_queries()
            self._inputs[kind] = Inputs.today(
                self.catalog, self.current, branch, writers, share, self._texts or ()
            )
        return self._inputs[kind]

    def reasons(self, row: Row, state: State, made: Mapping[str, Any]) -> tuple[Reason, ...]:
        if state == State.CURRENT:
            return ()
        if row.version and row.version not in self.rules:
            return (Reason("gone", "the rule is withdrawn"),)
        if row.content is None or row.number is None:
            before = () if row.branch == "imported" else (Reason("before", BEFORE_KEYS),)
            return (*self._of_old(row), *before)
        inputs = self.inputs(row)
        rule = self.rules[row.version] if row.version else None
        ground = inputs.of_rule(rule) if rule else inputs.of_anchor(row.anchor or "")
        if ground is None:
            return (Reason("gone", f"{row.anchor} is retired"),)
        _, now = inputs.made_from(ground, row.kind, row.number, row.seed, row.batch, bool(row.granted))
        return tuple(reasons(made, now))

    def _of_old(self, row: Row) -> Iterable[Reason]:
        if row.version and row.version not in self.current:
            now = self.rules[row.version]
            yield Reason("rule", now.code, f"v{self.numbers[row.version]}", f"v{now.version}")
        old = self.old[row.pk]
        for name in old.answer:
            if name not in self.catalog.tools:
                yield Reason("gone", f"{name} is retired")
            elif (was := old.tools.get(name)) and not self.catalog.tools[name].hash.startswith(was):
                yield Reason("tool", name)


def _writers_of(row: Row) -> tuple[str, str]:
    return row.branch, next((name for name in ("llm", RECORDED) if row.writer.startswith(name)), "offline")


def _newest(branch: str, writer: str) -> tuple[Recipe, dict[str, str]]:
    """The recipe of the newest run of this branch and kind of writer, and its models where settings name none."""
    runs = SynthesisRun.objects.filter(branch=branch, params__has_key="recipe")
    runs = runs.exclude(params__has_key="regenerate")  # those follow the run of what was rejected
    others = Q(writer__startswith="llm") | Q(writer=RECORDED)
    kind = runs.exclude(others) if writer == "offline" else runs.filter(writer__startswith=writer)
    params = kind.order_by("-id").values_list("params", flat=True).first() or {}
    recipe = read_recipe(params["recipe"]) if params else default_recipe()
    models = {row["role"]: row["model"] for row in params.get("endpoints", ())}
    return recipe, {} if settings.LLM_GENERATOR_MODEL else models


def _published(versions: set[int]) -> tuple[dict[int, int], dict[int, RuleText], dict[int, RuleText]]:
    """({version: number}, {version: the rule as published now}, {published version: the rule}) of these rules."""
    columns = ("pk", "number", "rule__published_id")
    known = RuleVersion.objects.filter(pk__in=versions, rule__published__isnull=False)
    found = list(known.values_list(*columns))
    rows = RuleVersion.objects.filter(pk__in={now for _, _, now in found}).select_related("rule")
    listed = list(rows)
    current = {version.pk: text for version, text in zip(listed, rule_texts(listed), strict=True)}
    return {pk: number for pk, number, _ in found}, {pk: current[now] for pk, _, now in found}, current
