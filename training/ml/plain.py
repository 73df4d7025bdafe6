"""Text from outside as token ids, none of which is a control or a tool token, with nothing lost on the way.

In: a tokenizer. Out: ids of any text. Every added token is control or tool. A vocabulary may also reach control ids
without them (Unigram knows `<s>` as a piece like any other): such a spot is spelled in smaller pieces.
"""

import json
import unicodedata
from functools import lru_cache
from typing import Any

from tokenizers import Encoding, Tokenizer

from trace_site.lib.errors import TraceError

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
        blanks = [token for token in state["added_tokens"] if _is_blank(token)]
        self._tokenizer = _with_added(state, blanks)
        if any(self._tokenizer.token_to_id(token["content"]) != token["id"] for token in blanks):
            blanks = []  # without the tokens between them they would get other ids
            self._tokenizer = _with_added(state, blanks)
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
        cuts = self._cuts(encoding, text)
        if not cuts:
            return tuple(encoding.ids)
        if len(text) == 1:
            return self._stand_in(text)
        pieces = zip([0, *cuts], [*cuts, len(text)], strict=True)
        return tuple(number for start, end in pieces for number in self._ids(text[start:end]))

    def _cuts(self, encoding: Encoding, text: str) -> list[int]:
        """Places strictly inside the text, one in or beside every control token; [0] when it is one character."""
        found: set[int] = set()
        for number, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
            if number in self.control or self._is_typed(number, text[start:end]):
                found |= {start + 1} if end - start > 1 else {start, end}
        inside = sorted(place for place in found if 0 < place < len(text))
        return inside or ([len(text) // 2] if found else [])

    def _is_typed(self, number: int, spelled: str) -> bool:
        """Does the text name a stand-in, such as `<unk>`? Its letters are known, so nothing need be lost."""
        return number in self._stands_for and self._stands_for[number] in spelled

    def _stand_in(self, character: str) -> tuple[int, ...]:
        """The character's compatible spelling, or a visible stand-in."""
        spelled = unicodedata.normalize("NFKC", character)
        for other in (*([spelled] if spelled != character else []), *STAND_INS):
            ids = tuple(self._tokenizer.encode(other, add_special_tokens=False).ids)
            if ids and self.control.isdisjoint(ids):
                return ids
        raise TraceError(
            f"the tokenizer has no plain token for {character!r}.",
            code="no_plain_token",
            hint="Use another base model.",
        )


def _with_added(state: dict[str, Any], tokens: list[dict[str, Any]]) -> Tokenizer:
    return Tokenizer.from_str(json.dumps({**state, "added_tokens": tokens}))


def _is_blank(token: dict[str, Any]) -> bool:
    """Runs of spaces or line breaks are text, although some tokenizers add them as tokens."""
    return not token["special"] and not token["content"].replace(BLANK, " ").strip()


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
