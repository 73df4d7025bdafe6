"""How far a run is, how fast its weights may move, and when it must end.

In: steps and seconds. Out: a learning rate, and a number of steps that fits into max_seconds. A plan made by the
clock differs from machine to machine, so only a run without max_seconds repeats byte for byte after a kill.
"""

import math
from dataclasses import dataclass

from training.core.recipe import Stage

MEASURE_SECONDS = 3.0  # how long steps are timed before a run with max_seconds is planned
SLACK = 0.05  # a plan moves when the rest of it would end this share too late or too early


@dataclass
class Plan:
    """Which share of the cosine is behind us at a step; its end may move, the share never jumps."""

    total: int
    at_step: int = 0
    at_progress: float = 0.0

    def progress(self, step: int) -> float:
        left = max(1, self.total - self.at_step)
        return min(1.0, self.at_progress + (1 - self.at_progress) * (step - self.at_step) / left)

    def moved(self, step: int, total: int) -> "Plan":
        return Plan(max(total, step), step, self.progress(step))


def learning_rate(stage: Stage, progress: float) -> float:
    """Linear warm-up, then a cosine from the peak to min_lr_ratio of it."""
    if progress < stage.warmup_ratio:
        return stage.lr * (progress + 1e-3) / (stage.warmup_ratio + 1e-3)
    done = (progress - stage.warmup_ratio) / (1 - stage.warmup_ratio)
    return stage.lr * (stage.min_lr_ratio + (1 - stage.min_lr_ratio) * 0.5 * (1 + math.cos(math.pi * done)))


class Pace:
    """Steps a second since this process began; moves the end of a plan so that it fits into max_seconds."""

    def __init__(self, step: int, seconds: float, longest: int) -> None:
        self.step, self.seconds, self.longest = step, seconds, longest
        self.due = MEASURE_SECONDS
        self.seen = (0, 0.0)

    def replan(self, plan: Plan, step: int, seconds: float, limit: float) -> Plan:
        """The plan to go on with: measured early, corrected when the machine turns out slower or faster."""
        steps, passed = step - self.step, seconds - self.seconds
        if not limit or passed < self.due:
            return plan
        self.due = max(2 * MEASURE_SECONDS, passed + limit / 10)
        # the first steps of a process are its slowest: measure from the last planning on
        rate = (steps - self.seen[0]) / max(passed - self.seen[1], 1e-6)
        self.seen = (steps, passed)
        wanted = min(step + int(max(0.0, limit - seconds) * rate), self.longest)
        if wanted <= step:
            return plan.moved(step, step)
        return plan.moved(step, wanted) if abs(wanted - plan.total) > SLACK * (plan.total - step) else plan
