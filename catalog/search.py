"""Finding tools: the filters of the list, full text by the beginnings of words, and what was probably meant.

The embedded server has no pg_trgm, so the words of the catalog are a table of their own with their trigrams. They
are asked when few tools match: for words that hold what was typed, then for words that are spelt alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from django.contrib.postgres.search import SearchQuery, SearchRank
from django.db.models import Case, F, IntegerField, Q, QuerySet, When
from django.db.models.expressions import RawSQL
from django.db.models.functions import Cast, Length

from catalog.core.words import SHORTEST, inner_trigrams, name_words, spelt_alike, trigrams
from catalog.models import CatalogWord, Tool
from catalog.selectors import HEAVY, ruled_tools
from trace_site.paging import SIZE, Page, keyset

RANKED = 5000  # so many matches are counted and ranked; more of them are listed by name
MOST_WORDS = 12
FEW = 10  # fewer matches than this, and words that hold what was typed are asked too
WIDER = 30
CANDIDATES = 80
AS_TYPED = 10_000_000


@dataclass(frozen=True, slots=True)
class ToolFilter:
    """What the catalog list is narrowed by; empty values narrow nothing."""

    search: str = ""
    domain: str = ""
    api: str = ""
    state: str = ""
    clustered: str = ""
    ruled: str = ""


@dataclass(frozen=True, slots=True)
class FoundTools:
    """One page of tools. `total` counts all of them, or says RANKED and `more`; a search without `more` is ranked.
    `meant` maps a typed word to the words that were searched for beside it, the shortest first.
    """

    page: Page
    total: int
    more: bool = False
    meant: dict[str, list[str]] = field(default_factory=dict)


def find_tools(chosen: ToolFilter, after: str = "", size: int = SIZE) -> FoundTools:
    """At most four queries, and two more for each typed word when few tools match."""
    rows = narrowed(chosen)
    words = name_words(chosen.search)[:MOST_WORDS]
    if not words:
        return FoundTools(keyset(rows, after, by="name", size=size), rows.order_by().count())
    meant: dict[str, list[str]] = {}
    typed = query = _query(words, meant)
    total = _capped(rows.filter(search=query))
    if total < FEW:
        meant = {word: others for word in words if (others := _meant(word, total == 0))}
        if meant:
            query = _query(words, meant)
            total = _capped(rows.filter(search=query))
    matches = rows.filter(search=query)
    if total > RANKED:
        return FoundTools(keyset(matches, after, by="name", size=size), RANKED, True)
    return FoundTools(_ranked(matches, typed, query, after, size), total, False, meant)


def narrowed(chosen: ToolFilter) -> QuerySet[Tool]:
    """The filters without the search."""
    rows = Tool.objects.select_related("domain").defer(*HEAVY)
    if chosen.domain:
        rows = rows.filter(domain_id=chosen.domain)
    if chosen.api and Tool.objects.filter(api=chosen.api).exists():
        rows = rows.filter(api=chosen.api)
    elif chosen.api:  # a name that is none is taken as the beginning of some
        begun = chosen.api.casefold()
        rows = rows.filter(api__in=[api for api in apis() if api.casefold().startswith(begun)])
    if chosen.state != "all":
        retired = chosen.state == "retired"
        rows = rows.filter(status=Tool.Status.RETIRED if retired else Tool.Status.ACTIVE)
    if chosen.state in {"deprecated", "current"}:
        rows = rows.filter(deprecated=chosen.state == "deprecated")
    if chosen.clustered in {"yes", "no"}:
        rows = rows.filter(cluster__isnull=chosen.clustered == "no")
    held = ruled_tools()
    if chosen.ruled in {"yes", "no"} and held is not None:
        rows = rows.filter(held if chosen.ruled == "yes" else ~held)
    return rows


def apis(domain: str = "") -> list[str]:
    rows = Tool.objects.filter(domain_id=domain) if domain else Tool.objects.all()
    return list(rows.order_by("api").values_list("api", flat=True).distinct())


def _query(words: Sequence[str], meant: dict[str, list[str]]) -> SearchQuery:
    """Every typed word, or what was meant by it, must begin a word of the tool."""
    raw = " & ".join(f"({' | '.join(f'{one}:*' for one in (word, *meant.get(word, ())))})" for word in words)
    query = SearchQuery(raw, search_type="raw", config="english")
    if len(words) == 1:  # `in` is no stop word while `invoice` is being typed
        query = query | SearchQuery(raw, search_type="raw", config="simple")
    return query


def _capped(rows: QuerySet[Tool]) -> int:
    return rows.order_by()[: RANKED + 1].count()


def _ranked(rows: QuerySet[Tool], typed: SearchQuery, query: SearchQuery, after: str, size: int) -> Page:
    """What matches as typed, then what was meant, the best first, ties by name; the key of a page is `rank name`."""
    score = Cast(SearchRank(F("search"), query) * 1_000_000, IntegerField())
    rows = rows.annotate(rank=score + Case(When(search=typed, then=AS_TYPED), default=0))
    rank, _, name = after.partition(" ")
    if rank.isascii() and rank.isdecimal() and len(rank) < 10 and name:
        rows = rows.filter(Q(rank__lt=int(rank)) | Q(rank=int(rank), name__gt=name))
    found = list(rows.order_by("-rank", "name")[: size + 1])
    page = found[:size]
    return Page(page, after, f"{page[-1].rank} {page[-1].name}" if len(found) > size else None)


def _meant(word: str, nothing: bool) -> list[str]:
    """Words of the catalog that hold what was typed; when nothing matched, only for a word that begins none.

    `payslip` stands for `getpayslip` and `payslipbatch` too, whose tools hold it as a word of its own. When no word
    holds it, those that are spelt alike.
    """
    if len(word) < SHORTEST:
        return []
    holding = CatalogWord.objects.filter(trigrams__contains=inner_trigrams(word), word__contains=word)
    found = list(holding.order_by(Length("word"), "word").values_list("word", flat=True)[:WIDER])
    inner = [one for one in found if not one.startswith(word)]
    if nothing and len(inner) < len(found):
        return []
    shortest = [one for one in inner if not any(less != one and less in one for less in inner)]
    if shortest or not nothing:
        return shortest
    grams = trigrams(word)
    shared = RawSQL("(SELECT count(*) FROM unnest(trigrams) AS gram WHERE gram = ANY (%s))", [grams])
    near = CatalogWord.objects.annotate(long=Length("word"), shared=shared).filter(
        trigrams__overlap=grams, long__gte=len(word) - 2, long__lte=len(word) + 2
    )
    return spelt_alike(word, near.order_by("-shared", "word").values_list("word", flat=True)[:CANDIDATES])
