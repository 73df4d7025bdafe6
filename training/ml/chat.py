"""All prompt rendering: what is trained here is, token for token, what evaluation asks.

In: records, requests or probe questions, and a tokenizer holding the tool tokens. Out: token ids, and for
records a mask that is 1 where the loss looks. Plain text never becomes a tool or control token.
"""

import json
import string
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import AutoTokenizer

from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_json
from training.core.records import Part, Parts, Record, Units, query_parts

PAD, END, USER, ASSISTANT = "<pad>", "<|end|>", "<|user|>", "<|assistant|>"
OPEN, CLOSE = "<think>\n", "\n</think>\n"
SLOT = "\u241eslot\u241e"  # stands for the content while a chat template is rendered

# The pocket model learns a short cue; a named base reads a sentence.
CUES = {
    "retrieve": "",
    "desc2token": "tool for: ",
    "token2desc": "about: ",
    "mcts": "choose: ",
    "desc2api": "api for: ",
    "api2endpoint": "endpoint for: ",
    "letters": "",
}
SENTENCES = {
    "retrieve": "Find the API tools for this request. Answer with a JSON list of tool tokens.\n\n",
    "desc2token": "Name the token of the tool that is described here.\n\n",
    "token2desc": "Describe the tool that this token names.\n\n",
    "mcts": "One of the listed tools is described here. Answer with its token.\n\n",
    "desc2api": "Name the API token of the tool that is described here.\n\n",
    "api2endpoint": "Name the endpoint token of the tool that is described here, within the given API.\n\n",
    "letters": "",
}


@dataclass(frozen=True)
class Markers:
    """The strings around a turn and around its thinking part."""

    before: str  # from the start to the user's text
    after: str  # from the user's text to where the model starts to write
    end: str  # what ends the model's turn
    open: str
    close: str


class Chat:
    """A tokenizer and the way one base model is talked to."""

    def __init__(self, tokenizer: Any, adapter: str, max_prompt_tokens: int) -> None:
        self.tokenizer = tokenizer
        self.adapter = adapter
        self.max_prompt_tokens = max_prompt_tokens
        self.markers = _pocket_markers() if adapter == "pocket" else _template_markers(tokenizer)
        self._plain = plain_tokenizer(tokenizer)
        # every added token is control or tool: none of them may come out of plain text
        self._forbidden = set(tokenizer.added_tokens_decoder) | set(tokenizer.all_special_ids)
        self._before, self._after = self._marked(self.markers.before), self._marked(self.markers.after)
        self.end_ids = self._marked(self.markers.end)
        self.open_ids, self.close_ids = self._marked(self.markers.open), self._marked(self.markers.close)
        self.empty_ids = [*self.open_ids, *self.close_ids]
        self.list_open_ids = self.text_ids('["')
        self.list_sep_ids = self.text_ids('", "')
        self.list_close_ids = self.text_ids('"]')
        self.pad_id: int = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0

    def _marked(self, text: str) -> list[int]:
        """Ids of text we wrote ourselves: control tokens count."""
        return self.tokenizer.encode(text, add_special_tokens=False) if text else []

    def text_ids(self, text: str) -> list[int]:
        """Ids of text from outside: never a control or tool token."""
        ids: list[int] = self._plain.encode(text, add_special_tokens=False).ids
        if not self._forbidden.isdisjoint(ids):
            ids = self._plain.encode(text.replace("<", "< ").replace("[", "[ "), add_special_tokens=False).ids
        return [number for number in ids if number not in self._forbidden]

    def unit_ids(self, strings: Sequence[str]) -> list[int]:
        """Ids of tool tokens; one id a string."""
        ids: list[int] = self.tokenizer.convert_tokens_to_ids(list(strings))
        for text, number in zip(strings, ids, strict=True):
            if number is None or number == self.tokenizer.unk_token_id:
                raise TraceError(f"the model has no token {text}.", code="no_token")
        return ids

    def part_ids(self, part: Part) -> list[int]:
        return self.unit_ids(part.strings) if isinstance(part, Units) else self.text_ids(part)

    def parts_ids(self, parts: Parts) -> list[int]:
        return [number for part in parts for number in self.part_ids(part)]

    def prompt_ids(self, kind: str, parts: Parts) -> list[int]:
        """Everything up to where the model starts to write; an overlong first text is cut at its end."""
        cue = self.text_ids((CUES if self.adapter == "pocket" else SENTENCES)[kind])
        pieces = [self.part_ids(part) for part in parts]
        fixed = len(self._before) + len(self._after) + len(cue)
        excess = fixed + sum(map(len, pieces)) - self.max_prompt_tokens
        if excess > 0 and pieces:
            pieces[0] = pieces[0][: max(1, len(pieces[0]) - excess)]
        return [*self._before, *cue, *(n for piece in pieces for n in piece), *self._after]

    def query_ids(self, query: str, permissions: Sequence[str] = ()) -> list[int]:
        """A retrieval prompt. Append `open_ids` to ask for a trace, `empty_ids` to skip it."""
        return self.prompt_ids("retrieve", query_parts(query, permissions))

    def choice_ids(self, question: str, choices: Sequence[str], units: Sequence[str] = ()) -> list[int]:
        """A multiple-choice prompt; the next token is the letter. `units` are the token of the tool it is about."""
        about: Parts = ("Tool: ", Units(tuple(units)), "\n") if units else ()
        lines = [
            f"{letter}: {choice}\n" for letter, choice in zip(string.ascii_uppercase, choices, strict=False)
        ]
        parts: Parts = (
            "Answer the following question. Respond with the answer letter only.\n\n",
            *about,
            f"{question}\n{''.join(lines)}Answer (single letter only): ",
        )
        return [*self.prompt_ids("letters", parts), *self.empty_ids]

    def letter_ids(self, count: int) -> list[int]:
        """The ids of A, B, ... as first token of an answer."""
        return [self.text_ids(letter)[0] for letter in string.ascii_uppercase[:count]]

    def render(self, record: Record) -> tuple[list[int], list[int]]:
        """(ids, mask) of equal length; mask 1 on what the model writes: trace, answer, end of turn.

        An empty thinking part is given, not written, so it stays outside the mask.
        """
        prompt = self.prompt_ids(record.kind, record.prompt)
        answer = [*self.parts_ids(record.answer), *self.end_ids]
        if record.thinking:
            written = [*self.open_ids, *self.parts_ids(record.thinking), *self.close_ids, *answer]
        else:
            prompt, written = [*prompt, *self.empty_ids], answer
        return [*prompt, *written], [0] * len(prompt) + [1] * len(written)


def load_chat(export: Path) -> tuple[Chat, dict[str, Any]]:
    """The chat of an exported model and its trace.json."""
    spec: dict[str, Any] = read_json(export / "trace.json")
    tokenizer = AutoTokenizer.from_pretrained(str(export))
    return Chat(tokenizer, spec["adapter"], spec["max_prompt_tokens"]), spec


def plain_tokenizer(tokenizer: Any) -> Tokenizer:
    """The same tokenizer without any added token, for text that comes from outside."""
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    state["added_tokens"] = []
    state["post_processor"] = state["padding"] = state["truncation"] = None
    return Tokenizer.from_str(json.dumps(state))


def _pocket_markers() -> Markers:
    return Markers(before=USER, after=ASSISTANT, end=END, open=OPEN, close=CLOSE)


def _template_markers(tokenizer: Any) -> Markers:
    """Read the turn markers off the model's own chat template; thinking markers are the model's native ones."""
    opening, closing = _thinking(tokenizer)
    if not tokenizer.chat_template:
        return Markers("User: ", "\nAssistant: ", tokenizer.eos_token, opening, closing)
    user = {"role": "user", "content": SLOT}
    asked = _apply(tokenizer, [user], True)
    before, _, after = asked.partition(SLOT)
    answered = _apply(tokenizer, [user | {"content": "?"}, {"role": "assistant", "content": SLOT}], False)
    end = _first_control(tokenizer, answered.partition(SLOT)[2])
    return Markers(before, after, end, opening, closing)


def _apply(tokenizer: Any, messages: list[dict[str, str]], ask: bool) -> str:
    return str(
        tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=ask, enable_thinking=True
        )
    )


def _thinking(tokenizer: Any) -> tuple[str, str]:
    vocabulary = tokenizer.get_vocab()
    if "<|channel>" in vocabulary:  # Gemma 4
        return "<|channel>thought\n", "\n<channel|>"
    if "<think>" in vocabulary:  # Qwen 3 and its family
        return OPEN, "\n</think>\n\n"
    return OPEN, CLOSE


def _first_control(tokenizer: Any, text: str) -> str:
    """The control token that ends an assistant turn, without the template's line break after it."""
    for number in tokenizer.encode(text, add_special_tokens=False):
        if number in tokenizer.all_special_ids or number in tokenizer.added_tokens_decoder:
            return str(tokenizer.convert_ids_to_tokens(number))
    return str(tokenizer.eos_token)
