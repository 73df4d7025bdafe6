"""When a line of models is trained again: what changed, what that starts, and what still keeps it from starting.

In: the facts of one moment by one clock, and the limits of a policy. Out: a verdict in words. A change starts nothing
before it has been quiet for a while, because every further change would make the new snapshot stale at once.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Facts:
    """Counted since the snapshot that the policy trained on last.

    approved: samples approved since. taught: changed rules that training now would teach or unteach. changed_at: the
    newest change of rules, catalog or review, and `change` its name. writing: synthesis runs under way. reading:
    samples of changed rules that are partly read and still wait. busy: what else the training worker does, in words.
    load: of its machine, a core; None: not known. switched_off: no policy starts by itself. failed: an attempt that
    ended without a model, in words, and failed_at when.
    """

    now: datetime
    approved: int = 0
    taught: int = 0
    change: str = ""
    changed_at: datetime | None = None
    writing: int = 0
    reading: int = 0
    busy: str = ""
    load: float | None = None
    switched_off: bool = False
    failed: str = ""
    failed_at: datetime | None = None

    @property
    def stuck(self) -> bool:
        """What failed is not tried again by itself until something has changed since."""
        at, changed = self.failed_at, self.changed_at
        return at is not None and (changed is None or changed <= at)


@dataclass(slots=True)
class RetrainVerdict:
    """`reasons`: which limits are reached. `keeps`: what still keeps it from starting; empty means it is due.

    `earliest`: when the quiet time is over, while that is still to come.
    """

    reasons: list[str] = field(default_factory=list)
    keeps: list[str] = field(default_factory=list)
    earliest: datetime | None = None

    @property
    def due(self) -> bool:
        return bool(self.reasons) and not self.keeps


def judge(
    facts: Facts, *, approved_samples: int, changed_rules: int, quiet: timedelta, most_load: float = 0.0
) -> RetrainVerdict:
    """What a policy would do now if it is on. A limit of 0 never starts anything by itself. most_load: a core, 0: not
    asked."""
    found = RetrainVerdict()
    missing = []
    for count, limit, what in (
        (facts.approved, approved_samples, "newly approved sample"),
        (facts.taught, changed_rules, "changed rule"),
    ):
        if 0 < limit <= count:
            found.reasons.append(f"{count:,} {what}{'' if count == 1 else 's'} (starts at {limit:,})")
        elif limit:
            missing.append(f"{count:,} of {limit:,} {what}s")
    if not found.reasons:
        too_little = f"Too little has changed: {', '.join(missing)}."
        found.keeps.append(too_little if missing else "It has no trigger: a person starts it.")
        return found
    if facts.changed_at is not None and facts.changed_at + quiet > facts.now:
        at = found.earliest = facts.changed_at + quiet
        ago = max(0, int((facts.now - facts.changed_at).total_seconds() // 60))
        minutes = int(quiet.total_seconds() // 60)
        when = f"{at:%H:%M}" if at.date() == facts.now.date() else f"{at:%H:%M on %d %b}"
        found.keeps.append(
            f"{facts.change} {ago} min ago, quiet for {minutes} min: starts at {when} UTC at the earliest."
        )
    if facts.writing:
        runs = "1 synthesis run is" if facts.writing == 1 else f"{facts.writing} synthesis runs are"
        found.keeps.append(f"{runs} writing samples, which would make a snapshot of now stale at once.")
    if facts.reading:
        several = f"{facts.reading:,} samples of rules that are being read wait"
        wait = "1 sample of a rule that is being read waits" if facts.reading == 1 else several
        found.keeps.append(f"{wait} for a reviewer; training waits for them for a day at most.")
    if facts.busy:
        found.keeps.append(f"{facts.busy}: one at a time.")
    if most_load and facts.load is None:
        found.keeps.append("No worker that trains is alive, so nobody knows how busy its machine is.")
    elif facts.load is not None and 0 < most_load <= facts.load:
        found.keeps.append(
            f"The machine is busy: load {facts.load:.2f} per core over the last minute, starts below "
            f"{most_load:.2f}."
        )
    if facts.switched_off:
        found.keeps.append("Training by itself is switched off: a person starts it.")
    if facts.stuck:
        found.keeps.append(f"{facts.failed} It is not tried again by itself until something changes.")
    return found
