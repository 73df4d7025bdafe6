"""Why people reject samples: the reasons, what a writer is told of them, and one sentence over many."""

from collections import Counter
from collections.abc import Iterable, Mapping

REASONS = {
    "wrong_tool": "wrong tool",
    "wrong_rule": "rule misread",
    "rule_unclear": "rule text ambiguous",
    "unclear": "several tools fit",
    "unnatural": "nobody would type this",
    "leak": "gives the answer away",
    "bad_trace": "reasoning does not lead to the answer",
    "personal_data": "personal data",
    "other": "other (see note)",
}
# what is wrong with the trace alone: its query is kept when it is written again
OF_TRACE = frozenset({"bad_trace"})
ABOUT_RULE = "rule_unclear"
TOLD_COUNT = 3  # rejections of a rule before its author is told
TOLD_SHARE = 0.25  # of what was read
LONGEST_QUOTE = 80  # characters
LONGEST_CRITIQUE = 2000


def critique(readings: Iterable[tuple[str, str]]) -> str:
    """What the writer is told: reason and note of every reader who refused, each once."""
    return " ".join(dict.fromkeys(_told(reason, note) for reason, note in readings))[:LONGEST_CRITIQUE]


def _told(reason: str, note: str) -> str:
    said = " ".join(note.split()).rstrip(".")
    label = REASONS.get(reason, reason)
    return f"{label[:1].upper()}{label[1:]}{f': {said}' if said else ''}."


def worth_telling(rejected: int, decided: int, reason: str) -> bool:
    """Whether a rule's author hears of one more rejection: their text is named as the cause, or it is one of many."""
    return reason == ABOUT_RULE or (rejected >= TOLD_COUNT and rejected >= TOLD_SHARE * decided)


def sentence(rejected: int, decided: int, reasons: Mapping[str, int], notes: Mapping[str, str]) -> str:
    """ "7 of 12 rejected: rule text ambiguous (5), wrong tool (2)"; `notes`: {reason: the newest words of a reader}."""
    parts = []
    for reason, count in Counter(reasons).most_common():
        said = " ".join(notes.get(reason, "").split())
        quote = f" “{said[:LONGEST_QUOTE]}{'…' if len(said) > LONGEST_QUOTE else ''}”" if said else ""
        parts.append(f"{REASONS.get(reason, reason)} ({count}){quote}")
    told = f"{rejected} of {decided} rejected"
    return f"{told}: {', '.join(parts)}" if parts else told
