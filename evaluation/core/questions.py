"""Lettered questions about tools, from a catalog alone: what MCQ_ts and QA_ts ask.

In: tools {"name","description","domain"} and their neighbours, best first. Out: rows, and the same with their options
in order. A statement is one sentence of a description; wrong options come from the nearest look-alikes, so that only
knowing THIS tool helps. The tool itself is named by its token, never in the text.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from string import ascii_uppercase
from typing import Any

import regex

from catalog.core.tokens import split_name
from catalog.core.words import plain_words
from trace_site.lib.letters import BARE, IN_WORD, count_words, sentence_end

BUILT = "offline"
SENTENCE_END = sentence_end(r"(?<=[.!?;])\s+(?=[A-Z0-9])")
YES_NO = ("Yes", "No")
WRONG_OPTIONS = 3
LONGEST_STATEMENT = 220  # characters
MCQ_QUESTIONS = ("Which statement is true of this tool?", "What does this tool do?")
QA_QUESTION = "Is this true of the tool? {statement}"
# one word changed makes an own statement wrong; both directions, whole words
_OPPOSITES = """create delete; creates deletes; add remove; adds removes; read update; reads updates; return
    overwrite; returns overwrites; list cancel; lists cancels; retrieve replace; retrieves replaces; start stop;
    approve reject; approves rejects; one all; single every; daily yearly; monthly weekly; gross net; incoming
    outgoing; draft posted"""
PAIRS = map(str.split, _OPPOSITES.split(";"))
SWAP = {one: other for pair in PAIRS for one, other in (pair, pair[::-1])}


def statements(description: str, hidden: Iterable[str]) -> list[str]:
    """The sentences of a description that can stand alone, names replaced."""
    found: list[str] = []
    for sentence in SENTENCE_END.split(description.strip()):
        text = hide_names(sentence.strip(), hidden)
        if count_words(text) >= 4 and text not in found:
            found.append(shortened(text))
    return found


def hide_names(text: str, names: Iterable[str]) -> str:
    """Full names, and their two parts where they are written as identifiers, become "this tool"."""
    parts = {part for name in names for part in (name, *split_name(name))}
    for part in sorted(parts, key=lambda value: (-len(value), value)):
        edge = r"\w" if BARE.search(part) and "/" not in part else IN_WORD  # 給与 is a word of the text
        whole = rf"(?V1)(?<!{edge}){regex.escape(part)}(?!{edge})"
        text = regex.sub(whole, "this tool", text, flags=regex.IGNORECASE)
    return text


def shortened(text: str) -> str:
    if len(text) <= LONGEST_STATEMENT:
        return text
    return text[:LONGEST_STATEMENT].rsplit(" ", 1)[0].rstrip(",;:") + " ..."


def folded(text: str) -> str:
    return " ".join(plain_words(text))


class Questions:
    """The questions of a catalog; a row depends on its tool and the draw, not on other rows."""

    def __init__(self, tools: Iterable[Mapping[str, Any]], neighbours: Mapping[str, Sequence[str]]) -> None:
        self.tools = {tool["name"]: tool for tool in tools}
        self.neighbours = neighbours

    def mcq(self, name: str, draw: random.Random) -> dict[str, Any] | None:
        own = self._own(name)
        wrong = self._foreign(name, WRONG_OPTIONS)
        if not own or len(wrong) < WRONG_OPTIONS:
            return None
        question = draw.choice(MCQ_QUESTIONS)
        return self._row(name, question) | {"correct": draw.choice(own), "wrong": wrong}

    def qa(self, name: str, yes: bool, draw: random.Random) -> dict[str, Any] | None:
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


def mcq_question(row: Mapping[str, Any], *, seed: int = 0) -> dict[str, Any]:
    """Its options in an order that depends on the seed and its id alone."""
    choices = [row["correct"], *row["wrong"]]
    random.Random(f"{seed}:{row['id']}").shuffle(choices)
    return as_asked(row, choices, ascii_uppercase[choices.index(row["correct"])])


def qa_question(row: Mapping[str, Any]) -> dict[str, Any]:
    return as_asked(row, list(YES_NO), ascii_uppercase[YES_NO.index(row["answer"])])


def as_asked(row: Mapping[str, Any], choices: list[str], answer: str) -> dict[str, Any]:
    """A row as the engine asks it."""
    return {
        "id": str(row["id"]),
        "question": row["question"],
        "choices": choices,
        "tool": row.get("tool"),
        "answer": answer,
        "domain": row.get("domain", ""),
    }
