"""Real queries into the registry as few-shot queries: scrubbed, checked, shown, then stored.

In: rows of a file or a paste. Out: a proposal each, with what the scrubber replaced or why the query is refused. Only
scrubbed texts are stored, logged or audited.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import PurePath
from typing import Annotated, Any

from django.db import transaction

from catalog.core.mentions import NameFinder
from catalog.core.near_duplicates import Duplicate, DuplicateIndex
from catalog.core.scrubbing.child import scrub_all
from catalog.core.scrubbing.scrub import Scrubbed
from catalog.core.words import join_words, name_words, plain_words, text_key
from catalog.models import LabelledQuery, Tool
from catalog.queries.registry import benchmark_firewall, registry_lock
from trace_site.audit import models as audit_models
from trace_site.lib.errors import TraceError
from trace_site.lib.letters import BARE, count_words, entered
from trace_site.lib.texts import Lines, decode, header, is_sheet, json_rows, sheet_rows, text_lines

MOST_ROWS = 2000
MOST_BYTES = 1_000_000
COLUMNS = ("query", "text", "question", "utterance", "request", "message")
MIN_WORDS, MAX_WORDS, MAX_CHARACTERS = 3, 60, 600
TOKEN = re.compile(r"<<[^<>]*>>|</?tid>", re.I)
CODE = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")  # a rule's code
STAND_IN = re.compile(r"\[[^\[\]]{1,20}\]")
USES = {LabelledQuery.Use.FEW_SHOT: "another real query", LabelledQuery.Use.IMPORT: "an imported sample"}


@dataclass(frozen=True, slots=True)
class GivenQuery:
    """`number`: the line it begins on; of one JSON list its place."""

    number: int
    text: str


@dataclass(slots=True)
class Proposal:
    """One query as it would be stored, or why it is not (`reason`, with a stable `code`)."""

    number: int
    done: Scrubbed
    code: Annotated[str, "why it is refused; empty when it is taken"] = ""
    reason: str = ""

    @property
    def text(self) -> Annotated[str, "as it is stored: what was found is never repeated"]:
        return self.done.text

    @property
    def replaced(self) -> list[tuple[str, str, str]]:
        """(kind, what stood there, what stands there now): for the page that asks, never for keeping."""
        return [(one.kind, self.done.plain[one.start : one.end], one.stand_in) for one in self.done.found]


def import_counts(proposals: Iterable[Proposal]) -> dict[str, Any]:
    """What an import did, or would do: {"added", "refused", "reasons": {code: n}, "replaced": {kind: n}}."""
    taken, reasons, replaced = 0, Counter[str](), Counter[str]()
    for one in proposals:
        if one.code:
            reasons[one.code] += 1
        else:
            taken += 1
            replaced.update(found.kind for found in one.done.found)
    refused = reasons.total()
    return {"added": taken, "refused": refused, "reasons": dict(reasons), "replaced": dict(replaced)}


def queries_preview(given: Sequence[GivenQuery], *, no_person: Iterable[int] = ()) -> list[Proposal]:
    """What would become of every row; nothing is stored. The first reason to refuse a row stands. `no_person`: numbers
    of rows in which what looks like a name is none.
    """
    spared = frozenset(no_person)
    fits = [row for row in given if len(row.text) <= 4 * MAX_CHARACTERS]
    scrubbed = iter(scrub_all([(row.text, ["name"] * (row.number in spared)) for row in fits]))
    proposals = [
        Proposal(row.number, next(scrubbed))
        if len(row.text) <= 4 * MAX_CHARACTERS
        else Proposal(row.number, Scrubbed("", "", ()), "too_long", _too_long(len(row.text)))
        for row in given
    ]
    tools, firewall = _tool_finder(), benchmark_firewall()
    kept = LabelledQuery.objects.filter(use__in=USES).order_by("pk")
    stored = list(kept.values_list("use", "collection", "text"))
    index = DuplicateIndex((text for _, _, text in stored), [one.text for one in proposals])
    taken: list[Proposal] = []
    for one in proposals:
        if one.code:
            continue
        if found := _no_request(one.text) or _names_a_tool(one.text, tools):
            one.code, one.reason = found
        elif hit := firewall.check(one.text):
            how = "is" if hit.kind == "exact" else "is nearly"
            one.code, one.reason = "benchmark", f"{how} a query of the benchmark {hit.collection}"
        elif repeated := index.find(one.text):
            one.code, one.reason = "duplicate", _repeats(repeated[0], stored, taken)
        else:
            taken.append(one)
            index.add(one.text)
    return proposals


@transaction.atomic
def queries_import(
    *, given: Sequence[GivenQuery], collection: str, actor: Any, no_person: Iterable[int] = ()
) -> list[Proposal]:
    """Store the queries that pass; what `queries_preview` says of every row."""
    collection = " ".join(collection.split())[:100]
    if not collection:
        raise TraceError("the collection has no name.", code="bad_input", where="collection")
    registry_lock()
    proposals = queries_preview(given, no_person=no_person)
    same = {"collection": collection, "use": LabelledQuery.Use.FEW_SHOT, "tools": [], "source": collection}
    rows = []
    for one in proposals:
        if not one.code:
            extra = {"replaced": one.done.kinds} if one.done.found else {}
            rows.append(LabelledQuery(**same, text=one.text, text_key=text_key(one.text), extra=extra))
    rows = LabelledQuery.objects.bulk_create(rows)
    if rows:
        detail = {"collection": collection, **import_counts(proposals)}
        audit_models.record(actor=actor, action="queries.imported", obj=rows[0], detail=detail)
    return proposals


@transaction.atomic
def query_remove(*, row: LabelledQuery, actor: Any) -> None:
    """Take a few-shot query out of the registry; samples that were shown it become outdated, not wrong."""
    if row.use != LabelledQuery.Use.FEW_SHOT:
        raise TraceError("only real queries for few-shots are removed here.", code="bad_state")
    audit_models.record(actor=actor, action="query.removed", obj=row, detail={"collection": row.collection})
    row.delete()


def _too_long(characters: int) -> str:
    return f"has {characters:,} characters; a request has at most {MAX_CHARACTERS}"


def _no_request(text: str) -> tuple[str, str] | None:
    own = count_words(join_words(plain_words(STAND_IN.sub(" ", text))))
    if len(text) > MAX_CHARACTERS:
        return "too_long", _too_long(len(text))
    if own > MAX_WORDS:
        return "too_long", f"has {own} words; a request has at most {MAX_WORDS}"
    if own < MIN_WORDS:
        return "too_short", f"has {own} word{'s' * (own != 1)} of its own; a request has at least {MIN_WORDS}"
    return None


def _names_a_tool(text: str, tools: NameFinder) -> tuple[str, str] | None:
    if token := TOKEN.search(text):
        return "names_tool", f"holds the token {token.group()[:80]}"
    if code := CODE.search(text):
        return "names_tool", f"holds {code.group()[:80]}, which reads like a rule's code"
    if found := tools.find(text.casefold()):
        start, end, _ = found[0]
        return "names_tool", f"names the tool {text[start:end]}"
    return None


def _tool_finder() -> NameFinder:
    """Full names, and endpoints written as identifiers of two words or more; plain words are how people talk."""
    names = set()
    for name, endpoint in Tool.objects.values_list("name", "endpoint"):
        names.add(name.casefold())
        if " " not in endpoint and not BARE.search(endpoint) and len(name_words(endpoint)) > 1:
            names.add(endpoint.casefold())
    return NameFinder(names)


def _repeats(found: Duplicate, stored: list[tuple[str, str, str]], taken: list[Proposal]) -> str:
    how = "is" if found.kind == "exact" else "is nearly"
    if found.position < len(stored):
        use, collection, _ = stored[found.position]
        return f"{how} {USES[LabelledQuery.Use(use)]} ({collection})"
    return f"{how} row {taken[found.position - len(stored)].number}"


# Queries out of a text, a sheet or JSON: one a row. Errors name the line and never repeat what it says.


def read_queries(content: bytes | str, filename: str = "") -> list[GivenQuery]:
    """Rows that say something. Raises TraceError for what is no such file, or too much of one."""
    raw = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
    shown = filename or "the text"
    if len(raw) > MOST_BYTES:
        message = f"it has {len(raw):,} bytes; the limit is {MOST_BYTES:,}."
        raise TraceError(message, code="too_large", where=shown, hint="Split it.")
    text, suffix = decode(raw, shown), PurePath(filename).suffix.lower()
    if suffix in (".jsonl", ".ndjson", ".json") or (not suffix and text.lstrip()[:1] == "{"):
        found = _json_rows(text, shown)
    elif suffix in (".csv", ".tsv") or is_sheet(text, COLUMNS):
        found = _sheet_queries(text, shown)
    else:
        lines = text_lines(Lines(text, shown))
        found = (GivenQuery(number, line) for number, line in lines)
    found = (replace(row, text=entered(row.text).strip()) for row in found)
    rows = [row for row in found if row.text]
    if not rows:
        message, hint = "it holds no query.", "Write one query a line."
        raise TraceError(message, code="empty", where=shown, hint=hint)
    if len(rows) > MOST_ROWS:
        message = f"it holds {len(rows):,} queries; the limit is {MOST_ROWS:,}."
        raise TraceError(message, code="too_many", where=shown, hint="Split it.")
    return rows


def _json_rows(text: str, shown: str) -> Iterator[GivenQuery]:
    hint = 'Each line is {"query": "..."}.'
    for number, row in json_rows(text, shown, hint):
        said = next((row[name] for name in COLUMNS if name in row), None) if isinstance(row, dict) else row
        if not isinstance(said, str):
            where = f"{shown}:{number}"
            raise TraceError('has no text under "query".', code="bad_row", where=where, hint=hint)
        yield GivenQuery(number, said)


def _sheet_queries(text: str, shown: str) -> Iterator[GivenQuery]:
    lines = Lines(text, shown)
    rows = sheet_rows(lines, COLUMNS)
    number, cells = next(rows, (1, []))
    heading = header(cells, f"{shown}:{number}", COLUMNS, ())
    column = next((heading.index(name) for name in COLUMNS if name in heading), None)
    if column is None and len(heading) > 1:
        hint = f"Call it one of: {', '.join(COLUMNS)}."
        raise TraceError("names no column of queries.", code="bad_csv", where=f"{shown}:{number}", hint=hint)
    for place, row in rows if column is not None else chain([(number, cells)], rows):
        if any(cell.strip() for cell in row[len(heading) :]):
            what, hint = f"has more than {len(heading)} cells.", "Quote cells that hold separators."
            raise TraceError(what, code="bad_csv", where=f"{shown}:{place}", hint=hint)
        yield GivenQuery(place, row[column or 0] if len(row) > (column or 0) else "")
