"""Inspection only: everything is written by services."""

from catalog.admin import inspected
from synthesis.models import (
    Attempt,
    Decision,
    ModelCall,
    ModelReply,
    PromptVersion,
    Sample,
    Snapshot,
    SynthesisRun,
)

inspected(SynthesisRun, "id branch writer job created_at", filters="branch", list_select_related=["job"])
inspected(
    Sample,
    "id branch style tier machine human query",
    filters="branch style tier machine human",
    search_fields=["query", "key"],
    show_full_result_count=False,
)
inspected(
    Attempt, "id sample_id number outcome error_code query", filters="outcome", show_full_result_count=False
)
inspected(
    Decision,
    "id sample_id verdict reason reviewer policy at",
    filters="verdict",
    list_select_related=["reviewer"],
    show_full_result_count=False,
)
inspected(
    ModelCall,
    "uid purpose model state error_code prompt_tokens completion_tokens cost",
    filters="purpose model state error_code",
    show_full_result_count=False,
)
inspected(
    ModelReply,
    "key purpose model prompt_tokens completion_tokens at",
    filters="purpose model",
    show_full_result_count=False,
)
inspected(PromptVersion, "name hash first_used", filters="name")
inspected(Snapshot, "id strategy per_rule hash created_at")
