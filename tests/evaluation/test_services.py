"""An evaluation runs in child processes, keeps every answer, and costs nothing the second time."""

import json

import numpy as np
import pytest
from django.core.management import call_command
from django.db import IntegrityError, transaction

from catalog.models import Tool
from evaluation.benchmarks.services import Unit, benchmark_import, evaluation_request
from evaluation.core.report import asked_at_once
from evaluation.models import Answer, Benchmark, Evaluation, LabelledRequest
from evaluation.results import tasks
from tests.factories import make_model, make_rule, make_run, make_tool, thawed
from trace_site import jobs
from trace_site.artefacts import store
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fake_engine")]


@pytest.fixture
def tools():
    """Three look-alikes and a loner; embeddings are one-hot, so every cosine is 0 or 1."""
    names = ["Pay/GetPayslip", "Pay/GetPaystub", "Pay/GetSlipLines", "Leave/Book"]
    rows = np.eye(4, 3)
    return [make_tool(name, embedding=row.tolist()) for name, row in zip(names, rows, strict=True)]


@pytest.fixture
def prb(tools, tmp_path):
    rows = [
        {"query": "GetPayslip please", "tools": ["Pay/GetPayslip"], "rule": "PAYSLIP_PERIOD"},
        {"query": "the GetSlipLines of may", "tools": ["Pay/GetSlipLines"]},
        {"query": "a day off", "tools": ["Leave/Book"]},
    ]
    (tmp_path / "prb.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return benchmark_import(path=tmp_path / "prb.jsonl", kind="prb", name="prb")[0]


def model_with(tools, tmp_path, retrieval="r+R"):
    folder = tmp_path / "export"
    folder.mkdir(exist_ok=True)
    spec = {"tools": [{"name": tool.name} for tool in tools]}
    (folder / "trace.json").write_text(json.dumps(spec))
    run = make_run(retrieval=retrieval)
    key = f"models/{run.key}"
    return make_model(run=run, store_key=key, store_digest=store().put_dir(folder, key))


def questions(tmp_path, *tools):
    """A yes-or-no benchmark, one question a tool."""
    rows = [{"tool": tool.name, "question": "Does it read?", "answer": "No"} for tool in tools]
    (tmp_path / "qa.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return benchmark_import(path=tmp_path / "qa.jsonl", kind="qa", name="qa")[0]


def evaluate(model, **options):
    job = jobs.run(evaluation_request(model=model, **options).pk)
    assert job.state == "done", job.error
    return job.result


def test_development_half_is_evaluated_as_it_is_served_and_its_figures_are_not_told(
    tools, prb, tmp_path, capsys
):
    with thawed():
        Benchmark.objects.update(is_development=True)
    model = model_with(tools, tmp_path)
    evaluate(model)
    made = Evaluation.objects.order_by("pk")
    assert [row.decode for row in made] == ["embedding", "fast", "trace"]
    assert all(row.metrics for row in made)
    call_command("evaluate", model=str(model.pk), benchmark="prb", decode="fast", json=True)
    *lines, told = capsys.readouterr().out.splitlines()
    assert any("a development half" in line for line in lines) and not any("hit@1" in line for line in lines)
    assert [row["metrics"] for row in json.loads(told)["results"]] == [None, None]


def test_reasoning_model_is_decoded_three_ways_beside_the_baseline(tools, prb, tmp_path):
    model = model_with(tools, tmp_path)
    result = evaluate(model)
    assert result["computed"] == 4 and Answer.objects.count() == 12
    made = Evaluation.objects.all()
    assert [row.decode for row in made.order_by("pk")] == ["embedding", "fast", "trace", "trace-free"]
    trace = made.get(decode="trace").metrics
    assert trace["slices"]["all"]["all"]["metrics"]["recall@gen"]["mean"] == pytest.approx(2 / 3)
    assert trace["slices"]["hr"]["all"]["n"] == 3 and trace["speed"]["tokens_mean"] == 7


def test_unchanged_pair_is_not_computed_again(tools, prb, tmp_path, monkeypatch):
    model = model_with(tools, tmp_path)
    first = evaluate(model)
    monkeypatch.setattr(tasks, "ENGINE", "no.such.module")
    again = evaluate(model)
    assert again["evaluations"] == first["evaluations"] and again["computed"] == 0


def test_a_named_base_is_measured_anew_where_it_is_served_and_the_page_says_by_what(
    tools, prb, tmp_path, settings, monkeypatch, client_as
):
    named = model_with(tools, tmp_path)
    named.run.base = "google/gemma-4-E4B-it"
    named.run.save(update_fields=["base"])
    evaluate(named, decodes=["fast"])
    monkeypatch.setenv("TRACE_BACKEND_URL", "http://gpu.example.com:8000/v1")
    settings.TRACE_BACKEND_URL = "http://gpu.example.com:8000/v1"
    assert evaluate(named, decodes=["fast"])["computed"] == 1
    assert evaluate(named, decodes=["fast"])["computed"] == 0
    later, earlier = Evaluation.objects.filter(model=named)
    client = client_as("admin")
    pages = [client.get(f"/evaluation/{one.pk}/").content.decode() for one in (later, earlier)]
    assert "vllm 0.32.0 at gpu.example.com:8000" in pages[0] and "<dt>Hardware</dt>" not in pages[0]
    assert "vllm" not in pages[1] and "<dt>Hardware</dt>" in pages[1]


def test_an_evaluation_keeps_how_many_requests_began_a_forward_together(tools, prb, tmp_path):
    evaluate(model_with(tools, tmp_path), decodes=["fast"])
    assert (
        Evaluation.objects.get(decode="fast").hardware["at_once"] == 3
    )  # the engine tells all three one time
    batches = [[{"seconds": seconds}] * count for seconds, count in ((0.2, 32), (0.1, 32), (0.2, 5))]
    assert asked_at_once([row for batch in batches for row in batch]) == 32
    assert asked_at_once([{"seconds": 0}, {}]) is None


def test_pocket_is_measured_once_whatever_serves_named_bases(tools, prb, tmp_path, settings):
    model = model_with(tools, tmp_path)
    before = Unit(model, prb, "fast").key
    settings.TRACE_BACKEND_URL = "http://gpu.example.com:8000/v1"
    assert model.run.base == "pocket" and Unit(model, prb, "fast").key == before


def test_citation_of_a_known_rule_is_counted(tools, prb, tmp_path):
    make_rule(tools[0], tools[1], code="PAYSLIP_PERIOD")
    evaluate(model_with(tools, tmp_path))
    citation = Evaluation.objects.get(decode="trace").metrics["slices"]["all"]["all"]["citation"]
    right = citation["correct_rule"]
    assert citation["rate"] == 1.0 and (right["mean"], right["n"]) == (1.0, 1)


def test_model_that_never_learned_lists_is_only_asked_to_rank(tools, prb, tmp_path):
    evaluate(model_with(tools, tmp_path, retrieval="none"))
    assert set(Evaluation.objects.values_list("decode", flat=True)) == {"embedding", "fast"}


def test_question_about_a_tool_the_model_lacks_counts_as_wrong(tools, tmp_path):
    benchmark = questions(tmp_path, tools[1], tools[3])
    evaluate(model_with(tools[:3], tmp_path), benchmark=benchmark)
    found = Evaluation.objects.get(decode="letters").metrics
    assert found["slices"]["all"]["accuracy"]["mean"] == 0.5 and found["unknown_tools"] == 1
    assert found["slices"]["all"]["random"] == 0.5


def test_interrupted_decoding_goes_on_and_stores_every_answer_once(tools, prb, tmp_path, monkeypatch):
    model = model_with(tools, tmp_path)
    monkeypatch.setenv("FAKE_ENGINE", "die")
    job = jobs.run(evaluation_request(model=model, benchmark=prb, decodes=["fast"]).pk)
    assert (job.state, job.error) == ("failed", "tests.evaluation.fake_engine: the model is broken.")
    assert not Evaluation.objects.filter(decode="fast", metrics__isnull=False).exists()
    assert not Answer.objects.filter(evaluation__decode="fast").exists()
    jobs.retry(job)
    assert jobs.run(job.pk).state == "done"
    assert Answer.objects.filter(evaluation__decode="fast").count() == 3


def test_worker_that_lost_its_lease_stores_no_answer(tools, prb, tmp_path, monkeypatch):
    job = evaluation_request(model=model_with(tools, tmp_path), benchmark=prb, decodes=["fast"])
    scored = tasks.score

    def overtaken(*args):
        jobs.Job.objects.filter(pk=job.pk).update(fence=99)
        return scored(*args)

    monkeypatch.setattr(tasks, "score", overtaken)
    jobs.run(job.pk)
    assert not Answer.objects.exists() and not Evaluation.objects.filter(metrics__isnull=False).exists()


def test_catalog_without_embeddings_has_no_baseline_but_an_evaluation(prb, tools, tmp_path):
    type(tools[0]).objects.update(embedding=None)
    result = evaluate(model_with(tools, tmp_path), decodes=["fast"])
    assert result["computed"] == 1 and "run manage.py catalog_neighbours" in result["skipped"][0]


def test_a_tool_imported_while_the_baseline_searches_is_searched_too(tools, prb, tmp_path, monkeypatch):
    embed = tasks.embed

    def imported(ctx, work, progress):
        embed(ctx, work, progress)
        if not Tool.objects.filter(name="Late/Tool").exists():
            make_tool("Late/Tool", embedding=[1.0, 0.0, 0.0])

    monkeypatch.setattr(tasks, "embed", imported)
    evaluate(model_with(tools, tmp_path), benchmark=prb, decodes=["fast"])
    baseline = Evaluation.objects.get(decode="embedding")
    assert baseline.key == Unit(None, prb, "embedding").key
    assert {len(row.output["tools"]) for row in baseline.answers.all()} == {5}


def test_a_catalog_that_is_embedded_in_part_puts_the_evaluation_off(tools, prb, tmp_path):
    new = make_tool("New/Tool")
    job = jobs.run(evaluation_request(model=model_with(tools, tmp_path), benchmark=prb, decodes=["fast"]).pk)
    refresh = Job.objects.get(kind="catalog")
    assert (job.state, job.params["waits_for"]) == ("queued", refresh.pk)
    Tool.objects.filter(pk=new.pk).update(embedding=[1.0, 0.0, 0.0])
    assert jobs.run(job.pk).state == "done"
    assert not Evaluation.objects.filter(metrics__isnull=True).exists()


def test_what_was_begun_for_an_older_catalog_is_not_left_half_made(tools, prb, tmp_path, monkeypatch):
    model = model_with(tools, tmp_path)
    monkeypatch.setenv("FAKE_ENGINE", "die")
    job = jobs.run(evaluation_request(model=model, benchmark=prb, decodes=["fast"]).pk)
    assert job.state == "failed" and Evaluation.objects.filter(metrics__isnull=True).exists()
    Tool.objects.filter(pk=tools[3].pk).update(status=Tool.Status.RETIRED)
    monkeypatch.delenv("FAKE_ENGINE")
    jobs.retry(job)
    assert jobs.run(job.pk).state == "done"
    assert not Evaluation.objects.filter(metrics__isnull=True).exists()


def test_an_evaluation_without_all_its_answers_is_not_finished(tools, prb, tmp_path, monkeypatch):
    monkeypatch.setattr(tasks.Work, "predictions", lambda self, written: [])
    job = jobs.run(evaluation_request(model=model_with(tools, tmp_path), benchmark=prb, decodes=["fast"]).pk)
    assert (job.state, Evaluation.objects.filter(metrics__isnull=False).count()) == ("failed", 0)


def test_decode_of_another_kind_is_refused(tools, prb, tmp_path):
    with pytest.raises(TraceError, match="a PRB benchmark cannot be decoded as letters"):
        evaluation_request(model=model_with(tools, tmp_path), benchmark=prb, decodes=["letters"])


def test_evaluate_command_prints_every_metric_with_its_interval(tools, prb, tmp_path, capsys):
    model = model_with(tools, tmp_path)
    call_command("evaluate", model=str(model.pk), benchmark="prb", decode="fast", json=True)
    lines = capsys.readouterr().out.splitlines()
    assert any("all/all: n 3  hit@1 0.667 [" in line for line in lines)
    assert json.loads(lines[-1])["results"][1]["decode"] == "fast"


def test_evaluate_command_says_how_many_answers_follow_their_trace(tools, prb, tmp_path, capsys):
    model = model_with(tools, tmp_path)
    call_command("evaluate", model=str(model.pk), benchmark="prb", decode="trace")
    assert "follows its trace 0.333 (1 of 3)" in capsys.readouterr().out
    stored = Answer.objects.filter(evaluation__decode="trace").order_by("item__position")
    assert [row.output["follows_trace"] for row in stored] == [True, False, False]


def test_answers_cannot_outlive_their_item(tools, prb, tmp_path):
    evaluate(model_with(tools, tmp_path), decodes=["fast"])
    with pytest.raises(IntegrityError, match="evaluation_answer rows are frozen"), transaction.atomic():
        LabelledRequest.objects.all().delete()
