"""Query drafts outside of a run: from the configured writer, within a limit of time, nothing stored as a sample."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from django.conf import settings

from synthesis.core.queries import QueryDraft, QueryRequest, Writers
from synthesis.core.recipe import default_recipe
from synthesis.endpoints import clients, configured, endpoints
from synthesis.ledger import DatabaseLedger
from synthesis.writers.llm import llm_writers
from synthesis.writers.offline import offline_writers
from trace_site.lib.errors import TraceError

SECONDS = 20.0  # for all drafts together
CONCURRENCY = 12


def drafted(requests: Sequence[QueryRequest]) -> tuple[str, list[QueryDraft | TraceError]]:
    """The writer's name, and a draft or a refusal each. What fails alike for all is raised.

    The writer is the language model where an endpoint is configured, else the offline one. What a model is paid for
    stands in the ledger, and is not paid twice.
    """
    if not configured():
        writers = offline_writers(default_recipe())
        return writers.name, asyncio.run(_drafts(writers, requests))
    name, drafts = asyncio.run(_asked(requests))
    refusals = [draft for draft in drafts if isinstance(draft, TraceError)]
    if refusals and len(refusals) == len(drafts) and len({refusal.code for refusal in refusals}) == 1:
        raise refusals[0]
    return name, drafts


async def _asked(requests: Sequence[QueryRequest]) -> tuple[str, list[QueryDraft | TraceError]]:
    ledger = DatabaseLedger(None)
    seconds = min(SECONDS, settings.LLM_TIMEOUT_SECONDS)
    made = clients(
        {
            role: replace(one, timeout=seconds, concurrency=CONCURRENCY, retries=1)
            for role, one in endpoints().items()
        },
        ledger,
    )
    try:
        writers = llm_writers(made, default_recipe())
        return writers.name, await _drafts(writers, requests)
    finally:
        for client in set(made.values()):
            await client.close()
        ledger.close()


async def _drafts(writers: Writers, requests: Sequence[QueryRequest]) -> list[QueryDraft | TraceError]:
    return list(await asyncio.gather(*(_draft(writers, one) for one in requests)))


async def _draft(writers: Writers, request: QueryRequest) -> QueryDraft | TraceError:
    try:
        async with asyncio.timeout(SECONDS):
            return await writers.query.write(request)
    except TraceError as error:
        return error
    except TimeoutError:
        return TraceError(f"the writer did not answer within {SECONDS:.0f} seconds.", code="llm_timeout")
