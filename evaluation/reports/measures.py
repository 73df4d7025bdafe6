"""What a table of models shows: which benchmark and decoding, which metrics of it, and the cell of each evaluation."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import QueryDict
from django.urls import reverse

from evaluation.benchmarks.selectors import (
    CITATIONS,
    PROBES,
    evaluations,
    newest_benchmarks,
    retrieval_benchmarks,
    slices,
)
from evaluation.core.coverage import LINES
from evaluation.core.metrics import ALL, LIST_METRICS, METRICS, RANKED_METRICS
from evaluation.coverage.grouped import Figures
from evaluation.models import GIVEN_DOMAIN, Benchmark, Evaluation
from training.models import Model, Run

Decode = Evaluation.Decode
CITED = {name: title for name, title, *_ in CITATIONS}


@dataclass(frozen=True, slots=True)
class Kind:
    """A table of the paper: `usual` are the metrics it shows when nobody chooses."""

    title: str
    decodes: tuple[str, ...]
    metrics: dict[str, str]
    usual: tuple[str, ...]


def titles(names: Iterable[str]) -> dict[str, str]:
    return {name: METRICS[name].title for name in METRICS if name in names}


KINDS = {
    "lists": Kind(
        "written lists (R@1, R@gen)",
        (Decode.TRACE, Decode.TRACE_FREE),
        {**titles(LIST_METRICS), "off_vocabulary": "off-vocabulary"},
        ("recall@1", "recall@gen"),
    ),
    "ranked": Kind(
        "ranked lists (R@1, R@5, R@10)",
        (Decode.FAST, Decode.BEAM, Decode.FAST_DOMAIN),
        titles(RANKED_METRICS),
        ("recall@1", "recall@5", "recall@10"),
    ),
    "citation": Kind(
        "rules that traces cite",
        (Decode.TRACE, Decode.TRACE_FREE),
        CITED,
        ("cited", "correct_rule", "recall_when_cited", "recall_when_not_cited"),
    ),
    "probes": Kind("probes (MCQ, QA)", (Decode.LETTERS,), {"accuracy": "accuracy"}, ("accuracy",)),
}


@dataclass(frozen=True, slots=True)
class Column:
    """One number a row: of a benchmark, domain and metric."""

    benchmark: Benchmark
    domain: str
    metric: str
    title: str


@dataclass(frozen=True, slots=True)
class Cell:
    """A mean with its interval and n and the address of what it counts, or why there is none."""

    value: dict[str, Any]
    href: str = ""
    why: str = ""


@dataclass(slots=True)
class Choice:
    """What a reader chose of what there is."""

    kind: str
    benchmarks: list[Benchmark]  # those one may choose from
    benchmark: Benchmark | None
    probes: list[Benchmark]
    decode: str
    metrics: list[str]
    group: str
    snapshot: int

    @property
    def of(self) -> Kind:
        return KINDS[self.kind]

    @classmethod
    def of_query(cls, query: QueryDict) -> "Choice":
        """Whatever an address says; what is unknown is as usual. One query."""
        tests = newest_benchmarks()
        kind = query.get("table", "")
        kind = kind if kind in KINDS else "lists"
        known = retrieval_benchmarks(tests)
        named = next((test for test in known if test.name == query.get("benchmark")), None)
        decode, snapshot = query.get("decode", ""), query.get("snapshot", "")
        chosen = [name for name in KINDS[kind].metrics if name in query.getlist("metric")]
        group = query.get("group", "")
        return cls(
            kind,
            known,
            named or (known[0] if known else None),
            [test for test in tests if test.kind in PROBES],
            decode if decode in KINDS[kind].decodes else KINDS[kind].decodes[0],
            chosen or list(KINDS[kind].usual),
            group if group in LINES and kind != "probes" else "",
            int(snapshot) if snapshot.isdecimal() and len(snapshot) < 10 else 0,
        )

    def evaluations(self) -> list[Evaluation]:
        """Of every model (and of the baseline, for ranked lists), the older one first; one query."""
        if self.kind == "probes":
            found = evaluations().filter(benchmark__in=self.probes, model__isnull=False)
        else:
            baseline = Decode.EMBEDDING_DOMAIN if self.decode in GIVEN_DOMAIN else Decode.EMBEDDING
            decodes = (self.decode, baseline) if self.kind == "ranked" else (self.decode,)
            found = evaluations().filter(benchmark=self.benchmark, decode__in=decodes)
        if self.snapshot:
            found = found.filter(model__run__snapshot=self.snapshot) | found.filter(model=None)
        return list(found.filter(metrics__isnull=False).order_by("pk"))

    def columns(self, found: Sequence[Evaluation]) -> list[Column]:
        """A column a domain and metric, all domains first."""
        if self.kind == "probes":
            return [Column(test, ALL, "accuracy", test.get_kind_display()) for test in self.probes] + [
                Column(test, domain, "accuracy", domain)
                for test in self.probes
                for domain in domains(one for one in found if one.benchmark_id == test.pk)
            ]
        if self.benchmark is None:
            return []
        places = [ALL, *domains(found)]
        return [
            Column(self.benchmark, domain, metric, self.of.metrics[metric])
            for domain in (places if len(places) > 2 else [ALL])
            for metric in self.metrics
        ]


def domains(found: Iterable[Evaluation]) -> list[str]:
    return sorted({name for one in found for name in slices(one) if name != ALL})


def cell(
    of: Evaluation | None,
    column: Column,
    why: str,
    group: str = "",
    groups: Mapping[int, Figures] | None = None,
) -> Cell:
    """`groups`: the figures of evaluations with those of their groups, where one is asked for."""
    if of is None:
        return Cell({}, why=why)
    figures = ((groups or {}).get(of.pk) or slices(of)).get(column.domain) or {}
    if of.decode != Decode.LETTERS:
        figures = figures.get(group or ALL) or {}
    if not figures:
        return Cell({}, why="no such query")
    chosen = {
        name: value for name, value in (("domain", column.domain), ("group", group)) if value not in ("", ALL)
    }
    href = f"{reverse('evaluation:detail', args=[of.pk])}?{urlencode(chosen)}#predictions"
    if column.metric == "off_vocabulary":
        off = figures["off_vocabulary"]
        return Cell({"mean": off["rate"], "n": off["entries"]}, href)
    told = figures.get("metrics", figures).get(column.metric)
    told = told or (figures.get("citation") or {}).get(column.metric)
    if not told or told.get("mean") is None:
        return Cell({}, why="nothing to count" if told else "not measured")
    return Cell(told, href)


def why_missing(model: Model, decode: str) -> str:
    """Why a model has no number with a decoding."""
    retrieval = model.run.retrieval
    if decode in (Decode.TRACE, Decode.TRACE_FREE) and retrieval == Run.Retrieval.NONE:
        return "writes no list"
    if decode == Decode.TRACE and retrieval == Run.Retrieval.PLAIN:
        return "writes no trace"
    return "not measured"
