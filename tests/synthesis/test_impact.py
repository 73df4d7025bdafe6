"""What a change makes stale: the same numbers on the rule page, in requests and in catalog previews."""

import pytest

from catalog.models import Tool
from synthesis.models import Attempt, Sample, SnapshotSample, SynthesisRun
from synthesis.samples import impact
from synthesis.samples.impact import RETRIES, regeneration_calls, stale_of_rules, stale_of_tools
from tests.factories import crown, make_model, make_rule, make_run, make_sample, make_snapshot, make_tool
from trace_site.impact import impact_of
from trace_site.jobs import Job

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def no_endpoint(settings):
    settings.LLM_BASE_URL = ""


@pytest.fixture
def tools():
    return [make_tool(name) for name in ("Pay/A", "Pay/B", "Pay/C")]


def keep(snapshot, *samples):
    for sample in samples:
        SnapshotSample.objects.create(
            snapshot=snapshot, sample=sample, position=sample.pk, sample_key=sample.key
        )
    return snapshot


def told(subject, *rows):
    return {line.name: (line.count, line.label) for line in impact_of(subject, [row.pk for row in rows])}


def test_rule_makes_its_live_samples_and_their_snapshots_stale(tools):
    rule, other = make_rule(*tools), make_rule(*tools)
    approved = make_sample(rule=rule, tools=tools, human="approved")
    make_sample(rule=rule, tools=tools, style="implicit")
    make_sample(rule=rule, tools=tools, human="rejected")
    make_sample(rule=rule, tools=tools, machine="dropped")
    keep(make_snapshot(), approved)
    keep(make_snapshot(), make_sample(rule=other, tools=tools))
    found = stale_of_rules([rule.pk])
    assert (found.samples, found.approved, len(found.snapshots)) == (2, 1, 1)
    assert told("rules", rule) == {
        "samples": (2, "samples, 1 approved"),
        "snapshots": (1, "snapshot holds some of them"),
        "calls": (0, "model calls to write them again, with the offline writers"),
    }
    assert told("rules", rule, other)["samples"][0] == 3


def test_new_or_withdrawn_rule_makes_nothing_stale(tools):
    rule = make_rule(*tools)
    make_sample(rule=rule, tools=tools)
    rule.published = None
    rule.save()
    assert impact_of("rules", [rule.pk]) == []


def test_tool_makes_the_samples_stale_whose_pool_holds_it(tools):
    inside = make_sample(tools=tools[:2])
    keep(make_snapshot(), inside)
    make_sample(tools=[tools[2]] * 2)
    make_sample(tools=tools[:2], human="rejected")
    assert told("tools", tools[1])["samples"] == (1, "sample, 0 approved")
    assert told("tools", tools[1])["snapshots"][0] == 1
    assert told("tools", *tools)["samples"][0] == 2
    assert told("tools", make_tool("Pay/New")) == {}


def test_name_that_begins_like_another_is_not_found_in_its_pool(tools):
    make_sample(tools=[tools[0], make_tool("Pay/AB")])
    assert stale_of_tools([Tool.objects.get(name="Pay/AB").pk]).samples == 1
    assert stale_of_tools([make_tool("Pay/ABC").pk]).samples == 0


def test_samples_written_with_an_imports_tools_stand_in_the_way_of_undoing_it(tools):
    make_sample(tools=tools[:2])
    line = impact_of("tools", [tools[0].pk])[0]
    assert line.blocks == "1 samples were written with tools it added in their pools."
    assert impact_of("rules", [make_rule(*tools).pk]) == []


def test_pools_are_found_in_the_index_and_not_by_reading(tools):
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = off")
        cursor.execute(
            f"EXPLAIN {Sample.objects.filter(pool__has_any_keys=['a', 'b']).only('pk').query}".replace(
                "[a, b]", "ARRAY['a','b']"
            ).replace("['a', 'b']", "ARRAY['a','b']")
        )
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "samples_by_pool" in plan


def test_many_tools_are_counted_by_reading_and_scaled_beyond_a_limit(tools, monkeypatch):
    for number in range(40):
        make_sample(tools=tools[:2], human="approved" if number % 2 else "pending")
    exact = stale_of_tools([tools[0].pk])
    monkeypatch.setattr(impact, "MOST_TOOLS", 0)
    read = stale_of_tools([tools[0].pk])
    assert (
        (read.samples, read.approved, read.estimated)
        == (exact.samples, exact.approved, False)
        == (40, 20, False)
    )
    monkeypatch.setattr(impact, "MOST_READ", 10)
    scaled = stale_of_tools([tools[0].pk])
    assert scaled.estimated and scaled.samples % 4 == 0 and 8 <= scaled.samples <= 100
    assert "estimated" in told("tools", tools[0])["samples"][1]


def test_offline_writers_cost_no_call_and_an_endpoint_costs_the_default_until_measured(tools, settings):
    rule = make_rule(*tools)
    for _ in range(4):
        make_sample(rule=rule, tools=tools)
    assert told("rules", rule)["calls"] == (0, "model calls to write them again, with the offline writers")
    settings.LLM_BASE_URL = "http://127.0.0.1:1/v1"
    assert told("rules", rule)["calls"] == (
        round(4 * 3 * RETRIES),
        "model calls to write them again (estimate)",
    )


def test_calls_are_measured_with_retries_and_dropped_samples(tools, settings):
    settings.LLM_BASE_URL = "http://127.0.0.1:1/v1"
    job = Job.objects.create(kind="synthesis", title="it", state="done")
    run = SynthesisRun.objects.create(branch="rule", writer="llm:big", job=job)
    outcomes = [["ready"], ["judged_out", "ready"], ["filtered"] * 6, ["ready"]] * 5
    for tries in outcomes:
        sample = make_sample(tools=tools, run=run, machine="ready" if tries[-1] == "ready" else "dropped")
        for number, outcome in enumerate(tries, start=1):
            calls = 3 if outcome != "filtered" else 1
            Attempt.objects.create(sample=sample, number=number, outcome=outcome, calls=calls)
    assert regeneration_calls(8) == 8 * (3 + 6 + 6 + 3) / 4


def test_models_that_learnt_from_rule_samples_are_told_and_the_champion_named(tools):
    rule = make_rule(*tools)
    snapshot = keep(make_snapshot(), make_sample(rule=rule, tools=tools, human="approved"))
    make_model(run=make_run(snapshot=snapshot, retrieval="r"))
    model = make_model(run=make_run(snapshot=snapshot, retrieval="r+R"))
    make_model()
    assert told("rules", rule)["models"] == (1, "model trained on them")
    crown(model=model, actor=None)
    assert told("rules", rule)["models"] == (1, "model trained on them, the champion among them")
    assert told("tools", tools[0])["models"][0] == 2


def test_page_and_registry_agree(tools, client_as):
    rule = make_rule(*tools)
    keep(make_snapshot(), make_sample(rule=rule, tools=tools, human="approved"))
    make_sample(rule=rule, tools=tools)
    page = client_as("expert").get(f"/synthesis/samples/impact/{rule.pk}/").context["found"]
    lines = told("rules", rule)
    assert (page.samples, len(page.snapshots)) == (lines["samples"][0], lines["snapshots"][0]) == (2, 1)


def test_telling_takes_the_same_queries_for_few_rules_and_many(tools, django_assert_num_queries):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    rules = [make_rule(*tools) for _ in range(12)]
    for rule in rules:
        keep(make_snapshot(), make_sample(rule=rule, tools=tools))
    with CaptureQueriesContext(connection) as few:
        impact_of("rules", [rule.pk for rule in rules[:2]])
    with django_assert_num_queries(len(few)):
        impact_of("rules", [rule.pk for rule in rules])
