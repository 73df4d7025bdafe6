"""How fast the weights may move at a step, and what is told of a stage that ended before its last one.

In: a stage's settings and how far it is. Out: a learning rate, a fact for log and model card. No clock is read here:
how many steps a stage has follows from recipe and data (`Stage.steps`); a time limit stops it and moves nothing.
"""

import math

from training.core.recipe import Stage
from training.core.recipe_fields import shown


def learning_rate(stage: Stage, progress: float) -> float:
    """Linear warm-up, then a cosine from the peak to min_lr_ratio of it."""
    if progress < stage.warmup_ratio:
        return stage.lr * (progress + 1e-3) / (stage.warmup_ratio + 1e-3)
    done = (progress - stage.warmup_ratio) / (1 - stage.warmup_ratio)
    return stage.lr * (stage.min_lr_ratio + (1 - stage.min_lr_ratio) * 0.5 * (1 + math.cos(math.pi * done)))


def early_stop(stage: Stage, step: int, records: int) -> dict[str, str]:
    """{"Stopped at": ...} when max_seconds ended the stage before its last step; else nothing."""
    steps = stage.steps(records)
    if step >= steps:
        return {}
    return {"Stopped at": f"{100 * step // steps} % of its steps (time limit {shown(stage.max_seconds)} s)"}
