"""The pocket tokenizer: byte-level BPE learned from the snapshot's own text, same text and size -> same tokens."""

import json
from collections.abc import Iterable

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from training.core.records import Snapshot
from training.ml.chat import ASSISTANT, CLOSE, END, OPEN, PAD, USER

CONTROL = (PAD, END, USER, ASSISTANT)
THINKING = (OPEN, CLOSE)
FIRST_TEXT_ID = len(CONTROL) + len(THINKING)


def train_tokenizer(snapshot: Snapshot, vocab_size: int, lowercase: bool = False) -> PreTrainedTokenizerFast:
    """Control and thinking tokens get the first ids, text the following ones. Tool tokens are never lower-cased."""
    tokenizer = Tokenizer(models.BPE())
    if lowercase:
        tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    reserved = [AddedToken(text, special=True, normalized=False) for text in (*CONTROL, *THINKING)]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=reserved,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_with_lists(snapshot), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=_showing_thinking(tokenizer),
        pad_token=PAD,
        eos_token=END,
        clean_up_tokenization_spaces=False,
    )


def _with_lists(snapshot: Snapshot) -> Iterable[str]:
    """The snapshot's text, and JSON lists so that their punctuation becomes single tokens."""
    yield from snapshot.texts()
    for _ in range(200):
        yield json.dumps(["a", "b"])


def _showing_thinking(tokenizer: Tokenizer) -> Tokenizer:
    """The trainer marks all reserved tokens special; thinking markers must survive decoding without specials."""
    state = json.loads(tokenizer.to_str())
    for token in state["added_tokens"]:
        token["special"] = token["content"] in CONTROL
    return Tokenizer.from_str(json.dumps(state))
