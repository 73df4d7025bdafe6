"""A model is calibrated by the job that evaluates it, from development benchmarks, and judged on shown ones."""

import json

import pytest

from evaluation.benchmarks.services import benchmark_import
from evaluation.management.commands.evaluate import evaluation_lines
from evaluation.models import Calibration, Evaluation
from evaluation.results import tasks
from evaluation.results.views import picture
from evaluation.retrieval.calibration import NOT_CALIBRATED, development, judged
from evaluation.retrieval.lookups import lookups
from tests.evaluation.test_services import evaluate, model_with, tools
from tests.factories import crown

__all__ = ["tools"]
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fake_engine")]


def frozen(tmp_path, kind, rows, part, name=""):
    path = tmp_path / f"{kind}.jsonl"
    path.write_text("".join(json.dumps({"id": f"{kind}-{at}", **row}) + "\n" for at, row in enumerate(rows)))
    return benchmark_import(path=path, kind=kind, name=name or f"{kind}-{part}", part=part)[0]


def asked(count):
    """Requests of pay, of which every other one is answered right."""
    rows = [f"pay {at}, {'GetPayslip' if at % 2 else 'a slip'}" for at in range(count)]
    return [{"query": text, "tools": ["Pay/GetPayslip"]} for text in rows]


def beyond(count):
    return [{"query": f"lunch {at}"} for at in range(count)]


@pytest.fixture
def halves(tools, tmp_path):
    """Development and shown halves of requests with and without a tool."""
    return {
        (kind, part): frozen(tmp_path, kind, rows, part)
        for kind, rows in (("prb", asked(150)), ("outside", beyond(120)))
        for part in ("development", "shown")
    }


def test_the_job_calibrates_both_served_ways_and_counts_the_refusals(halves, tools, tmp_path):
    model = model_with([tools[3], *tools[:3]], tmp_path)
    evaluate(model)
    fast, trace = Calibration.objects.all()
    assert (fast.decode, trace.decode) == ("fast", "trace")
    assert fast.n_outside == halves["outside", "development"].count and fast.threshold is not None
    assert fast.n == fast.n_outside + halves["prb", "development"].count
    shown = Evaluation.objects.get(benchmark=halves["outside", "shown"])
    assert shown.decode == "fast" and shown.metrics["slices"]["all"]["all"]["metrics"]["refused"]["mean"] == 1
    assert set(shown.answers.values_list("scores__refused", flat=True)) == {1}
    chosen_on = Evaluation.objects.get(benchmark=halves["outside", "development"], decode="fast")
    assert chosen_on.metrics["slices"]["all"]["all"]["metrics"] == {}
    assert "refused 1.000" in "\n".join(evaluation_lines(shown))


def test_the_picture_is_of_shown_requests_only(halves, tools, tmp_path, reader):
    model = model_with([tools[3], *tools[:3]], tmp_path)
    evaluate(model)
    found = picture(model)
    assert set(found["benchmarks"]) == {halves["prb", "shown"], halves["outside", "shown"]}
    assert found["found"].n == sum(row.count for row in found["benchmarks"]) and found["found"].error < 0.1
    assert found["refused_outside"].value == 1 and found["refused_inside"].value == 0
    crown(model=model, actor=None)
    of = Evaluation.objects.filter(benchmark=halves["outside", "shown"], model=model)[0]
    assert f'href="/evaluation/{of.pk}/"' in reader.get(f"/evaluation/models/{model.pk}/").content.decode()
    for page in (f"/evaluation/of-model/{model.pk}/reliability/", "/evaluation/reliability/"):
        text = text_of(reader, page)
        assert "Refused of requests no tool answers" in text and "Expected calibration error" in text


def test_calibration_is_made_once_and_anew_when_development_changes(halves, tools, tmp_path, monkeypatch):
    model = model_with(tools, tmp_path)
    evaluate(model)
    before = list(Calibration.objects.values_list("pk", flat=True))
    with monkeypatch.context() as patch:
        patch.setattr(tasks, "ENGINE", "no.such.module")
        evaluate(model)
    assert list(Calibration.objects.values_list("pk", flat=True)) == before
    frozen(tmp_path, "outside", beyond(200), "development")
    evaluate(model)
    fast = Calibration.objects.get(decode="fast")
    assert fast.pk not in before and fast.n_outside > 60
    assert fast.development == sorted(row.key for row in development(model, "fast"))


def test_without_development_requests_there_is_no_calibration_and_the_page_says_how(tools, tmp_path, reader):
    frozen(tmp_path, "prb", asked(60), "shown")
    outside = frozen(tmp_path, "outside", beyond(60), "shown")
    model = model_with(tools, tmp_path)
    evaluate(model)
    assert not Calibration.objects.exists() and picture(model) is None
    evaluation = Evaluation.objects.get(benchmark=outside)
    assert evaluation.metrics["slices"]["all"]["all"]["metrics"] == {}
    assert NOT_CALIBRATED in text_of(reader, f"/evaluation/of-model/{model.pk}/reliability/")
    assert "lunch" in text_of(reader, f"/evaluation/{evaluation.pk}/")
    assert "not evaluated" not in text_of(reader, f"/evaluation/models/{model.pk}/").lower()


def test_without_a_champion_the_evaluation_page_has_no_picture(reader):
    assert text_of(reader, "/evaluation/reliability/") == ""


def test_pages_of_outside_requests_say_which_were_refused(halves, tools, tmp_path, reader):
    model = model_with(tools, tmp_path)
    evaluate(model)
    shown = Evaluation.objects.get(benchmark=halves["outside", "shown"])
    assert "refused" in text_of(reader, f"/evaluation/{shown.pk}/?only=right")
    assert "lunch" not in text_of(reader, f"/evaluation/{shown.pk}/?only=wrong")


def test_a_tool_that_is_retired_is_measured_as_it_is_served(halves, tools, tmp_path):
    model = model_with(tools, tmp_path)
    evaluate(model, decodes=["fast"])
    first = Evaluation.objects.get(benchmark=halves["prb", "shown"], decode="fast")
    assert first.metrics["slices"]["all"]["all"]["metrics"]["hit@1"]["mean"] > 0
    type(tools[0]).objects.filter(pk=tools[0].pk).update(status="retired")
    evaluate(model, decodes=["fast"])
    again = Evaluation.objects.filter(benchmark=halves["prb", "shown"], decode="fast").first()
    assert again.pk != first.pk and again.metrics["slices"]["all"]["all"]["metrics"]["hit@1"]["mean"] == 0


@pytest.fixture
def reader(client_as):
    return client_as("expert")


def text_of(reader, page):
    return reader.get(page).content.decode()


def test_a_way_of_answering_that_was_not_calibrated_is_judged_by_the_ranking(halves, tools, tmp_path):
    model = model_with(tools, tmp_path, retrieval="none")
    evaluate(model)
    assert list(Calibration.objects.values_list("decode", flat=True)) == ["fast"]
    near = {"first": -1.0, "lead": 3.0, "nearest": 0.6, "listed": -1.0}
    fits = lookups().serving.fits(model)
    same, other = (judged(fits, "trace", near | {"agrees": agrees}) for agrees in (1.0, 0.0))
    assert (same[0].fits, other[0].fits, same[1]) == (True, True, "")
    assert same[0].confidence is not None and other[0].confidence is None
