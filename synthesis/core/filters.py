"""Filter V: pure, deterministic checks of one sample (paper, appendix B, made stricter).

In: a Candidate and the FilterContext of the run. Out: failures, each naming the check, a sentence and the evidence.
One function per check; `query_failures` needs no trace, so a bad query costs no trace.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Annotated

from ahocorasick_rs import AhoCorasick

from catalog.core.mentions import Mention, NameFinder
from catalog.core.tokens import FORMATS, tool_units
from catalog.core.words import join_words
from synthesis.core.names import (
    ODD,
    SENTENCE_END,
    Plain,
    ToolNames,
    committed,
    is_title,
    last_sentence,
    letters_of,
    rule_codes,
    whole_words,
    within,
)
from synthesis.core.queries import RuleText, ToolText
from synthesis.core.recipe import QueryStage, TraceStage
from synthesis.core.words import NearDuplicates, words
from trace_site.lib.errors import TraceError
from trace_site.lib.letters import count_words

LONGEST_EVIDENCE = 400  # characters, as many as the longest tool name


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a sample is refused. A `span` that is not empty is the place in query or trace, where `evidence` begins."""

    check: str
    message: str
    evidence: str = ""
    span: Annotated[tuple[int, int], "start and end in the trace, or in the query without one"] = (0, 0)

    def as_dict(self) -> dict[str, object]:
        return asdict(self) | {"span": list(self.span)}


def failure_at(check: str, message: str, text: str, start: int, end: int) -> Failure:
    """A failure with text[start:end] as its evidence, cut where it is long."""
    return Failure(check, message, text[start : min(end, start + LONGEST_EVIDENCE)], (start, end))


@dataclass(frozen=True, slots=True)
class Candidate:
    """One sample as the filter sees it. `rule_tools` is T(r), target first; empty without a rule."""

    branch: str
    query: str
    answer: tuple[str, ...]
    pool: frozenset[str]
    trace: str = ""
    style: str = ""
    tier: str = ""
    rule_code: str = ""
    rule_tools: tuple[str, ...] = ()
    permission_tags: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        branch: str,
        query: str,
        answer: tuple[str, ...],
        pool: Sequence[ToolText],
        rule: RuleText | None,
        *,
        style: str = "",
        tier: str = "",
        trace: str = "",
    ) -> "Candidate":
        return cls(
            *(branch, query, answer, frozenset(tool.name for tool in pool), trace, style, tier),
            *((rule.code, rule.tools) if rule else ("", ())),
            frozenset(tag for tool in pool for tag in tool.permissions),
        )


@dataclass(slots=True)
class FilterContext:
    """What a run builds once: the names and rule codes there are, dead answers, the queries so far, the word limits,
    the queries that people rejected."""

    names: ToolNames
    deprecated: frozenset[str] = frozenset()
    seen: NearDuplicates = field(default_factory=NearDuplicates)
    codes: NameFinder = field(default_factory=rule_codes)
    query_words: tuple[int, int] = QueryStage.words
    trace_words: tuple[int, int] = TraceStage.words
    rejected: frozenset[str] = frozenset()


# The query gives no name away: filter V's check of what a person could not have typed unknowingly.
#
# Refused are the full name of any tool, the endpoint title of two or more words of an answer or a tool of the rule,
# the rule's code, and token strings, in any spelling: camelCase, snake_case, apart or joined, full-width or imitated
# letters.

TOKEN_STRING = re.compile(r"<<[^<>\s][^<>]*>>|</?(?:tid|think)>", re.IGNORECASE)


def leakage(candidate: Candidate, context: FilterContext) -> list[Failure]:
    plain, code = Plain(candidate.query), candidate.rule_code
    leaks = [(start, end, f"names the tool {name}") for start, end, name in context.names.spellings(plain)]
    for name in dict.fromkeys(candidate.answer):
        # as the paper has it: anywhere in the query, even inside a longer word
        at = candidate.query.find(name) if name else -1
        if at >= 0:
            leaks.append((at, at + len(name), f"names the tool {name}"))
    for name in dict.fromkeys((*candidate.answer, *candidate.rule_tools)):
        title = name.partition("/")[2]
        if is_title(title):
            told, letters = f"holds the endpoint title of {name}", letters_of(title)
        else:
            told, letters = f"names the tool {name}", letters_of(name)
        leaks += [(start, end, told) for start, end in (plain.places(letters) if letters else ())]
    # a code of one word is a common word unless it stands there just as the code does
    spelt = plain.places(letters_of(code)) if is_title(code) else ()
    leaks += [(start, end, f"holds the rule's code {code}") for start, end in spelt]
    marks = [(*match.span(), "a token string") for match in TOKEN_STRING.finditer(plain.text)]
    codes = context.codes.find(plain.text)
    marks += [(start, end, f"the code of the rule {other}") for start, end, other in codes]
    marks += [(start, end, f"the rule's code {code}") for start, end in whole_words(plain.text, code)]
    leaks += [(*plain.span(start, end), f"holds {mark}") for start, end, mark in marks]
    # a longer leak tells more than those inside it
    leaks.sort(key=lambda leak: (leak[0], -leak[1]))
    failures: list[Failure] = []
    floor = 0
    for start, end, message in leaks:
        if end > floor:
            failures.append(failure_at("leakage", f"The query {message}.", candidate.query, start, end))
            floor = end
    return failures


# Clean voice: the trace reads as somebody's own reasoning, with nothing about how it was asked for.
#
# Refused are words about pool, prompt, feedback or instructions, permission tags, and token strings. Tool names, the
# query's own words and rule codes may hold such words; they are not the trace's voice.

VOICE = re.compile(
    r"""\b(?:candidate\s(?:pool|set|list|tools?)|(?:tool|the|this|given)\spool|shortlist|
    (?:tools?|candidates?|options?|endpoints?)\s(?:that\s(?:are|were|is)\s)?(?:given|provided|supplied|listed)|
    (?:given|provided|supplied|listed)\s(?:tools?|candidates?|options?|list)|
    selected\stools?|correct\stools?|gold|ground\struth|feedback|critique|reviewer|
    (?:the|this|my|your|system)\sprompt|instructions?|as\s(?:instructed|requested\sabove)|previous\sattempt|
    as\san\sai|language\smodel|step\s[1-9]|json)\b""",
    re.IGNORECASE | re.VERBOSE,
)
LONGEST = 40  # characters; more than any match of VOICE around one of the words below
# one of these is in every match of VOICE, and looking for them first costs a fiftieth
_HINTS = (
    "candidate pool shortlist given provided supplied listed selected correct gold truth feedback critique reviewer "
    "prompt instruct requested attempt language step json"
)
HINTS = AhoCorasick([*_HINTS.split(), "an ai", "an\nai", "an\tai"])
TAG_MARK = re.compile(r"[._:/\-]")


def clean_voice(candidate: Candidate, mentions: Sequence[Mention]) -> list[Failure]:
    trace = candidate.trace
    own = f"{candidate.query} {' '.join(candidate.answer)}".casefold()
    spans: set[tuple[int, int]] = set()
    for _, start, end in HINTS.find_matches_as_indexes(trace.lower()):
        stop = end + LONGEST
        while stop < len(trace) and trace[stop].isalnum():  # a word cut in two would seem to end there
            stop += 1
        spans.update(match.span() for match in VOICE.finditer(trace, max(0, start - LONGEST), stop))
    told = [(*span, "The trace speaks of how it was asked for.") for span in sorted(spans)]
    # permission tags written as tags; one that is a plain word says nothing
    tags = [tag for tag in sorted(candidate.permission_tags) if tag in trace and TAG_MARK.search(tag)]
    told += [(*span, "The trace names a permission.") for tag in tags for span in whole_words(trace, tag)]
    told = [one for one in told if trace[slice(*one[:2])].casefold() not in own]
    told += [(*match.span(), "The trace holds a token string.") for match in TOKEN_STRING.finditer(trace)]
    return [
        failure_at("clean_voice", message, trace, start, end)
        for start, end, message in told
        if not within(start, mentions)
    ]


TIER_SIZES = {"easy": range(1, 2), "medium": range(2, 4), "hard": range(4, 1000)}
AFTER_COMMITTING = 25  # words that may end the committing sentence


def failures(candidate: Candidate, context: FilterContext) -> list[Failure]:
    return [*query_failures(candidate, context), *trace_failures(candidate, context)]


def query_failures(candidate: Candidate, context: FilterContext) -> list[Failure]:
    """Checks that need only query and answer. Imported queries were typed by people: their words stand."""
    found = [*grounding_of_answer(candidate, context), *well_formed(candidate), *target(candidate, context)]
    if candidate.branch != "imported":
        found += [
            *_length(
                "query", candidate.query, count_words(join_words(words(candidate.query))), context.query_words
            ),
            *leakage(candidate, context),
            *near_duplicate(candidate, context),
        ]
    return found


def trace_failures(candidate: Candidate, context: FilterContext) -> list[Failure]:
    """Checks of the trace; the name automaton passes over it once."""
    mentions = context.names.mentions(candidate.trace)
    strangers = unknown_names(candidate.trace, context, mentions)
    return [
        *_length("trace", candidate.trace, count_words(candidate.trace), context.trace_words),
        *grounding_of_trace(candidate, context, mentions, strangers),
        *consistency(candidate, sorted([*mentions, *strangers]) if strangers else mentions),
        *attribution(candidate, context, mentions),
        *clean_voice(candidate, mentions),
    ]


def grounding_of_answer(candidate: Candidate, context: FilterContext) -> list[Failure]:
    """A is a non-empty set of active tools, each within P."""
    if not candidate.answer:
        return [Failure("grounding", "The answer names no tool.")]
    known = context.names.known
    unknown, outside = "The answer is no active tool of the catalog.", "The answer is outside the pool."
    strange = [name for name in candidate.answer if name not in known or name not in candidate.pool]
    return [Failure("grounding", outside if name in known else unknown, name) for name in strange]


def well_formed(candidate: Candidate) -> list[Failure]:
    """In every token format the answer is a JSON list of tokens, one tool each."""
    answer = candidate.answer
    if len(set(answer)) < len(answer):
        return [Failure("consistency", "The answer names a tool twice.", ", ".join(answer))]
    tokens = [_tokens(name) for name in answer]
    if nameless := [name for name, strings in zip(answer, tokens, strict=True) if not strings]:
        return [Failure("consistency", "The answer is no tool's name.", name) for name in nameless]
    if any(len(set(strings)) < len(answer) for strings in zip(*tokens, strict=True)):
        return [Failure("consistency", "Two answers share a token.", ", ".join(answer))]
    return []


@lru_cache(maxsize=100_000)
def _tokens(name: str) -> tuple[str, ...]:
    """A tool's tokens in each format, empty where it is no tool's name; JSON can hold them, see `part_token`."""
    try:
        return tuple("".join(tool_units(name, fmt)) for fmt in FORMATS)
    except TraceError:
        return ()


def target(candidate: Candidate, context: FilterContext) -> list[Failure]:
    """Rule samples stay within T(r), explicit and implicit ones on the target; tiers keep their size; no dead tool."""
    answer, found = candidate.answer, []
    if candidate.branch != "imported":
        dead = [name for name in answer if name in context.deprecated]
        found += [Failure("target", "The answer is deprecated.", name) for name in dead]
    if candidate.rule_tools:
        outside = [name for name in answer if name not in candidate.rule_tools]
        found += [Failure("target", "The answer is outside the rule's tools.", name) for name in outside]
        main = candidate.rule_tools[0]
        if candidate.style in ("explicit", "implicit", "underspecified") and answer != (main,):
            message = f"An {candidate.style} query answers with the rule's target alone."
            found.append(Failure("target", message, ", ".join(answer)))
        if candidate.style == "exception" and main in answer:
            found.append(Failure("target", "An exception query answers with a confusable.", main))
    if candidate.tier and len(answer) not in TIER_SIZES.get(candidate.tier, ()):
        message = f"A {candidate.tier} query does not have {len(answer)} answers."
        found.append(Failure("target", message, ", ".join(answer)))
    return found


def _length(what: str, text: str, count: int, limits: tuple[int, int]) -> list[Failure]:
    low, high = limits
    if low <= count <= high:
        return []
    message = f"The {what} has {count} words; {low} to {high} are allowed."
    if count < low:
        return [Failure("length", message, text[:80])]
    starts = [match.start() for match in re.finditer(r"\S+", text)]
    over = starts[min(high, len(starts) - 1)]
    return [failure_at("length", message, text, over, len(text))]


def near_duplicate(candidate: Candidate, context: FilterContext) -> list[Failure]:
    other = context.seen.find(candidate.query)
    if other is None:
        return []
    mine, its = set(words(candidate.query)), set(words(other))
    same = f"{len(mine & its)} of {len(mine | its)} words are the same."
    return [Failure("near_duplicate", f"The query almost repeats another one: {same}", other)]


def grounding_of_trace(
    candidate: Candidate, context: FilterContext, mentions: Sequence[Mention], strangers: Sequence[Mention]
) -> list[Failure]:
    """Every tool the trace mentions exists, is in P, and is written as the catalog writes it."""
    outside = "The trace mentions a tool outside the pool."
    imitated = "The trace writes a tool's name in look-alike characters."
    found = [(start, end, outside) for start, end, name in mentions if name not in candidate.pool]
    for start, end, name in strangers:
        known = Plain(name).text in context.names.known
        found.append((start, end, imitated if known else "The trace names a tool that does not exist."))
    return [failure_at("grounding", message, candidate.trace, start, end) for start, end, message in found]


def unknown_names(trace: str, context: FilterContext, mentions: Sequence[Mention]) -> list[Mention]:
    """What is written like a tool name and never becomes a token: invented, or spelt in imitated letters."""
    if trace.isascii() or not ODD.search(trace):
        return [(start, end, trace[start:end]) for start, end in context.names.invented(trace, mentions)]
    plain = Plain(trace)
    shown = context.names.mentions(plain.text)
    spans = [(start, end) for start, end, _ in shown] + context.names.invented(plain.text, shown)
    places = sorted({plain.span(start, end) for start, end in spans})
    return [(start, end, trace[start:end]) for start, end in places if not within(start, mentions)]


def consistency(candidate: Candidate, mentions: Sequence[Mention]) -> list[Failure]:
    """The trace's last sentence names exactly A: nothing but the rest of that sentence follows."""
    trace = candidate.trace
    if not mentions:
        tail = max(0, len(trace) - 80)
        return [failure_at("consistency", "The trace commits to no tool.", trace, tail, len(trace))]
    names, last = committed(trace, mentions), mentions[-1][1]
    if set(names) != set(candidate.answer):
        start = last_sentence(trace, mentions)
        first = next(begin for begin, _, _ in mentions if begin >= start)
        message = f"The trace commits to {', '.join(names)}, the answer is {', '.join(candidate.answer) or 'empty'}."
        return [failure_at("consistency", message, trace, first, last)]
    end = SENTENCE_END.search(trace, last)
    more = end.end() if end else len(trace)
    message = "The trace goes on after it has committed."
    if words(trace[more:]):
        return [failure_at("consistency", message, trace, more, len(trace))]
    if len(words(trace[last:more])) > AFTER_COMMITTING:
        return [failure_at("consistency", message, trace, last, more)]
    return []


def attribution(candidate: Candidate, context: FilterContext, mentions: Sequence[Mention]) -> list[Failure]:
    """A rule sample's trace cites its rule by code, and no trace cites another one."""
    trace, code = candidate.trace, candidate.rule_code
    found = []
    for start, end, other in context.codes.find(trace):
        if other != code and not within(start, mentions):
            message = f"The trace cites {other}, which is not the rule of this sample."
            found.append(failure_at("attribution", message, trace, start, end))
    if candidate.branch == "rule" and not any(whole_words(trace, code)):
        places = Plain(trace).places(letters_of(code)) if is_title(code) else iter(())
        respelt = next((place for place in places if not within(place[0], mentions)), None)
        message = f"The trace cites the rule, but not as {code}."
        found.append(
            failure_at("attribution", message, trace, *respelt)
            if respelt
            else Failure("attribution", f"The trace does not cite the rule {code}.")
        )
    return found
