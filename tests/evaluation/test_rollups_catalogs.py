"""Rollups equal the recomputation in pandas on the demo's tools, rules and requests, and on the public ones.

Answers are word overlap, which is wrong often enough: of names, of descriptions, and of both. Clusters are made so that
every second rule falls into one.
"""

import json
from itertools import islice
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command

from catalog.core.words import name_words, plain_words
from catalog.models import Clustering, Tool
from evaluation.benchmarks.selectors import benchmark_rows
from evaluation.benchmarks.services import benchmark_import
from evaluation.coverage.counted import counted
from evaluation.models import Evaluation
from evaluation.results import rollups
from evaluation.results.scoring import publish, score
from rules.models import Rule
from tests.evaluation.recomputed import assert_equal_to_recomputed
from tests.evaluation.test_rollups import count_again, few_draws
from tests.factories import crown, make_cluster, make_domain, make_model, make_run, make_snapshot
from trace_site.lib.files import read_jsonl

pytestmark = pytest.mark.django_db
DEMO = Path(settings.BASE_DIR) / "trace_site" / "demo"
PUBLIC = Path(settings.TRACE_PUBLIC_DATA)
SIGNALS = (
    {"ranks": [2, 0]},
    {"operation": True},
    {"deprecated": "A/a", "ranks": [1, 5]},
    {"points": [["A/a", "Use b."]]},
    {"version": True},
)


@pytest.fixture(autouse=True)
def home(settings, tmp_path, monkeypatch):
    few_draws(monkeypatch)
    settings.TRACE_HOME = tmp_path
    settings.STORE_URL = (tmp_path / "store").as_uri()
    settings.JOB_LEASE_SECONDS = 3600


class Catalogue:
    def __init__(self, tools, rules, queries, folder):
        self.load(tools)
        written = json.loads(rules.read_text())
        call_command("rules_import", str(rules), publish=True, json=True)
        self.sets = [[one["tool_name"], *one["confusables"]] for one in written]
        for domain in ("hr", "finance"):
            self.cluster(domain)
        self.benchmark = self.freeze(queries, folder)
        snapshot = make_snapshot()
        self.models = [make_model(run=make_run(snapshot=snapshot, retrieval="r+R")) for _ in range(2)]
        self.words = {
            tool.name: (frozenset(name_words(tool.name)), frozenset(plain_words(tool.description)))
            for tool in Tool.objects.all()
        }
        for who, by in ((None, (0, 1)), (self.models[0], (0,)), (self.models[1], (1,))):
            self.measure(who, by)
        crown(self.models[0])

    def load(self, files):
        rows = [row for file in files for _, row in read_jsonl(file)]
        Tool.objects.bulk_create(
            [
                Tool(
                    name=row["name"],
                    api=row["name"].partition("/")[0],
                    endpoint=row["name"].partition("/")[2],
                    description=row["description"],
                    domain=make_domain(row["domain"].lower()),
                    deprecated=row["deprecated"],
                    content_hash="0" * 64,
                    words=row["name"],
                )
                for row in rows
            ],
            batch_size=2000,
        )

    def cluster(self, domain, skip=0):
        """Every second rule's tools lie in one cluster with two tools that follow the target; the rest by sixes."""
        tools = {
            tool.name: tool for tool in Tool.objects.filter(domain=domain, status="active").order_by("name")
        }
        names, placed, parts = list(tools), set(), []
        at = {name: place for place, name in enumerate(names)}
        for one in self.sets[skip::2]:
            follow = names[at[one[0]] + 1 : at[one[0]] + 3] if one[0] in at else []
            part = [name for name in dict.fromkeys([*one, *follow]) if name in tools and name not in placed]
            parts += [part[:25]] if len(part) > 1 else []
            placed |= set(part[:25]) if len(part) > 1 else set()
        rest = iter([name for name in names if name not in placed][: len(names) * 3 // 4])
        while len(part := list(islice(rest, 6))) > 1:
            parts.append(part)
        version = Clustering.objects.filter(domain=domain).count() + 1
        clustering = Clustering.objects.create(domain_id=domain, version=version, tau=0.8, algorithm="test")
        for place, part in enumerate(parts):
            ids = [tools[name].pk for name in part]
            pairs = [(a, b) for n, a in enumerate(ids) for b in ids[n + 1 : n + 3]]
            edges = [[a, b, 0.9, 1.5, SIGNALS[n % len(SIGNALS)]] for n, (a, b) in enumerate(pairs)]
            rows = [tools[name] for name in part]
            make_cluster(*rows, clustering=clustering, edges=edges, position=place)

    def freeze(self, queries, folder):
        known = set(Tool.objects.values_list("name", flat=True))
        rows = [{**row, "domain": row["domain"].lower()} for _, row in read_jsonl(queries)]
        kept = [json.dumps(row) for row in rows if set(row["tools"]) <= known]
        (folder / "queries.jsonl").write_text("\n".join(kept))
        return benchmark_import(path=folder / "queries.jsonl", kind="prb", name="requests")[0]

    def measure(self, who, by):
        rows, predictions = benchmark_rows(self.benchmark), []
        for row in rows:
            asked = {*plain_words(row["query"])}
            ranked = sorted(
                self.words, key=lambda name: (-sum(len(asked & self.words[name][of]) for of in by), name)
            )
            predictions.append({"id": row["id"], "tools": ranked[:10], "scores": [1.0] * 10, "seconds": 0.01})
        decode = "fast" if who else "embedding"
        of = Evaluation.objects.create(key=f"{who} {by}", model=who, benchmark=self.benchmark, decode=decode)
        metrics, cited = score(self.benchmark, decode, predictions, rows)
        publish(evaluation=of, predictions=predictions, rows=rows, metrics=metrics, cited=cited)

    def withdraw(self):
        self.gone = {rule.pk: rule.published_id for rule in Rule.objects.order_by("pk")[:6]}
        Rule.objects.filter(pk__in=self.gone).update(published=None)

    def apply(self):
        for pk, version in self.gone.items():
            Rule.objects.filter(pk=pk).update(published=version)

    def retire(self):
        held = {name for one in self.sets[:4] for name in one[:1]}
        Tool.objects.filter(name__in=held).update(status=Tool.Status.RETIRED)
        self.cluster("hr")

    def recluster(self):
        self.cluster("finance", skip=1)

    def promote(self):
        crown(self.models[1])


def agrees_after_each_event(world):
    count_again()
    truth = assert_equal_to_recomputed()
    found = [figures["groups"]["all"] for figures in truth["domains"].values()]
    assert sum(one["n"] for one in found) == world.benchmark.count
    assert 0 < sum(one["wrong"] for one in found) < world.benchmark.count
    assert all(figures["covered"] for figures in truth["domains"].values())
    for event in (world.withdraw, world.apply, world.retire, world.recluster, world.promote):
        event()
        count_again()
        after = assert_equal_to_recomputed()
        assert after != truth, event.__name__
        truth = after
    assert rollups.refresh() == {"outcomes": 0, "tools": 0, "clusters": 0, "domains": 0}
    return truth


def test_rollups_equal_a_recomputation_on_the_demo(tmp_path):
    tools = [DEMO / "hr_tools.jsonl", DEMO / "finance_tools.jsonl"]
    agrees_after_each_event(Catalogue(tools, DEMO / "rules.json", DEMO / "prb.jsonl", tmp_path))


@pytest.mark.long
@pytest.mark.skipif(
    not (PUBLIC / "catalog").is_dir(), reason="the public data is absent (set TRACE_PUBLIC_DATA)"
)
def test_rollups_equal_a_recomputation_on_the_public_data(tmp_path):
    tools = [PUBLIC / "catalog" / "hr.jsonl", PUBLIC / "catalog" / "finance.jsonl"]
    queries = PUBLIC / "benchmarks" / "prb_public" / "queries.jsonl"
    agrees_after_each_event(Catalogue(tools, PUBLIC / "rules" / "rules.json", queries, tmp_path))
    assert sum(row.tools for row in counted().domains.values()) > 8000
    assert sum(map(len, counted().clusters.values())) > 500
