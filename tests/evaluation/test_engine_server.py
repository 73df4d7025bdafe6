import http.client
import json
import threading
import time
from http.server import ThreadingHTTPServer

import pytest

from evaluation.ml.manifest import verify
from evaluation.ml.server import MODELS, Models, handler, read_request
from trace_site.lib.errors import TraceError
from trace_site.lib.files import sha256_file


class EchoEngine:
    def __init__(self, name):
        self.name = name

    def predict(self, items, decode, k):
        yield [
            {"id": item["id"], "tools": [self.name], "decode": decode, "query": item["query"]}
            for item in items
        ]


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
def ask():
    """ask(models, body) -> (status, headers, answer) through a real socket."""
    servers = []

    def post(models, body, path="/retrieve", method="POST"):
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler(models))
        servers.append(server)
        threading.Thread(target=lambda: server.serve_forever(poll_interval=0.005), daemon=True).start()
        connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=5)
        connection.request(method, path, body if isinstance(body, bytes) else json.dumps(body).encode())
        reply = connection.getresponse()
        answer = json.loads(reply.read())
        connection.close()
        return reply.status, dict(reply.headers), answer

    yield post
    for server in servers:
        server.shutdown()
        server.server_close()


def test_answer_names_the_model_and_its_digest(tmp_path, ask):
    export = folder(tmp_path / "m")
    status, _, answer = ask(
        Models(lambda path: EchoEngine(path.name)), {"model": str(export), "query": "pay"}
    )
    assert status == 200 and answer["tools"] == ["m"] and answer["decode"] == "fast"
    assert answer["model"] == str(export) and answer["digest"] == verify(export)


def test_both_answers_with_fast_and_trace(tmp_path, ask):
    export = folder(tmp_path / "m")
    request = {"model": str(export), "query": "pay", "mode": "both"}
    _, _, answer = ask(Models(lambda path: EchoEngine(path.name)), request)
    assert (answer["fast"]["decode"], answer["trace"]["decode"]) == ("fast", "trace")


def test_loading_model_is_503_with_retry_after(tmp_path, ask, monkeypatch):
    monkeypatch.setattr("evaluation.ml.server.PATIENCE", 0.01)
    gate = threading.Event()
    models = Models(lambda path: gate.wait(5) and EchoEngine(path.name))
    request = {"model": str(folder(tmp_path / "m")), "query": "pay"}
    status, headers, answer = ask(models, request)
    assert (status, headers["Retry-After"], answer["code"]) == (503, "2", "loading")
    gate.set()
    time.sleep(0.02)
    assert ask(models, request)[0] == 200


def test_only_the_last_used_models_stay_loaded(tmp_path):
    opened = []
    models = Models(lambda path: opened.append(path.name) or EchoEngine(path.name))
    folders = [folder(tmp_path / f"m{n}") for n in range(MODELS + 1)]
    for export in folders[:MODELS]:
        models.get(export)
    models.get(folders[0])
    models.get(folders[MODELS])
    models.get(folders[0])
    assert opened == ["m0", "m1", "m2", "m3"]
    models.get(folders[1])
    assert opened[-1] == "m1" and len(models.health()["models"]) == MODELS


def test_model_written_anew_is_loaded_anew(tmp_path):
    models = Models(lambda path: EchoEngine(path.name))
    first = models.get(folder(tmp_path / "m"))
    second = models.get(folder(tmp_path / "m", text='{"new": 1}'))
    assert first.identity != second.identity


def test_failed_load_is_told_and_tried_again(tmp_path):
    export, failures = folder(tmp_path / "m"), [TraceError("is broken.", code="bad_export")]

    def opener(path):
        if failures:
            raise failures.pop()
        return EchoEngine(path.name)

    models = Models(opener)
    with pytest.raises(TraceError, match="is broken"):
        models.get(export)
    assert models.get(export).engine.name == "m"


def test_model_outside_the_root_is_refused(tmp_path):
    (tmp_path / "root").mkdir()
    models = Models(lambda path: EchoEngine(path.name), root=tmp_path / "root")
    with pytest.raises(TraceError, match="outside"):
        models.get(folder(tmp_path / "m"))


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"query": "pay"}, "/model"),
        ({"model": "m", "query": " "}, "/query"),
        ({"model": "m", "query": "x" * 4001}, "/query"),
        ({"model": "m", "query": "x", "mode": "slow"}, "/mode"),
        ({"model": "m", "query": "x", "k": 0}, "/k"),
        ({"model": "m", "query": "x", "k": True}, "/k"),
        ({"model": "m", "query": "x", "permissions": "all"}, "/permissions"),
        ({"model": "m", "query": "x", "without": [1]}, "/without"),
    ],
)
def test_every_wrong_field_is_named(body, where):
    with pytest.raises(TraceError) as caught:
        read_request(json.dumps(body).encode())
    assert caught.value.where == where


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"[" * 50_000])
def test_body_that_is_no_json_object_is_refused(body):
    with pytest.raises(TraceError) as caught:
        read_request(body)
    assert caught.value.code == "bad_request"


def test_wrong_address_and_large_body_are_json_errors(tmp_path, ask, monkeypatch):
    monkeypatch.setattr("evaluation.ml.server.LONGEST_BODY", 60_000)
    models = Models(lambda path: EchoEngine(path.name))
    assert ask(models, {}, path="/nowhere")[0] == 404
    assert ask(models, b"x" * 70_000)[0] == 413
    assert ask(models, b"", path="/health", method="GET")[2] == {"status": "ok", "models": []}


def test_missing_export_is_404(tmp_path, ask):
    status, _, answer = ask(Models(EchoEngine), {"model": str(tmp_path / "none"), "query": "pay"})
    assert status == 404 and answer["code"] == "no_export" and "manifest.json" in answer["message"]


def test_changed_file_is_refused_by_its_digest(tmp_path):
    export = folder(tmp_path / "m")
    (export / "config.json").write_text('{"evil": 1}')
    with pytest.raises(TraceError, match="config.json.*not the one"):
        verify(export)


def test_model_that_fails_on_a_query_is_a_json_error(ask, tmp_path):
    class Failing:
        def predict(self, items, decode, k):
            raise IndexError("list index out of range")

    models = Models(lambda path: Failing())
    status, _, answer = ask(models, {"model": str(folder(tmp_path / "m")), "query": "pay"})
    assert (status, answer["code"]) == (500, "engine_failed")
