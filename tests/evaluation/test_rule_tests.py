"""Golden queries of rules against models: live through the engine, stored by evaluations and jobs."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from django.core.management import call_command
from django.db import IntegrityError, transaction

from evaluation.benchmarks.selectors import rule_results
from evaluation.benchmarks.services import evaluation_request
from evaluation.core.metrics import judge_rule_test as judge
from evaluation.models import Answer, LabelledRequest
from evaluation.results import rule_tests, tasks
from evaluation.results.rule_tests import stored_results
from evaluation.retrieval import retriever
from rules.models import RuleVersion
from tests.factories import crown, known_models, make_model, make_rule, make_run, make_tool
from trace_site import jobs
from trace_site.artefacts import store
from trace_site.jobs import Job
from training.models import AliasMove

LIVE = "/evaluation/rule-tests/"


def test_test_passes_when_the_first_tools_are_exactly_the_expected_ones():
    assert judge("q", ["A"], ["A", "B"]).passed and judge("q", ["A", "B"], ["B", "A", "C"]).passed
    assert not judge("q", ["A"], ["B", "A"]).passed and not judge("q", ["A", "B"], ["A", "C", "B"]).passed
    assert not judge("q", [], ["A"]).passed and not judge("q", ["A"], []).passed
    assert judge("q", ["A", "A"], ["A", "B"]).passed


def test_verdict_says_where_the_expected_tool_stands_and_what_came_instead():
    verdict = judge("q", ["A", "Z"], ["B", "A", "C"])
    assert [(place.name, place.rank) for place in verdict.expected] == [("A", 2), ("Z", None)]
    assert verdict.instead == ("B",) and verdict.listed == 3


pytestmark = pytest.mark.django_db


@pytest.fixture
def tools():
    return [make_tool(name) for name in ("Pay/GetPayslip", "OldPay/GetSlip", "Leave/Book")]


@pytest.fixture(autouse=True)
def fake_engine(monkeypatch):
    monkeypatch.setattr(tasks, "ENGINE", "tests.evaluation.fake_engine")


@pytest.fixture
def model(tools, tmp_path):
    """A champion whose fake engine answers a query with the tool whose endpoint it holds."""
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "trace.json").write_text(json.dumps({"tools": [{"name": tool.name} for tool in tools]}))
    run = make_run()
    model = make_model(
        run=run, store_key=f"models/{run.key}", store_digest=store().put_dir(folder, f"models/{run.key}")
    )
    crown(model=model, actor=None)
    return model


def ruled(tools, *tests, **fields):
    listed = [{"query": query, "tools": names} for query, names in tests]
    return make_rule(*tools, tests=listed, **fields)


def asked(model):
    job = jobs.run(rule_tests.rule_tests_request(model=model).pk)
    assert job.state == "done", job.error
    return job.result


def test_job_stores_each_published_version_once(tools, model):
    rule = ruled(
        tools,
        ("GetPayslip of May", ["Pay/GetPayslip"]),
        ("the one of 2019", ["OldPay/GetSlip"]),
        code="A",
    )
    ruled(tools, ("Book a day", ["Leave/Book"]), code="B")
    ruled(tools, ("q", ["Leave/Book"]), code="DRAFT", published=False)
    ruled(tools, code="NO_TESTS")
    assert asked(model) == {"rules_tested": 2, "rules_passed": 1, "kept_out": 0}
    (result,) = rule_results(item__version=rule.published)
    assert (result.passed, result.total) == (1, 2)
    assert Answer.objects.get(item__data__query="the one of 2019").output["tools"][0] == "Pay/GetPayslip"
    assert asked(model) == {"rules_tested": 0, "rules_passed": 0, "kept_out": 0}
    assert Answer.objects.count() == 3


def test_two_models_are_asked_one_request_of_a_test(tools, model):
    rule = ruled(tools, ("GetPayslip of May", ["Pay/GetPayslip"]), ("GetPayslip of May", ["OldPay/GetSlip"]))
    for one in (model, make_model(store_key=model.store_key, store_digest=model.store_digest)):
        assert asked(one)["rules_passed"] == 0
    assert [(row.version, row.passed, row.total) for row in rule_results()] == [(rule.published_id, 1, 2)] * 2
    assert LabelledRequest.objects.count() == 2


def test_what_was_asked_and_answered_stays(tools, model):
    ruled(tools, ("GetPayslip of May", ["Pay/GetPayslip"]))
    asked(model)
    for rows in (Answer.objects.all(), LabelledRequest.objects.all()):
        for gone in (rows.delete, lambda rows=rows: rows.update(id=0)):
            with pytest.raises(IntegrityError, match="rows are frozen"), transaction.atomic():
                gone()


def test_new_version_is_asked_alone(tools, model):
    rule = ruled(tools, ("GetPayslip", ["Pay/GetPayslip"]))
    asked(model)
    version = RuleVersion.objects.create(
        rule=rule,
        number=2,
        target=tools[0],
        confusable_ids=[],
        text="t",
        content_hash="1" * 64,
        tests=[{"query": "Book it", "tools": ["Leave/Book"]}],
    )
    rule.published = version
    rule.save()
    assert asked(model)["rules_tested"] == 1
    assert set(Answer.objects.values_list("item__version__number", flat=True)) == {1, 2}


def test_what_a_server_answers_is_kept_apart_from_our_own_engine(tools, model, settings, monkeypatch):
    rule = ruled(tools, ("GetPayslip", ["Pay/GetPayslip"]))
    model.run.base = "google/gemma-4-E4B-it"
    model.run.save(update_fields=["base"])
    pocket = make_model(store_key=model.store_key, store_digest=model.store_digest)
    for one in (model, pocket):
        assert asked(one)["rules_tested"] == 1
    monkeypatch.setenv("TRACE_BACKEND_URL", "http://gpu.example.com:8000/v1")
    settings.TRACE_BACKEND_URL = "http://gpu.example.com:8000/v1"
    assert [row.model for row in rule_results()] == [pocket.pk]
    (shown, _) = stored_results(rule.published)
    assert (shown["model"], shown["verdicts"]) == (model, [])
    assert [asked(one)["rules_tested"] for one in (model, model, pocket)] == [1, 0, 0]
    kept = Answer.objects.order_by("pk").values_list("model", "backend")
    assert list(kept) == [(model.pk, ""), (pocket.pk, ""), (model.pk, "completions")]
    assert stored_results(rule.published)[0]["passed"] == 1


def test_a_rule_that_is_published_meanwhile_is_asked_too(tools, model, monkeypatch):
    ruled(tools, ("GetPayslip please", ["Pay/GetPayslip"]))
    predict = tasks.predict

    def published(*given):
        predict(*given)
        if Answer.objects.count() == 1:
            ruled(tools, ("GetSlip please", ["OldPay/GetSlip"]))

    monkeypatch.setattr(tasks, "predict", published)
    assert asked(model) == {"rules_tested": 2, "rules_passed": 2, "kept_out": 0}
    assert Answer.objects.count() == 2


def test_evaluation_of_a_model_asks_it_the_rules_tests_too(tools, model):
    ruled(tools, ("GetPayslip", ["Pay/GetPayslip"]))
    job = jobs.run(evaluation_request(model=model).pk)
    assert job.state == "done", job.error
    assert job.result["rules_tested"] == 1 and Answer.objects.get().job_id == job.pk


def test_killed_child_leaves_nothing_and_the_retry_goes_on(tools, model, monkeypatch):
    ruled(tools, *[(f"GetPayslip {number}", ["Pay/GetPayslip"]) for number in range(3)])
    monkeypatch.setenv("FAKE_ENGINE", "die")
    job = jobs.run(rule_tests.rule_tests_request(model=model).pk)
    assert job.state == "failed" and not Answer.objects.exists()
    monkeypatch.delenv("FAKE_ENGINE")
    jobs.retry(job)
    assert jobs.run(job.pk).state == "done" and [row.passed for row in rule_results()] == [3]


def test_job_under_way_is_not_queued_twice(model):
    first = rule_tests.rule_tests_request(model=model)
    assert rule_tests.rule_tests_request(model=model) == first and Job.objects.count() == 1


def test_command_asks_and_lists_what_fails(tools, model, capsys):
    ruled(tools, ("GetPayslip", ["Pay/GetPayslip"]), ("of 2019", ["OldPay/GetSlip"]), code="PAYSLIP")
    ruled(tools, ("Book", ["Leave/Book"]), code="LEAVE")
    call_command("rule_tests", json=True)
    lines = capsys.readouterr().out.splitlines()
    assert "  PAYSLIP: 1 of 2 tests pass" in lines
    assert f"model {model.pk}: 1 of 2 rules pass, 2 of 3 tests" in lines
    assert json.loads(lines[-1])["failing"] == ["PAYSLIP"]


def page(client, rule):
    return " ".join(client.get(f"/evaluation/of-rule-tests/{rule.pk}/").content.decode().split())


def test_rule_page_shows_stored_results_without_asking_anybody(tools, model, client_as, monkeypatch):
    rule = ruled(tools, ("GetPayslip", ["Pay/GetPayslip"]), ("of 2019", ["OldPay/GetSlip"]))
    client = client_as("expert")
    before = page(client, rule)
    assert "not asked yet" in before and "Ask the models now" in before
    asked(model)
    monkeypatch.setattr(retriever, "retrieve", None)
    shown = page(client, rule)
    assert "<b>1 of 2</b> pass with champion" in shown and "came instead:" in shown
    assert "at place 2" in shown and "Ask the models now" not in shown


def test_rule_page_polls_while_a_job_asks(tools, model, client_as):
    rule = ruled(tools, ("GetPayslip", ["Pay/GetPayslip"]))
    client = client_as("expert")
    answer = client.post(f"/evaluation/of-rule-tests/{rule.pk}/start/").content.decode()
    assert "every 3s" in answer and Job.objects.get().kind == "rule_tests"
    jobs.run(Job.objects.get().pk)
    assert "every 3s" not in page(client, rule)


@pytest.mark.parametrize("role", ["reviewer", "product_manager"])
def test_readers_start_no_tests(tools, model, client_as, role):
    rule = ruled(tools, ("GetPayslip", ["Pay/GetPayslip"]))
    client = client_as(role)
    assert "Ask the models now" not in page(client, rule)
    assert client.post(f"/evaluation/of-rule-tests/{rule.pk}/start/").status_code == 403
    assert client.post(LIVE, {}).status_code == 403


def test_rule_without_tests_champion_or_publication_says_so(tools, client_as):
    client = client_as("reviewer")
    assert "has no tests" in page(client, ruled(tools))
    assert "published versions only" in page(client, ruled(tools, ("q", ["Leave/Book"]), published=False))
    assert "No model is champion yet" in page(client, ruled(tools, ("q", ["Leave/Book"])))


def test_retired_and_deprecated_expected_tools_are_said(tools, model, client_as):
    tools[0].status, tools[1].deprecated = "retired", True
    for tool in tools:
        tool.save()
    rule = ruled(tools, ("GetPayslip", ["Pay/GetPayslip"]), ("GetSlip", ["OldPay/GetSlip"]))
    asked(model)
    shown = page(client_as("reviewer"), rule)
    assert shown.count("s-warn") == 2 and "retired</span>" in shown and "deprecated</span>" in shown


def test_list_gets_short_results_of_the_asked_rules_in_few_queries(
    tools, model, client_as, django_assert_max_num_queries
):
    rules = [ruled(tools, ("GetPayslip", ["Pay/GetPayslip"]), ("x", ["Leave/Book"])) for _ in range(12)]
    asked(model)
    client = client_as("reviewer")
    ids = ",".join(str(rule.pk) for rule in rules[:10])
    with django_assert_max_num_queries(6):
        shown = client.get(f"/evaluation/rule-tests/counts/?rules={ids},x").content.decode()
    assert shown.count("1 of 2 pass with champion") == 10 and f'id="tests-of-{rules[0].pk}"' in shown


@pytest.fixture
def engine(settings, monkeypatch):
    """A local server that ranks by what the query says: `ranked` maps a query to names."""
    ranked, seen = {}, []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append(body)
            names = ranked.get((body["model"]["digest"], body["query"]), ranked.get(body["query"], []))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"tools": names, "scores": [0.0] * len(names)}).encode())

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    settings.ENGINE_URL = f"http://127.0.0.1:{server.server_address[1]}"
    known_models(monkeypatch)
    yield ranked, seen
    server.shutdown()
    server.server_close()


FORM = {
    "test-0-query": "my payslip",
    "test-0-tools": "Pay/GetPayslip",
    "test-1-query": "of 2019",
    "test-1-tools": "OldPay/GetSlip",
}


def test_editor_asks_every_model_with_an_alias(tools, model, client_as, engine):
    ranked, seen = engine
    other = make_model()
    AliasMove.objects.create(alias="challenger", model=other)
    AliasMove.objects.create(alias="previous", model=model)
    ranked["my payslip"] = ["Pay/GetPayslip", "OldPay/GetSlip"]
    ranked["of 2019"] = ["Pay/GetPayslip", "OldPay/GetSlip"]
    ranked[other.store_digest, "of 2019"] = ["OldPay/GetSlip"]
    answer = client_as("expert").post(LIVE, FORM)
    found = [(row["names"], row["passed"]) for row in answer.context["results"]]
    assert found == [("champion and previous", 1), ("challenger", 2)] and len(seen) == 4
    assert {(body["mode"], body["k"]) for body in seen} == {("fast", 10)}
    text = answer.content.decode()
    assert "1 of 2 pass" in text and "at place 2" in text and "all pass" in text
    assert not Answer.objects.exists()


def test_engine_that_is_away_is_a_sentence(tools, model, client_as, settings, monkeypatch, tmp_path):
    known_models(monkeypatch)
    settings.ENGINE_URL, settings.TRACE_HOME = "", tmp_path
    answer = client_as("expert").post(LIVE, FORM)
    assert answer.status_code == 200 and "the engine is not running" in answer.content.decode()


def test_form_without_whole_tests_or_without_a_model_says_so(tools, client_as, engine):
    client = client_as("expert")
    assert "There is no test to run" in client.post(LIVE, {"test-0-query": "q"}).content.decode()
    assert "No model is champion" in client.post(LIVE, FORM).content.decode()


def test_unknown_expected_tool_is_marked(tools, model, client_as, engine):
    answer = client_as("expert").post(LIVE, {**FORM, "test-0-tools": "No/Such"})
    assert answer.context["marks"] == {"No/Such": "unknown"}
