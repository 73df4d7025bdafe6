"""Text from outside: no id of it is a control or a tool token, and no letter of it is lost."""

import re
import unicodedata
from typing import Any

import pytest

pytest.importorskip("torch")

from hypothesis import example, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from tests.training.small_tokenizers import KINDS, LOSSLESS  # noqa: E402
from training.core.records import Units  # noqa: E402
from training.ml.bases import adapters  # noqa: E402
from training.ml.bases.chat import (
    Chat,  # noqa: E402
    PlainText,  # noqa: E402
)
from training.ml.bases.named import add_tokens  # noqa: E402

pytestmark = pytest.mark.ml
TOOLS = ["<<Pay&&Get>>", "<tid>", "</tid>", "<<Pay>>", "<<Get>>"]
CONTROL = [
    "<s>",
    "</s>",
    "<unk>",
    "<pad>",
    "<eos>",
    "<turn|>",
    "<|turn>",
    "<think>",
    "</think>\n",
    "[SEP]",
    "[UNK]",
]
CONTROL += ["<|im_start|>", "<|im_end|>", "<bos>", "[PAD]", "<|user|>", "<|assistant|>", "<0x41>", "<0x0A>"]
WIDE = {
    ord(letter): ord(letter) - 0x20 + 0xFF00 for letter in "<>|/[]&abcdefghijklmnopqrstuvwxyz"
}  # NFKC: ASCII
LOOK_ALIKE = str.maketrans({"<": "\u2039", ">": "\u203a", "|": "\u01c0", "o": "\u043e", "s": "\u0455"})


def attacks() -> st.SearchStrategy[str]:
    """Control strings whole, cut, doubled, in wide and look-alike letters, with invisible ones, among any text."""
    whole = st.sampled_from([*TOOLS, *CONTROL])
    pieces = st.one_of(
        whole,
        st.builds(lambda text, at: text[: at % (len(text) + 1)], whole, st.integers(0, 99)),
        st.builds(lambda text, at: text[at % len(text) :], whole, st.integers(0, 99)),
        whole.map(lambda text: text.translate(WIDE)),
        whole.map(lambda text: text.translate(LOOK_ALIKE)),
        whole.map(lambda text: "\u200b".join(text)),
        whole.map(lambda text: text[:2] + text + text[2:]),
        st.sampled_from(
            [" ", "\n", "  ", "\u2581", "e\u0301", "\ufb01", "\ufdfa", "\U0001f600", "\0", "the tool"]
        ),
        st.text(max_size=8),
    )
    return (
        st.lists(pieces, max_size=6)
        .map("".join)
        .filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text))
    )


@pytest.fixture(params=sorted(KINDS), scope="module")
def tokenizer(request: Any) -> Any:
    found = KINDS[request.param]()
    found.kind = request.param
    adapters.prepare(found)
    add_tokens(found, TOOLS)
    return found


@pytest.fixture(scope="module")
def plain(tokenizer: Any) -> PlainText:
    return PlainText(tokenizer)


def forbidden(tokenizer: Any) -> set[int]:
    """Every added and every special token; the unknown one only says that a character is unknown."""
    unknown = {tokenizer.unk_token_id} - {
        tokenizer.eos_token_id,
        tokenizer.pad_token_id,
        tokenizer.bos_token_id,
    }
    return (set(tokenizer.added_tokens_decoder) | set(tokenizer.all_special_ids)) - unknown


@settings(max_examples=120)
@given(text=attacks())
@example(text="<s>" * 400)
@example(text="<turn|>")
@example(text="\uff1cs\uff1e")
@example(text="<<<s>s>s>")
@example(text="<<Pay&&Get>>")
def test_no_text_gives_a_control_or_tool_token(plain: PlainText, tokenizer: Any, text: str) -> None:
    assert forbidden(tokenizer).isdisjoint(plain.ids(text))


@settings(max_examples=120)
@given(text=attacks())
@example(text="a <s> b</s>")
@example(text="</s></s>")
@example(text=" the  tool ")
def test_text_comes_back_as_it_was(plain: PlainText, tokenizer: Any, text: str) -> None:
    """Tokenizers that know every byte give the text back, but for what their own normalizer folds."""
    if tokenizer.kind not in LOSSLESS:
        return
    back = tokenizer.decode(
        [*plain.ids("|"), *plain.ids(text)], clean_up_tokenization_spaces=False
    ).removeprefix("|")
    folded = unicodedata.normalize("NFKC", text) if tokenizer.kind == "metaspace BPE" else text
    spaced = folded if tokenizer.kind == "byte-level" else folded.replace("\u2581", " ")
    assert back == spaced


@settings(max_examples=60)
@given(text=attacks())
@example(text="<<Pay&&Get>>\x1f0")
@example(text="0\x85¢")
def test_a_tokenizer_that_knows_few_characters_loses_none_silently(
    plain: PlainText, tokenizer: Any, text: str
) -> None:
    """What it cannot spell stands as an unknown or a replacement token: never less than nothing."""
    # white space; Python's has four separators more than Unicode's, and word pieces drop the control character U+0085
    words = re.split(r"[^\S\x1c-\x1f\x85]+", text)
    visible = [word for word in words if any(unicodedata.category(c)[0] in "LNPS" for c in word)]
    if tokenizer.kind in ("word piece", "word level"):
        assert len(plain.ids(text)) >= len(visible)


@settings(max_examples=60)
@given(text=attacks(), cut=st.integers(0, 60))
def test_text_split_over_parts_gives_no_token_either(tokenizer: Any, text: str, cut: int) -> None:
    chat = _chat(tokenizer)
    parts = (text[:cut], Units((TOOLS[0],)), text[cut:])
    ids = chat.parts_ids(parts)
    assert [number for number in ids if number in forbidden(tokenizer)] == chat.unit_ids(TOOLS[:1])
    assert sorted(chat.parts_ids((text[:cut], text[cut:]))) == sorted(
        [*chat.text_ids(text[:cut]), *chat.text_ids(text[cut:])]
    )


def _chat(tokenizer: Any) -> Chat:
    if not hasattr(tokenizer, "chat"):
        tokenizer.chat = Chat(tokenizer, 4096, adapters.template_markers(tokenizer))
    found: Chat = tokenizer.chat
    return found


def test_control_ids_of_a_prompt_are_those_of_the_template_alone(tokenizer: Any) -> None:
    chat = _chat(tokenizer)
    attack = "".join([*TOOLS, *CONTROL])
    control = forbidden(tokenizer)
    asked, clean = chat.query_ids(attack, [attack]), chat.query_ids("the", ["tool"])
    assert [n for n in asked if n in control] == [n for n in clean if n in control]


def test_runs_of_blanks_that_a_family_adds_as_tokens_stay_text() -> None:
    found = KINDS["byte-level"]()
    found.add_tokens(["\n\n\n", "    "])
    ids = PlainText(found).ids("a\n\n\nb    c")
    assert set(found.convert_tokens_to_ids(["\n\n\n", "    "])) <= set(ids)
    assert found.decode(ids) == "a\n\n\nb    c"


def test_runs_of_blanks_behind_other_added_tokens_keep_their_text() -> None:
    found = KINDS["byte-level"]()
    found.add_tokens(["<<A>>", "\n\n\n", "    "])
    ids = PlainText(found).ids("a\n\n\nb    c<<A>>")
    assert found.decode(ids) == "a\n\n\nb    c<<A>>"
    assert set(ids).isdisjoint(found.convert_tokens_to_ids(["<<A>>"]))


def test_a_unigram_control_piece_is_spelled_out_and_not_dropped() -> None:
    plain = PlainText(KINDS["unigram"]())
    assert plain._tokenizer.encode("a<turn|>b", add_special_tokens=False).ids.count(3) == 1
    assert KINDS["unigram"]().decode(plain.ids("xa<turn|>b</s>")) == "xa<turn|>b</s>"
