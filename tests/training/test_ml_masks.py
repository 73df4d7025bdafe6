"""Which tokens are trained: a table to read by eye. Tokens are separated by spaces, supervised ones stand in ( )."""

from typing import Any

import pytest

pytest.importorskip("torch")

from tests.training.small_encoder import read_ids, spoken, word_pieces  # noqa: E402
from tests.training.small_snapshot import sample, write_snapshot  # noqa: E402
from tests.training.small_tokenizers import family_tokenizer  # noqa: E402
from training.core.memorization import stage1_records  # noqa: E402
from training.core.recipe import Recipe  # noqa: E402
from training.core.records import (  # noqa: E402
    Record,  # noqa: E402
    Snapshot,
    load_snapshot,
    stage2_records,
)
from training.ml.bases.adapters import prepare, template_markers  # noqa: E402
from training.ml.bases.chat import FIRST_WORD, LEAST_REQUEST, Chat  # noqa: E402
from training.ml.bases.named import add_tokens  # noqa: E402
from training.ml.bases.pocket import writer_tokenizer  # noqa: E402
from training.ml.data import encode  # noqa: E402

pytestmark = pytest.mark.ml
TRACE = "slip case : PayV1/GetSlip is older"
SAMPLE = sample(
    1, query="show slip", answer=["PayV1/GetSlip", "Time/Book Leave"], trace=TRACE, permissions=["pay.read"]
)
TOOL = {"a": "<<PayV1&&GetSlip>>", "b": "<<PayV1>> <<GetSlip>>", "c": "<tid> <<PayV1>> <<GetSlip>> </tid>"}
LEAVE = {
    "a": "<<Time&&Book_Leave>>",
    "b": "<<Time>> <<Book_Leave>>",
    "c": "<tid> <<Time>> <<Book_Leave>> </tid>",
}
RUNS = {"a": "<<PayV1&&ListRuns>>", "b": "<<PayV1>> <<ListRuns>>", "c": "<tid> <<PayV1>> <<ListRuns>> </tid>"}
EMPTY = "OPEN CLOSE"
# kind -> the whole record; TOOL, LEAVE and RUNS are the tokens of three tools
TABLE = {
    "desc2token": f"USER reads_a_pay_slip MODEL {EMPTY} (TOOL END)",
    "token2desc": f"USER about_: TOOL MODEL {EMPTY} (Reads_a_pay_slip END)",
    "mcts": f"USER choose_:_reads_a_pay_slip TOOL RUNS MODEL {EMPTY} (TOOL END)",
    "desc2api": f"USER api_for_:_reads_a_pay_slip MODEL {EMPTY} (<<PayV1>> END)",
    "api2endpoint": f"USER endpoint_for_:_reads_a_pay_slip <<PayV1>> MODEL {EMPTY} (<<GetSlip>> END)",
    "retrieve, n": f'USER show_slip_permissions_:_pay_._read MODEL {EMPTY} ([" TOOL ",_" LEAVE "] END)',
    "retrieve, r": (
        "USER show_slip_permissions_:_pay_._read MODEL (OPEN slip_case_:_ TOOL _is_older CLOSE"
        ' [" TOOL ",_" LEAVE "] END)'
    ),
}
REASONED = {  # the same with a reasoning memo: the reasoning is written too, and the empty part is gone
    "desc2token": "USER reads_a_pay_slip MODEL (OPEN REASON CLOSE TOOL END)",
    "token2desc": "USER about_: TOOL MODEL (OPEN REASON CLOSE Reads_a_pay_slip END)",
    "mcts": "USER choose_:_reads_a_pay_slip TOOL RUNS MODEL (OPEN REASON CLOSE TOOL END)",
    "desc2api": "USER api_for_:_reads_a_pay_slip MODEL (OPEN REASON CLOSE <<PayV1>> END)",
    "api2endpoint": "USER endpoint_for_:_reads_a_pay_slip <<PayV1>> MODEL (OPEN REASON CLOSE <<GetSlip>> END)",
}
FORMATS_OF = {kind: ("b", "c") if kind in ("desc2api", "api2endpoint") else ("a", "b", "c") for kind in TABLE}
NAMES = {
    "<|user|>": "USER",
    "<|assistant|>": "MODEL",
    "<think>\n": "OPEN",
    "\n</think>\n": "CLOSE",
    "<|end|>": "END",
}


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: Any) -> Snapshot:
    return load_snapshot(write_snapshot(tmp_path_factory.mktemp("masks") / "snapshot", [SAMPLE]))


def pocket_chat(snapshot: Snapshot, fmt: str, longest: int = 128) -> Chat:
    words = word_pieces()
    tokenizer = writer_tokenizer(words, 600)
    add_tokens(tokenizer, snapshot.family_strings(fmt))
    return Chat(tokenizer, "pocket", longest, encoder_words=words)


def record_of(snapshot: Snapshot, kind: str, fmt: str, memo: str = "m") -> Record:
    name, _, retrieval = kind.partition(", ")
    recipe = Recipe(format=fmt, memo=memo, mcts_negatives=1, retrieval=retrieval or "none", seed=4)
    if retrieval:
        return stage2_records(snapshot, recipe)[0]
    return next(r for r in stage1_records(snapshot, recipe) if (r.kind, r.id) == (name, "PayV1/GetSlip"))


def spelled(chat: Chat, record: Record) -> str:
    """The record as the table writes it: tool and control tokens one by one, text between them as one word."""
    ids, mask = chat.render(record)
    assert len(ids) == len(mask)
    added, words = chat.tokenizer.added_tokens_decoder, ""
    for at, (number, supervised) in enumerate(zip(ids, mask, strict=True)):
        text = read_ids(chat, [number])
        before = mask[at - 1] if at else 0
        if number >= FIRST_WORD and at and ids[at - 1] >= FIRST_WORD:
            text = text[2:] if text.startswith("##") else f" {text}"
        apart = number in added or (at and ids[at - 1] in added) or supervised != before
        words += ")" * (before and not supervised) + " " * bool(apart) + "(" * (supervised and not before)
        words += NAMES.get(text, text.replace(" ", "_").replace("\n", "⏎"))
    return f"{words.strip()}{')' * mask[-1]}"


def filled(row: str, fmt: str) -> str:
    return row.replace("TOOL", TOOL[fmt]).replace("LEAVE", LEAVE[fmt]).replace("RUNS", RUNS[fmt])


def tight(text: str) -> str:
    """Where text parts meet, a space shows the parts and not the tokens."""
    return (
        text.replace("_ ", "_").replace(" ⏎", "⏎").replace("⏎ ", "⏎").replace(' ["', '["') if text else text
    )


CASES = [(kind, fmt) for kind in TABLE for fmt in FORMATS_OF[kind]]


@pytest.mark.parametrize(("kind", "fmt"), CASES)
def test_supervised_tokens_are_those_of_the_table(snapshot: Snapshot, kind: str, fmt: str) -> None:
    chat = pocket_chat(snapshot, fmt)
    assert tight(spelled(chat, record_of(snapshot, kind, fmt))) == tight(filled(TABLE[kind], fmt))


@pytest.mark.parametrize(("kind", "fmt"), [(kind, fmt) for kind, fmt in CASES if kind in REASONED])
def test_a_reasoning_memo_is_supervised_from_its_first_thought_on(
    snapshot: Snapshot, kind: str, fmt: str
) -> None:
    chat = pocket_chat(snapshot, fmt)
    record = record_of(snapshot, kind, fmt, "mr")
    said, row = spelled(chat, record), filled(REASONED[kind], fmt)
    before, _, after = row.partition(" REASON ")
    assert tight(said).startswith(tight(before))
    assert tight(said).endswith(tight(after))
    thought = next(stretch.ids for stretch in chat.stretches(record) if stretch.name == "thinking")
    assert len(thought) > 10


@pytest.mark.parametrize("kind", list(TABLE))
@pytest.mark.parametrize("family", ["gemma4", "qwen3", "deepseek", "dated", "bare"])
def test_every_family_trains_the_same_stretches(snapshot: Snapshot, kind: str, family: str) -> None:
    tokenizer = family_tokenizer(family)
    added = prepare(tokenizer)
    add_tokens(tokenizer, snapshot.family_strings("c"))
    chat = Chat(tokenizer, "chat", 256, template_markers(tokenizer, added))
    found = chat.stretches(record_of(snapshot, kind, "c"))
    written = {"open", "thinking", "close", "answer", "end"}
    names = ["prompt", "open", "thinking", "close", "answer", "end"]
    assert [s.name for s in found] == (
        names if kind == "retrieve, r" else ["prompt", "empty", "answer", "end"]
    )
    assert all(s.supervised == (s.name in written) and s.ids for s in found)
    assert found[-1].ids == tokenizer.convert_tokens_to_ids([chat.markers.end])


def long_chat(snapshot: Snapshot, longest: int) -> Chat:
    return pocket_chat(snapshot, "c", longest)


@pytest.mark.parametrize("retrieval", ["n", "r"])
def test_a_long_request_loses_its_end_and_nothing_else(snapshot: Snapshot, retrieval: str) -> None:
    short, chat = record_of(snapshot, f"retrieve, {retrieval}", "c"), long_chat(snapshot, 80)
    record = Record(short.kind, ("show the slip " * 300, short.prompt[1]), short.answer, short.thinking)
    before, after = chat.stretches(short), chat.stretches(record)
    assert [s.ids for s in after[1:]] == [s.ids for s in before[1:]]
    prompt = read_ids(chat, after[0].ids)
    assert len(after[0].ids) == 80
    assert prompt.startswith("<|user|>show the slip show")
    assert prompt.endswith(f" {spoken('Permissions: pay.read')}<|assistant|>")
    assert chat.cut == 1


def test_a_long_permission_line_gives_way_only_when_the_request_is_short(snapshot: Snapshot) -> None:
    chat = long_chat(snapshot, 100)
    ids = chat.query_ids("show the slip " * 300, [f"pay.read.{number}" for number in range(300)])
    text = read_ids(chat, ids)
    assert len(ids) == 100
    assert text.endswith("<|assistant|>")
    assert spoken("Permissions: pay.read.0, pay.read.1") in text
    request = text.removeprefix("<|user|>").partition("permissions")[0]
    assert len(chat.asked_ids(request)) >= LEAST_REQUEST - 1


def test_candidates_of_a_choice_are_never_cut(snapshot: Snapshot) -> None:
    chat, short = long_chat(snapshot, 60), record_of(snapshot, "mcts", "c")
    record = Record("mcts", ("reads a slip " * 300, *short.prompt[1:]), short.answer)
    units = [
        number
        for number in chat.prompt_ids("mcts", short.prompt)
        if number in chat.tokenizer.added_tokens_decoder
    ]
    kept = [n for n in chat.prompt_ids("mcts", record.prompt) if n in chat.tokenizer.added_tokens_decoder]
    assert kept == units
    assert len(chat.prompt_ids("mcts", record.prompt)) == 60


def test_a_long_question_keeps_its_options_and_what_asks_for_the_letter(snapshot: Snapshot) -> None:
    chat = long_chat(snapshot, 150)
    text = read_ids(chat, chat.choice_ids("what is it " * 300, ["a form", "a slip"]))
    assert f"{spoken('A: a form B: a slip Answer (single letter only): ')}<|assistant|>" in text
    assert text.startswith(f"<|user|>{spoken('Answer the following question.')}")


def test_records_too_long_are_left_out_whole_and_counted(snapshot: Snapshot) -> None:
    chat = long_chat(snapshot, 64)
    short = record_of(snapshot, "retrieve, r", "c")
    long = Record("retrieve", short.prompt, short.answer, ("because " * 400,))
    examples, left_out = encode([short, long, short], chat, 256)
    assert left_out == 1
    assert [example.ids for example in examples] == [chat.render(short)[0]] * 2
    assert all(example.ids[-1:] == chat.end_ids and example.mask[-1] == 1 for example in examples)
