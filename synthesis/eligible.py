"""Which approved samples may enter a snapshot: content-current ones, of every slot the newest."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from synthesis.core.snapshot import Entry
from synthesis.inputs import content_inputs
from synthesis.models import Sample
from synthesis.sample_rows import CHUNK, Row, rows_of
from synthesis.sources import catalog_around, published_rules

Slot = tuple[str, int | str, str, int]


def _approved(params: dict[str, Any]) -> QuerySet[Sample]:
    rows = Sample.objects.filter(
        machine=Sample.Machine.READY, human=Sample.Human.APPROVED, branch__in=params["branches"]
    )
    return rows.filter(domain_id=params["domain"]) if params["domain"] else rows


@dataclass(slots=True)
class Eligible:
    """Approved samples that may go in; how many are stale, by reason, and how many have a newer one in their slot."""

    entries: list[Entry]
    stale: Counter[str]
    replaced: int = 0


def eligible_samples(params: dict[str, Any]) -> Eligible:
    """What is content-current. Outdated samples are still right and stay; of one slot the newest approved counts."""
    samples = _approved(params)
    rules = {version.pk: text for version, text in published_rules()}
    codes = {pk: f"{rule.domain}/{rule.code}" for pk, rule in rules.items()}
    stale: Counter[str] = Counter()
    newest: dict[Slot, Row] = {}
    fresh = 0
    for row, reason in content_inputs(catalog_around(None), rules).stale(rows_of(samples)):
        if reason:
            stale[reason] += 1
            continue
        newest[_slot(row)] = row
        fresh += 1
    answers = _answers([row.pk for row in newest.values()])
    entries = [
        Entry(row.pk, row.key, row.branch, row.style, codes.get(row.version or 0, ""), *answers[row.pk])
        for row in sorted(newest.values())
    ]
    return Eligible(entries, stale, fresh - len(entries))


def _slot(row: Row) -> Slot:
    """A sample's place in the plan; one without a number has a place of its own."""
    number = -row.pk if row.number is None else row.number
    return row.branch, row.version or row.anchor or "", row.kind, number


def _answers(ids: list[int]) -> dict[int, tuple[tuple[str, ...], frozenset[str]]]:
    """{sample: (answer, pool)}"""
    found: dict[int, tuple[tuple[str, ...], frozenset[str]]] = {}
    for start in range(0, len(ids), CHUNK):
        rows = Sample.objects.filter(pk__in=ids[start : start + CHUNK])
        for pk, answer, pool in rows.values_list("pk", "answer", "pool"):
            found[pk] = tuple(answer), frozenset(pool)
    return found
