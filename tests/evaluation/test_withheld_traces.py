"""Traces that a language model wrote, for callers without permissions: no withheld name, however it is glued."""

import random

import pytest

pytest.importorskip("torch")

from evaluation.core.withholding import WITHHELD, Redaction
from evaluation.ml.engine import open_engine
from evaluation.ml.rows import Told, listed_row
from evaluation.ml.trie import Mask
from evaluation.ml.write import Written
from tests.evaluation.tiny_export import NAMES, PERMISSIONS, write_export

pytestmark = pytest.mark.ml

TRACES = 100  # of each format
ITEM = {"id": "1", "query": "which form", "permissions": []}
GRANTED = [name for name in NAMES if name not in PERMISSIONS]
WORDS = ["all", "is", " the request", "v2", ".", " so it is ", "s", "Re", "/", "<<", ">>", "é"]


def planted(chance, export):
    """Token ids of a trace in which names stand in tokens and in letters, often without a space beside them."""
    encode = export.chat.tokenizer.encode
    ids = []
    for _ in range(chance.randint(6, 14)):
        kind, name = chance.random(), chance.choice([*PERMISSIONS, *PERMISSIONS, *GRANTED])
        if kind < 0.4:
            ids += export.spec["tools"][export.numbers[name]]["ids"]
        elif kind < 0.6:
            ids += encode(chance.choice([name, name.upper(), *(f"<<{part}>>" for part in name.split("/"))]))
        else:
            ids += encode(chance.choice(WORDS))
    return ids


def leaks(text):
    for name in sorted(GRANTED, key=len, reverse=True):
        text = text.replace(name, " ")
    return [name for name in PERMISSIONS if name.lower() in text.lower()]


@pytest.mark.parametrize("fmt", ["a", "b", "c"])
def test_no_withheld_name_stands_in_a_trace_plain_or_streamed(tmp_path, fmt):
    export = open_engine(write_export(tmp_path / fmt, fmt)).export
    redaction, chance = Redaction(PERMISSIONS, GRANTED), random.Random(fmt)
    taken_out = 0
    for _ in range(TRACES):
        ids = planted(chance, export)
        row = listed_row(export, ITEM, Written(thinking=[*ids, *export.chat.close_ids]), Mask())
        plain = redaction.anew().whole(row["trace"])
        result, stream, shown = Written(), redaction.anew(), []
        told = Told(export, ITEM, result, lambda _, piece, to=shown, by=stream: to.append(by.feed(piece)))
        for token in ids:
            result.thinking.append(token)
            told()
        streamed = "".join(shown) + stream.rest()
        assert (leaks(plain), leaks(streamed)) == ([], []), export.text(ids)
        assert plain.startswith(streamed.strip())
        taken_out += plain.count(WITHHELD)
    assert taken_out > TRACES


def test_a_name_in_tokens_leaves_before_it_is_text_and_what_stands_beside_it_stays(tmp_path):
    export = open_engine(write_export(tmp_path / "a", "a")).export
    encode, tools = export.chat.tokenizer.encode, export.spec["tools"]
    ids = {name: tools[export.numbers[name]]["ids"] for name in NAMES}
    written = [*encode("all"), *ids["Tax/Get"], *encode("is; ask "), *ids["Tax/Create"], *encode("s")]
    assert export.shown(written, ITEM) == f"all{WITHHELD}is; ask Tax/Creates"
    assert export.shown(written, {**ITEM, "permissions": ["tax"]}) == "allTax/Getis; ask Tax/Creates"
    assert export.shown(written, {"id": "1", "query": "q"}) == "allTax/Getis; ask Tax/Creates"
