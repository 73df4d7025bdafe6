"""Reading samples blind: a sheet that a person fills in without knowing the answers, and how far the answers agree.

In: samples as (id, stratum, query, rule text, tools, answer, trace). Out: the rows of a sheet, its key, and from a
filled sheet the shares of agreement with 95 % Wilson intervals. Part 1 of the sheet asks of each request whether it is
natural and which tools it needs; part 2, in another order, where the reasoning leads, with its last sentence cut off.
"""

import random
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from synthesis.core.agreement import wilson
from synthesis.core.names import SENTENCE_END
from trace_site.lib.cells import guard
from trace_site.lib.errors import TraceError

COLUMNS = ("part", "number", "request", "rule", "tools", "reasoning", "natural", "which_tools", "leads_to")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
YES, NO = {"yes", "y", "1", "true"}, {"no", "n", "0", "false"}
KEPT = {"stratum": str, "letters": str, "tools": int}  # of each row, in the key
QUESTIONS = ("natural", "which_tools", "leads_to")


@dataclass(frozen=True)
class BlindReading:
    """One sample as it is laid before a reader: `tools` are (name, description), already shuffled."""

    id: int
    stratum: str
    query: str
    rule: str
    tools: tuple[tuple[str, str], ...]
    answer: tuple[str, ...]
    trace: str


def sheet(readings: Sequence[BlindReading], seed: int) -> tuple[list[dict[str, str]], dict[str, Any]]:
    """(rows of the sheet in random order, the key to it)."""
    rng = random.Random(f"{seed}|blind")
    rows, key = [], {}
    for part in (1, 2):
        for number, reading in enumerate(rng.sample(readings, len(readings)), start=1):
            lettered = list(zip(LETTERS, reading.tools, strict=False))
            shown = {"part": str(part), "number": str(number), "request": reading.query}
            shown["tools"] = "\n".join(f"{letter}. {name}: {text}" for letter, (name, text) in lettered)
            shown |= {"rule": reading.rule} if part == 1 else {"reasoning": without_end(reading.trace)}
            rows.append({column: guard(shown.get(column, "")) for column in COLUMNS})
            right = "".join(letter for letter, (tool, _) in lettered if tool in reading.answer)
            known = {"sample": reading.id, "stratum": reading.stratum, "letters": right}
            key[f"{part}-{number}"] = {**known, "tools": len(reading.tools)}
    return rows, {"seed": seed, "rows": key}


def without_end(trace: str) -> str:
    """The reasoning without the sentence that commits."""
    ends = list(SENTENCE_END.finditer(trace.strip()))
    return trace.strip()[: ends[-1].start() + 1] if ends else ""


def score(rows: Sequence[Mapping[str, str]], key: Any) -> dict[str, Any]:
    """{question: {stratum or "all": {agreed, of, share, low, high}}, "open": rows without an answer}."""
    tally: dict[str, dict[str, list[bool]]] = {name: defaultdict(list) for name in QUESTIONS}
    open_cells = 0
    for row in rows:
        if missing := {"part", "number"} - row.keys():
            raise _bad(f"has no column '{sorted(missing)[0]}'", "the sheet")
        part, number = row["part"].strip(), row["number"].strip()
        printed = key.get("rows") if isinstance(key, dict) else None
        known = printed.get(f"{part}-{number}") if isinstance(printed, dict) else None
        if not isinstance(known, dict) or any(type(known.get(name)) is not KEPT[name] for name in KEPT):
            raise _bad("is not in the key; sheet and key must be of one printing", f"row {part}-{number}")
        for question in QUESTIONS[:2] if part == "1" else QUESTIONS[2:]:
            if not (said := row.get(question, "").strip()):
                open_cells += 1
                continue
            agreed = _agrees(question, said, known, f"row {part}-{number}, column {question}")
            for group in ("all", known["stratum"]):
                tally[question][group].append(agreed)
    shares = {
        name: {group: share(found) for group, found in groups.items()} for name, groups in tally.items()
    }
    return {**shares, "open": open_cells}


def _agrees(question: str, said: str, known: Mapping[str, Any], where: str) -> bool:
    if question == "natural":
        if said.casefold() not in YES | NO:
            raise _bad(f"'{said}' is neither yes nor no", where)
        return said.casefold() in YES
    letters = set(re.findall(r"[A-Z]", said.upper()))
    allowed = LETTERS[: known["tools"]] or "A"
    if not letters or re.sub(r"[A-Za-z,;./+&\s]", "", said) or not letters <= set(allowed):
        raise _bad(f"'{said}' is not letters of A to {allowed[-1]}", where)
    return letters == set(known["letters"])


def _bad(problem: str, where: str) -> TraceError:
    return TraceError(
        f"{problem}.", code="bad_sheet", where=where, hint="Fill in the sheet as it was printed."
    )


def share(found: Sequence[bool]) -> dict[str, float]:
    """Agreement with its 95 % Wilson interval."""
    rate = wilson(sum(found), len(found))
    assert rate.value is not None, "needs a reading"
    return {"agreed": sum(found), "of": len(found), "share": rate.value, "low": rate.low, "high": rate.high}
