"""What moves the weights, and how fast each part of a model may move.

In: a trainee, the weights that train, a stage. Out: an `Optimizer`: AdamW, and in the pocket model Muon for the
matrices of the decoder, which alone start from random numbers. There Muon learns to write sooner: a loss of
1.47 after 123 batches of 16 traces where AdamW stood at 2.12 (1,958 offline samples of the public catalog, seed 0; best
of four rates and of two).
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from training.core.recipe import Stage
from training.ml.model import Trainee


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
                # its rates are then those of AdamW; 0.95 and five iterations are its defaults
                self._parts.append(torch.optim.Muon(given, lr=stage.lr, adjust_lr_fn="match_rms_adamw"))
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
