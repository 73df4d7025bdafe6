"""Benchmark items: a row of a file, or a question built from the catalog, becomes one checked item.

In: rows of a PRB, MCQ_ts, QA_ts, MCQ_expert or outside file. Out: `Item`s whose `data` is frozen in the benchmark: a
query with its gold tools (none where no tool should answer), or a lettered question with its options already in their
final order.
"""

import random
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from string import ascii_uppercase
from typing import Any

from evaluation.core.questions import YES_NO, Questions, as_asked, folded, mcq_question, qa_question
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash

PRB, MCQ, QA, EXPERT, OUTSIDE = ("prb", "mcq", "qa", "mcq_expert", "outside")
WITH_QUERIES = (PRB, OUTSIDE)
WHOLE, SHOWN, DEVELOPMENT = PARTS = ("whole", "shown", "development")
MOST_CHOICES = 26
TARGET_SIDES = ("target", "primary")  # of a rule, as benchmarks call it
LONGEST_TEXT = 8_000  # characters
NO_DOMAIN = "general"
# facts about an item that reports may use
KEPT = ("rule", "side", "style", "cluster", "tier", "kind", "source", "built")
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Item:
    data: dict[str, Any]
    domain: str
    where: str

    @property
    def tools(self) -> list[str]:
        """The catalog tools the item depends on."""
        tool = self.data.get("tool")
        return list(self.data.get("tools", [tool] if tool else ()))


def parse(kind: str, rows: Iterable[tuple[str, Row]], *, domain: str = "", seed: int = 0) -> list[Item]:
    """Check (where, row) pairs. Rows of another split than `test` are left out; an empty result is an error."""
    items = []
    for number, (where, row) in enumerate(rows, start=1):
        if row.get("split", "test") != "test":
            continue
        extra = {name: row[name] for name in KEPT if isinstance(row.get(name), str) and row[name]}
        own = row.get("domain") if isinstance(row.get("domain"), str) else ""
        check = _request if kind in WITH_QUERIES else _question
        ready = {"id": str(row.get("id") or number), **check(kind, row, where, seed), **extra}
        plain = unicodedata.normalize("NFKD", own or domain).encode("ascii", "ignore").decode()
        slug = re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")  # as the catalog's
        items.append(Item(ready, slug, where))
    if not items:
        raise TraceError("no row to evaluate on (split test, or no split).", code="empty_benchmark")
    return items


def _request(kind: str, row: Row, where: str, seed: int) -> dict[str, Any]:
    query = _text(row, "query", where)
    asked: dict[str, Any] = {"query": query}
    if row.get("permissions"):  # what its caller is granted; without it, everything
        asked["permissions"] = _texts(row, "permissions", where, 1)
    if kind == PRB:
        return asked | {"tools": list(dict.fromkeys(_texts(row, "tools", where, 1)))}
    if row.get("tools"):
        raise _bad(where, "'tools' names some, but no tool answers a request of this kind.")
    return asked | {"tools": []}


def _question(kind: str, row: Row, where: str, seed: int) -> dict[str, Any]:
    ready: dict[str, Any] = {
        "id": str(row.get("id") or where.rpartition(":")[2]),
        "question": _text(row, "question", where),
    }
    if kind == EXPERT:
        choices, answer = _texts(row, "choices", where, 2), _text(row, "answer", where)
        if len(choices) > MOST_CHOICES or answer not in ascii_uppercase[: len(choices)]:
            raise _bad(where, f"answer {answer!r} is not a letter of its {len(choices)} choices.")
        asked = as_asked(ready, choices, answer)
    elif kind == QA:
        ready |= {"tool": _text(row, "tool", where), "answer": _text(row, "answer", where)}
        if ready["answer"] not in YES_NO:
            raise _bad(where, f"'answer' must be Yes or No, found {ready['answer']!r}.")
        asked = qa_question(ready)
    else:
        correct, wrong = _text(row, "correct", where), _texts(row, "wrong", where, 1)
        if len({correct, *wrong}) != 1 + len(wrong) or len(wrong) >= MOST_CHOICES:
            raise _bad(
                where, f"'wrong' must be 1..{MOST_CHOICES - 1} different texts, none equal to 'correct'."
            )
        ready |= {"tool": _text(row, "tool", where), "correct": correct, "wrong": wrong}
        asked = mcq_question(ready, seed=seed) | {"seed": seed}
    return {name: asked[name] for name in ("question", "choices", "tool", "answer", "seed") if name in asked}


def _text(row: Row, name: str, where: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST_TEXT:
        raise _bad(where, f"'{name}' must be a text of 1..{LONGEST_TEXT} characters.")
    return value.strip()


def _texts(row: Row, name: str, where: str, least: int) -> list[str]:
    value = row.get(name)
    if isinstance(value, list) and len(value) >= least:
        texts = [entry.strip() for entry in value if isinstance(entry, str) and entry.strip()]
        if len(texts) == len(value):
            return texts
    raise _bad(where, f"'{name}' must be a list of at least {least} text{'s' if least > 1 else ''}.")


def _bad(where: str, message: str) -> TraceError:
    hint = "Correct the line and import the file again."
    return TraceError(message, code="bad_item", where=where, hint=hint)


def part_of(items: Iterable[Item], part: str) -> list[Item]:
    """The half of the items that thresholds are chosen on, the half whose figures are shown, or all.

    Split by the hash of an item's id, so that rows added later move nobody to the other half. Raises TraceError when
    nothing is left.
    """
    wanted = {WHOLE: (True, False), DEVELOPMENT: (True,), SHOWN: (False,)}[part]
    found = [item for item in items if is_development(str(item.data["id"])) in wanted]
    if not found:
        raise TraceError(f"no row falls into the {part} half.", code="empty_benchmark", hint="Add rows.")
    return found


def is_development(item_id: str) -> bool:
    return sha256(item_id.encode()).digest()[0] % 2 == 0


def digest(kind: str, items: Sequence[Item]) -> str:
    return content_hash({"kind": kind, "items": [[item.domain, item.data] for item in items]})


def tier_of(item: Row) -> str:
    """The tier of a request: its own, else by how many tools are right: easy 1, medium 2 or 3, hard 4 and more."""
    count = len(item.get("tools", ()))
    return str(
        item.get("tier") or ("" if not count else "easy" if count == 1 else "medium" if count < 4 else "hard")
    )


def is_exception(item: Row) -> bool:
    """Whether the rule that decides the request sends it to another tool than its target."""
    return bool(item.get("side")) and item["side"] not in TARGET_SIDES


def random_baseline(questions: Sequence[Row]) -> float:
    """1/N of the sum of 1/k over the questions, k = its number of options."""
    return sum(1 / len(question["choices"]) for question in questions) / len(questions)


def build_probes(
    kind: str, tools: Sequence[Row], neighbours: Mapping[str, Sequence[str]], count: int, *, seed: int = 0
) -> list[dict[str, Any]]:
    """Rows of MCQ_ts or QA_ts from a catalog alone, without a language model ("built": "offline").

    `tools`: {"name","description","domain"}; `neighbours`: of each, best first. Tools come in a seeded order, round
    after round, so that every domain is drawn in its own proportion; a row depends on the seed and its tool, not on
    other rows.
    """
    questions = Questions(tools, neighbours)
    names = sorted(questions.tools)
    random.Random(f"{seed}:{kind}").shuffle(names)
    rows: dict[str, dict[str, Any]] = {}
    for turn in range(4):
        for position, name in enumerate(names):
            if len(rows) == count:
                break
            draw = random.Random(f"{seed}:{kind}:{turn}:{name}")
            yes = (position + turn) % 2 == 0
            row = questions.mcq(name, draw) if kind == MCQ else questions.qa(name, yes, draw)
            if row:
                rows.setdefault(folded(str(row)), row)
    return [{"id": f"{kind}-{number:04d}", **row} for number, row in enumerate(rows.values(), start=1)]
