import gc
import http.client
import json
import pickle
import socket
import sys
import threading
import time
import weakref
from contextlib import suppress
from functools import partial
from types import SimpleNamespace

import pytest

from evaluation.core.asking import Stored, read_asked
from evaluation.ml import server as engine_server
from evaluation.ml.__main__ import main
from evaluation.ml.manifest import verify
from evaluation.ml.server import MODELS, MOST_HELD, Models, Server, chosen_engine, read_json
from trace_site.lib.departure import Departed
from trace_site.lib.errors import TraceError
from trace_site.lib.files import sha256_file
from trace_site.lib.store import Store


class EchoEngine:
    def __init__(self, name):
        self.name = name

    def answer(self, item, decode, k, on_event=None, departure=None):
        row = {"id": item["id"], "tools": [self.name], "decode": decode, "query": item["query"]}
        if decode == "both":
            return {part: {**row, "decode": part} for part in ("fast", "trace")}
        if on_event:
            on_event("text", "be")
            on_event("text", "cause")
        return row

    def ask(self, *asked):
        return partial(self.answer, *asked)


class Faulty(EchoEngine):
    def answer(self, item, *more):
        if item["query"] == "fault":
            raise ZeroDivisionError
        return super().answer(item, *more)


def folder(path, text="{}"):
    path.mkdir(exist_ok=True)
    for name in ("config.json", "trace.json", "tokenizer.json"):
        (path / name).write_text(text)
    files = {
        entry.name: {"sha256": sha256_file(entry)}
        for entry in path.iterdir()
        if entry.name != "manifest.json"
    }
    (path / "manifest.json").write_text(json.dumps({"files": files}))
    return path


@pytest.fixture
def serve():
    """serve(models, token="") -> the port of a server of its own."""
    servers = []

    def start(models, token="", names=()):
        server = Server(("127.0.0.1", 0), models, token, names)
        servers.append(server)
        threading.Thread(target=lambda: server.serve_forever(poll_interval=0.005), daemon=True).start()
        return server.server_address[1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def ask(serve):
    """ask(models, body) -> (status, headers, answer) through a real socket."""

    def post(models, body, path="/retrieve", method="POST", token="", headers=()):
        connection = http.client.HTTPConnection("127.0.0.1", serve(models, token), timeout=5)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, data, dict(headers))
        reply = connection.getresponse()
        answer = json.loads(reply.read())
        connection.close()
        return reply.status, dict(reply.headers), answer

    return post


def stored(key="m", digest="a"):
    return Stored(key, digest * 64)


def named(key="m", digest="a"):
    """As a request names it."""
    return stored(key, digest)._asdict()


def models_of(opener=None):
    return Models(opener or (lambda model: EchoEngine(model.key)))


def test_answer_names_the_model_and_its_digest(ask):
    status, _, answer = ask(models_of(), {"model": named(), "query": "pay"})
    assert status == 200 and answer["tools"] == ["m"] and answer["decode"] == "fast"
    assert answer["model"] == named()


class Holding(EchoEngine):
    """Answers with what it holds."""

    def holding(self, tools, clauses):
        return EchoEngine(
            ", ".join([self.name, *(one["name"] for one in tools), *(one["token"] for one in clauses)])
        )


TOOL = {"name": "New/Tool", "description": "Does it.", "domain": "hr", "permissions": [], "deprecated": False}
CLAUSE = {
    "token": "<<NEW#1>>",
    "rule": "NEW",
    "domain": "hr",
    "version": 1,
    "set": ["New/Tool"],
    "tools": ["New/Tool"],
    "text": "It is done with New/Tool",
    "stance": "use",
}


def test_what_is_held_is_told_once_and_answered_with_by_name(ask):
    models = models_of(lambda model: Holding(model.key))
    request = {"model": named(), "query": "pay", "held": "1"}
    status, _, refused = ask(models, request)
    assert (status, refused["code"]) == (409, "unknown_catalog")
    told = {"held": "1", "tools": [TOOL], "clauses": [CLAUSE]}
    for wrong in ({"tools": ["a/b"]}, {"clauses": ["a"]}, {"tools": {"a": 1}}, {"held": ""}):
        assert ask(models, {**told, **wrong}, "/held")[0] == 400, wrong
    assert ask(models, told, "/held")[0] == 200
    for path in ("/retrieve", "/batch"):
        body = request | ({"requests": [{"query": "pay"}]} if path == "/batch" else {})
        status, _, answer = ask(models, body, path)
        assert status == 200 and "m, New/Tool, <<NEW#1>>" in json.dumps(answer)
    assert ask(models, {**request, "held": ""})[2]["tools"] == ["m"]


def test_without_a_model_what_is_held_answers_by_itself(ask):
    models = models_of(lambda model: Holding("untrained" if model is None else model.key))
    assert ask(models, {"held": "1", "tools": [TOOL], "clauses": []}, "/held")[0] == 200
    status, _, answer = ask(models, {"model": None, "query": "pay", "held": "1"})
    assert (status, answer["model"]) == (200, None)
    assert answer["tools"] == ["untrained, New/Tool"]
    assert ask(models, {"model": None, "query": "pay"})[0] == 400, "nothing to answer with"


def test_what_is_held_is_forgotten_the_oldest_first(ask):
    models = models_of(lambda model: Holding(model.key))
    for number in range(MOST_HELD + 1):
        ask(models, {"held": f"{number}", "tools": [], "clauses": []}, "/held")
    asked = [
        ask(models, {"model": named(), "query": "pay", "held": f"{number}"})[0]
        for number in range(MOST_HELD + 1)
    ]
    assert asked == [409, *[200] * MOST_HELD]


def test_both_answers_with_fast_and_trace(ask):
    request = {"model": named(), "query": "pay", "mode": "both"}
    _, _, answer = ask(models_of(), request)
    assert (answer["fast"]["decode"], answer["trace"]["decode"]) == ("fast", "trace")


def test_loading_model_is_503_with_retry_after(ask, monkeypatch):
    monkeypatch.setattr("evaluation.ml.server.PATIENCE", 0.01)
    gate = threading.Event()
    models = models_of(lambda model: gate.wait(5) and EchoEngine(model.key))
    request = {"model": named(), "query": "pay"}
    status, headers, answer = ask(models, request)
    assert (status, headers["Retry-After"], answer["code"]) == (503, "2", "loading")
    gate.set()
    time.sleep(0.02)
    assert ask(models, request)[0] == 200


def test_while_a_model_loads_the_one_before_it_answers(ask):
    gate = threading.Event()
    models = models_of(lambda model: (model.key == "old" or gate.wait(5)) and EchoEngine(model.key))
    request = {"model": named("new"), "fallback": [named("gone"), named("old")], "query": "pay"}
    models.get(stored("old"))
    status, _, answer = ask(models, request)
    assert (status, answer["model"], answer["tools"]) == (200, named("old"), ["old"])
    gate.set()
    models.slots[stored("new")].ready.wait(5)
    assert ask(models, request)[2]["tools"] == ["new"]


def test_a_model_whose_files_are_damaged_is_answered_for(ask):
    """From memory, else by a fallback that is loaded for it."""
    harmed, opened = [], []

    def opener(model):
        opened.append(model.key)
        if model.key in harmed:
            raise TraceError("the stored files differ from their digests.", code="store_corrupt")
        return EchoEngine(model.key)

    models = models_of(opener)
    request = {"model": named("new"), "fallback": [named("old")], "query": "pay"}
    ask(models, request)
    harmed.append("new")
    for known in ({}, {"damaged": True}):
        assert ask(models, request | known)[2]["model"] == named("new")
    assert opened == ["new"]
    models = models_of(opener)
    assert ask(models, request | {"damaged": True})[2]["model"] == named("old")
    assert opened == ["new", "old"], "what is known to be damaged is not loaded"
    assert ask(models, request)[2]["model"] == named("old")
    harmed.append("old")
    assert ask(models_of(opener), request)[2]["code"] == "store_corrupt"


def test_a_batch_is_answered_in_order_and_a_mistake_is_its_own(ask):
    asked = [{"query": "pay"}, {"query": " "}, {"query": "tax", "mode": "both"}]
    body = {"model": named(), "requests": asked}
    status, _, answer = ask(models_of(), body, path="/batch")
    first, wrong, both = answer["answers"]
    assert (status, answer["model"], first["query"]) == (200, named(), "pay")
    assert "/query" in wrong["error"]["message"] and both["trace"]["query"] == "tax"
    models = models_of(lambda model: Faulty(model.key))
    _, _, answer = ask(models, {**body, "requests": [*asked, {"query": "fault"}]}, path="/batch")
    assert [one.get("query") for one in answer["answers"]] == ["pay", None, None, None]
    assert answer["answers"][3]["error"]["code"] == "engine_failed"
    for bad in ([], [1], "x", [{"query": "a"}] * 101):
        status, _, answer = ask(models_of(), {**body, "requests": bad}, path="/batch")
        assert status == 400 and "/requests" in answer["message"]


def test_a_stream_tells_the_trace_as_it_grows_and_ends_with_the_answer(serve):
    body = json.dumps({"model": named(), "query": "pay", "mode": "trace", "stream": True})
    connection = http.client.HTTPConnection("127.0.0.1", serve(models_of()), timeout=5)
    connection.request("POST", "/retrieve", body)
    events = [json.loads(line) for line in connection.getresponse().read().splitlines()]
    assert [event["event"] for event in events] == ["text", "text", "done"]
    assert "".join(event["text"] for event in events[:2]) == "because" and events[2]["tools"] == ["m"]


class Talker:
    """Writes until whoever asked has left."""

    def __init__(self):
        self.begun, self.ended = threading.Event(), threading.Event()

    def answer(self, item, decode, k, on_event=None, departure=None):
        self.begun.set()
        while not departure.happened:
            if on_event:
                on_event("text", "and " * 100)
            time.sleep(0.001)
        self.ended.set()
        raise Departed

    def ask(self, *asked):
        return partial(self.answer, *asked)


def asking(port, path="/retrieve", **more):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    body = {"model": named(), "query": "pay", "mode": "trace", **more}
    connection.request("POST", path, json.dumps(body))
    return connection


def test_who_leaves_a_stream_ends_the_writing(serve):
    talker = Talker()
    port = serve(models_of(lambda model: talker))
    connection = asking(port, stream=True)
    answer = connection.getresponse()
    assert "and" in answer.readline().decode()
    answer.close()
    connection.close()
    assert talker.ended.wait(10)


@pytest.mark.parametrize("path", ["/retrieve", "/batch"])
def test_who_leaves_before_an_answer_ends_the_work_for_it(serve, path, capfd):
    talker = Talker()
    port = serve(models_of(lambda model: talker))
    connection = asking(port, path, requests=[{"query": "pay"}])
    assert talker.begun.wait(10) and not talker.ended.wait(0.1)
    connection.close()
    assert talker.ended.wait(10)
    assert "Traceback" not in capfd.readouterr().err


def test_a_stream_that_cannot_be_begun_ends_the_writing(serve, monkeypatch):
    talker = Talker()

    def fails(self, *_):
        raise BrokenPipeError

    monkeypatch.setattr(engine_server.Handler, "send_response", fails)
    port = serve(models_of(lambda model: talker))
    connection = asking(port, stream=True)
    assert talker.ended.wait(10)
    connection.close()


def test_a_connection_is_kept_for_the_next_request(serve):
    connection = http.client.HTTPConnection("127.0.0.1", serve(models_of()), timeout=5)
    body = json.dumps({"model": named(), "query": "pay"})
    sockets = set()
    for _ in range(3):
        connection.request("POST", "/retrieve", body)
        assert json.loads(connection.getresponse().read())["tools"] == ["m"]
        sockets.add(connection.sock)
    assert len(sockets) == 1 and None not in sockets


def test_only_the_last_used_models_stay_loaded():
    opened = []
    models = models_of(lambda model: opened.append(model.key) or EchoEngine(model.key))
    keys = [stored(f"m{n}") for n in range(MODELS + 1)]
    for one in (*keys[:MODELS], keys[0], keys[MODELS], keys[0]):
        models.get(one)
    assert opened == ["m0", "m1", "m2", "m3"]
    models.get(keys[1])
    assert opened[-1] == "m1" and len(models.health()["models"]) == MODELS


def test_model_written_anew_is_loaded_anew():
    opened = []
    models = models_of(lambda model: opened.append(model) or EchoEngine(model.key))
    for digest in "aba":
        models.get(stored(digest=digest))
    assert opened == [stored(), stored(digest="b")]


def test_while_what_answers_for_a_damaged_model_loads_the_one_before_that_answers(ask, monkeypatch):
    monkeypatch.setattr("evaluation.ml.server.PATIENCE", 0.01)
    gate = threading.Event()
    models = models_of(lambda model: (model.key != "old" or gate.wait(5)) and EchoEngine(model.key))
    models.get(stored("older"))
    request = {"model": named("new"), "fallback": [named("old"), named("older")], "damaged": True}
    assert ask(models, request | {"query": "pay"})[2]["model"] == named("older")
    gate.set()
    models.slots[stored("old")].ready.wait(5)
    assert ask(models, request | {"query": "pay"})[2]["model"] == named("old")


def test_failed_load_is_told_at_once_and_tried_again_after_a_while(monkeypatch):
    failures, tries = [TraceError("is broken.", code="bad_export")], []

    def opener(model):
        tries.append(model)
        if failures:
            raise failures.pop()
        return EchoEngine(model.key)

    models = models_of(opener)
    for _ in range(3):
        with pytest.raises(TraceError, match="is broken"):
            models.get(stored())
    assert len(tries) == 1 and models.health()["models"][0]["state"] == "failed"
    monkeypatch.setattr(engine_server, "FAILED_SECONDS", -1)
    assert models.get(stored())[1].engine.name == "m"


@pytest.mark.parametrize(
    "raised",
    [
        TypeError("no such field"),
        AttributeError("no such method"),
        IndexError("out of range"),
        MemoryError(),
        AssertionError(),
        ZeroDivisionError("division by zero"),
        type("SafetensorError", (Exception,), {})("header too large"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_loading_raises_is_an_answer(ask, raised):
    def opener(model):
        raise raised

    status, _, answer = ask(models_of(opener), {"model": named(), "query": "pay"})
    assert (status, answer["code"]) == (400, "bad_export") and type(raised).__name__ in answer["message"]


def test_a_failed_load_keeps_neither_what_it_had_read_nor_who_asked():
    class Weights:
        pass

    kept = []

    def opener(model):
        weights = Weights()
        kept.append(weakref.ref(weights))
        try:
            raise ValueError
        except ValueError as error:
            raise TraceError("is broken.", code="bad_export") from error

    models, depths = models_of(opener), []
    for _ in range(3):
        with pytest.raises(TraceError) as caught:
            models.get(stored())
        depths.append(len(caught.traceback))
        del caught
    gc.collect()
    assert kept[0]() is None and len(set(depths)) == 1


OUTSIDE = [
    "/etc",
    "../m",
    "m/../../x",
    "m/..",
    "m//x",
    ".hidden",
    "m/.x",
    "m\\..\\x",
    "m\n",
    "",
    "C:/m",
    "s3://a/m",
]


@pytest.mark.parametrize(
    "name", [*({"key": key} for key in OUTSIDE), {"digest": "../" + "a" * 61}, {"digest": ""}]
)
def test_what_names_nothing_in_the_store_is_refused_before_anything_is_read(ask, name):
    models = models_of(lambda model: pytest.fail("it was read"))
    for where in ({"model": named() | name}, {"model": named(), "fallback": [named() | name]}):
        status, _, answer = ask(models, {**where, "query": "pay"})
        assert (status, answer["code"]) == (400, "bad_request") and not models.slots
    assert ask(models, {"model": "/tmp/m", "query": "pay"})[0] == 400


@pytest.fixture
def kept(tmp_path):
    """kept(name) -> the model, in a store of its own."""
    store = Store((tmp_path / "store").as_uri(), tmp_path / "cache")

    def put(name="m", export=None):
        return Stored(name, store.put_dir(export or folder(tmp_path / name), name))

    put.store = store
    return put


@pytest.fixture
def engine_of(monkeypatch):
    """engine_of(store) -> the models of an engine over this store, which answers with the hash of their manifest."""
    opened = SimpleNamespace(open_engine=lambda folder, _: EchoEngine(verify(folder)))
    monkeypatch.setitem(sys.modules, "evaluation.ml.engine", opened)
    return lambda store: Models(partial(engine_server.opened, store, 1))


def test_only_what_lies_in_the_store_with_its_digest_is_loaded(kept, engine_of, ask, tmp_path):
    model, models = kept(), engine_of(kept.store)
    other = folder(tmp_path / "elsewhere", text="[]")
    request = {"model": model._asdict(), "query": "pay"}
    assert ask(models, request)[2]["tools"] == [verify(tmp_path / "m")]
    for wrong, code in (({"digest": "0" * 64}, "store_corrupt"), ({"key": other.name}, "store_missing")):
        assert ask(models, request | {"model": request["model"] | wrong})[2]["code"] == code
    (tmp_path / "store" / "m" / "config.json").write_text('{"evil": 1}')
    assert ask(models, request)[0] == 200, "from memory"
    assert ask(engine_of(kept.store), request)[2]["code"] == "store_corrupt"


def test_an_engine_fetches_what_it_is_asked_for_into_a_cache_of_its_own(
    engine_of, ask, tmp_path, monkeypatch
):
    monkeypatch.setattr(engine_server, "PATIENCE", 0.01)
    put, gate = Store("memory://bucket/models", tmp_path / "site"), threading.Event()
    model = Stored("m", put.put_dir(folder(tmp_path / "m"), "m"))
    store = Store("memory://bucket/models", tmp_path / "engine")
    download = store._download
    store._download = lambda *args: gate.wait(5) and download(*args)
    models, request = engine_of(store), {"model": model._asdict(), "query": "pay"}
    status, _, answer = ask(models, request)
    assert (status, answer["code"]) == (503, "loading"), "nobody waits for the store"
    gate.set()
    models.slots[model].ready.wait(5)
    assert ask(models, request)[2]["tools"] == [verify(tmp_path / "m")]
    assert not (tmp_path / "site").exists() and list((tmp_path / "engine").rglob("trace.json"))


def test_a_store_that_does_not_answer_is_503_with_retry_after(kept, engine_of, ask, monkeypatch):
    def away(*_):
        raise ConnectionError("no route")

    model, models = kept(), engine_of(kept.store)
    monkeypatch.setattr(kept.store, "get_dir", away)
    status, headers, answer = ask(models, {"model": model._asdict(), "query": "pay"})
    assert (status, answer["code"]) == (503, "unavailable") and headers["Retry-After"]


def test_only_who_knows_the_token_is_answered(ask):
    models = models_of()
    request = {"model": named(), "query": "pay"}
    for given in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer \u00e9"}):
        status, _, answer = ask(models, request, token="right", headers=given)
        assert (status, answer["code"]) == (401, "not_authenticated")
    known = {"Authorization": "Bearer right"}
    assert ask(models, request, token="right", headers=known)[0] == 200
    health = {"path": "/health", "method": "GET", "token": "right"}
    assert ask(models, b"", **health)[2] == {"status": "ok"}
    assert ask(models, b"", **health, headers=known)[2]["models"][0]["state"] == "ready"


def test_a_name_of_another_site_is_refused(ask):
    request = {"model": named(), "query": "pay"}
    for name in ("evil.example.com", "evil.example.com:80", "127.0.0.1.evil.example.com", "[", ""):
        status, _, answer = ask(models_of(), request, headers={"Host": name})
        assert (status, answer["code"]) == (403, "forbidden_host"), name
    for name in ("localhost:8100", "[::1]:8100", "127.0.0.1"):
        assert ask(models_of(), request, headers={"Host": name})[0] == 200, name


def test_names_it_was_given_are_its_own(serve):
    port = serve(models_of(), names=["engine"])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request("GET", "/health", headers={"Host": "engine:8100"})
    assert connection.getresponse().status == 200


def test_it_listens_to_other_machines_only_with_a_token(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("ENGINE_TOKEN", raising=False)
    told = ["--store", tmp_path.as_uri(), "--cache", str(tmp_path / "cache")]
    assert main(["serve", "--host", "0.0.0.0", "--port", "0", *told]) == 2
    assert "ENGINE_TOKEN" in capsys.readouterr().err


def test_without_a_store_it_may_read_it_does_not_start(capsys):
    with pytest.raises(SystemExit):
        main(["serve", "--port", "0"])
    assert "--store" in capsys.readouterr().err


def whole(connection):
    return b"".join(iter(lambda: connection.recv(4096), b""))


def test_who_sends_too_slowly_or_comes_too_many_is_hung_up_on(serve, monkeypatch):
    monkeypatch.setattr(engine_server, "READ_SECONDS", 0.2)
    monkeypatch.setattr(engine_server, "MOST_CONNECTIONS", 3)
    port = serve(models_of())
    begun = b"POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Length: 90\r\n\r\n{"
    half = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(3)]
    half[0].sendall(b"POST /retr")
    half[1].sendall(begun)
    half.append(socket.create_connection(("127.0.0.1", port), timeout=5))
    heard = [whole(one) for one in half]
    assert b"400" in heard[0] and b" 408 " in heard[1] and heard[2:] == [b"", b""]


def test_a_connection_that_was_kept_is_no_place_to_be_slow_in(serve, monkeypatch):
    monkeypatch.setattr(engine_server, "IDLE_SECONDS", 0.3)
    with socket.create_connection(("127.0.0.1", serve(models_of())), timeout=5) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 " in connection.recv(4096)
        begun = time.monotonic()
        with suppress(OSError):
            while time.monotonic() - begun < 60:
                connection.sendall(b"G")
                time.sleep(0.02)
        assert time.monotonic() - begun < 30


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"query": "pay"}, "/model"),
        ({"model": named(), "query": " "}, "/query"),
        ({"model": named(), "query": "x" * 4001}, "/query"),
        ({"model": named(), "query": "x", "mode": "slow"}, "/mode"),
        ({"model": named(), "query": "x", "k": 0}, "/k"),
        ({"model": named(), "query": "x", "k": True}, "/k"),
        ({"model": named(), "query": "x", "permissions": "all"}, "/permissions"),
        ({"model": named(), "query": "x", "without": [1]}, "/without"),
    ],
)
def test_every_wrong_field_is_named(body, where):
    with pytest.raises(TraceError) as caught:
        read_asked(body)
        chosen_engine(models_of(), body)
    assert caught.value.where == where


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"[" * 50_000, b'{"query": "\\ud800"}'])
def test_body_that_is_no_json_object_is_refused(body):
    with pytest.raises(TraceError) as caught:
        read_json(body)
    assert caught.value.code == "bad_request"


def test_wrong_address_and_large_body_are_json_errors(ask, monkeypatch):
    monkeypatch.setattr("evaluation.ml.server.LONGEST_BODY", 60_000)
    models = models_of()
    assert ask(models, {}, path="/nowhere")[0] == 404
    assert ask(models, b"x" * 70_000)[0] == 413
    assert ask(models, b"", path="/health", method="GET")[2] == {"status": "ok", "models": []}


@pytest.mark.parametrize(
    ("length", "status"),
    [("", 411), ("Content-Length: x\r\n", 411), (f"Content-Length: {'9' * 5000}\r\n", 413)],
    ids=["missing", "no number", "very many digits"],
)
def test_a_length_that_is_missing_or_absurd_is_an_answer(serve, length, status):
    with socket.create_connection(("127.0.0.1", serve(models_of())), timeout=5) as connection:
        connection.sendall(f"POST /retrieve HTTP/1.1\r\nHost: localhost\r\n{length}\r\n".encode())
        assert f" {status} ".encode() in whole(connection)


class NoThread(threading.Thread):
    def start(self):
        raise RuntimeError("can't start new thread")


def test_where_no_thread_can_be_started_the_place_is_given_back(monkeypatch):
    monkeypatch.setattr(threading, "Thread", NoThread)
    with (
        Server(("127.0.0.1", 0), models_of(), "") as server,
        socket.create_connection(server.server_address, timeout=5) as connection,
    ):
        server.handle_request()
        assert whole(connection) == b"" and not server.connected


def test_where_no_thread_can_be_started_no_model_is_loading_for_ever():
    models = models_of()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "Thread", NoThread)
        with pytest.raises(RuntimeError):
            models.get(stored())
    assert models.get(stored())[1].engine.name == "m"


def test_a_model_that_is_not_in_the_store_is_an_answer(kept, engine_of, ask):
    status, _, answer = ask(engine_of(kept.store), {"model": named(), "query": "pay"})
    assert (status, answer["code"]) == (404, "store_missing")


def test_changed_file_is_refused_by_its_digest(tmp_path):
    export = folder(tmp_path / "m")
    (export / "config.json").write_text('{"evil": 1}')
    with pytest.raises(TraceError, match="config.json.*not the file"):
        verify(export)


class Canary:
    def __reduce__(self):
        return pytest.fail, ("the pickle ran",)


def listed(export):
    """The manifest as somebody writes it who wants a folder to be loaded."""
    names = [path for path in export.rglob("*") if path.is_file() and path.name != "manifest.json"]
    files = {str(path.relative_to(export)): {"sha256": sha256_file(path)} for path in names}
    (export / "manifest.json").write_text(json.dumps({"files": files}))


UNSAFE = {
    "a pickle": lambda e: (e / "pytorch_model.bin").write_bytes(pickle.dumps(Canary())),
    "code": lambda e: (e / "modeling_pocket.py").write_text("raise SystemExit"),
    "a class to load": lambda e: (e / "config.json").write_text('{"auto_map": {"AutoConfig": "a.B"}}'),
    "a kernel to fetch": lambda e: (e / "config.json").write_text(
        '{"text_config": {"attn_implementation": "x/y"}}'
    ),
    "a preprocessor's class": lambda e: (e / "preprocessor_config.json").write_text(
        '{"auto_map": {"A": "a.B"}}'
    ),
    "a tokenizer's class": lambda e: (e / "tokenizer_config.json").write_text('{"auto_map": ["a.B", null]}'),
}


@pytest.mark.parametrize("harm", UNSAFE.values(), ids=UNSAFE)
def test_an_export_that_could_run_code_is_refused_though_its_manifest_lists_it(tmp_path, harm):
    export = folder(tmp_path / "m")
    harm(export)
    listed(export)
    with pytest.raises(TraceError) as caught:
        verify(export)
    assert caught.value.code == "bad_export"


@pytest.mark.parametrize("name", ["../evil.json", "/etc/hosts.json"])
def test_a_manifest_that_names_files_elsewhere_is_refused(tmp_path, name):
    export = folder(tmp_path / "m")
    manifest = json.loads((export / "manifest.json").read_text())
    manifest["files"][name] = {"sha256": "0"}
    (export / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(TraceError, match="no file that an export holds"):
        verify(export)


def test_a_file_that_the_manifest_does_not_list_is_refused(tmp_path):
    export = folder(tmp_path / "m")
    (export / "more.safetensors").write_bytes(b"")
    with pytest.raises(TraceError, match="not listed"):
        verify(export)
    (export / "more.safetensors").unlink()
    (export / "more.safetensors").symlink_to(export / "config.json")
    with pytest.raises(TraceError, match="not listed"):
        verify(export)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"files": []}', '{"files": {"config.json": 1}}'])
def test_a_damaged_manifest_is_an_answer(tmp_path, kept, engine_of, ask, text):
    export = folder(tmp_path / "m")
    (export / "manifest.json").write_text(text)
    status, _, answer = ask(engine_of(kept.store), {"model": kept(export=export)._asdict(), "query": "pay"})
    assert status in (400, 404) and answer["code"] in {"bad_json", "bad_export"}


def test_model_that_fails_on_a_query_is_a_json_error(ask):
    class Failing:
        def ask(self, item, decode, k, on_event=None, departure=None):
            raise IndexError("list index out of range")

    models = models_of(lambda model: Failing())
    status, _, answer = ask(models, {"model": named(), "query": "pay"})
    assert (status, answer["code"]) == (500, "engine_failed")
