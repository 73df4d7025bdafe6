"""What the real trainer leaves on another machine is what the import takes."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.training.deliveries import changed, small_snapshot  # noqa: E402
from tests.training.small_bases import write_base  # noqa: E402
from tests.training.small_encoder import small_encoder  # noqa: E402
from trace_site.lib.errors import TraceError  # noqa: E402
from trace_site.lib.files import read_json  # noqa: E402
from training.ml import __main__ as trainer  # noqa: E402
from training.models import Model, Run, TrainedStage  # noqa: E402
from training.runs.imports import adopt  # noqa: E402

pytestmark = [pytest.mark.ml, pytest.mark.django_db]
RECIPE = """
format: c
retrieval: RETRIEVAL
base: BASE
threads: 1
pocket: {encoder: ENCODER}
lora: {rank: 4}
stage1: {batch_size: 16, encoder_lr: 1.0e-4, rows_lr: 1.0e-4}
stage2: {batch_size: 16, encoder_lr: 1.0e-4, rows_lr: 1.0e-4}
"""


@pytest.mark.parametrize(
    ("base", "retrieval", "stages"),
    [("pocket", "r+R", ["stage1", "stage2"]), ("llama", "n>r", ["stage1", "plain", "stage2"])],
)
def test_a_chain_trained_by_the_real_trainer_is_adopted_with_all_its_stages(
    settings, tmp_path, monkeypatch, base, retrieval, stages
):
    settings.TRACE_HOME = tmp_path
    settings.STORE_URL = (tmp_path / "store").as_uri()
    snapshot = small_snapshot()
    named = base if base == "pocket" else str(write_base(tmp_path / "base", base))
    text = RECIPE.replace("ENCODER", small_encoder()).replace("BASE", named)
    (tmp_path / "recipe.yaml").write_text(text.replace("RETRIEVAL", retrieval))
    mine, before = tmp_path / "mine", None
    for stage in stages:
        train(stage, tmp_path, mine / stage, before, monkeypatch)
        before = mine / stage / "export"
    told = adopt(mine)
    run = Run.objects.get(pk=told["run"])
    assert run.cell == f"(c, m, {retrieval})" and told["stages_shared"] and run.snapshot == snapshot
    assert set(TrainedStage.objects.values_list("stage", flat=True)) == set(stages)
    model = Model.objects.get(run=run)
    assert model.parameters > 5_000 and model.lineage["code"]["version"] and run.hardware["cores"]
    assert set(run.metrics.values_list("stage", flat=True)) == set(stages)


@pytest.mark.parametrize(
    ("what", "told"), [("clauses", "rows do not follow"), ("tools", "ids do not follow")]
)
def test_a_pocket_whose_rows_are_of_another_ledger_is_refused(settings, tmp_path, monkeypatch, what, told):
    settings.TRACE_HOME = tmp_path
    settings.STORE_URL = (tmp_path / "store").as_uri()
    small_snapshot()
    text = RECIPE.replace("ENCODER", small_encoder()).replace("BASE", "pocket").replace("RETRIEVAL", "r+R")
    (tmp_path / "recipe.yaml").write_text(f"{text}memo: none\n")
    train("stage2", tmp_path, tmp_path / "mine", None, monkeypatch)
    path = tmp_path / "mine" / "export" / "trace.json"
    rows = read_json(path)[what]
    if what == "clauses":
        rows[0]["row"] += 1
    else:
        rows[0]["ids"][0] += 1
    changed(path, **{what: rows})
    with pytest.raises(TraceError, match=told):
        adopt(tmp_path / "mine")


def train(stage: str, home: Path, run: Path, init: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the page of runs trained elsewhere says it."""
    arguments = [stage, "--recipe", home / "recipe.yaml", "--snapshot", home / "small-snapshot", "--run", run]
    given = [*arguments, *(["--init", init] if init else [])]
    monkeypatch.setattr("sys.argv", ["training.ml", *map(str, given)])
    assert trainer.main() == 0
