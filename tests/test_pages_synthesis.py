"""Synthesis pages: runs with their funnel, samples with filters, snapshots with what they froze."""

import re

import pytest

from rules.models import RuleVersion
from synthesis.generate.selectors import Slice, funnel, groups
from synthesis.models import Attempt, Snapshot, SnapshotSample, SynthesisRun
from synthesis.samples.checks import trace_spans
from tests.factories import make_domain, make_rule, make_sample, make_snapshot, make_tool
from tests.synthesis.rows import make_book
from tests.synthesis.rows import make_sample as book_sample
from tests.synthesis.runs_made import make_call, make_dropped, make_ready, make_slip_rule, make_started_run
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
    with django_assert_num_queries(11):
        client.get(f"/synthesis/{run.pk}/")
    with django_assert_num_queries(8):
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


ESTIMATE = "/synthesis/estimate/"


def test_estimate_counts_what_is_missing_and_says_what_each_figure_rests_on(client_as):
    version = make_book()
    client = client_as("expert")
    page = client.get(ESTIMATE, {"branch": "rule", "per_rule": "6", "writer": "offline"})
    assert page.context["estimate"].plan["new"] == 6
    assert [figure.basis != "" for _, figure, _ in page.context["figures"]] == [True] * 4
    for style in ("explicit", "explicit", "implicit", "implicit"):
        book_sample(version, style=style)
    page = client.get(ESTIMATE, {"branch": "rule", "per_rule": "6", "writer": "offline", "outdated": "keep"})
    assert (page.context["estimate"].plan["samples"], SynthesisRun.objects.count()) == (6, 4)


def test_estimate_of_a_form_that_cannot_be_read_still_counts(client_as):
    make_book()
    page = client_as("expert").get(ESTIMATE, {"branch": "rule", "per_rule": "many", "rule": "NO_SUCH_RULE"})
    assert page.status_code == 200


def test_estimate_says_what_to_do_when_there_is_nothing_to_write_for(client_as):
    page = client_as("expert").get(ESTIMATE, {"branch": "rule"}).content.decode()
    assert "Import tools first" in page


def test_estimate_counts_the_imported_queries_a_run_would_take(client_as):
    made = {"branch": "imported", "machine": "ready", "rule_version": None}
    make_sample(**made, trace="")
    make_sample(**made, trace="", human="rejected")
    make_sample(**made, trace="Has one.")
    page = client_as("expert").get(ESTIMATE, {"branch": "imported"})
    assert page.context["estimate"].plan["samples"] == 1


FORM = {"branch": "rule", "writer": "offline", "domain": "", "rule": "", "per_rule": "6", "seed": "3"}


@pytest.mark.parametrize(
    ("field", "typed", "told"),
    [
        ("rule", "NO_SUCH", "There is no rule NO_SUCH"),
        ("rule", "hr/DRAFT_ONLY", "is not published"),
        ("rule", "TWICE", "Several domains"),
        ("per_rule", "0", "greater than or equal to 1"),
        ("calls", "-5", "greater than or equal to 1"),
        ("least_label", "9", "less than or equal to 5"),
        ("query_temperature", "hot", "Enter a number"),
    ],
)
def test_a_refused_launch_keeps_what_was_typed_and_tells_it_beside_the_field(client_as, field, typed, told):
    make_rule(make_tool("A/One"), make_tool("A/Two"), code="DRAFT_ONLY", published=False)
    for slug in ("hr", "finance"):
        tools = [make_tool(f"{slug}/{name}", domain=make_domain(slug)) for name in ("One", "Two")]
        make_rule(*tools, code="TWICE")
    page = client_as("expert").post("/synthesis/new/", {**FORM, "seed": "77", field: typed})
    text = page.content.decode()
    assert page.status_code == 422 and not SynthesisRun.objects.exists()
    assert told in str(page.context["form"].errors[field]) and told in text
    assert f'value="{typed}"' in text and 'value="77"' in text


def test_a_launch_carries_rule_budget_recipe_and_what_to_do_with_outdated_samples(client_as):
    make_book()
    given = {"rule": "payslip_period", "calls": "40", "outdated": "keep", "retries": "2", "least_label": "5"}
    client_as("admin").post("/synthesis/new/", {**FORM, **given, "underspecified": "on"})
    params = SynthesisRun.objects.get().params
    assert (params["rule"], params["domain"], params["budget"]) == ("PAYSLIP_PERIOD", "hr", {"calls": 40})
    assert (params["outdated"], params["underspecified"]) == ("keep", True)
    assert (params["recipe"]["retries"], params["recipe"]["judge"]["thresholds"]["label"]) == (2, 5)


def test_launch_form_names_the_model_of_each_role_and_its_host(client_as, settings):
    settings.LLM_BASE_URL, settings.LLM_API_KEY = "https://models.example.org/v1", "secret-key"
    for role in ("GENERATOR", "TEACHER", "JUDGE"):
        setattr(settings, f"LLM_{role}_MODEL", f"{role.lower()}-large")
    page = client_as("expert").get("/synthesis/new/").content.decode()
    assert "judge-large" in page and "models.example.org" in page and "secret-key" not in page


def test_an_endpoint_that_does_not_answer_is_told_beside_the_writer(client_as, settings):
    make_book()
    settings.LLM_BASE_URL, settings.LLM_API_KEY = "http://127.0.0.1:9/v1", "k"
    settings.LLM_TIMEOUT_SECONDS = settings.LLM_ATTEMPT_SECONDS = 1
    for role in ("GENERATOR", "TEACHER", "JUDGE"):
        setattr(settings, f"LLM_{role}_MODEL", "m")
    page = client_as("expert").post("/synthesis/new/", {**FORM, "writer": "llm"})
    assert page.status_code == 422 and not SynthesisRun.objects.exists()
    assert "127.0.0.1:9" in str(page.context["form"].errors["writer"])


def test_launch_form_can_be_opened_for_one_rule(client_as):
    page = client_as("expert").get("/synthesis/new/?rule=hr/SLIP_YEAR&per_rule=20&domain=hr").content.decode()
    assert 'value="hr/SLIP_YEAR"' in page and 'value="20"' in page


def test_a_stopped_run_says_why_and_what_to_do_and_takes_a_higher_budget(client_as):
    run = make_started_run("failed", params={"per_rule": 2, "budget": {"calls": 1}})
    make_call(run)
    Job.objects.update(error="stopped at its budget: 1 of 1 calls.", error_code="llm_budget")
    client = client_as("expert")
    page = client.get(f"/synthesis/{run.pk}/").content.decode()
    assert "stopped at its budget" in page and "Resume with a higher budget" in page
    refused = client.post(f"/synthesis/{run.pk}/resume/", {"calls": "1"})
    assert refused.status_code == 422 and 'value="1"' in refused.content.decode()
    refused = client.post(f"/synthesis/{run.pk}/resume/", {"calls": "plenty"})
    assert "is no number" in refused.content.decode() and Job.objects.get().state == "failed"
    client.post(f"/synthesis/{run.pk}/resume/", {"calls": "9", "money": ""})
    run.refresh_from_db()
    assert (Job.objects.get().state, run.params["budget"]) == ("queued", {"calls": 9})


def test_run_page_shows_what_was_spent_against_the_budget_and_errors_by_code(client_as):
    run = make_started_run(params={"budget": {"calls": 4}})
    make_call(run)
    make_call(run, state="failed", error_code="llm_timeout")
    client = client_as("reviewer")
    assert client.get(f"/synthesis/{run.pk}/").context["spent"] == [
        ("calls", 2, 4),
        ("tokens", 240, None),
        ("money", 0.5, None),
    ]
    books = client.get(f"/synthesis/{run.pk}/books/").content.decode()
    assert "2 model calls, 1 failed" in books and "llm timeout" in books


def test_skipped_styles_link_to_their_rule(client_as):
    rule = make_slip_rule()
    skipped = [{"rule": "SLIP_YEAR", "style": "exception", "reason": "Every confusable is deprecated."}]
    run = make_started_run(skipped=skipped)
    page = client_as("reviewer").get(f"/synthesis/{run.pk}/").content.decode()
    assert f'href="/rules/{rule.pk}/">SLIP_YEAR' in page and "Every confusable is deprecated." in page


def test_dropped_sample_shows_all_its_attempts_with_evidence_scores_and_what_was_told(client_as):
    run = make_started_run(params={"recipe": {"judge": {"thresholds": {"label": 3}}}})
    make_call(run)
    sample = make_dropped(run, make_slip_rule())
    page = client_as("reviewer").get(f"/synthesis/samples/{sample.pk}/")
    text = page.content.decode()
    assert "Dropped after 3 attempts" in text and "llm truncated" in text
    assert ">Old/GetSlip</mark>" in text  # the evidence, where it stands in the query
    assert "Do not name the tool." in text and "The endpoint cut the answer short." in text
    scores = {
        score["axis"]: (score["value"], score["least"], score["passed"])
        for score in page.context["tried"][1]["scores"]
    }
    assert (scores["label"], scores["naturalness"]) == ((2, 3, False), (5, 3, True))
    assert page.context["costs"] == {"calls": 3, "cost": 0.75}


XSS = "<script>alert(1)</script>"


def test_texts_of_models_and_rules_are_shown_as_they_are_never_run(client_as):
    run = make_started_run("failed")
    Job.objects.update(error=XSS)
    sample = make_dropped(run, make_slip_rule(), query=XSS, explanation=XSS)
    failure = {"check": "leakage", "message": XSS, "evidence": XSS, "span": [0, len(XSS)]}
    texts = dict.fromkeys(("query", "trace", "critique", "error"), XSS)
    Attempt.objects.create(sample=sample, number=4, outcome="filtered", filter_failures=[failure], **texts)
    client = client_as("admin")
    for path in (f"samples/{sample.pk}/", "samples/", f"{run.pk}/", f"samples/?q={XSS}"):
        text = client.get(f"/synthesis/{path}").content.decode()
        assert XSS not in text and "&lt;script&gt;alert(1)" in text, path


@pytest.mark.parametrize("value", ["%27%22", "9" * 40, "%F0%9F%99%82", "-1", "x" * 500])
def test_addresses_that_nobody_wrote_are_answered(client_as, value):
    run = make_started_run()
    make_dropped(run, make_slip_rule())
    client = client_as("expert")
    names = "domain rule style tier by after run check axis error outcome tries stale order show target per_rule seed q"
    query = "&".join(f"{name}={value}" for name in names.split())
    pages = ["", "new/", "new/rules/", "estimate/", "samples/", "yield/", f"{run.pk}/", f"{run.pk}/groups/"]
    for path in pages:
        assert client.get(f"/synthesis/{path}?{query}").status_code == 200, path


def test_attempt_filters_name_a_sample_by_one_attempt_that_is_all_of_it(client_as):
    run = make_started_run()
    make_dropped(run, make_slip_rule())
    client = client_as("reviewer")

    def total(**query):
        return client.get("/synthesis/samples/", query).context["found"].total

    assert total(check="leakage") == total(outcome="error", error="llm_truncated") == 1
    assert total(check="leakage", outcome="error") == 0
    assert total(tries="again") == 1 and total(axis="naturalness") == 0
    assert total(check="no such check") == 1  # what the filter cannot be is ignored


def test_yield_lists_rules_below_target_first_and_fills_one_up_in_a_click(client_as):
    run, rule = make_started_run(), make_slip_rule()
    make_ready(run, rule)
    make_dropped(run, rule)
    make_slip_rule("NOTHING_YET")
    page = client_as("expert").get("/synthesis/yield/?target=2")
    rows = page.context["page"].rows
    assert [(row.code, row.ready, row.missing, row.dropped) for row in rows] == [
        ("NOTHING_YET", 0, 2, 0),
        ("SLIP_YEAR", 1, 1, 1),
    ]
    assert (rows[1].per_ready, rows[1].near, rows[1].last_run) == (5.0, 1, run.pk)
    assert "/synthesis/new/?branch=rule&amp;rule=hr/SLIP_YEAR" in page.content.decode()


def test_yield_names_the_styles_a_rule_cannot_support_with_the_reason(client_as):
    make_rule(make_tool("New/Slip"), make_tool("Old/Slip", deprecated=True), code="OLD_IS_DEAD")
    client = client_as("expert")
    row = client.get("/synthesis/yield/?show=unsupported").context["page"].rows[0]
    assert (row.styles, row.reasons) == (
        ["explicit", "implicit"],
        {"exception": "Every confusable is deprecated or retired."},
    )
    text = b"".join(client.get("/synthesis/yield/yield.csv").streaming_content).decode()
    assert "OLD_IS_DEAD" in text and "Every confusable is deprecated or retired." in text


def test_samples_of_older_versions_do_not_count_for_the_yield(client_as):
    rule = make_slip_rule()
    make_ready(make_started_run(), rule)
    old = rule.published
    rule.published = RuleVersion.objects.create(
        rule=rule,
        number=2,
        target=old.target,
        confusable_ids=old.confusable_ids,
        text=old.text,
        content_hash="2",
    )
    rule.save()
    assert client_as("expert").get("/synthesis/yield/").context["page"].rows[0].ready == 0


@pytest.mark.parametrize(("path", "queries"), [("yield/", 13), ("samples/", 10), ("", 10)])
def test_pages_need_the_same_queries_for_ten_rows_and_for_sixty(
    client_as, path, queries, django_assert_num_queries
):
    client = client_as("reviewer")
    for size in (10, 50):
        for number in range(size):
            make_dropped(make_started_run(), make_slip_rule(f"RULE_{size}_{number}"))
        with django_assert_num_queries(queries):
            assert client.get(f"/synthesis/{path}").status_code == 200


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
    page = client_as("expert").get(f"/synthesis/samples/{sample.pk}/").content.decode()
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
    page = client_as("expert").get(f"/synthesis/snapshots/{snapshot.pk}/")
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
    monkeypatch.setattr("synthesis.datasets.views.snapshot_dir", lambda snapshot: tmp_path)
    page = client_as("admin").get(f"/synthesis/snapshots/{make_snapshot().pk}/samples.jsonl")
    assert b"".join(page.streaming_content) == b'{"id": 1}\n'
    assert "attachment" in page["Content-Disposition"]


def test_rule_fragment_shows_yield_by_version_and_style(client_as, run):
    rule = run.samples.first().rule_version.rule
    rows = client_as("expert").get(f"/synthesis/samples/of-rule/{rule.pk}/").context["rows"]
    assert [(row["style"], row["planned"], row["ready"], row["dropped"]) for row in rows] == [
        ("explicit", 3, 2, 1)
    ]


def test_rule_fragment_says_how_far_the_rule_is_from_its_target_and_fills_it_up(client_as):
    rule = make_slip_rule()
    make_ready(make_started_run(), rule)
    client = client_as("expert")
    page = client.get(f"/synthesis/samples/of-rule/{rule.pk}/").content.decode()
    assert "<b>1</b> of 12 ready samples" in page and "rule=hr/SLIP_YEAR" in page
    draft = make_rule(make_tool("A/One"), make_tool("A/Two"), published=False)
    page = client.get(f"/synthesis/samples/of-rule/{draft.pk}/").content.decode()
    assert "It has no published version" in page


def test_a_dropped_sample_is_not_called_stale(client_as):
    run = make_started_run()
    dropped, ready = make_dropped(run, make_slip_rule()), make_ready(run)
    client = client_as("reviewer")
    asks = 'class="stale-place"'
    assert asks not in client.get(f"/synthesis/samples/{dropped.pk}/").content.decode()
    assert asks in client.get(f"/synthesis/samples/{ready.pk}/").content.decode()


def test_tool_fragment_counts_samples_that_answer_with_it(client_as, run):
    tool = run.samples.first().rule_version.target
    context = client_as("expert").get(f"/synthesis/samples/of-tool/{tool.pk}/").context
    assert (context["total"], context["approved"], context["waiting"]) == (3, 0, 2)
