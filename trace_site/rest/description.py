"""What the OpenAPI document says before its operations."""

DESCRIPTION = """
Everything the site's pages do with the catalog, the rules and their review, for programs.

**Sign in.** Make a token on the account page and send `Authorization: Token <token>`. It may do what its owner may do,
and ends after a while and when its owner's password changes. A service token, which an admin makes, has scopes:
`retrieve`, `read` for GET, `write` for the rest. A signed-in browser may use the API as well; its writes need the CSRF
header.

**Errors** have one shape, `{"message", "code", "extra"}`: a sentence for people, a stable code for programs, facts.
400 wrong input (`extra` names the fields) · 401 no token, or one that has ended · 403 `not_allowed` · 404 `not_found` ·
409 `conflict`, `frozen`, `stale_revision`, `bad_state`, `findings` · 412 somebody changed it meanwhile ·
413 too large · 415 not JSON · 422 `key_reused` · 428 `If-Match` is missing · 429 too many requests ·
503 ask again after `Retry-After`; without it, something stored is missing or damaged (`store_corrupt`).

**Repeating a POST.** Send an `Idempotency-Key` (a UUID). The same request with the same key within 24 hours has its
effect once; the stored answer comes back with `Idempotent-Replayed: true`. Another request with that key is refused
with 422, one that is still running with 409. Refused requests are not stored: mend them and send the key again.

**Lists** are read in pages: `?limit=` (1 to 200, default 50) and `?after=`, which is the `next` of the page before.
`next` is null on the last page.

**Edits** of versioned objects need `If-Match` with the `ETag` that the object was read with.

**Webhooks** tell another server what happened. Each delivery is a POST with the headers `X-Trace-Event`,
`X-Trace-Delivery` (the same on every retry) and `X-Trace-Signature: t=<unix time>,v1=<hex>`, where `v1` is the
HMAC-SHA256 of `<t>.<body>` under the webhook's secret.
"""

TAGS = [
    {"name": "retrieve", "description": "Which tools answer a request."},
    {"name": "catalog", "description": "Domains, tools, imports and look-alikes."},
    {"name": "rules", "description": "Rules, their versions and findings."},
    {"name": "change-requests", "description": "Changes of rules, from draft to applied."},
    {"name": "synthesis", "description": "Runs of the writers, samples with every attempt, yield per rule."},
    {
        "name": "snapshots",
        "description": "Frozen datasets: composition, card, files, and what differs between two.",
    },
    {"name": "training", "description": "Runs, their stages and curves, and what a run would take."},
    {"name": "audit", "description": "Who did what, when, before and after."},
    {"name": "webhooks", "description": "Events sent to other servers, and their delivery log."},
]
