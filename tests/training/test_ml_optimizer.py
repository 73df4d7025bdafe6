"""Muon, beside torch's own."""

import pytest
import torch

from training.ml import optimizer
from training.ml.optimizer import Muon

pytestmark = pytest.mark.ml
SHAPES = [(12, 12), (6, 20), (20, 6)]


@pytest.mark.parametrize("native", [True, False])
def test_muon_moves_matrices_as_torchs_does_with_and_without_native_bf16(
    native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optimizer, "native_bf16", lambda device: native)
    torch.manual_seed(0)
    ours = [torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    theirs = [torch.nn.Parameter(value.detach().clone()) for value in ours]
    before = [value.detach().clone() for value in ours]
    first = Muon([{"params": ours, "weight_decay": 0.1}], lr=0.02)
    second = torch.optim.Muon(theirs, lr=0.02, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for _ in range(4):
        for one, other in zip(ours, theirs, strict=True):
            one.grad = torch.randn_like(one)
            other.grad = one.grad.clone()
        first.step()
        second.step()
    for start, one, other in zip(before, ours, theirs, strict=True):
        moved = (other - start).norm()
        assert (one - other).norm() < 0.02 * moved and (one - start).norm() > 0.9 * moved
