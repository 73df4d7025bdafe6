"""Filter V against a direct transcription of the paper's four checks: 10,000 fuzzed samples, none let through."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import settings

from catalog.core.tokens import NameIndex
from synthesis.core.filters import Candidate, Failure, failures
from tests.synthesis.clean_samples import Public, clean_samples, read_public
from tests.synthesis.paper_filter import paper_failures
from tests.token_lists import list_json
from trace_site.lib.errors import TraceError

DATA = Path(settings.TRACE_PUBLIC_DATA)
pytestmark = pytest.mark.skipif(
    not (DATA / "catalog").is_dir(), reason="the public data is absent (set TRACE_PUBLIC_DATA)"
)
FOUR = {"grounding", "leakage", "consistency", "attribution"}
QUOTED = ('OddDesk/say"so', "OddDesk/back\\slash")  # names whose tokens break a JSON list

# every way in which ours refuses what the paper's check accepts: (check, what its message begins with): why
STRICTER = {
    ("grounding", "The answer names no tool"): "an empty answer teaches nothing",
    ("grounding", "The answer is no active tool"): "the pool may be older than the catalog",
    ("grounding", "The trace names"): "an API that does not exist either",
    ("grounding", "The trace writes"): "imitated letters never become a token",
    ("consistency", "The trace commits to"): "the same in the last sentence",
    ("leakage", "The query names the tool"): "any tool's name, in any spelling, not the answers' alone",
    ("leakage", "The query holds the endpoint title"): "the part of the name people would know",
    ("leakage", "The query holds the rule's code"): "the code is as telling as the name",
    ("leakage", "The query holds the code of the rule"): "so is another rule's",
    ("leakage", "The query holds a token string"): "tokens spell names",
    ("consistency", "The answer names a tool twice"): "A is a set",
    ("consistency", "The trace goes on after"): "the commitment ends the trace",
    ("attribution", "The trace cites"): "a rule that is not this sample's, or its code in another spelling",
    ("target", ""): "the answer is within T(r), has the size of its tier, and no dead tool is taught",
    ("length", ""): "limits of the recipe",
    ("near_duplicate", ""): "variety",
    ("clean_voice", ""): "the rules for a trace",
}


GLUES = ((" ", " "), (" ", " "), (" ", " "), ("", " "), (" ", ""), ("-", ""), ("", "/x"), ("(", ")"))
STRANGE = (
    "PlaidX/GetNothing",
    "Plaid/accountsGetAll",
    "Square/no-such-thing",
    "NoSuchDesk/readAll",
    "and/or",
    "Q1/Q2",
)
MARKS = (
    ". ",
    "? ",
    "\n",
    "\n- ",
    "\n1. ",
    ".) ",
    "!",
    "; ",
    "from the candidate pool",
    "<<A&&B>>",
    "as the feedback says",
)
ENDS = (" That is all.", "\n- {0}", " So {0}.", "\nSo {0}", " (ok)", "!", f" because{' of this' * 20}.")


def insert(rng: random.Random, text: str, piece: str) -> str:
    """The piece as words of its own, or, now and then, glued to what stands there."""
    at = rng.choice([0, len(text), *(place for place, char in enumerate(text) if char == " ")])
    left, right = rng.choice(GLUES)
    return f"{text[:at]}{left}{piece}{right}{text[at:]}"


def some_name(rng: random.Random, sample: Candidate, public: Public) -> str:
    known = (*(set(sample.answer) - set(QUOTED)), *(sample.pool - set(QUOTED)))
    name = rng.choice(
        (rng.choice(sorted(known) or ["x/y"]), rng.choice(list(public.tools)), rng.choice(STRANGE))
    )
    return name[: len(name) - rng.choice((0, 0, 0, 1, 3))]


def spelt(rng: random.Random, name: str) -> str:
    endpoint = name.partition("/")[2]
    spaced = endpoint.replace("-", " ").replace("_", " ")
    imitated = name.replace("e", "\N{CYRILLIC SMALL LETTER IE}")
    split = f"{name[:3]}\N{ZERO WIDTH SPACE}{name[3:]}"
    return rng.choice(
        (name, name.lower(), name.replace("/", " "), endpoint, endpoint.upper(), spaced, imitated, split)
    )


def some_code(rng: random.Random, sample: Candidate, public: Public) -> str:
    code = rng.choice((sample.rule_code or "NO_RULE", rng.choice(public.rules)[0]))
    return rng.choice((code, code.lower(), code.replace("_", " "), f"{code}S"))


def spoil_trace(rng: random.Random, sample: Candidate, public: Public) -> str:
    trace, name, code = sample.trace, some_name(rng, sample, public), some_code(rng, sample, public)
    ways: tuple[Callable[[], str], ...] = (
        lambda: insert(rng, trace, name),
        lambda: insert(rng, trace, spelt(rng, name)),
        lambda: insert(rng, trace, code),
        lambda: insert(rng, trace, rng.choice((*MARKS, *sorted(sample.permission_tags)))),
        lambda: trace.rstrip(rng.choice((".", ""))) + rng.choice(ENDS).format(name),
        lambda: trace[: rng.randrange(len(trace) + 1)],
        lambda: trace.replace(sample.rule_code or "The", code),
        lambda: trace.replace(rng.choice([*sample.answer, "x"]), spelt(rng, name)),
    )
    return rng.choice(ways)()


def spoil_query(rng: random.Random, sample: Candidate, public: Public) -> str:
    names = [*sample.answer, *sample.rule_tools, some_name(rng, sample, public)]
    pieces = (
        rng.choice(names),
        spelt(rng, rng.choice(names)),
        some_code(rng, sample, public),
        rng.choice(("<<A&&B>>", "<tid>", "< <", "word " * 60)),
    )
    return insert(rng, sample.query, rng.choice(pieces))


def spoil(rng: random.Random, sample: Candidate, public: Public) -> Candidate:
    """One random change of trace, query, answer or pool."""
    part = rng.choice(("trace", "trace", "query", "answer", "pool", "odd"))
    if part == "trace":
        return replace(sample, trace=spoil_trace(rng, sample, public))
    if part == "query":
        return replace(sample, query=spoil_query(rng, sample, public))
    if part == "pool":
        return replace(sample, pool=sample.pool - {rng.choice(sorted(sample.pool))})
    answer, name = sample.answer, some_name(rng, sample, public)
    if part == "answer":
        return replace(
            sample, answer=rng.choice(((), answer[1:], (*answer, name), (*answer, *answer), (name,)))
        )
    odd = rng.choice((*QUOTED, "OddDesk/plain"))
    trace = f"{sample.trace} So OddDesk/plain." if odd not in QUOTED else sample.trace
    return replace(sample, answer=(*answer, odd), pool=sample.pool | {odd}, trace=trace)


def token_text(answer: tuple[str, ...], fmt: str) -> str:
    try:
        return list_json(answer, fmt)
    except TraceError:
        return "an answer without a tool's name has no tokens"


class Fuzz:
    """The catalog with the odd tools in it, and both filters over it."""

    def __init__(self, public: Public) -> None:
        self.tools = {**public.tools, **{name: next(iter(public.tools.values())) for name in QUOTED}}
        self.context = Public(self.tools, public.rules).context()
        self.apis = {name.partition("/")[0] for name in self.tools}
        self.tokens = {fmt: NameIndex(self.tools, fmt).tokens for fmt in "abc"}

    def paper(self, sample: Candidate, fmt: str) -> set[str]:
        rule = sample.rule_code if sample.branch == "rule" else None
        text = token_text(sample.answer, fmt)
        q, answer, z, pool = sample.query, sample.answer, sample.trace, sample.pool
        return paper_failures(q, answer, text, z, pool, self.apis, self.tokens[fmt], rule)

    def ours(self, sample: Candidate) -> tuple[list[Failure], set[str]]:
        found = failures(sample, self.context)
        checks = {failure.check for failure in found}
        if checks and not set(sample.answer) <= set(self.tools):
            checks.add("consistency")  # a tool without a token: ours says that it is no tool of the catalog
        return found, checks


@pytest.mark.parametrize("samples", [4_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_nothing_the_paper_refuses_passes_and_every_stricter_way_is_named(samples: int) -> None:
    public, rng = read_public(DATA), random.Random(20)
    fuzz = Fuzz(public)
    refused, stricter, alike = Counter[str](), Counter[tuple[str, str]](), 0
    for number, sample in enumerate(clean_samples(public, samples, seed=20)):
        for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
            sample = spoil(rng, sample, public)
        theirs = fuzz.paper(sample, "abc"[number % 3])
        found, checks = fuzz.ours(sample)
        assert theirs <= checks, (theirs, found, sample)
        refused.update(theirs)
        alike += bool(theirs) == bool(found)
        for failure in found:
            if failure.check not in theirs:
                ways = [
                    way for way in STRICTER if failure.check == way[0] and failure.message.startswith(way[1])
                ]
                assert ways, (failure, sample)
                stricter[ways[0]] += 1
        if number % 50 == 0:
            fuzz.context.seen.add(sample.query)
    assert set(refused) == FOUR and min(refused.values()) > samples / 100, refused
    assert alike > samples / 2
    assert set(stricter) == set(STRICTER), set(STRICTER) - set(stricter)
