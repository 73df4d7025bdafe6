"""Benchmark files: one row in, one checked item out.

In: rows of a PRB, MCQ_ts, QA_ts, MCQ_expert or outside file. Out: `Item`s whose `data` is frozen in the benchmark: a
query with its gold tools (none where no tool should answer), or a lettered question with its options already in their
final order.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from evaluation.core.probes import MOST_CHOICES, YES_NO, lettered, random_baseline
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash

PRB, MCQ, QA, EXPERT, OUTSIDE = KINDS = ("prb", "mcq", "qa", "mcq_expert", "outside")
WITH_QUERIES = (PRB, OUTSIDE)
WHOLE, SHOWN, DEVELOPMENT = PARTS = ("whole", "shown", "development")
LONGEST_TEXT = 8_000  # characters
NO_DOMAIN = "general"
KEPT = (
    "rule",
    "side",
    "cluster",
    "tier",
    "kind",
    "source",
    "built",
)  # facts about an item that reports may use


@dataclass(frozen=True, slots=True)
class Item:
    data: dict[str, Any]
    domain: str
    where: str

    @property
    def tools(self) -> list[str]:
        """The catalog tools the item depends on."""
        if "tools" in self.data:
            return list(self.data["tools"])
        return [self.data["tool"]] if self.data.get("tool") else []


def domain_slug(text: str) -> str:
    """`HR` -> `hr`; the slugs of the catalog."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def parse(
    kind: str, rows: Iterable[tuple[str, Mapping[str, Any]]], *, domain: str = "", seed: int = 0
) -> list[Item]:
    """Check (where, row) pairs. Rows of another split than `test` are left out; an empty result is an error."""
    check = {PRB: _prb, MCQ: _mcq, QA: _qa, EXPERT: _expert, OUTSIDE: _outside}[kind]
    items = []
    for number, (where, row) in enumerate(rows, start=1):
        if row.get("split", "test") != "test":
            continue
        extra = {name: row[name] for name in KEPT if isinstance(row.get(name), str) and row[name]}
        own = row.get("domain") if isinstance(row.get("domain"), str) else ""
        ready = {"id": str(row.get("id") or number), **check(row, where, seed), **extra}
        items.append(Item(ready, domain_slug(own or domain), where))
    if not items:
        raise TraceError("no row to evaluate on (split test, or no split).", code="empty_benchmark")
    return items


def part_of(items: Iterable[Item], part: str) -> list[Item]:
    """The half of the items that thresholds are chosen on, the half whose figures are shown, or all.

    Split by the hash of an item's id, so that rows added later move nobody to the other half. Raises TraceError when
    nothing is left.
    """

    def own(item: Item) -> str:
        return DEVELOPMENT if is_development(str(item.data["id"])) else SHOWN

    found = [item for item in items if part in (WHOLE, own(item))]
    if not found:
        raise TraceError(f"no row falls into the {part} half.", code="empty_benchmark", hint="Add rows.")
    return found


def is_development(item_id: str) -> bool:
    return sha256(item_id.encode()).digest()[0] % 2 == 0


def digest(kind: str, items: Sequence[Item]) -> str:
    return content_hash({"kind": kind, "items": [[item.domain, item.data] for item in items]})


def chance(kind: str, items: Sequence[Item]) -> float | None:
    """The random baseline of a probe; a benchmark of requests has none."""
    return None if kind in WITH_QUERIES else random_baseline([item.data for item in items])


def _prb(row: Mapping[str, Any], where: str, seed: int) -> dict[str, Any]:
    return {"query": _text(row, "query", where), "tools": list(dict.fromkeys(_texts(row, "tools", where, 1)))}


def _outside(row: Mapping[str, Any], where: str, seed: int) -> dict[str, Any]:
    if row.get("tools"):
        raise _bad(where, "'tools' names some, but no tool answers a request of this kind.")
    return {"query": _text(row, "query", where), "tools": []}


def _mcq(row: Mapping[str, Any], where: str, seed: int) -> dict[str, Any]:
    correct, wrong = _text(row, "correct", where), _texts(row, "wrong", where, 1)
    if len({correct, *wrong}) != 1 + len(wrong) or len(wrong) >= MOST_CHOICES:
        raise _bad(where, f"'wrong' must be 1..{MOST_CHOICES - 1} different texts, none equal to 'correct'.")
    ready = {
        "id": str(row.get("id") or where.rpartition(":")[2]),
        "question": _text(row, "question", where),
        "tool": _text(row, "tool", where),
        "correct": correct,
        "wrong": wrong,
    }
    return {**_question(MCQ, ready, seed), "seed": seed}


def _qa(row: Mapping[str, Any], where: str, seed: int) -> dict[str, Any]:
    answer = _text(row, "answer", where)
    if answer not in YES_NO:
        raise _bad(where, f"'answer' must be Yes or No, found {answer!r}.")
    ready = {
        "id": "",
        "question": _text(row, "question", where),
        "tool": _text(row, "tool", where),
        "answer": answer,
    }
    return _question(QA, ready, seed)


def _expert(row: Mapping[str, Any], where: str, seed: int) -> dict[str, Any]:
    ready = {
        "id": "",
        "question": _text(row, "question", where),
        "choices": _texts(row, "choices", where, 2),
        "answer": _text(row, "answer", where),
    }
    try:
        return _question(EXPERT, ready, seed)
    except TraceError as error:
        raise _bad(where, error.message) from error


def _question(kind: str, row: Mapping[str, Any], seed: int) -> dict[str, Any]:
    question = lettered(kind, [row], seed=seed)[0]
    return {name: question[name] for name in ("question", "choices", "tool", "answer")}


def _text(row: Mapping[str, Any], name: str, where: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST_TEXT:
        raise _bad(where, f"'{name}' must be a text of 1..{LONGEST_TEXT} characters.")
    return value.strip()


def _texts(row: Mapping[str, Any], name: str, where: str, least: int) -> list[str]:
    value = row.get(name)
    if (
        not isinstance(value, list)
        or len(value) < least
        or not all(isinstance(v, str) and v.strip() for v in value)
    ):
        raise _bad(where, f"'{name}' must be a list of at least {least} text{'s' if least > 1 else ''}.")
    return [entry.strip() for entry in value]


def _bad(where: str, message: str) -> TraceError:
    return TraceError(
        message, code="bad_item", where=where, hint="Correct the line and import the file again."
    )
