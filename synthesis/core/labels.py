"""What pages and cards call the ways of approval, and the reasons why an approved sample is not in a snapshot."""

HOW = {
    "read": "read by one person",
    "edited": "read and edited by one person",
    "second": "read by two people",
    "adjudicated": "read by three people",
    "bulk": "read in bulk",
    "batch": "accepted with its batch, not read",
    "policy": "by policy, not read",
    "import": "imported as approved, not read",
}
UNREAD = ("batch", "policy", "import")
REASONS = {
    "stale": "stale: rule, tools or pool changed since",
    "replaced": "a newer sample stands in the same place",
    "benchmark": "repeats a benchmark query",
    "few_shot": "repeats a few-shot query",
    "beyond_k": "more than k of its rule",
    "over_rrb": "more than the RRB samples asked for",
    "over_budget": "over its domain's budget",
    "taken_out": "RRB sample taken out by replace",
}
