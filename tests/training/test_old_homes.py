"""A home with runs of an earlier version comes through the migrations with all it holds."""

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from tests.factories import make_snapshot

OLD = [("training", "0003_audited")]


def migrated(targets):
    executor = MigrationExecutor(connection)
    executor.migrate(targets)
    return MigrationExecutor(connection).loader.project_state(targets).apps


@pytest.mark.django_db(transaction=True)
def test_run_of_an_old_home_keeps_its_stage_1_its_model_and_its_place():
    newest = MigrationExecutor(connection).loader.graph.leaf_nodes()
    snapshot = make_snapshot()
    try:
        old = migrated(OLD)
        cell = {"base": "pocket", "format": "a", "memo": "m", "retrieval": "r", "recipe": {"seed": 0}}
        runs = old.get_model("training", "Run").objects
        run = runs.create(key="k" * 64, snapshot_id=snapshot.pk, stage1_key="s" * 64, **cell)
        bare = runs.create(key="b" * 64, snapshot_id=snapshot.pk, stage1_key="", **cell)
        kept = {"store_key": "models/x/stage1", "store_digest": "d" * 64}
        old.get_model("training", "Stage1").objects.create(key="s" * 64, run=run, **kept)
        model = old.get_model("training", "Model").objects.create(run=run, bytes=5, **kept)
    finally:
        migrated(newest)
    from training.models import Model, Run, TrainedStage

    assert Run.objects.get(pk=run.pk).stages == [{"stage": "stage1", "key": "s" * 64}]
    assert Run.objects.get(pk=bare.pk).stages == [] and Run.objects.get(pk=run.pk).why == "manual"
    stage = TrainedStage.objects.get(key="s" * 64)
    assert (stage.stage, stage.run_id, stage.bytes, stage.removed_at) == ("stage1", run.pk, 0, None)
    found = Model.objects.get(pk=model.pk)
    assert found.lineage == {} and found.removed_at is None and found.run.snapshot == snapshot
