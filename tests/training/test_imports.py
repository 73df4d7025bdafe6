"""A run trained elsewhere comes in whole or not at all, and once."""

import json
import shutil

import pytest
from django.core.management import CommandError, call_command

from catalog.models import TokenUnit
from tests.factories import thawed
from tests.training.deliveries import BASE, chain, changed, deliver, resealed, small_snapshot
from trace_site import jobs
from trace_site.audit.models import AuditEntry
from trace_site.lib.errors import TraceError
from training.models import Model, Run, RunMetric, TrainedStage
from training.registry.registry import export_dir
from training.runs import imports
from training.runs.imports import adopt
from training.runs.services import run_create

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fake_trainer")]


@pytest.fixture
def snapshot(fake_trainer):
    return small_snapshot()


def create(snapshot, **cell):
    from training.core.recipe import Recipe

    fields = {"base": BASE, "format": "a", "memo": "m", "retrieval": "r", **cell}
    return run_create(snapshot=snapshot, recipe=Recipe(**fields))


def test_adopted_run_has_its_model_curves_lineage_and_a_queued_evaluation(snapshot, tmp_path, user_with):
    admin = user_with("admin")
    told = adopt(chain(tmp_path / "mine", snapshot), actor=admin)
    run = Run.objects.get(pk=told["run"])
    assert (run.cell, run.why, run.job, run.created_by) == ("(a, m, r)", "import", None, admin)
    assert run.summary["stage2"]["training"] == {"Steps": 2} and "two steps" in run.log_tail
    assert run.hardware["cores"] and RunMetric.objects.filter(run=run).count() == 4
    model = Model.objects.get(pk=told["model"])
    assert (export_dir(model) / "README.md").read_text() == "# stage2\n"
    assert model.parameters == 12 and model.lineage["imported"] == "mine"
    assert model.lineage["snapshot"]["hash"] == snapshot.hash and model.lineage["code"]["version"]
    assert jobs.Job.objects.get(pk=told["evaluation_job"]).params == {"model": model.pk}
    assert AuditEntry.objects.get(action="run.imported").detail["model"] == model.pk


def test_adopting_again_changes_nothing(snapshot, tmp_path):
    folder = chain(tmp_path / "mine", snapshot)
    first, again = adopt(folder), adopt(folder)
    assert first["new"] and not again["new"] and first["model"] == again["model"]
    assert (Run.objects.count(), Model.objects.count(), TrainedStage.objects.count()) == (1, 1, 2)
    assert AuditEntry.objects.filter(action="run.imported").count() == 1


def test_adopted_stages_are_reused_by_runs_that_train_here(snapshot, tmp_path):
    adopted = Run.objects.get(pk=adopt(chain(tmp_path / "mine", snapshot))["run"])
    other = create(snapshot, retrieval="n")
    assert jobs.run(other.job_id).state == "done"
    other.refresh_from_db()
    assert other.summary["stage1"] == {"reused_from_run": adopted.pk}
    assert create(snapshot) == adopted and not jobs.Job.objects.filter(params={"run": adopted.pk}).exists()


def test_stage_2_on_a_stage_1_of_ours_is_shared_and_on_an_unknown_one_is_not(snapshot, tmp_path):
    adopt(deliver(tmp_path / "one", snapshot, "stage1", retrieval="none"))
    known = deliver(tmp_path / "two", snapshot, "stage2", tmp_path / "one")
    assert adopt(known)["stages_shared"] and TrainedStage.objects.filter(stage="stage2").count() == 1
    elsewhere = deliver(tmp_path / "other", snapshot, "stage1", seed=3)
    unknown = deliver(tmp_path / "three", snapshot, "stage2", elsewhere, seed=3)
    told = adopt(unknown)
    assert (
        told["new"] and not told["stages_shared"] and TrainedStage.objects.filter(stage="stage2").count() == 1
    )


def test_plain_pass_and_untrained_base_come_in_as_their_cells(snapshot, tmp_path):
    plain = adopt(deliver(tmp_path / "plain-only", snapshot, "plain", memo="none"))
    base = adopt(deliver(tmp_path / "base-only", snapshot, "stage1", memo="none", retrieval="none"))
    assert Run.objects.get(pk=plain["run"]).cell == "(a, none, n)"
    assert Run.objects.get(pk=base["run"]).cell == "(a, none, none)" and Model.objects.count() == 2


def test_cancelled_run_of_the_same_cell_is_completed_by_the_adopted_one(snapshot, tmp_path):
    run = create(snapshot)
    folder = chain(tmp_path / "mine", snapshot)
    with pytest.raises(TraceError, match="is training this cell now. Cancel it"):
        adopt(folder)
    jobs.cancel(run.job)
    assert adopt(folder)["run"] == run.pk
    run.refresh_from_db()
    assert run.job is None and run.why == "import"


def test_cell_that_was_trained_here_with_other_weights_is_refused(snapshot, tmp_path):
    run = create(snapshot)
    assert jobs.run(run.job_id).state == "done"
    with pytest.raises(TraceError, match="has trained this cell already"):
        adopt(chain(tmp_path / "mine", snapshot))


def edit(name):
    def change(export):
        path = export / name
        path.write_bytes(path.read_bytes() + b" ")

    return change


def tools_of(export, change):
    spec = json.loads((export / "trace.json").read_text())
    changed(export / "trace.json", tools=change(spec["tools"]))


HARMS = {
    "no done.json": (lambda e: (e.parent / "done.json").unlink(), "not finished"),
    "no manifest": (lambda e: (e / "manifest.json").unlink(), "no export with a manifest.json"),
    "weights changed": (edit("model.safetensors"), "is not the file that the manifest describes"),
    "weights gone": (lambda e: (e / "model.safetensors").unlink(), "is not the file"),
    "a file more": (lambda e: (e / "model.bin").write_bytes(b"x"), "is not listed in the manifest"),
    "a link": (lambda e: (e / "extra.json").symlink_to("/etc/passwd"), "is not listed in the manifest"),
    "another manifest": (
        lambda e: edit("manifest.json")(e) or manifest(e, schema=2),
        "manifest.json.* is not the file",
    ),
    "a program": (lambda e: program(e), "is no file that an export holds"),
    "a file outside": (lambda e: outside(e), "is no file that an export holds"),
    "another recipe": (
        lambda e: (e.parent / "recipe.yaml").write_text(
            (e.parent / "recipe.yaml").read_text().replace("0.0001", "0.1")
        ),
        "is not the recipe that the model was trained with",
    ),
    "no recipe": (lambda e: (e.parent / "recipe.yaml").unlink(), "does not exist"),
    "another seed": (lambda e: changed(e / "trace.json", seed=9), "differ in seed"),
    "no tools": (lambda e: changed(e / "trace.json", tools=[]), "its tools are not those"),
    "another snapshot": (lambda e: changed(e / "trace.json", snapshot_hash="f" * 64), "none of ours"),
    "a tool less": (
        lambda e: tools_of(e, lambda tools: tools[1:]),
        "its tools are not those of its snapshot",
    ),
    "ids swapped": (
        lambda e: tools_of(e, lambda tools: [{**tools[0], "ids": tools[1]["ids"]}, *tools[1:]]),
        "do not follow the ledger",
    ),
    "another tokenizer": (lambda e: changed(e / "tokenizer.json", added_tokens=[]), "has the id None"),
    "no spec": (lambda e: (e / "trace.json").write_text("[]") and resealed(e), "is not a trainer's"),
}


def manifest(export, **fields):
    path = export / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def program(export):
    (export / "modeling.py").write_text("print(1)")
    files = json.loads((export / "manifest.json").read_text())["files"]
    manifest(export, files={**files, "modeling.py": {}})
    resealed(export)


def outside(export):
    files = json.loads((export / "manifest.json").read_text())["files"]
    manifest(export, files={**files, "../done.json": {"sha256": "0"}})


@pytest.mark.parametrize("harm", HARMS, ids=str)
def test_delivery_that_is_not_right_is_refused_and_leaves_nothing(harm, snapshot, tmp_path):
    do, says = HARMS[harm]
    folder = deliver(tmp_path / "mine", snapshot, "stage2", memo="none")
    do(folder / "export")
    with pytest.raises(TraceError, match=says) as refused:
        adopt(folder)
    assert refused.value.where and refused.value.hint
    assert not Run.objects.exists() and not Model.objects.exists() and not jobs.Job.objects.exists()


def test_token_that_stands_elsewhere_in_the_ledger_is_refused(snapshot, tmp_path):
    folder = deliver(tmp_path / "mine", snapshot, "stage2", memo="none")
    with thawed():
        TokenUnit.objects.filter(family="flat", slot=1).update(string="<<Other&&Tool>>")
    with pytest.raises(TraceError, match="the ledger has another token"):
        adopt(folder)


def test_stages_of_different_chains_are_refused(snapshot, tmp_path):
    chain(tmp_path / "mine", snapshot)
    shutil.rmtree(tmp_path / "mine" / "stage1")
    deliver(tmp_path / "mine" / "stage1", snapshot, "stage1", mcts_negatives=2)
    with pytest.raises(TraceError, match="was not trained from the export of stage1 beside it"):
        adopt(tmp_path / "mine")


def test_stage_1_of_another_recipe_is_refused(snapshot, tmp_path):
    stage1 = deliver(tmp_path / "mine" / "stage1", snapshot, "stage1", mcts_negatives=2)
    deliver(tmp_path / "mine" / "stage2", snapshot, "stage2", stage1)
    with pytest.raises(TraceError, match="of another recipe or snapshot"):
        adopt(tmp_path / "mine")


@pytest.mark.parametrize("fmt", ["b", "c"])
def test_formats_of_several_tokens_are_checked_against_the_ledger_too(fmt, snapshot, tmp_path):
    assert adopt(deliver(tmp_path / "mine", snapshot, "stage2", memo="none", format=fmt))["new"]


def test_command_adopts_and_says_what_is_wrong(snapshot, tmp_path, capsys):
    folder = chain(tmp_path / "mine", snapshot)
    call_command("training_import", str(folder), "--json")
    assert json.loads(capsys.readouterr().out.strip().splitlines()[-1])["new"]
    call_command("training_import", str(folder))
    assert "nothing changed" in capsys.readouterr().out
    with pytest.raises(CommandError, match="is not a folder"):
        call_command("training_import", str(tmp_path / "nowhere"))


def test_page_adopts_folders_of_the_inbox_and_no_others(client_as, snapshot, tmp_path, settings):
    chain(tmp_path / "imports" / "mine", snapshot)
    (tmp_path / "imports" / "half").mkdir()
    chain(tmp_path / "secret", snapshot, seed=4)
    client = client_as("admin")
    page = client.get("/training/elsewhere/").content.decode()
    assert "(a, m, r)" in page and "training.ml stage1" in page and f"snapshot-{snapshot.pk}-" in page
    assert "half" in page and page.count(">Adopt<") == 1
    for name in ("../secret", "", "/etc"):
        client.post("/training/elsewhere/adopt/", {"folder": name})
    assert not jobs.Job.objects.filter(kind="import").exists()
    client.post("/training/elsewhere/adopt/", {"folder": "mine"})
    job = jobs.run(jobs.Job.objects.get(kind="import").pk)
    assert job.state == "done", job.error
    assert Model.objects.count() == 1 and imports.waiting() == ["half", "mine"]


def test_empty_inbox_says_what_to_do(client_as):
    page = client_as("admin").get("/training/elsewhere/").content.decode()
    assert "No folder in the inbox" in page and "There is no snapshot to train on" in page
