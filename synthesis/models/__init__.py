"""Samples with every attempt behind them, the ledger of calls, the review queue and its decisions, frozen snapshots."""

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
from synthesis.models.samples import (
    Attempt,
    Level,
    ModelCall,
    ModelReply,
    PromptVersion,
    ReviewCount,
    RunUnit,
    Sample,
    SampleCount,
    SynthesisRun,
)
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
