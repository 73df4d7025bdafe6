"""What tests of the endpoint share: exported models, the stub behind the site, programs with tokens."""

import json

import pytest
from rest_framework.test import APIClient

from evaluation.requests.log import requests
from evaluation.retrieval import engine as engines
from evaluation.retrieval.retriever import stored
from tests.engine_stub import ThreadedStub
from tests.factories import crown, make_model, make_run, make_snapshot, make_tool
from tests.tokens import token_of
from trace_site.artefacts import store
from trace_site.lib.store import Store

API = "/api/v1/retrieve"
NEEDS = {"Pay/GetPaystub": ["pay.admin", "pay.all"], "Pay/GetPayslip": ["pay.read"], "Leave/Book": []}


@pytest.fixture
def stub(settings, tmp_path):
    """The engine of this site."""
    settings.STORE_URL, settings.TRACE_HOME = (tmp_path / "store").as_uri(), tmp_path
    engines._idle.cache_clear()
    requests.__init__()
    with ThreadedStub(Store(settings.STORE_URL, tmp_path / "unused")) as engine:
        settings.ENGINE_URL = f"http://127.0.0.1:{engine.port}"
        yield engine
    engines._idle.cache_clear()


@pytest.fixture
def tools(db):
    return {name: make_tool(name, permissions=needs) for name, needs in NEEDS.items()}


def exported(tmp_path, number=1, **manifest):
    """A model whose export knows the tools, in this order."""
    folder = tmp_path / f"export-{number}"
    folder.mkdir()
    listed = [{"name": name, "permissions": needs} for name, needs in NEEDS.items()]
    (folder / "trace.json").write_text(json.dumps({"tools": listed, "number": number}))
    (folder / "model.safetensors").write_text("weights")
    digest = store().put_dir(folder, f"models/{number}")
    run = make_run(snapshot=make_snapshot(manifest=manifest))
    return make_model(store_key=f"models/{number}", store_digest=digest, run=run)


@pytest.fixture
def champion(stub, tools, tmp_path):
    model = exported(tmp_path)
    crown(model)
    return model


def loaded(stub, model):
    """The stub has this model in memory."""
    stub.ready[stored(model)] = 0.0
    stub.tools(stored(model))


def program(user, holds=None):
    """A client with the user's token; it holds all permissions unless told which."""
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {token_of(user, holds=holds)}")
    return client


def ask(client, **body):
    return client.post(API, {"query": "my payslip", **body}, format="json")


def ask_batch(client, *requests):
    return client.post(f"{API}/batch", {"requests": requests}, format="json")


def names(answer, field="tools"):
    return [row["name"] for row in answer[field]]


def events(response):
    """[(name, data)] of an event stream."""
    text = b"".join(response.streaming_content).decode()
    blocks = [block.split("\n") for block in text.split("\n\n") if block]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]
