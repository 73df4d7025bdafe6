"""Which stretches of a record are trained, in every family of bases, and what gives way in a long one."""

from typing import Any

import pytest

pytest.importorskip("torch")

from tests.training.small_snapshot import sample, write_snapshot  # noqa: E402
from tests.training.small_tokenizers import family_tokenizer  # noqa: E402
from training.core.memorization import stage1_records  # noqa: E402
from training.core.recipe import Recipe  # noqa: E402
from training.core.records import Record, Snapshot, load_snapshot, stage2_records  # noqa: E402
from training.ml.bases.adapters import prepare, template_markers  # noqa: E402
from training.ml.bases.chat import LEAST_REQUEST, LETTER, QUESTION, SENTENCES, Chat  # noqa: E402
from training.ml.bases.named import add_tokens  # noqa: E402
from training.ml.language import encode  # noqa: E402

pytestmark = pytest.mark.ml
TRACE = "slip case : PayV1/GetSlip is older"
SAMPLE = sample(
    1, query="show slip", answer=["PayV1/GetSlip", "Time/Book Leave"], trace=TRACE, permissions=["pay.read"]
)
KINDS = ["desc2token", "token2desc", "mcts", "desc2api", "api2endpoint"]


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: Any) -> Snapshot:
    return load_snapshot(write_snapshot(tmp_path_factory.mktemp("masks") / "snapshot", [SAMPLE]))


def chat_of(snapshot: Snapshot, family: str, longest: int = 256) -> Chat:
    tokenizer = family_tokenizer(family)
    added = prepare(tokenizer)
    add_tokens(tokenizer, snapshot.family_strings("c"))
    return Chat(tokenizer, longest, template_markers(tokenizer, added))


def record_of(snapshot: Snapshot, kind: str, memo: str = "m") -> Record:
    name, _, retrieval = kind.partition(", ")
    recipe = Recipe(format="c", memo=memo, mcts_negatives=1, retrieval=retrieval or "none", seed=4)
    if retrieval:
        return stage2_records(snapshot, recipe)[0]
    return next(r for r in stage1_records(snapshot, recipe) if (r.kind, r.id) == (name, "PayV1/GetSlip"))


@pytest.mark.parametrize(
    ("kind", "memo"),
    [*((kind, memo) for kind in KINDS for memo in ("m", "mr")), ("retrieve, n", "m"), ("retrieve, r", "m")],
)
@pytest.mark.parametrize("family", ["gemma4", "qwen3", "deepseek", "dated", "bare"])
def test_every_family_trains_the_same_stretches(
    snapshot: Snapshot, kind: str, memo: str, family: str
) -> None:
    """A reasoning is written from its opening mark on; an empty one is given."""
    chat = chat_of(snapshot, family)
    found = chat.stretches(record_of(snapshot, kind, memo))
    reasoned = memo == "mr" or kind == "retrieve, r"
    thinking = ["open", "thinking", "close"] if reasoned else ["empty"]
    assert [s.name for s in found] == ["prompt", *thinking, "answer", "end"]
    assert all(s.supervised == (s.name not in ("prompt", "empty")) and s.ids for s in found)
    assert found[-1].ids == chat.tokenizer.convert_tokens_to_ids([chat.markers.end])


@pytest.mark.parametrize("retrieval", ["n", "r"])
def test_a_long_request_loses_its_end_and_nothing_else(snapshot: Snapshot, retrieval: str) -> None:
    short, chat = record_of(snapshot, f"retrieve, {retrieval}"), chat_of(snapshot, "bare", 80)
    record = Record(short.kind, ("show the slip " * 300, short.prompt[1]), short.answer, short.thinking)
    before, after = chat.stretches(short), chat.stretches(record)
    assert [s.ids for s in after[1:]] == [s.ids for s in before[1:]]
    prompt = chat.tokenizer.decode(after[0].ids)
    assert len(after[0].ids) == 80
    assert prompt.startswith(f"<|user|>{SENTENCES['retrieve']}show the slip show")
    assert prompt.endswith("\nPermissions: pay.read<|assistant|>")
    assert chat.cut == 1


def test_a_long_permission_line_gives_way_only_when_the_request_is_short(snapshot: Snapshot) -> None:
    chat = chat_of(snapshot, "bare", 200)
    ids = chat.query_ids("show the slip " * 300, [f"pay.read.{number}" for number in range(300)])
    text = chat.tokenizer.decode(ids)
    assert len(ids) == 200
    assert text.endswith("<|assistant|>")
    assert "Permissions: pay.read.0, pay.read.1" in text
    request = text.removeprefix(f"<|user|>{SENTENCES['retrieve']}").partition("\nPermissions")[0]
    assert len(chat.text_ids(request)) >= LEAST_REQUEST - 1


def test_candidates_of_a_choice_are_never_cut(snapshot: Snapshot) -> None:
    chat, short = chat_of(snapshot, "bare", 120), record_of(snapshot, "mcts")
    record = Record("mcts", ("reads a slip " * 300, *short.prompt[1:]), short.answer)
    units = [
        number
        for number in chat.prompt_ids("mcts", short.prompt)
        if number in chat.tokenizer.added_tokens_decoder
    ]
    kept = [n for n in chat.prompt_ids("mcts", record.prompt) if n in chat.tokenizer.added_tokens_decoder]
    assert kept == units
    assert len(chat.prompt_ids("mcts", record.prompt)) == 120


def test_a_long_question_keeps_its_options_and_what_asks_for_the_letter(snapshot: Snapshot) -> None:
    chat = chat_of(snapshot, "bare", 200)
    text = chat.tokenizer.decode(chat.choice_ids("what is it " * 300, ["a form", "a slip"]))
    assert f"A: a form\nB: a slip\n{LETTER}<|assistant|>" in text
    assert text.startswith(f"<|user|>{QUESTION}")


def test_records_too_long_are_left_out_whole_and_counted(snapshot: Snapshot) -> None:
    chat = chat_of(snapshot, "bare")
    short = record_of(snapshot, "retrieve, r")
    long = Record("retrieve", short.prompt, short.answer, ("because " * 400,))
    examples, left_out = encode([short, long, short], chat, 256)
    assert left_out == 1
    assert [example.ids for example in examples] == [chat.render(short)[0]] * 2
    assert all(example.ids[-1:] == chat.end_ids and example.mask[-1] == 1 for example in examples)
