"""However a batch is cut, its loss and gradient are those of the whole batch."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch  # noqa: E402

from tests.training.small_bases import write_gemma  # noqa: E402
from tests.training.test_ml_checkpoints import prepared, steps  # noqa: E402
from training.core.recipe import Recipe  # noqa: E402
from training.ml import checkpoints, loop, step  # noqa: E402
from training.ml.checkpoints import Trainer  # noqa: E402
from training.ml.data import Batch, Example, collate  # noqa: E402

pytestmark = pytest.mark.ml


def gradient(trainer: Trainer, micro: int) -> tuple[float, dict[str, torch.Tensor]]:
    """Loss and gradients of one batch of uneven examples."""
    trainer.stage = replace(trainer.stage, micro_batch=micro)
    chosen = sorted(trainer.examples, key=lambda one: len(one.ids))[::2]
    trainer.optimizer.begin(0.0)
    batch = collate(chosen, trainer.trainee.chat.pad_id)
    loss = step.gradients(trainer, batch, [len(one.ids) for one in chosen])
    return loss.item(), gradients_of(trainer)


def gradients_of(trainer: Trainer) -> dict[str, torch.Tensor]:
    """Zero where a batch leaves none: nothing but traces leaves the encoder none."""
    return {
        key: torch.zeros_like(value) if value.grad is None else value.grad.clone()
        for key, value in trainer.weights.items()
    }


@pytest.fixture
def trainer(tmp_path: Path) -> Trainer:
    found, _ = prepared(tmp_path, tmp_path / "run")
    found.trainee.model.eval()  # without dropout
    found.recipe = replace(found.recipe, pocket=replace(found.recipe.pocket, dropout=0.0))
    return found


@pytest.mark.parametrize("micro", [1, 2, 3])
def test_micro_batches_give_the_loss_and_gradient_of_the_batch(trainer: Trainer, micro: int) -> None:
    whole, expected = gradient(trainer, 0)
    loss, found = gradient(trainer, micro)
    assert loss == pytest.approx(whole, rel=1e-5)
    for key, value in expected.items():
        torch.testing.assert_close(found[key], value, atol=1e-6, rtol=1e-4)


def test_the_mean_is_over_supervised_tokens_and_not_over_micro_batches(trainer: Trainer) -> None:
    chosen = sorted(trainer.examples, key=lambda one: sum(one.mask))
    short, long = chosen[0], chosen[-1]
    losses = {}
    for name, group in {"short": [short], "long": [long], "both": [short, long]}.items():
        trainer.stage = replace(trainer.stage, micro_batch=1)
        trainer.optimizer.begin(0.0)
        batch = collate(group, trainer.trainee.chat.pad_id)
        losses[name] = step.gradients(trainer, batch, [len(one.ids) for one in group]).item()
    few, many = sum(short.mask), sum(long.mask)
    assert few < many
    weighted = (losses["short"] * few + losses["long"] * many) / (few + many)
    assert losses["both"] == pytest.approx(weighted, rel=1e-5)
    assert losses["both"] != pytest.approx((losses["short"] + losses["long"]) / 2, rel=1e-3)


def of_lengths(trainer: Trainer, *lengths: int) -> Batch:
    """The first tokens of the longest record, so many of them a row."""
    longest = max(trainer.examples, key=lambda one: len(one.ids))
    assert sum(longest.mask[: min(lengths)]) and max(lengths) <= len(longest.ids)
    rows = [Example(longest.ids[:size], longest.mask[:size]) for size in lengths]
    return collate(rows, trainer.trainee.chat.pad_id)


def test_padding_and_tokens_are_counted(trainer: Trainer) -> None:
    lengths = [14, 17, 23]
    for micro, computed in ((0, 3 * 24), (1, 14 + 18 + 24)):
        trainer.real = trainer.computed = 0
        trainer.stage = replace(trainer.stage, micro_batch=micro)
        step.gradients(trainer, of_lengths(trainer, *lengths), lengths)
        assert (trainer.real, trainer.computed) == (sum(lengths), computed)


def test_a_batch_is_cut_where_a_sequence_is_much_longer_than_the_first() -> None:
    lengths = [6, 7, 15, 16, 40]
    ids = torch.arange(200).reshape(5, 40)
    batch = Batch(ids, ids + 1, sum(lengths))
    found = list(step.parts(batch, lengths, slice(0, 5), 0))
    assert [tuple(part.ids.shape) for part in found] == [(3, 16), (2, 40)]
    assert [part.tokens for part in found] == [28, 56]
    assert [tuple(part.ids.shape) for part in step.parts(batch, lengths, slice(1, 4), 2)] == [
        (2, 16),
        (1, 16),
    ]
    for part, rows in zip(found, (slice(0, 3), slice(3, 5)), strict=True):
        assert part.ids.equal(ids[rows, : part.ids.shape[1]])
        assert part.labels.equal(ids[rows, : part.ids.shape[1]] + 1)


def test_a_batch_cut_by_length_has_the_loss_and_gradient_of_the_whole(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths, found = [14, 20, 40, 44], []
    for longer in (2.5, 100.0):
        monkeypatch.setattr(step, "LONGER", longer)
        trainer.optimizer.begin(0.0)
        loss = step.gradients(trainer, of_lengths(trainer, *lengths), lengths).item()
        found.append((loss, gradients_of(trainer)))
    (loss, cut), (expected, whole) = found
    assert loss == pytest.approx(expected, rel=1e-5)
    for key, value in whole.items():
        torch.testing.assert_close(cut[key], value, atol=1e-6, rtol=1e-4)


def calls_of_layers(model: Any, work: Any) -> int:
    """How many times the first layer's feed-forward part runs while `work` runs."""
    calls = 0

    def count(*_: Any) -> None:
        nonlocal calls
        calls += 1

    layer = next(module for name, module in model.named_modules() if name.endswith("layers.0.mlp"))
    handle = layer.register_forward_pre_hook(count)
    work()
    handle.remove()
    return calls


@pytest.mark.parametrize("base", ["pocket", "gemma"])
def test_recomputed_activations_give_the_same_step(tmp_path: Path, base: str) -> None:
    from tests.training import killing
    from tests.training.small_snapshot import write_snapshot
    from training.core.records import load_snapshot, stage2_records
    from training.core.rundir import RunDir
    from training.ml.bases.model import build
    from training.ml.data import encode

    recipe: Recipe = killing.small_recipe()
    if base == "gemma":
        recipe = recipe.with_cell(base=str(write_gemma(tmp_path / "gemma")), format="a")
    snapshot = load_snapshot(write_snapshot(tmp_path / "snapshot"))
    found = []
    for wanted in (False, True):
        changed = replace(recipe, activation_checkpointing=wanted)
        trainee = build(changed, snapshot)
        examples, _ = encode(stage2_records(snapshot, changed), trainee.chat, 256)
        run = RunDir(tmp_path / str(wanted))
        run.checkpoints.mkdir(parents=True)
        trainer = loop.prepare(trainee, examples, changed.stage2, changed, run, "stage2", [])
        trainee.model.train()
        longest = sorted(examples, key=lambda one: len(one.ids))[
            -2:
        ]  # of one length, so that they are one part
        ran = calls_of_layers(trainee.model, lambda t=trainer, chosen=longest: step.train_step(t, chosen))
        found.append((trainer, ran))
    (plain, once), (recomputed, twice) = found
    assert (once, twice) == (1, 2)
    assert plain.losses[0].item() == recomputed.losses[0].item()
    for key, value in plain.weights.items():
        torch.testing.assert_close(recomputed.weights[key], value, atol=1e-6, rtol=1e-5)


def test_a_diverged_loss_is_named_with_its_step_and_never_saved(tmp_path: Path) -> None:
    from trace_site.lib.errors import TraceError

    trainer, batches = prepared(tmp_path, tmp_path / "run")
    steps(trainer, batches, 1)
    with torch.no_grad():
        next(iter(trainer.weights.values())).fill_(float("nan"))
    steps(trainer, batches, 1)
    with pytest.raises(TraceError, match="the loss is nan at step 1"):
        checkpoints.save(trainer)
    assert trainer.run.latest_checkpoint() is None
