"""Filter V: pure, deterministic checks of one sample (paper, appendix B, made stricter).

In: a Candidate and the FilterContext of the run. Out: failures, each naming the check, a sentence and the evidence.
One function per check; `query_failures` needs no trace, so a bad query costs no trace.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache

from catalog.core.tokens import flat_token
from synthesis.core.names import Mention, ToolNames, committed
from synthesis.core.words import NearDuplicates, spaced, words

QUERY_WORDS = (3, 60)
TRACE_WORDS = (20, 400)
# the trace reads as somebody's own reasoning: nothing about how it was asked for
VOICE = re.compile(
    r"""\b(?:candidate\s(?:pool|set|list|tools?)|(?:tool|the|this|given)\spool|shortlist|
    (?:tools?|candidates?|options?|endpoints?)\s(?:that\s(?:are|were|is)\s)?(?:given|provided|supplied|listed)|
    (?:given|provided|supplied|listed)\s(?:tools?|candidates?|options?|list)|
    selected\stools?|correct\stools?|gold|ground\struth|feedback|critique|reviewer|
    (?:the|this|my|your|system)\sprompt|instructions?|as\s(?:instructed|requested\sabove)|previous\sattempt|
    as\san\sai|language\smodel|step\s[1-9]|json)\b""",
    re.IGNORECASE | re.VERBOSE,
)
# one of these is in every match of VOICE; looking for them first is much cheaper
_VOICE_HINTS = (
    "candidate pool shortlist given provided supplied listed selected correct gold truth feedback critique reviewer "
    "prompt instruct requested attempt ai model step json"
)
VOICE_HINTS = tuple(_VOICE_HINTS.split())
TOKEN_STRING = re.compile(r"<<[^<>\s][^<>]*>>|</?tid>")
TAG_MARK = re.compile(r"[._:/\-]")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a sample is refused; `span` is the place in the query or trace."""

    check: str
    message: str
    evidence: str = ""
    span: tuple[int, int] = (0, 0)

    def as_dict(self) -> dict[str, object]:
        return {
            "check": self.check,
            "message": self.message,
            "evidence": self.evidence,
            "span": list(self.span),
        }


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


@dataclass(slots=True)
class FilterContext:
    """What a run builds once: the name automaton, retired answers to refuse, the queries so far."""

    names: ToolNames
    deprecated: frozenset[str] = frozenset()
    seen: NearDuplicates = field(default_factory=NearDuplicates)


def query_failures(candidate: Candidate, context: FilterContext) -> list[Failure]:
    """Checks that need only query and answer. Imported queries were typed by people: their words stand."""
    failures = [*grounding_of_answer(candidate, context), *target(candidate, context)]
    if candidate.branch != "imported":
        failures += [
            *length_of_query(candidate),
            *leakage(candidate, context),
            *near_duplicate(candidate, context),
        ]
    return failures


def trace_failures(candidate: Candidate, context: FilterContext) -> list[Failure]:
    """Checks of the trace; the name automaton passes over it once."""
    mentions = context.names.mentions(candidate.trace)
    return [
        *length_of_trace(candidate),
        *grounding_of_trace(candidate, context, mentions),
        *consistency(candidate, mentions),
        *attribution(candidate),
        *clean_voice(candidate),
    ]


def failures(candidate: Candidate, context: FilterContext) -> list[Failure]:
    return [*query_failures(candidate, context), *trace_failures(candidate, context)]


def grounding_of_answer(candidate: Candidate, context: FilterContext) -> list[Failure]:
    """A is a non-empty set of catalog tools, each within P."""
    if not candidate.answer:
        return [Failure("grounding", "The answer names no tool.")]
    if len(set(candidate.answer)) < len(candidate.answer):
        return [Failure("consistency", "The answer names a tool twice.", ", ".join(candidate.answer))]
    found = []
    for name in candidate.answer:
        if name not in context.names.known:
            found.append(Failure("grounding", "The answer is not in the catalog.", name))
        elif name not in candidate.pool:
            found.append(Failure("grounding", "The answer is outside the pool.", name))
    return found


def target(candidate: Candidate, context: FilterContext) -> list[Failure]:
    """Rule samples stay within T(r), explicit and implicit ones on the target; tiers keep their size; no dead tool."""
    found = []
    if candidate.branch != "imported":
        dead = [name for name in candidate.answer if name in context.deprecated]
        found += [Failure("target", "The answer is deprecated.", name) for name in dead]
    if candidate.rule_tools:
        outside = [name for name in candidate.answer if name not in candidate.rule_tools]
        found += [Failure("target", "The answer is outside the rule's tools.", name) for name in outside]
        main = candidate.rule_tools[0]
        if candidate.style in ("explicit", "implicit", "underspecified") and candidate.answer != (main,):
            message = f"An {candidate.style} query answers with the rule's target alone."
            found.append(Failure("target", message, ", ".join(candidate.answer)))
        if candidate.style == "exception" and main in candidate.answer:
            found.append(Failure("target", "An exception query answers with a confusable.", main))
    if candidate.tier and not _fits_tier(candidate.tier, len(candidate.answer)):
        message = f"A {candidate.tier} query does not have {len(candidate.answer)} answers."
        found.append(Failure("target", message, ", ".join(candidate.answer)))
    return found


def _fits_tier(tier: str, size: int) -> bool:
    return {"easy": size == 1, "medium": 2 <= size <= 3, "hard": size >= 4}[tier]


def leakage(candidate: Candidate, context: FilterContext) -> list[Failure]:
    """The query gives no name away: full name, endpoint title of two or more words, rule code, token string."""
    found = [
        Failure("leakage", "The query names a tool.", name, (start, end))
        for start, end, name in context.names.mentions(candidate.query)
    ]
    found += [
        Failure("leakage", "The query holds a token string.", match.group(), match.span())
        for match in TOKEN_STRING.finditer(candidate.query)
    ]
    asked = spaced(candidate.query)
    for name in dict.fromkeys((*candidate.answer, *candidate.rule_tools)):
        full, title, titled = _titles(name)
        if titled and title in asked:
            found.append(Failure("leakage", f"The query holds the endpoint title of {name}.", title.strip()))
        elif full in asked:
            found.append(Failure("leakage", f"The query holds the name {name}.", full.strip()))
    code = candidate.rule_code
    if code and (
        (len(words(code)) > 1 and spaced(code) in asked)
        or re.search(rf"(?<!\w){re.escape(code)}(?!\w)", candidate.query)
    ):
        found.append(Failure("leakage", "The query holds the rule's code.", code))
    return found


@lru_cache(maxsize=50_000)
def _titles(name: str) -> tuple[str, str, bool]:
    """(spaced full name, spaced endpoint title, whether the title has two or more words)."""
    endpoint = name.partition("/")[2]
    return spaced(name), spaced(endpoint), len(words(endpoint)) >= 2


def length_of_query(candidate: Candidate) -> list[Failure]:
    count = len(words(candidate.query))
    low, high = QUERY_WORDS
    if low <= count <= high:
        return []
    return [
        Failure("length", f"The query has {count} words; {low} to {high} are allowed.", candidate.query[:80])
    ]


def length_of_trace(candidate: Candidate) -> list[Failure]:
    count = candidate.trace.count(" ") + 1 if candidate.trace.strip() else 0
    low, high = TRACE_WORDS
    if low <= count <= high:
        return []
    return [
        Failure("length", f"The trace has {count} words; {low} to {high} are allowed.", candidate.trace[:80])
    ]


def near_duplicate(candidate: Candidate, context: FilterContext) -> list[Failure]:
    other = context.seen.find(candidate.query)
    return [Failure("near_duplicate", "The query almost repeats another one.", other)] if other else []


def grounding_of_trace(
    candidate: Candidate, context: FilterContext, mentions: list[Mention]
) -> list[Failure]:
    """Every tool the trace mentions exists and is in P."""
    found = [
        Failure("grounding", "The trace mentions a tool outside the pool.", name, (start, end))
        for start, end, name in mentions
        if name not in candidate.pool
    ]
    invented = context.names.invented(candidate.trace, mentions)
    found += [
        Failure("grounding", "The trace invents a tool.", name, (start, end)) for start, end, name in invented
    ]
    return found


def consistency(candidate: Candidate, mentions: list[Mention]) -> list[Failure]:
    """The trace's last naming sentence commits to exactly A, and nothing but that sentence follows."""
    if not mentions:
        return [Failure("consistency", "The trace commits to no tool.", candidate.trace[-80:])]
    names = committed(candidate.trace, mentions)
    if set(names) != set(candidate.answer):
        span = (mentions[-1][0], mentions[-1][1])
        return [
            Failure(
                "consistency", "The trace commits to other tools than the answer.", ", ".join(names), span
            )
        ]
    tail = candidate.trace[mentions[-1][1] :]
    if len(words(tail)) > 25:
        return [Failure("consistency", "The trace goes on after it has committed.", tail[:80])]
    if len({flat_token(name) for name in candidate.answer}) < len(candidate.answer):
        return [Failure("consistency", "Two answers share a token.", ", ".join(candidate.answer))]
    return []


def attribution(candidate: Candidate) -> list[Failure]:
    """A rule sample's trace cites its rule by code."""
    code = candidate.rule_code
    if candidate.branch != "rule" or re.search(rf"(?<!\w){re.escape(code)}(?!\w)", candidate.trace):
        return []
    return [Failure("attribution", f"The trace does not cite the rule {code}.")]


def clean_voice(candidate: Candidate) -> list[Failure]:
    """No permission tag, no token string, nothing about pool, prompt, feedback or instructions.

    Tool names, the query's own words and the rule's code may hold such words; they are not the trace's voice.
    """
    own = _own_words(candidate)
    said = candidate.trace.casefold()
    speaks = VOICE.finditer(candidate.trace) if any(hint in said for hint in VOICE_HINTS) else ()
    found = [
        Failure("clean_voice", "The trace speaks of how it was asked for.", match.group(), match.span())
        for match in speaks
        if match.group().casefold() not in own
    ]
    found += [
        Failure("clean_voice", "The trace holds a token string.", match.group(), match.span())
        for match in TOKEN_STRING.finditer(candidate.trace)
    ]
    for tag in candidate.permission_tags:
        at = candidate.trace.find(tag) if TAG_MARK.search(tag) else -1
        if at >= 0 and tag.casefold() not in own:
            found.append(Failure("clean_voice", "The trace names a permission.", tag, (at, at + len(tag))))
    return found


def _own_words(candidate: Candidate) -> str:
    return f"{candidate.query} {' '.join(candidate.answer)}".casefold()
