"""An exported model, checked and ready to decode.

In: the folder training wrote (weights, tokenizer, trace.json, manifest.json). Out: `Export`: model, chat, tools as
a trie, and the digest every answer names. A folder that differs from its manifest is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from catalog.core.tokens import NameIndex
from evaluation.ml import trie
from evaluation.ml.contexts import Contexts, NamedContexts
from evaluation.ml.drafts import Drafts
from evaluation.ml.fused import fuse
from evaluation.ml.manifest import refused, verify
from evaluation.ml.packed import pack
from evaluation.ml.pocket import Decoder, Held, PocketContexts
from evaluation.ml.search import NOTHING
from trace_site.lib.files import read_json
from training.core.recipe import POCKET
from training.ml.bases.chat import Chat, load_chat
from training.ml.bases.named import OURS, unloaded
from training.ml.bases.pocket import PocketConfig  # its module registers the class that pocket exports name
from training.ml.export import DRAFTS

MASKS = 16  # combinations of tools left out whose tries are kept
LONGEST_LIST = 20  # tools in one answer
SEPARATOR = 4  # tokens between two tools of a list, at most


@dataclass(frozen=True, eq=False)
class Export:
    folder: Path
    digest: str  # sha256 of manifest.json, which holds the sha256 of every file
    model: Any  # None where a server holds the weights
    chat: Chat
    spec: dict[str, Any]
    names: list[str]  # tool i of the trie
    index: NameIndex
    root: trie.Node
    masks: dict[Any, trie.Mask] = field(default_factory=dict)
    held: Held | None = None  # tools newer than the model

    def contexts(self) -> Contexts:
        """Room for requests that are answered together."""
        if self.model.config.model_type == PocketConfig.model_type:
            return PocketContexts(self.model, self.decoder, self.chat.pad_id, self.held)
        one, other = (self.chat.query_ids(text) for text in ("a", "b"))
        return NamedContexts(self.model, self.chat.pad_id, common_start(one, other))

    @cached_property
    def decoder(self) -> Decoder:
        return Decoder(self.model, self.longest)

    @property
    def longest(self) -> int:
        """Tokens of a request with the longest trace and list. A list may go beyond what the model learned from."""
        tools = LONGEST_LIST * (max(len(tool["ids"]) for tool in self.spec["tools"]) + SEPARATOR)
        return int(self.spec["max_prompt_tokens"] + self.spec["max_new_tokens"] + tools)

    @property
    def is_pocket(self) -> bool:
        """Of our own architecture, which no server but ours has."""
        return bool(self.spec["base"] == POCKET)

    def mask(self, item: dict[str, Any]) -> trie.Mask:
        """The tools that a request must not be answered with at all: those left out, and those of other domains."""
        return self._mask(tuple(item.get("without") or ()), item.get("domain") or "", None)

    def banned(self, item: dict[str, Any]) -> trie.Mask:
        """These, and the tools that need permissions of which the request carries none. None: it may use all."""
        permissions = item.get("permissions")
        granted = None if permissions is None else tuple(permissions)
        return self._mask(tuple(item.get("without") or ()), item.get("domain") or "", granted)

    def _mask(self, without: tuple[str, ...], domain: str, granted: tuple[str, ...] | None) -> trie.Mask:
        """The last ones are kept: they change when the catalog or the caller does. Many threads may ask at once."""
        key = (without, domain, granted)
        if (mask := self.masks.get(key)) is None:
            tools = self.spec["tools"]
            hidden = {self.numbers[name] for name in without if name in self.numbers}
            if domain:
                hidden |= {at for at, tool in enumerate(tools) if tool["domain"] != domain}
            if granted is not None:
                hidden |= {at for at, need in self.needs.items() if need.isdisjoint(granted)}
            found = {at: tools[at]["ids"] for at in sorted(hidden)}
            self.masks[key] = mask = trie.mask(self.root, found) if found else NOTHING
            for old in list(self.masks)[:-MASKS]:
                self.masks.pop(old, None)
        return mask

    @cached_property
    def needs(self) -> dict[int, frozenset[str]]:
        """{tool: its permission targets}, of those that have some."""
        told = {at: frozenset(tool.get("permissions") or ()) for at, tool in enumerate(self.spec["tools"])}
        return {at: need for at, need in told.items() if need}

    @cached_property
    def drafts(self) -> Drafts:
        """Texts like those it writes: the traces and rules of its snapshot, which newer exports bring along, and the
        tokens of its tools."""
        stored = self.folder / DRAFTS
        texts = read_json(stored)["texts"] if stored.is_file() else []
        return Drafts([*texts, *(tool["ids"] for tool in self.spec["tools"] if len(tool["ids"]) > 1)])

    @cached_property
    def unit_ids(self) -> frozenset[int]:
        """The tokens of tools."""
        return frozenset(number for tool in self.spec["tools"] for number in tool["ids"])

    @cached_property
    def brackets(self) -> frozenset[int]:
        """Text tokens that hold a closing bracket; tool tokens may hold one in their name and do not count."""
        own = set(self.chat.tokenizer.added_tokens_decoder)
        known = self.chat.tokenizer.get_vocab().items()
        return frozenset(number for token, number in known if "]" in token and number not in own)

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


def load(folder: Path, threads: int = 2, weights: bool = True) -> Export:
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
        model=_load_model(folder) if weights else None,
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
    model = model.to(device).eval()
    is_pocket = model.config.model_type == PocketConfig.model_type
    if not is_pocket:
        fuse(model)
    pack(model, leave=model.model.writer if is_pocket else None)  # the decoder's weights are read once more
    return model


def common_start(one: Sequence[int], other: Sequence[int]) -> list[int]:
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return [token for token, _ in alike]
