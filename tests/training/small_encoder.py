"""A random sentence encoder of a few thousand numbers, and pocket recipes around it: as fast as a test needs."""

import atexit
import shutil
import string
import tempfile
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from training.core.recipe import Pocket, Recipe, Stage
from training.core.stages import normal

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
COMMON = """
the of and to in for is on that by this with you it not or be are from at as your all have new more an was we
will home can us about if page my has search free but our one other do no information time they site he up may
what which their news out use any there see only so his when contact here business who web also now help get
view online first am been would how were services some these click its like service than find price date back
top people list name just over state year day into email two health world next used go work last most products
music buy data make them should product system post her city add policy number such please available support
message after best software then good video well where info rights public books high school through each links
she review years order very privacy book items company read group need many user said does set under general
research university mail full map reviews program life know games way days management part could great united
hotel real item international center must store travel comments made development report off member details
line terms before hotels did send right type because local those using results office education national car
design take posted internet address community within states area want phone pay slip case leave tool request
run permissions choose reads lists starts older newer
"""
WORDS = COMMON.split()
PIECES = (*string.ascii_lowercase, *string.digits)
VOCABULARY = (
    *SPECIAL,
    *WORDS,
    *PIECES,
    *(f"##{piece}" for piece in PIECES),
    *("##ing", "##ed", "##er", "##ly"),
    *string.punctuation,
)


def word_pieces() -> Any:
    """Like BERT's: lower case without accents, whole words, else pieces of them, else [UNK]."""
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(VOCABULARY))}
    inner = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    inner.normalizer = normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece(cleanup=False)
    ends = [(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=ends
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )


def write_encoder(folder: Path, seed: int = 0, **fields: Any) -> Path:
    """A random encoder. `fields` change its configuration."""
    words = word_pieces()
    usual = {
        "vocab_size": len(words),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 48,
        "max_position_embeddings": 256,
        "initializer_range": 0.2,  # so that texts differ
    }
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        BertModel(BertConfig(**(usual | fields)), add_pooling_layer=False).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


@lru_cache(maxsize=1)
def small_encoder() -> str:
    """The folder of the one that tests share; it goes when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="trace-encoder-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(write_encoder(folder))


def small_pocket(**fields: Any) -> Pocket:
    return Pocket(**({"encoder": small_encoder()} | fields))


def quick_recipe(**fields: Any) -> Recipe:
    """Shows that the machinery works, learns little. Every part trains."""
    moving = {"lr": 3e-3, "encoder_lr": 1e-3, "rows_lr": 1e-3}
    recipe = Recipe(
        threads=1,
        max_seq_len=256,
        max_prompt_tokens=128,
        max_new_tokens=96,
        mcts_negatives=2,
        pocket=small_pocket(),
        stage1=Stage(**moving, batch_size=8, epochs=2),  # type: ignore[arg-type]
        stage2=Stage(**moving, batch_size=4, epochs=10),  # type: ignore[arg-type]
    )
    return normal(replace(recipe, **fields))  # as it would be read from a file
