"""A grid in the database: its snapshots, its runs, what it shares with others, cancel and resume, its command."""

import json

import pytest
from django.core.management import CommandError, call_command

from synthesis.models import Snapshot
from tests.factories import make_run, make_snapshot
from tests.synthesis.rows import make_book, make_sample
from trace_site import jobs
from trace_site.audit.models import AuditEntry
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from training.core.grid import Source, read_plan
from training.grids import services as grids_services
from training.models import Grid, GridCell, Model, Run, TrainedStage
from training.runs import stages

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fake_trainer")]
SMALL = {"formats": ["a"], "memos": ["none", "m"], "retrievals": ["n", "r"], "base": "some/base"}


def plan_on(*snapshots, **overrides):
    return read_plan({**SMALL, "snapshots": [snapshot.pk for snapshot in snapshots], **overrides})


def create(plan, **overrides):
    return grids_services.grid_create(plan=plan, snapshots=grids_services.snapshots_of(plan), **overrides)


def test_grid_queues_a_run_per_cell_in_training_order():
    grid = create(plan_on(make_snapshot()))
    cells = [cell.run for cell in grid.cells.select_related("run")]
    assert [run.cell for run in cells] == ["(a, none, n)", "(a, none, r)", "(a, m, n)", "(a, m, r)"]
    assert [run.job_id for run in cells] == sorted(run.job_id for run in cells)
    assert {run.why for run in cells} == {"grid"}
    said = AuditEntry.objects.get(action="grid.created").detail
    assert (said["cells"], said["train"], said["stages"]) == (4, 5, 6)


def test_equal_plan_is_the_same_grid_and_goes_on_where_it_ended():
    plan = plan_on(make_snapshot())
    grid = create(plan)
    assert (
        grids_services.grid_steer(grid=grid, verb="cancel") == 4
        and grids_services.grid_steer(grid=grid, verb="cancel") == 0
    )
    again = create(read_plan({**plan.as_dict(), "retrievals": ["r", "n"], "name": "said otherwise"}))
    assert again == grid and GridCell.objects.count() == 4
    assert set(Job.objects.filter(kind="training").values_list("state", flat=True)) == {"queued"}


def test_cells_of_two_grids_are_the_same_runs():
    snapshot = make_snapshot()
    first, second = create(plan_on(snapshot)), create(plan_on(snapshot, formats=["a", "b"]))
    shared = set(first.cells.values_list("run", flat=True)) & set(second.cells.values_list("run", flat=True))
    assert len(shared) == 4 and Run.objects.count() == 8 and Grid.objects.count() == 2


def test_two_names_of_one_snapshot_are_one_cell_each():
    """append(0) and replace(0) are the same dataset."""
    snapshot = make_snapshot()
    plan = read_plan({**SMALL, "snapshots": ["append:0", "replace:0"]})
    same = {Source(strategy=one): snapshot for one in ("append", "replace")}
    assert grids_services.grid_create(plan=plan, snapshots=same).cells.count() == 4


def test_forecast_tells_what_is_kept_and_starts_nothing():
    snapshot = make_snapshot()
    grid = create(plan_on(snapshot))
    for cell in grid.cells.select_related("run"):
        assert jobs.run(cell.run.job_id).state == "done"
    assert Model.objects.count() == 4 and TrainedStage.objects.count() == 5
    before = Run.objects.count()
    found = grids_services.grid_forecast(plan_on(snapshot, retrievals=["n", "r+R"]))
    assert [one.states for one in found] == [
        ("kept",),
        ("train",),
        ("kept", "kept"),
        ("kept", "train"),
    ]
    assert Run.objects.count() == before


def test_recipe_of_a_plan_goes_over_the_defaults_of_its_base():
    snapshot = make_snapshot()
    grid = create(plan_on(snapshot, recipe={"stage2": {"lr": 0.002}}, formats=["a"], memos=["m"]))
    run = grid.cells.first().run
    default = stages.default_recipe("some/base")
    assert run.recipe["stage2"]["lr"] == 0.002 and run.recipe["stage1"]["lr"] == default.stage1.lr
    with pytest.raises(TraceError, match=r"stage2\.rate"):
        grids_services.grid_start(plan=plan_on(snapshot, recipe={"stage2": {"rate": 1}}))


def test_snapshot_that_is_not_there_is_named():
    with pytest.raises(TraceError, match="there is no snapshot 999"):
        grids_services.grid_start(plan=read_plan({"snapshots": [999]}))
    assert not Job.objects.exists()


@pytest.fixture
def builds(monkeypatch):
    """What the snapshot service was asked for; each is a job that a test ends."""
    asked = []

    def start(*, actor, **options):
        asked.append(options)
        return Job.objects.create(kind="snapshot", queue="default", title="snapshot")

    monkeypatch.setattr(grids_services, "snapshot_start", start)
    monkeypatch.setattr(grids_services, "catalog_now", lambda: "c" * 64)
    return asked


def built(job, snapshot):
    Job.objects.filter(pk=job.pk).update(state="done", result={"id": snapshot.pk})


def test_sweep_waits_in_the_queue_until_its_snapshots_are_built(builds):
    plan = read_plan({**SMALL, "snapshots": ["append:0,3"], "rrb": 5})
    job = grids_services.grid_start(plan=plan)
    waiting = jobs.run(job.pk)
    first, second = Job.objects.filter(kind="snapshot").order_by("pk")
    assert (waiting.state, waiting.note) == ("queued", f"waits for append(0), which job {first.pk} builds")
    assert [(one["strategy"], one["per_rule"], one["rrb"]) for one in builds] == [
        ("append", 0, 5),
        ("append", 3, 5),
    ]
    built(first, make_snapshot())
    assert jobs.run(job.pk).note == f"waits for append(3), which job {second.pk} builds"
    built(second, make_snapshot())
    done = jobs.run(job.pk)
    assert done.state == "done" and done.result["cells"] == 8 and len(builds) == 2


def test_sweep_builds_real_snapshots_and_k_0_holds_no_rule_sample():
    version = make_book()
    for _ in range(4):
        make_sample(version, human="approved")
    for _ in range(3):
        make_sample(None, human="approved")
    plan = read_plan({"snapshots": ["append:0,2", "replace:0"], "formats": ["a"], "memos": ["m"]})
    expected = [one.states for one in grids_services.grid_forecast(plan)]
    job = grids_services.grid_start(plan=plan)
    while (ran := jobs.run(job.pk)).state == "queued":
        for pk in ran.params["builds"].values():
            jobs.run(pk)
    assert ran.state == "done", ran.error
    counts = {f"{one.strategy}({one.per_rule})": one.counts for one in Snapshot.objects.all()}
    assert counts["append(0)"]["rule"] == 0 and counts["append(0)"]["rrb"] == 3
    assert counts["append(2)"]["rule"] == 2 and "replace(0)" not in counts, "it equals append(0)"
    grid = Grid.objects.get()
    assert grid.cells.count() == 10
    runs = {(cell.run.snapshot.per_rule, cell.run.retrieval): cell.run for cell in grid.cells.all()}
    for retrieval in ("none", "n", "r", "n>r"):
        assert runs[0, retrieval].stages == runs[2, retrieval].stages
    assert runs[0, "r+R"].stages[1] != runs[2, "r+R"].stages[1]
    for job in Job.objects.filter(kind="training").order_by("pk"):
        assert jobs.run(job.pk).state == "done"
    assert TrainedStage.objects.count() == 6 == sum(states.count("train") for states in expected)


def test_snapshot_that_cannot_be_built_ends_the_grid_and_a_retry_builds_it_again(builds):
    job = grids_services.grid_start(plan=read_plan({**SMALL, "snapshots": ["append:0"]}))
    jobs.run(job.pk)
    Job.objects.filter(kind="snapshot").update(state="failed", error="no approved sample fits.")
    failed = jobs.run(job.pk)
    assert (
        failed.state == "failed" and "append(0) could not be built: no approved sample fits." in failed.error
    )
    jobs.retry(failed)
    assert jobs.run(job.pk).state == "queued" and len(builds) == 2


def test_resume_queues_only_what_ended_badly():
    grid = create(plan_on(make_snapshot()))
    done, failed, *_ = Job.objects.filter(kind="training").order_by("pk")
    Job.objects.filter(pk=done.pk).update(state="done")
    Job.objects.filter(pk=failed.pk).update(state="failed")
    assert grids_services.grid_steer(grid=grid, verb="resume") == 1


def test_command_shows_a_plan_before_anything_starts(capsys, tmp_path):
    snapshot = make_snapshot()
    path = tmp_path / "plan.yaml"
    path.write_text(f"snapshots: [{snapshot.pk}]\nformats: [a]\nmemos: [m]\nbase: some/base\n")
    call_command("training_grid", str(path), "--retrievals", "n,r", "--dry-run", "--json")
    *lines, last = capsys.readouterr().out.strip().splitlines()
    said = json.loads(last)
    assert (said["cells"], said["stages"], said["train"], said["shared"]) == (2, 4, 3, 1)
    assert lines[0] == f"(a, m, n) on snapshot {snapshot.pk}: stage1 train, plain train"
    assert not Run.objects.exists() and not Job.objects.exists()


@pytest.mark.parametrize(("named", "base"), [("", "org/base-1B"), ("base: pocket\n", "pocket")])
def test_plan_file_that_names_no_base_gets_the_configured_one(capsys, tmp_path, settings, named, base):
    settings.BASE_MODEL = "org/base-1B"
    path = tmp_path / "plan.yaml"
    path.write_text(f"snapshots: [{make_snapshot().pk}]\nformats: [a]\n{named}")
    call_command("training_grid", str(path), "--dry-run", "--json")
    assert json.loads(capsys.readouterr().out.strip().splitlines()[-1])["plan"]["base"] == base


def test_command_trains_every_cell_and_goes_on_with_what_failed(capsys, monkeypatch):
    options = [
        "--snapshot",
        str(make_snapshot().pk),
        "--formats",
        "a",
        "--memos",
        "m",
        "--retrievals",
        "r,r+R",
    ]
    monkeypatch.setenv("FAKE_TRAINER", json.dumps({"error_at": 2}))
    with pytest.raises(CommandError, match="2 of 2 cells did not end well"):
        call_command("training_grid", *options, "--train")
    monkeypatch.delenv("FAKE_TRAINER")
    call_command("training_grid", *options, "--train", "--json")
    said = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert len(said["models"]) == 2 and Grid.objects.count() == 1


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ([], "at least one"),
        (["--snapshot", "7"], "there is no snapshot 7"),
        (["--sweep", "add:1"], "neither a snapshot's number nor a sweep"),
        (["--snapshot", "1", "--formats", "d"], "grid field 'formats'"),
        (["--snapshot", "1", "--recipe", "/nowhere.yaml"], "does not exist"),
        (["/nowhere.yaml"], "does not exist"),
    ],
    ids=str,
)
def test_command_names_what_is_wrong(options, error):
    with pytest.raises(CommandError, match=error):
        call_command("training_grid", *options)


def test_run_made_by_hand_becomes_a_cell_of_the_grid(django_assert_max_num_queries):
    snapshot = make_snapshot()
    cell = {"base": "some/base", "format": "a", "memo": "m", "retrieval": "n"}
    by_hand = grids_services.run_create(
        snapshot=snapshot, recipe=stages.default_recipe("some/base").with_cell(**cell)
    )
    make_run(snapshot=snapshot)
    grid = create(plan_on(snapshot))
    assert by_hand.pk in grid.cells.values_list("run", flat=True)
    by_hand.refresh_from_db()
    assert by_hand.why == "manual"
