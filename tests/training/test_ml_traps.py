"""Mistakes that train a wrong model without any error, one test each: it fails when the trap is back."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch  # noqa: E402
from safetensors import safe_open  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from tokenizers import normalizers  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402
from transformers import AutoTokenizer, PreTrainedModel  # noqa: E402

from tests.training.small_bases import EACH_SHAPE, SHAPES, gemma_tokenizer, write_base  # noqa: E402
from tests.training.small_snapshot import NAMES, write_snapshot  # noqa: E402
from tests.training.small_training import Small, exported_chat, labels_of, recipe_for  # noqa: E402
from trace_site.lib.errors import TraceError  # noqa: E402
from training.core.memorization import stage1_records  # noqa: E402
from training.core.recipe import Lora, Recipe, Stage  # noqa: E402
from training.core.records import load_snapshot, stage2_records  # noqa: E402
from training.core.rundir import RunDir  # noqa: E402
from training.ml.bases import named
from training.ml.bases.adapters import template_markers  # noqa: E402
from training.ml.bases.chat import Chat  # noqa: E402
from training.ml.bases.model import build  # noqa: E402
from training.ml.bases.named import (  # noqa: E402
    add_tokens,  # noqa: E402
    is_tied,
    load_named,
    token_tables,
)
from training.ml.export import export, merged  # noqa: E402
from training.ml.language import IGNORE, encode  # noqa: E402
from training.ml.stages import train_stage  # noqa: E402

pytestmark = pytest.mark.ml
FACTS = {"memo": "none", "retrieval": "r"}
MODES = pytest.mark.parametrize("embeddings", ["full", "new_rows"])


def exported(small: Small, folder: Path) -> Path:
    export(small.trainee, small.recipe, small.snapshot, RunDir(folder), FACTS)
    return folder / "export"


def tool_ids(small: Small) -> list[int]:
    names = [tool["name"] for tool in small.snapshot.tools]
    strings = small.snapshot.family_strings(small.recipe.format)
    used = {unit for name in names for unit in strings if unit.strip("<>") in name or "tid" in unit}
    return small.trainee.chat.unit_ids(sorted(used))


# tables and ties


@pytest.mark.parametrize("shape", ["gemma4", "gemma4-towers"])
def test_both_tables_of_gemma_get_rows_for_tool_tokens_and_the_config_says_so(
    tmp_path: Path, shape: str
) -> None:
    small = Small(tmp_path, shape, embeddings="full")
    base, needed = load_untrained(small), len(small.trainee.chat.tokenizer)
    sizes = {name.rsplit(".", 1)[-1]: table.weight.shape[0] for name, table in token_tables(base).items()}
    config = base.config.get_text_config()
    assert sizes["embed_tokens"] == sizes["embed_tokens_per_layer"] >= needed
    assert config.vocab_size == config.vocab_size_per_layer_input == sizes["embed_tokens"]
    saved = json.loads((exported(small, tmp_path / "run") / "config.json").read_text())
    saved = saved.get("text_config", saved)
    assert saved["vocab_size"] == saved["vocab_size_per_layer_input"] == sizes["embed_tokens"]


@MODES
def test_the_new_rows_of_the_per_layer_table_train(tmp_path: Path, embeddings: str) -> None:
    small = Small(tmp_path, "gemma4", embeddings=embeddings)
    before = {
        name: table.weight.detach().clone() for name, table in token_tables(load_untrained(small)).items()
    }
    small.train(steps=3)
    after = token_tables(merged(small.trainee))
    seen = sorted({n for e in small.examples for n in e.ids} & set(tool_ids(small)))
    assert len(before) == len(after) == 2 and seen
    for name, table in after.items():
        assert (table.weight[seen] != before[name][seen]).any(dim=1).all(), name


def load_untrained(small: Small) -> Any:
    return merged(build(small.recipe, small.snapshot))


def test_a_base_whose_second_table_cannot_grow_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import Gemma4ForCausalLM

    monkeypatch.setattr(Gemma4ForCausalLM, "_resize_per_layer_embeddings", lambda *args: None)
    with pytest.raises(TraceError, match="embed_tokens_per_layer has no room"):
        Small(tmp_path, "gemma4")


@MODES
@pytest.mark.parametrize("shape", [*EACH_SHAPE, "gemma4-towers"])
def test_tied_tables_stay_one_from_the_first_step_to_the_file(
    tmp_path: Path, shape: str, embeddings: str
) -> None:
    small = Small(tmp_path, shape, embeddings=embeddings)
    trained = [n for n, p in small.model.named_parameters() if p.requires_grad and "lora_" not in n]
    assert len(trained) == (2 if "gemma4" in shape else 1)
    small.train(steps=2)
    folder = exported(small, tmp_path / "run")
    model, _ = load_named(str(folder))
    assert is_tied(model)
    assert json.loads((folder / "config.json").read_text())["tie_word_embeddings"] is True
    with safe_open(folder / "model.safetensors", "pt") as file:
        assert not [name for name in list(file.keys()) if "lm_head" in name]


@MODES
def test_a_head_of_its_own_stays_one_and_trains(tmp_path: Path, embeddings: str) -> None:
    small = Small(tmp_path, "llama", base={"tie_word_embeddings": False}, embeddings=embeddings)
    before = load_untrained(small).get_output_embeddings().weight.detach().clone()
    small.train(steps=2)
    model, _ = load_named(str(exported(small, tmp_path / "run")))
    assert not is_tied(model) and not model.config.tie_word_embeddings
    ids = tool_ids(small)
    assert (model.get_output_embeddings().weight[ids] != before[ids]).any(dim=1).all()


def test_no_covariance_of_a_whole_table_is_estimated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def estimate(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("mean_resizing is on")

    for name in dir(PreTrainedModel):
        if name.startswith("_init_added") and name.endswith("_with_mean"):
            monkeypatch.setattr(PreTrainedModel, name, estimate)
            break
    else:
        pytest.fail("the library's initialisation has another name now")
    Small(tmp_path, "gemma4")


def test_rows_of_no_tool_are_never_the_best_answer(tmp_path: Path) -> None:
    small = Small(tmp_path, "llama")
    model = merged(small.trainee)
    spare = slice(len(small.trainee.chat.tokenizer), None)
    with torch.no_grad():
        logits = model(input_ids=small.batch().ids).logits.flatten(0, 1)
    assert logits[:, spare].shape[1] > 0
    assert (logits[:, spare].max(dim=1).values < logits.max(dim=1).values).all()


def test_what_trains_is_fp32_even_on_a_bf16_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = named.AutoModelForCausalLM.from_pretrained
    monkeypatch.setattr(
        named.AutoModelForCausalLM,
        "from_pretrained",
        lambda source, **options: whole(source, **options | {"dtype": torch.bfloat16}),
    )
    for number, embeddings in enumerate(("full", "new_rows")):
        small = Small(tmp_path / embeddings, "gemma4", embeddings=embeddings)
        kinds = {(p.requires_grad, p.dtype) for p in small.model.parameters()}
        assert kinds == {(True, torch.float32), (False, torch.bfloat16)}
        before = [p.clone() for p in small.model.parameters() if p.requires_grad]
        with torch.autocast("cpu", torch.bfloat16):
            small.train(steps=1, lr=1e-5)
        after = [p for p in small.model.parameters() if p.requires_grad]
        assert sum((a != b).sum().item() for a, b in zip(before, after, strict=True)) > 1000
        folder = exported(small, tmp_path / str(number))
        assert {t.dtype for t in load_file(folder / "model.safetensors").values()} == {torch.bfloat16}


# weights that did not load


def test_a_checkpoint_of_another_class_is_refused_instead_of_training_random_weights(tmp_path: Path) -> None:
    base = write_base(tmp_path / "base", "gemma4-towers")
    config = json.loads((base / "config.json").read_text())
    text = config["text_config"] | {"architectures": ["Gemma4ForCausalLM"], "model_type": "gemma4_text"}
    (base / "config.json").write_text(json.dumps(text))
    with pytest.raises(TraceError, match="tensors are missing"):
        load_named(str(base))


def test_a_missing_head_is_refused_when_the_config_says_it_is_not_tied(tmp_path: Path) -> None:
    base = write_base(tmp_path / "base", "llama")
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": False}))
    with pytest.raises(TraceError, match=r"lm_head\.weight"):
        load_named(str(base))


def test_an_export_that_lost_a_tensor_is_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Small(tmp_path, "qwen3")
    save = PreTrainedModel.save_pretrained

    def losing(self: Any, folder: Path, **options: Any) -> None:
        save(self, folder, **options)
        weights = load_file(folder / "model.safetensors")
        weights.pop("model.layers.0.mlp.down_proj.weight")
        save_file(weights, folder / "model.safetensors", {"format": "pt"})

    monkeypatch.setattr(PreTrainedModel, "save_pretrained", losing)
    with pytest.raises(TraceError, match=r"1 tensors are not in the file"):
        exported(small, tmp_path / "run")
    assert not (tmp_path / "run" / "export").exists()


def test_an_export_with_other_weights_is_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Small(tmp_path, "qwen3")
    save = PreTrainedModel.save_pretrained

    def changing(self: Any, folder: Path, **options: Any) -> None:
        save(self, folder, **options)
        weights = load_file(folder / "model.safetensors")
        weights["model.norm.weight"] *= 1.01
        save_file(weights, folder / "model.safetensors", {"format": "pt"})

    monkeypatch.setattr(PreTrainedModel, "save_pretrained", changing)
    with pytest.raises(TraceError, match=r"1 tensors are not as they were, such as model\.norm\.weight"):
        exported(small, tmp_path / "run")


def test_adapters_stay_out_of_towers_that_text_never_reaches(tmp_path: Path) -> None:
    small = Small(tmp_path, "gemma4-towers")
    adapted = [n for n, p in small.model.named_parameters() if p.requires_grad]
    assert any("language_model.layers.0.self_attn.q_proj.lora_A" in name for name in adapted)
    assert any("per_layer_input_gate.lora_A" in name for name in adapted)
    assert not [name for name in adapted if "vision" in name or "audio" in name]


def test_every_linear_layer_of_the_text_model_is_adapted(tmp_path: Path) -> None:
    for shape in SHAPES:
        model = Small(tmp_path / shape, shape, lora=Lora(rank=4, alpha=8)).model.get_base_model()
        plain = {n for n, m in model.named_modules() if type(m) is torch.nn.Linear and "lora_" not in n}
        assert not [n for n in plain if not n.endswith("base_layer") and not n.startswith("lm_head")], shape


# running the model


def test_shared_keys_give_the_same_logits_without_a_cache_and_with_recomputed_activations(
    tmp_path: Path,
) -> None:
    small = Small(tmp_path, "gemma4")
    base = small.model.get_base_model()
    assert base.config.num_kv_shared_layers == 2
    ids = small.batch().ids
    with torch.no_grad():
        usual = small.model(input_ids=ids, use_cache=True).logits
        assert torch.allclose(small.model(input_ids=ids, use_cache=False).logits, usual, atol=1e-5)
    base.activation_checkpointing_enable()
    small.model.train()
    assert torch.allclose(small.model(input_ids=ids, use_cache=False).logits, usual, atol=1e-5)


@pytest.mark.parametrize("half", [False, True], ids=["fp32", "bf16"])
@pytest.mark.parametrize("shape", EACH_SHAPE)
def test_attention_never_falls_to_the_quadratic_kernel(tmp_path: Path, shape: str, half: bool) -> None:
    wide = {"global_head_dim": 512} if shape == "gemma4" else {}
    small = Small(tmp_path, shape, base=wide)
    with (
        profile(activities=[ProfilerActivity.CPU]) as seen,
        torch.autocast("cpu", torch.bfloat16, enabled=half),
    ):
        small.model.train()
        small.loss().backward()
    names = {event.key for event in seen.key_averages()}
    assert "aten::_scaled_dot_product_flash_attention_for_cpu" in names
    assert "aten::_scaled_dot_product_attention_math" not in names


def test_bf16_arithmetic_gives_the_loss_of_fp32(tmp_path: Path) -> None:
    for shape in SHAPES:
        small = Small(tmp_path / shape, shape)
        small.train(steps=3)
        with torch.no_grad():
            exact = small.loss().item()
            with torch.autocast("cpu", torch.bfloat16):
                assert abs(small.loss().item() - exact) <= 2e-2, shape


def test_dropout_is_off_once_training_has_ended(tmp_path: Path) -> None:
    base, run = write_base(tmp_path / "base", "llama"), tmp_path / "run"
    recipe = recipe_for(base, lora=Lora(rank=4, alpha=8, dropout=0.5), stage2=Stage(epochs=1))
    train_stage("stage2", recipe, write_snapshot(tmp_path / "snapshot"), run, lambda done, total, note: None)
    model, _ = load_named(str(run / "export"))
    assert not model.training


def test_the_softcap_of_a_head_is_part_of_the_loss(tmp_path: Path) -> None:
    small = Small(tmp_path, "gemma4", base={"final_logit_softcapping": 0.05})
    batch = small.batch()
    with torch.no_grad():
        theirs = small.model(input_ids=batch.ids, labels=batch.ids, shift_labels=labels_of(batch)).loss
        capped = small.loss(batch)
        small.model.get_base_model().config.final_logit_softcapping = None
        uncapped = small.loss(batch)
    assert abs(capped - theirs) <= 1e-5
    assert abs(uncapped - theirs) > 1e-3


# tokens and masks


def test_the_end_of_a_turn_is_trained_even_when_it_is_also_the_padding(tmp_path: Path) -> None:
    tokenizer = gemma_tokenizer()
    tokenizer.pad_token = tokenizer.eos_token
    snapshot = load_snapshot(write_snapshot(tmp_path / "snapshot"))
    add_tokens(tokenizer, snapshot.family_strings("a"))
    chat = Chat(tokenizer, 128, template_markers(tokenizer))
    assert chat.pad_id == chat.end_ids[0]
    recipe = Recipe(format="a", retrieval="r")
    records = stage1_records(snapshot, recipe) + stage2_records(snapshot, recipe)
    examples, _ = encode(records, chat, 256)
    for example in examples:
        assert example.targets[-2:] == [chat.end_ids[0], IGNORE]


def test_nothing_after_the_end_of_the_turn_is_trained(tmp_path: Path) -> None:
    small = Small(tmp_path, "gemma4")
    for example in small.examples:
        assert example.ids[-1] == small.trainee.chat.end_ids[-1] and example.mask[-1] == 1


def test_a_prompt_begins_with_one_start_token(tmp_path: Path) -> None:
    small = Small(tmp_path, "gemma4")
    start = small.trainee.chat.tokenizer.bos_token_id
    assert all(example.ids.count(start) == 1 and example.ids[0] == start for example in small.examples)


def test_tool_tokens_are_whole_whatever_the_base_does_to_text(tmp_path: Path) -> None:
    """Gemma's tokenizer replaces spaces, others fold letter case: a normalized token would be another string."""
    tokenizer = gemma_tokenizer()
    tokenizer.backend_tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Lowercase(), normalizers.Replace(" ", "\u2581")]
    )
    snapshot = load_snapshot(write_snapshot(tmp_path / "snapshot"))
    strings = snapshot.family_strings("a")
    add_tokens(tokenizer, strings)
    tokenizer.save_pretrained(tmp_path / "saved")
    for reader in (tokenizer, AutoTokenizer.from_pretrained(tmp_path / "saved")):
        ids = reader.convert_tokens_to_ids(strings)
        assert reader.encode("".join(strings), add_special_tokens=False) == ids
        inside = reader.encode(f"x{strings[-1]}y", add_special_tokens=False)
        assert inside[1:-1] == [ids[-1]]
        other_case = reader.encode(strings[-1].lower(), add_special_tokens=False)
        assert strings[-1].lower() != strings[-1] and ids[-1] not in other_case


@pytest.mark.parametrize("fmt", ["a", "b", "c"])
def test_tool_tokens_are_shown_when_special_tokens_are_skipped(tmp_path: Path, fmt: str) -> None:
    small = Small(tmp_path, "llama", format=fmt)
    chat, spec = exported_chat(exported(small, tmp_path / "run"))
    for tool in spec["tools"]:
        shown = chat.tokenizer.decode(tool["ids"], skip_special_tokens=True)
        assert all(part in shown for part in tool["name"].split("/", 1))
    assert [tool["name"] for tool in spec["tools"]] == sorted(NAMES)


def test_servers_decode_greedily_and_stop_at_the_end_of_the_turn(tmp_path: Path) -> None:
    """A base's own defaults, sampling or a repetition penalty, would change every served answer."""
    small = Small(tmp_path, "qwen3")
    base = small.model.get_base_model()
    base.generation_config.update(do_sample=True, temperature=0.6, repetition_penalty=1.05, eos_token_id=[1])
    saved = json.loads((exported(small, tmp_path / "run") / "generation_config.json").read_text())
    assert saved["do_sample"] is False
    assert not {"temperature", "top_k", "top_p", "repetition_penalty"} & saved.keys()
    assert set(saved["eos_token_id"]) == {1, *small.trainee.chat.end_ids}
