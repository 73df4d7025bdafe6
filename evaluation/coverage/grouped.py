"""Stored answers sorted into covered, uncovered and outside by rules and clusters as they stand.

Answers never change, and neither do their numbers; what a request is beside rules and clusters may change with each of
them, so it is told at the look. A process keeps what it counted for as long as the requests lie in the same groups.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from django.db.models import JSONField, Q
from django.db.models.expressions import RawSQL

from evaluation.benchmarks.selectors import SEED, TRACED, benchmark_rows, slices
from evaluation.core import coverage as core
from evaluation.core.coverage import EXCEPTIONS, GROUPS, QueryGroups
from evaluation.core.items import TARGET_SIDES
from evaluation.core.metrics import RANKED_DECODES
from evaluation.core.report import Answered, same_length, summarise
from evaluation.coverage.selectors import (
    Definition,
    Stamp,
    definition_by,
    read_clusters,
    read_dismissals,
    read_published,
    read_tools,
    stamps,
)
from evaluation.models import Answer, Benchmark, Evaluation
from trace_site.lib.files import content_hash

KEPT = 512  # evaluations that a process keeps counted
Figures = dict[str, dict[str, Any]]  # {domain or all: {group: figures}}


@dataclass(frozen=True)
class Sorting:
    """How requests are sorted. `ids`: {name: id} of all tools; `known`: {benchmark: {item: group}}, `hashes` of it."""

    by: QueryGroups
    ids: Mapping[str, int]
    definition: Definition
    known: dict[int, dict[int, str]] = field(default_factory=dict)
    hashes: dict[int, str] = field(default_factory=dict)

    def of(self, benchmark: int) -> dict[int, str]:
        """{item: its group}; one query, the first time that a process reads the benchmark."""
        if benchmark not in self.known:
            self.known[benchmark] = {
                int(row["id"]): self.by.group(self.ids[name] for name in row["tools"] if name in self.ids)
                for row in rows_of(benchmark)
            }
        return self.known[benchmark]

    def hash_of(self, benchmark: int) -> str:
        """Of the groups of its items; queries as `of`."""
        if benchmark not in self.hashes:
            self.hashes[benchmark] = content_hash(self.of(benchmark))
        return self.hashes[benchmark]


def sorting_now() -> Sorting:
    """One query, and those of what changed since this process looked last."""
    now = stamps()
    return _sorting(now.tools, now.clusters, now.dismissals, now.rules)


@lru_cache(maxsize=1)
def _sorting(tools: Stamp, clusters: Stamp, dismissals: Stamp, rules: Stamp) -> Sorting:
    book, published = read_clusters(tools, clusters), read_published(rules)
    dismissed = read_dismissals(clusters, dismissals)
    rows: list[core.ClusterCoverage] = []
    for domain, found in book.clusters.items():
        chosen = [replace(one, dismissed=True) if one.id in dismissed else one for one in found]
        rows += core.cover(chosen, published.by_domain.get(domain, ()))
    ids = {tool.name: tool.id for tool in read_tools(tools).values()}
    return Sorting(QueryGroups.build(rows), ids, definition_by(tools, clusters, dismissals, rules))


@lru_cache(maxsize=16)
def rows_of(benchmark: int) -> tuple[dict[str, Any], ...]:
    """A benchmark never changes. One query."""
    return tuple(benchmark_rows(Benchmark(pk=benchmark)))


_counted: OrderedDict[tuple[int | str, ...], Figures] = OrderedDict()


def _kept(
    keys: Mapping[int, tuple[int | str, ...]], count: Callable[[Collection[int]], Mapping[int, Figures]]
) -> dict[int, Figures]:
    """The figures of evaluations: what this process has not kept under its key is counted."""
    known = {pk: figures for pk, key in keys.items() if (figures := _counted.get(key)) is not None}
    fresh = count(keys.keys() - known.keys())
    _counted.update((keys[pk], figures) for pk, figures in fresh.items())
    while len(_counted) > KEPT:
        _counted.popitem(last=False)
    return known | dict(fresh)


def grouped(found: Sequence[Evaluation]) -> dict[int, Figures]:
    """The figures of evaluations of requests, those of their groups among them. One query, and for what this process
    has not counted two more."""
    sorting = sorting_now()
    keys = {one.pk: (one.pk, sorting.hash_of(one.benchmark_id)) for one in found if has_groups(one)}
    known = _kept(keys, lambda fresh: _count([one for one in found if one.pk in fresh], sorting))
    return {
        one.pk: {
            domain: {**of, **known.get(one.pk, {}).get(domain, {})} for domain, of in slices(one).items()
        }
        for one in found
    }


def has_groups(of: Evaluation) -> bool:
    return of.benchmark.kind == Benchmark.Kind.PRB and of.metrics is not None


def _count(found: Sequence[Evaluation], sorting: Sorting) -> dict[int, Figures]:
    given = answers_of(found)
    return {
        one.pk: summarise(given[one.pk], _by_id(sorting, one), seed=SEED, only=GROUPS)
        for one in found
        if given[one.pk]
    }


def _by_id(sorting: Sorting, of: Evaluation) -> dict[str, str]:
    return {str(item): group for item, group in sorting.of(of.benchmark_id).items()}


# what numbers are counted from, without texts
OUTPUT = RawSQL("output - '{trace,raw,wrote,scores,ranked,features}'::text[]", [], JSONField())


def answers_of(found: Sequence[Evaluation]) -> dict[int, list[Answered]]:
    """Of each evaluation of requests; one query, none for nothing."""
    given: dict[int, list[Answered]] = {one.pk: [] for one in found}
    items = {int(row["id"]): row for one in found for row in rows_of(one.benchmark_id)}
    ranked = {one.pk: one.decode in RANKED_DECODES for one in found}
    rows = Answer.objects.filter(evaluation__in=given).order_by("evaluation", "item__position")
    for pk, item, output, scores in rows.values_list("evaluation", "item", OUTPUT, "scores") if found else ():
        given[pk].append(Answered(output, items[item], ranked[pk], scores, scores.get("cited") or ()))
    return given


def lists_beside_baseline(found: Sequence[Evaluation]) -> dict[int, Figures]:
    """Of written lists, the embedding cut to the same lengths: see `core.report.same_length`. Two queries, where a
    baseline was measured, and for what this process has not counted two more."""
    lists = [one for one in found if one.decode in TRACED and has_groups(one)]
    made = Evaluation.objects.filter(
        benchmark__in=[one.benchmark_id for one in lists],
        decode=Evaluation.Decode.EMBEDDING,
        metrics__isnull=False,
    )
    baselines = {one.benchmark_id: one for one in made.defer("metrics").order_by("pk")} if lists else {}
    if not baselines:
        return {}
    sorting = sorting_now()
    beside = {one.pk: baselines[one.benchmark_id] for one in lists if one.benchmark_id in baselines}
    keys = {pk: (pk, baseline.pk, sorting.hash_of(baseline.benchmark_id)) for pk, baseline in beside.items()}

    def count(fresh: Collection[int]) -> dict[int, Figures]:
        chosen = [one for one in lists if one.pk in fresh]
        given = answers_of([*chosen, *(beside[pk] for pk in fresh)])
        found = {}
        for one in chosen:
            ranked = {answer.id: answer.row["tools"] for answer in given[beside[one.pk].pk]}
            found[one.pk] = same_length(given[one.pk], _by_id(sorting, one), ranked, SEED)
        return found

    return _kept(keys, count)


# of a benchmark's request
IS_EXCEPTION = Q(item__data__has_key="side") & ~Q(item__data__side__in=TARGET_SIDES)


def group_filter(of: Evaluation, group: str) -> Q:
    """Of its answers, those of requests in a group."""
    if group == EXCEPTIONS:
        return IS_EXCEPTION
    groups = sorting_now().of(of.benchmark_id)
    return Q(item__in=[item for item, own in groups.items() if own == group])
