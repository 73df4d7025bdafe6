"""Today's inputs: what a sample of any rule or anchor would be made from now, its keys, and the state of old samples.

Built from a catalog view that holds the pools in question (the whole catalog for a plan, a small part for one page),
what the writers say they are made with, and the few-shot queries.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from django.db.models import QuerySet

from synthesis.core.keys import (
    STAGES,
    Ground,
    MadeWith,
    batch_seed,
    compact_made_with,
    ground,
    made_from,
    sample_seed,
    shot_mark,
    shots_digest,
    stage_keys,
)
from synthesis.core.plan import State, pool_members
from synthesis.core.queries import RuleText, Writers, carries_permissions
from synthesis.core.recipe import Recipe
from synthesis.llm.writers import endpoints, llm_writers
from synthesis.models import Sample
from synthesis.offline.recorded import NAME as RECORDED
from synthesis.offline.recorded import recorded_writers
from synthesis.offline.writer import offline_writers
from synthesis.samples.sources import CatalogView, few_shot_queries
from trace_site.lib.files import content_hash
from trace_site.lib.llm.client import Client

CHUNK = 5000


# Which few-shot queries a sample is shown: rendezvous hashing of (seed, query). Every query draws a lot per seed, the
# lowest win, so one query more or less changes only the samples that it enters or leaves: about count/n of them.

BLOCK = 4096  # seeds at a time
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))
_LAST = np.uint64(31)


class FewShots:
    """`count` of the texts for any seed, in the order of their lots."""

    def __init__(self, texts: Iterable[str], count: int) -> None:
        self.texts = list(dict.fromkeys(texts))
        self.count = min(count, len(self.texts))
        marks = [int(content_hash(text)[:16], 16) for text in self.texts]
        self._marks = np.array(marks, dtype=np.uint64)
        self._names = [shot_mark(text) for text in self.texts]

    def chosen(self, seed: int, batch: int | None = None) -> tuple[str, ...]:
        """For a sample's seed; all samples of a batch are shown those for the batch's."""
        seed = seed if batch is None else batch
        return tuple(self.texts[place] for place in self._places([seed])[0]) if self.count else ()

    def digests(self, seeds: Sequence[int]) -> list[str]:
        """`shots_digest` of the choice for each seed."""
        if not self.count:
            return [""] * len(seeds)
        found: list[str] = []
        for start in range(0, len(seeds), BLOCK):
            chosen = self._places(seeds[start : start + BLOCK]).tolist()
            found += ["-".join([self._names[place] for place in row]) for row in chosen]
        return found

    def _places(self, seeds: Sequence[int]) -> npt.NDArray[np.int64]:
        """len(seeds) x count positions of texts; equal lots are as good as impossible in 64 bits."""
        lots = np.array(seeds, dtype=np.uint64)[:, None] * _GOLDEN + self._marks[None, :]
        for shift, factor in _MIX:
            lots = (lots ^ (lots >> shift)) * factor
        lots ^= lots >> _LAST
        if self.count < len(self.texts):
            best = np.argpartition(lots, self.count - 1, axis=1)[:, : self.count]
        else:
            best = np.broadcast_to(np.arange(self.count), lots.shape)
        order = np.argsort(np.take_along_axis(lots, best, axis=1), axis=1)
        return np.take_along_axis(best, order, axis=1)


class SampleKeys(NamedTuple):
    """A sample as staleness reads it: its keys and place, no texts, no pool."""

    pk: int
    branch: str
    domain: str
    version: int | None
    anchor: str | None
    style: str
    tier: str
    seed: int
    key: str
    machine: str
    human: str
    writer: str
    content: str | None
    number: int | None
    batch: int | None
    granted: bool | None

    @property
    def kind(self) -> str:
        return self.style or self.tier

    @property
    def gone(self) -> bool:
        return self.machine == Sample.Machine.DROPPED or self.human == Sample.Human.REJECTED


COLUMNS = (
    *(
        "pk",
        "branch",
        "domain_id",
        "rule_version_id",
        "anchor__name",
        "style",
        "tier",
        "seed",
        "key",
        "machine",
    ),
    *("human", "writer", "content", "made_from__index", "made_from__batch_seed", "made_from__granted"),
)


class Old(NamedTuple):
    """What is known of a sample beside its keys; all there is of an imported query, or of one before keys were kept."""

    answer: list[str]
    tools: dict[str, str]


def rows_of(samples: QuerySet[Sample]) -> Iterator[SampleKeys]:
    found = samples.order_by("pk").values_list(*COLUMNS).iterator(CHUNK)
    return (SampleKeys(*row) for row in found)


def old_of(pks: Sequence[int]) -> dict[int, Old]:
    """What these samples were made from, without keys; no query when there are none."""
    found = Sample.objects.filter(pk__in=pks).values_list("pk", "answer", "made_from__tools")
    return {pk: Old(answer, tools or {}) for pk, answer, tools in found}


def blocks(rows: Iterable[SampleKeys]) -> Iterator[list[SampleKeys]]:
    given = iter(rows)
    while block := list(islice(given, CHUNK)):
        yield block


def telling_writers(writer: str, recipe: Recipe, models: Mapping[str, str] | None = None) -> Writers:
    """The writers of a kind ("offline", "recorded" or "llm...") for their `made_with`; they cannot write."""
    if writer == RECORDED:
        return recorded_writers(recipe)
    if not writer.startswith("llm"):
        return offline_writers(recipe)
    # what stands for their clients knows its endpoint alone: nothing is asked
    found = endpoints(models).items()
    named = {role: cast(Client, SimpleNamespace(endpoint=endpoint)) for role, endpoint in found}
    return llm_writers(named, recipe)


def content_inputs(catalog: CatalogView, rules: Mapping[int, RuleText]) -> "Inputs":
    """For what makes samples wrong alone: rules and tools, whoever writes."""
    return Inputs(catalog, rules, "", {stage: {} for stage in STAGES}, 0.0, FewShots((), 0))


@dataclass(slots=True)
class Inputs:
    """`rules`: {version: the published rule it is}. `share`: of samples with permission targets."""

    catalog: CatalogView
    rules: Mapping[int, RuleText]
    branch: str
    made_with: MadeWith
    share: float
    shots: FewShots
    _rules: dict[tuple[str, str, int], Ground] = field(default_factory=dict)
    _anchors: dict[str, Ground] = field(default_factory=dict)
    _told: MadeWith = field(init=False)

    def __post_init__(self) -> None:
        self._told = compact_made_with(self.made_with, self.share)

    @classmethod
    def today(
        cls,
        catalog: CatalogView,
        rules: Mapping[int, RuleText],
        branch: str,
        writers: Writers,
        share: float,
        texts: Callable[[], list[str]] = few_shot_queries,
    ) -> "Inputs":
        made_with = writers.made_with(branch)
        count = int(made_with["query"].get("few_shots", 0))
        return cls(catalog, rules, branch, made_with, share, FewShots(texts() if count else (), count))

    def of_rule(self, rule: RuleText) -> Ground:
        name = (rule.domain, rule.code, rule.version)
        if name not in self._rules:
            own = [tool for tool in rule.tools if tool in self.catalog.tools]
            self._rules[name] = self._ground(rule.domain, rule.code, rule, own)
        return self._rules[name]

    def of_anchor(self, anchor: str) -> Ground | None:
        """None for a retired one."""
        if anchor not in self._anchors and anchor in self.catalog.tools:
            domain = self.catalog.domains[anchor]
            self._anchors[anchor] = self._ground(domain, anchor, None, [anchor])
        return self._anchors.get(anchor)

    def _ground(self, domain: str, of: str, rule: RuleText | None, own: list[str]) -> Ground:
        pool = pool_members(own, self.catalog.neighbours)
        granted = {name: self.catalog.mark(name) for name in pool if name in self.catalog.tools}
        return ground(
            domain=domain,
            of=of,
            rule=rule,
            plain={name: mark.partition("+")[0] for name, mark in granted.items()},
            granted=granted,
            made_with=self.made_with,
            share=self.share,
        )

    def of(self, version: int | None, anchor: str | None) -> Ground | None:
        """What a sample stands on today; None when its rule version is not published or its anchor retired."""
        if version is None:
            return self.of_anchor(anchor) if anchor else None
        rule = self.rules.get(version)
        return self.of_rule(rule) if rule else None

    def seeds(self, made: Ground, kind: str, index: int, seed: int) -> tuple[int, int | None]:
        """(the sample's seed, its batch's) for a run's seed."""
        if made.rule is None:
            return sample_seed(seed, made.of, kind, index), None
        own = sample_seed(seed, made.domain, made.of, kind, index)
        per_call = int(self.made_with["query"].get("per_call", 0))
        return own, batch_seed(seed, made.rule, kind, index, per_call) if per_call else None

    def key(self, made: Ground, kind: str, index: int, seed: int) -> str:
        """The key of a slot as a run with this seed would write it."""
        own, batch = self.seeds(made, kind, index, seed)
        digest = shots_digest(self.shots.chosen(own, batch))
        granted = carries_permissions(self.share, own)
        return stage_keys(made, kind, index, own, batch, digest, granted)[-1]

    def made_from(
        self, made: Ground, kind: str, index: int, own: int, batch: int | None, granted: bool | None = None
    ) -> tuple[str, dict[str, Any]]:
        """(key, the inputs behind it) for the seeds of a sample. `granted`: None as the share of today says."""
        return made_from(
            made,
            branch=self.branch,
            kind=kind,
            index=index,
            seed=own,
            batch=batch,
            shots=self.shots.chosen(own, batch),
            granted=carries_permissions(self.share, own) if granted is None else granted,
            told=self._told,
        )

    def states(self, rows: Iterable[SampleKeys]) -> Iterator[tuple[SampleKeys, State]]:
        """Each row with its state under these inputs, at its own seed."""
        for block in blocks(rows):
            old = old_of([row.pk for row in block if row.content is None])
            seeds = [row.seed if row.batch is None else row.batch for row in block]
            once = list(dict.fromkeys(seeds))  # a batch has one for all its samples
            digests = dict(zip(once, self.shots.digests(once), strict=True))
            for row, seed in zip(block, seeds, strict=True):
                yield row, self._state(row, digests[seed], old.get(row.pk))

    def _state(self, row: SampleKeys, shots: str, old: Old | None) -> State:
        made = self.of(row.version, row.anchor)
        if old is not None or row.number is None:
            if self._stale_because(row, made, old or Old([], {})):
                return State.STALE
            # of an imported query no more is known that could change
            return State.CURRENT if row.branch == "imported" else State.OUTDATED
        if made is None or row.content != made.side(row.granted).content:
            return State.STALE
        key = stage_keys(made, row.kind, row.number, row.seed, row.batch, shots, row.granted)[-1]
        return State.CURRENT if key == row.key else State.OUTDATED

    def stale(self, rows: Iterable[SampleKeys]) -> Iterator[tuple[SampleKeys, str]]:
        """Each row with why its content is stale, in the words of a manifest; "" when it is not."""
        for block in blocks(rows):
            grounds = [self.of(row.version, row.anchor) for row in block]
            pairs = list(zip(block, grounds, strict=True))
            old = old_of(
                [
                    row.pk
                    for row, made in pairs
                    if made is None or row.content != made.side(row.granted).content
                ]
            )
            for row, made in pairs:
                yield row, self._stale_because(row, made, old[row.pk]) if row.pk in old else ""

    def _stale_because(self, row: SampleKeys, made: Ground | None, old: Old) -> str:
        """For a row whose content is not today's, or is not known."""
        known, now = self.catalog.tools, made.side(row.granted).tools if made else {}
        if row.version is not None and row.version not in self.rules:
            return "rule changed"
        if any(name not in known for name in (*old.answer, *([row.anchor] if row.anchor else ()))):
            return "tool retired"
        if row.content is None:
            same = all(known[name].hash.startswith(old.tools.get(name, "")) for name in old.answer)
            return "" if same else "tool changed"
        changed = any(old.tools[name] != now[name] for name in old.tools.keys() & now.keys())
        return "tool changed" if changed else "pool changed"
