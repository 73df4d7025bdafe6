"""Clean samples over the public tools and rules, written apart from the offline writers, for filter V's tests.

In: the public catalog, a seed. Out: `Candidate`s that keep every rule of filter V, their traces 0.4 to 2 kB long.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rules.core.rules_file import base_code
from synthesis.core.filters import Candidate, FilterContext
from synthesis.core.names import ToolNames, rule_codes

WHO = (
    "my colleague in Lyon", "the team upstairs", "our branch near Porto", "the new joiner", "a client from Oslo",
    "the auditor", "Maria", "Mr Okafor", "the night shift", "someone in logistics", "Yusuf", "our Tokyo desk",
    "the intern", "a supplier of ours", "Chiara from sales", "the board", "grandfathered staff", "Team Blue",
)  # fmt: skip
WISH = (
    "wonders what happened with", "is still waiting for", "wants a look at", "asks me to sort out", "needs help over",
    "keeps calling about", "wrote twice because of", "cannot make sense of", "would like to know more about",
    "has lost track of", "is unhappy about", "must decide this week about", "sent a note concerning",
)  # fmt: skip
THING = (
    "that odd amount", "the spring bonus", "a missing receipt", "the June paperwork", "some old figures",
    "a late refund", "the overtime question", "our shared folder", "those two numbers", "a doubled charge",
    "the moving costs",
    "last winter's claim", "the blue form", "a small correction", "the parental leave plan", "an unpaid dinner",
    "the third instalment", "an address change", "the dental cover", "a wrong surname",
)  # fmt: skip
WHEN = (
    "before Friday", "since the 4th of May", "for Q3", "as of 2021", "after the merger", "this morning", "by noon",
    "until the 30th", "over the summer", "for week 12", "in 2026", "once the office reopens", "before the holidays",
)  # fmt: skip
FILL = (
    "At first sight the wording leaves more than one way to read it.",
    "What matters is who asks, since when, and what they hope to receive.",
    "Nothing in the sentence points to a larger batch of records.",
    "The mention of time narrows it down further.",
    "A change of data is not asked for, only a clear view of it.",
    "So the services that merely send messages are out.",
    "Close names do not mean the same work, so each has to be read on its own.",
    "The difference lies in what comes back, not in what goes in.",
    "That would answer another question.",
    "One of them is older, and its records end too early.",
    "“Urgent” is a tone here, not a condition – it changes nothing.",
    "Money moves in neither case; a person’s details might.",
)  # fmt: skip
NAMED = (
    "Reading {0} shows that it serves another purpose.",
    "{0} is near in wording, yet it starts from a different record.",
    "Somebody might reach for {0} and {1} first.",
    "Between {0} and {1} the words alone would not settle it.",
    "With {0}, the same request would come back empty.",
    "(See {0}; or {1}.)",
    "Compare {0}, {1}: only one keeps the history.",
)
CITED = (
    "{code} settles this: in such a case it is {name}.",
    "By {code}, {name} takes over here.",
    "The rule {code} says so plainly, hence {name}.",
    "Here {code} holds, which leads to {name}.",
)
COMMITS = (
    "So {names}.",
    "That leaves {names}.",
    "It has to be {names}.",
    "The answer is therefore {names}!",
    "{names}.",
)


@dataclass(frozen=True)
class Public:
    """The public catalog and rules as plain rows."""

    tools: dict[str, dict[str, Any]]
    rules: list[tuple[str, tuple[str, ...]]]  # code, T(r) with the target first

    def context(self) -> FilterContext:
        dead = frozenset(name for name, tool in self.tools.items() if tool["deprecated"])
        return FilterContext(ToolNames(self.tools), dead, codes=rule_codes(code for code, _ in self.rules))


def read_public(folder: Path) -> Public:
    files = sorted((folder / "catalog").glob("*.jsonl"))
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    used: set[str] = set()
    rules = []
    for entry in json.loads((folder / "rules" / "rules.json").read_text()):
        base = base_code(entry["tool_name"])
        code = next(c for c in (base, *(f"{base}_{n}" for n in range(2, 99))) if c not in used)
        used.add(code)
        rules.append((code, (entry["tool_name"], *entry["confusables"])))
    return Public({row["name"]: row for row in rows}, rules)


def clean_samples(public: Public, count: int, seed: int = 0) -> Iterator[Candidate]:
    rng = random.Random(seed)
    live = sorted(name for name, tool in public.tools.items() if not tool["deprecated"])
    rules = [rule for rule in public.rules if not public.tools[rule[1][0]]["deprecated"]]
    for number in range(count):
        query = _query(rng)
        if number % 2:
            yield _for_rule(rng, public, rng.choice(rules), live, query)
        else:
            yield _for_anchor(rng, public, live, query)


def _query(rng: random.Random) -> str:
    texts = [f"{rng.choice(WHO)} {rng.choice(WISH)} {rng.choice(THING)}", rng.choice(WHEN)]
    if rng.random() < 0.5:
        texts.insert(1, f"and {rng.choice(THING)}")
    if rng.random() < 0.4:
        texts.append(rng.choice(("please", "can you check?", "thanks", "what now?", "any idea?")))
    return " ".join(texts)


def _for_anchor(rng: random.Random, public: Public, live: list[str], query: str) -> Candidate:
    tier, size = rng.choice((("easy", 1), ("medium", 2), ("medium", 3), ("hard", 4), ("hard", 6)))
    pool = rng.sample(live, 14)
    answer = tuple(pool[:size])
    trace = _trace(rng, query, pool, answer, "")
    return Candidate(
        "rrb", query, answer, frozenset(pool), trace, tier=tier, permission_tags=_tags(public, pool)
    )


def _for_rule(
    rng: random.Random, public: Public, rule: tuple[str, tuple[str, ...]], live: list[str], query: str
) -> Candidate:
    code, tools = rule
    others = [name for name in tools[1:] if not public.tools[name]["deprecated"]]
    style = rng.choice(("explicit", "implicit", "underspecified", *(["exception"] if others else [])))
    answer = (rng.choice(others) if style == "exception" else tools[0],)
    pool = list(dict.fromkeys((*tools, *rng.sample(live, 13))))
    rng.shuffle(pool)
    trace = _trace(rng, query, pool, answer, code)
    tags = _tags(public, pool)
    return Candidate(
        "rule", query, answer, frozenset(pool), trace, style, "", code, tools, permission_tags=tags
    )


def _trace(rng: random.Random, query: str, pool: list[str], answer: tuple[str, ...], code: str) -> str:
    parts = [f"The request says '{query}', which is about {rng.choice(THING)}."]
    for _ in range(rng.randint(3, 14)):
        said = rng.choice((FILL, NAMED))
        parts.append(rng.choice(said).format(*rng.sample(pool, 2)))
    if code:
        parts.append(rng.choice(CITED).format(code=code, name=answer[0]))
    parts.append(rng.choice(COMMITS).format(names=_listed(rng, answer)))
    return rng.choice((" ", " ", "\n", "  ")).join(parts)


def _listed(rng: random.Random, names: tuple[str, ...]) -> str:
    names = tuple(rng.sample(names, len(names)))
    if len(names) == 1:
        return names[0]
    return rng.choice((f"{', '.join(names[:-1])} and {names[-1]}", "; ".join(names)))


def _tags(public: Public, pool: list[str]) -> frozenset[str]:
    return frozenset(tag for name in pool for tag in public.tools[name]["permissions"])
