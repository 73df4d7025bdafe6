"""Site and engine with nothing in common but the store: other homes, other caches, no path in what they tell."""

import json
import sys
import threading
import time
from functools import partial
from types import SimpleNamespace

import fsspec
import pytest

from evaluation.ml import server
from evaluation.retrieval import engine as engines
from tests.evaluation.endpoint_home import ask, exported, names, program, tools
from tests.factories import crown
from trace_site.lib.store import Store

__all__ = ["tools"]
pytestmark = pytest.mark.django_db


class Listing:
    """Answers with the tools of its export, in that order."""

    def __init__(self, folder, _threads):
        self.tools = [tool["name"] for tool in json.loads((folder / "trace.json").read_text())["tools"]]

    def ask(self, item, decode, k, on_event=None, departure=None):
        return lambda: {"id": item["id"], "tools": self.tools[:k], "scores": [-1.0] * len(self.tools[:k])}

    def holding(self, *_):
        return self


@pytest.fixture
def apart(settings, tmp_path, monkeypatch):
    """apart(kind) starts an engine in a home of its own beside the site's; it is asked through `asked`."""
    servers, asked = [], []
    read_json = server.read_json
    monkeypatch.setattr(server, "read_json", lambda body: asked.append(body.decode()) or read_json(body))
    loaded = SimpleNamespace(open_engine=Listing)
    monkeypatch.setitem(sys.modules, "evaluation.ml.engine", loaded)
    settings.TRACE_HOME = tmp_path / "site"

    def start(kind):
        settings.STORE_URL = {"file": (tmp_path / "store").as_uri(), "memory": "memory://bucket/apart"}[kind]
        engines._idle.cache_clear()
        models = server.Models(partial(server.opened, Store(settings.STORE_URL, tmp_path / "engine"), 1))
        servers.append(server.Server(("127.0.0.1", 0), models, ""))
        threading.Thread(target=partial(servers[-1].serve_forever, 0.005), daemon=True).start()
        settings.ENGINE_URL = f"http://127.0.0.1:{servers[-1].server_address[1]}"
        return models

    start.asked = asked
    yield start
    for one in servers:
        one.shutdown()
        one.server_close()
    engines._idle.cache_clear()
    fsspec.filesystem("memory").store.clear()


def answered(client):
    """The first answer that is no 503."""
    ends = time.monotonic() + 10
    while (answer := ask(client)).status_code == 503 and time.monotonic() < ends:
        time.sleep(0.02)
    return answer.json()


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_a_question_is_answered_though_site_and_engine_share_no_folder(
    apart, user_with, tools, tmp_path, kind
):
    apart(kind)
    model = exported(tmp_path)
    crown(model)
    answer = answered(program(user_with("expert")))
    assert answer["model"]["id"] == model.pk and names(answer) == [
        "Pay/GetPaystub",
        "Pay/GetPayslip",
        "Leave/Book",
    ]
    assert json.loads(apart.asked[-1])["model"] == {"key": "models/1", "digest": model.store_digest}
    assert str(tmp_path) not in "".join(apart.asked), "no path of the site is told"
    assert not (tmp_path / "site" / "cache").exists(), "the site fetches no weights"
    assert (kind == "memory") == bool(list(tmp_path.glob("engine/**/model.safetensors")))


def test_weights_that_are_damaged_in_a_store_elsewhere_are_never_answered_with(
    apart, user_with, tools, tmp_path
):
    apart("memory")
    first, second = exported(tmp_path), exported(tmp_path, 2)
    client = program(user_with("expert"))
    crown(first)
    assert answered(client)["model"]["id"] == first.pk
    files = fsspec.filesystem("memory")
    for number in (1, 2):
        files.pipe_file(f"/bucket/apart/models/{number}/model.safetensors", b"other weights")
    crown(second)
    assert answered(client)["model"]["id"] == first.pk, "the champion before, from memory"
    (copy,) = tmp_path.glob("engine/models_1/*/**/model.safetensors")  # the other's is being fetched anew
    copy.write_text("other weights")
    models = apart("memory")
    refused = ask(client)
    assert refused.status_code == 503 and "differ from their digests" in refused.json()["message"]
    assert all(slot.error for slot in models.slots.values())
