"""Labelled requests that a model was not trained on, with what it and the embedding choose first for each.

Three sources: requests of benchmarks (the newest version of each; of the tiers a domain has, the one that is shown
first), approved samples outside the model's snapshot, and requests that were reported with the right tools. What a
snapshot's query repeats word for word was learned and does not count; of two equal requests the first counts.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

from django.db import models
from django.db.models import Count, Max, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce

from catalog.core.words import text_key
from catalog.models import Tool
from evaluation.benchmarks.selectors import RESULTS, TIERS, kept_out_answers
from evaluation.core.confusion import EMBEDDING, MODEL, Outcome
from evaluation.core.coverage import UNCOVERED
from evaluation.core.items import is_exception
from evaluation.coverage.counted import counted
from evaluation.models import (
    Answer,
    Benchmark,
    Evaluation,
    LabelledRequest,
    RetrievalRequest,
)
from evaluation.requests.log import ANSWERED
from rules.selectors import clauses_leading
from synthesis.models import Sample, SnapshotSample
from synthesis.samples.staleness import APPROVED, OUTDONE, READY, without_stale
from trace_site.database import database_now
from training.models import Model


class Source(models.TextChoices):
    BENCHMARK = "benchmark"
    SAMPLE = "sample", "approved sample"
    PRODUCTION = "production", "reported request"


Decode = Evaluation.Decode
ANSWERS = (
    Decode.FAST,
    Decode.TRACE,
    Decode.TRACE_FREE,
    Decode.BEAM,
)  # whose first tool counts: as it is served
WINDOW = 30  # days of recorded requests
Label = tuple[str, ...]  # names of the right tools


class Labelled(NamedTuple):
    """`of`, `unspoken`: see `counted.Outcome`."""

    source: str
    of: int
    outcome: Outcome
    is_exception: bool = False
    unspoken: int | None = None


def measured_by(model: Model | None) -> dict[int, dict[str, int]]:
    """{benchmark: {side: the evaluation whose first tools count}}, of the newest version of each benchmark; one
    query."""
    rows = Evaluation.objects.filter(RESULTS, Q(model=model) | Q(model=None)).order_by(
        "-benchmark__version", "-pk"
    )
    newest: dict[str, int] = {}
    found: dict[int, dict[str, tuple[int, int]]] = {}
    columns = ("pk", "model", "decode", "benchmark", "benchmark__name")
    for pk, of_model, decode, benchmark, name in rows.values_list(*columns):
        if newest.setdefault(name, benchmark) != benchmark:
            continue
        if of_model is None and decode == Decode.EMBEDDING:
            found.setdefault(benchmark, {}).setdefault(EMBEDDING, (0, pk))
        elif of_model is not None and decode in ANSWERS:
            sides, place = found.setdefault(benchmark, {}), ANSWERS.index(decode)
            if MODEL not in sides or place < sides[MODEL][0]:
                sides[MODEL] = (place, pk)
    return {
        benchmark: {side: pk for side, (_, pk) in sides.items()} for benchmark, sides in sorted(found.items())
    }


@lru_cache(maxsize=64)
def firsts_of(evaluation: int) -> dict[int, str]:
    """{item: the name it chose first, empty for none}; answers never change. One query."""
    rows = Answer.objects.filter(evaluation=evaluation).values_list("item", KT("output__tools__0"))
    return {item: name or "" for item, name in rows}


class Asked(NamedTuple):
    """An item of a benchmark. `key`: of its text; `rule`: code of the one that decides it, where the benchmark says."""

    item: int
    domain: str
    names: Label
    key: str
    rule: str
    is_exception: bool


@lru_cache(maxsize=64)
def items_of(benchmark: int) -> tuple[Asked, ...]:
    """A benchmark never changes. One query."""
    rows = LabelledRequest.objects.filter(benchmark=benchmark).order_by("position")
    return tuple(
        Asked(
            pk,
            domain,
            tuple(data["tools"]),
            text_key(data["query"]),
            data.get("rule", ""),
            is_exception(data),
        )
        for pk, domain, data in rows.values_list("pk", "domain", "data")
    )


@lru_cache(maxsize=64)
def clauses_said(evaluation: int) -> dict[int, str]:
    """{item: token of the clause that decided, empty for none}, of a model that decides by clauses; one query."""
    rows = Answer.objects.filter(evaluation=evaluation, output__has_key="clause")
    return {item: token or "" for item, token in rows.values_list("item", KT("output__clause"))}


@lru_cache(maxsize=2)
def learned_texts(snapshot: int) -> frozenset[str]:
    """Keys of the queries a snapshot holds, which never changes; one query."""
    members = SnapshotSample.objects.filter(snapshot=snapshot).order_by()
    return frozenset(text_key(query) for query in members.values_list("sample__query", flat=True).iterator())


class Standing(NamedTuple):
    """What outcomes are read from, as it stands: another value makes a recount due. Three queries."""

    benchmarks: dict[int, dict[str, int]]
    kept_out: tuple[int, int | None]
    reported: tuple[int, str]

    @classmethod
    def now(cls, model: Model | None) -> "Standing":
        answers = kept_out_answers(model).aggregate(n=Count("pk"), newest=Max("pk"))
        told = reported().aggregate(n=Count("pk"), newest=Max("reported_at"))
        return cls(measured_by(model), (answers["n"], answers["newest"]), (told["n"], str(told["newest"])))


def reported() -> QuerySet[RetrievalRequest]:
    return RetrievalRequest.objects.exclude(verdict="")


def still_there(requests: Iterable[int]) -> set[int]:
    """Of these, the requests that nobody erased or is erasing, held to the end of the transaction."""
    held = RetrievalRequest.objects.select_for_update(no_key=True, skip_locked=True)
    return set(held.filter(pk__in=list(requests)).order_by("pk").values_list("pk", flat=True))


def labelled(
    model: Model | None, ids: Mapping[str, int], benchmarks: Mapping[int, Mapping[str, int]]
) -> list[Labelled]:
    """Every labelled request that counts; `ids`: {name: id} of all tools. Nine queries, and three more for each
    evaluation that this process has not read."""
    found: list[Labelled] = []
    seen: set[tuple[str, Label]] = set()
    learned = learned_texts(model.run.snapshot_id) if model else frozenset()
    for source, of, names, key, firsts, *more in (
        *_of_benchmarks(benchmarks),
        *(_of_samples(model) if model else ()),
        *_of_requests(model),
    ):
        gold = tuple(ids[name] for name in names if name in ids)
        if gold and firsts and key not in learned and (key, tuple(sorted(names))) not in seen:
            if key:
                seen.add((key, tuple(sorted(names))))
            chosen = {side: ids.get(name) for side, name in firsts.items()}
            found.append(Labelled(source, of, Outcome(gold, chosen), *more))
    return found


# source, of, right tools, key of the text, first tools; and of a benchmark's request what else Labelled says
Row = tuple[Any, ...]


class Speaking(NamedTuple):
    """The clauses in force that lead to tools, by the rule that has them: {(domain, code): [(rule, token, tools, since
    when)]}; and when the evaluations began."""

    clauses: dict[tuple[str, str], list[tuple[int, str, list[str], datetime]]]
    begun: dict[int, datetime]

    @classmethod
    def now(cls, evaluations: Iterable[int]) -> "Speaking":
        """Two queries."""
        found: dict[tuple[str, str], list[tuple[int, str, list[str], datetime]]] = {}
        rows = clauses_leading().order_by("pk")
        columns = ("rule__domain", "rule__code", "rule", "token__string", "tools", "created_at")
        for domain, code, *clause in rows.values_list(*columns):
            found.setdefault((domain, code), []).append(tuple(clause))
        begun = Evaluation.objects.filter(pk__in=list(evaluations)).values_list("pk", "created_at")
        return cls(found, dict(begun))

    def unspoken(self, evaluation: int, asked: Asked) -> int | None:
        """The rule that decides a request, where another clause than those of it that lead to a right tool decided, or
        none did, although they were there when it was asked."""
        said = clauses_said(evaluation).get(asked.item)
        right = [
            (rule, token)
            for rule, token, tools, since in self.clauses.get((asked.domain, asked.rule), ())
            if not set(asked.names).isdisjoint(tools) and since < self.begun[evaluation]
        ]
        if said is None or not right or said in (token for _, token in right):
            return None
        return right[0][0]


def _of_benchmarks(benchmarks: Mapping[int, Mapping[str, int]]) -> Iterator[Row]:
    """A domain's requests of its best tier."""
    tiers = dict(Benchmark.objects.filter(pk__in=benchmarks).values_list("pk", "tier"))
    best: dict[str, int] = {}
    for benchmark in benchmarks:
        for one in items_of(benchmark):
            best[one.domain] = min(best.get(one.domain, len(TIERS)), TIERS.index(tiers[benchmark]))
    clauses = Speaking.now(sides[MODEL] for sides in benchmarks.values() if MODEL in sides)
    for benchmark, sides in benchmarks.items():
        answers = {side: firsts_of(pk) for side, pk in sides.items()}
        for one in items_of(benchmark):
            if TIERS.index(tiers[benchmark]) == best[one.domain]:
                firsts = {side: of[one.item] for side, of in answers.items() if one.item in of}
                wrong = firsts.get(MODEL, one.names[0]) not in one.names
                unspoken = clauses.unspoken(sides[MODEL], one) if wrong else None
                yield Source.BENCHMARK, one.item, one.names, one.key, firsts, one.is_exception, unspoken


def _alone(model: Model | None, origin: str, of: str) -> dict[tuple[int, str], dict[str, str]]:
    """{(what it is of, key of its text): first tools}, of the model and, in the same job, the embedding; one query."""
    first = Coalesce(KT("output__tools__0"), Value("", models.TextField()))
    beside = Answer.objects.filter(evaluation=None, model=None, item=OuterRef("item"), job=OuterRef("job"))
    rows = kept_out_answers(model).filter(item__origin=origin).annotate(first=first)
    columns = (of, "item__text_key", "first", Subquery(beside.values(first=first)))
    return {
        (pk, key): {MODEL: ours} | ({EMBEDDING: near} if near is not None else {})
        for pk, key, ours, near in rows.values_list(*columns)
    }


def _of_samples(model: Model) -> Iterator[Row]:
    """Answered samples that are approved and stand as they were asked."""
    answers = _alone(model, LabelledRequest.Origin.SAMPLE, "item__sample")
    asked = {sample for sample, _ in answers}
    members = SnapshotSample.objects.filter(snapshot=model.run.snapshot_id, sample__in=asked).order_by()
    out = set(members.values_list("sample", flat=True))
    standing = without_stale(Sample.objects.filter(APPROVED & READY & ~OUTDONE, pk__in=asked - out))
    for pk, query, names in standing.order_by("pk").values_list("pk", "query", "answer"):
        if firsts := answers.get((pk, key := text_key(query))):
            yield Source.SAMPLE, pk, tuple(names), key, firsts


def label_of(verdict: str, expected: list[str], tools: list[str]) -> Label:
    """The right tools as a report tells them; empty where it only says that the answer was wrong."""
    if expected:
        return tuple(expected)
    return tuple(tools[:1]) if verdict == RetrievalRequest.Verdict.RIGHT else ()


def _of_requests(model: Model | None) -> Iterator[Row]:
    """Reports that tell the right tools. What the model itself answered counts, else what it was asked since."""
    answers = _alone(model, LabelledRequest.Origin.REPORT, "item__request")
    columns = ("pk", "verdict", "expected", "tools", "query", "model")
    for pk, verdict, expected, tools, query, by in reported().order_by("pk").values_list(*columns):
        names, key = label_of(verdict, expected, tools), text_key(query) if query else ""
        firsts = answers.get((pk, key), {})
        if model is not None and by == model.pk:
            firsts[MODEL] = next(iter(tools), "")
        if names and firsts:
            yield Source.PRODUCTION, pk, names, key, firsts


# What suggested rules rest on.

OFTEN = 2  # wrong answers between two tools that are no look-alikes


def failing_requests(domain: str) -> list[tuple[str, str, str]]:
    """(request, the right tool, the one that the shown model chose), of look-alikes that no rule tells apart, and of
    other tools where it happened OFTEN. Only texts of benchmarks are told, which all roles read; else the text is
    empty. Three queries."""
    found = [
        row
        for row in counted().outcomes
        if row.domain == domain and row.model_wrong and row.model_chose is not None
    ]
    times = Counter((row.model_tool, row.model_chose) for row in found)
    names = dict(Tool.objects.filter(pk__in={pk for pair in times for pk in pair}).values_list("pk", "name"))
    items = [row.of for row in found if row.source == Source.BENCHMARK]
    texts = dict(LabelledRequest.objects.filter(pk__in=items).values_list("pk", KT("data__query")))
    return sorted(
        (
            texts.get(row.of, "") if row.source == Source.BENCHMARK else "",
            names[row.model_tool or 0],
            names[row.model_chose or 0],
        )
        for row in found
        if (row.model_at == UNCOVERED or times[row.model_tool, row.model_chose] >= OFTEN)
        and {row.model_tool, row.model_chose} <= names.keys()
    )


# What programs asked: how many recorded requests concern a tool.


class Window(NamedTuple):
    """Whole days (UTC), both ends included."""

    first: date
    last: date

    @classmethod
    def now(cls) -> "Window":
        today = database_now().date()
        return cls(today - timedelta(days=WINDOW), today - timedelta(days=1))

    @property
    def since(self) -> datetime:
        return datetime.combine(self.first, time(), UTC)

    @property
    def until(self) -> datetime:
        return datetime.combine(self.last + timedelta(days=1), time(), UTC)


def recorded(window: Window) -> QuerySet[RetrievalRequest]:
    """Drawn for the log whatever became of them; what is known by its report alone was not."""
    rows = RetrievalRequest.objects.filter(at__gte=window.since, at__lt=window.until, outcome=ANSWERED)
    return rows.exclude(via=RetrievalRequest.Via.REPORT).order_by()


def traffic(window: Window, ids: Mapping[str, int]) -> Counter[int]:
    """{tool: recorded requests that concern it}: the right tools where a report tells them, else the tool that was
    answered first. Two queries."""
    found: Counter[int] = Counter()

    def add(names: Iterable[str], many: int) -> None:
        for name in names:
            if name in ids:
                found[ids[name]] += many

    rows = recorded(window)
    unlabelled = rows.filter(Q(verdict="") | Q(verdict=RetrievalRequest.Verdict.WRONG, expected=[]))
    for name, many in unlabelled.values_list(KT("tools__0")).annotate(n=Count("pk")):
        add([name] if name else [], many)
    told: Any = rows.exclude(pk__in=unlabelled.values("pk")).exclude(verdict="")
    for verdict, expected, tools in told.values_list("verdict", "expected", "tools"):
        add(dict.fromkeys(label_of(verdict, expected, tools)), 1)
    return found
