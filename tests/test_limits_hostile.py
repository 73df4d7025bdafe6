"""What a text costs does not depend on what it says: the worst known content of each kind of field, and a search for
worse. Costs are compared with those of ordinary text of the same length, never with the clock."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from django.conf import settings

from catalog.core.importers.read import read_catalog
from catalog.core.scrubbing.scrub import scrub
from catalog.core.words import spelt_alike, stem, trigrams, vocabulary
from catalog.queries.imports import MAX_CHARACTERS, read_queries
from rules.core.check import MOST_FINDINGS, check_reading
from rules.core.draft import content_of, draft_problems
from rules.core.pairs import read_pairs
from rules.core.reading import Reading
from rules.core.rule import LONGEST_RULE, make_content
from rules.core.rule_book import RuleBook, ToolState
from rules.core.rules_file import read_rules, schema_problems
from rules.core.sentences import compare
from rules.core.text_clauses import text_clauses
from tests.hostile import Work, cost, dearest, filled
from trace_site.lib.errors import TraceError

TOOLS = [f"Pay/{name}" for name in ("GetSlip", "GetSlips", "ListSlip", "VoidSlip", "SendSlip")]
BOOK = RuleBook({name: ToolState() for name in TOOLS}, ())
REQUESTS = [
    json.loads(row)["query"]
    for row in (settings.BASE_DIR / "trace_site" / "demo" / "prb.jsonl").read_text("utf-8").splitlines()
]
SPOKEN = f"When the invoice of last month is final, use {TOOLS[0]}; for drafts {TOOLS[1]} is right. "
DOUBLED = 2.5  # times what half the text costs
MEASURED = 3  # times, before a text is called too dear
SEEDS, TRIES = range(3), 250


def rule_text(text: str) -> None:
    reading = Reading(make_content(target=TOOLS[0], confusables=TOOLS[1:], text=f"{text}{TOOLS[1]}"))
    check_reading(reading, BOOK)
    read_pairs(reading)


def conditions(text: str) -> None:
    clause = {"when": text[:2000], "route_to": TOOLS[0], "exception": False, "signals": []}
    compare(text, [clause] * 5, TOOLS)
    text_clauses(make_content(target=TOOLS[0], confusables=TOOLS[1:], text=text))


def schema(text: str) -> None:
    """Its pieces as the fields of a rule."""
    parts = [text[at : at + 100] for at in range(0, len(text), 100)]
    tests = [{"query": part, "tools": [part, *TOOLS]} for part in parts]
    clauses = [{"when": part, "route_to": part, "signals": [part]} for part in parts]
    entry = {
        "tool_name": text[:400],
        "confusables": parts,
        "rule_text": text,
        "tests": tests,
        "clauses": clauses,
    }
    list(schema_problems(entry))
    draft_problems({"target": text[:400], "confusables": parts, "text": text, "tests": tests})


def search(text: str) -> None:
    vocabulary(text, text)
    for word in text.split():
        stem.__wrapped__(word)
        trigrams(word)
    spelt_alike(text[:60], [*TOOLS, text[1:61]] * 5)


def files(text: str) -> None:
    """What may be sent as a file, read as every format."""
    for name in ("new.csv", "new.jsonl", "new.txt"):
        quietly(lambda name=name: read_queries(text, name))
    quietly(lambda: read_rules(text.encode("utf-8", "replace"), "new", 1000))
    with TemporaryDirectory() as folder:  # tests beside this one write theirs
        for suffix in ("csv", "jsonl"):
            path = Path(folder, f"hostile.{suffix}")
            path.write_text(text, "utf-8")
            quietly(lambda path=path, suffix=suffix: read_catalog(path, fmt=suffix))


def quietly(work: Callable[[], object]) -> None:
    with suppress(TraceError):
        work()


@dataclass(frozen=True)
class Kind:
    work: Work
    ordinary: str
    length: int
    fragments: list[str]
    times: float  # what ordinary text costs
    worst: list[str] = field(default_factory=list)


NUMBERS = [
    "1/",
    "1 ",
    "1-",
    "1.",
    "0 ",
    "(0",
    "12 ",
    "+1 ",
    "00 1",
    "4111 1111 ",
    "555-",
    "4155552671 ",
    "612 34 56 78 ",
    "020 7946 0958 ",
    "+49 171 5552091 ",
    "98765 43210 ",
    "1 800 ",
    "1.1.1.1.",
    "DE12 ",
    "GB82",
    "de12-",
    ":",
    "::",
]
SAID = [
    "ssn is ",
    "phone ",
    "call me ",
    "born on ",
    "pin is ",
    "secret:",
    "emp no ",
    "passport no is ",
    "isbn ",
    "no ",
    "#",
    "Mr. ",
    "Ma ",
    "van ",
    "Maria de ",
    "maria's ",
    "my name is ",
    "a@b.co ",
    "x at y dot ",
    "[at]",
    '"',
    "'",
    "ni A1 ",
    "a://",
    "a://?",
    "a://b:",
    "?key",
    "?token=",
    "eyJa.",
    "sk-",
    "bearer ",
    "a.",
    "a-",
    "a",
    "é",
    "_",
]
JOINS = [
    "use ",
    "then ",
    "and ",
    "or ",
    ", ",
    "never ",
    "not ",
    "the ",
    "when ",
    "if ",
    "only ",
    "instead of ",
    "for ",
    "is ",
    "deprecated ",
    "because ",
    "for example ",
    "in case ",
    "e.g. ",
    "(",
    ")",
    ": ",
    "? ",
    ". ",
    "\n",
    " ",
    "x ",
    "a/",
    "really ",
]
NAMES = [f"{name} " for name in TOOLS] + ["Pay/GetSlp ", "Pay/", "pay.get/x "]
MARKS = [
    '"',
    "'",
    ",",
    "\n",
    ";",
    "\t",
    "{",
    "[",
    '{"a":',
    '{"query":"x"}\n',
    "query,a\n",
    '""',
    "\\u0041",
    "<",
    "&",
    "x",
    "9",
    "- ",
]

KINDS = {
    "text that is scrubbed": Kind(
        scrub,
        " ".join(REQUESTS),
        4 * MAX_CHARACTERS,
        NUMBERS + SAID,
        8,
        [
            "1/",
            "0 ",
            "van ",
            "phone ",
            "a://?key",
            "4155552671 ",
            "+49 171 5552091 ",
            "(0",
            "555-",
            "no 00 14111 1111 ",
        ],
    ),
    "text of a rule": Kind(
        rule_text,
        SPOKEN,
        LONGEST_RULE,
        JOINS + NAMES,
        6,
        [
            " ",
            "not the ",
            "then ",
            "only ",
            f"use {TOOLS[0]} ",
            "a/b ",
            "Pay/GetSlp ",
            ", ",
            "for example ",
            "and x ",
        ],
    ),
    "conditions": Kind(
        conditions, SPOKEN, LONGEST_RULE, JOINS + NAMES, 6, [" ", "when ", "exception: when x, ", "\n"]
    ),
    "JSON schema": Kind(schema, SPOKEN, LONGEST_RULE, JOINS + NAMES + MARKS, 6, [" ", "é", "Pay/GetSlip"]),
    "search": Kind(search, " ".join(REQUESTS), 200, SAID + NAMES, 6, ["aA", "a1", "1/", "é", "ing"]),
    "file": Kind(
        files, "\n".join(REQUESTS), 20_000, MARKS + NAMES, 60, ['"', '{"a":', "[", "\n", '""', "a,b\n"]
    ),
}


def too_dear(kind: Kind, unit: str) -> str:
    """What is wrong with the costs of a text of nothing but this, however often they are measured; empty when it is as
    dear as others."""
    wrong = ""
    for _ in range(MEASURED):  # a busy machine may slow one measurement and not the other
        if not (wrong := seems_too_dear(kind, unit)):
            return ""
    return wrong


def seems_too_dear(kind: Kind, unit: str) -> str:
    """Where a text is cut may make it another case, so it grows too fast only if it does so twice."""
    lengths = (kind.length // 2, kind.length, 2 * kind.length)
    usual = [cost(kind.work, filled(kind.ordinary, length)) for length in lengths[:2]]
    half, whole, twice = (cost(kind.work, filled(unit, length)) for length in lengths)
    times, growth = whole / usual[1], min(whole / max(half, usual[0]), twice / whole)
    return (
        f"{unit!r}: {times:.1f} times, grows {growth:.1f}" if times > kind.times or growth > DOUBLED else ""
    )


@pytest.mark.parametrize("name", KINDS)
def test_the_worst_known_contents_cost_little_more_than_ordinary_ones(name):
    wrong = [line for unit in KINDS[name].worst if (line := too_dear(KINDS[name], unit))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", KINDS)
def test_a_search_finds_no_worse_contents(name, seed):
    kind = KINDS[name]
    found = dearest(kind.work, kind.fragments, kind.length, seed, TRIES)
    wrong = [line for unit in found if (line := too_dear(kind, unit))]
    assert not wrong, "\n".join(wrong)


def test_of_very_many_findings_the_answer_says_how_many_it_leaves_out():
    tests = [{"query": "show the slips of last month now", "tools": [TOOLS[at % 2]]} for at in range(200)]
    draft = {"target": TOOLS[0], "confusables": TOOLS[1:], "text": SPOKEN, "tests": tests}
    assert draft_problems(draft) == []
    found = check_reading(Reading(content_of(draft)), BOOK)
    assert len(found) == MOST_FINDINGS + 1 and found[-1].code == "more"
    assert found[0].level == "error"


def test_a_rule_is_bounded_in_all_not_only_in_each_field():
    signals = [f"signal {at}" for at in range(200)]
    clause = {"when": "x", "route_to": TOOLS[0], "exception": False, "signals": signals}
    [(pointer, sentence)] = draft_problems({"text": SPOKEN, "clauses": [clause] * 100})
    assert pointer == "" and "at most 60,000 fit" in sentence
