"""A grid: one declared plan of cells over formats, memos, retrievals, seeds and snapshots.

In: a mapping (YAML, JSON, a form or options). Out: a checked `GridPlan`, its cells in the order in which they train,
and a forecast of what trains and what is reused. Pure: the caller tells which keys a cell needs and which are kept.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field
from itertools import product
from math import prod
from typing import Any

from catalog.core.tokens import FORMATS
from trace_site.lib.errors import TraceError, quoted
from training.core.recipe import MEMOS, POCKET, RETRIEVALS, Recipe
from training.core.stages import Step

MOST = 500  # cells of one plan
LONGEST = {"name": 200, "base": 300}  # characters
STRATEGIES = ("append", "replace")
BRANCHES = ("rrb", "rule", "imported")
LISTS = {"formats": tuple(FORMATS), "memos": MEMOS, "retrievals": RETRIEVALS, "branches": BRANCHES}


def refuse(name: str, problem: str, hint: str = "") -> TraceError:
    return TraceError(problem, code="bad_grid", where=f"grid field '{name}'", hint=hint)


@dataclass(frozen=True, slots=True)
class Source:
    """A snapshot to train on: one that is there (`id`), or one to be built (`strategy`, `per_rule`)."""

    id: int = 0
    strategy: str = ""
    per_rule: int = 0

    def __str__(self) -> str:
        return f"snapshot {self.id}" if self.id else f"{self.strategy}({self.per_rule})"


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of the grid."""

    source: Source
    format: str
    memo: str
    retrieval: str
    seed: int

    def of(self, recipe: Recipe) -> Recipe:
        """The recipe for this cell."""
        cell = {"format": self.format, "memo": self.memo, "retrieval": self.retrieval}
        return recipe.with_cell(**cell, seed=self.seed)


@dataclass(frozen=True)
class GridPlan:
    """A grid as declared."""

    sources: tuple[Source, ...]
    formats: tuple[str, ...] = tuple(FORMATS)
    memos: tuple[str, ...] = MEMOS
    retrievals: tuple[str, ...] = RETRIEVALS
    seeds: tuple[int, ...] = (0,)
    base: str = POCKET
    name: str = ""
    recipe: dict[str, Any] = field(default_factory=dict)  # fields over the base's default recipe
    branches: tuple[str, ...] = ("rrb", "rule")
    rrb: int | None = None
    snapshot_seed: int = 0

    def as_dict(self) -> dict[str, Any]:
        """As it is declared, kept and read again."""
        sources = [one.id or f"{one.strategy}:{one.per_rule}" for one in self.sources]
        own = {name: value for name, value in asdict(self).items() if name != "sources"}
        return {"snapshots": sources, **own}

    def builds(self) -> list[Source]:
        return [source for source in self.sources if not source.id]

    @property
    def axes(self) -> tuple[tuple[Any, ...], ...]:
        return (self.seeds, self.sources, self.formats, self.memos, self.retrievals)

    def cells(self) -> list[Cell]:
        """Each once."""
        cells = (Cell(source, f, m, r, seed) for seed, source, f, m, r in product(*self.axes))
        return list(dict.fromkeys(cells))


def read_plan(data: Any) -> GridPlan:
    """A plan from a mapping; an unknown field, a wrong value or an empty axis is refused by name."""
    if not isinstance(data, Mapping):
        raise refuse("(whole file)", "must be a mapping of fields to values.")
    known = {"snapshots", *(name for name in GridPlan.__dataclass_fields__ if name != "sources")}
    if unknown := sorted(set(map(str, data)) - known):
        raise refuse(unknown[0], f"is unknown; the fields are {', '.join(sorted(known))}.")
    given = {name: value for name, value in data.items() if value is not None}
    values: dict[str, Any] = {name: str(given[name]) for name in LONGEST if given.get(name)}
    if long := [name for name, most in LONGEST.items() if len(values.get(name, "")) > most]:
        raise refuse(long[0], f"is longer than {LONGEST[long[0]]} characters.")
    values |= {name: _some(name, given[name], allowed) for name, allowed in LISTS.items() if name in given}
    values |= {name: _count(name, given[name]) for name in ("rrb", "snapshot_seed") if name in given}
    if "seeds" in given:
        values["seeds"] = tuple(_count("seeds", one) for one in _listed("seeds", given["seeds"]))
    if not isinstance(given.get("recipe", {}), Mapping):
        raise refuse("recipe", "must be a mapping of recipe fields to values.")
    plan = GridPlan(_sources(given.get("snapshots")), recipe=dict(given.get("recipe", {})), **values)
    if (many := prod(map(len, plan.axes))) > MOST:
        raise refuse("(whole plan)", f"has {many:,} cells; at most {MOST} go into one.", "Split it.")
    return plan


def _sources(given: Any) -> tuple[Source, ...]:
    found = [source for entry in _listed("snapshots", given or []) for source in sweep(str(entry))]
    return tuple(_once("snapshots", found))


def sweep(text: str) -> list[Source]:
    """`append:0,3,6` as three sources, `7` as one."""
    strategy, colon, counts = text.strip().partition(":")
    if not colon and strategy.isdecimal():
        return [Source(id=_count("snapshots", strategy))]
    if strategy not in STRATEGIES or not colon:
        hint = "Write a number, or append:0,3,6 or replace:3."
        raise refuse("snapshots", f"{quoted(text)} is neither a snapshot's number nor a sweep.", hint)
    numbers = _listed("snapshots", counts.split(","))
    return [Source(strategy=strategy, per_rule=_count("snapshots", one)) for one in numbers]


def _some(name: str, given: Any, allowed: Iterable[str]) -> tuple[str, ...]:
    values = [str(one) for one in _listed(name, given)]
    if wrong := [one for one in values if one not in allowed]:
        raise refuse(name, f"{quoted(wrong[0])} is not one of {', '.join(allowed)}.")
    return tuple(_once(name, values))


def _listed(name: str, given: Any) -> list[Any]:
    values = list(given) if isinstance(given, (list, tuple)) else [given]
    if not values:
        raise refuse(name, "must name at least one.")
    if len(values) > MOST:
        raise refuse(name, f"names {len(values):,}; at most {MOST} go into one plan.", "Split it.")
    return values


def _once(name: str, values: list[Any]) -> list[Any]:
    if repeated := [value for value, count in Counter(values).items() if count > 1]:
        raise refuse(name, f"names {repeated[0]} twice.")
    return values


def _count(name: str, value: Any) -> int:
    text = str(value).strip() if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
    if not text.isdecimal() or len(text) > 9:
        raise refuse(name, f"{quoted(value)} is not a whole number of at least 0.")
    return int(text)


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """A cell with its stages and what becomes of each: `train`, `shared` (with a cell before) or `kept` (trained
    earlier)."""

    cell: Cell
    steps: tuple[Step, ...]
    states: tuple[str, ...]


def forecast(steps: Mapping[Cell, Sequence[Step]], kept: Set[str]) -> list[PlannedCell]:
    """The cells in training order: those with fewer stages first, for what they train others go on from. `kept`: keys
    that are in the store."""
    seen: set[str] = set()
    found = []
    for cell, own in sorted(steps.items(), key=lambda item: len(item[1])):
        states = ("kept" if one.key in kept else "shared" if one.key in seen else "train" for one in own)
        found.append(PlannedCell(cell, tuple(own), tuple(states)))
        seen |= {one.key for one in own}
    return found


def totals(planned: Iterable[PlannedCell]) -> dict[str, int]:
    """{"stages": all that the cells need, "train", "shared", "kept"}"""
    states = Counter(state for one in planned for state in one.states)
    return {"stages": states.total(), **{name: states[name] for name in ("train", "shared", "kept")}}
