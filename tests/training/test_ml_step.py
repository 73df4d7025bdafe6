"""However a batch is cut, its loss and gradient are those of the whole batch."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch  # noqa: E402

from tests.training.killing import small_recipe  # noqa: E402
from tests.training.small_bases import write_gemma  # noqa: E402
from tests.training.test_ml_checkpoints import prepared, steps  # noqa: E402
from trace_site.lib.errors import TraceError  # noqa: E402
from training.core.recipe import POCKET, Recipe  # noqa: E402
from training.ml import checkpoints, step  # noqa: E402
from training.ml.checkpoints import Trainer  # noqa: E402
from training.ml.language import Written  # noqa: E402
from training.ml.trainee import Batch, Example  # noqa: E402

pytestmark = pytest.mark.ml


def gradient(trainer: Trainer, micro: int) -> tuple[float, dict[str, torch.Tensor]]:
    """Loss and gradients of one batch of uneven examples."""
    trainer.stage = replace(trainer.stage, micro_batch=micro)
    chosen = sorted(trainer.examples, key=lambda one: len(one.ids))[::2]
    return trained_on(trainer, trainer.trainee.collate(chosen)), gradients_of(trainer)


def trained_on(trainer: Trainer, batch: Batch[Any]) -> float:
    trainer.optimizer.zero_grad()
    return step.gradients(trainer, batch).item()


def gradients_of(trainer: Trainer) -> dict[str, torch.Tensor]:
    """Zero where a batch leaves none."""
    return {
        key: torch.zeros_like(value) if value.grad is None else value.grad.clone()
        for key, value in trainer.weights.items()
    }


def recipe_of(tmp_path: Path, kind: str) -> Recipe:
    recipe = small_recipe()
    if kind == POCKET:
        return recipe
    base = str(write_gemma(tmp_path / "gemma"))
    return recipe.with_cell(base=base, format="a", empty_thinking_share=0.5)


@pytest.fixture(params=[POCKET, "gemma"])
def trainer(tmp_path: Path, request: pytest.FixtureRequest) -> Trainer:
    found, _ = prepared(tmp_path, tmp_path / "run", recipe_of(tmp_path, request.param))
    found.trainee.model.eval()  # without dropout
    return found


@pytest.fixture
def writing(tmp_path: Path) -> Trainer:
    """Of a language model."""
    found, _ = prepared(tmp_path, tmp_path / "run", recipe_of(tmp_path, "gemma"))
    found.trainee.model.eval()
    return found


@pytest.mark.parametrize("micro", [1, 2, 3])
def test_micro_batches_give_the_loss_and_gradient_of_the_batch(trainer: Trainer, micro: int) -> None:
    whole, expected = gradient(trainer, 0)
    loss, found = gradient(trainer, micro)
    assert loss == pytest.approx(whole, rel=1e-5)
    for key, value in expected.items():
        torch.testing.assert_close(found[key], value, atol=1e-6, rtol=1e-4)


def test_the_mean_is_over_supervised_tokens_and_not_over_micro_batches(writing: Trainer) -> None:
    trainer, examples = writing, written(writing)
    chosen = sorted(examples, key=lambda one: sum(one.mask))
    short, long = chosen[0], chosen[-1]
    losses = {}
    for name, group in {"short": [short], "long": [long], "both": [short, long]}.items():
        trainer.stage = replace(trainer.stage, micro_batch=1)
        losses[name] = trained_on(trainer, trainer.trainee.collate(group))
    few, many = sum(short.mask), sum(long.mask)
    assert few < many
    weighted = (losses["short"] * few + losses["long"] * many) / (few + many)
    assert losses["both"] == pytest.approx(weighted, rel=1e-5)
    assert losses["both"] != pytest.approx((losses["short"] + losses["long"]) / 2, rel=2e-5)


def written(trainer: Trainer) -> list[Written]:
    return [one for one in trainer.examples if isinstance(one, Written)]


def of_lengths(trainer: Trainer, *lengths: int) -> Batch[Any]:
    """The last tokens of the longest record, so many of them a row."""
    longest = max(written(trainer), key=lambda one: len(one.ids))
    assert max(lengths) <= len(longest.ids)
    return trainer.trainee.collate([Written(longest.ids[-n:], longest.mask[-n:]) for n in lengths])


def test_padding_and_tokens_are_counted(writing: Trainer) -> None:
    lengths = [14, 17, 23]
    for micro, computed in ((0, 3 * 24), (1, 14 + 18 + 24)):
        writing.real = writing.computed = 0
        writing.stage = replace(writing.stage, micro_batch=micro)
        trained_on(writing, of_lengths(writing, *lengths))
        assert (writing.real, writing.computed) == (sum(lengths), computed)


def test_a_batch_is_cut_where_a_sequence_is_much_longer_than_the_first() -> None:
    examples = [Example([1] * length) for length in (6, 7, 15, 16, 40)]

    def cut(mine: slice, micro: int) -> list[list[int]]:
        return [[len(one.ids) for one in part] for part in step.parts(examples, mine, micro)]

    assert cut(slice(0, 5), 0) == [[6, 7, 15], [16, 40]]
    assert cut(slice(1, 4), 2) == [[7, 15], [16]]


def test_a_batch_cut_by_length_has_the_loss_and_gradient_of_the_whole(
    writing: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for longer in (2.5, 100.0):
        monkeypatch.setattr(step, "LONGER", longer)
        loss = trained_on(writing, of_lengths(writing, 14, 20, 40, 44))
        found.append((loss, gradients_of(writing)))
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

    ends = ("layers.0.mlp", "layer.0.intermediate")
    layer = next(module for name, module in model.named_modules() if name.endswith(ends))
    handle = layer.register_forward_pre_hook(count)
    work()
    handle.remove()
    return calls


@pytest.mark.parametrize("base", [POCKET, "gemma"])
def test_recomputed_activations_give_the_same_step(tmp_path: Path, base: str) -> None:
    recipe, found = recipe_of(tmp_path, base), []
    for wanted in (False, True):
        changed = replace(recipe, activation_checkpointing=wanted)
        trainer, _ = prepared(tmp_path, tmp_path / str(wanted), changed)
        # of one length, so that they are one part
        longest = sorted(trainer.examples, key=lambda one: len(one.ids))[-2:]
        ran = calls_of_layers(
            trainer.trainee.model, lambda t=trainer, chosen=longest: step.train_step(t, chosen)
        )
        found.append((trainer, ran))
    (plain, once), (recomputed, twice) = found
    assert (once, twice) == (1, 2)
    assert plain.losses[0].item() == recomputed.losses[0].item()
    for key, value in plain.weights.items():
        torch.testing.assert_close(recomputed.weights[key], value, atol=1e-6, rtol=1e-5)


def test_a_diverged_loss_is_named_with_its_step_and_never_saved(tmp_path: Path) -> None:
    trainer, batches = prepared(tmp_path, tmp_path / "run")
    steps(trainer, batches, 1)
    with torch.no_grad():
        next(iter(trainer.weights.values())).fill_(float("nan"))
    steps(trainer, batches, 1)
    with pytest.raises(TraceError, match="the loss is nan at step 1"):
        checkpoints.save(trainer)
    assert trainer.run.latest_checkpoint() is None
