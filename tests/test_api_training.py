"""The API of training runs."""

from dataclasses import asdict

import pytest
from rest_framework.test import APIClient

from tests.factories import make_run, make_snapshot
from trace_site.audit.models import AuditEntry
from trace_site.jobs import Job
from training.core import recipe as recipes
from training.models import Run, RunMetric
from training.runs.stages import default_recipe

pytestmark = pytest.mark.django_db
CELL = {"format": "a", "memo": "m", "retrieval": "r+R"}


@pytest.fixture
def api(user_with):
    client = APIClient()
    client.force_authenticate(user_with("admin"))
    return client


def test_a_run_is_started_with_some_fields_over_the_default_and_repeated_safely(api):
    snapshot = make_snapshot()
    body = {"snapshot": snapshot.pk, **CELL, "recipe": {"stage2": {"epochs": 3}}, "seed": 4}
    first = api.post("/api/v1/training/runs", body, format="json")
    again = api.post("/api/v1/training/runs", body, format="json")
    run = Run.objects.get()
    assert (first.status_code, again.json()["run"]["id"]) == (201, run.pk)
    assert first["Location"] == f"/api/v1/training/runs/{run.pk}"
    assert run.recipe["stage2"]["epochs"] == 3
    assert run.recipe["stage2"]["lr"] == default_recipe("pocket").stage2.lr
    assert AuditEntry.objects.filter(action="run.created").count() == 1


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"snapshot": 999}, "snapshot"),
        ({"recipe": {"stage2": {"lr": "fast"}}}, "stage2.lr"),
        ({"recipe": {"stage9": 1}}, "stage9"),
        ({"recipe": {"seed": 3}}, "seed"),
        ({"cloned_from": 999}, "cloned_from"),
        ({"format": "z"}, "format"),
    ],
)
def test_what_cannot_be_started_is_named(api, wrong, named):
    body = {"snapshot": make_snapshot().pk, **CELL} | wrong
    answer = api.post("/api/v1/training/runs", body, format="json")
    assert answer.status_code == 400 and named in answer.json()["message"] and not Run.objects.exists()


def test_a_run_is_made_on_any_configured_base_with_that_bases_recipe(api, settings):
    settings.BASE_MODEL, settings.BASE_MODELS = "google/gemma-4-E4B-it", ["Qwen/Qwen3-0.6B"]
    body = {"snapshot": make_snapshot().pk, **CELL, "recipe": {"stage2": {"epochs": 3}}}
    named = api.post("/api/v1/training/runs", body | {"base": "Qwen/Qwen3-0.6B"}, format="json").json()
    default = api.post("/api/v1/training/runs", body, format="json").json()
    small = api.post("/api/v1/training/runs", body | {"base": "pocket"}, format="json").json()
    assert [one["run"]["base"] for one in (named, default, small)] == [
        *("Qwen/Qwen3-0.6B", "google/gemma-4-E4B-it", "pocket"),
    ]
    rates = [one["recipe"]["stage2"]["lr"] for one in (named, default, small)]
    assert rates == [1e-4, 1e-4, default_recipe("pocket").stage2.lr]


@pytest.mark.parametrize("path", ["runs", "estimate"])
def test_a_base_that_is_not_configured_is_refused_with_those_that_are(api, settings, path):
    settings.BASE_MODELS = ["Qwen/Qwen3-0.6B"]
    body = {"snapshot": make_snapshot().pk, **CELL, "base": "gpt-2"}
    answer = api.post(f"/api/v1/training/{path}", body, format="json")
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_input")
    assert "the bases are pocket, Qwen/Qwen3-0.6B." in answer.json()["message"]
    assert not Run.objects.exists()


def test_the_bases_are_listed_with_the_default_and_their_recipes(api, settings):
    settings.BASE_MODEL, settings.BASE_MODELS = "google/gemma-4-E4B-it", ["pocket", "google/gemma-4-E4B-it"]
    bases = api.get("/api/v1/training/bases").json()["bases"]
    assert [(one["name"], one["default"], one["vllm"]) for one in bases] == [
        ("google/gemma-4-E4B-it", True, True),
        ("pocket", False, False),
    ]
    assert [one["recipe"]["stage1"]["lr"] for one in bases] == [5e-5, default_recipe("pocket").stage1.lr]


def test_a_snapshot_without_the_samples_is_refused(api):
    snapshot = make_snapshot(counts={"tools": 3, "rrb": 0, "rule": 9, "imported": 0})
    body = {"snapshot": snapshot.pk, **CELL, "retrieval": "n"}
    answer = api.post("/api/v1/training/runs", body, format="json")
    assert (answer.status_code, answer.json()["code"]) == (400, "no_samples")


def test_runs_are_filtered_and_paged(api):
    for fmt in "abc":
        make_run(format=fmt)
    assert [row["format"] for row in api.get("/api/v1/training/runs?format=b").json()["results"]] == ["b"]
    page = api.get("/api/v1/training/runs?limit=2").json()
    assert [row["format"] for row in page["results"]] == ["c", "b"]
    rest = api.get(f"/api/v1/training/runs?limit=2&after={page['next']}").json()
    assert [row["format"] for row in rest["results"]] == ["a"] and rest["next"] is None


def test_a_long_list_asks_as_often_as_a_short_one(api, django_assert_max_num_queries):
    for _ in range(30):
        make_run()
    with django_assert_max_num_queries(4):
        assert len(api.get("/api/v1/training/runs").json()["results"]) == 30


def test_curves_come_in_as_many_points_as_asked_for_with_their_extremes(api):
    run = make_run()
    RunMetric.objects.bulk_create(
        RunMetric(run=run, stage="stage2", step=step, data={"loss": 50.0 if step == 700 else 1.0})
        for step in range(1, 1001)
    )
    found = api.get(f"/api/v1/training/runs/{run.pk}/metrics?points=20").json()
    ((stage, points),) = [(one["stage"], one["points"]) for one in found["stages"]]
    assert (stage, len(points), sum(point["points"] for point in points)) == ("stage2", 20, 1000)
    assert max(point["values"]["loss"][2] for point in points) == 50.0


def test_cancel_and_resume_answer_with_the_run_or_why_not(api):
    job = Job.objects.create(kind="training", queue="gpu", title="train")
    run = make_run(job=job)
    assert api.post(f"/api/v1/training/runs/{run.pk}/resume").status_code == 409
    assert api.post(f"/api/v1/training/runs/{run.pk}/cancel").json()["run"]["job"]["state"] == "cancelled"
    assert api.post(f"/api/v1/training/runs/{run.pk}/cancel").json()["code"] == "job_state"
    assert api.post(f"/api/v1/training/runs/{run.pk}/resume").json()["run"]["job"]["state"] == "queued"


def test_a_run_says_which_stage_its_time_limit_stopped_and_keeps_a_recipe_without_newer_fields(api):
    told = "11 % of its steps (time limit 45 s)"
    recipe = asdict(default_recipe("pocket"))
    recipe["stage1"] |= {"max_seconds": 45.0}
    del recipe["stage1"]["max_steps"], recipe["stage2"]["max_steps"]
    run = make_run(recipe=recipe, stages=[{"stage": "stage1", "key": "k1"}, {"stage": "stage2", "key": "k2"}])
    run.summary = {"stage1": {"training": {"Stopped at": told}}, "stage2": {"training": {"Steps": 4}}}
    run.save()
    found = api.get(f"/api/v1/training/runs/{run.pk}").json()
    assert [one["stopped_at"] for one in found["stages"]] == [told, ""]
    assert found["summary"]["stage1"]["training"]["Stopped at"] == told
    assert (recipes.stored(run.recipe).stage1.max_seconds, recipes.stored(run.recipe).stage1.max_steps) == (
        45.0,
        0,
    )


def test_an_estimate_warns_of_a_time_limit_that_will_stop_a_stage(api):
    body = {"snapshot": make_snapshot(counts={"tools": 50, "rrb": 80}).pk, **CELL}
    body["recipe"] = {"stage1": {"max_seconds": 0.001}, "stage2": {"max_seconds": 1e9}}
    found = api.post("/api/v1/training/estimate", body, format="json").json()
    (line,) = [line for line in found["warnings"] if "time limit" in line]
    assert line.startswith("Stage 1 needs about") and "0 % of its steps" in line


def test_an_estimate_starts_nothing(api):
    body = {"snapshot": make_snapshot(counts={"tools": 50, "rrb": 80}).pk, **CELL}
    found = api.post("/api/v1/training/estimate", body, format="json").json()
    assert "all but the word rows of the encoder" in found["assumes"]
    assert found["seconds"]["value"] > 0 and found["seconds"]["basis"]
    assert [one["stage"] for one in found["stages"]] == ["stage1", "stage2"]
    assert not Run.objects.exists()
