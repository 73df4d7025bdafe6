"""What moves the weights, and how fast each part of a model may move.

In: a trainee, the weights that train, a stage. Out: an `Optimizer`: AdamW, and in the pocket model Muon for the
matrices of the decoder, which alone start from random numbers. There Muon learns to write sooner: a loss of
1.47 after 123 batches of 16 traces where AdamW stood at 2.12 (1,958 offline samples of the public catalog, seed 0; best
of four rates and of two).
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from catalog.ml.encoder import native_bf16
from training.core.recipe import Stage, shown
from training.ml.bases.model import Trainee


def peak(trainee: Trainee, name: str, stage: Stage) -> float:
    """The peak learning rate of a parameter; 0: it stays as it is. The encoder's word rows always do: a request holds a
    few of thirty thousand, and training moves only the words that samples hold."""
    if not trainee.pocket:
        return stage.lr
    if _of_encoder(name):
        return 0.0 if "word_embeddings" in name else stage.encoder_lr
    if name.endswith(".rows"):
        return stage.rows_lr
    return stage.writer_lr if _by_muon(trainee, name, stage) else stage.lr


def known_before(trainee: Trainee, weights: Mapping[str, nn.Parameter]) -> dict[str, nn.Parameter]:
    """The weights that know something before any training: the pocket model's encoder and tool rows."""
    return {
        name: value
        for name, value in weights.items()
        if trainee.pocket and (_of_encoder(name) or name.endswith(".rows"))
    }


def _of_encoder(name: str) -> bool:
    return ".encoder." in name


def _by_muon(trainee: Trainee, name: str, stage: Stage) -> bool:
    own = trainee.pocket and stage.writer_lr > 0
    return own and ".writer.layers." in name and not name.endswith("norm.weight")


class Optimizer:
    """AdamW and Muon as one, each parameter at its own share of the stage's rate."""

    def __init__(self, trainee: Trainee, weights: Mapping[str, nn.Parameter], stage: Stage) -> None:
        rates = {name: peak(trainee, name, stage) / stage.lr for name in weights}
        groups: dict[tuple[bool, float, float], list[nn.Parameter]] = {}
        for name, value in weights.items():
            decay = stage.weight_decay if value.ndim >= 2 else 0.0
            key = (_by_muon(trainee, name, stage), rates[name], decay)
            groups.setdefault(key, []).append(value)
        self._encoder = [value for name, value in weights.items() if trainee.pocket and _of_encoder(name)]
        self._encoder_from = stage.encoder_from
        self._parts: list[torch.optim.Optimizer] = []
        for muon in (False, True):
            given = [
                {"params": found, "share": share, "weight_decay": decay}
                for (is_muon, share, decay), found in groups.items()
                if is_muon == muon
            ]
            if given and muon:
                self._parts.append(Muon(given, lr=stage.lr))
            elif given:
                self._parts.append(torch.optim.AdamW(given, lr=stage.lr, betas=stage.betas, fused=True))

    def begin(self, progress: float) -> None:
        """Before each step's gradients. `progress`: share of the stage's steps that are done."""
        for value in self._encoder:
            value.requires_grad_(progress >= self._encoder_from)
        for part in self._parts:
            part.zero_grad(set_to_none=True)

    def step(self, rate: float) -> None:
        """`rate`: what the stage's rate is at this step."""
        for part in self._parts:
            for group in part.param_groups:
                group["lr"] = rate * group["share"]
            part.step()

    def moments(self, value: nn.Parameter) -> dict[str, Tensor]:
        """What is remembered of a weight; nothing before its first step."""
        return dict(self._of(value).state.get(value, {}))

    def remember(self, value: nn.Parameter, moments: Mapping[str, Tensor]) -> None:
        self._of(value).state[value] = dict(moments)

    def _of(self, value: nn.Parameter) -> torch.optim.Optimizer:
        return next(
            part
            for part in self._parts
            for group in part.param_groups
            if any(value is one for one in group["params"])
        )


class Muon(torch.optim.Optimizer):
    """Momentum whose matrices are made orthogonal (Jordan et al. 2024), at rates that fit AdamW's (Liu et al. 2025).

    The update is that of torch.optim.Muon with adjust_lr_fn="match_rms_adamw". torch's multiplies in bf16 everywhere:
    where a CPU emulates it, three matrices of the pocket model took 3.9 s a step, and take 0.09 s here.
    """

    def __init__(self, params: Any, lr: float, momentum: float = 0.95) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            rate, momentum = group["lr"], group["momentum"]
            for value in group["params"]:
                if value.grad is None:
                    continue
                state = self.state[value]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(value)
                mean = state["momentum_buffer"].lerp_(value.grad, 1 - momentum)
                update = orthogonal(value.grad.lerp(mean, momentum))
                value.mul_(1 - rate * group["weight_decay"])
                value.add_(update, alpha=-rate * 0.2 * max(value.shape) ** 0.5)


def orthogonal(matrix: Tensor) -> Tensor:
    """About the orthogonal matrix nearest to `matrix`: after five Newton-Schulz steps, most singular values near 1."""
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    found = wide.to(torch.bfloat16 if native_bf16(wide.device.type) else torch.float32)
    found = found / found.norm().clamp(min=1e-7)
    for _ in range(5):
        gram = found @ found.T
        found = torch.addmm(
            found, torch.addmm(gram, gram, gram, beta=-4.775, alpha=2.0315), found, beta=3.4445
        )
    return (found if wide is matrix else found.T).to(matrix.dtype)


# How fast the weights may move at a step, and what is told of a stage that ended before its last one.
#
# In: a stage's settings and how far it is. Out: a learning rate, a fact for log and model card. No clock is read here:
# how many steps a stage has follows from recipe and data (`Stage.steps`); a time limit stops it and moves nothing.


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
