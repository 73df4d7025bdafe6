"""A client for any OpenAI-compatible chat endpoint that answers in JSON.

In: messages, a JSON schema, a model. Out: a validated object, or a TraceError whose code says what went wrong: the
codes are those of exchange and client. Endpoint and Client are where to begin.
"""

from trace_site.lib.llm.client import Client, check_url
from trace_site.lib.llm.exchange import (
    FATAL,
    UNKNOWN_USAGE,
    Endpoint,
    Exchange,
    Ledger,
    LlmError,
    NoLedger,
    Reply,
)
from trace_site.lib.llm.limiter import Budget, Limiter, Spent, limiter_of, retry_after

__all__ = [
    "FATAL",
    "UNKNOWN_USAGE",
    "Budget",
    "Client",
    "Endpoint",
    "Exchange",
    "Ledger",
    "Limiter",
    "LlmError",
    "NoLedger",
    "Reply",
    "Spent",
    "check_url",
    "limiter_of",
    "retry_after",
]
