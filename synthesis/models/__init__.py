"""Samples with every attempt behind them, the ledger of calls, the review queue and its decisions, frozen snapshots."""

from synthesis.models.calls import ModelCall, ModelReply, PromptVersion
from synthesis.models.review import (
    Assignment,
    Batch,
    Decision,
    Guideline,
    Regeneration,
    ReviewItem,
    ReviewSkip,
    SampleComment,
    SavedView,
    SecondShare,
)
from synthesis.models.samples import Attempt, Level, ReviewCount, Sample, SampleCount, SynthesisRun
from synthesis.models.snapshots import FrozenLines, Snapshot, SnapshotSample
from synthesis.models.units import RunUnit

__all__ = [
    "Assignment",
    "Attempt",
    "Batch",
    "Decision",
    "FrozenLines",
    "Guideline",
    "Level",
    "ModelCall",
    "ModelReply",
    "PromptVersion",
    "Regeneration",
    "ReviewCount",
    "ReviewItem",
    "ReviewSkip",
    "RunUnit",
    "Sample",
    "SampleComment",
    "SampleCount",
    "SavedView",
    "SecondShare",
    "Snapshot",
    "SnapshotSample",
    "SynthesisRun",
]
