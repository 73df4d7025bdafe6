"""Clean voice: the trace reads as somebody's own reasoning, with nothing about how it was asked for.

Refused are words about pool, prompt, feedback or instructions, permission tags, and token strings. Tool names, the
query's own words and rule codes may hold such words; they are not the trace's voice.
"""

import re
from collections.abc import Iterator, Sequence

from ahocorasick_rs import AhoCorasick

from catalog.core.mentions import Mention
from synthesis.core.candidate import Candidate, Failure, failure_at
from synthesis.core.leakage import TOKEN_STRING
from synthesis.core.names import whole_words, within

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
    return [
        failure_at("clean_voice", message, trace, start, end)
        for start, end, message in (*_asked_for(trace), *_tags(candidate))
        if trace[start:end].casefold() not in own and not within(start, mentions)
    ] + [
        failure_at("clean_voice", "The trace holds a token string.", trace, *match.span())
        for match in TOKEN_STRING.finditer(trace)
    ]


def _asked_for(trace: str) -> Iterator[tuple[int, int, str]]:
    spans: set[tuple[int, int]] = set()
    for _, start, end in HINTS.find_matches_as_indexes(trace.lower()):
        stop = end + LONGEST
        while stop < len(trace) and trace[stop].isalnum():  # a word cut in two would seem to end there
            stop += 1
        spans.update(match.span() for match in VOICE.finditer(trace, max(0, start - LONGEST), stop))
    for start, end in sorted(spans):
        yield start, end, "The trace speaks of how it was asked for."


def _tags(candidate: Candidate) -> Iterator[tuple[int, int, str]]:
    """Permission tags written as tags; one that is a plain word says nothing."""
    for tag in sorted(candidate.permission_tags):
        if tag in candidate.trace and TAG_MARK.search(tag):
            for start, end in whole_words(candidate.trace, tag):
                yield start, end, "The trace names a permission."
