"""Examples of the API's description: why samples of a rule were rejected, and the lineage of one that was approved."""

from typing import Any

from trace_site.rest.examples import AT

SAMPLE = {
    "id": 813,
    "run": 8,
    "branch": "rule",
    "domain": "hr",
    "rule": "PAYSLIP_PERIOD",
    "rule_version": 2,
    "style": "implicit",
    "tier": "",
    "query": "my PayrollNova/GetPayslip for March please",
    "answer": ["PayrollNova/GetPayslip"],
    "machine": "dropped",
    "human": "pending",
    "approved_how": "",
    "why": "filter V: leakage",
    "writer": "llm:writer-large",
    "created_at": AT,
}
ATTEMPT = {
    "number": 1,
    "outcome": "filtered",
    "query": "my PayrollNova/GetPayslip for March please",
    "trace": "",
    "answer": ["PayrollNova/GetPayslip"],
    "filter_failures": [
        {
            "check": "leakage",
            "message": "The query names a tool.",
            "evidence": "PayrollNova/GetPayslip",
            "span": [3, 25],
        }
    ],
    "judge": {},
    "critique": "The query names a tool. (PayrollNova/GetPayslip)",
    "error": "",
    "error_code": "",
    "calls": 1,
    "at": AT,
}
SAMPLE_DETAIL = {
    "sample": SAMPLE,
    "trace": "",
    "explanation": "March 2026 is after the cut-over.",
    "permissions": [],
    "pool": ["PayrollOne/GetPayslip", "PayrollNova/GetPayslip"],
    "seed": 51241,
    "slot": "rule:hr:PAYSLIP_PERIOD:implicit:3",
    "key": "9f2b61c0d1" * 6 + "9f2b",
    "made_from": {"branch": "rule", "style": "implicit", "index": 3},
    "thresholds": {"naturalness": 3, "compliance": 3, "label": 4, "faithfulness": 4},
    "attempts": [ATTEMPT],
    "stale": {
        "level": "content",
        "reasons": [
            {
                "kind": "rule",
                "what": "PAYSLIP_PERIOD",
                "was": "v2",
                "now": "v3",
                "content": True,
                "text": "rule PAYSLIP_PERIOD went v2 -> v3",
            }
        ],
    },
}
NOTE = "March could be of either year"
REJECTIONS: dict[str, Any] = {
    "rule": 7,
    "code": "PAYSLIP_PERIOD",
    "domain": "hr",
    "version": 3,
    "rejected": 1,
    "decided": 12,
    "sentence": f"1 of 12 rejected: rule text ambiguous (1) “{NOTE}”",
    "reasons": [
        {
            "reason": "rule_unclear",
            "text": "rule text ambiguous",
            "count": 1,
            "said": [{"sample": 813, "style": "implicit", "note": NOTE}],
        }
    ],
    "styles": {"implicit": {"rejected": 1, "decided": 12}},
}
NOVA = "PayrollNova/GetPayslip"
LINEAGE: dict[str, Any] = {
    "sample": {
        **SAMPLE,
        "id": 901,
        "query": "my payslip for March 2026",
        "machine": "ready",
        "human": "approved",
    },
    "key": "3c0d5be2a1" * 6 + "3c0d",
    "seed": 90210,
    "approved_how": "read",
    "rule": {
        "rule": 7,
        "code": "PAYSLIP_PERIOD",
        "version": 3,
        "hash": "ab" * 32,
        "text": f"Payslips from 2024 on are read with {NOVA}.",
        "published": 3,
        "author": "erin",
    },
    "tools": [
        {
            "name": NOVA,
            "role": "answer",
            "state": "changed",
            "then": "Reads payslips.",
            "now": "Reads payslips since 2024.",
            "since": AT,
        }
    ],
    "stages": [
        {
            "stage": "query",
            "by": "writer-large",
            "prompt": "query_rule",
            "prompt_hash": "5f0c2a9be1d34c77",
            "key": "77ab01c2d3e4f5061728394a",
            "parameters": {"temperature": 0.9},
        }
    ],
    "few_shots": ["how many days off do i have left"],
    "recipe": {"retries": 5},
    "attempts": [{**ATTEMPT, "outcome": "ready", "filter_failures": [], "critique": ""}],
    "calls": 3,
    "place": [
        {"sample": 813, "machine": "ready", "human": "rejected", "again_for": None, "critique": None},
        {
            "sample": 901,
            "machine": "ready",
            "human": "approved",
            "again_for": 813,
            "critique": f"Rule text ambiguous: {NOTE}.",
        },
    ],
    "decisions": [
        {
            "round": 1,
            "verdict": "approve",
            "reviewer": "rita",
            "policy": "",
            "reason": "",
            "note": "",
            "follow_up": "",
            "batch": None,
            "at": AT,
        }
    ],
    "decisions_hidden": 0,
    "snapshots": [{"snapshot": 4, "hash": "cd" * 32, "position": 17}],
    "made": [
        {
            "kind": "run",
            "id": 2,
            "of": 4,
            "label": "run 2 (a, m, r+R)",
            "state": "done",
            "about": "pocket",
            "aliases": [],
        }
    ],
}
