"""A completions server that fails: what passes is waited for, what stays is one typed error, nothing half is kept."""

import gc
import http.client
import json
import threading
import time

import pytest

from tests.evaluation.test_engine import ITEMS, wait_until
from tests.evaluation.test_remote import served
from trace_site.lib.departure import Departed, Departure
from trace_site.lib.errors import TraceError, status_of

pytestmark = pytest.mark.ml
RETRIES = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from tests.evaluation.tiny_export import write_export

    return write_export(tmp_path_factory.mktemp("export") / "export", "b")


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    monkeypatch.setattr("trace_site.lib.llm.client.backed_off", lambda failures: 0.01)


@pytest.fixture
def start(folder, monkeypatch):
    """start(**options) -> (a server of the model, what opens the engine behind it)"""
    from evaluation.ml.engine import open_engine

    servers = []

    def one(**options):
        servers.append(server := served(folder, **options))
        monkeypatch.setenv("TRACE_BACKEND_URL", server.url)
        return server, lambda: open_engine(folder, 1)

    yield one
    for server in servers:
        server.close()


@pytest.fixture
def engine(start):
    server, opened = start()
    return server, opened()


PASSING = ["500", "503", "429:0.02", "drop", "cut", "html", "error_200", "aborted", "other_model"]


def test_what_passes_is_asked_again_and_changes_no_answer(engine):
    server, remote = engine
    wanted = remote.ask(ITEMS[0], "fast", 3)()
    for fault in PASSING:
        server.faults[:] = [fault, "ok", "ok", fault]
        row = remote.ask(ITEMS[0], "fast", 3)()
        assert not server.faults and {**row, "seconds": 0} == {**wanted, "seconds": 0}, fault


STAYING = {
    "500": "llm_server_error",
    "400": "llm_bad_request",
    "404": "llm_bad_request",
    "403": "llm_unauthorized",
    "429:999": "llm_rate_limited",
    "drop": "llm_broken",
    "cut": "llm_broken",
    "html": "llm_not_json",
    "error_200": "llm_server_error",
    "aborted": "llm_broken",
    "other_model": "llm_wrong_model",
    "no_ids": "llm_bad_answer",
    "no_logprobs": "llm_bad_answer",
    "short_logprobs": "llm_bad_answer",
    "nothing": "llm_bad_answer",
}


@pytest.mark.parametrize(("fault", "code"), STAYING.items(), ids=STAYING)
def test_what_stays_is_one_typed_error_after_few_questions(engine, fault, code):
    server, remote = engine
    server.faults[:] = [fault] * 100
    before = len(server.requests)
    with pytest.raises(TraceError) as caught:
        remote.ask(ITEMS[0], "trace-free", 5)()
    assert caught.value.code == code and status_of(code) >= 500
    assert caught.value.where == server.url and "LLM_" not in caught.value.hint
    once = code in ("llm_bad_request", "llm_unauthorized", "llm_bad_answer", "llm_rate_limited")
    assert len(server.requests) - before == (1 if once else 1 + RETRIES)


def test_a_server_that_says_nothing_is_waited_for_so_long(start, monkeypatch):
    monkeypatch.setattr("evaluation.ml.remote.ATTEMPT_SECONDS", 1.0)
    monkeypatch.setattr("evaluation.ml.remote.CALL_SECONDS", 3.0)
    server, opened = start()
    remote = opened()
    server.faults[:] = ["hang"]
    assert remote.ask(ITEMS[0], "trace-free", 5)()["backend"]
    server.faults[:] = ["hang"] * 20
    with pytest.raises(TraceError) as caught:
        remote.ask(ITEMS[0], "trace-free", 5)()
    assert caught.value.code == "llm_timeout"


def test_a_stream_that_breaks_off_goes_on_where_it_did(engine):
    server, remote = engine

    def told():
        said = []
        row = remote.ask(ITEMS[1], "trace", 5, lambda name, what: said.append(what))()
        return row["raw"], "".join(said)

    wanted = told()
    server.faults[:] = ["stream:3", "stream:0", "stream:7", "500"]
    before = len(server.requests)
    assert told() == wanted and not server.faults
    streams = [body for body in server.requests[before:] if body.get("stream")]
    assert len(streams) == 5 and len(streams[-1]["prompt"]) == len(streams[0]["prompt"]) + 10


def test_who_leaves_ends_what_is_waited_for(engine):
    server, remote = engine
    server.faults[:] = ["hang"]
    gone, begun = Departure(), time.monotonic()
    threading.Timer(0.3, gone.happen).start()
    with pytest.raises(Departed):
        remote.ask(ITEMS[0], "trace-free", 5, None, gone)()
    assert time.monotonic() - begun < 30
    assert remote.ask(ITEMS[0], "fast", 3)()["tools"]


def test_what_was_opened_in_vain_is_closed(start, monkeypatch):
    from trace_site.lib.llm.completions import Completions

    closed, close = threading.Event(), Completions.close

    async def closing(self):
        await close(self)
        closed.set()

    monkeypatch.setattr(Completions, "close", closing)
    _, opened = start(processed=True)
    with pytest.raises(TraceError):
        opened()
    gc.collect()
    assert closed.wait(5)


def test_a_stream_that_breaks_off_behind_its_last_token_is_whole(engine, monkeypatch):
    from trace_site.lib.llm.client import Wire
    from trace_site.lib.llm.exchange import LlmError

    server, remote = engine
    stream = Wire.stream

    async def broken(*args):
        await stream(*args)
        raise LlmError("broke off its answer", "llm_broken", again=True)

    prompt = remote.export.chat.query_ids("pay")
    wanted = remote.server.write(prompt, 5, [], lambda tokens: None)
    monkeypatch.setattr(Wire, "stream", broken)
    before = len(server.requests)
    assert remote.server.write(prompt, 5, [], lambda tokens: None) == wanted and len(wanted) == 5
    assert len(server.requests) == before + 1


def test_predictions_that_were_interrupted_are_whole_lines_and_go_on(start, folder, tmp_path, monkeypatch):
    from evaluation.ml.engine import ItemFile, predict_files

    monkeypatch.setattr("evaluation.ml.remote.AT_ONCE", 2)
    monkeypatch.setattr("evaluation.ml.remote.BLOCK", 2)
    server, _ = start()
    source, whole, cut = tmp_path / "items.jsonl", tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    items = [{**item, "id": f"{item['id']}-{number}"} for number in range(2) for item in ITEMS]
    source.write_text("".join(json.dumps(item) + "\n" for item in items))
    predict_files(folder, [ItemFile(source, whole, "fast")], 3, 1)
    asked = len(server.requests)
    server.faults[:] = ["ok"] * (asked // 2) + ["no_ids"] * 10_000
    with pytest.raises(TraceError, match="token ids"):
        predict_files(folder, [ItemFile(source, cut, "fast")], 3, 1)
    wait_until(lambda: "progress" not in [thread.name for thread in threading.enumerate()])
    assert "progress" not in [thread.name for thread in threading.enumerate()]
    kept = [json.loads(line)["id"] for line in cut.read_text().splitlines()]
    assert kept == [item["id"] for item in items[: len(kept)]] and 0 < len(kept) < len(items)
    server.faults.clear()
    predict_files(folder, [ItemFile(source, cut, "fast")], 3, 1)
    rows = [[{**json.loads(line), "seconds": 0} for line in path.open()] for path in (whole, cut)]
    assert rows[0] == rows[1] and len(rows[0]) == len(items)


REFUSED = {
    "another model": ({"name": "trace-0123456789ab"}, "llm_wrong_model", "--served-model-name trace-"),
    "too short": ({"longest": 200}, "llm_bad_answer", "--max-model-len"),
    "masks first": ({"processed": True}, "llm_bad_answer", "--logprobs-mode"),
    "tells too few": ({"likeliest": 5}, "llm_bad_answer", "--max-logprobs"),
    "knows no mask": ({"ignores": ["allowed_token_ids"]}, "llm_bad_answer", "vLLM 0.32"),
    "tells no ids": ({"ignores": ["return_token_ids"]}, "llm_bad_answer", "vLLM 0.32"),
    "another key": ({"key": "not-the-one-we-have"}, "llm_unauthorized", "TRACE_BACKEND_KEY"),
}


@pytest.mark.parametrize(("options", "code", "hint"), REFUSED.values(), ids=REFUSED)
def test_a_server_that_cannot_do_it_is_refused_before_anything_is_asked(
    start, monkeypatch, options, code, hint
):
    monkeypatch.setenv("TRACE_BACKEND_KEY", "a-key-that-is-a-secret")
    _, opened = start(**options)
    with pytest.raises(TraceError) as caught:
        opened()
    assert caught.value.code == code and hint in caught.value.hint
    assert "a-key-that-is-a-secret" not in str(caught.value)


def test_a_key_is_sent_and_told_to_nobody(start, monkeypatch):
    monkeypatch.setenv("TRACE_BACKEND_KEY", "a-key-that-is-a-secret")
    server, opened = start(key="a-key-that-is-a-secret")
    row = opened().ask(ITEMS[0], "fast", 3)()
    assert len(row["tools"]) == 3 and "secret" not in json.dumps(row)


@pytest.mark.parametrize(
    "address", ["http://user:secret@127.0.0.1:9/v1", "ftp://127.0.0.1/v1", "http://169.254.169.254"]
)
def test_an_address_that_no_server_has_is_refused(folder, monkeypatch, address):
    from evaluation.ml.engine import open_engine

    monkeypatch.setenv("TRACE_BACKEND_URL", address)
    with pytest.raises(TraceError) as caught:
        open_engine(folder, 1)
    assert caught.value.code == "llm_host_refused" and "TRACE_BACKEND_URL" in caught.value.hint


def test_while_nobody_serves_the_model_the_engine_says_503_and_when_to_come_back(start, folder):
    from evaluation.ml.server import Models, Server

    server, opened = start()
    house = Server(("127.0.0.1", 0), Models(lambda model: opened()), "")
    threading.Thread(target=lambda: house.serve_forever(poll_interval=0.01), daemon=True).start()
    try:

        def post(**more):
            connection = http.client.HTTPConnection(*house.server_address, timeout=60)
            model = {"key": "models/1", "digest": "0" * 64}
            connection.request("POST", "/retrieve", json.dumps({"model": model, "query": "pay", **more}))
            reply = connection.getresponse()
            answer = json.loads(reply.read().splitlines()[-1])
            connection.close()
            return reply.status, reply.headers.get("Retry-After"), answer

        while post()[0] == 503:  # it is loading
            pass
        server.faults[:] = ["500"] * 100
        status, wait, answer = post()
        assert (status, answer["code"]) == (503, "llm_server_error") and wait
        assert post(stream=True, mode="trace")[2]["event"] == "error"
        server.faults.clear()
        assert post()[0] == 200
    finally:
        house.shutdown()
        house.server_close()
