"""Reads behind the samples pages: one page of them with how many there are, one sample's attempts.

Which samples a list shows is found for any filters at any depth: ids from indexes, never from the samples' texts.
Ids are looked for among the newest few thousand first, where most filters find a page at once, then in everything by
an index over what is filtered on. Each step is bounded: no combination of filters reads the whole table.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.contrib.postgres.search import SearchQuery
from django.db import connection, transaction
from django.db.models import BooleanField, Exists, ExpressionWrapper, F, Max, Min, OuterRef, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.shortcuts import get_object_or_404

from catalog.models import Tool
from rules.models import RuleVersion
from synthesis.core.queries import AXES, THRESHOLDS
from synthesis.models import Attempt, Sample
from synthesis.models.samples import FACET, WORDS
from synthesis.samples.counts import SAMPLE_FACETS, Tally, covers, sample_counts, sample_kinds
from synthesis.samples.rejections import rejected_for
from synthesis.samples.staleness import stale_filter
from synthesis.samples.units import of_run
from trace_site.lib.letters import BARE, split_words
from trace_site.paging import SIZE, Page

LAST = "last"  # the key of the last page
# what a row of a list shows; the trace is not in it
SHOWN = (
    *("run__job__state", "branch", "domain_id", "style", "tier", "query", "answer", "machine", "human"),
    *("rule_version__number", "rule_version__rule__code", "rule_version__rule__published_id"),
    *("approved_how", "writer", "created_at"),
)
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

    def of(self, rows: QuerySet[Sample], size: int, *, sort: bool = False, few: bool = False) -> list[int]:
        """The first `size` of the rows. sort: by what selects them, then sorted, rather than in the order of ids;
        few: they are few at all, so that no index is asked for the ids of the range, most of them.
        """
        place = HIDDEN if few else F("pk")
        key = HIDDEN if sort or few else F("pk")
        found = rows.alias(at=place).filter(at__gte=self.low, at__lt=self.high)
        return list(
            found.order_by(key.desc() if self.newest else key.asc()).values_list("pk", flat=True)[:size]
        )


EVERYWHERE = Range(0, 2**62)


@contextmanager
def planned(*without: str) -> Iterator[None]:
    """Without these kinds of plan: a limit lets reading on look cheap that never finds as many."""
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


class Search:
    """The filters of a list (see `forms.SampleFilters`) as conditions."""

    def __init__(self, filters: Mapping[str, Any]) -> None:
        self.filters = filters
        self.facets = {name: filters[name] for name in SAMPLE_FACETS if filters.get(name)}
        self.apart = bool(filters.get("run") or filters.get("rule"))  # these have indexes of their own
        self.tried = attempts_named(filters)
        self.text: str = filters.get("q") or ""
        self.level: str = filters.get("stale") or ""  # of staleness
        self.common = False  # the words: a page of them was found at once
        self._looked: dict[tuple[Range, int], tuple[list[int], bool]] = {}

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
        if self.tried is None and self.facets and not self.apart and of_facets <= most:
            candidates, _ = merged(self.kinds(), EVERYWHERE, most + 1, most + 1)
            with planned("bitmapscan"):  # of the words: not all that have them are read
                return _among(self.rows(), candidates).count(), 0, False
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
        return next(found for found, whole in self._steps(within, size) if whole or len(found) == size)

    def _steps(self, within: Range, size: int) -> Iterator[tuple[list[int], bool]]:
        """What is found of them step by step, in ever more of the range; and whether that is all there are."""
        rows, words = self.rows(), bool(self.text)
        if self.outcome:
            yield self._among_refused(within, size, REFUSED)
            if len(self.named) <= MOST:
                yield within.of(_among(self.but_attempts(), self.named), size), True
            yield self._among_refused(within, size, REFUSED_AT_MOST)
        near = within.near(READ if words else NEAR if self.tried is None else TRIED_NEAR)
        more = self.tried is not None or words  # filters that no rollup knows
        with planned("bitmapscan") if more else nullcontext():
            found = near.of(rows, size)
        self.common = words and near != within and len(found) == size
        yield found, near == within
        if self.facets and not self.apart:
            facets = self.kinds()
            if not more:
                yield merged(facets, within, size, size)[0], True
            # what matches among the first of these facets, and whether there are no more of them
            most = 2 * (READ if words else TRIED_NEAR)
            candidates, whole = merged(facets, within, 1 + LOOKED_AT // (len(facets) + 1), most)
            with planned("bitmapscan"):
                found = within.of(_among(rows, candidates), size)
            self.common = words and len(found) == size
            yield found, whole
        if self.tried is not None:
            few = len(self.named) <= MOST
            with planned("bitmapscan"):  # few: these it is. Many: there is one soon
                found = within.of(_among(self.but_attempts(), self.named) if few else rows, size)
            yield found, True
        wider = within.near(WIDER)
        if words or self.apart:
            yield wider.of(rows, size, sort=words), wider == within
        yield within.of(rows, size, few=words), True

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
        if (within, most) not in self._looked:
            held = ExpressionWrapper(self.tried or Q(), output_field=BooleanField())
            rows = Attempt.objects.filter(
                outcome=self.outcome, sample__gte=within.low, sample__lt=within.high
            ).order_by("-sample" if within.newest else "sample")
            looked = list(rows.values_list("sample", held)[:most])
            self._looked[within, most] = [pk for pk, hit in looked if hit], len(looked) < most
        return self._looked[within, most]

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
    """Queries with these words, the last of which may go on; a text without letters, or of a script without spaces,
    as it stands."""
    words = split_words(text)
    if not words or BARE.search(text):
        for part in text.split() if words else [text]:
            rows = rows.filter(query__icontains=part)
        return rows
    asked = SearchQuery(f"{' & '.join(words)}:*", config="simple", search_type="raw")
    return rows.alias(words=WORDS).filter(words=asked)


@dataclass(frozen=True, slots=True)
class SamplePage:
    """One page of samples, newest first.

    `total` is None where it is not known; it and `attempts`, those that the filters name (None without any), are
    floors where there are `more`. `tally`: what each value of each filter would leave. `examined`: only so many of
    the samples were looked at for this page, None where all were.
    """

    page: Page
    total: int | None
    more: bool
    attempts: int | None
    tally: Tally
    examined: int | None = None


def samples(filters: Mapping[str, Any], after: str = "", size: int = SIZE) -> SamplePage:
    """Needs the same queries whatever the number of samples. after: a page's next key, or `last`."""
    search = Search(filters)
    page = sample_page(search, after, size)
    tally = sample_counts(filters)
    total, attempts, more = None, None, False
    if covers(filters):
        total = tally.total
    elif search.level:
        if not after and page.next_key is None:  # all there are stand on this page
            total = len(page.rows)
    elif not (
        after and search.text
    ):  # counted on the first page; all that holds the words would be read again
        total, named, more = search.counted(tally.total)
        attempts = named if search.tried is not None and "tries" not in filters else None
    return SamplePage(page, total, more, attempts, tally, EXAMINED if search.level else None)


def sample_page(search: Search, after: str = "", size: int = SIZE) -> Page:
    """Rows with what a list shows of them; a key that is none starts anew."""
    last = after == LAST
    after = after if after.isascii() and after.isdecimal() and len(after) < 99 else ""
    within = search.range(after, newest=not last)
    if search.level:
        found, following = search.stale_ids(within, size)
        key = None if following is None or last else str(following)
    else:
        found = search.ids(within, size + (not last))
        key = str(found[size - 1]) if len(found) > size else None
    shown = Sample.objects.filter(pk__in=found[:size]).select_related("rule_version__rule", "run__job")
    rows = list(shown.only(*SHOWN).order_by("-pk"))
    tell_why(rows)
    return Page(rows, LAST if last else after, key)


def tell_why(rows: list[Sample]) -> None:
    """Put `why` on dropped samples: what their last attempt ended with. One query."""
    dropped = [row.pk for row in rows if row.machine == Sample.Machine.DROPPED]
    last = Attempt.objects.filter(sample__in=dropped).order_by("sample_id", "-number").distinct("sample_id")
    narrow = last.only("sample_id", "outcome", "filter_failures", "judge", "error_code")
    why = {attempt.sample_id: ended_with(attempt) for attempt in narrow}
    for row in rows:
        row.why = why.get(row.pk, "")  # type: ignore[attr-defined]


def ended_with(attempt: Attempt) -> str:
    """Why an attempt did not pass, in a few words."""
    if attempt.outcome == "filtered":
        return "filter V: " + ", ".join(dict.fromkeys(entry["check"] for entry in attempt.filter_failures))
    if attempt.outcome == "judged_out":
        return "judge J: " + (", ".join(attempt.judge.get("failed", ())) or "scored too low")
    return attempt.error_code if attempt.outcome == "error" else ""


def sample(pk: int) -> Sample:
    """One sample with what its page shows. Raises Http404."""
    parts = ("run__job", "domain", "rule_version__rule", "rule_version__target", "anchor")
    return get_object_or_404(Sample.objects.select_related(*parts), pk=pk)


def thresholds(of: Sample) -> dict[str, int]:
    """The least score of each axis that its run asked for."""
    asked = of.run.params.get("recipe", {}).get("judge", {}).get("thresholds", {})
    return {axis: asked.get(axis, THRESHOLDS[axis]) for axis in AXES}


def pool_tools(of: Sample) -> list[Tool]:
    """The pool's tools, answer first, then T(r), then in the order the writers saw."""
    tools = {tool.name: tool for tool in Tool.objects.filter(name__in={*of.pool, *of.answer}).defer("search")}
    own = set(of.rule_version.tool_ids) if of.rule_version else set()
    order = [tools[name] for name in dict.fromkeys([*of.answer, *of.pool]) if name in tools]
    return sorted(order, key=lambda tool: (tool.name not in of.answer, tool.pk not in own))
