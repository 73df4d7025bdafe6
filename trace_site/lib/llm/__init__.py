"""A client for any OpenAI-compatible chat endpoint that answers in JSON.

In: messages, a JSON schema, a model. Out: a validated object, or a TraceError whose code says what went wrong: the
codes are those of exchange and client. Endpoint and Client are where to begin.
"""
