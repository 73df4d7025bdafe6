"""What moves the weights, and how fast.

In: a trainee, the weights that train, a stage. Out: AdamW with each weight at its own share of the stage's rate, what
that rate is at a step, and what is told of a stage that ended before its last one. No clock is read here: how many
steps a stage has follows from recipe and data (`Stage.steps`); a time limit stops it and moves nothing.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from training.core.recipe import Stage, shown
from training.ml.trainee import Trainee


def adamw(trainee: Trainee[Any], weights: Mapping[str, nn.Parameter], stage: Stage) -> torch.optim.AdamW:
    """Each group with its own `share` of the stage's rate."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, value in weights.items():
        decay = stage.weight_decay if value.ndim >= 2 else 0.0
        groups.setdefault((trainee.peak(name, stage) / stage.lr, decay), []).append(value)
    given = [
        {"params": found, "share": share, "weight_decay": decay} for (share, decay), found in groups.items()
    ]
    return torch.optim.AdamW(given, lr=stage.lr, betas=stage.betas, fused=True)


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
