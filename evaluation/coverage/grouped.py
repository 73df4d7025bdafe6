"""Stored answers sorted into covered, uncovered and outside by rules and clusters as they stand.

Answers never change, and neither do their numbers; what a request is beside rules and clusters may change with each of
them, so it is told at the look. A process keeps what it counted for as long as the requests lie in the same groups.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from django.db.models import JSONField, Q
from django.db.models.expressions import RawSQL

from evaluation.benchmarks.selectors import RESULTS, SEED, TIERS, TRACED, benchmark_rows, slices
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
    shown_model,
    stamps,
)
from evaluation.models import Answer, Benchmark, Evaluation
from trace_site.lib.files import content_hash

KEPT = 512  # evaluations that a process keeps counted
Figures = dict[str, dict[str, Any]]  # {domain or all: {group: figures}}


@dataclass(frozen=True)
class Sorting:
    """How requests are sorted. `ids`: {name: id} of all tools; `known`: {benchmark: {item: group}}."""

    by: QueryGroups
    ids: Mapping[str, int]
    definition: Definition
    known: dict[int, dict[int, str]] = field(default_factory=dict)

    def of(self, benchmark: int) -> dict[int, str]:
        """{item: its group}; one query, the first time that a process reads the benchmark."""
        if benchmark not in self.known:
            self.known[benchmark] = {
                int(row["id"]): self.by.group(self.ids[name] for name in row["tools"] if name in self.ids)
                for row in rows_of(benchmark)
            }
        return self.known[benchmark]

    def items(self, benchmark: int, group: str) -> list[int]:
        return [item for item, own in self.of(benchmark).items() if own == group]


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


_counted: OrderedDict[tuple[int, str], Figures] = OrderedDict()


def grouped(found: Sequence[Evaluation]) -> dict[int, Figures]:
    """The figures of evaluations of requests, those of their groups among them. One query, and for what this process
    has not counted two more."""
    sorting = sorting_now()
    keys = {one.pk: (one.pk, content_hash(sorting.of(one.benchmark_id))) for one in found if has_groups(one)}
    known = {pk: _counted[key] for pk, key in keys.items() if key in _counted}
    fresh = _count([one for one in found if one.pk in keys and one.pk not in known], sorting)
    _counted.update((keys[pk], figures) for pk, figures in fresh.items())
    while len(_counted) > KEPT:
        _counted.popitem(last=False)
    known |= fresh
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
    baseline was measured."""
    lists = [one for one in found if one.decode in TRACED and has_groups(one)]
    made = Evaluation.objects.filter(
        Q(benchmark__in=[one.benchmark_id for one in lists]),
        decode=Evaluation.Decode.EMBEDDING,
        metrics__isnull=False,
    )
    baselines = {one.benchmark_id: one for one in made.select_related("benchmark").order_by("pk")}
    if not lists or not baselines:
        return {}
    given, sorting = answers_of([*lists, *baselines.values()]), sorting_now()
    ranked = {
        benchmark: {answer.id: answer.row["tools"] for answer in given[one.pk]}
        for benchmark, one in baselines.items()
    }
    return {
        one.pk: same_length(given[one.pk], _by_id(sorting, one), ranked[one.benchmark_id], SEED)
        for one in lists
        if one.benchmark_id in ranked
    }


# of a benchmark's request
IS_EXCEPTION = Q(item__data__has_key="side") & ~Q(item__data__side__in=TARGET_SIDES)


def group_filter(of: Evaluation, group: str) -> Q:
    """Of its answers, those of requests in a group."""
    if group == EXCEPTIONS:
        return IS_EXCEPTION
    return Q(item__in=sorting_now().items(of.benchmark_id, group))


# The recall that stands beside coverage: of the model shown, per domain, inside and outside what rules cover.

DECODES = ("trace", "trace-free", "fast", "beam")  # which evaluation of a model is shown, best first


def recall_by_domain() -> dict[str, dict[str, Any]]:
    """The recall of each domain, for programs; two queries.

    {domain: {"model", "alias", "cell", "base", "benchmark", "tier", "decode", "groups", "embedding", "same_length"}},
    from the newest benchmark of the hard tier (else without a tier, else plain) that has queries in the domain.
    `groups` and `embedding` map all, covered, exceptions, uncovered and outside to
    {"n", "metrics": {metric: {mean, low, high, n}}}.
    """

    def preference(row: Evaluation) -> tuple[int, int, int, int]:
        """The hard tier first, its newest benchmark, then the decode that is served with a trace."""
        rank = DECODES.index(row.decode) if row.decode in DECODES else len(DECODES)
        return -TIERS.index(row.benchmark.tier), row.benchmark_id, -rank, row.pk

    model, alias = shown_model()
    rows = Evaluation.objects.filter(RESULTS, Q(model=model) | Q(model=None)).select_related("benchmark")
    finished = sorted(rows, key=preference, reverse=True)
    of_groups, beside = grouped(finished), lists_beside_baseline(finished)
    found: dict[str, dict[str, Any]] = {}
    baselines: dict[str, dict[int, Any]] = {}  # {domain: {benchmark: groups}}, the preferred one first
    for row in finished:
        for domain, groups in of_groups[row.pk].items():
            entry = found.setdefault(domain, {})
            if row.model_id is None:
                baselines.setdefault(domain, {}).setdefault(row.benchmark_id, groups)
            elif model is not None and not entry:
                entry |= {
                    "model": model.pk,
                    "alias": alias,
                    "cell": model.run.cell,
                    "base": model.run.base,
                    "benchmark": str(row.benchmark),
                    "benchmark_id": row.benchmark_id,
                    "tier": row.benchmark.tier,
                    "evaluation": row.pk,
                    "decode": row.decode,
                    "groups": groups,
                    "same_length": beside.get(row.pk, {}).get(domain, {}),
                }
    for domain, entry in found.items():
        known = baselines.get(domain, {})
        entry["embedding"] = known.get(entry.get("benchmark_id") or next(iter(known), 0), {})
    return found
