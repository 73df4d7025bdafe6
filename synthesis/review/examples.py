"""Examples of the API's description: a payslip sample that is claimed, decided, and taken back."""

from drf_spectacular.utils import OpenApiParameter

from trace_site.rest.examples import AT

CLAIM = "7b0f6f0e-6f0a-4a56-9b39-3d6c1f4b2a10"
SKIP = OpenApiParameter("skip", bool, description="put it off: it comes to you again after all others")
ITEM = {
    "claim": CLAIM,
    "lease_seconds": 300,
    "item": 4021,
    "round": 1,
    "sample": 812,
    "seen": "3b1f0c118f5d4d43",
    "branch": "rule",
    "domain": "hr",
    "style": "implicit",
    "tier": "",
    "rule": "PAYSLIP_PERIOD",
    "rule_version": 2,
    "rule_text": "Months since March 2026 are in PayrollNova, older ones in PayrollOne.",
    "writer": "offline",
    "query": "where do i see what i was paid in april",
    "trace": "April 2026 is after the change. By PAYSLIP_PERIOD it is PayrollNova/GetPayslip.",
    "answer": ["PayrollNova/GetPayslip"],
    "pool": [
        {"name": "PayrollNova/GetPayslip", "description": "Reads a payslip."},
        {"name": "PayrollOne/GetPayslip", "description": "Reads a payslip up to February 2026."},
    ],
    "readings": [],
}
QUEUE = {
    "left": 12,
    "claimed_by_others": 9,
    "frees_at": AT,
    "assigned_to_others": 0,
    "read_by_you": 3,
    "adjudications_read_by_you": 3,
    "held": 40,
    "elsewhere": 0,
}
LEASE = {"claim": CLAIM, "item": 4021, "lease_seconds": 300}
REJECTION = {
    "claim": CLAIM,
    "verdict": "reject",
    "reason": "rule_unclear",
    "note": "March itself is in both.",
    "follow_up": "regenerate",
    "seen": "3b1f0c118f5d4d43",
    "seconds": 14.5,
}
DECIDED = {"sample": 812, "human": "rejected", "approved_by": "", "approved_how": ""}
LOST = {
    "message": "sample 812: rita has it now, for 4 min unless they go on. Take the next one.",
    "code": "conflict",
    "extra": {"sample": 812, "item": 4021, "round": 1, "state": "claimed"},
}
FILTERED = {
    "message": "sample 812: leakage: The query names a tool. Correct it and try again.",
    "code": "filtered",
    "extra": {
        "failures": [
            {
                "check": "leakage",
                "message": "The query names a tool.",
                "evidence": "PayrollNova/GetPayslip",
                "span": [3, 25],
            }
        ]
    },
}
NOTHING = {"message": "you have no decision to undo.", "code": "nothing_to_undo", "extra": {}}
