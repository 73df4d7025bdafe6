"""What reviewers do to a sample: approve, edit, reject, take back; and approval by policy instead of reading.

How a decision comes about: `decisions`. What it takes back: `undoing`. Decisions are append-only rows. Who comes too
late gets TraceError "conflict", and nothing is changed.
"""

from typing import Any

from synthesis.checks import check
from synthesis.core.rejections import REASONS
from synthesis.decisions import decide, decided_before, standing
from synthesis.models import Decision, Sample
from synthesis.policy import policy_approve
from synthesis.undoing import undo
from synthesis.wishes import Wish, seen_key, texts_of, wish_of
from trace_site.lib.errors import TraceError

__all__ = [
    "REASONS",
    "Wish",
    "approve",
    "check",
    "edit",
    "fits",
    "policy_approve",
    "reject",
    "seen_key",
    "standing",
    "undo",
    "wish_of",
]
Verdict = Decision.Verdict
LONGEST = {"query": 20_000, "trace": 20_000, "note": 2_000}  # characters


def approve(*, sample: Sample | int, reviewer: Any, note: str = "", **shown: Any) -> Sample:
    """Approve the sample as it stands. shown: `claim`, `seen` and `seconds`, see Wish."""
    row = _row(sample)
    return decide(row, reviewer, Wish(Verdict.APPROVE, **texts_of(row), note=note, **shown))


def reject(
    *, sample: Sample | int, reviewer: Any, reason: str, note: str = "", follow_up: str = "drop", **shown: Any
) -> Sample:
    """Reject with a reason; follow_up says whether it is written again with the reason as critique, or dropped."""
    if reason not in REASONS:
        raise _unknown("choose a reason.", "bad_reason", "reason", list(REASONS))
    if follow_up not in Decision.FollowUp.values:
        raise _unknown("choose what follows.", "bad_follow_up", "follow_up", Decision.FollowUp.values)
    if reason == "other" and not note.strip():
        raise TraceError("say in the note what is wrong.", code="no_note", where="note")
    fits(note=note)
    row = _row(sample)
    wish = Wish(Verdict.REJECT, **texts_of(row), reason=reason, note=note, follow_up=follow_up, **shown)
    return decide(row, reviewer, wish)


def edit(
    *,
    sample: Sample | int,
    reviewer: Any,
    query: str,
    trace: str,
    answer: list[str] | None = None,
    note: str = "",
    **shown: Any,
) -> Sample:
    """Correct and approve in one step; what the filter refuses is not taken."""
    fits(query=query, trace=trace, note=note)
    row = _row(sample)
    answer = list(row.answer) if answer is None else answer
    wish = Wish(Verdict.EDIT, query, trace, answer, note=note, **shown)
    failures = [] if decided_before(reviewer, wish) else check(sample=row, **wish.texts)
    if failures:
        raise TraceError(
            " ".join(f"{failure.check}: {failure.message}" for failure in failures),
            code="filtered",
            where=f"sample {row.pk}",
            hint="Correct it and try again.",
            extra={"failures": [failure.as_dict() for failure in failures]},
        )
    return decide(row, reviewer, wish)


def fits(**texts: str) -> None:
    """Raises TraceError "too_long" for a text that nobody would read, before a filter has to."""
    for name, text in texts.items():
        if len(text) > LONGEST[name]:
            raise TraceError(
                f"the {name} has {len(text):,} characters; {LONGEST[name]:,} fit.",
                code="too_long",
                where=name,
            )


def _row(sample: Sample | int) -> Sample:
    if isinstance(sample, Sample):
        return sample
    found = Sample.objects.select_related("rule_version__rule").filter(pk=sample).first()
    if found is None:
        raise TraceError(f"there is no sample {sample}.", code="no_such_sample", where=f"sample {sample}")
    return found


def _unknown(message: str, code: str, where: str, known: list[str]) -> TraceError:
    return TraceError(message, code=code, where=where, hint=f"One of: {', '.join(known)}.")
