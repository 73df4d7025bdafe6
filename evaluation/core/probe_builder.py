"""Builds MCQ_ts and QA_ts rows from a catalog alone, without a language model ("built": "offline").

In: tools {"name","description","domain"} and their neighbours, best first. Out: rows. A statement is
one sentence of a description; wrong options come from the nearest look-alikes, so that only knowing THIS tool
helps. The tool itself is named by its token, never in the text.
"""

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from catalog.core.tokens import split_name

BUILT = "offline"
WRONG_OPTIONS = 3
LONGEST_STATEMENT = 220  # characters
MCQ_QUESTIONS = ("Which statement is true of this tool?", "What does this tool do?")
QA_QUESTION = "Is this true of the tool? {statement}"
# one word changed makes an own statement wrong; both directions, whole words
OPPOSITES = (
    ("create", "delete"),
    ("creates", "deletes"),
    ("add", "remove"),
    ("adds", "removes"),
    ("read", "update"),
    ("reads", "updates"),
    ("return", "overwrite"),
    ("returns", "overwrites"),
    ("list", "cancel"),
    ("lists", "cancels"),
    ("retrieve", "replace"),
    ("retrieves", "replaces"),
    ("start", "stop"),
    ("approve", "reject"),
    ("approves", "rejects"),
    ("one", "all"),
    ("single", "every"),
    ("daily", "yearly"),
    ("monthly", "weekly"),
    ("gross", "net"),
    ("incoming", "outgoing"),
    ("draft", "posted"),
)
SWAP = {**dict(OPPOSITES), **{right: left for left, right in OPPOSITES}}


def statements(description: str, hidden: Iterable[str]) -> list[str]:
    """The sentences of a description that can stand alone, names replaced."""
    found: list[str] = []
    for sentence in re.split(r"(?<=[.!?;])\s+(?=[A-Z0-9])", description.strip()):
        text = hide_names(sentence.strip(), hidden)
        if len(text.split()) >= 4 and text not in found:
            found.append(shortened(text))
    return found


def hide_names(text: str, names: Iterable[str]) -> str:
    """Full names, and their two parts where they are written as identifiers, become "this tool"."""
    parts = {part for name in names for part in (name, *split_name(name))}
    for part in sorted(parts, key=lambda value: (-len(value), value)):
        text = re.sub(rf"(?<!\w){re.escape(part)}(?!\w)", "this tool", text, flags=re.IGNORECASE)
    return text


def shortened(text: str) -> str:
    if len(text) <= LONGEST_STATEMENT:
        return text
    return text[:LONGEST_STATEMENT].rsplit(" ", 1)[0].rstrip(",;:") + " ..."


def folded(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", text.lower()))


class ProbeBuilder:
    """Holds the statements of a catalog; a row depends on the seed and its tool, not on other rows."""

    def __init__(
        self, tools: Sequence[Mapping[str, Any]], neighbours: Mapping[str, Sequence[str]], *, seed: int = 0
    ) -> None:
        self.tools = {tool["name"]: tool for tool in tools}
        self.neighbours = neighbours
        self.seed = seed

    def mcq(self, count: int) -> list[dict[str, Any]]:
        return self._rows("mcq", count)

    def qa(self, count: int) -> list[dict[str, Any]]:
        return self._rows("qa", count)

    def _rows(self, kind: str, count: int) -> list[dict[str, Any]]:
        """Tools in a seeded order, round after round, so that every domain is drawn in its own proportion."""
        names = sorted(self.tools)
        random.Random(f"{self.seed}:{kind}").shuffle(names)
        rows: dict[str, dict[str, Any]] = {}
        for turn in range(4):
            for position, name in enumerate(names):
                if len(rows) == count:
                    break
                draw = random.Random(f"{self.seed}:{kind}:{turn}:{name}")
                yes = (position + turn) % 2 == 0
                row = self._mcq(name, draw) if kind == "mcq" else self._qa(name, yes, draw)
                if row and folded(str(row)) not in rows:
                    rows[folded(str(row))] = row
        return [{"id": f"{kind}-{number:04d}", **row} for number, row in enumerate(rows.values(), start=1)]

    def _mcq(self, name: str, draw: random.Random) -> dict[str, Any] | None:
        own = self._own(name)
        wrong = self._foreign(name, WRONG_OPTIONS)
        if not own or len(wrong) < WRONG_OPTIONS:
            return None
        question = draw.choice(MCQ_QUESTIONS)
        return self._row(name, question) | {"correct": draw.choice(own), "wrong": wrong}

    def _qa(self, name: str, yes: bool, draw: random.Random) -> dict[str, Any] | None:
        own = self._own(name)
        if not own:
            return None
        pick = draw.choice(own)
        if not yes:
            wrong = [*self._foreign(name, 2), *filter(None, [self._edited(pick, name)])]
            if not wrong:
                return None
            pick = draw.choice(wrong)
        return self._row(name, QA_QUESTION.format(statement=pick)) | {"answer": "Yes" if yes else "No"}

    def _row(self, name: str, question: str) -> dict[str, Any]:
        return {"tool": name, "question": question, "domain": self.tools[name]["domain"], "built": BUILT}

    def _own(self, name: str) -> list[str]:
        return statements(self.tools[name]["description"], [name])

    def _foreign(self, name: str, limit: int) -> list[str]:
        """Statements of the nearest look-alikes that are not also true of this tool, one per look-alike."""
        known = folded(" ".join([self.tools[name]["description"], *self._own(name)]))
        chosen: list[str] = []
        for other in self.neighbours.get(name, ()):
            if other not in self.tools or other == name or len(chosen) == limit:
                continue
            for text in statements(self.tools[other]["description"], [name, other]):
                if folded(text) not in known and folded(text) not in map(folded, chosen):
                    chosen.append(text)
                    break
        return chosen

    def _edited(self, text: str, name: str) -> str | None:
        """An own statement with one decisive word or number changed."""
        words = text.split(" ")
        for place, word in enumerate(words):
            core = word.strip(".,;:()")
            other = SWAP.get(core.lower(), str(int(core) + 1) if core.isdecimal() else "")
            if other:
                other = other.capitalize() if core[:1].isupper() else other
                edited = " ".join([*words[:place], word.replace(core, other, 1), *words[place + 1 :]])
                return None if folded(edited) in folded(self.tools[name]["description"]) else edited
        return None
