"""Named base models, loaded so that nothing is random, lost or too small without an error.

In: the name or folder of a causal language model. Out: the model and its tokenizer. A checkpoint read by a class that
does not match it loads with random weights and only a printed report; here it is refused.
"""

import re
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import yaml
from huggingface_hub import metadata_load
from tokenizers import AddedToken, Regex, decoders
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.hub import cached_file

from catalog.ml.encoder import native_bf16
from trace_site.lib.errors import TraceError, cut
from trace_site.lib.hub import pinned
from training.core.recipe import Recipe

NOT_TEXT = r".*(vision|audio|image).*"  # towers of a multimodal base that text never reaches
ROW_MULTIPLE = 64
NO_TEXT = "\ufffe"  # Unicode's noncharacter


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def autocast(recipe: Recipe) -> AbstractContextManager[Any]:
    """bf16 where the processor multiplies it itself, fp32 elsewhere."""
    where = device().type
    return torch.autocast(where, torch.bfloat16) if recipe.bf16 and native_bf16(where) else nullcontext()


def load_named(source: str) -> tuple[Any, Any]:
    """A causal language model (bf16 on a GPU, fp32 else) and its tokenizer; every tensor comes from the checkpoint."""
    name, at = pinned(source)
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False, **at)
        dtype = torch.bfloat16 if device().type == "cuda" else torch.float32
        model, missing = load_whole(name, dtype, **at)
    except (OSError, ValueError, RuntimeError) as error:
        raise TraceError(
            f"the base model could not be loaded ({str(error).splitlines()[0]}).",
            code="no_base",
            where=source,
            hint="Give the name or the folder of a causal language model with its weights as safetensors.",
        ) from error
    if missing:
        raise TraceError(
            f"{len(missing)} tensors are missing in the checkpoint, such as {missing[0]}.",
            code="bad_base",
            where=source,
            hint=f"Its architecture is {(model.config.architectures or ['unknown'])[0]}; use a matching checkpoint.",
        )
    return model, tokenizer


def load_whole(source: str, dtype: torch.dtype, **options: Any) -> tuple[Any, list[str]]:
    """A causal language model, and which of its tensors stayed random: missing ones, without a tied head, which is the
    input table itself. Nothing that it brings is run."""
    loaded: Any = AutoModelForCausalLM.from_pretrained(
        source,
        dtype=dtype,
        output_loading_info=True,
        use_safetensors=True,
        trust_remote_code=False,
        **options,
    )
    model, report = loaded
    tied = getattr(model, "_tied_weights_keys", None) or () if is_tied(model) else ()
    return model, sorted(set(report["missing_keys"]) - set(tied))


def without_adapters(model: Any) -> Any:
    """The base below what PEFT wrapped around it, or the model itself."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def has_towers(model: nn.Module) -> bool:
    return any(re.fullmatch(NOT_TEXT, name) for name, _ in model.named_modules())


def is_tied(model: Any) -> bool:
    """One table for input and output?"""
    head = model.get_output_embeddings()
    return head is not None and head.weight.data_ptr() == model.get_input_embeddings().weight.data_ptr()


def add_tokens(tokenizer: Any, strings: list[str]) -> None:
    """Append tool tokens in ledger order. Not special, so decoding shows them; not normalized, so they match."""
    first = len(tokenizer)
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in strings])
    ids = tokenizer.convert_tokens_to_ids(strings)
    if ids != list(range(first, first + len(strings))):
        raise TraceError(
            "a tool token is already part of the base vocabulary.",
            code="token_collision",
            hint="Use a base model that was not trained with tool tokens.",
        )
    _show_whole(tokenizer, strings, ids)


def _show_whole(tokenizer: Any, strings: list[str], ids: list[int]) -> None:
    """A byte-level decoder takes a token of letters such as U+00DC for bytes: `<<Übersicht>>` would come out broken. A
    character of no text in front of such a token lets it pass as it is."""
    if tokenizer.batch_decode([[number] for number in ids]) == strings:
        return
    backend = tokenizer.backend_tokenizer
    if isinstance(backend.decoder, decoders.ByteLevel):  # of others the export is checked, see ml/export.py
        marked = decoders.Replace(Regex("^<<(?=.*>>$)"), f"{NO_TEXT}<<")
        backend.decoder = decoders.Sequence(
            [marked, decoders.ByteLevel(), decoders.Replace(f"{NO_TEXT}<<", "<<")]
        )


def append_tokens(tokenizer: Any, strings: list[str], where: str) -> list[str]:
    """The ledger's tokens that a trained tokenizer lacks, appended. Slots are permanent, so what it has is the start
    of the ledger, in order; raises TraceError (code stale_init) when it is not."""
    known = tokenizer.get_vocab()
    have = [known[text] for text in strings if text in known]
    fresh = strings[len(have) :]
    own = bool(have) and [known.get(text) for text in strings[: len(have)]] == have
    in_order = own and have == list(range(have[0], have[0] + len(have)))
    if not in_order or (fresh and have[-1] != len(tokenizer) - 1):
        problem = "the tool tokens of this model come from another catalog's ledger."
        raise TraceError(problem, code="stale_init", where=where, hint="Run Stage 1 again on this snapshot.")
    add_tokens(tokenizer, fresh)
    return fresh


def token_tables(model: Any) -> dict[str, nn.Embedding]:
    """Every table with a row per token by its full name: the input table, and Gemma's per-layer table."""
    rows = model.get_input_embeddings().weight.shape[0]
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.Embedding)
        and module.weight.shape[0] == rows
        and not re.fullmatch(NOT_TEXT, name)
    }


def grow_tables(model: Any, rows: int) -> None:
    """At least `rows` rows in every table that tokens index; raises TraceError where a table cannot grow."""
    if rows > model.get_input_embeddings().weight.shape[0]:
        # a few spare rows: a multiple is faster, and they are the reserve for new tools. The default initialisation
        # estimates a covariance over the whole table: slow, and replaced afterwards
        model.resize_token_embeddings(rows + 1, pad_to_multiple_of=ROW_MULTIPLE, mean_resizing=False)
    small = [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Embedding)
        and "embed_tokens" in name.rsplit(".", 1)[-1]
        and module.weight.shape[0] < rows
        and not re.fullmatch(NOT_TEXT, name)
    ]
    if small:
        raise TraceError(
            f"the table {small[0]} has no room for the tool tokens.",
            code="small_table",
            hint="This base cannot be extended with tokens here; use another.",
        )


def on_this_machine(source: str, name: str) -> str | None:
    """Where a file of a base lies, without asking a hub for it."""
    quiet = {f"_raise_exceptions_for_{what}": False for what in ("missing_entries", "connection_errors")}
    base, at = pinned(source)
    found: str | None = cached_file(base, name, local_files_only=True, **at, **quiet)
    return found


def base_licence(source: str) -> str:
    """The licence that the base's own card names, as far as it lies on this machine."""
    found = on_this_machine(source, "README.md")
    try:
        facts = (metadata_load(found) if found else None) or {}
    except (yaml.YAMLError, RecursionError, ValueError):
        facts = {}
    named = facts.get("license")
    texts = [text for text in (named if isinstance(named, list) else [named]) if isinstance(text, str)]
    return cut(", ".join(texts), 200) or "not stated in the base's folder"
