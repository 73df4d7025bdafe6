"""Query drafts outside of a run: from the configured writer, within a limit of time, nothing stored as a sample."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from django.conf import settings
from django.db import connection

from synthesis.core.queries import QueryDraft, QueryRequest, Writers
from synthesis.ledger import DatabaseCache
from synthesis.writers.llm import llm_writers
from synthesis.writers.offline import offline_writers
from trace_site.lib.errors import TraceError
from trace_site.lib.llm import Client

SECONDS = 20.0  # for all drafts together
CONCURRENCY = 12


def configured_writers() -> Writers:
    """The language model where an endpoint is configured, else the offline writers."""
    if not settings.LLM_BASE_URL:
        return offline_writers()
    client = Client(
        base_url=settings.LLM_BASE_URL,
        api_key=settings.LLM_API_KEY,
        timeout=min(SECONDS, settings.LLM_TIMEOUT_SECONDS),
        concurrency=CONCURRENCY,
        retries=1,
        cache=DatabaseCache(None),  # what is paid stands in the ledger, and is not paid twice
    )
    return llm_writers(client, settings)


def drafted(writers: Writers, requests: Sequence[QueryRequest]) -> list[QueryDraft | TraceError]:
    """A draft or a refusal each; side by side when each waits for an endpoint. What fails alike for all is raised."""
    if writers.name == "offline":
        drafts = [_draft(writers, one) for one in requests]
    else:
        pool = ThreadPoolExecutor(max(1, len(requests)))
        futures = [pool.submit(_draft_in_thread, writers, one) for one in requests]
        wait(futures, timeout=SECONDS)
        pool.shutdown(wait=False, cancel_futures=True)
        late = TraceError(f"the writer did not answer within {SECONDS:.0f} seconds.", code="llm_timeout")
        drafts = [future.result() if future.done() else late for future in futures]
    refusals = [draft for draft in drafts if isinstance(draft, TraceError)]
    if refusals and len(refusals) == len(drafts) and len({refusal.code for refusal in refusals}) == 1:
        raise refusals[0]
    return drafts


def _draft(writers: Writers, request: QueryRequest) -> QueryDraft | TraceError:
    try:
        return writers.query.write(request)
    except TraceError as error:
        return error


def _draft_in_thread(writers: Writers, request: QueryRequest) -> QueryDraft | TraceError:
    try:
        return _draft(writers, request)
    finally:
        connection.close()  # the ledger opened one for this thread
