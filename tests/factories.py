"""Plain functions that make one valid row of each kind; override what the test is about."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from django.db import connection

from catalog.models import Domain, Tool

_numbers = count(1)


@contextmanager
def thawed() -> Iterator[None]:
    """Inside, no trigger fires: a test may make of a frozen row what the world of its fixture lacks."""
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        yield
        cursor.execute("SET session_replication_role = origin")


def make_domain(slug: str = "hr") -> Domain:
    return Domain.objects.get_or_create(slug=slug, defaults={"title": slug.upper()})[0]


def make_tool(name: str = "", **overrides: Any) -> Tool:
    name = name or f"Payroll/Endpoint{next(_numbers)}"
    api, _, endpoint = name.partition("/")
    fields: dict[str, Any] = {
        "api": api,
        "endpoint": endpoint,
        "description": f"Reads {endpoint} from {api}.",
        "domain": make_domain(),
        "content_hash": "0" * 64,
        "words": f"{api} {endpoint}",
    }
    return Tool.objects.create(name=name, **{**fields, **overrides})


def make_snapshot(**overrides: Any) -> Any:
    """A snapshot row whose folder is really in the artefact store."""
    from django.conf import settings

    from synthesis.models import Snapshot
    from trace_site.lib.files import content_hash, write_jsonl
    from trace_site.lib.store import Store

    number = next(_numbers)
    folder = settings.TRACE_HOME / "snapshots-made-by-tests" / str(number)
    write_jsonl(folder / "tools.jsonl", [{"name": "Payroll/GetPayslip", "number": number}])
    key = f"snapshots/test-{number}"
    store = Store(settings.STORE_URL, settings.TRACE_HOME / "cache", settings.STORE_OPTIONS)
    fields: dict[str, Any] = {
        "hash": content_hash(["snapshot", number]),
        "strategy": "append",
        "per_rule": 2,
        "store_key": key,
        "store_digest": store.put_dir(folder, key),
        "catalog_hash": content_hash(["catalog", number]),
    }
    return Snapshot.objects.create(**{**fields, **overrides})


def make_run(**overrides: Any) -> Any:
    from training.models import Run

    fields: dict[str, Any] = {
        "key": f"run-{next(_numbers)}",
        "base": "pocket",
        "format": "a",
        "memo": "none",
        "retrieval": "r+R",
        "recipe": {},
    }
    return Run.objects.create(
        **{"snapshot": overrides.get("snapshot") or make_snapshot(), **fields, **overrides}
    )


def make_model(**overrides: Any) -> Any:
    """A model row; its folder is not in the store unless the test puts it there."""
    from training.models import Model

    fields: dict[str, Any] = {
        "store_key": "models/none",
        "store_digest": f"{next(_numbers):064d}",
        "bytes": 1,
    }
    return Model.objects.create(**{"run": overrides.get("run") or make_run(), **fields, **overrides})


def make_rule(*tools: Any, code: str = "", published: bool = True, **overrides: Any) -> Any:
    """A rule over the given tools, the target first, with one version that tells each apart from each; published
    unless told otherwise."""
    from rules.models import Rule, RuleVersion
    from rules.services import versions_read

    rule = Rule.objects.create(code=code or f"RULE_{next(_numbers)}", domain=tools[0].domain)
    fields: dict[str, Any] = {
        "number": 1,
        "target": tools[0],
        "confusable_ids": [tool.pk for tool in tools[1:]],
        "text": " ".join(
            [
                f"Use {tools[0].name} for the newest periods.",
                *(f"Use {tool.name} for periods of {1990 + place}." for place, tool in enumerate(tools[1:])),
            ]
        ),
        "content_hash": "0" * 64,
    }
    version = RuleVersion.objects.create(rule=rule, **{**fields, **overrides})
    versions_read([version])
    if published:
        rule.published = version
        rule.save(update_fields=["published"])
    return rule


def make_cluster(*tools: Any, clustering: Any = None, **overrides: Any) -> Any:
    """A cluster whose tools form a chain of edges at cosine 0.9."""
    from catalog.models import Cluster, Clustering

    clustering = clustering or Clustering.objects.create(
        domain=tools[0].domain,
        version=Clustering.objects.filter(domain=tools[0].domain).count() + 1,
        tau=0.8,
        algorithm="test",
    )
    fields: dict[str, Any] = {
        "position": clustering.clusters.count(),
        "label": f"cluster {next(_numbers)}",
        "tool_ids": [tool.pk for tool in tools],
        "edges": [[a.pk, b.pk, 0.9] for a, b in zip(tools, tools[1:], strict=False)],
        "mean_similarity": 0.9,
    }
    cluster = Cluster.objects.create(clustering=clustering, **{**fields, **overrides})
    newest = Clustering.objects.filter(domain=clustering.domain_id).order_by("-version").first()
    if newest == clustering:
        Tool.objects.filter(pk__in=cluster.tool_ids).update(cluster=cluster)
    return cluster


def make_sample(**overrides: Any) -> Any:
    """A machine-ready sample that waits for review; with `rule=` it is a rule sample that passes filter V."""
    from synthesis.models import Sample, SynthesisRun

    number = next(_numbers)
    rule = overrides.pop("rule", None)
    tools = overrides.pop("tools", None) or [
        make_tool(f"Payroll{number}/GetPayslip"),
        make_tool(f"Old{number}/GetSlip"),
    ]
    branch = "rule" if rule else "rrb"
    code = f"By {rule.code}, " if rule else "By what they return, "
    fields: dict[str, Any] = {
        "run": overrides.get("run") or SynthesisRun.objects.create(branch=branch, writer="offline"),
        "key": f"sample-{number}",
        "branch": branch,
        "domain": tools[0].domain,
        "rule_version": rule.published if rule else None,
        "style": "explicit" if rule else "",
        "tier": "" if rule else "easy",
        "seed": number,
        "pool": [tool.name for tool in tools],
        "answer": [tools[0].name],
        "query": f"please show me my pay document for March number {number}",
        "trace": f"Somebody wants to read the pay document of one month. {tools[1].name} reads the old years and "
        f"{tools[0].name} the new ones. {code}a month of this year is read in the new system. "
        f"So it is {tools[0].name}.",
        "writer": "offline",
        "machine": "ready",
    }
    return Sample.objects.create(**{**fields, **overrides})


def make_evaluation(*answers: tuple[Any, ...], **overrides: Any) -> Any:
    """A finished PRB evaluation; each answer is (gold tool, the names the model gave, more of the prediction and
    of the item)."""
    from evaluation.core.metrics import item_scores
    from evaluation.core.report import answers as beside
    from evaluation.core.report import retrieval_report
    from evaluation.models import Answer, Benchmark, Evaluation, LabelledRequest
    from rules.models import Rule

    number = next(_numbers)
    benchmark = overrides.pop("benchmark", None) or Benchmark.objects.create(
        name=f"prb-{number}", kind="prb", hash=f"{number:064d}", count=len(answers)
    )
    decode = overrides.get("decode", "trace")
    rows, given = [], []
    for position, (gold, tools, *more) in enumerate(answers):
        data = {"query": f"query {position}", "tools": [gold.name], **(more[1] if len(more) > 1 else {})}
        item, _ = LabelledRequest.objects.get_or_create(
            benchmark=benchmark, position=position, defaults={"domain": gold.domain_id, "data": data}
        )
        rows.append({**data, "id": str(item.pk), "domain": gold.domain_id})
        answer = {"id": str(item.pk), "tools": tools, "trace": "", "off_vocabulary": 0}
        given.append(answer | (more[0] if more else {}))
    found = beside(given, rows, decode, Rule.objects.values_list("code", flat=True))
    metrics = retrieval_report(found)
    fields: dict[str, Any] = {"key": f"evaluation-{number}", "decode": decode, "metrics": metrics}
    evaluation = Evaluation.objects.create(benchmark=benchmark, **{**fields, **overrides})
    for row, item, one in zip(given, rows, found, strict=True):
        scores = item_scores(row, item, decode) | ({} if one.ranked else {"cited": list(one.cited)})
        Answer.objects.create(evaluation=evaluation, item_id=int(row["id"]), output=row, scores=scores)
    return evaluation


def answer_tests(model: Any, version: Any, *passed: Any) -> None:
    """A model has answered the tests of a rule version, one after the other right or wrong."""
    from evaluation.models import Answer, LabelledRequest

    for position, right in enumerate(passed):
        test = version.tests[position] if version.tests else {"query": f"q{position}", "tools": ["Pay/A"]}
        item, _ = LabelledRequest.objects.get_or_create(
            origin="rule_test", version=version, position=position, defaults={"data": test}
        )
        output, scores = {"tools": test["tools"] if right else ["Pay/B"]}, {"passed": float(right)}
        Answer.objects.create(model=model, item=item, output=output, scores=scores)


def sort_requests(monkeypatch: Any, groups: dict[int, str]) -> None:
    """Requests of any benchmark lie in these groups, by their position, whatever rules and clusters say."""
    from evaluation.coverage.grouped import Sorting
    from evaluation.models import LabelledRequest

    def of(_: Sorting, benchmark: int) -> dict[int, str]:
        items = LabelledRequest.objects.filter(benchmark=benchmark).values_list("pk", "position")
        return {item: groups.get(position, "") for item, position in items}

    monkeypatch.setattr(Sorting, "of", of)


def make_gate_report(candidate: Any, champion: Any = None, verdict: str = "pass", **overrides: Any) -> Any:
    """A report of the gate that counts now: of the newest benchmarks, without a slice unless `report` has some."""
    from evaluation.core.gate import Gate
    from evaluation.gate.selectors import gated_benchmarks
    from evaluation.models import GateReport

    fields: dict[str, Any] = {
        "key": f"gate-{next(_numbers)}",
        "report": Gate(()).as_dict(),
        "counted_from": {"benchmarks": sorted(one.pk for one in gated_benchmarks())},
    }
    return GateReport.objects.create(
        candidate=candidate, champion=champion, verdict=verdict, **{**fields, **overrides}
    )


def count_rollups() -> None:
    """Rollups by what is so now, as the sweeper leaves them."""
    from evaluation.results import rollups

    rollups.refresh()


def crown(model: Any, actor: Any = None, note: str = "") -> Any:
    """Promote a model that has passed its gate against whoever is champion."""
    from training.registry.registry import current_aliases, promote

    champion = current_aliases().get("champion")
    if champion != model:
        make_gate_report(model, champion)
    return promote(model=model, actor=actor, note=note)


def known_models(monkeypatch):
    """Models without files, which know every tool there is."""
    from training.registry.registry import Facts

    monkeypatch.setattr("evaluation.retrieval.lookups.check_files", lambda _: None)
    every = Tool.objects.values_list("name", flat=True)
    monkeypatch.setattr("evaluation.retrieval.lookups.facts_of", lambda _: Facts(frozenset(every.all())))
