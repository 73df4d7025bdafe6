"""One model, many ways to run it: adapters, merged, read back, with and without cache, alone and in a batch."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch  # noqa: E402

from tests.training.small_bases import EACH_SHAPE  # noqa: E402
from tests.training.small_training import Small, labels_of  # noqa: E402
from training.core.rundir import RunDir  # noqa: E402
from training.ml.bases.named import load_named  # noqa: E402
from training.ml.export import export  # noqa: E402
from training.ml.language import IGNORE  # noqa: E402

pytestmark = pytest.mark.ml
EXACT = 1e-5  # fp32 on a CPU
FACTS = {"memo": "none", "retrieval": "r"}


@torch.no_grad()
def logits(model, ids, **options):  # type: ignore[no-untyped-def]
    return model(input_ids=ids, **options).logits


def apart(one: torch.Tensor, other: torch.Tensor) -> float:
    return (one - other).abs().max().item()


@pytest.mark.parametrize("embeddings", ["full", "new_rows"])
@pytest.mark.parametrize("shape", EACH_SHAPE)
def test_adapters_merged_and_read_back_give_the_same_logits(
    tmp_path: Path, shape: str, embeddings: str
) -> None:
    small = Small(tmp_path, shape, embeddings=embeddings)
    ids = small.batch().ids
    before = logits(small.model, ids)
    small.train()
    trained = logits(small.model, ids)
    assert apart(before, trained) > 1e-2
    export(small.trainee, small.recipe, small.snapshot, RunDir(tmp_path / "run"), FACTS)
    again, _ = load_named(str(tmp_path / "run" / "export"))
    merged = logits(small.model.get_base_model(), ids)
    assert apart(trained, merged) <= EXACT
    assert apart(trained, logits(again.eval(), ids)) <= EXACT


@pytest.mark.parametrize("embeddings", ["full", "new_rows"])
@pytest.mark.parametrize("shape", EACH_SHAPE)
def test_the_loss_is_the_librarys_with_and_without_its_cache(
    tmp_path: Path, shape: str, embeddings: str
) -> None:
    small = Small(tmp_path, shape, embeddings=embeddings)
    small.train(steps=2)
    batch = small.batch()
    with torch.no_grad():
        ours = small.loss(batch).item()
        for use_cache in (True, False):
            output = small.model(
                input_ids=batch.ids, labels=batch.ids, shift_labels=labels_of(batch), use_cache=use_cache
            )
            assert abs(output.loss.item() - ours) <= EXACT


@pytest.mark.parametrize("shape", EACH_SHAPE)
def test_tokens_fed_one_by_one_through_the_cache_give_the_logits_of_one_pass(
    tmp_path: Path, shape: str
) -> None:
    small = Small(tmp_path, shape)
    small.train(steps=2)
    ids = small.batch(small.examples[:1]).ids
    whole, cache, steps = logits(small.model, ids, use_cache=False), None, []
    with torch.no_grad():
        for at in range(ids.shape[1]):
            output = small.model(input_ids=ids[:, at : at + 1], past_key_values=cache, use_cache=True)
            cache = output.past_key_values
            steps.append(output.logits)
    assert apart(torch.cat(steps, dim=1), whole) <= EXACT


@pytest.mark.parametrize("embeddings", ["full", "new_rows"])
@pytest.mark.parametrize("shape", EACH_SHAPE)
def test_recomputed_activations_give_the_same_loss_and_gradients(
    tmp_path: Path, shape: str, embeddings: str
) -> None:
    small = Small(tmp_path, shape, embeddings=embeddings)
    small.train(steps=2)
    small.model.train()
    kept, gradients = small.loss().item(), small.gradients()
    small.model.get_base_model().activation_checkpointing_enable()
    assert small.model.get_base_model().is_activation_checkpointing
    assert abs(small.loss().item() - kept) <= EXACT
    again = small.gradients()
    assert again.keys() == gradients.keys()
    assert all(apart(again[name], value) <= EXACT for name, value in gradients.items())


@pytest.mark.parametrize("shape", EACH_SHAPE)
def test_samples_alone_give_the_loss_of_their_batch(tmp_path: Path, shape: str) -> None:
    small = Small(tmp_path, shape)
    small.train(steps=2)
    assert len({len(example.ids) for example in small.examples}) > 1
    total = count = 0.0
    with torch.no_grad():
        for example in small.examples:
            batch = small.batch([example])
            supervised = int((labels_of(batch) != IGNORE).sum())
            total, count = total + small.loss(batch).item() * supervised, count + supervised
        assert abs(small.loss().item() - total / count) <= EXACT
