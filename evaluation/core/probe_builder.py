"""Builds MCQ_ts and QA_ts rows from a catalog alone, without a language model ("built": "offline").

In: tools {"name","description","domain"} and their neighbours, best first. Out: rows, only about tools of the half that
Stage 1 never learns a letter for (training/core/questions.py), whichever models will be asked: so a model that was
trained with lettered choices, one that was not and the untrained base answer the same questions. A sentence that is
also said of a tool of the taught half is never the right answer.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from training.core.questions import Questions, folded, said, taught


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
