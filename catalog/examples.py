"""Examples of the API's description: two payroll tools and the file that changes them."""

from trace_site.rest.examples import AT

TOOL = {
    "id": 12,
    "name": "PayrollNovaV2/GetPayslip",
    "api": "PayrollNovaV2",
    "endpoint": "GetPayslip",
    "family": "PayrollNova",
    "api_version": 2,
    "description": "Returns the payslip of one employee for one month.",
    "domain": "hr",
    "permissions": ["payslip.read"],
    "deprecated": False,
    "version": "2.4",
    "status": "active",
    "cluster": 31,
    "source": "payroll-nova.yaml",
    "blocked": False,
}
OLDER = {
    **TOOL,
    "id": 7,
    "name": "PayrollNovaV1/GetPayslip",
    "api": "PayrollNovaV1",
    "api_version": 1,
    "version": "1.9",
    "deprecated": True,
}
TOKENS = {
    "a": "<<PayrollNovaV2&&GetPayslip>>",
    "b": "<<PayrollNovaV2>><<GetPayslip>>",
    "c": "<tid><<PayrollNovaV2>><<GetPayslip>></tid>",
}
NOT_BLOCKED = {"blocked_at": None, "blocked_by": None, "blocked_because": ""}
DETAIL = {**TOOL, **NOT_BLOCKED, "tokens": TOKENS, "content_hash": "4f1c" * 16}
DETAIL |= {"created_at": AT, "updated_at": AT}
BLOCKING = {"because": "the service is down until Monday"}
BLOCKED = {
    **DETAIL,
    "blocked": True,
    "blocked_at": AT,
    "blocked_by": "ada",
    "blocked_because": BLOCKING["because"],
}
BLOCKED_ALREADY = {
    "message": "PayrollNovaV2/GetPayslip is blocked already.",
    "code": "bad_state",
    "extra": {},
}
FOUND = {"results": [TOOL], "next": "86545 PayrollNovaV2/GetPayslip", "total": 835, "more": False}
FOUND["meant"] = {"ayslip": ["payslip"]}
REVISION = {
    "id": 90,
    "at": AT,
    "content_hash": "4f1c" * 16,
    "data": {
        key: TOOL[key] for key in ("name", "description", "domain", "permissions", "deprecated", "version")
    },
    "imported_by": 3,
    "undo_of": None,
}
DOMAIN = {"slug": "hr", "title": "HR", "active": 895, "deprecated": 24, "retired": 3}
CLUSTER = {
    "id": 31,
    "domain": "hr",
    "clustering": 4,
    "label": "get payslip: PayrollNova V1 and V2",
    "tools": [7, 12],
    "edges": [[7, 12, 0.93]],
    "reasons": [["the same operation in two versions of one API"]],
    "mean_similarity": 0.93,
    "dismissed_reason": "",
    "dismissed_by": None,
}
LINE = '{"name": "PayrollNovaV2/GetPayslip", "description": "Returns the payslip of one employee as PDF."}\n'
SENT = {"domain": "hr", "filename": "payroll.jsonl", "content": LINE, "dry_run": True}
COUNTS = {
    "added": 0,
    "changed": 1,
    "unchanged": 40,
    "removed": 0,
    "deprecated": 0,
    "returned": 0,
    "skipped": 0,
}
CHANGED = {
    "id": 12,
    "name": TOOL["name"],
    "changes": [
        {
            "field": "description",
            "before": TOOL["description"],
            "after": "Returns the payslip of one employee as PDF.",
        }
    ],
}
PREVIEW = {
    "plan": "b7e2" * 16,
    "format": "jsonl",
    "domain": "hr",
    "counts": COUNTS,
    "versions": [
        "PayrollNovaV2 is a newer version of PayrollNovaV1: 12 endpoints have a twin, 2 are new, 1 is gone."
    ],
    "added": [],
    "changed": [CHANGED],
    "returning": [],
    "removed": [],
    "deprecated": [],
    "skipped": [],
    "notes": [],
    "impact": [{"name": "rules", "count": 2, "label": "rules name them"}],
}
IMPORT = {
    "id": 3,
    "filename": "payroll.jsonl",
    "format": "jsonl",
    "domain": "hr",
    "digest": "a0c4" * 16,
    "licence": "CC-BY-4.0",
    "counts": COUNTS,
    "versions": PREVIEW["versions"],
    "actor": "erin",
    "at": AT,
    "undone_at": None,
    "undone_by": None,
}
APPLIED = {
    **IMPORT,
    "errors": [],
    "notes": [],
    "done": {"added": [], "changed": [CHANGED], "returned": [], "retired": []},
}
BAD_ROWS = {
    "message": "payroll.jsonl:2: 'description' is empty; describe what the tool does. (1 bad row; nothing was "
    "imported. Correct the file, or skip the bad rows.)",
    "code": "bad_rows",
    "extra": {"errors": ["payroll.jsonl:2: 'description' is empty; describe what the tool does."]},
}
UNDO = {
    "retire": [12],
    "restore": [],
    "bring_back": [],
    "reasons": ["Tools it added are named by PAYSLIP_PERIOD."],
    "impact": [{"name": "rules", "count": 1, "label": "rule names them"}],
}
NO_UNDO = {
    "message": "import 3: the import cannot be undone. Tools it added are named by PAYSLIP_PERIOD.",
    "code": "conflict",
    "extra": {"reasons": ["Tools it added are named by PAYSLIP_PERIOD."]},
}
QUERY = {"id": 42, "text": "where is the payslip of [name] for march", "collection": "help desk, october"}
QUERY |= {"replaced": ["name"], "created_at": AT}
QUERIES_SENT = {"collection": "help desk, october", "queries": ["where is my payslip for march", "hello"]}
REFUSED_QUERY = {"row": 2, "text": "hello", "replaced": [], "code": "too_short"}
REFUSED_QUERY["reason"] = "has 1 word of its own; a request has at least 3"
QUERIES_DONE = {
    "added": 1,
    "refused": 1,
    "reasons": {"too_short": 1},
    "replaced": {},
    "rows": [REFUSED_QUERY],
}
