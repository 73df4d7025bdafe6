"""Pages of runs and models: launching a cell, watching its curves, promoting a model."""

import pytest

from tests.factories import make_model, make_run, make_snapshot
from trace_site.jobs import Job
from training import selectors
from training.models import AliasMove, Run, RunMetric
from training.services import default_recipe

pytestmark = pytest.mark.django_db


def form(snapshot, **fields):
    cell = {"base": "pocket", "format": "c", "memo": "m", "retrieval": "r", "seed": "5"}
    return {"snapshot": snapshot.pk, **cell, **fields}


@pytest.mark.parametrize(
    ("role", "status"), [("admin", 200), ("expert", 403), ("reviewer", 403), ("product_manager", 403)]
)
def test_only_admins_launch_runs(client_as, role, status):
    make_snapshot()
    assert client_as(role).get("/training/new/").status_code == status


def test_launch_form_queues_the_chosen_cell_with_the_typed_recipe(client_as):
    answer = client_as("admin").post("/training/new/", form(make_snapshot(), **{"stage2.lr": "0.0005"}))
    run = Run.objects.get()
    assert answer.url == f"/training/{run.pk}/"
    assert (run.cell, run.seed, run.recipe["stage2"]["lr"]) == ("(c, m, r)", 5, 0.0005)
    assert run.recipe["stage1"]["lr"] == default_recipe("pocket").stage1.lr
    assert run.job.state == "queued"


def test_a_wrong_recipe_field_is_named_and_nothing_is_queued(client_as):
    page = client_as("admin").post("/training/new/", form(make_snapshot(), **{"stage1.lr": "fast"}))
    assert page.status_code == 422 and b"stage1.lr" in page.content
    assert not Run.objects.exists()


def test_an_equal_run_is_shown_instead_of_being_trained_again(client_as):
    client, snapshot = client_as("admin"), make_snapshot()
    first, second = (client.post("/training/new/", form(snapshot)) for _ in range(2))
    assert first.url == second.url and Job.objects.count() == 1


def test_form_without_a_snapshot_says_what_to_do(client_as):
    assert b"Build a snapshot" in client_as("admin").get("/training/new/").content


def test_another_base_brings_its_own_defaults(client_as):
    page = client_as("admin").get("/training/recipe/", {"base": "google/gemma-4-E4B-it"}).content.decode()
    assert 'value="1e-04"' in page or 'value="0.0001"' in page


@pytest.fixture
def run():
    job = Job.objects.create(kind="training", queue="gpu", title="train", state="running", done=5, total=10)
    run = make_run(job=job, log_tail="stage 1 begins")
    for stage, step, loss in (("stage1", 1, 8.0), ("stage1", 2, 6.5), ("stage2", 1, 7.25)):
        RunMetric.objects.create(run=run, stage=stage, step=step, data={"loss": loss, "lr": 0.001})
    return run


def test_live_fragment_draws_a_curve_per_stage_and_asks_again(client_as, run):
    page = client_as("product_manager").get(f"/training/{run.pk}/live/")
    loss, lr = page.context["live"].charts
    assert [curve.name for curve in loss.curves] == ["Stage 1", "Stage 2"]
    assert [point for point in loss.table if point[0] == "Stage 1"] == [
        ("Stage 1", 1.0, 8.0),
        ("Stage 1", 2.0, 6.5),
    ]
    assert b"every 2s" in page.content and b"7.25" in page.content and b"stage 1 begins" in page.content


def test_live_fragment_stops_asking_when_the_run_has_ended_and_says_why(client_as, run):
    Job.objects.update(state="failed", error="The disk is full. Free some space and resume.")
    page = client_as("admin").get(f"/training/{run.pk}/").content
    assert b"every 2s" not in page and b"The disk is full." in page and b"Resume" in page


def test_run_page_lists_the_other_runs_on_its_snapshot(client_as, run):
    other = make_run(snapshot=run.snapshot, retrieval="n")
    AliasMove.objects.create(alias="champion", model=make_model(run=other))
    page = client_as("expert").get(f"/training/{run.pk}/")
    assert [one.pk for one in page.context["runs"]] == [other.pk]
    assert b"champion" in page.content


def test_cancel_and_resume_reach_the_job(client_as, run):
    client = client_as("admin")
    client.post(f"/training/{run.pk}/cancel/")
    assert Job.objects.get(pk=run.job_id).cancel_requested
    Job.objects.update(state="cancelled")
    client.post(f"/training/{run.pk}/resume/")
    assert Job.objects.get(pk=run.job_id).state == "queued"


def test_list_shows_the_newest_loss_in_the_same_number_of_queries(
    client_as, run, django_assert_max_num_queries
):
    for _ in range(10):
        make_run(snapshot=run.snapshot)
    client = client_as("reviewer")
    with django_assert_max_num_queries(9):
        rows = client.get("/training/").context["page"].rows
    assert rows[-1].loss == 7.25


def test_promotion_is_an_admins_and_says_what_it_does(client_as):
    old, new = make_model(), make_model()
    AliasMove.objects.create(alias="champion", model=old)
    client = client_as("admin")
    page = client.get(f"/training/models/{new.pk}/").content.decode()
    assert f"model {old.pk} <b>previous</b>" in page
    client.post(f"/training/models/{new.pk}/promote/", {"note": "better where rules are"})
    moves = list(AliasMove.objects.order_by("pk").values_list("alias", "model"))
    assert moves == [("champion", old.pk), ("previous", old.pk), ("champion", new.pk)]
    history = client.get("/training/models/").content.decode()
    assert "better where rules are" in history


def test_others_do_not_promote(client_as):
    assert client_as("expert").post(f"/training/models/{make_model().pk}/promote/").status_code == 403
    assert not AliasMove.objects.exists()


def test_snapshot_fragment_lists_its_runs(client_as, run):
    make_run()
    page = client_as("expert").get(f"/training/of-snapshot/{run.snapshot_id}/")
    assert [one.pk for one in page.context["runs"]] == [run.pk]


def test_model_card_is_read_as_tables_and_text_without_markup():
    card = "# Card\n\nRead <b>this</b>.\n\n| fact | value |\n|---|---|\n| Base | pocket |\n"
    assert selectors.card_parts(card) == [
        ("heading", "Card"),
        ("text", "Read <b>this</b>."),
        ("table", [("Base", "pocket")]),
    ]
