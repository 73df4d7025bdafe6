"""Suggestions in step with the catalog: what a run writes, what rules cover, what people dismiss, pages and API."""

import json
from datetime import timedelta

import pytest
from django.core.management import call_command

from catalog.models import NeighbourList, Tool
from rules.models import ChangeRequest, RuleChange, RuleSuggestion, RuleVersion
from rules.suggestions import services
from rules.suggestions.selectors import SuggestionFilter, proposed, quotes, suggestion_list
from rules.suggestions.services import suggestion_dismiss, suggestion_restore, suggestions_start
from tests.factories import make_domain, make_rule, make_tool
from trace_site.audit.models import AuditEntry
from trace_site.jobs import Job, run
from trace_site.lib.errors import TraceError

pytestmark = pytest.mark.django_db

SAYS = "Cancel a payment. For captured payments, use the Create a refund endpoint instead."


@pytest.fixture
def tools():
    return {
        "cancel": make_tool("BankV1/cancelPayment", description=SAYS),
        "refund": make_tool("BankV1/createRefund", description="Create a refund. Pays money back."),
        "old": make_tool("PayV1/readSlip", description="Read a payslip."),
        "new": make_tool("PayV2/readSlip", description="Read a payslip."),
    }


def look(**options):
    job = suggestions_start(wake=False, **options)
    run(job.pk)
    job.refresh_from_db()
    assert job.state == Job.State.DONE, job.error
    return job.result


def targets():
    return [row.content["target"] for row in proposed().order_by("-score")]


def test_a_run_finds_suggestions_and_a_second_one_writes_nothing(tools, django_assert_max_num_queries):
    counts = look()["domains"]["hr"]
    assert (counts["tools"], counts["proposed"], counts["new"]) == (4, 2, 2)
    assert targets() == ["BankV1/createRefund", "PayV2/readSlip"]
    before = list(RuleSuggestion.objects.values_list("pk", "found_at"))
    assert look()["domains"]["hr"] == {**counts, "new": 0}
    assert list(RuleSuggestion.objects.values_list("pk", "found_at")) == before


def test_an_edit_writes_only_the_suggestions_it_touches(tools):
    look()
    untouched = RuleSuggestion.objects.get(kind="twin")
    Tool.objects.filter(pk=tools["cancel"].pk).update(description=SAYS.replace("captured", "settled"))
    counts = look()["domains"]["hr"]
    assert (counts["new"], counts["changed"], counts["gone"]) == (0, 1, 0)
    assert "settled" in RuleSuggestion.objects.get(kind="condition").content["text"]
    untouched.refresh_from_db()
    Tool.objects.filter(pk=tools["cancel"].pk).update(description="Cancel a payment.")
    assert look()["domains"]["hr"]["gone"] == 1 and targets() == ["PayV2/readSlip"]


def test_neighbour_lists_are_read(tools, monkeypatch):
    NeighbourList.objects.create(tool=tools["old"], neighbour_ids=[tools["new"].pk, 10**9], scores=[0.9, 0.8])
    seen = {}
    real = services.Suggester
    monkeypatch.setattr(
        services, "Suggester", lambda t, near, *rest: seen.update(near) or real(t, near, *rest)
    )
    look()
    assert seen == {"PayV1/readSlip": {"PayV2/readSlip": 0.9}}


def test_nothing_is_drafted_or_published_by_a_run(tools):
    look()
    assert not ChangeRequest.objects.exists() and not RuleVersion.objects.exists()


@pytest.mark.parametrize("order", [("refund", "cancel"), ("cancel", "refund"), ("old", "cancel", "refund")])
def test_a_published_rule_over_the_pair_takes_its_suggestion_away_at_once(tools, order):
    look()
    rule = make_rule(*(tools[name] for name in order))
    assert targets() == ["PayV2/readSlip"]
    look()
    assert targets() == ["PayV2/readSlip"]
    rule.published = None
    rule.save()
    look()
    assert "BankV1/createRefund" in targets()


def test_a_draft_rule_or_one_over_other_tools_takes_nothing_away(tools):
    look()
    make_rule(tools["refund"], tools["cancel"], published=False)
    make_rule(tools["refund"], tools["old"])
    assert targets() == ["BankV1/createRefund", "PayV2/readSlip"]


def test_of_a_suggestion_over_several_pairs_the_uncovered_ones_stay(tools):
    make_tool(
        "BankV1/stopPayment", description="Stop a payment. For captured payments, use createRefund instead."
    )
    look()
    make_rule(tools["refund"], tools["cancel"])
    look()
    row = proposed().get(kind="condition")
    assert row.content["confusables"] == ["BankV1/stopPayment"]


def test_a_retired_tool_takes_its_suggestions_away(tools):
    look()
    Tool.objects.filter(pk=tools["old"].pk).update(status="retired")
    assert targets() == ["BankV1/createRefund"]


def test_a_dismissed_one_stays_away_until_the_text_of_a_tool_changes(tools, user_with):
    look()
    row = RuleSuggestion.objects.get(kind="condition")
    expert = user_with("expert")
    with pytest.raises(TraceError) as refused:
        suggestion_dismiss(suggestion=row, reason=" ok ", actor=expert)
    assert refused.value.code == "no_reason"
    suggestion_dismiss(suggestion=row, reason="The names say it.", actor=expert)
    look()
    assert targets() == ["PayV2/readSlip"]
    Tool.objects.filter(pk=tools["old"].pk).update(description="Read a payslip of old.")
    look()
    assert targets() == ["PayV2/readSlip"], "another tool's text is no reason"
    Tool.objects.filter(pk=tools["refund"].pk).update(description="Create a refund. Pays money back at once.")
    assert look()["domains"]["hr"]["back"] == 1
    assert targets() == ["BankV1/createRefund", "PayV2/readSlip"]
    told = (
        AuditEntry.objects.filter(action__startswith="suggestion.")
        .order_by("pk")
        .values_list("action", flat=True)
    )
    assert list(told) == ["suggestion.dismissed", "suggestion.dismissal_ended"]


def test_a_dismissed_pair_does_not_come_back_in_a_larger_set(tools, user_with):
    look()
    suggestion_dismiss(
        suggestion=RuleSuggestion.objects.get(kind="condition"), reason="The names say it.", actor=None
    )
    make_tool(
        "BankV1/stopPayment", description="Stop a payment. For captured payments, use createRefund instead."
    )
    look()
    assert proposed().get(kind="condition").content["confusables"] == ["BankV1/stopPayment"]


def test_a_dismissal_can_be_undone(tools):
    look()
    row = RuleSuggestion.objects.get(kind="condition")
    suggestion_dismiss(suggestion=row, reason="The names say it.", actor=None)
    suggestion_restore(suggestion=row, actor=None)
    assert "BankV1/createRefund" in targets()


def test_failing_requests_come_from_the_app_that_knows_them(tools, monkeypatch):
    missed = [
        ("pay me back", "BankV1/createRefund", "BankV1/cancelPayment"),
        ("slip", "PayV2/readSlip", "BankV1/x"),
    ]
    monkeypatch.setattr("evaluation.coverage.outcomes.failing_requests", lambda domain: missed)
    look()
    row = RuleSuggestion.objects.get(kind="condition")
    assert row.failures == [{"query": "pay me back", "wanted": missed[0][1], "chosen": missed[0][2]}]
    assert row.content["tests"] == []


def test_a_suggestion_that_is_dismissed_while_a_run_computes_stays_dismissed(tools, monkeypatch):
    look()
    row = RuleSuggestion.objects.get(kind="condition")
    make_tool("PayV3/readSlip")
    real = services._store

    def dismissed_meanwhile(*args):
        suggestion_dismiss(suggestion=row, reason="everybody knows", actor=None)
        return real(*args)

    monkeypatch.setattr(services, "_store", dismissed_meanwhile)
    look()
    row.refresh_from_db()
    assert row.dismissed_reason and "BankV1/createRefund" not in targets()


def test_a_dismissal_holds_on_when_a_model_has_worded_the_rule(tools):
    tools["third"] = make_tool("PayV3/readSlip", description="Read a payslip.")
    look()
    row = RuleSuggestion.objects.get(kind="twin")
    assert len(row.content["confusables"]) == 2
    row.content["confusables"].reverse()
    row.writer = "llm"
    row.save()
    suggestion_dismiss(suggestion=row, reason="everybody knows", actor=None)
    assert look()["domains"]["hr"]["back"] == 0 and RuleSuggestion.objects.get(pk=row.pk).dismissed_reason


def test_a_look_at_one_domain_leaves_the_changes_of_others_to_the_sweep(tools, monkeypatch):
    services._failing_lately.cache_clear()
    monkeypatch.setattr(services, "REST", timedelta(microseconds=1))
    other = make_tool("Law/read", domain=make_domain("law"))
    look()
    make_tool("LawV2/read", domain=other.domain)
    look(domain="hr")
    services.sweep()
    assert Job.objects.filter(kind="suggestions", state="queued").count() == 1


def test_marks_that_overlap_show_no_word_twice(tools):
    row = RuleSuggestion(evidence=[{"tool": "A/b", "text": "void it instead.", "marks": [[0, 15], [8, 15]]}])
    assert quotes(row)[0]["parts"] == [("void it instead", True), (".", False)]


def test_the_sweep_looks_again_only_after_a_change_and_where_somebody_has_looked(
    tools, django_capture_on_commit_callbacks
):
    services._failing_lately.cache_clear()
    services.sweep()
    assert not Job.objects.filter(kind="suggestions").exists()
    look()
    services.sweep()
    assert Job.objects.filter(kind="suggestions").count() == 1
    last = Job.objects.get(kind="suggestions")
    last.finished_at -= services.REST * 2
    last.save()
    services.sweep()
    assert Job.objects.filter(kind="suggestions").count() == 1, "nothing changed"
    make_tool("PayV3/readSlip")
    services.sweep()
    assert Job.objects.filter(kind="suggestions", state="queued").count() == 1


def test_runs_that_wait_are_joined(tools):
    assert suggestions_start(wake=False) == suggestions_start(wake=False)
    assert suggestions_start(wake=False, domain="hr") != suggestions_start(wake=False)


def test_the_command_says_what_it_found(tools, capsys):
    call_command("rules_suggest", "--json")
    lines = capsys.readouterr().out.strip().splitlines()
    assert json.loads(lines[-1])["domains"]["hr"]["proposed"] == 2
    assert lines[-2] == "2 rules are suggested; none is published without a person."


def test_the_command_refuses_a_domain_that_is_not_there_and_a_model_that_is_not_configured(tools):
    from django.core.management.base import CommandError

    with pytest.raises(CommandError, match="no domain 'nowhere'"):
        call_command("rules_suggest", "--domain", "nowhere")
    with pytest.raises(CommandError, match="no language-model endpoint"):
        call_command("rules_suggest", "--writer", "llm")


# Pages and API.


def shown(client, query):
    """Names break at their words there."""
    return client.get(f"/rules/suggestions/{query}").content.decode().replace("<wbr>", "")


def test_the_list_shows_the_strongest_first_with_its_filters(client_as, tools):
    look()
    page = shown(client_as("product_manager"), "")
    assert page.index("createRefund") < page.index("PayV2") and "?suggestion=" not in page
    assert "1 condition, 1 version twin" in page.lower() or "1 version twin, 1 condition" in page.lower()
    client = client_as("expert")
    weak = shown(client, "?strength=weak")
    assert "PayV2" in weak and "createRefund" not in weak and "?suggestion=" in weak
    assert "No suggestion matches" in client.get("/rules/suggestions/?kind=failures").content.decode()


def test_an_empty_list_says_why(client_as):
    page = client_as("expert").get("/rules/suggestions/").content.decode()
    assert "Nobody has looked yet" in page and "Look again" in page
    make_tool()
    look()
    assert "Nothing is suggested" in client_as("reviewer").get("/rules/suggestions/").content.decode()


def test_a_suggestion_shows_the_words_it_rests_on_and_opens_in_the_editor(client_as, tools):
    look()
    row = RuleSuggestion.objects.get(kind="condition")
    client = client_as("expert")
    page = client.get(f"/rules/suggestions/{row.pk}/").content.decode()
    assert "<mark>instead</mark>" in page and "<mark>Create a refund</mark>" in page
    form = client.get(f"/rules/new/?suggestion={row.pk}").context["form"]
    assert (form.draft["target"], form.draft["confusables"]) == (
        "BankV1/createRefund",
        ["BankV1/cancelPayment"],
    )
    assert form.draft["text"] == row.content["text"] and form.domain == "hr"
    assert form.draft["clauses"] == row.content["clauses"]
    assert not RuleChange.objects.exists(), "opening writes nothing"


def test_a_suggestion_that_somebody_is_writing_says_so(client_as, user_with, tools):
    from rules.changes.drafts import change_draft

    look()
    row = RuleSuggestion.objects.get(kind="condition")
    change_draft(actor=user_with("admin"), rule=None, content=row.content, domain="hr", code="")
    page = client_as("expert").get("/rules/suggestions/").content.decode()
    assert "being written" in page and f"?suggestion={row.pk}" not in page


def test_dismissing_needs_a_reason_and_a_role(client_as, tools):
    look()
    row = RuleSuggestion.objects.get(kind="condition")
    place = f"/rules/suggestions/{row.pk}/"
    assert client_as("product_manager").post(f"{place}dismiss/", {"reason": "no need"}).status_code == 403
    client = client_as("expert")
    short = client.post(f"{place}dismiss/", {"reason": "no"})
    assert short.status_code == 422 and "Say why" in short.content.decode()
    client.post(f"{place}dismiss/", {"reason": "The names say it."})
    assert "The names say it." in client.get("/rules/suggestions/?state=dismissed").content.decode()
    client.post(f"{place}restore/")
    assert "BankV1/createRefund" in targets()


def test_a_page_costs_the_same_queries_however_many_rows_it_shows(
    client_as, tools, django_assert_num_queries
):
    look()
    few = queries_of(lambda: suggestion_list(SuggestionFilter()))
    for number in range(20):
        make_tool(f"Pay{number}V1/readSlip", description="Read.")
        make_tool(f"Pay{number}V2/readSlip", description="Read.")
    look()
    assert queries_of(lambda: suggestion_list(SuggestionFilter())) == few


def queries_of(work) -> int:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as seen:
        work()
    return len(seen)


def test_pages_follow_each_other_without_gap_or_repetition(tools):
    for number in range(7):
        make_tool(f"Pay{number}V1/readSlip", description="Read.")
        make_tool(f"Pay{number}V2/readSlip", description="Read.")
    look()
    seen, after = [], ""
    while True:
        page, _ = suggestion_list(SuggestionFilter(), after, size=3)
        seen += [one.row.pk for one in page.rows]
        if page.next_key is None:
            break
        after = page.next_key
    assert seen == list(proposed().order_by("-score", "pk").values_list("pk", flat=True))


def test_the_api_lists_reads_and_dismisses(client_as, tools):
    look()
    client = client_as("expert")
    listed = client.get("/api/v1/rule-suggestions?strength=strong").json()["results"]
    assert [row["content"]["tool_name"] for row in listed] == ["BankV1/createRefund"]
    place = f"/api/v1/rule-suggestions/{listed[0]['id']}"
    said = {"reason": "The names say it."}
    gone = client.post(f"{place}/dismiss", json.dumps(said), content_type="application/json").json()
    assert gone["dismissed_reason"] == said["reason"]
    assert client.get("/api/v1/rule-suggestions").json()["results"][0]["kind"] == "twin"
    assert client.get("/api/v1/rule-suggestions?state=dismissed").json()["results"][0]["id"] == gone["id"]
    client.post(f"{place}/restore")
    assert client.get(place).json()["dismissed_reason"] == ""
