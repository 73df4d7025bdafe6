"""Which samples a list shows, for any filters at any depth: ids from indexes, never from the samples' texts.

Ids are looked for among the newest few thousand first, where most filters find a page at once, then in everything by
an index over what is filtered on. Each step is bounded: no combination of filters reads the whole table.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.contrib.postgres.search import SearchQuery
from django.db import connection
from django.db.models import Exists, Max, Min, OuterRef, Q, QuerySet

from rules.models import RuleVersion
from synthesis.models import Attempt, Sample
from synthesis.models.samples import FACET, WORDS
from synthesis.selectors_counts import SAMPLE_FACETS, sample_kinds
from synthesis.staleness import LEVELS, stale_filter

NEAR, WIDER = 2_000, 40_000  # ids looked through before all are
EXAMINED = 200  # samples held against today's inputs for one page
# what an attempt of the sample must have been for it to be listed, by the filter's name
TRIED = ("check", "axis", "error", "outcome", "tries")


@dataclass(frozen=True, slots=True)
class Range:
    """Ids of [low, high), the oldest or the newest first."""

    low: int
    high: int
    newest: bool = True

    def near(self, width: int) -> "Range":
        """The part one comes to first."""
        if self.newest:
            return Range(max(self.low, self.high - width), self.high)
        return Range(self.low, min(self.high, self.low + width), newest=False)

    def of(self, rows: QuerySet[Sample], size: int) -> list[int]:
        found = rows.filter(pk__gte=self.low, pk__lt=self.high).order_by("-pk" if self.newest else "pk")
        return list(found.values_list("pk", flat=True)[:size])


@dataclass(slots=True)
class Search:
    """The filters of a list (see `forms.SampleFilters`) as conditions."""

    filters: Mapping[str, Any]
    facets: dict[str, Any] = field(init=False)
    apart: bool = field(init=False)  # a run or rule, which have indexes of their own
    tried: Q | None = field(init=False)
    text: str = field(init=False)

    def __post_init__(self) -> None:
        self.facets = {name: self.filters[name] for name in SAMPLE_FACETS if self.filters.get(name)}
        self.apart = bool(self.filters.get("run") or self.filters.get("rule"))
        self.tried = attempts_named(self.filters)
        self.text = self.filters.get("q") or ""

    @property
    def more(self) -> bool:
        """Whether there are filters that no rollup knows, staleness aside."""
        return self.tried is not None or bool(self.text)

    @property
    def level(self) -> str:
        """Of staleness; empty when that is no filter."""
        given = str(self.filters.get("stale") or "")
        return given if given in LEVELS else ""

    def attempts(self) -> QuerySet[Attempt]:
        """The attempts that the filters name, of samples that match the other filters."""
        rows = Attempt.objects.filter(self.tried or Q())
        if not (self.facets or self.apart or self.text):
            return rows
        return rows.filter(sample__in=self.but_attempts().values("pk"))

    def rows(self) -> QuerySet[Sample]:
        """What matches, staleness aside."""
        found = self.but_attempts()
        if self.tried is None:
            return found
        return found.filter(Exists(Attempt.objects.filter(self.tried, sample=OuterRef("pk"))))

    def but_attempts(self) -> QuerySet[Sample]:
        """What matches the filters of samples."""
        named = {name: value for name, value in self.facets.items() if name != "writer"}
        found = Sample.objects.filter(**named)
        if writer := self.facets.get("writer"):
            found = found.filter(writer__startswith=writer)
        if run := self.filters.get("run"):
            found = found.filter(run=run)
        if code := self.filters.get("rule"):
            versions = RuleVersion.objects.filter(rule__code=code).values_list("pk", flat=True)
            found = found.filter(rule_version__in=list(versions))
        return _with_words(found, self.text) if self.text else found

    def range(self, after: str, *, newest: bool) -> Range:
        """The ids that may match, below the key `after`; those of a run lie together."""
        rows = Sample.objects.filter(run=self.filters["run"]) if self.filters.get("run") else Sample.objects
        first, last = rows.aggregate(first=Min("pk"), last=Max("pk")).values()
        high = (last or 0) + 1
        return Range(first or 0, min(high, int(after)) if after else high, newest)

    def ids(self, within: Range, size: int) -> list[int]:
        """The first `size` ids of the range that match."""
        rows = self.rows()
        for width in (NEAR, WIDER) if self.more or self.apart else (NEAR,):
            part = within.near(width)
            found = part.of(rows, size)
            if len(found) == size or part == within:
                return found
        if self.apart or not self.facets:
            return within.of(rows, size)
        kinds = sample_kinds({}).filter(**self.facets).annotate(facet=FACET)
        facets = list(kinds.values_list("facet", flat=True).distinct())
        if self.more:
            return within.of(rows.alias(facet=FACET).filter(facet__in=facets), size)
        return _merged(facets, within, size)

    def stale_ids(self, within: Range, size: int) -> tuple[list[int], int | None]:
        """As `ids`, of EXAMINED samples; and the last one examined, None when there is no more."""
        examined = self.ids(within, EXAMINED)
        kept = stale_filter(Sample.objects.filter(pk__in=examined), self.level)
        found = sorted(kept.values_list("pk", flat=True), reverse=within.newest)
        if len(found) > size:
            return found[:size], found[size - 1]
        return found, examined[-1] if len(examined) == EXAMINED else None


def attempts_named(filters: Mapping[str, Any]) -> Q | None:
    """The condition on an attempt that the filters make; None when they make none."""
    if not any(filters.get(name) for name in TRIED):
        return None
    wanted = Q()
    if check := filters.get("check"):
        wanted &= Q(outcome="filtered", filter_failures__contains=[{"check": check}])
    if axis := filters.get("axis"):
        wanted &= Q(outcome="judged_out", judge__failed__contains=[axis])
    if code := filters.get("error"):
        wanted &= Q(outcome="error") if code == "error" else Q(outcome="error", error_code=code)
    if outcome := filters.get("outcome"):
        wanted &= Q(outcome=outcome)
    if tries := filters.get("tries"):
        wanted &= Q(number__gt=1) if tries == "again" else Q(number=1)
    return wanted


def _with_words(rows: QuerySet[Sample], text: str) -> QuerySet[Sample]:
    """Queries with words that begin as those of `text`; one without letters and digits is looked for as it stands."""
    words = re.findall(r"\w+", text)
    if not words:
        return rows.filter(query__icontains=text)
    asked = SearchQuery(" & ".join(f"{word}:*" for word in words), config="simple", search_type="raw")
    return rows.alias(words=WORDS).filter(words=asked)


def _merged(facets: list[int], within: Range, size: int) -> list[int]:
    """Ids of these facets: the first `size` of each by index, merged."""
    down = "DESC" if within.newest else "ASC"
    table = Sample._meta.db_table
    sql = f"""
SELECT s.id FROM unnest(%s::bigint[]) AS f (facet) CROSS JOIN LATERAL (
  SELECT id FROM {table} s
  WHERE synthesis_facet(branch, domain_id, style, tier, machine, human, approved_how, writer) = f.facet
    AND id >= %s AND id < %s
  ORDER BY synthesis_facet(branch, domain_id, style, tier, machine, human, approved_how, writer) {down}, id {down}
  LIMIT %s
) s ORDER BY id {down} LIMIT %s"""
    with connection.cursor() as cursor:
        cursor.execute(sql, [facets, within.low, within.high, size, size])
        return [pk for (pk,) in cursor.fetchall()]
