"""The registry of labelled queries: benchmarks, few-shot seeds and imports in one place, so that they stay disjoint."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from catalog.core.near_duplicates import DuplicateIndex
from catalog.core.words import text_key
from catalog.ledger import catalog_lock
from catalog.models import LabelledQuery, Tool
from trace_site import audit
from trace_site.lib.errors import TraceError

BATCH = 2000
LISTED = 20


@dataclass(frozen=True, slots=True)
class Overlap:
    """A text that is already registered for another use."""

    where: str
    text: str
    use: str
    collection: str

    def __str__(self) -> str:
        return f'{self.where}: "{self.text[:80]}" is already a {self.use} query of {self.collection}.'


@dataclass(frozen=True, slots=True)
class Registered:
    """What a registration did. `overlaps` were left out (with `skip_overlaps`)."""

    added: int
    unchanged: int
    overlaps: list[Overlap] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class BenchmarkHit:
    """A text repeats a benchmark query: exactly, or nearly (word sets, Jaccard 0.85)."""

    kind: str
    benchmark: str
    query: str
    score: float


@transaction.atomic
def queries_register(
    *,
    collection: str,
    use: str,
    rows: Iterable[tuple[str, Mapping[str, Any]]],
    source: str = "",
    skip_overlaps: bool = False,
    actor: Any = None,
) -> Registered:
    """Add (place in the file, {"query", "tools", ...}) rows; other fields are kept in `extra`.

    The same text in two uses is contamination: it refuses everything (TraceError code `overlap`), or, with
    `skip_overlaps`, leaves those rows out and lists them. Rows that are already there count as unchanged.
    """
    if use not in LabelledQuery.Use.values:
        raise TraceError(
            f"unknown use '{use}'.", code="bad_use", hint=f"Use {', '.join(LabelledQuery.Use.values)}."
        )
    if not collection.strip():
        raise TraceError("the collection needs a name.", code="bad_collection")
    catalog_lock()
    made = _parse(rows, collection.strip(), use, source)
    overlaps = _overlaps(made, use)
    if overlaps and not skip_overlaps:
        raise TraceError(
            f'"{overlaps[0].text[:80]}" is already a {overlaps[0].use} query of {overlaps[0].collection}.',
            code="overlap",
            where=overlaps[0].where,
            hint=f"({len(overlaps)} such queries; benchmarks, few-shot seeds and imports must not share a text.)",
            extra={"errors": [str(overlap) for overlap in overlaps[:LISTED]]},
        )
    left_out = {overlap.where for overlap in overlaps}
    kept = [query for where, query in made if where not in left_out]
    before = LabelledQuery.objects.filter(collection=collection.strip()).count()
    LabelledQuery.objects.bulk_create(kept, batch_size=BATCH, ignore_conflicts=True)
    added = LabelledQuery.objects.filter(collection=collection.strip()).count() - before
    if added and kept:
        first = LabelledQuery.objects.filter(collection=collection.strip()).latest("id")
        detail = {"collection": collection, "use": use, "added": added, "left_out": len(overlaps)}
        audit.record(actor=actor, action="queries.registered", obj=first, detail=detail)
    return Registered(added, len(kept) - added, overlaps)


def unknown_tools(rows: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """`where: 'name' is not in the catalog.` for every gold tool that is not there; one query."""
    names = set(Tool.objects.values_list("name", flat=True))
    return [
        f"{where}: '{name}' is not in the catalog."
        for where, row in rows
        for name in row.get("tools", [])
        if name not in names
    ]


class BenchmarkFirewall:
    """All benchmark queries, indexed once; `check` says whether a text repeats one of them."""

    def __init__(self) -> None:
        stored = LabelledQuery.objects.filter(use=LabelledQuery.Use.BENCHMARK).order_by("id")
        self._rows: Sequence[tuple[str, str]] = list(stored.values_list("collection", "text"))
        self._index = DuplicateIndex(text for _, text in self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def check(self, text: str) -> BenchmarkHit | None:
        """The worst repetition, or None."""
        found = self._index.find(text)
        if not found:
            return None
        collection, query = self._rows[found[0].position]
        return BenchmarkHit(found[0].kind, collection, query, found[0].score)


def few_shot_queries(*, limit: int | None = None) -> list[LabelledQuery]:
    """The few-shot seeds, oldest first."""
    return list(LabelledQuery.objects.filter(use=LabelledQuery.Use.FEW_SHOT).order_by("id")[:limit])


def _parse(
    rows: Iterable[tuple[str, Mapping[str, Any]]], collection: str, use: str, source: str
) -> list[tuple[str, LabelledQuery]]:
    made: list[tuple[str, LabelledQuery]] = []
    for where, row in rows:
        text, tools = row.get("query"), row.get("tools", [])
        if not isinstance(text, str) or not text.strip() or "\0" in text:
            raise TraceError("'query' must be text and not empty.", code="bad_query", where=where)
        if not isinstance(tools, list) or not all(isinstance(name, str) and name for name in tools):
            raise TraceError("'tools' must be a list of tool names.", code="bad_query", where=where)
        extra = {key: value for key, value in row.items() if key not in ("query", "tools")}
        query = LabelledQuery(
            collection=collection,
            use=use,
            text=text.strip(),
            text_key=text_key(text),
            tools=tools,
            source=source[:200],
            extra=extra,
        )
        made.append((where, query))
    return made


def _overlaps(made: list[tuple[str, LabelledQuery]], use: str) -> list[Overlap]:
    keys = {query.text_key for _, query in made}
    others = LabelledQuery.objects.exclude(use=use).filter(text_key__in=keys)
    taken = {key: (other, name) for key, other, name in others.values_list("text_key", "use", "collection")}
    return [
        Overlap(where, query.text, *taken[query.text_key]) for where, query in made if query.text_key in taken
    ]
