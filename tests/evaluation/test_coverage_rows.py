"""The coverage page's numbers from the database: right, complete, and in a fixed number of queries."""

import json

import pytest
from django.core.management import CommandError, call_command

from catalog.models import Clustering
from evaluation.core.coverage import TAUGHT_SAMPLES
from evaluation.coverage.selectors import coverage
from synthesis.models import Sample, SnapshotSample, SynthesisRun
from tests.factories import (
    crown,
    make_cluster,
    make_domain,
    make_evaluation,
    make_model,
    make_rule,
    make_run,
    make_snapshot,
    make_tool,
)

pytestmark = pytest.mark.django_db


def one(domain="hr"):
    return coverage(domain)[0]


def approve_samples(rule, count, snapshot=None):
    run = SynthesisRun.objects.create(branch="rule", writer="offline")
    for number in range(count):
        sample = Sample.objects.create(
            run=run,
            key=f"{rule.pk}-{number}",
            branch="rule",
            domain=rule.domain,
            rule_version=rule.published,
            seed=number,
            machine="ready",
            human="approved",
        )
        if snapshot:
            SnapshotSample.objects.create(
                snapshot=snapshot, sample=sample, position=number, sample_key=sample.key
            )


def test_domain_without_clusters_says_so():
    make_tool()
    row = one()
    assert (row.clustering, row.tools, row.totals.clusters, row.ranked) == (None, 1, 0, [])


def test_gap_names_its_tools_and_the_pairs_nobody_has_ruled_on():
    a, b, c = (make_tool(name) for name in ("Pay/A", "Pay/B", "Pay/C"))
    make_cluster(a, b, c)
    rule = make_rule(a, b)
    gap = one().ranked[0]
    assert (gap.state, gap.coverage.expected_rules) == ("touched", 0.0065)
    assert gap.coverage.covered == ((a.pk, b.pk),) and gap.coverage.uncovered == ((b.pk, c.pk),)
    assert [one.name for one in gap.tools] == ["Pay/A", "Pay/B", "Pay/C"]
    assert [found.code for found in gap.rules] == [rule.code]


def test_only_the_newest_clustering_counts():
    a, b = make_tool(), make_tool()
    make_cluster(a, b)
    make_cluster(a, b)
    assert one().clustering == 2 and one().totals.clusters == 1


def test_unpublished_rule_is_a_draft():
    a, b = make_tool(), make_tool()
    make_cluster(a, b)
    rule = make_rule(a, b, published=False)
    row = one()
    assert row.clusters[0].state == "draft" and row.rules == 0
    assert [found.code for found in row.clusters[0].drafts] == [rule.code]


def test_cluster_is_taught_by_approved_samples_and_in_the_champion_by_its_snapshot():
    a, b = make_tool(), make_tool()
    make_cluster(a, b)
    rule, snapshot = make_rule(a, b), make_snapshot()
    assert one().clusters[0].state == "resolved"
    approve_samples(rule, TAUGHT_SAMPLES, snapshot)
    assert one().clusters[0].state == "taught"
    crown(model=make_model(run=make_run(snapshot=snapshot, retrieval="r")), actor=None)
    assert one().clusters[0].state == "taught"  # cell r never saw a rule sample
    crown(model=make_model(run=make_run(snapshot=snapshot, retrieval="r+R")), actor=None)
    assert one().clusters[0].state == "in_champion"


def test_dismissed_cluster_keeps_its_reason_and_leaves_the_count():
    a, b = make_tool(), make_tool()
    make_cluster(a, b, dismissed_reason="the descriptions are enough")
    row = one()
    assert (row.totals.clusters, row.totals.states["dismissed"]) == (0, 1)
    assert not row.clusters[0].coverage.is_gap
    assert row.clusters[0].dismissed_reason == "the descriptions are enough"


def test_rule_over_tools_of_no_cluster_is_listed_apart():
    a, b, lone = make_tool(), make_tool(), make_tool("Leave/Book")
    make_cluster(a, b)
    rule = make_rule(a, b, lone)
    outside = one().outside[0]
    assert (outside.rule.code, outside.pairs, outside.outside) == (rule.code, 2, ["Leave/Book"])


def test_number_of_queries_does_not_grow_with_the_catalog(django_assert_max_num_queries):
    for slug in ("hr", "finance", "sales"):
        domain = make_domain(slug)
        clustering = Clustering.objects.create(domain=domain, version=1, tau=0.8, algorithm="test")
        for _ in range(5):
            tools = [make_tool(domain=domain) for _ in range(3)]
            make_cluster(*tools, clustering=clustering)
            make_rule(*tools)
    with django_assert_max_num_queries(20):
        assert len(coverage()) == 3


def test_command_prints_a_table_and_one_object(capsys):
    a, b = make_tool(), make_tool()
    make_cluster(a, b, label="payslips")
    call_command("coverage", json=True)
    lines = capsys.readouterr().out.splitlines()
    assert any("payslips" in line for line in lines)
    found = json.loads(lines[-1])["domains"]["hr"]
    assert (found["clusters"], found["edges"], found["states"]["no_rule"]) == (1, 1, 1)
    with pytest.raises(CommandError, match="there is no domain 'law'. The domains are: hr"):
        call_command("coverage", domain="law")


def test_command_says_how_often_the_first_tool_of_the_champion_and_of_the_embedding_is_right(capsys):
    a, b = make_tool(), make_tool()
    make_cluster(a, b)
    model = make_model()
    answers = [(a, [a.name]), (a, [a.name]), (b, [a.name])]
    asked = make_evaluation(*answers, model=model, decode="fast").benchmark
    make_evaluation(*[(one, [b.name]) for one in (a, a, b)], decode="embedding", benchmark=asked)
    crown(model=model, actor=None)
    call_command("coverage", recount=True, json=True)
    *lines, told = capsys.readouterr().out.splitlines()
    recall = json.loads(told)["domains"]["hr"]["recall"]
    assert (recall["model"], recall["alias"]) == (model.pk, "champion")
    assert recall["groups"]["uncovered"]["metrics"]["hit@1"]["mean"] == pytest.approx(2 / 3)
    assert recall["embedding"]["uncovered"]["metrics"]["hit@1"]["mean"] == pytest.approx(1 / 3)
    assert "  uncovered: 0.667 [0.208, 0.939] n 3   embedding 0.333 [0.061, 0.792]" in lines
