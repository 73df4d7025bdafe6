"""The decodes of a tiny random language model, against plain forwards without a cache."""

import dataclasses
import json
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from evaluation.core.questions import mcq_question
from tests.evaluation.test_engine_server import NoThread
from trace_site.lib.departure import Departed, Departure
from trace_site.lib.errors import TraceError

pytestmark = pytest.mark.ml

ITEMS = [
    {"id": "1", "query": "pay"},
    {"id": "2", "query": "list the leave records of everyone please"},
    {"id": "3", "query": "create tax"},
    {"id": "4", "query": "drop what PayV2 created"},
    {"id": "5", "query": "get leave now", "permissions": ["leave"]},
]
QUESTION = {
    "id": "q",
    "tool": "Tax/Get",
    "question": "Which?",
    "correct": "a b",
    "wrong": ["c", "d e f"],
    "domain": "hr",
}


@pytest.fixture(scope="module")
def engines(tmp_path_factory):
    """engines("b") -> the engine of a tiny model of that format, made once."""
    from evaluation.ml.engine import open_engine
    from tests.evaluation.tiny_export import write_export

    made = {}

    def get(fmt, reasoning=True):
        if (fmt, reasoning) not in made:
            folder = write_export(tmp_path_factory.mktemp("export"), fmt, reasoning=reasoning)
            made[fmt, reasoning] = open_engine(folder, threads=1)
        return made[fmt, reasoning]

    return get


def predictions(engine, decode, items=ITEMS, k=5):
    rows = [row for batch in engine.predict(items, decode, k) for row in batch]
    return {row["id"]: row for row in rows}


def log_probabilities(engine, ids):
    """Of every next token after every position, in one plain forward without a cache."""
    import torch

    with torch.inference_mode():
        return engine.export.model(input_ids=torch.tensor([ids])).logits[0].float().log_softmax(dim=-1)


def exhaustive(engine, prefix):
    """Every tool of the catalog with its score, best first."""
    scored = []
    for tool in engine.export.spec["tools"]:
        table = log_probabilities(engine, [*prefix, *tool["ids"]])
        steps = enumerate(tool["ids"], start=len(prefix) - 1)
        scored.append((-sum(float(table[place, token]) for place, token in steps), tool["name"]))
    return [(name, -score) for score, name in sorted(scored)]


def fast_prefix(engine, item):
    chat = engine.export.chat
    return [*engine.export.ids_of(item, "fast"), *chat.empty_ids, *chat.list_open_ids]


@pytest.mark.parametrize("fmt", ["a", "b", "c"])
def test_fast_equals_scoring_every_tool(engines, fmt):
    engine = engines(fmt)
    rows = predictions(engine, "fast")
    for item in ITEMS[:4]:
        wanted = exhaustive(engine, fast_prefix(engine, item))[:5]
        assert rows[item["id"]]["tools"] == [name for name, _ in wanted]
        assert rows[item["id"]]["scores"] == pytest.approx([score for _, score in wanted], abs=1e-4)


def test_fast_drops_tools_the_request_may_not_use_and_still_fills_the_list(engines):
    engine = engines("c")
    tools = predictions(engine, "fast", k=14)["5"]["tools"]
    wanted = [
        name for name, _ in exhaustive(engine, fast_prefix(engine, ITEMS[4])) if not name.startswith("Tax/")
    ]
    refused = {"Tax/Get", "Tax/List"}
    assert len(tools) == 14 and not refused & set(tools) and "Leave/Get" in tools
    assert [name for name in tools if not name.startswith("Tax/")] == wanted


def test_beam_as_wide_as_the_catalog_equals_fast(engines):
    engine = engines("b")
    beam, fast = (predictions(engine, decode, k=16) for decode in ("beam", "fast"))
    for item in ITEMS[:4]:
        assert beam[item["id"]]["tools"] == fast[item["id"]]["tools"]
        assert beam[item["id"]]["scores"] == pytest.approx(fast[item["id"]]["scores"], abs=1e-4)


@pytest.fixture
def closing(engines):
    """A model whose thinking parts end at different places: the marker outbids a token it likes."""
    import torch

    engine = engines("c")
    close = engine.export.chat.close_ids[0]
    liked = engine.export.chat.tokenizer.convert_tokens_to_ids("e")
    head = engine.export.model.lm_head.weight
    before = head[close].detach().clone()
    with torch.no_grad():
        head[close] = 1.5 * head[liked]
    yield engine
    with torch.no_grad():
        head[close] = before


def plain_thinking(engine, item):
    """Greedy by recomputing everything at each token: slow and obviously right."""
    chat = engine.export.chat
    ids = [*engine.export.ids_of(item, "trace"), *chat.open_ids]
    written = []
    while True:
        token = int(log_probabilities(engine, [*ids, *written])[-1].argmax())
        written.append(token)
        if token == chat.close_ids[0]:
            return ids, written
        if token in chat.end_ids or len(written) >= engine.export.spec["max_new_tokens"] - 32:
            return ids, [*written[:-1], *chat.close_ids]


def test_trace_equals_plain_greedy_decoding(closing):
    rows = predictions(closing, "trace")
    lengths = set()
    for item in ITEMS[:4]:
        ids, written = plain_thinking(closing, item)
        lengths.add(len(written))
        assert rows[item["id"]]["raw"].startswith(closing.export.text(written) + '["')
        ranked = exhaustive(closing, [*ids, *written, *closing.export.chat.list_open_ids])[:5]
        assert rows[item["id"]]["ranked"] == [name for name, _ in ranked]
    assert len(lengths) > 1, "the batch must hold thinking parts of different lengths"


def test_trace_list_is_valid_json_over_distinct_tools(closing):
    for row in predictions(closing, "trace").values():
        entries = json.loads(row["raw"][row["raw"].index('["') :])
        listed = [closing.export.index.tokens[entry] for entry in entries]
        assert len(listed) == len(set(listed)) and row["off_vocabulary"] == 0
        assert row["tools"] == [
            name for name in listed if row["id"] != "5" or name not in ("Tax/Get", "Tax/List")
        ]


def scripted(likes, size):
    """What follows one context, with what it likes in order."""
    import torch

    from evaluation.ml.contexts import Scores

    found = torch.full((1, size), -9.0)
    for rank, token in enumerate(likes):
        found[0, token] = -float(rank)
    return Scores(found)


@pytest.mark.parametrize("fmt", ["a", "b", "c"])
def test_a_list_ends_where_the_model_would_rather_repeat_a_tool(engines, fmt):
    import torch

    from evaluation.ml.contexts import Scores
    from evaluation.ml.write import ListWriter, Seen, Written

    export = engines(fmt).export
    chat, (first, second) = export.chat, [tool["ids"] for tool in export.spec["tools"][:2]]
    wanted = [[token] for token in (*first, *chat.list_sep_ids, *first[:-1])] + [[first[-1], second[-1]]]
    told = iter([scripted(likes, len(chat.tokenizer)).logits for likes in wanted])
    result = Written()
    writing = ListWriter(export, result).run(Seen(Scores(next(told)), range(1)))
    feed = next(writing)
    with pytest.raises(StopIteration):
        while True:  # a row for the token that is sure, and one for each that is forced
            rows = [next(told) for _ in (*feed.sure, *feed.guess)]
            feed = writing.send(Seen(Scores(torch.cat(rows)), range(len(rows))))
    assert [export.names[number] for number in result.tools] == [export.spec["tools"][0]["name"]]
    assert result.answer == [*chat.list_open_ids, *first, *chat.list_close_ids]


def test_overlong_thinking_is_closed_and_marked_as_cut(engines):
    row = predictions(engines("a"), "trace", ITEMS[:1])["1"]
    assert row["cut"] and "</think>" in row["raw"] and row["tools"]


def test_model_without_reasoning_lists_with_an_empty_trace(engines):
    engine = engines("a", reasoning=False)
    trace, fast = (predictions(engine, decode) for decode in ("trace", "fast"))
    assert all(trace[key]["trace"] == "" and trace[key]["ranked"] == fast[key]["tools"] for key in fast)


def test_trace_free_counts_entries_that_are_no_tool(engines):
    from evaluation.ml.rows import parsed_row
    from evaluation.ml.search import NOTHING
    from evaluation.ml.write import Written

    engine = engines("b")
    chat = engine.export.chat
    pieces = [["<<Tax>>", "<<Get>>"], ["<<Tax>>"], ["<<Tax>>", "<<Get>>"]]
    answer = list(chat.list_open_ids)
    for number, units in enumerate(pieces):
        answer += [*(chat.list_sep_ids if number else []), *chat.unit_ids(units)]
    row = parsed_row(engine.export, {"id": 1}, Written(answer=[*answer, *chat.list_close_ids]), NOTHING)
    assert row["tools"] == ["Tax/Get"] and row["off_vocabulary"] == 1


def test_trace_free_stops_at_the_token_limit(engines):
    row = predictions(engines("b"), "trace-free", ITEMS[:1])["1"]
    assert row["cut"] and row["tokens"] == engines("b").export.spec["max_new_tokens"]


def test_letters_take_the_best_option_letter_of_one_forward(engines):
    engine = engines("c")
    question = mcq_question(QUESTION)
    row = predictions(engine, "letters", [question, {**question, "id": "r", "tool": None}])["q"]
    table = log_probabilities(engine, engine.export.ids_of(question, "letters"))[-1]
    scores = [float(table[number]) for number in engine.export.chat.letter_ids(3)]
    assert row["scores"] == pytest.approx(scores, abs=1e-4)
    assert row["letter"] == "ABC"[scores.index(max(scores))]


def test_question_about_an_unknown_tool_is_refused(engines):
    question = {**mcq_question(QUESTION), "tool": "No/Tool"}
    with pytest.raises(TraceError, match="no tool No/Tool"):
        predictions(engines("c"), "letters", [question])


def test_interrupted_predictions_go_on_to_the_same_file_contents(engines, tmp_path, capsys):
    from evaluation.ml.engine import ItemFile, predict_files

    folder = engines("a").export.folder
    source, whole, cut = tmp_path / "items.jsonl", tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    source.write_text("".join(json.dumps(item) + "\n" for item in ITEMS))
    predict_files(folder, [ItemFile(source, whole, "fast")], 3, 1)
    lines = whole.read_text().splitlines(keepends=True)
    cut.write_text("".join(lines[:2]) + lines[2][:20])
    predict_files(folder, [ItemFile(source, cut, "fast")], 3, 1)
    rows = [[{**json.loads(line), "seconds": 0} for line in path.open()] for path in (whole, cut)]
    assert rows[0] == rows[1] and len(rows[0]) == len(ITEMS)
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert events[-1]["event"] == "done" and events[-1]["predictions"] == len(ITEMS)


def test_a_search_opens_all_it_must_unless_it_need_not_be_exact(engines, monkeypatch):
    monkeypatch.setattr("evaluation.ml.search.ENOUGH", 2)
    assert all(row["exact"] for row in predictions(engines("c"), "fast").values())
    assert not predictions(engines("c"), "fast", [{**ITEMS[0], "exact": False}])["1"]["exact"]


def test_a_tool_that_is_withheld_is_named_where_it_would_have_been_found(engines):
    engine = engines("b")
    open_row = predictions(engine, "fast", ITEMS[:1], k=16)["1"]
    assert open_row["withheld"] == [], "without permissions everything may be used"
    for granted in ([], ["tax"]):
        row = predictions(engine, "fast", [{**ITEMS[0], "permissions": granted}], k=16)["1"]
        needs = {"Tax/Get": "tax", "Tax/List": "tax", "Leave/Get": "leave"}
        assert sorted(row["withheld"]) == sorted(name for name, need in needs.items() if need not in granted)
        assert not set(row["withheld"]) & set(row["tools"]) and len(row["tools"]) + len(row["withheld"]) == 16


def test_a_request_of_one_domain_is_answered_with_its_tools_alone(engines):
    for decode in ("fast", "beam", "trace"):
        row = predictions(engines("c"), decode, [{**ITEMS[0], "domain": "hr"}], k=16)["1"]
        assert row["tools"] and all(name.startswith("Leave/") for name in row["tools"]), decode


@pytest.mark.parametrize("fmt", ["a", "b", "c"])
def test_what_is_answered_is_the_same_alone_and_in_a_crowd(engines, fmt):
    engine = engines(fmt)
    items = [
        {**item, "id": f"{item['id']}-{n}", "query": item["query"] + " x" * n}
        for item in ITEMS
        for n in range(6)
    ]
    for decode in ("fast", "trace", "trace-free"):
        crowd = predictions(engine, decode, items)
        for item in items[::5]:
            one = predictions(engine, decode, [item])[item["id"]]
            assert (one["tools"], one["raw"]) == (crowd[item["id"]]["tools"], crowd[item["id"]]["raw"])


def test_requests_that_come_together_are_answered_each_in_its_own_mode(engines):
    engine = engines("c")
    alone = {mode: predictions(engine, mode) for mode in ("fast", "trace")}
    asked = [(item, mode) for item in ITEMS for mode in ("fast", "trace", "both")] * 3
    with ThreadPoolExecutor(16) as pool:
        rows = list(pool.map(lambda one: engine.ask(one[0], one[1], 5)(), asked))
    for (item, mode), row in zip(asked, rows, strict=True):
        for part in ("fast", "trace") if mode == "both" else (mode,):
            found = row[part] if mode == "both" else row
            wanted = alone[part][item["id"]]
            assert (found["tools"], found["raw"]) == (wanted["tools"], wanted["raw"])


def test_a_trace_is_told_as_it_grows(closing):
    said = []
    row = closing.ask(ITEMS[1], "both", 5, lambda name, what: said.append((name, what)))()
    assert said[0][0] == "fast" and said[0][1]["tools"] == row["fast"]["tools"]
    text = "".join(what for name, what in said[1:])
    assert {name for name, _ in said[1:]} == {"text"} and len(said) > 2
    assert row["trace"]["trace"].startswith(text.strip()) and len(text) > 0.5 * len(row["trace"]["trace"])


def test_a_trace_for_which_nobody_waits_any_more_ends_and_the_others_go_on(closing):
    gone, said = Departure(), []

    def heard(name, what):
        said.append(name)
        gone.happen()

    other = asked(closing, ITEMS[0], "trace", 5)
    left = asked(closing, ITEMS[1], "both", 5, heard, gone)
    with pytest.raises(Departed):
        left.result(30)
    told = len(said)
    closing.ask(ITEMS[1], "trace", 5, lambda name, what: said.append(name))()
    assert told <= 3 < len(said) - told
    assert other.result(30)["raw"] == closing.ask(ITEMS[0], "trace", 5)()["raw"]
    assert len(closing.batch.contexts) == 1, "only what every prompt begins with is left"


def test_of_an_answered_request_nothing_is_kept(closing):
    gone = Departure()
    left = asked(closing, ITEMS[1], "trace", 5, lambda *_: gone.happen(), gone)
    with pytest.raises(Departed):
        left.result(30)
    for mode in ("fast", "trace", "both"):
        closing.ask(ITEMS[0], mode, 5)()
    wait_until(lambda: not closing.batch.looks)
    assert not closing.batch.looks


def test_equal_requests_end_when_the_last_who_waits_has_left(closing, monkeypatch):
    from evaluation.ml import write

    calls, gate, step = [], threading.Semaphore(0), write.step

    def slowly(*args):
        gate.acquire(timeout=10)
        calls.append(args)
        return step(*args)

    monkeypatch.setattr(write, "step", slowly)
    item = {**ITEMS[1], "query": "list the leave records of nobody"}
    clients = [Departure() for _ in range(3)]
    waiting = [asked(closing, item, "trace", 5, None, one) for one in clients]
    wait_until(lambda: sum(len(one.clients) for one in closing.known.values()) == 3)
    clients[0].happen()
    gate.release(4)
    wait_until(lambda: len(calls) == 4)
    assert not any(one.done() for one in waiting)
    for one in clients:
        one.happen()
    gate.release()
    for one in waiting:
        with pytest.raises(Departed):
            one.result(30)
    assert len(calls) <= 5 and not closing.known
    gate.release(1000)
    assert asked(closing, item, "trace", 5).result(30)["tools"]


def test_who_shares_a_forward_that_fails_is_told_and_the_next_request_is_answered(engines, monkeypatch):
    from evaluation.ml.engine import Engine
    from evaluation.ml.search import Search

    engine = Engine(engines("a").export)
    with monkeypatch.context() as patch:
        patch.setattr(Search, "grow", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            engine.ask(ITEMS[0], "fast", 5)()
    assert engine.ask(ITEMS[0], "fast", 5)()["tools"]


def asked(engine, item, *more):
    """The Future of an answer, in a thread that keeps no test waiting."""
    future = Future()

    def work():
        try:
            future.set_result(engine.ask(item, *more)())
        except Exception as error:  # noqa: BLE001 - whoever waits is told
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


def wait_until(holds):
    deadline = time.monotonic() + 30
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.001)


def test_where_no_thread_can_be_started_the_same_request_is_answered_later(engines, monkeypatch):
    from evaluation.ml.engine import Engine

    engine = Engine(engines("a").export)
    with monkeypatch.context() as patch:
        patch.setattr("evaluation.ml.engine.threading.Thread", NoThread)
        with pytest.raises(RuntimeError):
            engine.ask(ITEMS[0], "fast", 5)()
    assert asked(engine, ITEMS[0], "fast", 5).result(30)["tools"]


def test_where_every_step_fails_each_request_is_told(engines, monkeypatch):
    """As on a GPU that has failed: what takes the batch's place cannot be made either."""
    from evaluation.ml.engine import Engine
    from evaluation.ml.search import Search

    engine = Engine(engines("a").export)
    with monkeypatch.context() as patch:

        def fails(*_):
            patch.setattr("evaluation.ml.export.Export.contexts", lambda self: 1 / 0)
            time.sleep(0.2)
            return 1 / 0

        patch.setattr(Search, "grow", fails)
        many = [asked(engine, {**ITEMS[0], "query": f"pay {n}"}, "fast", 5) for n in range(40)]
        for one in many:
            with pytest.raises(ZeroDivisionError):
                one.result(30)
    assert asked(engine, ITEMS[0], "fast", 5).result(30)["tools"]


def test_guesses_change_no_token(engines, closing):
    from dataclasses import replace

    from evaluation.ml.drafts import Drafts
    from evaluation.ml.engine import Engine

    plain = predictions(closing, "trace")
    tokenizer = closing.export.chat.tokenizer
    texts = [tokenizer.encode(row["raw"]) for row in plain.values()]
    for known in (texts, [text[::-1] for text in texts], [text[:9] + text[5:] for text in texts]):
        export = replace(closing.export)
        export.__dict__["drafts"] = Drafts(known)
        for decode in ("trace", "trace-free"):
            guessed, unguessed = predictions(Engine(export), decode), predictions(closing, decode)
            assert {key: row["raw"] for key, row in guessed.items()} == {
                key: row["raw"] for key, row in unguessed.items()
            }
    export.__dict__["drafts"] = Drafts(texts)
    rows = predictions(Engine(export), "trace")
    assert sum(row["calls"] for row in rows.values()) < 0.85 * sum(row["calls"] for row in plain.values())


def test_a_nul_byte_the_model_writes_is_replaced():
    from evaluation.ml.export import Export

    export = SimpleNamespace(chat=SimpleNamespace(tokenizer=SimpleNamespace(decode=lambda ids, **_: "a\0b")))
    assert Export.text(export, [0]) == "a\N{REPLACEMENT CHARACTER}b"  # type: ignore[arg-type]


def test_two_processes_at_one_file_of_predictions_answer_each_item_once(tmp_path, monkeypatch):
    from evaluation.ml import engine
    from trace_site.lib.files import read_jsonl, write_jsonl

    class Engine:
        export = SimpleNamespace(digest="d")

        def predict(self, rows, decode, k, known):
            for row in rows:
                if row["id"] not in known:
                    time.sleep(0.01)
                    yield [{"id": row["id"]}]

    monkeypatch.setattr(engine, "open_engine", lambda folder, threads: Engine())
    source, out = tmp_path / "items.jsonl", tmp_path / "predictions.jsonl"
    write_jsonl(source, ITEMS)
    work = (tmp_path, [engine.ItemFile(source, out, "fast")], 10, 1)
    threads = [threading.Thread(target=engine.predict_files, args=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [row["id"] for _, row in read_jsonl(out)] == [item["id"] for item in ITEMS]


@pytest.mark.parametrize("fmt", ["a", "b", "c"])
@pytest.mark.parametrize("decode", ["fast", "beam", "trace"])
def test_a_tool_that_is_left_out_is_in_no_list_and_comes_back(engines, fmt, decode):
    engine = engines(fmt)
    before = predictions(engine, decode)
    gone = {key: before[key]["tools"][:2] for key in before}
    items = [item | {"without": gone[item["id"]]} for item in ITEMS]
    for key, row in predictions(engine, decode, items).items():
        assert not set(gone[key]) & {*row["tools"], *row.get("ranked", ())}
        if decode != "trace":
            assert len(row["tools"]) == 5
    again = predictions(engine, decode)
    assert {key: row["tools"] for key, row in again.items()} == {
        key: row["tools"] for key, row in before.items()
    }


def test_many_threads_with_permissions_of_their_own_find_each_its_mask(engines, monkeypatch):
    """More of them than are kept; behind a server each request has a thread."""
    monkeypatch.setattr("evaluation.ml.export.MASKS", 1)
    export = dataclasses.replace(engines("a").export, masks={})
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            granted = [["tax"], ["leave"], [], ["tax", "leave"]] * 300
            masks = list(pool.map(lambda one: export.banned({"permissions": one}), granted))
    finally:
        sys.setswitchinterval(0.005)
    wanted = {("tax",): 1, ("leave",): 2, (): 3, ("tax", "leave"): 0}
    assert [len(mask.tools) for mask in masks] == [wanted[tuple(one)] for one in granted]


def test_a_catalog_that_is_left_out_whole_is_answered_with_nothing(engines):
    for decode in ("fast", "trace"):
        engine = engines("b")
        items = [item | {"without": engine.export.names} for item in ITEMS]
        assert {tuple(row["tools"]) for row in predictions(engine, decode, items).values()} == {()}


@pytest.mark.parametrize("decode", ["fast", "trace"])
def test_features_are_of_the_request_however_many_tools_are_asked_for(engines, decode):
    engine = engines("a")
    few, many = (predictions_of(engine, decode, k) for k in (1, 10))
    assert few == many
    expected = {"first", "lead", "best"} | ({"listed", "agrees"} if decode == "trace" else set())
    assert all(row.keys() == expected for row in few)


def predictions_of(engine, decode, k):
    return [row["features"] for batch in engine.predict(ITEMS, decode, k) for row in batch]


def test_an_engine_that_nobody_asks_lets_its_thread_end_and_answers_again(engines, monkeypatch):
    from evaluation.ml.engine import Engine

    monkeypatch.setattr("evaluation.ml.engine.IDLE_SECONDS", 0.01)
    engine = Engine(engines("a").export)
    for _ in range(2):
        assert engine.ask(ITEMS[0], "fast", 5)()["tools"]
        wait_until(lambda: engine.batch is None)
        assert engine.batch is None
