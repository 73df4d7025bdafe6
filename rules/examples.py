"""Examples of the API's description: one rule about payslips, from check to published."""

from trace_site.rest.examples import AT

CONTENT = {
    "tool_name": "PayrollNova/GetPayslip",
    "confusables": ["PayrollOne/GetPayslip"],
    "rule_text": "From 2024 on use PayrollNova/GetPayslip; for earlier periods PayrollOne/GetPayslip.",
    "clauses": [
        {
            "when": "the period is before 2024",
            "route_to": "PayrollOne/GetPayslip",
            "exception": True,
            "signals": ["December 2023"],
        }
    ],
    "tests": [{"query": "my payslip of March 2024", "tools": ["PayrollNova/GetPayslip"]}],
}
RULE = {"code": "PAYSLIP_PERIOD", "domain": "hr", **CONTENT}
FINDING = {
    "code": "no_test",
    "level": "warning",
    "sentence": "The rule has no test query.",
    "fix": "Add one query for the target and one for an exception.",
    "other": "",
    "place": {"pointer": "/tests", "start": None, "end": None},
    "path": [],
}
VERSION = {
    "number": 2,
    "published": True,
    "note": "the year of the cut-over",
    "author": "erin",
    "created_at": AT,
    "content_hash": "9f2b61c0d1" * 6 + "9f2b",
}
STATEMENTS = [
    {
        "token": "<<hr/PAYSLIP_PERIOD#1>>",
        "text": "From 2024 on use PayrollNova/GetPayslip",
        "stance": "use",
        "tools": ["PayrollNova/GetPayslip"],
        "in_force": True,
    },
    {
        "token": "<<hr/PAYSLIP_PERIOD#2>>",
        "text": "for earlier periods PayrollOne/GetPayslip.",
        "stance": "use",
        "tools": ["PayrollOne/GetPayslip"],
        "in_force": True,
    },
]
PAIR = {
    "tools": ["PayrollNova/GetPayslip", "PayrollOne/GetPayslip"],
    "state": "apart",
    "read": "apart",
    "words": ["From 2024 on use PayrollNova/GetPayslip", "clause 1: the period is before 2024"],
    "add": "",
    "correction": None,
}
ROW = {
    "id": 7,
    "code": "PAYSLIP_PERIOD",
    "domain": "hr",
    "state": "published",
    "light": "warning",
    "target": "PayrollNova/GetPayslip",
    "version": 2,
    "published": 2,
    "changed_at": AT,
}
DETAIL = {
    "id": 7,
    "code": "PAYSLIP_PERIOD",
    "domain": "hr",
    "published": 2,
    "newest": {**VERSION, "content": CONTENT},
    "findings": [FINDING],
}
DIFF = {
    "changed": ["text"],
    "target": None,
    "confusables_added": [],
    "confusables_removed": [],
    "text": [
        {"kind": "same", "words": "From"},
        {"kind": "removed", "words": "2023"},
        {"kind": "added", "words": "2024"},
    ],
    "clauses_added": [],
    "clauses_removed": [],
    "tests_added": [],
    "tests_removed": [],
}
IMPORTED = {
    "request": 31,
    "format": "json",
    "added": 1,
    "changed": 0,
    "unpublished": 0,
    "unchanged": 25,
    "skipped": 0,
    "errors": [],
    "ignored": {"evidence": 1},
    "changes": [{"kind": "added", "domain": "hr", "code": "PAYSLIP_PERIOD"}],
}
CHANGE = {
    "id": 44,
    "request": 31,
    "revision": 3,
    "action": "save",
    "rule": {"id": 7, "code": "PAYSLIP_PERIOD", "domain": "hr"},
    "domain": "",
    "code": "",
    "note": "the year of the cut-over",
    "content": CONTENT,
    "base": 2,
    "edited_by": "erin",
    "edited_at": AT,
    "version": None,
}
REQUEST = {
    "id": 31,
    "title": "PAYSLIP_PERIOD",
    "description": "The cut-over was a year later.",
    "state": "in_review",
    "revision": 4,
    "author": "erin",
    "reason": "",
    "apply_at": None,
    "blocked": "",
    "bypassed": False,
    "applied_at": None,
    "created_at": AT,
    "updated_at": AT,
}
COMMENT = {"id": 5, "author": "ada", "text": "Does this hold for pensioners too?", "at": AT}
REQUEST_DETAIL = {
    **REQUEST,
    "changes": [{"change": CHANGE, "diff": DIFF, "problems": [], "findings": [FINDING], "conflicts": []}],
    "approvals": [],
    "approvals_missing": 1,
    "comments": [COMMENT],
    "may": ["edit", "cancel", "comment"],
}
LINES = [
    {"name": "samples", "count": 48, "label": "samples become stale"},
    {"name": "snapshots", "count": 1, "label": "snapshot holds them"},
]
MEANWHILE = {
    "message": "ada saved this change at 09:14:02 UTC on 21 Nov 2026, after you opened it; nothing was overwritten. "
    "Compare it with yours, take over what you need, and save again.",
    "code": "edited_meanwhile",
    "extra": {"revision": 4, "by": "ada", "at": "2026-11-21T09:14:02+00:00"},
}
BAD_RULE = {
    "message": "/confusables/0: 'PayrollOne/GetPayslp' is not in the catalog. Closest: PayrollOne/GetPayslip.",
    "code": "bad_rule",
    "extra": {"problems": [{"pointer": "/confusables/0", "message": "'PayrollOne/GetPayslp' is not in the catalog."}]},
}  # fmt: skip
BAD_FILE = {
    "message": "rules.csv:5, column confusables, entry 1: 'PayrollOne/GetPayslp' is not in the catalog. "
    "(1 problem; nothing was imported.)",
    "code": "bad_rules",
    "extra": {"errors": ["rules.csv:5, column confusables, entry 1: 'PayrollOne/GetPayslp' is not …"], "count": 1},
}  # fmt: skip
NOT_OWN = {
    "message": "Nobody approves or rejects their own request. Ask another domain expert or an admin; cancel it if it "
    "is not wanted any more.",
    "code": "not_allowed",
    "extra": {},
}
STALE = {
    "message": "The request was edited since you opened it: you saw revision 3, now it is 4. Read what changed, then "
    "decide again.",
    "code": "stale_revision",
    "extra": {"revision": 4},
}
