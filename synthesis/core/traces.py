"""The deliberative schema of a trace.

restate the intent -> permission step (only when the request carries permission targets) -> compare APIs -> narrow to
endpoints -> apply the rule by its code and decisive clause -> commit. Writers fill the steps; this module orders them.
Names become tokens, and tokens names, in catalog/core/tokens.py alone.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from synthesis.core.queries import ToolText


@dataclass(frozen=True, slots=True)
class Steps:
    """One trace, step by step; an empty step is left out."""

    intent: str
    apis: str
    endpoints: str
    commit: str
    permissions: str = ""
    rule: str = ""

    def text(self) -> str:
        order = (self.intent, self.permissions, self.apis, self.endpoints, self.rule, self.commit)
        return " ".join(step.strip() for step in order if step.strip())


def carries_permissions(share: float, seed: int) -> bool:
    """Whether a sample belongs to the share whose requests carry permission targets."""
    return random.Random(f"{seed}|permissions").random() < share


def permission_targets(
    answer: Sequence[str], pool: Sequence[ToolText], share: float, seed: int
) -> tuple[str, ...]:
    """For a share of samples: what the asking person may access, so that the permission step is learned.

    Holds one permission of every answer that asks for one, and sometimes one more from the pool.
    """
    rng = random.Random(f"{seed}|permissions")
    if rng.random() >= share:
        return ()
    needed = [rng.choice(tool.permissions) for tool in pool if tool.name in answer and tool.permissions]
    others = sorted({tag for tool in pool for tag in tool.permissions} - set(needed))
    if not needed:
        return ()
    extra = rng.sample(others, min(len(others), rng.choice((0, 1, 2))))
    return tuple(sorted({*needed, *extra}))


# Why people reject samples: the reasons, what a writer is told of them, and one sentence over many.


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
