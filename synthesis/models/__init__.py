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
    FrozenLines,
    Level,
    LoopSettings,
    ModelCall,
    ModelReply,
    PromptVersion,
    ReviewCount,
    RunUnit,
    Sample,
    SampleCount,
    Snapshot,
    SnapshotSample,
    SynthesisRun,
)
