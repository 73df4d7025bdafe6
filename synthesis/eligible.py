"""Which approved samples may enter a snapshot: content-current ones, of every slot the newest, that repeat no query of
a benchmark and none of the few-shot queries.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from django.db.models import QuerySet

from catalog.queries import teaching_firewall
from synthesis.core.snapshot import Entry
from synthesis.inputs import content_inputs
from synthesis.models import Sample
from synthesis.sample_rows import CHUNK, Row, rows_of
from synthesis.sources import catalog_around, published_rules

Slot = tuple[str, int | str, str, int]
REPLACED, STALE = "replaced", "stale"


@dataclass(slots=True)
class Eligible:
    """Approved samples that may go in, and of those that may not how many and why.

    `contaminated`: [{sample, text, kind, similarity, use, collection, query}]. `left_out`: {(reason, domain, branch):
    how many}. `rules`: "domain/code" of every published rule the options reach.
    """

    entries: list[Entry] = field(default_factory=list)
    contaminated: list[dict[str, Any]] = field(default_factory=list)
    stale: Counter[str] = field(default_factory=Counter)
    left_out: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    rules: list[str] = field(default_factory=list)

    @property
    def replaced(self) -> int:
        return sum(count for (reason, _, _), count in self.left_out.items() if reason == REPLACED)


def eligible_samples(params: dict[str, Any]) -> Eligible:
    """What is content-current. Outdated samples are still right and stay; of one slot the newest approved counts."""
    found = Eligible()
    rules = {version.pk: text for version, text in published_rules()}
    codes = {pk: f"{rule.domain}/{rule.code}" for pk, rule in rules.items()}
    domain = params["domain"]
    if "rule" in params["branches"]:
        found.rules = [codes[pk] for pk, rule in rules.items() if not domain or rule.domain == domain]
    newest: dict[Slot, Row] = {}
    for row, reason in content_inputs(catalog_around(None), rules).stale(rows_of(_approved(params))):
        if reason:
            found.stale[reason] += 1
            found.left_out[STALE, row.domain, row.branch] += 1
            continue
        if (older := newest.get(slot := _slot(row))) is not None:
            found.left_out[REPLACED, older.domain, older.branch] += 1
        newest[slot] = row
    _admit(sorted(newest.values()), codes, found)
    return found


def _approved(params: dict[str, Any]) -> QuerySet[Sample]:
    rows = Sample.objects.filter(
        machine=Sample.Machine.READY, human=Sample.Human.APPROVED, branch__in=params["branches"]
    )
    return rows.filter(domain_id=params["domain"]) if params["domain"] else rows


def _slot(row: Row) -> Slot:
    """A sample's place in the plan; one without a number has a place of its own."""
    number = -row.pk if row.number is None else row.number
    return row.branch, row.version or row.anchor or "", row.kind, number


def _admit(rows: list[Row], codes: dict[int, str], found: Eligible) -> None:
    """Through the firewall: what repeats a query that must not be taught is listed with both texts."""
    firewall = teaching_firewall()
    for row, (query, answer, pool) in zip(rows, _texts([row.pk for row in rows]), strict=True):
        if hit := firewall.check(query):
            found.contaminated.append({"sample": row.pk, "text": query, **asdict(hit)})
            found.left_out[hit.use, row.domain, row.branch] += 1
            continue
        rule = codes.get(row.version or 0, "")
        found.entries.append(
            Entry(row.pk, row.key, row.branch, row.style, rule, tuple(answer), frozenset(pool), row.domain)
        )


def _texts(ids: list[int]) -> Iterable[tuple[str, list[str], list[str]]]:
    """(query, answer, pool) of samples, in the order of their ids."""
    for start in range(0, len(ids), CHUNK):
        rows = Sample.objects.filter(pk__in=ids[start : start + CHUNK]).order_by("pk")
        yield from rows.values_list("query", "answer", "pool")
