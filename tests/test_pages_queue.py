"""The queue of the training worker, and runs side by side."""

from dataclasses import asdict, replace
from datetime import timedelta

import pytest
from django.utils import timezone

from tests.factories import make_model, make_run, make_snapshot
from trace_site.jobs import Job
from trace_site.worker import Worker
from training.models import RunMetric
from training.runs.curves import MOST_COMPARED, chosen, compared_fields
from training.runs.selectors import queue
from training.runs.stages import default_recipe

pytestmark = pytest.mark.django_db


def job(state="queued", **fields):
    return Job.objects.create(
        **{"kind": "evaluation", "queue": "gpu", "title": "evaluate", "state": state, **fields}
    )


@pytest.fixture
def past():
    """Two evaluations of 60 and 100 seconds that ended."""
    now = timezone.now()
    for seconds in (60, 100):
        job("done", started_at=now - timedelta(seconds=seconds), finished_at=now)


def test_without_a_worker_the_page_says_how_to_start_one(client_as):
    page = client_as("expert").get("/training/queue/").content.decode()
    assert "No training worker is alive." in page and "celery -A trace_site worker" in page
    assert "every 5s" in page  # it is watched for


def test_a_living_worker_is_shown_with_its_hardware(client_as):
    hardware = {
        "cpu": "X",
        "gpu": "Big",
        "gpu_memory_gb": 140,
        "gpus": 2,
        "threads": 4,
        "cores": 8,
        "memory_gb": 64,
    }
    Worker.objects.create(name="box.example:71", queues=["gpu"], hardware=hardware)
    page = client_as("expert").get("/training/queue/").content.decode()
    assert "box.example" in page and "2 × Big, 140 GB" in page and "No training worker" not in page


def test_what_waits_starts_when_what_is_before_it_ends(past):
    Worker.objects.create(name="box:1", queues=["gpu"])
    now = timezone.now()
    running = job("running", done=50, total=100, rate=5.0, started_at=now)
    first, second = job(), job()
    job(queue="default")
    found = queue()
    assert [entry.job.pk for entry in found.running] == [running.pk]
    assert [entry.job.pk for entry in found.waiting] == [first.pk, second.pk]
    starts = [round((entry.starts - now).total_seconds()) for entry in found.waiting]
    assert starts == pytest.approx([10, 90], abs=2)
    assert found.waiting[0].basis == "the median of earlier jobs of its kind"


def test_after_a_job_of_unknown_length_nothing_is_promised():
    Worker.objects.create(name="box:1", queues=["gpu"])
    job("running", started_at=timezone.now())
    job()
    (waiting,) = queue().waiting
    assert waiting.starts is None and waiting.ends is None


def test_a_waiting_run_is_estimated_and_only_admins_may_cancel_it(client_as):
    recipe = asdict(default_recipe("pocket"))
    snapshot = make_snapshot(counts={"tools": 40, "rrb": 100, "rule": 50, "imported": 0})
    run = make_run(job=job(kind="training"), recipe=recipe, snapshot=snapshot)
    (entry,) = queue().waiting
    assert entry.run == run and entry.seconds > 0 and "rule of thumb" in entry.basis
    assert b"danger" not in client_as("expert").get("/training/queue/").content
    page = client_as("admin").get("/training/queue/live/").content.decode()
    assert f'action="/training/{run.pk}/cancel/"' in page


def test_the_queue_asks_as_often_for_forty_runs_as_for_one(client_as, django_assert_max_num_queries):
    recipe = asdict(default_recipe("pocket"))
    snapshot = make_snapshot()
    for number in range(40):
        made = recipe | {"seed": number}
        make_run(job=job(kind="training"), recipe=made, snapshot=snapshot, seed=number)
    client = client_as("expert")
    with django_assert_max_num_queries(15):
        page = client.get("/training/queue/")
    assert len(page.context["queue"].waiting) == 40


def test_a_stage_that_an_earlier_run_of_the_queue_trains_is_counted_once():
    recipe = asdict(default_recipe("pocket"))
    snapshot = make_snapshot(counts={"tools": 40, "rrb": 100, "rule": 50, "imported": 0})
    stages = [{"stage": "stage1", "key": "same"}]
    for way in ("r", "n"):
        own = recipe | {"retrieval": way}
        last = {"stage": "stage2" if way == "r" else "plain", "key": way}
        make_run(job=job(kind="training"), recipe=own, snapshot=snapshot, stages=[*stages, last], memo="m")
    alone = queue().waiting[0].seconds
    Job.objects.filter(pk=queue().waiting[0].job.pk).update(state="cancelled")
    later_alone = queue().waiting[0].seconds
    Job.objects.update(state="queued")
    first, second = (entry.seconds for entry in queue().waiting)
    assert first == alone and second < later_alone


@pytest.fixture
def pair():
    """Two runs that differ in one field and in their data, with curves and a model each."""
    recipe = default_recipe("pocket")
    other = replace(recipe, stage2=replace(recipe.stage2, lr=0.5))
    runs = [make_run(recipe=asdict(one), retrieval=way) for one, way in ((recipe, "r"), (other, "n"))]
    for run in runs:
        make_model(run=run)
        for step in range(1, 500):
            data = {"loss": 8 / step, "lr": 0.1, "tokens": 100 * step, "seconds": step / 2}
            RunMetric.objects.create(run=run, stage="stage2", step=step, data=data)
    return runs


def test_runs_stand_side_by_side_with_what_differs(client_as, pair):
    a, b = pair
    page = client_as("expert").get(f"/training/compare/?run={a.pk}&run={b.pk}")
    text = page.content.decode()
    assert [(name, values) for name, _, values in page.context["differing"]] == [
        ("stage2.lr", [f"{default_recipe('pocket').stage2.lr:g}", "0.5"])
    ]
    ((title, charts),) = page.context["sections"]
    assert title == "Stage 2" and [curve.name for curve in charts[0].curves] == [
        f"run {a.pk} (a, none, r)",
        f"run {b.pk} (a, none, n)",
    ]
    assert f"snapshots/diff/?a={a.snapshot_id}&amp;b={b.snapshot_id}" in text
    assert f'hx-get="/evaluation/models/{a.model.pk}/"' in text
    assert len(text) < 100_000


def test_curves_are_drawn_across_steps_tokens_or_seconds(client_as, pair):
    address = f"/training/compare/?run={pair[0].pk}&run={pair[1].pk}"
    client = client_as("expert")
    ends = [
        client.get(f"{address}&x={axis}").context["sections"][0][1][0].x_ticks[-1]
        for axis in ("step", "tokens", "x")
    ]
    assert ends[0] == ends[2] and ends[1] != ends[0]


def test_a_comparison_asks_as_often_for_six_runs_as_for_two(client_as, pair, django_assert_max_num_queries):
    more = [make_run(recipe=asdict(default_recipe("pocket"))) for _ in range(6)]
    client = client_as("expert")
    address = "/training/compare/?" + "&".join(f"run={run.pk}" for run in [*pair, *more])
    with django_assert_max_num_queries(8):
        page = client.get(address)
    assert len(page.context["runs"]) == MOST_COMPARED and b"the first 6 are shown" in page.content


def test_one_run_or_none_leads_to_a_choice(client_as, pair):
    client = client_as("expert")
    assert b"Choose two to six runs" in client.get(f"/training/compare/?run={pair[0].pk}").content
    assert client.get("/training/compare/?run=9999999&run=x&run=-1").status_code == 404
    assert client.get("/training/compare/").status_code == 200


def test_the_order_asked_for_is_kept_and_doubles_are_dropped(pair):
    a, b = pair
    assert [run.pk for run in chosen([str(b.pk), str(a.pk), str(b.pk), "²"])] == [b.pk, a.pk]


def test_fields_that_one_recipe_lacks_are_said_to_be_missing():
    runs = [make_run(recipe={"seed": 1}), make_run(recipe={"seed": 1, "stage1": {"lr": 0.1}})]
    assert [(name, values) for name, _, values in compared_fields(runs) if len(set(values)) > 1] == [
        ("stage1.lr", ["–", "0.1"])
    ]
