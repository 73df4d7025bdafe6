"""All that training keeps in the database."""

from training.models.grids import Grid, GridCell
from training.models.policies import Retraining, RetrainPolicy
from training.models.registry import AliasMove, Model
from training.models.runs import Run, RunMetric, StageClaim, TrainedStage

__all__ = [
    "AliasMove",
    "Grid",
    "GridCell",
    "Model",
    "RetrainPolicy",
    "Retraining",
    "Run",
    "RunMetric",
    "StageClaim",
    "TrainedStage",
]
