"""Which samples a list shows, for any filters at any depth: ids from indexes, never from the samples' texts.

Ids are looked for among the newest few thousand first, where most filters find a page at once, then in everything by
an index over what is filtered on. Each step is bounded: no combination of filters reads the whole table.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from django.contrib.postgres.search import SearchQuery
from django.db import connection, transaction
from django.db.models import BooleanField, Exists, ExpressionWrapper, F, Max, Min, OuterRef, Q, QuerySet
from django.db.models.expressions import RawSQL

from rules.models import RuleVersion
from synthesis.models import Attempt, Sample
from synthesis.models.samples import FACET, WORDS
from synthesis.samples.counts import SAMPLE_FACETS, sample_kinds
from synthesis.samples.rejections import rejected_for
from synthesis.samples.staleness import LEVELS, stale_filter
from synthesis.samples.units import of_run
from trace_site.paging import SIZE

HIDDEN = F("pk") + 0  # the id, where no index can tell


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

    def of(self, rows: QuerySet[Sample], size: int, *, sort: bool = False) -> list[int]:
        """The first `size` of the rows. sort: by what selects them, then sorted, rather than in the order of ids."""
        return self._first(rows.filter(pk__gte=self.low, pk__lt=self.high), size, sort)

    def of_few(self, rows: QuerySet[Sample], size: int) -> list[int]:
        """The same where few rows are selected at all: no index is asked for the ids of the range, most of them."""
        return self._first(rows.alias(at=HIDDEN).filter(at__gte=self.low, at__lt=self.high), size, sort=True)

    def _first(self, found: QuerySet[Sample], size: int, sort: bool) -> list[int]:
        key = HIDDEN if sort else F("pk")
        return list(
            found.order_by(key.desc() if self.newest else key.asc()).values_list("pk", flat=True)[:size]
        )


EVERYWHERE = Range(0, 2**62)


@contextmanager
def planned(*without: str) -> Iterator[None]:
    """Without these kinds of plan: a limit lets reading on look cheap that never finds as many."""
    if not without:
        yield
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("; ".join(f"SET LOCAL enable_{kind} = off" for kind in without))
        cursor.execute("SET LOCAL work_mem = '64MB'")  # a bitmap that is too large names whole pages
        yield
        cursor.execute("; ".join(f"RESET enable_{kind}" for kind in without))
        cursor.execute("RESET work_mem")


def merged(facets: list[int], within: Range, each: int, most: int) -> tuple[list[int], bool]:
    """Ids of these facets in order, `most` at most: by index `each` of every facet, as far as that leaves no gap; and
    whether that is all of them.
    """
    down = "DESC" if within.newest else "ASC"
    facet = "synthesis_facet(branch, domain_id, style, tier, machine, human, approved_how, writer)"
    sql = f"""
SELECT s.id, s.place FROM unnest(%s::bigint[]) AS f (facet) CROSS JOIN LATERAL (
  SELECT id, row_number() OVER () AS place FROM (
    SELECT id FROM {Sample._meta.db_table} WHERE {facet} = f.facet AND id >= %s AND id < %s
    ORDER BY {facet} {down}, id {down} LIMIT %s
  ) found
) s ORDER BY id {down}"""
    ids: list[int] = []
    with connection.cursor() as cursor:
        cursor.execute(sql, [facets, within.low, within.high, each])
        for pk, place in cursor.fetchall():
            ids.append(pk)
            if place == each or len(ids) == most:  # there may be more of this facet right behind
                return ids, False
    return ids, True


NEAR, TRIED_NEAR, READ = 2_000, 6_000, 400  # ids looked through one by one; by attempts; by words
# attempts of one outcome looked through in the order of their samples; what MOST of the first have is common
REFUSED, REFUSED_AT_MOST = 2_500, 5_000
LOOKED_AT = 8_000  # entries of the index over facets
WIDER = 40_000  # ids looked through by index before all are
MOST, MOST_READ = 500, 1_000  # what is counted one by one; by words
EXAMINED = 200  # samples held against today's inputs for one page
OUTCOMES = {"check": "filtered", "axis": "judged_out", "error": "error"}  # that the filters mean


@dataclass
class Search:
    """The filters of a list (see `forms.SampleFilters`) as conditions."""

    filters: Mapping[str, Any]
    facets: dict[str, Any] = field(init=False)
    apart: bool = field(init=False)  # a run or rule, which have indexes of their own
    common: bool = field(init=False, default=False)  # the words: a page of them was found at once
    looked: dict[tuple[Range, int], tuple[list[int], bool]] = field(init=False, default_factory=dict)
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

    @cached_property
    def named(self) -> list[int]:
        """Samples of the attempts that the filters name, one for each attempt, the first MOST and one more."""
        if self.outcome and len(common := self._refused(self.range("", newest=True), REFUSED)[0]) > MOST:
            return common[: MOST + 1]  # an index over checks would have to name all of a common one
        attempts = Attempt.objects.filter(self.tried or Q(pk=None)).order_by()
        return list(attempts.values_list("sample", flat=True)[: MOST + 1])

    def counted(self, of_facets: int) -> tuple[int, int, bool]:
        """(samples, attempts that the filters name, whether there are more): of the first MOST that are named.

        of_facets: how many samples the filters that rollups know leave. Words that a page is full of at once are not
        counted: an index would have to name all of them.
        """
        most = MOST_READ if self.text else MOST
        few = self._few(of_facets, most) if self.tried is None else None
        if few is not None:
            return few, 0, False
        if self.common:
            return SIZE, 0, True
        if self.tried is None:
            with planned("seqscan", "indexscan", "indexonlyscan"):
                found = self.rows().order_by().values("pk")[: most + 1].count()
            return min(found, most), 0, found > most
        kept = set(self.named)
        if self.facets or self.apart or self.text:
            kept = set(_among(self.but_attempts(), kept).values_list("pk", flat=True))
        return len(kept), sum(pk in kept for pk in self.named), len(self.named) > MOST

    def _few(self, of: int, most: int) -> int | None:
        """How many match, where no more than `most` are `of` these facets: not all that have the words are read."""
        if not self.facets or self.apart or of > most:
            return None
        candidates, _ = merged(self.kinds(), EVERYWHERE, most + 1, most + 1)
        with planned("bitmapscan"):  # of the words, that is
            return _among(self.rows(), candidates).count()

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
        if self.filters.get("run"):
            found = found.filter(self.of_run)
        if code := self.filters.get("rule"):
            versions = RuleVersion.objects.filter(rule__code=code).values_list("pk", flat=True)
            if number := self.filters.get("version"):
                versions = versions.filter(number=number)
            found = found.filter(rule_version__in=list(versions))
            if reason := self.filters.get("reason"):
                found = rejected_for(found, reason)
        return _with_words(found, self.text) if self.text else found

    def range(self, after: str, *, newest: bool) -> Range:
        """The ids that may match, below the key `after`; those of a run lie together."""
        low, high = self.bounds
        return Range(low, min(high, int(after)) if after else high, newest)

    @cached_property
    def of_run(self) -> Q:
        return of_run(int(self.filters["run"]))

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The first id and the one after the last."""
        rows = Sample.objects.filter(self.of_run) if self.filters.get("run") else Sample.objects
        first, last = rows.aggregate(first=Min("pk"), last=Max("pk")).values()
        return first or 0, (last or 0) + 1

    def ids(self, within: Range, size: int) -> list[int]:
        """The first `size` ids of the range that match."""
        if self.outcome:
            found, all_seen = self._among_refused(within, size, REFUSED)
            if len(found) == size or all_seen:
                return found
            if len(self.named) <= MOST:
                return within.of(_among(self.but_attempts(), self.named), size)
            found, all_seen = self._among_refused(within, size, REFUSED_AT_MOST)
            if len(found) == size or all_seen:
                return found
        rows, words = self.rows(), bool(self.text)
        steps = READ if words else NEAR if self.tried is None else TRIED_NEAR
        near = within.near(steps)
        with planned(*(("bitmapscan",) if self.more else ())):
            found = near.of(rows, size)
        if len(found) == size or near == within:
            self.common = words and near != within
            return found
        if self.facets and not self.apart:
            if not self.more:
                return merged(self.kinds(), within, size, size)[0]
            found, all_seen = self._among_kinds(within, size, 2 * steps)
            if len(found) == size or all_seen:
                self.common = words and len(found) == size
                return found
        if self.tried is not None:
            few = len(self.named) <= MOST
            with planned("bitmapscan"):  # few: these it is. Many: there is one soon
                return within.of(_among(self.but_attempts(), self.named) if few else rows, size)
        wider = within.near(WIDER)
        if words or self.apart:
            found = wider.of(rows, size, sort=words)
            if len(found) == size or wider == within:
                return found
        return within.of_few(rows, size) if words else within.of(rows, size)

    @property
    def outcome(self) -> str:
        """The one outcome, other than ready, that an attempt must have had; empty when there is no such filter."""
        meant = {OUTCOMES[name] for name in OUTCOMES if self.filters.get(name)}
        meant |= {str(self.filters["outcome"])} if self.filters.get("outcome") else set()
        return meant.pop() if len(meant) == 1 and meant <= set(OUTCOMES.values()) else ""

    def _among_refused(self, within: Range, size: int, most: int) -> tuple[list[int], bool]:
        """What matches among the samples of the first `most` attempts of the outcome, and whether that is all."""
        hits, all_seen = self._refused(within, most)
        return within.of(_among(self.but_attempts(), dict.fromkeys(hits)), size) if hits else [], all_seen

    def _refused(self, within: Range, most: int) -> tuple[list[int], bool]:
        """Samples of those of the first `most` attempts of the outcome that the filters name; whether these are all."""
        if (within, most) not in self.looked:
            held = ExpressionWrapper(self.tried or Q(), output_field=BooleanField())
            rows = Attempt.objects.filter(
                outcome=self.outcome, sample__gte=within.low, sample__lt=within.high
            ).order_by("-sample" if within.newest else "sample")
            looked = list(rows.values_list("sample", held)[:most])
            self.looked[within, most] = [pk for pk, hit in looked if hit], len(looked) < most
        return self.looked[within, most]

    def _among_kinds(self, within: Range, size: int, most: int) -> tuple[list[int], bool]:
        """What matches among the first `most` at most of these facets, and whether there are no more of them."""
        facets = self.kinds()
        each = 1 + LOOKED_AT // (len(facets) + 1)
        candidates, all_seen = merged(facets, within, each, most)
        with planned("bitmapscan"):
            found = within.of(_among(self.rows(), candidates), size)
        return found, all_seen

    def kinds(self) -> list[int]:
        """The facets that match, those that have no sample any more included."""
        kinds = sample_kinds({}).filter(**self.facets).annotate(facet=FACET)
        return list(kinds.values_list("facet", flat=True).distinct())

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
    return wanted or None


def _among(rows: QuerySet[Sample], ids: Iterable[int]) -> QuerySet[Sample]:
    """Those of these ids, which may be thousands: given as one value, they cost no time of Python's."""
    return rows.filter(pk__in=RawSQL("SELECT unnest(%s::bigint[])", [list(ids)]))


def _with_words(rows: QuerySet[Sample], text: str) -> QuerySet[Sample]:
    """Queries with these words, the last of which may go on; a text without letters and digits as it stands."""
    words = re.findall(r"\w+", text)
    if not words:
        return rows.filter(query__icontains=text)
    asked = SearchQuery(f"{' & '.join(words)}:*", config="simple", search_type="raw")
    return rows.alias(words=WORDS).filter(words=asked)
