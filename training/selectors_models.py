"""Reads behind a model's page: what it was made from, and which of its parts are kept."""

from typing import Any

from training.models import Run, TrainedStage


def stages_of(run: Run) -> list[dict[str, Any]]:
    """[{"stage", "key", "made"}]: the run's stages in order, with the TrainedStage that holds each; one query."""
    keys = [row["key"] for row in run.stages]
    made = TrainedStage.objects.in_bulk(keys, field_name="key")
    return [{**row, "made": made.get(row["key"])} for row in run.stages]
