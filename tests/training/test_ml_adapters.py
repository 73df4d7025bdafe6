"""Adapters: each family is asked in its own template, and asked the same tomorrow."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from tests.training.small_tokenizers import FAMILIES, family_tokenizer  # noqa: E402
from trace_site.lib.errors import TraceError  # noqa: E402
from training.core.records import Record, Units  # noqa: E402
from training.ml.bases import adapters  # noqa: E402
from training.ml.bases.chat import Chat, chat_of  # noqa: E402
from training.ml.bases.named import add_tokens  # noqa: E402

pytestmark = pytest.mark.ml
TOOL = "<<Pay&&Get>>"
THOUGHT = Record("retrieve", ("show it",), ('["', Units((TOOL,)), '"]'), ("because",))
ASKED = "Find the API tools for this request. Answer with a JSON list of tool tokens.\n\nshow it"
# family -> (before the text, after it, an exchange with thinking after the prompt, the empty thinking part)
SAID = {
    "gemma4": (
        "<bos><|turn>system\n<|think|>\n<turn|>\n<|turn>user\n",
        "<turn|>\n<|turn>model\n",
        f'<|channel>thought\nbecause\n<channel|>["{TOOL}"]<turn|>',
        "<|channel>thought\n<channel|>",
    ),
    "qwen3": (
        "<|im_start|>user\n",
        "<|im_end|>\n<|im_start|>assistant\n",
        f'<think>\nbecause\n</think>\n\n["{TOOL}"]<|im_end|>',
        "<think>\n\n</think>\n\n",
    ),
    "deepseek": (
        "<bos><|User|>",
        "<|Assistant|>",
        f'<think>\nbecause\n</think>\n\n["{TOOL}"]<eos>',
        "<think>\n\n</think>\n\n",
    ),
    "dated": (
        f"<bos><|head|>system\n\nToday is {adapters.DAY}.<|eot|>\n<|head|>user\n\n",
        "<|eot|>\n<|head|>assistant\n\n",
        f'<think>\nbecause\n</think>\n\n["{TOOL}"]<|eot|>',
        "<think>\n\n</think>\n\n",
    ),
    "bare": (
        "<|user|>",
        "<|assistant|>",
        f'<think>\nbecause\n</think>\n\n["{TOOL}"]<eos>',
        "<think>\n\n</think>\n\n",
    ),
}


def chat_for(family: str) -> Chat:
    tokenizer = family_tokenizer(family)
    added = adapters.prepare(tokenizer)
    add_tokens(tokenizer, [TOOL])
    return Chat(tokenizer, 128, adapters.template_markers(tokenizer, added))


@pytest.fixture(params=sorted(FAMILIES))
def family(request: Any) -> Iterator[str]:
    yield request.param


def test_each_family_is_asked_and_answered_in_its_own_template(family: str) -> None:
    chat = chat_for(family)
    before, after, exchange, empty = SAID[family]
    ids, mask = chat.render(THOUGHT)
    start = mask.index(1)
    assert chat.tokenizer.decode(ids[:start]) == f"{before}{ASKED}{after}"
    assert chat.tokenizer.decode(ids[start:]) == exchange
    assert chat.tokenizer.decode(chat.empty_ids) == empty


def test_the_empty_thinking_part_is_tokenized_as_the_template_would(family: str) -> None:
    chat = chat_for(family)
    assert chat.empty_ids == chat.tokenizer.encode(SAID[family][3], add_special_tokens=False)
    off = chat.tokenizer.apply_chat_template(
        [{"role": "user", "content": "?"}], tokenize=False, add_generation_prompt=True, enable_thinking=False
    )
    if family in ("gemma4", "qwen3"):
        assert off.endswith(chat.markers.after + chat.markers.empty)


def test_a_turn_ends_with_one_control_token_and_no_line_break(family: str) -> None:
    chat = chat_for(family)
    assert chat.tokenizer.convert_ids_to_tokens(chat.end_ids) == [FAMILIES[family][2]]


def test_thinking_and_turn_markers_are_control_tokens_that_text_cannot_write(family: str) -> None:
    chat = chat_for(family)
    marks = [*chat.open_ids, *chat.close_ids, *chat.empty_ids, *chat.end_ids]
    control = {number for number in marks if number in chat.tokenizer.added_tokens_decoder}
    assert len(control) >= 3
    every = "".join(
        asdict(chat.markers)[name] for name in ("before", "after", "end", "open", "close", "empty")
    )
    assert control.isdisjoint(chat.text_ids(every))
    assert set(chat.text_ids(every)).isdisjoint(chat.tokenizer.added_tokens_decoder)


def test_training_and_inference_ask_the_same_on_another_day(family: str, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    chat = chat_for(family)
    chat.tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(str(tmp_path))
    again.chat_template = "{{ raise_exception('the template of the day') }}"
    spec = {"markers": asdict(chat.markers)}
    later = chat_of(spec, again, chat.max_prompt_tokens)
    assert later.query_ids("show it", ["a.read"]) == chat.query_ids("show it", ["a.read"])
    assert later.render(THOUGHT) == chat.render(THOUGHT)
    assert later.markers == chat.markers


def test_a_resumed_training_reads_the_same_markers_whatever_day_it_is() -> None:
    first = chat_for("dated").markers
    assert adapters.DAY in first.before
    assert chat_for("dated").markers == first


def test_a_base_without_thinking_or_template_gets_control_tokens_before_the_tool_tokens() -> None:
    chat = chat_for("bare")
    added = ["<think>", "</think>", "<|user|>", "<|assistant|>"]
    assert list(chat.markers.added) == added
    ids = chat.unit_ids([*added, TOOL])
    assert ids == list(range(ids[0], ids[0] + 5))


def test_a_base_with_native_thinking_gets_nothing() -> None:
    for family in ("gemma4", "qwen3", "deepseek"):
        assert adapters.prepare(family_tokenizer(family)) == ()


@pytest.mark.parametrize("template", ["{{ raise_exception('no') }}", "nothing of the turn", "{% for %}"])
def test_a_template_that_cannot_be_used_says_so(template: str) -> None:
    tokenizer = family_tokenizer("qwen3")
    tokenizer.chat_template = template
    with pytest.raises(TraceError, match="chat template of this base") as caught:
        adapters.template_markers(tokenizer)
    assert caught.value.code == "bad_template"
