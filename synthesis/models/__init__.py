"""Samples with every attempt behind them, the ledger of calls, the review queue and its decisions, frozen snapshots."""

from synthesis.models.calls import ModelCall, ModelReply, PromptVersion
from synthesis.models.review import (
    Assignment,
    Batch,
    Decision,
    Guideline,
    Level,
    Regeneration,
    ReviewCount,
    ReviewItem,
    ReviewSkip,
    SampleComment,
    SampleCount,
    SavedView,
    SecondShare,
)
from synthesis.models.samples import Attempt, Sample, SynthesisRun
from synthesis.models.snapshots import FrozenLines, Snapshot, SnapshotSample

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
    "Sample",
    "SampleComment",
    "SampleCount",
    "SavedView",
    "SecondShare",
    "Snapshot",
    "SnapshotSample",
    "SynthesisRun",
]
