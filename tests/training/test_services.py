"""A run is asked for once, trained in a child process, resumed after a kill, and published by its owner only."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
import yaml
from django.core.exceptions import ValidationError
from django.db.models.functions import Now

from tests.factories import make_model, make_snapshot
from trace_site import jobs
from trace_site.audit.models import AuditEntry
from trace_site.dev.supervisor import children
from trace_site.lib.errors import TraceError
from trace_site.lib.small_yaml import read_small_yaml
from training.core.recipe import from_dict
from training.models import Model, Run, RunMetric, TrainedStage
from training.registry.registry import export_dir
from training.runs import stages
from training.runs.services import configured_bases, require_configured, run_create
from training.runs.stages import default_recipe, read_metrics, stage_folder

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fake_trainer")]


def create(snapshot=None, recipe=None, origin=None, **overrides):
    cell = {"base": "pocket", "format": "a", "memo": "m", "retrieval": "r+R", **overrides}
    recipe = (recipe or default_recipe(cell["base"])).with_cell(**cell)
    return run_create(snapshot=snapshot or make_snapshot(), recipe=recipe, **(origin or {}))


def behave(monkeypatch, **behaviour):
    monkeypatch.setenv("FAKE_TRAINER", json.dumps(behaviour))


def test_equal_run_is_returned_and_an_unequal_one_is_new():
    snapshot = make_snapshot()
    first = create(snapshot=snapshot)
    assert create(snapshot=snapshot) == first
    assert create(snapshot=snapshot, seed=1) != first
    assert AuditEntry.objects.filter(action="run.created").count() == 2
    assert first.job.params == {"run": first.pk} and first.job.queue == "gpu"


def test_thread_count_is_no_part_of_a_runs_key(settings):
    snapshot = make_snapshot()
    first = create(snapshot=snapshot)
    settings.ML_THREADS = 16
    assert create(snapshot=snapshot) == first
    assert create(snapshot=snapshot, retrieval="r").stages[0] == first.stages[0]


def test_every_cell_of_the_grid_can_be_queued():
    assert create(memo="mr", retrieval="n>r", base="some/base").cell == "(a, mr, n>r)"


def test_recipe_with_an_unknown_field_is_refused_by_name():
    with pytest.raises(TraceError, match="'stage2.learning_rate'"):
        from_dict(read_small_yaml("stage2: {learning_rate: 1}", "recipe"))


def test_training_ends_with_a_stored_model_its_curves_and_a_queued_evaluation():
    run = create()
    job = jobs.run(run.job_id)
    assert job.state == "done", job.error
    model = Model.objects.get(run=run)
    trace = json.loads((export_dir(model) / "trace.json").read_text())
    first = stage_folder(run.stages[0]["key"])
    assert trace["stage"] == "stage2" and trace["init"] == str(first / "export")
    assert model.parameters == 12 and model.bytes > 48
    losses = RunMetric.objects.filter(run=run).values_list("stage", "step", "data__loss")
    assert len(losses) == 8 and ("stage2", 4, 0.0) in losses
    follow_up = jobs.Job.objects.get(kind="evaluation")
    assert follow_up.params == {"model": model.pk} and job.result["evaluation_job"] == follow_up.pk
    run.refresh_from_db()
    assert run.hardware["threads"] and run.summary["stage2"]["training"] == {"Steps": 4}
    assert "stage2 from step 0" in run.log_tail


def test_stage_1_of_an_equal_catalog_is_not_trained_again():
    snapshot = make_snapshot()
    first = create(snapshot=snapshot)
    second = create(snapshot=make_snapshot(catalog_hash=snapshot.catalog_hash), retrieval="r")
    jobs.run(first.job_id)
    jobs.run(second.job_id)
    second.refresh_from_db()
    assert TrainedStage.objects.filter(stage="stage1").count() == 1 and second.summary["stage1"] == {
        "reused_from_run": first.pk
    }
    assert set(second.metrics.values_list("stage", flat=True)) == {"stage2"}


def test_memo_without_retrieval_makes_the_stage_1_model_itself():
    run = create(retrieval="none")
    jobs.run(run.job_id)
    assert json.loads((export_dir(run.model) / "trace.json").read_text())["stage"] == "stage1"


def test_neither_memo_nor_retrieval_makes_the_untrained_base():
    run = create(memo="none", retrieval="none")
    jobs.run(run.job_id)
    assert json.loads((export_dir(run.model) / "trace.json").read_text())["stage"] == "base"


def test_child_that_fails_ends_the_job_with_its_last_line(monkeypatch):
    behave(monkeypatch, error_at=2)
    job = jobs.run(create().job_id)
    assert (job.state, job.error) == (
        "failed",
        "training.ml: the loss is nan at step 2.".replace("training.ml", stages.TRAINER),
    )
    assert not Model.objects.exists() and not jobs.Job.objects.filter(kind="evaluation").exists()


def test_killed_trainer_resumes_and_no_step_of_its_curve_is_doubled(monkeypatch):
    behave(monkeypatch, killed_at=2)
    run = create(memo="none", retrieval="n")
    job = jobs.run(run.job_id)
    assert job.state == "failed" and "SIGKILL" in job.error
    assert create(snapshot=run.snapshot, memo="none", retrieval="n") == run  # asking again retries the job
    assert jobs.run(run.job_id).state == "done"
    assert list(run.metrics.values_list("step", flat=True)) == [1, 2, 3, 4]
    run.refresh_from_db()
    assert "from step 2" in run.log_tail


def test_cancelled_run_stops_its_trainer_in_order(monkeypatch):
    behave(monkeypatch, hang=True)
    run = create(memo="none")
    monkeypatch.setattr(
        stages.Watcher, "on_event", lambda self, event: jobs.cancel(run.job) and self.ctx.progress(1, 4)
    )
    assert jobs.run(run.job_id).state == "cancelled"
    assert "stopped on request" in (stage_folder(run.stages[0]["key"]) / "log.txt").read_text()


def test_worker_that_lost_its_lease_publishes_no_model(monkeypatch):
    run = create(memo="none")
    monkeypatch.setattr(stages.Watcher, "copy", lambda self: None)
    taken = {}

    def steal(self, event):
        if taken:
            return
        jobs.Job.objects.filter(pk=run.job_id).update(lease_until=Now() - timedelta(seconds=1))
        jobs.reap()
        taken["by"] = jobs.claim(run.job_id)

    monkeypatch.setattr(stages.Watcher, "on_event", steal)
    job = jobs.run(run.job_id)
    taken["by"].close()
    assert job.state == "running" and job.fence == 2
    assert not Model.objects.exists() and not jobs.Job.objects.filter(kind="evaluation").exists()


def test_finished_run_is_not_trained_again(monkeypatch):
    run = create()
    model = make_model(run=run)
    behave(monkeypatch, error_at=1)
    assert jobs.run(run.job_id).result["model"] == model.pk


def test_half_written_metric_line_waits_for_its_end(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"stage": "stage2", "step": 1}\n{"stage": "sta')
    rows, offset = read_metrics(path, 0)
    assert [row["step"] for row in rows] == [1]
    path.write_text('{"stage": "stage2", "step": 1}\n{"stage": "stage2", "step": 2}\n')
    assert [row["step"] for row in read_metrics(path, offset)[0]] == [2]


def test_queue_of_the_accelerator_has_one_slot_that_messages_and_the_poll_share():
    """One active run a worker: the supervisor and the compose file start it with one."""
    worker = next(child for child in children(8000, 8001) if child.name == "gpu-worker")
    at = worker.command.index("-c")
    assert (
        worker.command[at : at + 2] == ["-c", "1"] and worker.command[worker.command.index("-Q") + 1] == "gpu"
    )
    assert stages.settings.JOB_HANDLERS["training"][1] == "gpu"


def test_run_that_is_asked_for_again_goes_on_with_what_only_changes_its_speed():
    """A run that ran out of memory is started again with recomputed activations; its Stage 1 stays the same."""
    snapshot = make_snapshot()
    run = create(snapshot=snapshot)
    jobs.Job.objects.filter(pk=run.job_id).update(state="failed")
    lean = replace(default_recipe("pocket"), activation_checkpointing=True)
    again = create(snapshot=snapshot, recipe=lean)
    again.refresh_from_db()
    assert again == run and again.job.state == "queued"
    assert again.recipe["activation_checkpointing"] is True and again.stages == run.stages


def test_run_keeps_why_it_was_started_and_what_it_was_cloned_from():
    snapshot = make_snapshot()
    first = create(snapshot=snapshot)
    second = create(snapshot=snapshot, seed=1, origin={"why": Run.Why.POLICY, "cloned_from": first})
    assert (second.why, second.cloned_from) == ("policy", first)
    assert AuditEntry.objects.get(object_id=str(second.pk), action="run.created").detail["why"] == "policy"


def test_bases_are_named_once_the_default_first_and_pocket_always(settings):
    settings.BASE_MODEL, settings.BASE_MODELS = "org/a-1B", ["org/b-2B", "org/a-1B"]
    assert configured_bases() == ["org/a-1B", "pocket", "org/b-2B"]
    settings.BASE_MODEL, settings.BASE_MODELS = "pocket", []
    assert configured_bases() == ["pocket"]
    with pytest.raises(ValidationError, match="'org/a-1B' is not configured here; the bases are pocket"):
        require_configured("org/a-1B")


@pytest.mark.parametrize("service", ["web", "worker", "gpu-worker"])
def test_every_container_is_told_the_same_bases(settings, service):
    compose = yaml.safe_load((settings.BASE_DIR / "docker-compose.yml").read_text())
    told = compose["services"][service]["environment"]
    assert told["BASE_MODEL"] == f"${{BASE_MODEL:-{default_recipe('any').base}}}"
    assert told["BASE_MODELS"] == "${BASE_MODELS:-}"


@pytest.mark.parametrize(
    ("given", "bases"),
    [
        ({}, ["pocket"]),
        ({"BASE_MODEL": ""}, ["pocket"]),
        (
            {"BASE_MODEL": "org/a-1B", "BASE_MODELS": "org/b-2B, ./c"},
            ["org/a-1B", "pocket", "org/b-2B", "./c"],
        ),
    ],
    ids=str,
)
def test_bases_are_read_from_the_environment(tmp_path, given, bases):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("BASE_MODEL")}
    asked = (
        "import django; django.setup(); from training.runs.services import configured_bases as c; print(*c())"
    )
    known = {"TRACE_HOME": str(tmp_path), "DJANGO_SETTINGS_MODULE": "trace_site.settings"}
    done = subprocess.run(
        [sys.executable, "-c", asked], env=clean | known | given, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == bases


def test_progress_of_a_run_spans_its_stages(tmp_path):
    told = []
    ctx = SimpleNamespace(progress=lambda *progress: told.append(progress))
    stages_of_run = [{"stage": "stage1", "seconds": 60.0}, {"stage": "stage2", "seconds": 90.0}]
    half = {"event": "progress", "done": 5, "total": 10, "note": "loss 2.0"}
    for planned in (stages_of_run, [{**one, "seconds": None} for one in stages_of_run]):
        run = SimpleNamespace(stages=planned)
        for stage, label in (("stage1", "stage 1"), ("stage2", "stage 2")):
            stages.Watcher(ctx, run, tmp_path, stage, label).on_event(half)
    assert [progress[:2] for progress in told] == [(30, 150), (105, 150), (5, 10), (5, 10)]
    assert told[1][2] == "stage 2: loss 2.0"
