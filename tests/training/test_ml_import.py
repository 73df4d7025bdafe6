"""What the real trainer leaves on another machine is what the import takes."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.training.deliveries import small_snapshot  # noqa: E402
from tests.training.small_encoder import small_encoder  # noqa: E402
from training.ml import __main__ as trainer  # noqa: E402
from training.models import Model, Run, TrainedStage  # noqa: E402
from training.runs.imports import adopt  # noqa: E402

pytestmark = [pytest.mark.ml, pytest.mark.django_db]
RECIPE = """
format: c
retrieval: n>r
threads: 1
pocket: {encoder: ENCODER, vocab: 512, layers: 1, heads: 2, intermediate: 32}
stage1: {batch_size: 16, encoder_lr: 1.0e-4, rows_lr: 1.0e-4}
stage2: {batch_size: 16, encoder_lr: 1.0e-4, rows_lr: 1.0e-4}
"""


def test_chain_of_n_then_r_trained_by_the_real_trainer_is_adopted_with_all_its_stages(
    settings, tmp_path, monkeypatch
):
    settings.TRACE_HOME = tmp_path
    settings.STORE_URL = (tmp_path / "store").as_uri()
    snapshot = small_snapshot()
    (tmp_path / "recipe.yaml").write_text(RECIPE.replace("ENCODER", small_encoder()))
    mine, before = tmp_path / "mine", None
    for stage in ("stage1", "plain", "stage2"):
        train(stage, tmp_path, mine / stage, before, monkeypatch)
        before = mine / stage / "export"
    told = adopt(mine)
    run = Run.objects.get(pk=told["run"])
    assert run.cell == "(c, m, n>r)" and told["stages_shared"] and run.snapshot == snapshot
    assert set(TrainedStage.objects.values_list("stage", flat=True)) == {"stage1", "plain", "stage2"}
    model = Model.objects.get(run=run)
    assert model.parameters > 5_000 and model.lineage["code"]["version"] and run.hardware["cores"]
    assert set(run.metrics.values_list("stage", flat=True)) == {"stage1", "plain", "stage2"}


def train(stage: str, home: Path, run: Path, init: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the page of runs trained elsewhere says it."""
    arguments = [stage, "--recipe", home / "recipe.yaml", "--snapshot", home / "small-snapshot", "--run", run]
    given = [*arguments, *(["--init", init] if init else [])]
    monkeypatch.setattr("sys.argv", ["training.ml", *map(str, given)])
    assert trainer.main() == 0
