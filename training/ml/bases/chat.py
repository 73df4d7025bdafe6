"""All prompt rendering: what is trained here is, token for token, what evaluation asks.

In: records, requests or probe questions, and a tokenizer holding the tool tokens. Out: token ids, and for
records a mask that is 1 where the loss looks. Plain text never becomes a tool or control token.
"""

import json
import string
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import AutoTokenizer

from trace_site.lib.errors import TraceError
from training.core.records import Parts, Record, Units, choice_parts, query_parts
from training.ml.bases.adapters import Markers

# Text from outside as token ids, none of which is a control or a tool token, with nothing lost on the way.
#
# In: a tokenizer. Out: ids of any text. Every added token is control or tool. A vocabulary may also reach control ids
# without them (Unigram knows `<s>` as a piece like any other): such a spot is spelled in smaller pieces.

STAND_INS = ("\N{REPLACEMENT CHARACTER}", "?", " ")  # for a character whose only id is a control token
KEPT = 4096  # texts whose ids are remembered
BLANK = "\u2581"  # sentencepiece's space


class PlainText:
    """The tokenizer without its added tokens and without the space some put before every text."""

    def __init__(self, tokenizer: Any) -> None:
        state = json.loads(tokenizer.backend_tokenizer.to_str())
        state["post_processor"] = state["padding"] = state["truncation"] = None
        state["normalizer"] = _unprefixed(state.get("normalizer"))
        state["pre_tokenizer"] = _unprefixed(state.get("pre_tokenizer"))
        # runs of spaces or line breaks are text, although some tokenizers add them as tokens
        plain = (token for token in state["added_tokens"] if not token["special"])
        blanks = [token for token in plain if not token["content"].replace(BLANK, " ").strip()]
        self._tokenizer = Tokenizer.from_str(json.dumps({**state, "added_tokens": blanks}))
        if any(self._tokenizer.token_to_id(token["content"]) != token["id"] for token in blanks):
            blanks = []  # without the tokens between them they would get other ids
            self._tokenizer = Tokenizer.from_str(json.dumps({**state, "added_tokens": []}))
        self.control = set(tokenizer.added_tokens_decoder) | set(tokenizer.all_special_ids)
        self.control -= {token["id"] for token in blanks}
        self._stands_for = self._stand_for_others(tokenizer)
        self._kept = lru_cache(KEPT)(self._ids)  # a description is read by every record of its tool

    def _stand_for_others(self, tokenizer: Any) -> dict[int, str]:
        """Ids that stand for what a vocabulary cannot spell, the unknown one and single bytes, by their own names.

        They are no control tokens, unless the unknown one is also another one."""
        known = tokenizer.get_vocab()
        found = {known[name]: name for name in map("<0x{:02X}>".format, range(256)) if name in known}
        others = {tokenizer.eos_token_id, tokenizer.bos_token_id, tokenizer.pad_token_id}
        if tokenizer.unk_token_id is not None and tokenizer.unk_token_id not in others:
            self.control.discard(tokenizer.unk_token_id)
            found[tokenizer.unk_token_id] = str(tokenizer.unk_token)
        return found

    def ids(self, text: str) -> list[int]:
        """Ids of the text; only a spot that would give a control token is split, at its characters."""
        return list(self._kept(text))

    def _ids(self, text: str) -> tuple[int, ...]:
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        spots = [
            span
            for number, span in zip(encoding.ids, encoding.offsets, strict=True)
            # a text may also name a stand-in, such as `<unk>`: its letters are known, so nothing need be lost
            if number in self.control
            or (number in self._stands_for and self._stands_for[number] in text[slice(*span)])
        ]
        if not spots:
            return tuple(encoding.ids)
        if len(text) == 1:
            return self._stand_in(text)
        start, end = spots[len(spots) // 2]
        cut = start + 1 if end - start > 1 else start or end
        cut = cut if 0 < cut < len(text) else len(text) // 2
        return self._ids(text[:cut]) + self._ids(text[cut:])

    def _stand_in(self, character: str) -> tuple[int, ...]:
        """The character's compatible spelling, or a visible stand-in."""
        spelled = unicodedata.normalize("NFKC", character)
        for other in (*([spelled] if spelled != character else []), *STAND_INS):
            ids = tuple(self._tokenizer.encode(other, add_special_tokens=False).ids)
            if ids and self.control.isdisjoint(ids):
                return ids
        problem = f"the tokenizer has no plain token for {character!r}."
        raise TraceError(problem, code="no_plain_token", hint="Use another base model.")


def _unprefixed(step: Any) -> Any:
    """A normalizer or pre-tokenizer without the space it puts before each text: ours are parts of one text."""
    if not isinstance(step, dict):
        return step
    for name in ("normalizers", "pretokenizers"):
        if name in step:
            kept = [found for inner in step[name] if (found := _unprefixed(inner)) is not None]
            return {**step, name: kept}
    if step["type"] == "Prepend":
        return None
    if step["type"] == "Metaspace":
        return {**step, "prepend_scheme": "never"}
    return {**step, "add_prefix_space": False} if "add_prefix_space" in step else step


LEAST_REQUEST = 32  # tokens of a request that are kept before anything beside it gives way
QUESTION = "Answer the following question. Respond with the answer letter only.\n\n"
LETTER = "Answer (single letter only): "
SENTENCES = {
    "retrieve": "Find the API tools for this request. Answer with a JSON list of tool tokens.\n\n",
    "desc2token": "Name the token of the tool that is described here.\n\n",
    "token2desc": "Describe the tool that this token names.\n\n",
    "mcts": "One of the listed tools is described here. Answer with its token.\n\n",
    "desc2api": "Name the API token of the tool that is described here.\n\n",
    "api2endpoint": "Name the endpoint token of the tool that is described here, within the given API.\n\n",
    "letters": QUESTION,
}


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive tokens of a rendered record, and whether the model is to learn writing them."""

    name: str
    ids: list[int]
    supervised: bool


class Chat:
    """A tokenizer and the way one base model is talked to."""

    def __init__(self, tokenizer: Any, max_prompt_tokens: int, markers: Markers) -> None:
        self.tokenizer, self.max_prompt_tokens, self.markers = tokenizer, max_prompt_tokens, markers
        self.cut = 0  # prompts shortened so far
        self._plain = PlainText(tokenizer)
        self._before, self._after = self._marked(self.markers.before), self._marked(self.markers.after)
        self.end_ids = self._marked(self.markers.end)
        self.open_ids, self.close_ids = self._marked(self.markers.open), self._marked(self.markers.close)
        self.empty_ids = self._marked(self.markers.empty)
        self.list_open_ids = self.text_ids('["')
        self.list_sep_ids = self.text_ids('", "')
        self.list_close_ids = self.text_ids('"]')
        self.pad_id: int = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0

    def _marked(self, text: str) -> list[int]:
        """Ids of text we wrote ourselves: control tokens count."""
        return self.tokenizer.encode(text, add_special_tokens=False) if text else []

    def text_ids(self, text: str) -> list[int]:
        """Ids of text from outside: never a control or tool token."""
        return self._plain.ids(text)

    def unit_ids(self, strings: Sequence[str]) -> list[int]:
        """Ids of tool tokens; one id a string."""
        ids: list[int] = self.tokenizer.convert_tokens_to_ids(list(strings))
        for text, number in zip(strings, ids, strict=True):
            if number is None or number == self.tokenizer.unk_token_id:
                raise TraceError(f"the model has no token {text}.", code="no_token")
        return ids

    def pieces(self, parts: Parts) -> list[list[int]]:
        return [self.unit_ids(p.strings) if isinstance(p, Units) else self.text_ids(p) for p in parts]

    def parts_ids(self, parts: Parts) -> list[int]:
        return [number for piece in self.pieces(parts) for number in piece]

    def prompt_ids(self, kind: str, parts: Parts) -> list[int]:
        """Everything up to where the model starts to write; texts of an overlong prompt are cut at their ends."""
        before, pieces, after = self._spelled(kind, parts)
        texts = [piece for piece, part in zip(pieces, parts, strict=True) if isinstance(part, str)]
        excess = self._excess(before, pieces, after)
        self.cut += excess > 0
        _shorten(texts, excess)
        return [*before, *(number for piece in pieces for number in piece), *after]

    def _spelled(self, kind: str, parts: Parts) -> tuple[list[int], list[list[int]], list[int]]:
        """A whole prompt: what stands before its parts, the parts, and what stands after them."""
        cue = self.text_ids(SENTENCES[kind])
        asked = self.text_ids(LETTER) if kind == "letters" else []
        return [*self._before, *cue], self.pieces(parts), [*asked, *self._after]

    def query_ids(self, query: str, permissions: Sequence[str] = ()) -> list[int]:
        """A retrieval prompt. Append `open_ids` to ask for a trace, `empty_ids` to skip it."""
        return self.prompt_ids("retrieve", query_parts(query, permissions))

    def is_cut(self, query: str, permissions: Sequence[str] = ()) -> bool:
        """Whether a request, with its permission targets, is longer than what the model reads of it."""
        return self._excess(*self._spelled("retrieve", query_parts(query, permissions))) > 0

    def _excess(self, before: list[int], pieces: list[list[int]], after: list[int]) -> int:
        return len(before) + sum(map(len, pieces)) + len(after) - self.max_prompt_tokens

    def choice_ids(self, question: str, choices: Sequence[str], units: Sequence[str] = ()) -> list[int]:
        """A multiple-choice prompt; the next token is the letter. `units` are the token of the tool it is about."""
        return [*self.prompt_ids("letters", choice_parts(question, choices, units)), *self.empty_ids]

    def letter_ids(self, count: int) -> list[int]:
        """The ids of A, B, ... as first token of an answer."""
        return [self.text_ids(letter)[0] for letter in string.ascii_uppercase[:count]]

    def stretches(self, record: Record) -> list[Stretch]:
        """A record as one exchange, piece by piece. An empty thinking part is given, not written: it has no loss."""
        thinking = [Stretch("empty", self.empty_ids, False)]
        if record.thinking:
            thought = self.parts_ids(record.thinking)
            thinking = [
                Stretch("open", self.open_ids, True),
                Stretch("thinking", thought, True),
                Stretch("close", self.close_ids, True),
            ]
        return [
            Stretch("prompt", self.prompt_ids(record.kind, record.prompt), False),
            *thinking,
            Stretch("answer", self.parts_ids(record.answer), True),
            Stretch("end", self.end_ids, True),
        ]

    def render(self, record: Record) -> tuple[list[int], list[int]]:
        """(ids, mask) of equal length; mask 1 on what the model writes: trace, answer, end of turn."""
        found = self.stretches(record)
        ids = [number for stretch in found for number in stretch.ids]
        return ids, [int(stretch.supervised) for stretch in found for _ in stretch.ids]


def _shorten(texts: list[list[int]], excess: int) -> None:
    """Cut `excess` ids in place: from the first text, the request, until little of it is left, then from whichever
    text is the longest. Tool tokens are no texts and stay; each text keeps one id."""
    while excess > 0 and any(len(text) > 1 for text in texts):
        spare = len(texts[0]) - LEAST_REQUEST
        text, fewer = (texts[0], min(excess, spare)) if spare > 0 else (max(texts, key=len), 1)
        del text[-fewer:]
        excess -= fewer


def load_chat(export: Path, spec: dict[str, Any]) -> Chat:
    """The chat of an exported model, of which `spec` is the trace.json. The markers are the stored ones: a template may
    write today's date, and the model was trained on another day."""
    tokenizer = AutoTokenizer.from_pretrained(str(export), trust_remote_code=False, local_files_only=True)
    return chat_of(spec, tokenizer, spec["max_prompt_tokens"])


def chat_of(spec: dict[str, Any], tokenizer: Any, max_prompt_tokens: int) -> Chat:
    """The chat that the trace.json of an export describes."""
    stored = spec["markers"]
    return Chat(tokenizer, max_prompt_tokens, Markers(**{**stored, "added": tuple(stored["added"])}))
