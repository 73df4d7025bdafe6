"""The loss head: values and gradients of plain torch, for every kind of head, from blocks that stay small."""

from typing import Any

import pytest

pytest.importorskip("torch")

import torch  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from training.ml import head as heads  # noqa: E402
from training.ml.head import Head, Part, summed_loss  # noqa: E402

pytestmark = pytest.mark.ml


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(heads.BLOCK, "cpu", (4, 8))
    monkeypatch.setattr(heads, "KEPT", 0)
    torch.set_num_threads(1)


def plain_loss(head: Head, hidden: Tensor, targets: Tensor) -> Tensor:
    weight = torch.cat([part.weight for part in head.parts])
    logits = hidden @ weight.T
    if head.parts[0].bias is not None:
        logits = logits + torch.cat([part.bias for part in head.parts if part.bias is not None])
    logits = logits * head.scale
    if head.cap:
        logits = torch.tanh(logits / head.cap) * head.cap
    return functional.cross_entropy(logits, targets, reduction="sum")


def values(*shape: int, seed: int, dtype: torch.dtype, spread: float = 1.0) -> Tensor:
    chance = torch.Generator().manual_seed(seed)
    made = torch.randn(*shape, generator=chance, dtype=torch.float64) * spread
    return made.to(dtype).requires_grad_()


def case(dtype: torch.dtype, rows: tuple[int, ...], positions: int = 11, bias: bool = False) -> Any:
    width = 6
    parts = [
        Part(
            values(count, width, seed=number, dtype=dtype),
            values(count, seed=9 + number, dtype=dtype) if bias else None,
        )
        for number, count in enumerate(rows)
    ]
    hidden = values(positions, width, seed=50, dtype=dtype, spread=3.0)
    targets = torch.randint(0, sum(rows), (positions,), generator=torch.Generator().manual_seed(7))
    return tuple(parts), hidden, targets


def gradients(loss: Tensor, parts: tuple[Part, ...], hidden: Tensor) -> list[Tensor]:
    leaves = [hidden, *(t for part in parts for t in (part.weight, part.bias) if t is not None)]
    return list(torch.autograd.grad(loss, [leaf for leaf in leaves if leaf.requires_grad]))


def distance(ours: Tensor, theirs: Tensor) -> float:
    return ((ours.double() - theirs.double()).norm() / theirs.double().norm().clamp(min=1e-12)).item()


VARIANTS = {
    "plain": {},
    "softcap": {"cap": 3.0},
    "multiplied": {"scale": 0.25},
    "multiplied, then capped": {"scale": 2.0, "cap": 5.0},
    "bias": {"bias": True, "cap": 4.0},
    "split in three": {"rows": (13, 5, 2)},
    "split with bias, scale and cap": {"rows": (9, 8, 3), "bias": True, "scale": 0.5, "cap": 2.0},
}


@pytest.mark.parametrize("kept", [0, 2**20], ids=["made twice", "kept"])
@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("name", VARIANTS)
def test_loss_and_gradients_equal_plain_torch(
    name: str, dtype: torch.dtype, near: float, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "KEPT", kept)
    options: dict[str, Any] = dict(VARIANTS[name])
    parts, hidden, targets = case(dtype, options.pop("rows", (21,)), bias=options.pop("bias", False))
    head = Head(parts, **options)
    ours, theirs = summed_loss(head, hidden, targets), plain_loss(head, hidden, targets)
    assert ours.item() == pytest.approx(theirs.item(), rel=near)
    for one, other in zip(
        gradients(ours * 0.5, parts, hidden), gradients(theirs * 0.5, parts, hidden), strict=True
    ):
        assert distance(one, other) < near


@settings(max_examples=60)
@given(
    st.integers(1, 13),
    st.lists(st.integers(1, 19), min_size=1, max_size=3),
    st.sampled_from([0.0, 2.5]),
    st.integers(0, 2**31),
)
def test_any_shape_around_the_borders_of_blocks(
    positions: int, rows: list[int], cap: float, seed: int
) -> None:
    parts, hidden, _ = case(torch.float64, tuple(rows), positions)
    chance = torch.Generator().manual_seed(seed)
    targets = torch.randint(0, sum(rows), (positions,), generator=chance)
    head = Head(parts, cap=cap)
    ours, theirs = summed_loss(head, hidden, targets), plain_loss(head, hidden, targets)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-10, abs=1e-10)
    for one, other in zip(gradients(ours, parts, hidden), gradients(theirs, parts, hidden), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


def test_one_position_and_none() -> None:
    parts, hidden, targets = case(torch.float64, (21,))
    one = summed_loss(Head(parts), hidden[:1], targets[:1])
    assert one.item() == pytest.approx(plain_loss(Head(parts), hidden[:1], targets[:1]).item())
    none = summed_loss(Head(parts), hidden[:0], targets[:0])
    assert none.item() == 0
    assert all(not grad.any() for grad in gradients(none, parts, hidden))


def test_huge_logits_neither_overflow_nor_vanish() -> None:
    parts, hidden, targets = case(torch.float32, (21,))
    loud = (hidden * 1e4).detach().requires_grad_()
    ours, theirs = summed_loss(Head(parts), loud, targets), plain_loss(Head(parts), loud, targets)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)
    for one, other in zip(gradients(ours, parts, loud), gradients(theirs, parts, loud), strict=True):
        assert distance(one, other) < 1e-4


@pytest.mark.parametrize("frozen", [(True,), (True, False, True)])
def test_a_frozen_part_gets_no_gradient_and_costs_none(frozen: tuple[bool, ...]) -> None:
    parts, hidden, targets = case(torch.float64, (9, 7, 5)[: len(frozen)])
    for part, still in zip(parts, frozen, strict=True):
        part.weight.requires_grad_(not still)
    targets = targets % sum(len(part.weight) for part in parts)
    summed_loss(Head(parts), hidden, targets).backward()
    assert [part.weight.grad is None for part in parts] == list(frozen)
    assert hidden.grad is not None


def test_a_tied_table_gets_the_sum_of_both_gradients() -> None:
    table = values(21, 6, seed=1, dtype=torch.float64)
    ids = torch.tensor([3, 3, 20, 0, 7])
    targets = torch.tensor([3, 8, 0, 20, 7])

    def gradient(loss: Any) -> Tensor:
        hidden = functional.embedding(ids, table).tanh()
        return torch.autograd.grad(loss(Head((Part(table),), cap=3.0), hidden, targets), table)[0]

    torch.testing.assert_close(gradient(summed_loss), gradient(plain_loss))


@pytest.mark.parametrize("table_dtype", [torch.float32, torch.bfloat16])
def test_bf16_autocast_is_as_near_to_the_truth_as_plain_autocast(table_dtype: torch.dtype) -> None:
    exact_parts, hidden, targets = case(torch.float64, (21,))
    truth = gradients(plain_loss(Head(exact_parts, cap=5.0), hidden, targets), exact_parts, hidden)
    parts = (Part(exact_parts[0].weight.detach().to(table_dtype).requires_grad_()),)
    low = hidden.detach().float().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        ours = summed_loss(Head(parts, cap=5.0), low, targets)
    assert ours.dtype == torch.float32
    for one, exact in zip(gradients(ours, parts, low), truth, strict=True):
        assert distance(one, exact) < 2e-2


class Largest(TorchDispatchMode):
    """The bytes of the largest tensor that any operation returns."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for tensor in found if isinstance(found, tuple | list) else (found,):
            if isinstance(tensor, Tensor) and not tensor._is_view():
                self.bytes = max(self.bytes, tensor.numel() * tensor.element_size())
        return found


def test_no_tensor_is_larger_than_a_block_or_the_gradient_of_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(heads.BLOCK, "cpu", (64, 256))
    weight, hidden = (
        values(5000, 16, seed=0, dtype=torch.float32),
        values(400, 16, seed=1, dtype=torch.float32),
    )
    targets = torch.arange(400) * 12
    with Largest() as trained:
        summed_loss(Head((Part(weight),), cap=30.0), hidden, targets).backward()
    assert trained.bytes == weight.numel() * 4
    still = weight.detach()
    with Largest() as frozen:
        summed_loss(Head((Part(still),), cap=30.0), hidden, targets).backward()
    assert frozen.bytes <= 64 * 256 * 4
    with Largest() as plain:
        plain_loss(Head((Part(weight),), cap=30.0), hidden, targets).backward()
    assert plain.bytes == 400 * 5000 * 4
