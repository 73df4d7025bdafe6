"""Small tokenizers and chat templates with the manners of the real families; nothing is downloaded."""

import json
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

WORDS = [
    "Find the API tools for this request",
    "pay slip case tool of leave because show it please",
    "a b c d e",
]

GEMMA4 = (
    "{{ bos_token }}{% if enable_thinking %}<|turn>system\n<|think|>\n<turn|>\n{% endif %}{% for m in messages %}"
    "<|turn>{{ 'model' if m.role == 'assistant' else m.role }}\n{{ m.content | trim }}<turn|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|turn>model\n{% if not enable_thinking %}<|channel>thought\n<channel|>{% endif %}"
    "{% endif %}"
)
QWEN3 = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and loop.last %}"
    "<think>\n\n</think>\n\n{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
DEEPSEEK = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}<|User|>{{ m.content }}{% else %}"
    "<|Assistant|>{{ m.content.split('</think>')[-1] }}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|Assistant|><think>\n{% endif %}"
)
DATED = (  # a system prompt nobody asked for, today's date, and a line break after the end of a turn
    "{{ bos_token }}<|head|>system\n\nToday is {{ strftime_now('%d %b %Y') }}.<|eot|>\n{% for m in messages %}"
    "<|head|>{{ m.role }}\n\n{{ m.content }}<|eot|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|head|>assistant\n\n{% endif %}"
)
FAMILIES: dict[str, tuple[str, list[str], str]] = {  # name -> (template, control tokens, end of turn)
    "gemma4": (GEMMA4, ["<bos>", "<|turn>", "<turn|>", "<|think|>", "<|channel>", "<channel|>"], "<turn|>"),
    "qwen3": (QWEN3, ["<|im_start|>", "<|im_end|>", "<think>", "</think>"], "<|im_end|>"),
    "deepseek": (DEEPSEEK, ["<bos>", "<eos>", "<|User|>", "<|Assistant|>", "<think>", "</think>"], "<eos>"),
    "dated": (DATED, ["<bos>", "<|head|>", "<|eot|>"], "<|eot|>"),
    "bare": ("", ["<bos>", "<eos>"], "<eos>"),
}


def family_tokenizer(name: str) -> Any:
    """A byte-level tokenizer with the control tokens and the template of one family."""
    template, control, end = FAMILIES[name]
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<pad>", *control],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(WORDS, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        eos_token=end,
        **({"bos_token": "<bos>"} if "<bos>" in control else {}),
    )
    tokenizer.chat_template = template or None
    return tokenizer


def _fast(inner: Tokenizer, **special: str) -> Any:
    return PreTrainedTokenizerFast(tokenizer_object=inner, **special)


def byte_level() -> Any:
    return family_tokenizer("qwen3")


def unigram() -> Any:
    """Like sentencepiece: control tokens are pieces like any other, a space before every text, bytes at last."""
    pieces = [
        ("<unk>", 0.0),
        ("<s>", 0.0),
        ("</s>", 0.0),
        ("<turn|>", 0.0),
        ("<|turn>", 0.0),
        ("\u2581", -2.0),
    ]
    pieces += [(f"<0x{number:02X}>", -9.0) for number in range(256)]
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,:;!?<>|/&[]\"'-_"
    pieces += [(letter, -5.0) for letter in letters.replace(" ", "")]
    pieces += [("\u2581the", -3.0), ("\u2581tool", -3.0), ("turn", -3.0), ("ing", -3.0)]
    inner = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=True))
    inner.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    inner.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return _fast(inner, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="<turn|>")


def metaspace_bpe() -> Any:
    """Like Llama 2: BPE over sentencepiece's spaces, byte fallback, a space before every text, NFKC on the way in."""
    inner = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    inner.normalizer = normalizers.NFKC()
    inner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    inner.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    bytes_ = [f"<0x{number:02X}>" for number in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=["<unk>", "<s>", "</s>", "<turn|>", *bytes_],
        initial_alphabet=[chr(number) for number in range(33, 127)],
        show_progress=False,
    )
    inner.train_from_iterator(["<s> </s> <turn|> the tool for this turn"] * 20, trainer)
    state = json.loads(inner.to_str())  # bytes are pieces of the model, not added tokens
    state["added_tokens"] = [token for token in state["added_tokens"] if token["content"] not in bytes_]
    tokenizer = Tokenizer.from_str(json.dumps(state))
    return _fast(tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="<turn|>")


def word_piece() -> Any:
    """Like BERT: lower case, words of known pieces, everything else unknown; `[SEP]` is a word of the vocabulary."""
    words = [
        "[UNK]",
        "[PAD]",
        "[CLS]",
        "[SEP]",
        "the",
        "tool",
        "##s",
        "[",
        "]",
        "<",
        ">",
        "|",
        "/",
        "unk",
        "sep",
    ]
    words += [*"abcdefghijklmnopqrstuvwxyz0123456789&.,!?"]
    words += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz0123456789"]
    inner = Tokenizer(models.WordPiece({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    return _fast(
        inner, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", eos_token="[SEP]"
    )


def word_level() -> Any:
    """Words between spaces and nothing smaller: a control token is a word a user can type."""
    words = ["<unk>", "<eos>", "<pad>", "the", "tool", "<", "e", "o", "s", ">", "p", "a", "d"]
    inner = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return _fast(inner, unk_token="<unk>", eos_token="<eos>", pad_token="<pad>")


KINDS = {
    "byte-level": byte_level,
    "unigram": unigram,
    "metaspace BPE": metaspace_bpe,
    "word piece": word_piece,
    "word level": word_level,
}
LOSSLESS = ("byte-level", "unigram", "metaspace BPE")
