"""A language model words suggested rules: what it says is checked, paid for once, and held to a budget."""

import json

import pytest

from rules.models import RuleSuggestion
from rules.suggestions.services import suggestions_start
from synthesis.llm.suggested import schema
from synthesis.models import ModelCall
from tests.factories import make_tool
from tests.llm_server import LlmServer
from trace_site.jobs import Job, run

pytestmark = pytest.mark.django_db(transaction=True)

SAYS = "Cancel a payment. For captured payments, use the Create a refund endpoint instead."
CANCEL, REFUND = "BankV1/cancelPayment", "BankV1/createRefund"
GOOD = {
    "needed": True,
    "reason": "",
    "target": REFUND,
    "confusables": [CANCEL],
    "text": f"When the payment was captured, use {REFUND}. When it is still open, use {CANCEL}.",
    "clauses": [{"when": "the payment was captured", "route_to": REFUND, "exception": False}],
    "quotes": [{"tool": CANCEL, "words": "For captured payments, use the  create a refund endpoint instead"}],
}


@pytest.fixture
def llm(settings):
    """Answers with `said` over GOOD and the id that it was given."""
    said: dict = {}

    def answer(body):
        shown = body["messages"][0]["content"].rsplit("Give back the id ", 1)[1].strip().rstrip(".")
        return {"id": shown, **GOOD, **said}

    server = LlmServer(answer)
    server.said = said
    settings.LLM_BASE_URL, settings.LLM_API_KEY = server.url, "key"
    settings.LLM_GENERATOR_MODEL = settings.LLM_TEACHER_MODEL = settings.LLM_JUDGE_MODEL = "tester"
    settings.LLM_TIMEOUT_SECONDS = 5
    make_tool(CANCEL, description=SAYS)
    make_tool(REFUND, description="Create a refund. Pays money back.")
    yield server
    server.close()


def look(**options):
    job = suggestions_start(wake=False, writer="llm", **options)
    run(job.pk)
    job.refresh_from_db()
    return job


def only() -> RuleSuggestion:
    return RuleSuggestion.objects.get()


def test_a_checked_answer_words_the_suggestion_and_stays_while_its_tools_say_the_same(llm):
    assert look().result["worded"] == {"asked": 1, "worded": 1, "doubted": 0, "refused": {}}
    row = only()
    assert (row.writer, row.content["text"]) == ("llm:tester", GOOD["text"])
    assert row.content["clauses"][0]["signals"] == []
    assert look().result["worded"]["asked"] == 0 and len(llm.requests) == 1, "nothing is paid for twice"
    make_tool("Other/tool")
    look()
    assert only().content["text"] == GOOD["text"]
    call = ModelCall.objects.get()
    assert (call.purpose, call.state, call.job.kind) == ("suggest_rule", "answered", "suggestions")


def test_the_schema_lets_no_other_tool_be_named(llm):
    look()
    asked = llm.requests[0]["response_format"]["json_schema"]
    assert asked["strict"] and asked["schema"] == json.loads(json.dumps(schema([REFUND, CANCEL])))
    assert asked["schema"]["properties"]["target"]["enum"] == [REFUND, CANCEL]


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"target": "BankV1/invented"}, "llm_bad_schema"),
        ({"id": "another"}, "other_id"),
        ({"text": f"When captured, use {REFUND} or Other/tool; {CANCEL} otherwise."}, "outside_set"),
        (
            {"text": f"When captured, use {REFUND} or BankV1/createRefundz; {CANCEL} otherwise."},
            "unknown_name",
        ),
        ({"text": f"When captured, always use {REFUND}, never anything else."}, "no_confusable"),
        ({"quotes": [{"tool": CANCEL, "words": "For settled payments"}]}, "false_quote"),
        ({"quotes": []}, "false_quote"),
        ({"confusables": [REFUND]}, "outside_set"),
        ({"clauses": [{"when": "", "route_to": REFUND, "exception": False}]}, "bad_rule"),
        ({"text": ""}, "bad_rule"),
    ],
)
def test_an_answer_that_fails_a_check_changes_nothing(llm, said, code):
    make_tool("Other/tool")
    llm.said.update(said)
    job = look()
    assert job.state == Job.State.DONE and job.result["worded"]["refused"] == {code: 1}
    assert only().writer == "words" and "captured payments" in only().content["text"]


def test_a_model_that_sees_no_need_is_quoted_and_a_person_still_decides(llm):
    llm.said.update(needed=False, reason="The names say it.")
    assert look().result["worded"]["doubted"] == 1
    row = only()
    assert (row.doubt, row.writer) == ("The names say it.", "llm:tester") and not row.dismissed_reason
    assert look().result["worded"]["asked"] == 0


def test_a_budget_that_is_used_up_ends_the_asking_and_keeps_what_was_paid_for(llm):
    for number in range(4):
        make_tool(f"Bank{number}V1/cancelPayment", description=SAYS)
        make_tool(f"Bank{number}V1/createRefund", description="Create a refund. Pays money back.")
    job = look(budget={"calls": 2})
    assert job.state == Job.State.DONE
    worded = job.result["worded"]
    assert worded["refused"]["llm_budget"] == worded["asked"] - 2
    assert ModelCall.objects.count() == len(llm.requests) == 2


def test_an_endpoint_that_is_away_fails_the_run_and_leaves_the_words(llm, settings):
    settings.LLM_TIMEOUT_SECONDS = 1
    llm.close()
    job = look()
    assert (job.state, job.error_code) == (Job.State.FAILED, "llm_unreachable")
    assert only().writer == "words"
