"""An exported model, checked and ready to decode.

In: the folder training wrote (weights, tokenizer, trace.json, manifest.json). Out: `Export`: model, chat, tools as
a trie, and the digest every answer names. A folder that differs from its manifest is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from catalog.core.tokens import NameIndex
from evaluation.ml import trie
from evaluation.ml.manifest import refused, verify
from training.ml.bases.chat import Chat, load_chat
from training.ml.bases.named import OURS, unloaded
from training.ml.bases.pocket import PocketForCausalLM  # noqa: F401  registers the class that pocket exports name


@dataclass(frozen=True, eq=False)
class Export:
    folder: Path
    digest: str  # sha256 of manifest.json, which holds the sha256 of every file
    model: Any
    chat: Chat
    spec: dict[str, Any]
    names: list[str]  # tool i of the trie
    index: NameIndex
    root: trie.Node
    masks: dict[tuple[str, ...], trie.Mask] = field(default_factory=dict)

    def banned(self, permissions: list[str]) -> frozenset[int]:
        """Tools that need permissions of which the request carries none; without targets nothing is dropped."""
        if not permissions:
            return frozenset()
        given = set(permissions)
        needs = [set(tool.get("permissions") or ()) for tool in self.spec["tools"]]
        return frozenset(number for number, need in enumerate(needs) if need and not need & given)

    def mask(self, names: Sequence[str]) -> trie.Mask:
        """The tools that must not be answered at all. One is kept: they change when the catalog does."""
        key = tuple(names)
        if key not in self.masks:
            numbers = frozenset(self.numbers[name] for name in key if name in self.numbers)
            self.masks.clear()
            self.masks[key] = trie.mask(self.root, {at: self.spec["tools"][at]["ids"] for at in numbers})
        return self.masks[key]

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    @cached_property
    def tool_rows(self) -> torch.Tensor:
        """[tools, width], length 1: the mean of the rows of each tool's tokens."""
        table = self.model.get_input_embeddings().weight
        with torch.inference_mode():
            rows = [
                functional.normalize(table[tool["ids"]].float(), dim=-1).mean(dim=0)
                for tool in self.spec["tools"]
            ]
            return functional.normalize(torch.stack(rows), dim=-1)

    def text(self, ids: list[int]) -> str:
        # byte-level vocabularies hold the NUL byte, which no database stores
        text = str(self.chat.tokenizer.decode(ids, skip_special_tokens=False))
        return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def load(folder: Path, threads: int = 2) -> Export:
    digest = verify(folder)
    logging.disable_progress_bar()
    torch.set_num_threads(threads)
    chat, spec = load_chat(folder)
    tools = sorted(spec["tools"], key=lambda tool: tool["name"])
    spec["tools"] = tools
    names = [tool["name"] for tool in tools]
    return Export(
        folder=folder,
        digest=digest,
        model=_load_model(folder),
        chat=chat,
        spec=spec,
        names=names,
        index=NameIndex(names, spec["format"]),
        root=trie.build([tool["ids"] for tool in tools]),
    )


def _load_model(folder: Path) -> Any:
    """fp32 on the CPU, where half precision gains little and its noise would reorder near ties; bf16 on a GPU."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            str(folder), dtype=dtype, output_loading_info=True, **OURS
        )
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise refused(f"the model could not be loaded ({reason}).", folder, hint="") from error
    model, report = loaded
    if unloaded(model, report):
        raise refused("tensors are missing in the checkpoint.", folder, hint="")
    return model.to(device).eval()
