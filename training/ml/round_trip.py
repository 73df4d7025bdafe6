"""Is the folder on disk the model that was trained?

In: the trained model's logits, the merged model, its chat, the written folder. Out: the measured differences; a lost
tensor, tie, row or token, and any other logits, raise TraceError and keep the folder from being published.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from catalog.core.tokens import tool_units
from trace_site.lib.errors import TraceError
from training.core.records import Snapshot
from training.ml.bases.chat import Chat
from training.ml.bases.named import OURS, is_tied, token_tables, unloaded

PROMPTS = 20  # compared before and after
POSITIONS = 8  # the last ones of each prompt: an empty thinking part, the start of a list, a tool
# how far logits may move, as a share of the largest one (or of 1). Rounding grows with the depth of a base; a lost
# adapter or row moves them by more than a hundredth.
MERGE = 1e-4
RELOAD = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


def prompts(chat: Chat, snapshot: Snapshot, fmt: str) -> list[list[int]]:
    """The first tools' descriptions as requests, each answered with its tool."""
    lead = [*chat.empty_ids, *chat.list_open_ids]
    return [
        [*chat.query_ids(tool["description"]), *lead, *chat.unit_ids(tool_units(tool["name"], fmt))]
        for tool in snapshot.tools[:PROMPTS]
    ]


@torch.no_grad()
def last_logits(model: Any, asked: Sequence[Sequence[int]]) -> list[Tensor]:
    """fp32 [POSITIONS, vocabulary] a prompt."""
    where = next(model.parameters()).device
    return [
        model(input_ids=torch.tensor([ids], device=where)).logits[0, -POSITIONS:].float() for ids in asked
    ]


def compare_merged(trained: Sequence[Tensor], model: Any, asked: Sequence[Sequence[int]]) -> dict[str, Any]:
    """How far merging moved the logits, all in fp32."""
    difference = _difference(trained, last_logits(model, asked))
    largest = max(1.0, *(logits.abs().max().item() for logits in trained))
    if not difference <= MERGE * largest:  # NaN is refused too
        raise _refusal(f"merging its adapters moves the logits by {difference:.2g}")
    return {"prompts": len(asked), "merge_difference": difference, "largest_logit": round(largest, 3)}


def read_back(
    model: Any, chat: Chat, folder: Path, strings: Sequence[str], asked: Sequence[Sequence[int]]
) -> dict[str, Any]:
    """Compare the merged model, in the number format it is written in, with what the folder holds."""
    dtype = next(model.parameters()).dtype
    found: Any = AutoModelForCausalLM.from_pretrained(
        str(folder), dtype=dtype, output_loading_info=True, **OURS
    )
    again, report = found
    again = again.to(model.device).eval()
    _require_same_shape(model, again, report, folder)
    _require_tokens(chat, folder, strings, again)
    before = last_logits(model, asked)
    difference = _difference(before, last_logits(again, asked))
    largest = max(1.0, *(logits.abs().max().item() for logits in before))
    if not difference <= RELOAD.get(dtype, 2e-2) * largest:
        raise _refusal(f"its logits moved by {difference:.2g} on the way to disk")
    return {
        "architecture": type(again).__name__,
        "parameters": sum({value.data_ptr(): value.numel() for value in again.parameters()}.values()),
        "max_logit_difference": difference,
        "tied": is_tied(again),
        "rows": {name: module.weight.shape[0] for name, module in token_tables(again).items()},
    }


def _difference(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    return max(((a - b).abs().max().item() for a, b in zip(one, other, strict=True)), default=0.0)


def _require_same_shape(model: Any, again: Any, report: dict[str, Any], folder: Path) -> None:
    """Every tensor comes from the file, ties are as they were, every table and its number in the config agree."""
    if lost := unloaded(again, report):
        raise _refusal(f"{len(lost)} tensors are not in the file, such as {lost[0]}")
    said = bool(getattr(again.config.get_text_config(), "tie_word_embeddings", False))
    if not is_tied(model) == is_tied(again) == said == (not _has_own_head(folder)):
        raise _refusal(f"input and output table are tied: {is_tied(model)} before, {is_tied(again)} after")
    rows = {name: module.weight.shape[0] for name, module in token_tables(model).items()}
    if rows != {name: module.weight.shape[0] for name, module in token_tables(again).items()}:
        raise _refusal("a table has another number of rows")
    text = again.config.get_text_config()
    counts = {text.vocab_size, again.get_output_embeddings().weight.shape[0], *rows.values()}
    if any("per_layer" in name for name in rows):
        counts.add(text.vocab_size_per_layer_input)
    if len(counts) > 1:
        raise _refusal(f"tables and configuration disagree on the rows: {sorted(counts)}")


def _has_own_head(folder: Path) -> bool:
    for path in folder.glob("*.safetensors"):
        with safe_open(path, "pt") as file:
            if any(name.endswith("lm_head.weight") for name in list(file.keys())):
                return True
    return False


def _require_tokens(chat: Chat, folder: Path, strings: Sequence[str], again: Any) -> None:
    """Every tool token is one id, the same as in training, inside the tables, and visible when decoded."""
    tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False, local_files_only=True)
    ids = chat.unit_ids(list(strings))
    if tokenizer.convert_tokens_to_ids(list(strings)) != ids:
        raise _refusal("the ids of tool tokens changed")
    if tokenizer.encode("".join(strings), add_special_tokens=False) != ids:
        raise _refusal("tool tokens are split when they are read")
    if tokenizer.batch_decode([[number] for number in ids], skip_special_tokens=True) != list(strings):
        raise _refusal("tool tokens vanish when they are decoded")
    if max(ids) >= again.get_input_embeddings().weight.shape[0]:
        raise _refusal("a tool token has no row")


def _refusal(what: str) -> TraceError:
    hint = "The run's checkpoints are intact; report this base model."
    return TraceError(f"the exported model is not the trained one: {what}.", code="round_trip", hint=hint)
