"""Synthesis pages: runs with their funnel, samples with filters, snapshots with what they froze."""

import re

import pytest

from synthesis.selectors_funnel import Slice, funnel, groups
from synthesis.models import Attempt, Snapshot, SnapshotSample, SynthesisRun
from synthesis.spans import trace_spans
from tests.factories import make_rule, make_sample, make_snapshot, make_tool
from trace_site.jobs import Job

pytestmark = pytest.mark.django_db


@pytest.fixture
def run():
    """A run of one rule: one sample passed at once, one after a refusal of each kind, one was dropped."""
    tools = [make_tool("New/GetSlip"), make_tool("Old/GetSlip")]
    rule = make_rule(*tools, code="SLIP_YEAR")
    run = SynthesisRun.objects.create(branch="rule", writer="offline", skipped=[])
    first, second, third = (make_sample(run=run, rule=rule, tools=tools) for _ in range(3))
    third.machine = "dropped"
    third.save()
    Attempt.objects.create(sample=first, number=1, outcome="ready", judge={"label": 5, "critique": ""})
    failure = {"check": "leakage", "message": "The query holds a tool name.", "evidence": "GetSlip"}
    Attempt.objects.create(sample=second, number=1, outcome="filtered", filter_failures=[failure])
    Attempt.objects.create(
        sample=second,
        number=2,
        outcome="judged_out",
        judge={"label": 2, "naturalness": 5, "failed": ["label"]},
    )
    Attempt.objects.create(sample=second, number=3, outcome="ready")
    Attempt.objects.create(sample=third, number=1, outcome="filtered", filter_failures=[failure])
    return run


def test_funnel_counts_samples_and_refused_attempts(run):
    found = funnel(Slice(run.pk))
    total = found.total
    assert (total.planned, total.written, total.ready, total.dropped) == (3, 3, 2, 1)
    assert (total.filtered, total.judged_out, total.retries) == (2, 1, 2)
    assert (found.checks, found.axes) == ([("leakage", 2)], [("label", 1)])
    assert [(row.slice.rule, row.filtered) for row in groups(Slice(run.pk), "rule")] == [("SLIP_YEAR", 2)]
    assert [(row.slice.style, row.retries) for row in groups(Slice(run.pk), "style")] == [("explicit", 2)]


def test_a_slice_counts_its_own_samples_only(run):
    make_sample(run=run)
    Attempt.objects.create(
        sample=run.samples.last(), number=1, outcome="error", error="No answer.", error_code="llm_timeout"
    )
    assert funnel(Slice(run.pk)).errors == [("llm_timeout", 1)]
    part = funnel(Slice(run.pk, rule="SLIP_YEAR"))
    assert (part.total.planned, part.errors) == (3, [])
    assert [row.planned for row in groups(Slice(run.pk), "domain")] == [4]


@pytest.mark.parametrize("rules", [10, 60])
def test_run_page_needs_the_same_queries_for_ten_rules_and_for_sixty(
    client_as, run, rules, django_assert_num_queries
):
    tools = [make_tool("A/One"), make_tool("A/Two")]
    for _ in range(rules):
        sample = make_sample(run=run, rule=make_rule(*tools), tools=tools)
        Attempt.objects.create(sample=sample, number=1, outcome="ready")
    client = client_as("reviewer")
    client.get("/synthesis/")
    with django_assert_num_queries(6):
        client.get(f"/synthesis/{run.pk}/")
    with django_assert_num_queries(7):
        client.get(f"/synthesis/{run.pk}/groups/", {"by": "rule"})


def test_every_number_of_the_run_page_opens_what_it_counts(client_as, run):
    client = client_as("reviewer")
    page = client.get(f"/synthesis/{run.pk}/").content.decode()
    links = re.findall(r'href="(/synthesis/samples/\?[^"]+)">(?:<b>)?([\d,]+)', page)
    assert len(links) >= 12
    for href, _ in links:
        assert client.get(href.replace("&amp;", "&")).status_code == 200
    listed = client.get("/synthesis/samples/", {"run": run.pk, "check": "leakage"}).context["found"]
    assert (listed.total, listed.attempts) == (2, 2)
    listed = client.get("/synthesis/samples/", {"run": run.pk, "axis": "label"}).context["found"]
    assert [row.pk for row in listed.page.rows] == [run.samples.order_by("pk")[1].pk]


def test_run_page_shows_the_funnel_and_stops_asking_when_the_job_has_ended(client_as, run):
    run.job = Job.objects.create(kind="synthesis", queue="default", title="t", state="running")
    run.save()
    client = client_as("expert")
    polled = client.get(f"/synthesis/{run.pk}/live/")
    assert b'hx-trigger="every 2s"' in polled.content and "HX-Refresh" not in polled
    Job.objects.update(state="done")
    ended = client.get(f"/synthesis/{run.pk}/live/")
    assert b"every 2s" not in ended.content and b"leakage" in ended.content
    assert ended["HX-Refresh"] == "true"


def test_a_queued_run_is_cancelled_and_resumed(client_as, run):
    run.job = Job.objects.create(kind="synthesis", queue="default", title="t")
    run.save()
    client = client_as("expert")
    client.post(f"/synthesis/{run.pk}/cancel/")
    assert Job.objects.get().state == "cancelled"
    client.post(f"/synthesis/{run.pk}/resume/")
    assert Job.objects.get().state == "queued"


@pytest.mark.parametrize(
    ("role", "status"), [("expert", 200), ("admin", 200), ("reviewer", 403), ("product_manager", 403)]
)
def test_only_experts_and_admins_launch_synthesis(client_as, role, status):
    assert client_as(role).get("/synthesis/new/").status_code == status


def test_launch_form_starts_a_run_with_what_was_typed(client_as):
    given = {"branch": "rule", "writer": "offline", "domain": "", "per_rule": "6", "anchors": "", "seed": "3"}
    answer = client_as("expert").post("/synthesis/new/", given)
    run = SynthesisRun.objects.get()
    assert answer.url == f"/synthesis/{run.pk}/"
    assert (run.params["per_rule"], run.seed, run.created_by.username) == (6, 3, "expert")


def test_language_model_writers_need_an_endpoint(client_as, settings):
    settings.LLM_BASE_URL = ""
    page = client_as("expert").post("/synthesis/new/", {"branch": "rule", "writer": "llm", "seed": "0"})
    assert page.status_code == 422 and not SynthesisRun.objects.exists()
    assert b"LLM_BASE_URL" in page.content


def test_estimate_multiplies_published_rules(client_as):
    tools = [make_tool("New/GetSlip"), make_tool("Old/GetSlip")]
    make_rule(*tools)
    make_rule(*tools, published=False)
    page = client_as("expert").get(
        "/synthesis/estimate/", {"branch": "rule", "per_rule": "7", "seed": "0", "writer": "offline"}
    )
    assert page.context["planned"]["count"] == 7


def test_estimate_says_how_many_samples_exist_already(client_as):
    rule = make_rule(make_tool("New/GetSlip"), make_tool("Old/GetSlip"))
    make_sample(rule=rule, machine="ready")
    make_sample(rule=rule, machine="dropped")
    client = client_as("expert")
    parts = client.get("/synthesis/estimate/", {"branch": "rule", "seed": "0"}).context["planned"]["parts"]
    assert parts[-1] == (1, "are there already")


def test_estimate_counts_the_imported_queries_a_run_would_take(client_as):
    made = {"branch": "imported", "machine": "ready", "rule_version": None}
    make_sample(**made, trace="")
    make_sample(**made, trace="", human="rejected")
    make_sample(**made, trace="Has one.")
    page = client_as("expert").get("/synthesis/estimate/", {"branch": "imported", "seed": "0"})
    assert page.context["planned"]["count"] == 1


def test_samples_are_filtered_and_paged_without_gaps(client_as, run):
    for _ in range(60):
        make_sample()
    client = client_as("reviewer")
    first = client.get("/synthesis/samples/").context
    second = client.get("/synthesis/samples/", {"after": first["page"].next_key}).context
    seen = [sample.pk for page in (first, second) for sample in page["page"].rows]
    assert first["found"].total == 63 and len(seen) == len(set(seen)) == 63
    found = client.get("/synthesis/samples/", {"rule": "SLIP_YEAR", "machine": "dropped"}).context
    assert found["found"].total == 1


def test_rule_filter_suggests_codes_of_rules_with_samples_only(client_as):
    make_sample(rule=make_rule(make_tool("A/One"), make_tool("A/Two"), code="HAS_SAMPLES"))
    make_rule(make_tool("B/One"), make_tool("B/Two"), code="HAS_NONE")
    page = client_as("expert").get("/synthesis/samples/rules/").content.decode()
    assert 'value="HAS_SAMPLES"' in page and "HAS_NONE" not in page


def test_samples_page_needs_the_same_queries_for_one_sample_and_for_fifty(
    client_as, django_assert_max_num_queries
):
    for _ in range(50):
        make_sample()
    client = client_as("reviewer")
    with django_assert_max_num_queries(10):
        client.get("/synthesis/samples/")


def test_sample_page_shows_attempts_with_their_verdicts_and_the_offline_label(client_as, run):
    sample = run.samples.order_by("pk")[1]
    page = client_as("product_manager").get(f"/synthesis/samples/{sample.pk}/").content.decode()
    for words in (
        "Attempt 3",
        "leakage",
        "The query holds a tool name.",
        "offline",
        "SLIP_YEAR",
        "confusable",
    ):
        assert words in page


def test_spans_join_to_the_trace_and_mark_its_parts():
    text = "A/New and A/Old differ. By YEAR_RULE it is new. So A/New."
    spans = trace_spans(text, ["A/New", "A/Old"], ["A/New"], ["YEAR_RULE"])
    assert "".join(span.text for span in spans) == text
    assert [(s.text, s.chosen, s.final) for s in spans if s.kind == "tool"] == [
        ("A/New", True, False),
        ("A/Old", False, False),
        ("A/New", True, True),
    ]
    assert [s.text for s in spans if s.kind == "rule"] == ["YEAR_RULE"]


def test_snapshot_page_lists_what_was_kept_out_and_names_the_hash(client_as):
    sample = make_sample(human="approved")
    manifest = {
        "hash": "h",
        "counts": {"samples": 1, "stale": {}},
        "contaminated": [
            {"sample": sample.pk, "benchmark": "golden", "query": "my pay slip", "kind": "near"}
        ],
        "files": {"samples.jsonl": {"sha256": "00", "bytes": 10, "rows": 1}},
        "rules": [],
        "models": ["offline"],
        "prompts": [],
    }
    snapshot = make_snapshot(manifest=manifest)
    SnapshotSample.objects.create(snapshot=snapshot, sample=sample, position=0, sample_key=sample.key)
    page = client_as("product_manager").get(f"/synthesis/snapshots/{snapshot.pk}/")
    assert [row["count"] for row in page.context["rows"]] == [1]
    assert "my pay slip" in page.content.decode() and snapshot.hash in page.content.decode()


def test_builder_counts_only_approved_samples_and_queues_one_job(client_as):
    tools = [make_tool("New/GetSlip"), make_tool("Old/GetSlip")]
    rule = make_rule(*tools)
    for human in ("approved", "approved", "pending", "rejected"):
        make_sample(rule=rule, tools=tools, human=human)
    client = client_as("admin")
    form = {
        "strategy": "append",
        "per_rule": "12",
        "branches": ["rrb", "rule"],
        "rrb": "",
        "domain": "",
        "seed": "0",
    }
    assert client.get("/synthesis/snapshots/preview/", form).context["preview"]["samples"] == 2
    client.post("/synthesis/snapshots/new/", form)
    assert Job.objects.get(kind="snapshot").params["per_rule"] == 12
    assert not Snapshot.objects.exists()


def test_download_streams_the_frozen_file(client_as, monkeypatch, tmp_path):
    (tmp_path / "samples.jsonl").write_text('{"id": 1}\n')
    monkeypatch.setattr("synthesis.snapshots.snapshot_dir", lambda snapshot: tmp_path)
    page = client_as("reviewer").get(f"/synthesis/snapshots/{make_snapshot().pk}/samples.jsonl")
    assert b"".join(page.streaming_content) == b'{"id": 1}\n'
    assert "attachment" in page["Content-Disposition"]


def test_rule_fragment_shows_yield_by_version_and_style(client_as, run):
    rule = run.samples.first().rule_version.rule
    rows = client_as("expert").get(f"/synthesis/samples/of-rule/{rule.pk}/").context["rows"]
    assert [(row["style"], row["planned"], row["ready"], row["dropped"]) for row in rows] == [
        ("explicit", 3, 2, 1)
    ]


def test_tool_fragment_counts_samples_that_answer_with_it(client_as, run):
    tool = run.samples.first().rule_version.target
    context = client_as("expert").get(f"/synthesis/samples/of-tool/{tool.pk}/").context
    assert (context["total"], context["approved"], context["waiting"]) == (3, 0, 2)
