"""What a request looks like to a model, in numbers that tell whether its answer can be relied on.

In: the state right before the first tool, and the ranking found there. Out: per request its features, see
evaluation.core.confidence; those of the encoder only for a base that has one.
"""

from collections.abc import Sequence
from math import exp, log
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from evaluation.core.confidence import BEST, FLOOR, NEAREST
from evaluation.ml.export import Export
from evaluation.ml.search import Banned, Ranking
from evaluation.ml.state import State
from training.ml.bases.pocket import PocketConfig

Features = dict[str, Any]


@torch.inference_mode()
def request_features(
    export: Export, state: State, rankings: Sequence[Ranking], banned: Sequence[Banned]
) -> list[Features]:
    """`rankings`: at least the BEST tools of each request."""
    read = readings(state)
    found = [ranking_features(ranking) for ranking in rankings]
    if read is not None:
        cosines = (read @ export.tool_rows.T).cpu()
        for features, reading, near, skip in zip(found, read.cpu(), cosines, banned, strict=True):
            features |= nearness(near, skip)
            features["reading"] = [round(value, 4) for value in reading.tolist()]
    return found


def ranking_features(ranking: Ranking) -> Features:
    scores = [score for _, score in ranking[:BEST]] or [FLOOR]
    mass = sum(map(exp, scores))
    return {
        "first": round(max(FLOOR, scores[0]), 4),
        "lead": round(min(-FLOOR, scores[0] - scores[1]) if len(scores) > 1 else -FLOOR, 4),
        "best": round(log(mass) if mass else FLOOR, 4),
    }


def nearness(cosines: Tensor, banned: Banned) -> Features:
    """How near the request lies to the tools that may be answered."""
    allowed = torch.ones(len(cosines), dtype=torch.bool)
    allowed[list(banned)] = False
    ordered = cosines[allowed].sort(descending=True).values
    if not len(ordered):
        return {"nearest": 0.0, "near": 0.0, "usual": 0.0, "stands_out": 0.0}
    nearest, usual = float(ordered[0]), float(ordered.mean())
    return {
        "nearest": round(nearest, 4),
        "near": round(float(ordered[:NEAREST].mean()), 4),
        "usual": round(usual, 4),
        "stands_out": round((nearest - usual) / (float(ordered.std(correction=0)) + 1e-6), 4),
    }


def readings(state: State) -> Tensor | None:
    """[requests, width], length 1: the mean state of each request's words, which pocket keeps in its cache."""
    config = state.model.config
    if config.model_type != PocketConfig.model_type:
        return None
    layer = state.layers[config.num_hidden_layers]
    assert layer is not None
    asked, states = layer[0][:, 0, :, 0], layer[1][:, 0]
    mean = states.sum(dim=1) / asked.sum(dim=1, keepdim=True).clamp(min=1)
    return functional.normalize(mean.float(), dim=-1)
