"""The two vocabularies of the pocket model: what it writes with, and the words its encoder reads.

In: an encoder's tokenizer. Out: a byte-level BPE learned from the encoder's own word list, commoner words counting
more: it loses nothing of a text, case and spacing included, and depends on no snapshot, so a new rule or tool changes
no word. Control and thinking tokens get the first ids; tool tokens are appended later.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from training.ml.chat import ASSISTANT, CLOSE, END, OPEN, PAD, USER

CONTROL = (PAD, END, USER, ASSISTANT)
THINKING = (OPEN, CLOSE)
# how a word may be written, and how often beside " word", the form inside a sentence
FORMS = [(" {}", str.lower, 1.0), ("{}", str.lower, 0.3), ("{}", str.capitalize, 0.3)]
FORMS += [(" {}", str.capitalize, 0.15), ("{}", str.upper, 0.1)]
COMMONEST = 2000  # how often the first word counts; the n-th counts about 1/n of it (Zipf)
LISTS = ('["', '", "', '"]')  # one token, two (a space begins one) and one


def writer_tokenizer(encoder_words: Any, vocab_size: int) -> PreTrainedTokenizerFast:
    """`encoder_words`: the encoder's tokenizer, whose vocabulary lists commoner words first."""
    known = encoder_words.get_vocab()
    return _wrapped(_learned(tuple(sorted(known, key=lambda piece: known[piece])), vocab_size))


def _wrapped(state: str) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer.from_str(state)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=END, clean_up_tokenization_spaces=False
    )


@lru_cache(maxsize=4)
def _learned(pieces: tuple[str, ...], vocab_size: int) -> str:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[AddedToken(text, special=True, normalized=False) for text in (*CONTROL, *THINKING)],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_written(pieces), trainer)
    # the trainer marks all reserved tokens special; thinking markers must survive decoding without specials
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in THINKING])
    return tokenizer.to_str()


def _written(pieces: tuple[str, ...]) -> Iterator[str]:
    """Every whole word of the list in each of its forms, as often as its rank says."""
    words = [piece.lstrip("\u2581") for piece in pieces if not piece.startswith("##")]
    words = [word for word in words if len(word) > 1 and word.isalpha() and word.isascii()]
    for rank, word in enumerate(words, start=1):
        for form, case, share in FORMS:
            text = form.format(case(word))
            for _ in range(max(1, round(share * COMMONEST * 20 / (rank + 20)))):
                yield text
    for text in LISTS:
        for _ in range(COMMONEST):
            yield text
