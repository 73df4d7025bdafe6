"""The published rules of a domain beside each other: how many samples each has, what share of what was written for it
holds, how often the first tool is right where it decides, whether its code is cited; and what training would change.

Labelled requests are of the newest count, samples of their counters, citations from the traces of the newest
evaluations of the shown model, which never change.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from django.db.models import F, Q, Sum

from evaluation.benchmarks.selectors import RESULTS
from evaluation.coverage.counted import Outcome, counted
from evaluation.coverage.gaps import share
from evaluation.coverage.selectors import champion_versions, read_samples, stamps
from evaluation.domain.selectors import DomainPage
from evaluation.models import Answer, Evaluation
from rules.models import RuleVersion
from synthesis.core.agreement import Rate
from synthesis.models import Sample, SampleCount
from synthesis.samples.counts import BY_RULE
from trace_site.lib.charts import Bar, BarChart, bar_chart

FEWEST = 3  # requests below which nothing is called weak
# approved samples of a rule
BANDS: dict[str, tuple[int, int | None]] = {
    "0-0": (0, 0),
    "1-9": (1, 9),
    "10-19": (10, 19),
    "20-": (20, None),
}
SHOWS = {
    "": "all rules",
    "weak": "weak recall or citation",
    "untaught": "not learned by the champion",
    "unsampled": "no approved sample",
}


@dataclass(frozen=True, slots=True)
class RuleRow:
    """`approved`: samples that training would take; `n`, `wrong`: labelled requests that one of its tools answers;
    `cited` of `traces`: of requests that benchmarks say it decides, those whose trace names it."""

    version: RuleVersion
    approved: int
    ready: int
    dropped: int
    learned: bool
    n: int
    wrong: int
    n_embedding: int
    wrong_embedding: int
    cited: int
    traces: int

    @property
    def yielded(self) -> Rate | None:
        """What filter and judge let through, of what was written to an end."""
        return share(self.ready, self.ready + self.dropped)

    @property
    def right(self) -> Rate | None:
        return share(self.n - self.wrong, self.n)

    @property
    def right_embedding(self) -> Rate | None:
        return share(self.n_embedding - self.wrong_embedding, self.n_embedding)

    @property
    def citation(self) -> Rate | None:
        return share(self.cited, self.traces)

    @property
    def weak(self) -> list[str]:
        """Fewer than half of the requests right, or of the traces naming it; by at least FEWEST."""
        found = []
        if self.n >= FEWEST and 2 * self.wrong > self.n:
            found.append("recall")
        if self.traces >= FEWEST and 2 * self.cited < self.traces:
            found.append("citation")
        return found

    def shown_by(self, show: str, band: tuple[int, int | None] | None) -> bool:
        chosen = {"weak": bool(self.weak), "untaught": not self.learned, "unsampled": not self.approved}
        in_band = band is None or band[0] <= self.approved <= (
            band[1] if band[1] is not None else self.approved
        )
        return chosen.get(show, True) and in_band


@dataclass(frozen=True)
class NextTraining:
    """What training now would change: `new` of `rules` are not learned, with so many approved `samples`; `empty` of
    them have none; `old`: versions learned that are not published any more."""

    rules: int
    new: int
    samples: int
    empty: int
    old: int

    @property
    def taught(self) -> int:
        return self.new - self.empty


def rule_rows(page: DomainPage) -> list[RuleRow]:
    """The weakest first; six queries, and one more where traces or samples were not read yet."""
    published = RuleVersion.objects.filter(rule__published_id=F("pk"), rule__domain=page.domain)
    versions = list(published.select_related("rule").defer("text", "clauses", "tests").order_by("rule__code"))
    ids = [version.pk for version in versions]
    counts = SampleCount.objects.filter(level__in=BY_RULE, rule_version__in=ids).order_by()
    written: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for version, machine, n in counts.values_list("rule_version", "machine").annotate(sum=Sum("n")):
        written[version][machine] += n
    approved = read_samples(stamps().samples)
    learned, cited = champion_versions(), citations(page.figures.model_id)
    asked = requests_of(versions, page.side)
    rows = []
    for version in versions:
        has, (cites, traces) = written[version.pk], cited.get(version.rule.code, (0, 0))
        rows.append(
            RuleRow(
                version,
                approved.get(version.pk, 0),
                has[Sample.Machine.READY],
                has[Sample.Machine.DROPPED],
                version.pk in learned,
                *asked[version.pk],
                cites,
                traces,
            )
        )
    return sorted(
        rows, key=lambda row: (-len(row.weak), _least(row.right), _least(row.citation), row.approved)
    )


def _least(rate: Rate | None) -> float:
    return rate.value if rate and rate.value is not None else 2.0


def requests_of(versions: Sequence[RuleVersion], side: str) -> dict[int, tuple[int, int, int, int]]:
    """{version: labelled requests, wrong ones, those the embedding was asked, its wrong ones}."""
    of_tool: defaultdict[int, list[Outcome]] = defaultdict(list)
    for row in counted().outcomes:
        for tool in row.gold if row.wrong(side) is not None else ():
            of_tool[tool].append(row)
    found = {}
    for version in versions:
        asked = {(row.source, row.of): row for tool in version.tool_ids for row in of_tool[tool]}.values()
        theirs = [row.embedding_wrong for row in asked if row.embedding_wrong is not None]
        wrong = sum(bool(row.wrong(side)) for row in asked)
        found[version.pk] = len(asked), wrong, len(theirs), sum(theirs)
    return found


def citations(model: int | None) -> dict[str, tuple[int, int]]:
    """{code: traces that name it, of those of requests it decides} in the newest traced evaluation of each benchmark;
    one query, and one more for what was not read yet."""
    if model is None:
        return {}
    traced = Evaluation.objects.filter(RESULTS, model=model, decode=Evaluation.Decode.TRACE)
    newest = traced.order_by("benchmark__name", "-benchmark__version", "-pk").distinct("benchmark__name")
    return _citations(tuple(sorted(newest.values_list("pk", flat=True))))


@lru_cache(maxsize=8)
def _citations(evaluations: tuple[int, ...]) -> dict[str, tuple[int, int]]:
    decided = Answer.objects.filter(evaluation__in=evaluations, item__data__has_key="rule").filter(
        ~Q(item__data__rule=None)
    )
    found: defaultdict[str, list[bool]] = defaultdict(list)
    for code, cited in decided.values_list("item__data__rule", "scores__cited"):
        if code:
            found[code].append(code in (cited or ()))
    return {code: (sum(told), len(told)) for code, told in found.items()}


def density_figure(rows: Sequence[RuleRow], address: str) -> BarChart | None:
    """Right first tools by how many samples the rules have, all requests of a band together. None: not measured."""
    bars = []
    for key, band in BANDS.items():
        of = [row for row in rows if row.shown_by("", band)]
        n = sum(row.n for row in of)
        right = share(n - sum(row.wrong for row in of), n)
        if not of or right is None:
            continue
        yielded = share(sum(row.ready for row in of), sum(row.ready + row.dropped for row in of))
        note = f"{len(of)} rule{'' if len(of) == 1 else 's'}"
        note += f", yield {100 * (yielded.value or 0):.0f} %" if yielded else ""
        low, high = band
        label = (
            "no sample"
            if high == 0
            else f"{low} or more samples"
            if high is None
            else f"{low} to {high} samples"
        )
        bars.append(
            Bar(
                label,
                right.value,
                right.low,
                right.high,
                n,
                "accent",
                f"{address}?samples={key}",
                note,
            )
        )
    if not bars:
        return None
    told = ", ".join(f"{100 * (bar.value or 0):.0f} % right with {bar.label}" for bar in bars)
    return bar_chart(f"Do more samples per rule help? {told}", bars)


def next_training(page: DomainPage, rows: Sequence[RuleRow]) -> NextTraining:
    """One query."""
    new = [row for row in rows if not row.learned]
    known = RuleVersion.objects.filter(pk__in=champion_versions(), rule__domain=page.domain)
    old = known.exclude(rule__published_id=F("pk")).count()
    samples = sum(row.approved for row in new)
    return NextTraining(len(rows), len(new), samples, sum(not row.approved for row in new), old)
