"""When a line of models is trained again: what changed, what that starts, and what still keeps it from starting.

In: the facts of one moment by one clock, and the limits of a policy. Out: a verdict in words. A change starts nothing
before it has been quiet for a while, because every further change would make the new snapshot stale at once.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Limits:
    """A policy's triggers; a limit of 0 never starts anything by itself."""

    approved_samples: int
    changed_rules: int
    quiet: timedelta


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt that ended without a model; it is not repeated until something has changed since."""

    what: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Facts:
    """Counted since the snapshot that the policy trained on last.

    approved: samples approved since. taught: changed rules that training now would teach or unteach. untaught: changed
    rules that no approved sample teaches yet. changed_at: the newest change of rules, catalog or review, and `change`
    its name. writing: synthesis runs under way. busy: what is being trained, in words.
    """

    now: datetime
    approved: int = 0
    taught: int = 0
    untaught: int = 0
    change: str = ""
    changed_at: datetime | None = None
    writing: int = 0
    busy: str = ""
    failure: Failure | None = None


@dataclass(slots=True)
class Verdict:
    """`reasons`: which limits are reached. `keeps`: what still keeps it from starting; empty means it is due.

    `earliest`: when the quiet time is over, while that is still to come.
    """

    reasons: list[str] = field(default_factory=list)
    keeps: list[str] = field(default_factory=list)
    earliest: datetime | None = None

    @property
    def due(self) -> bool:
        return bool(self.reasons) and not self.keeps


def judge(facts: Facts, limits: Limits) -> Verdict:
    """What the policy would do now if it is on."""
    found = Verdict(reasons=_reasons(facts, limits))
    if not found.reasons:
        found.keeps.append(_too_little(facts, limits))
        return found
    if facts.changed_at is not None and facts.changed_at + limits.quiet > facts.now:
        found.earliest = facts.changed_at + limits.quiet
        found.keeps.append(_not_quiet(facts, limits, found.earliest))
    if facts.writing:
        runs = "1 synthesis run is" if facts.writing == 1 else f"{facts.writing} synthesis runs are"
        found.keeps.append(f"{runs} writing samples, which would make a snapshot of now stale at once.")
    if facts.busy:
        found.keeps.append(f"{facts.busy}: one training at a time.")
    if (last := facts.failure) and (facts.changed_at is None or facts.changed_at <= last.at):
        found.keeps.append(f"{last.what} It is not tried again by itself until something changes.")
    return found


def _reasons(facts: Facts, limits: Limits) -> list[str]:
    reasons = []
    if 0 < limits.approved_samples <= facts.approved:
        reasons.append(
            f"{_many(facts.approved, 'newly approved sample')} (starts at {limits.approved_samples:,})"
        )
    if 0 < limits.changed_rules <= facts.taught:
        reasons.append(f"{_many(facts.taught, 'changed rule')} (starts at {limits.changed_rules:,})")
    return reasons


def _too_little(facts: Facts, limits: Limits) -> str:
    parts = []
    if limits.approved_samples:
        parts.append(f"{facts.approved:,} of {limits.approved_samples:,} newly approved samples")
    if limits.changed_rules:
        parts.append(f"{facts.taught:,} of {limits.changed_rules:,} changed rules")
    if not parts:
        return "It has no trigger: a person starts it."
    return f"Too little has changed: {', '.join(parts)}."


def _not_quiet(facts: Facts, limits: Limits, earliest: datetime) -> str:
    assert facts.changed_at is not None
    ago = max(0, int((facts.now - facts.changed_at).total_seconds() // 60))
    quiet = int(limits.quiet.total_seconds() // 60)
    at = f"{earliest:%H:%M}" if earliest.date() == facts.now.date() else f"{earliest:%H:%M on %d %b}"
    return f"{facts.change} {ago} min ago, quiet for {quiet} min: starts at {at} UTC at the earliest."


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
