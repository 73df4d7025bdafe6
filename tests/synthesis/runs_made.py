"""A run with made-up rows: samples that passed, that passed late, and that were dropped, with their calls."""

from typing import Any
from uuid import uuid4

from rules.models import Rule
from synthesis.models import Attempt, ModelCall, Sample, SynthesisRun
from tests.factories import make_rule, make_sample, make_tool
from trace_site.jobs import Job

LEAK = {
    "check": "leakage",
    "message": "The query names the tool.",
    "evidence": "Old/GetSlip",
    "span": [5, 16],
}
NEAR = {"check": "near_duplicate", "message": "It almost repeats one.", "evidence": "my slip", "span": [0, 0]}
JUDGED = {
    "naturalness": 5,
    "compliance": 5,
    "label": 2,
    "faithfulness": 5,
    "critique": "",
    "failed": ["label"],
}
PASSED = {**JUDGED, "label": 5, "failed": []}


def make_started_run(state: str = "done", **overrides: Any) -> SynthesisRun:
    job = Job.objects.create(kind="synthesis", queue="default", title="synthesis", state=state)
    fields: dict[str, Any] = {"branch": "rule", "writer": "llm:m", "job": job, "params": {"per_rule": 12}}
    return SynthesisRun.objects.create(**{**fields, **overrides})


def make_slip_rule(code: str = "SLIP_YEAR") -> Rule:
    return make_rule(make_tool(f"New/{code}"), make_tool(f"Old/{code}"), code=code)


def make_dropped(run: SynthesisRun, rule: Rule | None = None, **overrides: Any) -> Sample:
    """Three attempts: refused by filter V, judged out, ended in an error."""
    sample: Sample = make_sample(run=run, rule=rule, machine="dropped", **overrides)
    query = "show Old/GetSlip of March"
    tried: list[dict[str, Any]] = [
        {"outcome": "filtered", "filter_failures": [LEAK], "critique": "Do not name the tool."},
        {"outcome": "judged_out", "judge": JUDGED, "trace": sample.trace, "critique": "The label is wrong."},
        {"outcome": "error", "error": "The endpoint cut the answer short.", "error_code": "llm_truncated"},
    ]
    for number, fields in enumerate(tried, start=1):
        Attempt.objects.create(sample=sample, number=number, query=query, calls=1, **fields)
    return sample


def make_ready(run: SynthesisRun, rule: Rule | None = None, **overrides: Any) -> Sample:
    """Passed at the second attempt, after a near-duplicate."""
    sample: Sample = make_sample(run=run, rule=rule, **overrides)
    Attempt.objects.create(sample=sample, number=1, outcome="filtered", filter_failures=[NEAR], calls=1)
    Attempt.objects.create(
        sample=sample,
        number=2,
        outcome="ready",
        query=sample.query,
        trace=sample.trace,
        judge=PASSED,
        calls=3,
    )
    return sample


def make_call(run: SynthesisRun, **overrides: Any) -> ModelCall:
    fields: dict[str, Any] = {
        "uid": uuid4(),
        "key": "k",
        "purpose": "trace",
        "endpoint": "http://llm",
        "model": "m",
        "prompt_hash": "p",
        "state": "answered",
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "cost": 0.25,
        "seconds": 1.5,
    }
    return ModelCall.objects.create(job=run.job, **{**fields, **overrides})
