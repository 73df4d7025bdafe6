"""Covered, uncovered and outside: every page tells them by rules and clusters as they stand."""

import json
import re

import pytest
from django.core.management import call_command

from catalog.lookalikes import cluster_dismiss
from catalog.models import Clustering, Tool
from evaluation.benchmarks.selectors import benchmark_rows
from evaluation.core import report
from evaluation.coverage.grouped import grouped, lists_beside_baseline, sorting_now
from evaluation.models import Evaluation
from evaluation.results.scoring import publish, score
from rules.models import Rule, RuleVersion
from rules.services import pair_correct
from tests.evaluation import test_services
from tests.factories import crown, make_cluster, make_model, make_rule, make_run, make_tool

pytestmark = pytest.mark.django_db
tools, prb = test_services.tools, test_services.prb  # fixtures


@pytest.fixture
def measured(tools, prb):
    """The champion, measured while no rule holds any pair: two requests uncovered, one outside."""
    make_cluster(*tools[:3])
    model, rows = make_model(), benchmark_rows(prb)
    control = make_model(run=make_run(snapshot=model.run.snapshot, retrieval="r"))
    plan = [(None, "embedding"), (control, "trace"), (model, "fast"), (model, "trace"), (model, "trace-free")]
    for who, decode in plan:
        is_list = decode.startswith("trace")
        predictions = []
        for row in rows:
            found = [tool.name for tool in tools if tool.endpoint in row["query"]]
            others = [tool.name for tool in tools if tool.name not in found]
            answer = {"id": row["id"], "tools": found if is_list else found + others, "seconds": 0.01}
            trace = {"trace": "PAYSLIP_PERIOD decides.", "follows_trace": True, "trace_tools": found}
            predictions.append({**answer, "off_vocabulary": 0, **(trace if is_list else {})})
        key = f"{who} {decode}"
        of = Evaluation.objects.create(key=key, model=who, benchmark=prb, decode=decode)
        metrics, cited = score(prb, decode, predictions, rows)
        publish(evaluation=of, predictions=predictions, rows=rows, metrics=metrics, cited=cited)
    crown(model)
    return model


def numbers(client, model) -> dict[str, dict[str, int]]:
    """{page: {group: n}} as a reader finds them on every page that shows groups."""
    found = {}
    of = {row.decode: row.pk for row in Evaluation.objects.filter(model=model)}
    pages = {
        "results": "/evaluation/",
        "model": f"/evaluation/models/{model.pk}/",
        **{f"detail {decode}": f"/evaluation/{pk}/" for decode, pk in of.items()},
    }
    for name, path in pages.items():
        text = client.get(path).content.decode()
        pairs = re.findall(r'>(covered|uncovered|outside) <span class="of">(\d+)</span>', text)
        found[name] = {}
        for group, n in pairs:
            assert found[name].setdefault(group, int(n)) == int(n), f"{name} says two numbers of {group}"
    compared = {}
    for group in ("covered", "uncovered", "outside"):
        page = client.get(
            "/evaluation/compare/", {"a": of["trace"], "b": of["trace-free"], "group": group}
        ).context
        if page["filters"]["group"] == group and page.get("n"):
            compared[group] = page["n"]
    found["compare"] = compared
    listed = {}
    for group in ("covered", "uncovered", "outside"):
        page = client.get(f"/evaluation/{of['fast']}/", {"group": group}).context
        if page["filters"]["group"] == group and page["shown"]:
            listed[group] = len(page["shown"])
    found["predictions"] = listed
    found["grid"] = {}
    for group in ("covered", "uncovered", "outside"):
        page = client.get("/evaluation/grid/", {"group": group}).context
        if n := page["sections"][-1].rows[0].cells[0].value.get("n", 0):
            found["grid"][group] = n
    return found


def told_by_command(capsys) -> dict[str, int]:
    call_command("coverage", recount=True, json=True)
    domain = json.loads(capsys.readouterr().out.splitlines()[-1])["domains"]["hr"]
    return {name: cell["n"] for name, cell in domain["recall"]["groups"].items() if name != "all"}


def applied(tools):
    make_rule(tools[0], tools[1], code="PAYSLIP_PERIOD")


def rolled_back(tools):
    """A second version that no longer holds the pair."""
    rule = Rule.objects.get()
    version = RuleVersion.objects.create(
        rule=rule, number=2, target=tools[0], confusable_ids=[tools[3].pk], text="x", content_hash="1" * 64
    )
    Rule.objects.filter(pk=rule.pk).update(published=version)


def corrected(tools):
    """Somebody says that the rule does not tell the pair apart."""
    version, pair = Rule.objects.get().published, [tool.pk for tool in tools[:2]]
    pair_correct(version=version, pair=pair, is_apart=False, reason="one case for both", actor=None)


def retired(tools):
    """Clusters are found anew among the tools that are left."""
    Tool.objects.filter(pk=tools[1].pk).update(status=Tool.Status.RETIRED)
    make_cluster(tools[2], tools[3])


def reclustered(tools):
    make_cluster(*tools[:2])


EVENTS = {
    "rule applied": ([applied], {"covered": 1, "uncovered": 1, "outside": 1}),
    "rolled back": ([applied, rolled_back], {"uncovered": 2, "outside": 1}),
    "pair corrected": ([applied, corrected], {"uncovered": 2, "outside": 1}),
    "tool retired": ([applied, retired], {"uncovered": 2, "outside": 1}),
    "clustering changed": ([applied, reclustered], {"covered": 1, "outside": 2}),
}


@pytest.mark.parametrize(("events", "after"), EVENTS.values(), ids=EVENTS)
def test_every_page_says_at_once_what_rules_and_clusters_say(
    client_as, measured, tools, capsys, events, after
):
    client = client_as("product_manager")
    before = {"uncovered": 2, "outside": 1}
    assert {name: one for name, one in numbers(client, measured).items() if one != before} == {}
    kept = {row.pk: row.metrics for row in Evaluation.objects.all()}
    for event in events:
        event(tools)
    counted = numbers(client, measured)
    assert {name: one for name, one in counted.items() if one != after} == {}
    assert told_by_command(capsys) == after
    assert kept == {row.pk: row.metrics for row in Evaluation.objects.all()}


def test_a_dismissed_cluster_counts_for_nothing(measured, tools):
    cluster_dismiss(cluster=Clustering.objects.get().clusters.get(), reason="they differ", actor=None)
    fast = Evaluation.objects.get(decode="fast")
    assert set(sorting_now().of(fast.benchmark_id).values()) == {"outside"}


def test_only_what_holds_other_requests_is_counted_again(measured, tools, monkeypatch):
    drawn = []
    sampled = report.bootstrap_table

    def counting(table, **options):
        drawn.append(len(table))
        return sampled(table, **options)

    found = list(Evaluation.objects.filter(decode__in=("fast", "embedding")).select_related("benchmark"))
    grouped(found)
    monkeypatch.setattr(report, "bootstrap_table", counting)
    assert grouped(found) and drawn == []
    make_rule(tools[3], make_tool("Other/Thing"), code="ELSEWHERE")
    assert grouped(found) and drawn == []
    applied(tools)  # one of two uncovered requests becomes covered, in the one domain and in all
    grouped(found)
    assert drawn == [1] * 12


def test_figures_of_evaluations_cost_the_same_queries_for_few_and_for_many(
    measured, tools, django_assert_num_queries
):
    found = list(Evaluation.objects.select_related("benchmark"))
    sorting_now().of(found[0].benchmark_id)
    with django_assert_num_queries(2):  # stamps, answers
        grouped(found)
    with django_assert_num_queries(1):
        grouped(found)


def test_a_list_is_beside_as_many_tools_of_the_embedding(client_as, measured):
    of = Evaluation.objects.get(decode="trace", model=measured)
    found = lists_beside_baseline([of])[of.pk]
    assert {group: row["n"] for group, row in found["all"].items()} == {
        "all": 3,
        "uncovered": 2,
        "outside": 1,
    }
    page = client_as("reviewer").get(f"/evaluation/{of.pk}/")
    assert page.context["slices"][0]["same_length"]["mean"] == found["all"]["all"]["embedding"]["mean"]


def test_a_rule_that_comes_later_changes_nothing_of_what_traces_cited(measured, tools):
    of = Evaluation.objects.get(decode="trace", model=measured)
    applied(tools)  # the traces name PAYSLIP_PERIOD
    figures = grouped([of])[of.pk]["all"]
    assert {group: one["citation"]["rate"] for group, one in figures.items()} == dict.fromkeys(figures, 0.0)
