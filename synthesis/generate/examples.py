"""Examples of the API's description: a run that writes for one payslip rule, a dropped sample of it, its yield."""

from typing import Any

from trace_site.rest.examples import AT

JOB = {
    "state": "running",
    "done": 9,
    "total": 12,
    "rate": 1.5,
    "seconds_left": 2,
    "error": "",
    "error_code": "",
}
RUN = {
    "id": 8,
    "branch": "rule",
    "writer": "llm:writer-large",
    "domain": "hr",
    "rule": "PAYSLIP_PERIOD",
    "seed": 0,
    "job": JOB,
    "planned": 12,
    "ready": 8,
    "dropped": 1,
    "approved": 0,
    "created_by": "erin",
    "created_at": AT,
}
COUNTS = {
    "planned": 12,
    "written": 9,
    "attempts": 16,
    "filtered": 5,
    "judged_out": 2,
    "errors": 1,
    "retries": 7,
    "ready": 8,
    "dropped": 1,
    "approved": 0,
    "rejected": 0,
}
GROUP = {**COUNTS, "domain": "hr", "rule": "PAYSLIP_PERIOD", "style": "", "tier": ""}
SKIPPED = {"rule": "LEAVE_FORM", "style": "exception", "reason": "Every confusable is deprecated or retired."}
BUDGET = {"calls": 2000, "money": 5.0}
OPTIONS = {
    "branch": "rule",
    "writer": "llm",
    "domain": "hr",
    "rule": "PAYSLIP_PERIOD",
    "per_rule": 12,
    "budget": BUDGET,
    "recipe": {"retries": 3, "query": {"temperature": 0.7}},
}
DETAIL = {
    "run": RUN,
    "next_step": "",
    "started_with": {"per_rule": 12, "domain": "hr", "rule": "PAYSLIP_PERIOD", "budget": BUDGET},
    "spent": {"calls": 48, "tokens": 61240, "money": 0.11},
    "skipped": [SKIPPED],
    "funnel": {
        "total": COUNTS,
        "checks": [{"name": "leakage", "count": 4}, {"name": "near_duplicate", "count": 1}],
        "axes": [{"name": "naturalness", "count": 2}],
        "errors": [{"name": "llm_truncated", "count": 1}],
        "given_up": [],
        "groups": [GROUP],
    },
}
COUNTED = {"new": 4, "content_stale": 2, "outdated": 0, "kept": 6}
ESTIMATE = {
    "samples": {"value": 6, "basis": "counted: 4 new, 2 stale, 6 kept as they are"},
    "calls": {"value": 21, "basis": "3.50 calls a sample, measured on 2 earlier runs here"},
    "tokens": {"value": 30400, "basis": "tokens a call measured on the newest calls here"},
    "money": {"value": 0.06, "basis": "those tokens at the prices set for each role"},
    "seconds": {"value": 4, "basis": "seconds a call, 64 at a time measured on the newest calls here"},
    "plan": {
        **COUNTED,
        "skipped": 0,
        "samples": 6,
        "rows": [{"domain": "hr", "rule": "PAYSLIP_PERIOD", "style": "implicit", **COUNTED, "skipped": ""}],
    },
    "over": [],
}
NO_RULE = {
    "message": "--rule: there is no published rule 'PAYSLIP_PERIOT' in hr.",
    "code": "no_such_rule",
    "extra": {},
}
ENDED = {"message": "synthesis 8 (rule): the run has already ended.", "code": "job_state", "extra": {}}
LINE = {
    "purpose": "trace",
    "model": "teacher-large",
    "calls": 14,
    "answered": 13,
    "failed": 1,
    "under_way": 0,
    "lost": 0,
    "prompt_tokens": 18200,
    "completion_tokens": 2860,
    "cost": 0.04,
    "p50": 1.9,
    "p95": 4.2,
}
BOOKS = {
    "total": {**LINE, "purpose": "", "model": ""},
    "lines": [LINE],
    "errors": [{"name": "llm_truncated", "count": 1}],
}
CALL = {
    "uid": "0b9a2f6e-9e0e-4d43-9c0a-8f5d3b1f0c11",
    "purpose": "trace",
    "endpoint": "https://models.example.org/v1",
    "model": "teacher-large",
    "prompt_hash": "3b1f0c118f5d4d43",
    "state": "failed",
    "error_code": "llm_truncated",
    "prompt_tokens": 1400,
    "completion_tokens": 1200,
    "cost": 0.003,
    "seconds": 3.8,
    "sent_at": AT,
    "ended_at": AT,
}
YIELD = {
    "rule": 7,
    "code": "PAYSLIP_PERIOD",
    "domain": "hr",
    "version": 3,
    "styles": ["explicit", "implicit"],
    "unsupported": {"exception": "Every confusable is deprecated or retired."},
    "target": 12,
    "ready": 9,
    "stale": 1,
    "missing": 3,
    "waiting": 0,
    "approved": 6,
    "dropped": 1,
    "attempts": 17,
    "attempts_per_ready": 1.89,
    "near_duplicates": 2,
    "last_run": 8,
}
PROMPT: dict[str, Any] = {
    "name": "judge",
    "purpose": "Scores a sample on four axes.",
    "hash": "5f0c2a9be1d34c77",
}
PROMPT |= {"first_used": AT, "versions": 0}
PROMPT_TEXT = {
    "hash": "5f0c2a9be1d34c77",
    "text": "You judge one sample ...",
    "first_used": AT,
    "samples": 36,
}
PREVIEWED_PROMPT = {
    "prompt": "judge",
    "hash": "5f0c2a9be1d34c77",
    "role": "judge",
    "model": "judge-large",
    "text": "You judge one training sample ...",
    "schema": {"type": "object"},
    "temperature": 0.0,
    "max_tokens": 600,
    "seed": None,
    "characters": 4120,
    "words": 655,
    "stands_on": "sample 812",
}
