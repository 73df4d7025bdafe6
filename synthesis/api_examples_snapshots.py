"""Examples of the API's description of snapshots: one of 36 samples, and what the next one changed."""

from synthesis.api_examples import AT, got, page

HASH = "9f2b61c0d1" * 6 + "9f2b"
OPTIONS = {
    "strategy": "append",
    "per_rule": 12,
    "branches": ["rrb", "rule"],
    "rrb": None,
    "domain": "",
    "seed": 0,
    "strict": False,
    "budgets": {"hr": {"rule": 24}},
    "licence": "CC-BY-4.0",
}
COUNTS = {
    "samples": 36,
    "rrb": 12,
    "rule": 24,
    "imported": 0,
    "styles": {"explicit": 8, "implicit": 8, "exception": 8},
    "rules_with_samples": 2,
    "rules": 3,
    "tools": 40,
    "removed": 0,
    "contaminated": 1,
    "stale": {"tool changed": 2},
    "replaced": 0,
    "short": 1,
    "left_out": 3,
}
ROW = {
    "id": 5,
    "hash": HASH,
    "catalog_hash": HASH,
    "strategy": "append",
    "per_rule": 12,
    "params": OPTIONS,
    "counts": COUNTS,
    "created_by": "erin",
    "created_at": AT,
}
FILE = {"sha256": HASH, "bytes": 20480, "rows": 36}
DETAIL = {
    "snapshot": ROW,
    "manifest": {
        "schema": 2,
        "hash": HASH,
        "counts": COUNTS,
        "files": {"samples.jsonl": FILE},
        "shortfall": {"hr/LEAVE_FORM": 0},
    },
}
CARD = {"card": "---\npretty_name: TRACE snapshot 9f2b61c0d19f\n---\n\n# TRACE snapshot 9f2b61c0d19f\n"}
SAMPLE = {
    "id": 812,
    "query": "where is my pay slip of March",
    "trace": "A pay slip of this year is read in the new system. So it is PayrollNova/GetPayslip.",
    "answer": ["PayrollNova/GetPayslip"],
    "permissions": [],
    "branch": "rule",
    "domain": "hr",
    "style": "implicit",
    "tier": "",
    "writer": "llm:writer-large",
    "rule": "PAYSLIP_PERIOD",
}
DIFF = {
    "a": {**ROW, "id": 4},
    "b": ROW,
    "counts": {"changed": 1, "added": 0, "removed": 0, "rules": 1, "tools": 0},
    "options": [{"option": "per_rule", "before": 6, "after": 12}],
    "totals": [{"branch": "rule", "domain": "hr", "style": "implicit", "before": 8, "after": 8}],
    "results": [
        {
            "kind": "changed",
            "name": "sample 812",
            "before": {**SAMPLE, "id": 640, "query": "my pay slip please"},
            "after": SAMPLE,
        }
    ],
    "next": None,
}

__all__ = ["CARD", "DETAIL", "DIFF", "ROW", "got", "page"]
