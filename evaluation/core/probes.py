"""Probes of tool knowledge: what MCQ_ts, QA_ts and MCQ_expert ask, and how the answers are counted.

In: benchmark rows of the three kinds. Out: lettered questions {"id","question","choices","tool","answer",
"domain"} for the engine, and accuracy with its interval beside the random baseline. A question about a tool of the half
that Stage 1 may learn letters on (training/core/questions.py) counts for no model, also not for the untrained base or
one that learned no letters: so every row of a table counts the same questions. Reports say how many are left out.
"""

import random
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from evaluation.core.stats import DRAWS, bootstrap
from trace_site.lib.errors import TraceError
from training.core.questions import (
    YES_NO,
    Questions,
    as_asked,
    folded,
    mcq_question,
    qa_question,
    said,
    taught,
)

__all__ = [
    "MOST_CHOICES",
    "YES_NO",
    "accuracy",
    "counted",
    "expert_question",
    "lettered",
    "mcq_question",
    "qa_question",
    "random_baseline",
]

MOST_CHOICES = 26
Row = dict[str, Any]


def expert_question(row: Mapping[str, Any]) -> dict[str, Any]:
    letters = ascii_uppercase[: len(row["choices"])]
    if not 2 <= len(row["choices"]) <= MOST_CHOICES or row["answer"] not in letters:
        raise TraceError(
            f"answer {row['answer']!r} is not a letter of its {len(row['choices'])} choices.",
            code="bad_probe",
            where=f"question {row['id']}",
        )
    return as_asked(row, list(row["choices"]), row["answer"])


def lettered(kind: str, rows: Sequence[Mapping[str, Any]], *, seed: int = 0) -> list[dict[str, Any]]:
    """Benchmark rows of kind mcq, qa or mcq_expert as lettered questions."""
    if kind == "mcq":
        return [mcq_question(row, seed=seed) for row in rows]
    return [qa_question(row) if kind == "qa" else expert_question(row) for row in rows]


def counted(rows: Sequence[Row]) -> list[Row]:
    """The items of a benchmark that count for a model: requests, and questions about no tool or an untaught one."""
    return [row for row in rows if not row.get("tool") or not taught(row["tool"])]


def random_baseline(questions: Sequence[Mapping[str, Any]]) -> float:
    """1/N of the sum of 1/k over the questions, k = its number of options."""
    return sum(1 / len(question["choices"]) for question in questions) / len(questions)


def accuracy(
    letters: Mapping[str, str], questions: Sequence[Mapping[str, Any]], *, seed: int = 0, draws: int = DRAWS
) -> dict[str, Any]:
    """{"all" or domain: {"n","accuracy","random","options"}}; `letters`: the answer given, by question id."""
    slices: dict[str, list[Mapping[str, Any]]] = {"all": list(questions)}
    for question in questions:
        if str(question["id"]) not in letters:
            raise TraceError(
                f"question {question['id']} has no prediction.",
                code="incomplete_predictions",
                hint="Run the evaluation again; it goes on where it stopped.",
            )
        slices.setdefault(str(question["domain"]), []).append(question)
    return {name: _accuracy(letters, chosen, seed, draws) for name, chosen in slices.items() if chosen}


def _accuracy(
    letters: Mapping[str, str], questions: Sequence[Mapping[str, Any]], seed: int, draws: int
) -> dict[str, Any]:
    right = [float(letters[str(question["id"])] == question["answer"]) for question in questions]
    options: dict[int, int] = {}
    for question in questions:
        options[len(question["choices"])] = options.get(len(question["choices"]), 0) + 1
    return {
        "n": len(questions),
        "accuracy": bootstrap(right, seed=seed, draws=draws).as_dict(),
        "random": random_baseline(questions),
        "options": {str(count): options[count] for count in sorted(options)},
    }


# Builds MCQ_ts and QA_ts rows from a catalog alone, without a language model ("built": "offline").
#
# In: tools {"name","description","domain"} and their neighbours, best first. Out: rows, only about tools of the half
# that Stage 1 never learns a letter for (training/core/questions.py), whichever models will be asked: so a model that
# was trained with lettered choices, one that was not and the untrained base answer the same questions. A sentence
# that is also said of a tool of the taught half is never the right answer.


class ProbeBuilder:
    """Draws from the questions of a catalog; a row depends on the seed and its tool, not on other rows."""

    def __init__(
        self, tools: Sequence[Mapping[str, Any]], neighbours: Mapping[str, Sequence[str]], *, seed: int = 0
    ) -> None:
        self.names = sorted(tool["name"] for tool in tools if not taught(tool["name"]))
        known = said(tool for tool in tools if taught(tool["name"]))
        self.questions = Questions(tools, neighbours, known)
        self.seed = seed

    def mcq(self, count: int) -> list[dict[str, Any]]:
        return self._rows("mcq", count)

    def qa(self, count: int) -> list[dict[str, Any]]:
        return self._rows("qa", count)

    def _rows(self, kind: str, count: int) -> list[dict[str, Any]]:
        """Tools in a seeded order, round after round, so that every domain is drawn in its own proportion."""
        names = list(self.names)
        random.Random(f"{self.seed}:{kind}").shuffle(names)
        rows: dict[str, dict[str, Any]] = {}
        for turn in range(4):
            for position, name in enumerate(names):
                if len(rows) == count:
                    break
                draw = random.Random(f"{self.seed}:{kind}:{turn}:{name}")
                yes = (position + turn) % 2 == 0
                asked = self.questions
                row = asked.mcq(name, draw) if kind == "mcq" else asked.qa(name, yes, draw)
                if row and folded(str(row)) not in rows:
                    rows[folded(str(row))] = row
        return [{"id": f"{kind}-{number:04d}", **row} for number, row in enumerate(rows.values(), start=1)]
