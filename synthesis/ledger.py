"""Model replies kept by content key: a cache, so that none is paid twice, and a ledger of what was paid."""

from typing import Any

from synthesis.models import ModelCall
from trace_site.jobs import Job
from trace_site.lib.llm import Reply


class DatabaseCache:
    """The cache of trace_site.lib.llm over the ModelCall table."""

    def __init__(self, job: Job | None) -> None:
        self.job = job

    def get(self, key: str) -> dict[str, Any] | None:
        return ModelCall.objects.filter(key=key).values_list("response", flat=True).first()

    def put(self, key: str, reply: Reply, *, purpose: str, prompt_hash: str) -> None:
        ModelCall.objects.get_or_create(
            key=key,
            defaults={
                "purpose": purpose[:20],
                "model": reply.model,
                "prompt_hash": prompt_hash,
                "response": reply.data,
                "prompt_tokens": reply.prompt_tokens,
                "completion_tokens": reply.completion_tokens,
                "seconds": reply.seconds,
                "job": self.job,
            },
        )
