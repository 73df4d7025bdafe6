"""Inspection only: everything is written by services."""

from typing import Any

from catalog.admin import inspected
from synthesis import models

large: dict[str, Any] = {"show_full_result_count": False}
inspected(
    models.SynthesisRun, "id branch writer job created_at", filters="branch", list_select_related=["job"]
)
inspected(
    models.Sample,
    "id branch style tier machine human query",
    filters="branch style tier machine human",
    search_fields=["query", "key"],
    **large,
)
inspected(models.Attempt, "id sample_id number outcome error_code query", filters="outcome", **large)
inspected(
    models.Decision,
    "id sample_id verdict reason reviewer policy at",
    filters="verdict",
    list_select_related=["reviewer"],
    **large,
)
inspected(
    models.ModelCall,
    "uid purpose model state error_code prompt_tokens completion_tokens cost",
    filters="purpose model state error_code",
    **large,
)
inspected(
    models.ModelReply,
    "key purpose model prompt_tokens completion_tokens at",
    filters="purpose model",
    **large,
)
inspected(models.PromptVersion, "name hash first_used", filters="name")
inspected(models.Snapshot, "id strategy per_rule hash created_at")
