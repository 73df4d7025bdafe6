"""Covered, uncovered and outside: every page counts by one definition, whatever rules and clusters do meanwhile."""

import json
import re

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction

from catalog.lookalikes import cluster_dismiss, clusters_update
from catalog.models import Clustering, NeighbourList, Tool
from evaluation.core import report
from evaluation.models import Evaluation, GroupDefinition, Prediction
from evaluation.results import groups, recount, tasks
from evaluation.results.scoring import benchmark_rows, publish, score
from rules.models import Rule, RuleVersion
from rules.services import pair_correct
from tests.evaluation import test_services
from tests.evaluation.test_services import FAKE, evaluate, model_with
from tests.factories import crown, make_cluster, make_model, make_rule, make_run, make_tool, thawed
from trace_site import jobs
from trace_site.audit.models import AuditEntry
from trace_site.jobs import Job

pytestmark = pytest.mark.django_db
tools, prb = test_services.tools, test_services.prb  # fixtures


@pytest.fixture(autouse=True)
def home(monkeypatch, settings, tmp_path):
    monkeypatch.setattr(tasks, "ENGINE", FAKE)
    monkeypatch.setattr(tasks, "ENCODER", FAKE)
    settings.TRACE_HOME = tmp_path
    settings.STORE_URL = (tmp_path / "store").as_uri()
    settings.JOB_LEASE_SECONDS = 3600


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
        scored = score(prb, decode, predictions, rows)
        publish(evaluation=of, predictions=predictions, rows=rows, scored=scored)
    crown(model)
    return model


def count_again():
    """What the sweeper and a worker do."""
    recount.sweep()
    for job in Job.objects.filter(kind="recount", state="queued"):
        assert jobs.run(job.pk).state == "done"


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
    for name, path, total in (
        ("grid", "/evaluation/grid/", lambda page: page["sections"][-1].rows[0].cells[0].value.get("n", 0)),
        ("before and after", "/evaluation/before-after/", lambda page: sum(n for _, n, _ in page["counted"])),
    ):
        found[name] = {}
        for group in ("covered", "uncovered", "outside"):
            if n := total(client.get(path, {"group": group}).context):
                found[name][group] = n
    text = client.get("/evaluation/groups/").content.decode()
    cells = re.findall(r'group=(covered|uncovered|outside)#predictions"><b>(\d+)</b>', text)
    found["groups"] = {group: int(n) for group, n in cells if int(n)}
    return found


def told_by_command(capsys) -> dict[str, int]:
    call_command("coverage", json=True)
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
def test_every_page_shows_one_definition_before_and_after_the_recount(
    client_as, measured, tools, capsys, events, after
):
    client = client_as("product_manager")
    before = {"uncovered": 2, "outside": 1}
    assert {name: one for name, one in numbers(client, measured).items() if one != before} == {}
    for event in events:
        event(tools)
    waiting = numbers(client, measured)
    assert {name: one for name, one in waiting.items() if one != before} == {}
    assert told_by_command(capsys) == before
    for path in ("/", "/evaluation/", "/evaluation/groups/"):
        assert "ules or clusters changed" in client.get(path).content.decode(), path
    count_again()
    counted = numbers(client, measured)
    assert {name: one for name, one in counted.items() if one != after} == {}
    assert told_by_command(capsys) == after
    assert "ules or clusters changed" not in client.get("/evaluation/").content.decode()
    assert set(Evaluation.objects.values_list("definition", flat=True)) == {groups.in_force().pk}


def test_a_definition_names_the_versions_it_was_made_of_and_stays_as_it_is(measured, tools):
    applied(tools)
    count_again()
    old, new = GroupDefinition.objects.order_by("pk")
    version = Rule.objects.get().published_id
    assert (old.rules, new.rules, new.clusterings) == ({}, {"hr": [version]}, {"hr": 1})
    assert AuditEntry.objects.filter(action="groups.defined").count() == 2
    with pytest.raises(IntegrityError, match="frozen"), transaction.atomic():
        GroupDefinition.objects.update(words="something else")


def test_a_dismissed_cluster_counts_for_nothing_after_the_recount(measured, tools):
    cluster_dismiss(cluster=Clustering.objects.get().clusters.get(), reason="they differ", actor=None)
    count_again()
    counts = Evaluation.objects.get(decode="fast").metrics["groups"]["counts"]
    assert counts == {"covered": 0, "uncovered": 0, "outside": 3}


def test_nothing_changed_costs_no_job_and_a_due_one_is_queued_once(measured, tools):
    assert recount.sweep() == 0
    applied(tools)
    assert (recount.sweep(), recount.sweep()) == (1, 0)
    assert Job.objects.filter(kind="recount").count() == 1


def test_a_recount_that_failed_is_tried_again_by_a_person_or_after_the_next_change(
    client_as, measured, tools, monkeypatch
):
    real = recount.groups_by
    monkeypatch.setattr(recount, "groups_by", lambda definition: 1 / 0)
    applied(tools)
    recount.sweep()
    job = Job.objects.get(kind="recount")
    with pytest.raises(ZeroDivisionError):
        jobs.run(job.pk)
    assert recount.sweep() == 0
    assert "was to count them again and failed" in client_as("admin").get("/evaluation/").content.decode()
    monkeypatch.setattr(recount, "groups_by", real)
    make_rule(tools[2], tools[3], code="ANOTHER")
    assert recount.sweep() == 1
    count_again()
    assert not recount.is_due()


def test_a_recount_resamples_only_what_holds_other_queries(measured, tools, monkeypatch):
    drawn = []
    sampled = report.bootstrap_table

    def counting(table, **options):
        drawn.append(len(table))
        return sampled(table, **options)

    monkeypatch.setattr(report, "bootstrap_table", counting)
    before = {row.pk: row.metrics for row in Evaluation.objects.all()}
    applied(tools)  # one of two uncovered requests becomes covered
    count_again()
    # of each of five evaluations: covered and uncovered, over all domains and in the one domain
    assert drawn == [1] * 20
    for row in Evaluation.objects.all():
        same = row.metrics["slices"]["all"]["all"]["metrics"]
        assert same == before[row.pk]["slices"]["all"]["all"]["metrics"]


def test_what_is_counted_again_is_what_a_first_count_gives(measured, tools):
    applied(tools)
    count_again()
    for row in Evaluation.objects.exclude(decode="embedding"):
        again = Evaluation.objects.get(pk=row.pk)
        stored = Prediction.objects.filter(evaluation=row).values_list("item", "output")
        given = [{**output, "id": str(item)} for item, output in stored]
        fresh = score(row.benchmark, row.decode, given, benchmark_rows(row.benchmark))
        assert fresh.metrics == again.metrics
        assert fresh.groups == {
            str(item): scores["group"]
            for item, scores in Prediction.objects.filter(evaluation=row).values_list("item", "scores")
        }


def test_an_unchanged_evaluation_is_not_read(measured, tools, monkeypatch):
    make_rule(tools[3], make_tool("Other/Thing"), code="ELSEWHERE")
    with thawed():
        Evaluation.objects.exclude(decode="fast").delete()
    monkeypatch.setattr(recount, "score_requests", None)
    count_again()
    assert Evaluation.objects.get().definition == groups.in_force() and GroupDefinition.objects.count() == 2


def test_an_evaluation_that_ends_while_another_definition_comes_in_is_counted_by_the_new_one(
    measured, tools, tmp_path, monkeypatch
):
    scored, came = tasks.score, []

    def meanwhile(*args):
        found = scored(*args)
        if not came:
            came.append(True)
            applied(tools)
            count_again()
        return found

    monkeypatch.setattr(tasks, "score", meanwhile)
    evaluate(model_with(tools, tmp_path, retrieval="r"))
    assert came and set(Evaluation.objects.values_list("definition", flat=True)) == {groups.in_force().pk}
    for row in Evaluation.objects.all():
        assert row.metrics["groups"]["counts"] == {"covered": 1, "uncovered": 1, "outside": 1}


def test_groups_of_an_unknown_definition_are_shown_nowhere_until_they_are_counted(
    client_as, measured, tools, capsys
):
    with connection.cursor() as cursor:  # as an earlier version left them
        cursor.execute("UPDATE evaluation_evaluation SET definition_id = NULL")
        cursor.execute("UPDATE evaluation_prediction SET scores = scores - 'cited'")
    client = client_as("product_manager")
    assert all(not one for name, one in numbers(client, measured).items() if name != "home")
    assert told_by_command(capsys) == {}
    count_again()
    assert numbers(client, measured)["results"] == {"uncovered": 2, "outside": 1}
    assert all("cited" in row.scores for row in Prediction.objects.filter(evaluation__decode="trace"))


def test_lists_are_compared_with_a_baseline_that_came_later(measured, tools):
    first = Evaluation.objects.get(decode="embedding")
    late = Evaluation.objects.get(decode="trace", model=measured)
    without = {name: value for name, value in late.metrics.items() if name != "same_length"}
    Evaluation.objects.filter(pk=late.pk).update(metrics={**without, "baseline": None})
    answers = list(first.predictions.all())
    first.pk, first.key = None, "a newer baseline"
    first.save()
    for one in answers:
        one.pk, one.evaluation = None, first
    Prediction.objects.bulk_create(answers)
    count_again()
    again = Evaluation.objects.get(pk=late.pk).metrics
    assert (again["baseline"], again["same_length"]) == (first.pk, late.metrics["same_length"])


def test_a_new_rule_that_traces_name_changes_what_they_cite(measured, tools):
    of = Evaluation.objects.get(decode="trace", model=measured)
    assert "citation" not in of.metrics["slices"]["all"]["all"]
    applied(tools)  # the traces name PAYSLIP_PERIOD
    count_again()
    of.refresh_from_db()
    assert of.metrics["slices"]["all"]["all"]["citation"]["rate"] == 1.0
    assert {str(row.scores["cited"]) for row in of.predictions.all()} == {"['PAYSLIP_PERIOD']"}


def test_clusters_that_the_catalog_finds_anew_make_a_recount_due(measured, tools):
    for tool in tools:
        near = [other.pk for other in tools if other != tool]
        known = {"neighbour_ids": near, "scores": [0.9] * 3, "other_ids": near, "other_scores": [0.9] * 3}
        NeighbourList.objects.create(tool=tool, **known)
    assert not recount.is_due()
    assert clusters_update(domain="hr")["hr"]["version"] == 2
    assert recount.is_due()
