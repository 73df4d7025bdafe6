"""Pages of grids: what would train is shown before, the matrix while and after."""

import pytest

from tests.factories import make_model, make_snapshot
from trace_site.jobs import Job
from training.core.grid import read_plan
from training.grids import services as grids_services
from training.models import Grid, Run
from training.registry import registry

pytestmark = pytest.mark.django_db
FORM = {"formats": ["a", "c"], "memos": ["m"], "retrievals": ["r", "r+R"], "seeds": "0", "base": "pocket"}


def form(*snapshots, **fields):
    return {**FORM, "snapshots": [str(one.pk) for one in snapshots], **fields}


@pytest.fixture
def grid():
    """Of pocket; it names all retrieval modes."""
    plan = read_plan({"snapshots": [make_snapshot().pk], "formats": ["a"], "memos": ["none", "m"]})
    return grids_services.grid_create(plan=plan, snapshots=grids_services.snapshots_of(plan))


@pytest.mark.parametrize(
    ("role", "status"), [("admin", 200), ("expert", 403), ("reviewer", 403), ("product_manager", 403)]
)
def test_only_admins_launch_grids(client_as, role, status):
    assert client_as(role).get("/training/grids/new/").status_code == status


def test_form_queues_every_cell_and_opens_the_grid(client_as):
    answer = client_as("admin").post(
        "/training/grids/new/", form(make_snapshot(), recipe="stage2: {lr: 0.003}")
    )
    grid = Grid.objects.get()
    assert answer.url == f"/training/grids/{grid.pk}/" and grid.cells.count() == 4
    assert {run.recipe["stage2"]["lr"] for run in Run.objects.all()} == {0.003}
    assert Run.objects.first().created_by.username == "admin"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"sweep": "add:1"}, "neither a snapshot"),
        ({"seeds": "x"}, "grid field &#x27;seeds&#x27;"),
        ({"recipe": "stage2: {rate: 1}"}, "stage2.rate"),
        ({"recipe": "{"}, "not valid YAML"),
        ({"formats": []}, "required"),
        ({"snapshots": []}, "Mark one, or name a sweep."),
    ],
    ids=str,
)
def test_what_is_wrong_is_named_and_nothing_is_queued(client_as, fields, says):
    client, sent = client_as("admin"), form(make_snapshot(), **fields)
    page = client.post("/training/grids/new/", sent)
    assert page.status_code == 422 and says in page.content.decode()
    assert says in client.get("/training/grids/new/preview/", sent).content.decode()
    assert not Run.objects.exists() and not Job.objects.exists()


def test_a_grid_is_offered_every_configured_base_and_trains_with_its_recipe(client_as, settings):
    settings.BASE_MODEL, settings.BASE_MODELS = "google/gemma-4-E4B-it", ["Qwen/Qwen3-0.6B"]
    client, snapshot = client_as("admin"), make_snapshot()
    page = client.get("/training/grids/new/").content.decode()
    assert (
        '<option value="google/gemma-4-E4B-it" selected>' in page and "vLLM serves named bases only" in page
    )
    client.post("/training/grids/new/", form(snapshot, base="Qwen/Qwen3-0.6B", recipe="stage2: {epochs: 3}"))
    run = Run.objects.first()
    assert (run.base, run.recipe["stage2"]["lr"], run.recipe["stage2"]["epochs"]) == (
        "Qwen/Qwen3-0.6B",
        1e-4,
        3,
    )
    refused = client.post("/training/grids/new/", form(snapshot, base="gpt-2"))
    assert refused.status_code == 422
    assert "the bases are google/gemma-4-E4B-it, pocket, Qwen/Qwen3-0.6B." in refused.content.decode()


def test_preview_counts_what_trains_and_starts_nothing(client_as):
    client, snapshot = client_as("admin"), make_snapshot()
    page = client.get("/training/grids/new/preview/", form(snapshot))
    said = {name: page.context[name] for name in ("stages", "train", "shared", "kept")}
    # a Stage 1 of each format, which r and r+R go on from
    assert said == {"stages": 8, "train": 6, "shared": 2, "kept": 0}
    every = client.get("/training/grids/new/preview/", form(snapshot, retrievals=["n", "r", "n>r"]))
    assert [one.cell.retrieval for one in every.context["planned"]] == ["n", "r", "n", "r", "n>r", "n>r"]
    assert not Run.objects.exists() and not Job.objects.exists()


def test_sweep_is_prepared_by_a_job_that_the_list_shows(client_as, monkeypatch):
    client = client_as("admin")
    answer = client.post("/training/grids/new/", form(sweep="append:0,3"))
    assert answer.url == "/training/grids/"
    page = client.get("/training/grids/").content.decode()
    assert Job.objects.get(kind="grid").params["plan"]["snapshots"] == ["append:0", "append:3"]
    assert "Being prepared" in page and "Grid of 8 cells" in page


def test_matrix_has_a_row_per_stage_1_and_a_column_per_stage_2(
    client_as, grid, django_assert_max_num_queries
):
    client = client_as("product_manager")
    with django_assert_max_num_queries(14):
        page = client.get(f"/training/grids/{grid.pk}/")
    matrix = page.context["matrix"]
    assert matrix.retrievals == ["none", "n", "r", "r+R", "n>r"]
    assert [(row.run.format, row.run.memo) for row in matrix.rows] == [("a", "none"), ("a", "m")]
    assert matrix.active == 10 and b"every 5s" in page.content and b"Cancel all" not in page.content


def test_trained_cells_show_model_score_and_what_they_reuse(client_as, grid, monkeypatch):
    first, second, *others = Run.objects.order_by("pk")
    for run in (first, second, *others):
        make_model(run=run)
    Run.objects.filter(pk=second.pk).update(summary={"stage1": {"reused_from_run": first.pk}})
    Job.objects.update(state="done")
    plan = read_plan({"snapshots": [first.snapshot_id], "formats": ["a"], "memos": ["none"]})
    other = grids_services.grid_create(plan=plan, snapshots=grids_services.snapshots_of(plan))

    def told(models):
        return {first.model.pk: registry.Score(0.8125, 0.7, 0.9, 40, "hit@1, trace, PRB", "/evaluation/1/")}

    monkeypatch.setattr("training.grids.selectors.scores_of", told)
    page = client_as("expert").get(f"/training/grids/{grid.pk}/").content.decode()
    assert "0.81" in page and "/evaluation/1/" in page and "hit@1, trace, PRB" in page
    assert f'Stage 1 of <a href="/training/{first.pk}/">run {first.pk}</a>' in page
    assert f'also in <a href="/training/grids/{other.pk}/">' in page
    assert "Every cell is trained" in page and "every 5s" not in page


def test_live_part_reloads_the_page_when_the_last_cell_has_ended(client_as, grid):
    client = client_as("admin")
    assert "HX-Refresh" not in client.get(f"/training/grids/{grid.pk}/live/")
    Job.objects.update(state="failed", error="The disk is full.")
    assert client.get(f"/training/grids/{grid.pk}/live/")["HX-Refresh"] == "true"
    page = client.get(f"/training/grids/{grid.pk}/").content
    assert b"The disk is full." in page and b"Resume all" in page and b"Cancel all" not in page


def test_cancel_and_resume_all_from_the_page(client_as, grid):
    client = client_as("admin")
    client.post(f"/training/grids/{grid.pk}/cancel/")
    assert set(Job.objects.values_list("state", flat=True)) == {"cancelled"}
    client.post(f"/training/grids/{grid.pk}/resume/")
    assert set(Job.objects.values_list("state", flat=True)) == {"queued"}


def test_list_counts_cells_in_a_fixed_number_of_queries(client_as, grid, django_assert_num_queries):
    client = client_as("admin")
    client.get("/training/grids/")
    snapshot = make_snapshot()
    for fmt in "abc":
        plan = read_plan({"snapshots": [snapshot.pk], "formats": [fmt], "memos": ["m"]})
        grids_services.grid_create(plan=plan, snapshots=grids_services.snapshots_of(plan))
    make_model(run=grid.cells.first().run)
    page = client.get("/training/grids/")
    rows = {row.pk: (row.trained, row.many, row.active, row.bad) for row in page.context["page"].rows}
    assert rows[grid.pk] == (1, 10, 10, 0) and len(rows) == 4


@pytest.mark.parametrize(("role", "says"), [("admin", "New grid"), ("expert", "See the runs")])
def test_empty_list_says_what_to_do_next(client_as, role, says):
    page = client_as(role).get("/training/grids/").content.decode()
    assert "No grid yet" in page and says in page


def test_form_without_snapshots_offers_a_sweep(client_as):
    assert b"let a sweep build them" in client_as("admin").get("/training/grids/new/").content


def test_form_starts_with_the_newest_snapshot(client_as):
    make_snapshot()
    newest = make_snapshot()
    form = client_as("admin").get("/training/grids/new/").context["form"]
    assert form["snapshots"].value() == [str(newest.pk)]
