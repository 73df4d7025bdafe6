"""What is measured is what is served: no label reaches an engine, and a stored answer is the one a caller gets."""

import json
import random
import subprocess
import sys
import threading

import numpy as np
import pytest
from django.conf import settings as site
from rest_framework.test import APIClient

from catalog.models import Tool
from evaluation.benchmarks.services import benchmark_import, evaluation_request
from evaluation.core import embedding
from evaluation.core.asking import Query, labelled_item
from evaluation.models import Answer, Evaluation
from evaluation.results import tasks
from evaluation.results.rule_tests import rule_tests_request
from evaluation.retrieval.retriever import retrieve
from tests.evaluation.conftest import FAKE
from tests.evaluation.test_services import evaluate, model_with
from tests.factories import crown, make_domain, make_model, make_rule, make_run, make_sample, make_tool
from tests.tokens import token_of
from trace_site import jobs
from trace_site.artefacts import store
from trace_site.lib.files import read_jsonl

pytestmark = pytest.mark.django_db
PLANTED = ("zq-domain", "zq-rule", "zq-side", "zq-style", "zq-cluster")


@pytest.fixture
def home(settings, tmp_path):
    settings.TRACE_HOME, settings.STORE_URL = tmp_path, (tmp_path / "store").as_uri()
    settings.JOB_LEASE_SECONDS = 3600  # the heartbeat's own connection does not see this test's transaction


def frozen(tmp_path, name, rows, kind="prb"):
    path = tmp_path / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return benchmark_import(path=path, kind=kind, name=name)[0]


def told_engines(folder):
    """Every file of items that was written for an engine, as text."""
    return {path: path.read_text() for path in folder.rglob("items.jsonl")}


def test_no_label_of_a_benchmark_a_rule_or_a_sample_reaches_an_engine(home, tmp_path, monkeypatch):
    monkeypatch.setattr(tasks, "ENGINE", FAKE)
    monkeypatch.setattr(tasks, "ENCODER", FAKE)
    seen = {}

    def watched(ctx, module, arguments, log, on_event, run=tasks.run):
        seen.update(told_engines(tmp_path))
        run(ctx, module, arguments, log, on_event)

    monkeypatch.setattr(tasks, "run", watched)
    domain = make_domain(PLANTED[0])
    tools = [make_tool(name, domain=domain, embedding=[1.0, 0.0, 0.0]) for name in ("Pay/Get", "Pay/List")]
    labels = dict(zip(("domain", "rule", "side", "style", "cluster"), PLANTED, strict=True))
    row = {"query": "my pay", "tools": ["Pay/Get"], "permissions": ["pay.read"], **labels}
    frozen(tmp_path, "prb", [row])
    frozen(tmp_path, "outside", [{**row, "query": "lunch", "tools": []}], kind="outside")
    tests = [{"query": "pay?", "tools": ["Pay/Get"], **labels}]
    rule = make_rule(*tools, code="ZQ_RULE", tests=tests)
    make_sample(query="a kept-out pay", rule=rule, tools=tools, human="approved")
    model = model_with(tools, tmp_path)
    evaluate(model)
    job = jobs.run(rule_tests_request(model=model).pk)
    assert job.state == "done", job.error
    asked = Answer.objects.filter(model=model).values_list("item__origin", flat=True)
    assert sorted(asked) == ["rule_test", "sample"]
    assert len(seen) >= 6, "fast, trace and trace-free of two benchmarks, the tests and the sample"
    for path, text in seen.items():
        assert not [label for label in (*PLANTED, "ZQ_RULE") if label in text], path
        for _, item in read_jsonl(path) if path.exists() else ():
            assert item.keys() == {"id", "query", "permissions", "domain", "exact", "without"}


def test_the_domain_is_given_where_that_is_what_is_measured_to_the_embedding_too(home, tmp_path, monkeypatch):
    monkeypatch.setattr(tasks, "ENGINE", FAKE)
    monkeypatch.setattr(tasks, "ENCODER", FAKE)
    other = make_domain("finance")
    tools = [
        make_tool("Pay/Get", embedding=[1.0, 0.0, 0.0]),
        make_tool("Bill/Get", domain=other, embedding=[1.0, 0, 0]),
    ]
    benchmark = frozen(tmp_path, "prb", [{"query": "c Get", "tools": ["Pay/Get"]}])
    evaluate(model_with(tools, tmp_path), benchmark=benchmark, decodes=["fast-domain"])
    assert {row.decode for row in Evaluation.objects.all()} == {"fast-domain", "embedding-domain"}
    ((item,),) = ([row for _, row in read_jsonl(path)] for path in told_engines(tmp_path))
    assert item["domain"] == "hr"
    baseline = Answer.objects.get(evaluation__decode="embedding-domain")
    assert baseline.output["tools"] == ["Pay/Get"]


def test_a_labelled_request_is_asked_as_its_caller_would_ask_it():
    row = {"id": 7, "query": "q", "permissions": ["b", "a"], "domain": "hr", "rule": "R", "tools": ["A/B"]}
    asked = Query("q", permissions=frozenset(["a", "b"])).as_asked() | {"without": ["Old/Tool"]}
    item = labelled_item(row, ["Old/Tool"])
    assert item == {"id": "7"} | {name: asked[name] for name in item if name != "id"}


WORDS = ("please show read list book start newer older pay slip run leave case", "of this month for my team")


@pytest.fixture
def served(home, settings, tmp_path):
    """A small trained pocket model, the untrained base beside it, and an engine process behind the site."""
    pytest.importorskip("torch")
    from tests.training.small_encoder import quick_recipe
    from tests.training.small_snapshot import NAMES, write_snapshot
    from training.ml.stages import train_stage

    snapshot = write_snapshot(tmp_path / "snapshot")
    models = []
    for retrieval in ("r+R", "none"):
        recipe = quick_recipe(format="a", memo="none", retrieval=retrieval)
        train_stage("stage2", recipe, snapshot, tmp_path / f"run-{retrieval}", lambda *_: None)
        run = make_run(format="a", memo="none", retrieval=retrieval)
        key = f"models/{run.key}"
        digest = store().put_dir(tmp_path / f"run-{retrieval}" / "export", key)
        models.append(make_model(run=run, store_key=key, store_digest=digest))
    for name in NAMES:
        make_tool(name)
    command = [
        sys.executable,
        "-m",
        "evaluation.ml",
        "serve",
        "--port",
        "0",
        *("--store", settings.STORE_URL),
        *("--cache", str(tmp_path / "a home of its own")),
    ]
    engine = subprocess.Popen(command, cwd=site.BASE_DIR, stdout=subprocess.PIPE, text=True)
    watch = threading.Timer(120, engine.kill)
    watch.start()
    settings.ENGINE_URL = f"http://127.0.0.1:{json.loads(engine.stdout.readline())['port']}"
    yield models
    watch.cancel()
    engine.kill()
    engine.wait()


@pytest.mark.ml
@pytest.mark.parametrize("drawn", [15, pytest.param(50, marks=pytest.mark.long)])
def test_the_stored_answer_is_the_one_a_caller_gets_for_the_text_alone(
    served, settings, tmp_path, user_with, drawn
):
    settings.RETRIEVE_RATE = 10_000
    draw = random.Random(0)
    finance = make_domain("finance")
    newer = {"description": "Sends a bill of this month to a team", "domain": finance}
    make_tool("Bill/Send", **newer)
    Tool.objects.filter(name="PayV1/ListRuns").update(status="retired")
    Tool.objects.filter(name="Time/Book Leave").update(domain=finance)
    names = list(Tool.objects.filter(status="active").values_list("name", flat=True))
    texts = sorted(
        {" ".join(draw.choices(" ".join(WORDS).split(), k=draw.randint(1, 9))) for _ in range(2 * drawn)}
    )
    inside = [{"query": text, "tools": [draw.choice(names)], "rule": "R"} for text in texts]
    frozen(tmp_path, "prb", inside[:drawn])
    frozen(tmp_path, "outside", [{"query": text} for text in texts[drawn : drawn + 9]], kind="outside")
    crown(model=served[0], actor=None)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {token_of(user_with('admin'))}")
    compared = 0
    for model in served:
        job = jobs.run(evaluation_request(model=model).pk)
        assert job.state == "done", job.error
        retrieve(Query("pay"), model=model, patience=60)  # loaded from here on
    for row in Answer.objects.filter(evaluation__model__isnull=False).select_related("item", "evaluation"):
        of = row.evaluation
        if of.decode not in ("fast", "trace"):
            continue
        body = {"query": row.item.data["query"], "mode": of.decode, "model": str(of.model_id)}
        answer = client.post("/api/v1/retrieve", body, format="json")
        assert answer.status_code == 200, answer.content
        found = answer.json()
        assert [tool["name"] for tool in found["tools"]] == row.output["tools"], body
        assert found["trace"] == row.output["trace"], body
        compared += 1
    # of both models fast on both benchmarks, and the traces of the one that writes them
    assert compared == 2 * (drawn + 9) + drawn
    listed = {tool for row in Answer.objects.all() for tool in row.output["tools"]}
    assert "Bill/Send" in listed, "newer than the models"
    assert "PayV1/ListRuns" not in listed and {Tool.objects.get(name=name).domain_id for name in listed} == {
        "hr",
        "finance",
    }
    assert not Answer.objects.filter(output__tools=[], evaluation__decode="fast").exists()


def test_the_stored_answer_of_the_embedding_rests_on_the_text_alone(home, tmp_path, monkeypatch):
    monkeypatch.setattr(tasks, "ENCODER", FAKE)  # texts of one first letter (of three) are alike
    names = {"Bill/Send": "finance", "Leave/Book": "hr", "Pay/Get": "hr"}
    for place, (name, domain) in enumerate(names.items()):
        make_tool(name, domain=make_domain(domain), embedding=[float(place == column) for column in range(3)])
    texts = ["a slip", "b slip", "c slip"]
    rows = [{"query": text, "tools": ["Pay/Get"], "domain": "hr"} for text in texts]
    evaluate(None, benchmark=frozen(tmp_path, "prb", rows))
    queries = np.eye(3, dtype=np.float32)[[ord(text[0]) % 3 for text in texts]]
    expected = [
        [name for name, _ in row]
        for row in embedding.ranked(queries, np.eye(3, dtype=np.float32), list(names), 50)
    ]
    stored = Answer.objects.order_by("item__position").values_list("output__tools", flat=True)
    assert list(stored) == expected and [row[0] for row in expected].count("Bill/Send") == 1
