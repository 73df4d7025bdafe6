"""Rows for synthesis tests: the small tool group of texts.py in the database, its rule published."""

from typing import Any

from catalog.models import LabelledQuery, NeighbourList, TokenUnit, Tool
from rules.models import Rule, RuleVersion
from rules.services import clauses_publish
from synthesis.models import Sample, SynthesisRun
from tests.factories import make_domain, make_tool
from tests.synthesis.texts import RULE, TOOLS, TRACE
from trace_site import jobs
from trace_site.jobs import Job


def make_book() -> RuleVersion:
    """Tools, neighbours, tokens and the published rule."""
    tools = {
        tool.name: make_tool(
            tool.name,
            description=tool.description,
            permissions=list(tool.permissions),
            deprecated=tool.deprecated,
            content_hash=f"{number:064d}",
        )
        for number, tool in enumerate(TOOLS)
    }
    for tool in tools.values():
        others = [other.pk for other in tools.values() if other.pk != tool.pk]
        NeighbourList.objects.create(tool=tool, neighbour_ids=others, scores=[0.5] * len(others))
    for slot, name in enumerate(sorted(tools)):
        TokenUnit.objects.create(family="flat", slot=slot, string=f"<<{name.replace('/', '&&')}>>")
    return publish(1, tools)


def publish(number: int, tools: dict[str, Tool] | None = None, **fields: Any) -> RuleVersion:
    tools = tools or {tool.name: tool for tool in Tool.objects.all()}
    rule, _ = Rule.objects.get_or_create(code=RULE.code, domain=make_domain("hr"))
    said: dict[str, Any] = {
        "target": tools[RULE.target],
        "confusable_ids": [tools[name].pk for name in RULE.confusables],
        "text": RULE.text,
        "clauses": [
            {"when": c.when, "route_to": c.route_to, "exception": c.exception, "signals": list(c.signals)}
            for c in RULE.clauses
        ],
        "content_hash": f"rule-{number}",
    }
    version = RuleVersion.objects.create(rule=rule, number=number, **{**said, **fields})
    rule.published = version
    rule.save()
    clauses_publish([rule.pk])
    return version


def run_job(job: Job | None) -> dict[str, Any]:
    assert job is not None
    done = jobs.run(job.pk)
    assert done is not None
    assert done.state == Job.State.DONE, done.error
    return done.result or {}


def make_sample(version: RuleVersion | None = None, **overrides: Any) -> Sample:
    """A sample that passed the machine and waits for a person."""
    number = Sample.objects.count()
    fields: dict[str, Any] = {
        "run": SynthesisRun.objects.create(branch="rule", writer="offline"),
        "key": f"sample-{number}",
        "branch": "rule" if version else "rrb",
        "domain": make_domain("hr"),
        "rule_version": version,
        "style": "exception" if version else "",
        "tier": "" if version else "easy",
        "seed": number,
        "pool": [tool.name for tool in TOOLS],
        "answer": ["PayOne/GetPayslip"],
        "query": f"i need my pay document from November 2022, case {number}",
        "trace": TRACE,
        "writer": "offline",
        "machine": "ready",
    }
    return Sample.objects.create(**{**fields, **overrides})


def make_benchmark_query(text: str) -> LabelledQuery:
    return LabelledQuery.objects.create(
        collection="prb", use="benchmark", text=text, text_key=text, tools=["PayOne/GetPayslip"]
    )
