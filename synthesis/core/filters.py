"""Filter V: pure, deterministic checks of one sample (paper, appendix B, made stricter).

In: a Candidate and the FilterContext of the run. Out: failures, each naming the check, a sentence and the evidence.
One function per check; `query_failures` needs no trace, so a bad query costs no trace.
"""

import json
import re
from collections.abc import Sequence
from functools import lru_cache

from catalog.core.mentions import Mention
from catalog.core.tokens import FORMATS, list_json, tool_units
from synthesis.core.candidate import Candidate, Failure, FilterContext, failure_at
from synthesis.core.leakage import leakage
from synthesis.core.names import SENTENCE_END, committed, last_sentence, whole_words, within
from synthesis.core.spellings import ODD, Plain, is_title, letters_of
from synthesis.core.voice import clean_voice
from synthesis.core.words import words
from trace_site.lib.errors import TraceError

__all__ = ["Candidate", "Failure", "FilterContext", "failures", "query_failures", "trace_failures"]

TIER_SIZES = {"easy": (1, 1), "medium": (2, 3), "hard": (4, None)}
AFTER_COMMITTING = 25  # words that may end the committing sentence


def failures(candidate: Candidate, context: FilterContext) -> list[Failure]:
    return [*query_failures(candidate, context), *trace_failures(candidate, context)]


def query_failures(candidate: Candidate, context: FilterContext) -> list[Failure]:
    """Checks that need only query and answer. Imported queries were typed by people: their words stand."""
    found = [*grounding_of_answer(candidate, context), *well_formed(candidate), *target(candidate, context)]
    if candidate.branch != "imported":
        found += [
            *length_of_query(candidate, context),
            *leakage(candidate, context),
            *near_duplicate(candidate, context),
        ]
    return found


def trace_failures(candidate: Candidate, context: FilterContext) -> list[Failure]:
    """Checks of the trace; the name automaton passes over it once."""
    mentions = context.names.mentions(candidate.trace)
    strangers = unknown_names(candidate.trace, context, mentions)
    return [
        *length_of_trace(candidate, context),
        *grounding_of_trace(candidate, context, mentions, strangers),
        *consistency(candidate, sorted([*mentions, *strangers]) if strangers else mentions),
        *attribution(candidate, context, mentions),
        *clean_voice(candidate, mentions),
    ]


def grounding_of_answer(candidate: Candidate, context: FilterContext) -> list[Failure]:
    """A is a non-empty set of active tools, each within P."""
    if not candidate.answer:
        return [Failure("grounding", "The answer names no tool.")]
    found = []
    for name in candidate.answer:
        if name not in context.names.known:
            found.append(Failure("grounding", "The answer is no active tool of the catalog.", name))
        elif name not in candidate.pool:
            found.append(Failure("grounding", "The answer is outside the pool.", name))
    return found


def well_formed(candidate: Candidate) -> list[Failure]:
    """In every token format the answer is a JSON list of tokens, one tool each."""
    answer = candidate.answer
    if len(set(answer)) < len(answer):
        return [Failure("consistency", "The answer names a tool twice.", ", ".join(answer))]
    tokens = [_tokens(name) for name in answer]
    if not all(tokens):
        message = "The tool's token cannot stand in a JSON list."
        pairs = zip(answer, tokens, strict=True)
        return [Failure("consistency", message, name) for name, strings in pairs if not strings]
    if any(len(set(strings)) < len(answer) for strings in zip(*tokens, strict=True)):
        return [Failure("consistency", "Two answers share a token.", ", ".join(answer))]
    return []


@lru_cache(maxsize=100_000)
def _tokens(name: str) -> tuple[str, ...]:
    """A tool's tokens in each format, empty where a JSON list of them does not give them back."""
    try:
        strings = tuple("".join(tool_units(name, fmt)) for fmt in FORMATS)
        lists = [json.loads(list_json([name], fmt)) for fmt in FORMATS]
    except (TraceError, ValueError):
        return ()
    return strings if lists == [[string] for string in strings] else ()


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
    if candidate.tier and not _fits(candidate.tier, len(answer)):
        message = f"A {candidate.tier} query does not have {len(answer)} answers."
        found.append(Failure("target", message, ", ".join(answer)))
    return found


def _fits(tier: str, size: int) -> bool:
    low, high = TIER_SIZES.get(tier, (1, 0))
    return low <= size and (high is None or size <= high)


def length_of_query(candidate: Candidate, context: FilterContext) -> list[Failure]:
    return _length("query", candidate.query, len(words(candidate.query)), context.query_words)


def length_of_trace(candidate: Candidate, context: FilterContext) -> list[Failure]:
    return _length("trace", candidate.trace, len(candidate.trace.split()), context.trace_words)


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
    message = (
        f"The query almost repeats another one: {len(mine & its)} of {len(mine | its)} words are the same."
    )
    return [Failure("near_duplicate", message, other)]


def grounding_of_trace(
    candidate: Candidate, context: FilterContext, mentions: Sequence[Mention], strangers: Sequence[Mention]
) -> list[Failure]:
    """Every tool the trace mentions exists, is in P, and is written as the catalog writes it."""
    found = [
        (start, end, "The trace mentions a tool outside the pool.")
        for start, end, name in mentions
        if name not in candidate.pool
    ]
    for start, end, name in strangers:
        if Plain(name).text in context.names.known:
            found.append((start, end, "The trace writes a tool's name in look-alike characters."))
        else:
            found.append((start, end, "The trace names a tool that does not exist."))
    return [failure_at("grounding", message, candidate.trace, start, end) for start, end, message in found]


def unknown_names(trace: str, context: FilterContext, mentions: Sequence[Mention]) -> list[Mention]:
    """What is written like a tool name and never becomes a token: invented, or spelt in imitated letters."""
    if trace.isascii() or not ODD.search(trace):
        return [(start, end, trace[start:end]) for start, end in context.names.invented(trace, mentions)]
    plain = Plain(trace)
    shown = context.names.mentions(plain.text)
    spans = [(start, end) for start, end, _ in shown] + context.names.invented(plain.text, shown)
    known = {(start, end) for start, end, _ in mentions}
    places = sorted({plain.span(start, end) for start, end in spans} - known)
    return [(start, end, trace[start:end]) for start, end in places]


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
        found.append(_uncited(trace, code, mentions))
    return found


def _uncited(trace: str, code: str, mentions: Sequence[Mention]) -> Failure:
    """No citation; the place where the code stands in another spelling, if it does."""
    places = Plain(trace).places(letters_of(code)) if is_title(code) else iter(())
    for start, end in places:
        if not within(start, mentions):
            message = f"The trace cites the rule, but not as {code}."
            return failure_at("attribution", message, trace, start, end)
    return Failure("attribution", f"The trace does not cite the rule {code}.")
