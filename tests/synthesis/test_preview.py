"""The editor's preview: the pool and sample queries of a rule as typed, with nothing stored as a sample."""

import time

import pytest

from catalog.models import NeighbourList
from synthesis.core.queries import QueryDraft
from synthesis.generate import preview
from synthesis.models import Attempt, ModelReply, Sample
from tests.factories import make_rule, make_sample, make_tool
from tests.llm_server import LlmServer

pytestmark = pytest.mark.django_db
PATH = "/synthesis/preview/"


@pytest.fixture(autouse=True)
def no_endpoint(settings):
    settings.LLM_BASE_URL = ""


@pytest.fixture
def tools():
    """Two look-alikes, one neighbour, and one tool far away."""
    names = {
        "Payroll/GetPayslip": "Returns the payslip of a worker for one month.",
        "OldPay/GetSlip": "Returns the archived payslip of a worker for one month.",
        "Payroll/ListPayslips": "Lists the payslips of a worker.",
        "Cars/BookCar": "Books a car.",
    }
    found = [make_tool(name, description=text) for name, text in names.items()]
    for tool in found[:2]:
        others = [other.pk for other in found[:3] if other != tool]
        NeighbourList.objects.create(tool=tool, neighbour_ids=others, scores=[0.9] * len(others))
    return found


def form(tools, **changes):
    fields = {
        "target": tools[0].name,
        "confusables": [tools[1].name],
        "text": f"From 2024 on use {tools[0].name}. Years before 2024 come from {tools[1].name}.",
        "clause-0-when": "the month lies in 2024 or later",
        "clause-0-route_to": tools[0].name,
        "clause-0-signals": "my March 2024 pay; pay of last month; the new salary month",
        "clause-1-when": "the month lies before 2024",
        "clause-1-route_to": tools[1].name,
        "clause-1-exception": "on",
        "clause-1-signals": "my pay of 2019; back in 2021; an archived month",
    }
    return {**fields, **changes}


def queries(response):
    return [
        (style.name, one.draft.query) for style in response.context["preview"].styles for one in style.queries
    ]


def test_preview_shows_the_pool_and_three_queries_of_each_style(client_as, tools):
    answer = client_as("expert").post(PATH, form(tools))
    found = answer.context["preview"]
    assert [(row.tool.name, row.role) for row in found.pool] == [
        ("Payroll/GetPayslip", "target"),
        ("OldPay/GetSlip", "confusable"),
        ("Payroll/ListPayslips", "neighbour"),
    ]
    assert {style.name: len(style.queries) for style in found.styles} == {
        "explicit": 3,
        "implicit": 3,
        "exception": 3,
    }
    answers = {style.name: {one.draft.answer for one in style.queries} for style in found.styles}
    assert answers["implicit"] == {("Payroll/GetPayslip",)} and answers["exception"] == {("OldPay/GetSlip",)}
    page = answer.content.decode()
    assert "<mark>archived</mark>" in page and "filter V" in page and "offline" in page


def test_same_form_shows_the_same_queries_and_more_shows_others(client_as, tools):
    client = client_as("admin")
    first, again = (queries(client.post(PATH, form(tools))) for _ in range(2))
    more = queries(client.post(PATH, form(tools, page="1")))
    assert first == again and len(more) == 9 and not set(first) & set(more)


def test_nothing_is_stored(client_as, tools, django_assert_max_num_queries):
    client = client_as("expert")
    with django_assert_max_num_queries(12):
        client.post(PATH, form(tools))
    assert (Sample.objects.count(), Attempt.objects.count(), ModelReply.objects.count()) == (0, 0, 0)


def test_underspecified_queries_come_only_when_asked_for(client_as, tools):
    client = client_as("expert")
    assert "underspecified" not in dict(queries(client.post(PATH, form(tools))))
    assert "underspecified" in dict(queries(client.post(PATH, form(tools, underspecified="on"))))


def test_style_a_rule_cannot_support_is_told_with_its_reason(client_as, tools):
    tools[1].deprecated = True
    tools[1].save()
    page = client_as("expert").post(PATH, form(tools)).content.decode()
    assert "No exception query. Every confusable is deprecated or retired." in page


def test_query_that_filter_v_refuses_says_why(client_as, tools, monkeypatch):
    leak = QueryDraft("please call Payroll/ListPayslips for my month", (tools[0].name,), "")

    async def leaking(writers, request):
        return leak

    monkeypatch.setattr(preview, "_draft", leaking)
    page = client_as("expert").post(PATH, form(tools)).content.decode()
    assert "names the tool" in page and "Payroll/ListPayslips" in page


def test_query_that_repeats_a_sample_of_the_rule_says_so(client_as, tools):
    rule = make_rule(*tools[:2])
    client = client_as("expert")
    said = queries(client.post(PATH, form(tools, rule=str(rule.pk))))[0][1]
    make_sample(rule=rule, tools=tools[:2], query=said)
    page = client.post(PATH, form(tools, rule=str(rule.pk))).content.decode()
    assert "almost repeats" in page


@pytest.mark.parametrize(
    "changes,sentence",
    [
        ({"target": ""}, "Choose a target first"),
        ({"target": "No/Such"}, "is not in the catalog"),
        (
            {
                "text": " ",
                "clause-0-when": "",
                "clause-0-signals": "",
                "clause-1-when": "",
                "clause-1-signals": "",
            },
            "Write the rule first",
        ),
    ],
)
def test_form_that_holds_too_little_is_answered_with_a_sentence(client_as, tools, changes, sentence):
    answer = client_as("expert").post(PATH, form(tools, **changes))
    assert answer.status_code == 200 and sentence in answer.content.decode()


def test_rule_of_text_alone_with_unknown_and_retired_names_is_previewed(client_as, tools):
    tools[2].status = "retired"
    tools[2].save()
    given = form(tools, confusables=[tools[1].name, "No/Such", tools[2].name])
    for name in [key for key in given if key.startswith("clause")]:
        del given[name]
    found = client_as("expert").post(PATH, given).context["preview"]
    assert len(found.pool) == 2 and len(found.styles[0].queries) == 3


def test_retired_target_has_a_pool_and_reasons(client_as, tools):
    tools[0].status = "retired"
    tools[0].save()
    page = client_as("expert").post(PATH, form(tools)).content.decode()
    assert page.count("The target is deprecated or retired.") == 3


@pytest.mark.parametrize("role", ["reviewer", "product_manager"])
def test_preview_is_for_experts_and_admins(client_as, tools, role):
    assert client_as(role).post(PATH, form(tools)).status_code == 403


@pytest.fixture
def endpoint(transactional_db, settings):
    def answers(body):
        prompt = body["messages"][0]["content"]
        target = (
            "OldPay/GetSlip"
            if "exception" in prompt.casefold()[:4000] and "OldPay" in prompt
            else "Payroll/GetPayslip"
        )
        query = {"query": f"what did I earn in month {body['seed']}", "target_tool": target}
        numbers = prompt.split("numbered ")[1].split(" in a long")[0].split(", ")
        return {"queries": [{"number": int(number), **query, "explanation": "why"} for number in numbers]}

    server = LlmServer(answers)
    settings.LLM_BASE_URL, settings.LLM_API_KEY = server.url, "key"
    settings.LLM_GENERATOR_MODEL = settings.LLM_TEACHER_MODEL = settings.LLM_JUDGE_MODEL = "big"
    yield server
    server.close()


def test_configured_endpoint_writes_a_style_in_one_call_once_and_the_ledger_knows(client_as, endpoint, tools):
    client = client_as("expert")
    found = client.post(PATH, form(tools)).context["preview"]
    assert found.writer == "llm:big" and len(endpoint.requests) == 3
    client.post(PATH, form(tools))
    assert len(endpoint.requests) == 3 and ModelReply.objects.filter(purpose="query_rule").count() == 3
    assert Sample.objects.count() == 0


def test_endpoint_that_hangs_is_given_up_after_the_time_limit(client_as, endpoint, tools, monkeypatch):
    monkeypatch.setattr(preview, "SECONDS", 1.0)
    endpoint.faults = ["hang"] * 20
    began = time.monotonic()
    page = client_as("expert").post(PATH, form(tools)).content.decode()
    assert "did not answer" in page and time.monotonic() - began < 30


def test_one_failed_call_leaves_the_other_styles(client_as, endpoint, tools):
    endpoint.faults = ["refusal"]
    found = client_as("expert").post(PATH, form(tools)).context["preview"]
    errors = {style.name: one.error for style in found.styles for one in style.queries if one.error}
    assert len(errors) == 1 and "refused" in next(iter(errors.values()))


def test_endpoint_that_refuses_the_key_is_one_sentence(client_as, endpoint, tools):
    endpoint.faults = ["401"] * 30
    page = client_as("expert").post(PATH, form(tools)).content.decode()
    assert page.count("refused the key") == 1
