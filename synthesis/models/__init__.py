"""Samples with every attempt behind them, the ledger of calls, the review queue and its decisions, frozen snapshots."""

from synthesis.models.calls import ModelCall, ModelReply, PromptVersion
from synthesis.models.counts import Level, ReviewCount, SampleCount
from synthesis.models.decisions import Decision, Regeneration
from synthesis.models.queue import Assignment, Batch, ReviewItem, ReviewSkip, SecondShare
from synthesis.models.samples import Attempt, Sample, SynthesisRun
from synthesis.models.snapshots import FrozenLines, Snapshot, SnapshotSample
from synthesis.models.team import Guideline, SampleComment, SavedView
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
