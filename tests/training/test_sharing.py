"""A stage is trained once: by several workers at once, when they are killed, and when its files have gone."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection
from django.utils import timezone

from tests.factories import make_snapshot
from tests.training.grid_storm import storm
from trace_site import jobs
from training.models import Model, Run, StageClaim, TrainedStage
from training.runs import stages
from training.runs.job import claim
from training.runs.services import run_create, run_steps
from training.runs.stages import stage_folder

pytestmark = pytest.mark.usefixtures("fake_trainer")


def create(snapshot, retrieval="r", **overrides):
    cell = {"base": "some/base", "format": "a", "memo": "m", "retrieval": retrieval, **overrides}
    return run_create(snapshot=snapshot, recipe=stages.default_recipe(cell["base"]).with_cell(**cell))


@pytest.mark.django_db
def test_run_whose_stage_another_job_trains_waits_in_the_queue():
    snapshot = make_snapshot()
    first, second = create(snapshot), create(snapshot, "n")
    owner = jobs.claim(first.job_id)
    assert claim(owner, first.stages[0]["key"]) is None
    waiting = jobs.run(second.job_id)
    assert (waiting.state, waiting.attempt) == ("queued", 0)
    assert waiting.note == f"waits for stage 1, which job {first.job_id} trains"
    owner.close()


@pytest.mark.django_db
@pytest.mark.parametrize("how", ["failed", "cancelled", "queued", "another fence"])
def test_claim_of_a_job_that_runs_no_more_is_taken_over(how):
    snapshot = make_snapshot()
    first, second = create(snapshot), create(snapshot, "n")
    key = first.stages[0]["key"]
    owner = jobs.claim(first.job_id)
    claim(owner, key)
    owner.close()
    change = {"fence": 7} if how == "another fence" else {"state": how}
    jobs.Job.objects.filter(pk=first.job_id).update(**change)
    assert jobs.run(second.job_id).state == "done"
    assert StageClaim.objects.get(key=key).job_id == second.job_id
    assert TrainedStage.objects.get(key=key).run_id == second.pk


@pytest.mark.django_db
def test_cancelled_run_leaves_its_checkpoints_to_the_run_that_takes_the_stage_over(monkeypatch):
    snapshot = make_snapshot()
    first, second = create(snapshot), create(snapshot, "n")
    monkeypatch.setenv("FAKE_TRAINER", json.dumps({"killed_at": 3}))
    assert jobs.run(first.job_id).state == "failed"
    monkeypatch.delenv("FAKE_TRAINER")
    jobs.run(second.job_id)
    assert "from step 3" in (stage_folder(first.stages[0]["key"]) / "log.txt").read_text()
    assert sorted(second.metrics.filter(stage="stage1").values_list("step", flat=True)) == [1, 2, 3, 4]


@pytest.mark.django_db
def test_published_stage_wakes_the_runs_that_wait_for_it(monkeypatch, django_capture_on_commit_callbacks):
    from training.runs import job as sharing

    snapshot = make_snapshot()
    first, second, other = create(snapshot, "none"), create(snapshot, "n"), create(snapshot, format="b")
    woken = []
    monkeypatch.setattr(sharing, "send_wake", woken.append)
    with django_capture_on_commit_callbacks(execute=True):
        jobs.run(first.job_id)
    assert [job.pk for job in woken] == [second.job_id] and other.job_id not in woken


@pytest.mark.django_db
@pytest.mark.parametrize("harm", ["removed", "gone", "damaged"])
def test_stage_whose_files_are_not_there_any_more_is_trained_again(harm, tmp_path):
    snapshot = make_snapshot()
    first = create(snapshot, "none")
    jobs.run(first.job_id)
    known = TrainedStage.objects.get()
    files = tmp_path / "store" / known.store_key
    if harm == "removed":
        TrainedStage.objects.update(removed_at=timezone.now())
    if harm == "damaged":
        (files / "model.safetensors").write_bytes(b"other")
    else:
        shutil.rmtree(files)
    second = create(snapshot)
    assert jobs.run(second.job_id).state == "done"
    known.refresh_from_db()
    assert known.removed_at is None and known.run_id == second.pk
    second.refresh_from_db()
    assert second.summary["stage1"]["training"] == {"Steps": 4}


@pytest.mark.django_db
def test_finished_run_leaves_curves_and_log_but_no_second_copy_of_its_weights():
    run = create(make_snapshot())
    jobs.run(run.job_id)
    left = {path.name for entry in run.stages for path in stage_folder(entry["key"]).iterdir()}
    assert {"metrics.jsonl", "log.txt", "done.json"} <= left and not {"export", "checkpoints"} & left


@pytest.mark.django_db
def test_facts_of_a_stage_outlive_the_kill_before_the_next(monkeypatch):
    run = create(make_snapshot())
    monkeypatch.setattr("training.runs.job.publish_model", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        jobs.run(run.job_id)
    monkeypatch.undo()
    run.refresh_from_db()
    assert set(run.summary) == {"stage1", "stage2"} and run.summary["stage1"]["training"] == {"Steps": 4}


@pytest.mark.django_db
def test_run_whose_model_was_removed_is_trained_again_when_it_is_asked_for(settings):
    snapshot = make_snapshot()
    run = create(snapshot, memo="none")
    jobs.run(run.job_id)
    Model.objects.update(removed_at=timezone.now())
    TrainedStage.objects.update(removed_at=timezone.now())
    again = create(snapshot, memo="none")
    assert again == run and again.job.state == "queued" and again.job_id != run.job_id
    assert jobs.run(again.job_id).state == "done"
    model = Model.objects.get()
    assert model.removed_at is None and str(again.job_id) in model.store_key
    assert create(snapshot, memo="none").job_id == again.job_id


@pytest.mark.django_db
def test_model_says_what_it_was_made_from(settings):
    rules = [{"domain": "hr", "code": "PAY", "version": 2, "hash": "ab"}]
    snapshot = make_snapshot(manifest={"rules": rules})
    first, second = create(snapshot, "none"), create(snapshot, "n")
    jobs.run(first.job_id)
    jobs.run(second.job_id)
    said = Model.objects.get(run=second).lineage
    assert said["snapshot"]["hash"] == snapshot.hash and said["rules"]["count"] == 1 and said["rules"]["hash"]
    assert [(one["stage"], one["run"]) for one in said["stages"]] == [
        ("stage1", first.pk),
        ("plain", second.pk),
    ]
    assert said["recipe_hash"] and said["base"] == {"name": "some/base"} and said["hardware"]["threads"]
    assert said["code"]["commit"] or said["code"]["version"]


@pytest.mark.django_db
def test_passes_without_rule_samples_are_equal_where_only_rule_samples_differ(settings):
    catalog = {"catalog_hash": "c" * 64}
    few, many = make_snapshot(**catalog), make_snapshot(**catalog)

    def keys(snapshot, retrieval):
        from training.core.recipe import Recipe

        return [step.key for step in run_steps(Recipe(retrieval=retrieval, base="some/base"), snapshot)]

    from training.runs import services

    plain = services.plain_hash
    services.plain_hash = lambda snapshot: "p" * 64
    try:
        assert keys(few, "n") == keys(many, "n") and keys(few, "n>r") == keys(many, "n>r")
        assert keys(few, "r+R") != keys(many, "r+R")
    finally:
        services.plain_hash = plain
    assert plain(few) == ""


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kills", [1, pytest.param(4, marks=pytest.mark.long)])
def test_two_workers_that_are_killed_train_every_stage_of_a_grid_once(settings, tmp_path, kills):
    snapshot = make_snapshot()
    retrievals = ("none", "n", "r", "r+R", "n>r")
    runs = [create(snapshot, r, memo=m) for m in ("none", "m") for r in retrievals]
    found = storm(tmp_path, runs, workers=2, kills=kills, seed=6, step_seconds=0.02)
    assert found["stages"] == 9 and found["asked"] == 15
    assert Run.objects.count() == 10 and connection.connection is not None
    assert Path(tmp_path / "stages").is_dir()


@pytest.mark.django_db
def test_stage_that_its_stopped_owner_finishes_while_another_waits_is_not_trained_again(monkeypatch):
    """A worker that is stopped, not killed, leaves a trainer that goes on; who takes over waits for its folder."""
    run = create(make_snapshot(), memo="none")
    folder = stage_folder(run.stages[0]["key"])
    wait = stages.wait_for_predecessor

    def orphan_finishes(ctx, place):
        wait(ctx, place)
        if not (place / "done.json").is_file():
            command = [sys.executable, "-m", "tests.training.fake_trainer", "stage2", "--run", str(place)]
            subprocess.run(command, check=True, cwd=Path(__file__).parents[2])

    monkeypatch.setattr(stages, "wait_for_predecessor", orphan_finishes)
    assert jobs.run(run.job_id).state == "done"
    assert (folder / "log.txt").read_text() == "stage2 from step 0\n"
