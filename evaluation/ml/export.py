"""An exported language model, checked and ready to decode.

In: the folder training wrote (weights, tokenizer, trace.json, manifest.json). Out: `Export`: model, chat, tools as
a trie, and the digest every answer names. A folder that differs from its manifest is refused.
"""

from dataclasses import dataclass, field
from functools import cached_property
from os.path import commonprefix
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers.utils import logging

from catalog.core.tokens import NameIndex
from evaluation.core.withholding import WITHHELD
from evaluation.ml import trie
from evaluation.ml.asked import LETTERS
from evaluation.ml.catalogued import Catalogued, Flags
from evaluation.ml.contexts import Contexts
from evaluation.ml.drafts import Drafts
from evaluation.ml.fused import fuse
from evaluation.ml.manifest import refused
from evaluation.ml.packed import pack
from evaluation.ml.search import NOTHING
from trace_site.lib.files import read_json
from training.ml.bases.chat import Chat, load_chat
from training.ml.bases.named import load_whole
from training.ml.export import DRAFTS

MASKS = 16  # combinations of tools left out whose tries are kept
LONGEST_LIST = 20  # tools in one answer
SEPARATOR = 4  # tokens between two tools of a list, at most


@dataclass(frozen=True, eq=False, kw_only=True)
class Export(Catalogued):
    model: Any  # None where a server holds the weights
    chat: Chat
    index: NameIndex
    root: trie.Node
    masks: dict[bytes, trie.Mask] = field(default_factory=dict)

    def contexts(self) -> Contexts:
        """Room for requests that are answered together."""
        start = commonprefix([self.chat.query_ids(text) for text in ("a", "b")])
        return Contexts(self.model, self.chat.pad_id, start)

    def ids_of(self, item: dict[str, Any], decode: str) -> list[int]:
        if decode != LETTERS:
            return self.chat.query_ids(str(item["query"]), list(item.get("permissions") or ()))
        tool = item.get("tool")
        if tool:
            self.require(tool, item)
        return self.chat.choice_ids(item["question"], item["choices"], self.index.units[tool] if tool else ())

    def about(self, item: dict[str, Any]) -> dict[str, Any]:
        """What of a request the model does not read. Which words it cannot read nobody knows."""
        query, permissions = str(item["query"]), list(item.get("permissions") or ())
        return {"cut_request": self.chat.is_cut(query, permissions), "unread": None}

    @property
    def longest(self) -> int:
        """Tokens of a request with the longest trace and list. A list may go beyond what the model learned from."""
        tools = LONGEST_LIST * (max(len(tool["ids"]) for tool in self.spec["tools"]) + SEPARATOR)
        return int(self.spec["max_prompt_tokens"] + self.spec["max_new_tokens"] + tools)

    def mask(self, item: dict[str, Any]) -> trie.Mask:
        """The tools that a request must not be answered with at all."""
        return self._mask(self.left_out(item))

    def banned(self, item: dict[str, Any]) -> trie.Mask:
        """These, and those that it is not granted."""
        return self._mask(self.left_out(item) | self.not_granted(item))

    def _mask(self, hidden: Flags) -> trie.Mask:
        """The last ones are kept: they change when the catalog or the caller does. Many threads may ask at once."""
        if (mask := self.masks.get(key := hidden.tobytes())) is None:
            found = {at: self.spec["tools"][at]["ids"] for at in np.flatnonzero(hidden).tolist()}
            self.masks[key] = mask = trie.mask(self.root, found) if found else NOTHING
            for old in list(self.masks)[:-MASKS]:
                self.masks.pop(old, None)
        return mask

    def shown(self, ids: list[int], item: dict[str, Any]) -> str:
        """What may be shown of what was written for a request, with tools by their names. One that it is not granted is
        taken out as its token ids, so that no letter beside it can hide it."""
        hidden = set(np.flatnonzero(self.not_granted(item)).tolist())
        return self.index.to_names(self.text(self._without(ids, hidden) if hidden else ids))

    def _without(self, ids: list[int], hidden: set[int]) -> list[int]:
        kept: list[int] = []
        at = 0
        while at < len(ids):
            node, end = self.root, at
            while end < len(ids) and ids[end] in node.children:
                node, end = node.children[ids[end]], end + 1
            end = end if node.leaf else at + 1
            kept += self.placeholder if node.leaf and node.tool in hidden else ids[at:end]
            at = end
        return kept

    @cached_property
    def placeholder(self) -> list[int]:
        return list(self.chat.tokenizer.encode(WITHHELD, add_special_tokens=False))

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

    def text(self, ids: list[int]) -> str:
        # byte-level vocabularies hold the NUL byte, which no database stores
        text = str(self.chat.tokenizer.decode(ids, skip_special_tokens=False))
        return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def load(folder: Path, digest: str, spec: dict[str, Any], weights: bool = True) -> Export:
    """Of a verified folder, with what its trace.json says."""
    logging.disable_progress_bar()
    spec["tools"] = sorted(spec["tools"], key=lambda tool: str(tool["name"]))
    names = [tool["name"] for tool in spec["tools"]]
    for one in spec.get("clauses", ()):
        one["trained"] = True
    return Export(
        folder=folder,
        digest=digest,
        model=_load_model(folder) if weights else None,
        chat=load_chat(folder, spec),
        spec=spec,
        index=NameIndex(names, spec["format"]),
        root=trie.build([tool["ids"] for tool in spec["tools"]]),
    )


def _load_model(folder: Path) -> Any:
    """fp32 on the CPU, where half precision gains little and its noise would reorder near ties; bf16 on a GPU."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    try:
        model, missing = load_whole(str(folder), dtype, local_files_only=True)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise refused(f"the model could not be loaded ({reason}).", folder, hint="") from error
    if missing:
        raise refused("tensors are missing in the checkpoint.", folder, hint="")
    model = model.to(device).eval()
    fuse(model)
    pack(model)
    return model
