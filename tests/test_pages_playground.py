"""The playground: what may be asked, two models side by side, and what is shown when nothing can answer."""

import pytest

from evaluation import retriever
from tests.factories import make_model, make_rule, make_run, make_tool
from trace_site.lib.errors import TraceError
from training.models import AliasMove

pytestmark = pytest.mark.django_db
ASK = "/evaluation/playground/answer/"


@pytest.fixture
def rule():
    tools = make_tool("Pay/GetSlip"), make_tool("OldPay/GetSlip")
    return make_rule(
        *tools, code="SLIP_YEAR", tests=[{"query": "my slip of May 2024", "tools": ["Pay/GetSlip"]}]
    )


@pytest.fixture
def engine(settings, monkeypatch):
    """The engine's reply, without an engine."""
    settings.ENGINE_URL = "http://127.0.0.1:9"
    trace = "OldPay/GetSlip holds old years. SLIP_YEAR sends May 2024 to the new one. So Pay/GetSlip."
    answer = {"tools": ["Pay/GetSlip"], "scores": [-0.5], "trace": trace, "seconds": 0.2}
    fast = {"tools": ["Pay/GetSlip", "OldPay/GetSlip"], "scores": [-0.1, -3.0], "seconds": 0.01}
    monkeypatch.setattr(retriever, "export_dir", lambda model: "/models/one")
    monkeypatch.setattr(retriever, "ask", lambda url, request, patience=0: {"fast": fast, "trace": answer})


def test_without_a_model_the_page_says_so(client_as):
    assert b"There is no model to ask" in client_as("product_manager").get("/evaluation/playground/").content


def test_without_an_engine_the_page_says_how_to_start_it(client_as, settings, tmp_path):
    settings.ENGINE_URL, settings.TRACE_HOME = "", tmp_path
    make_model()
    page = client_as("expert").get("/evaluation/playground/").content.decode()
    assert "The engine does not run" in page and "manage.py up" in page


def test_champion_is_asked_beside_the_newest_model_without_rules(client_as, rule):
    plain, champion = make_model(run=make_run(retrieval="r")), make_model()
    AliasMove.objects.create(alias="champion", model=champion)
    page = client_as("expert").get("/evaluation/playground/", {"q": "my slip"})
    assert (page.context["first"], page.context["second"]) == (str(champion.pk), str(plain.pk))
    assert page.content.count(b'hx-trigger="load" aria-live') == 2
    assert page.context["examples"] == [{"query": "my slip of May 2024", "code": "SLIP_YEAR"}]


def test_answer_shows_lists_trace_and_the_cited_rule_version(client_as, rule, engine):
    model = make_model()
    page = client_as("expert").get(ASK, {"q": "my slip", "model": model.pk, "mode": "both"})
    titles = [(title, [row["name"] for row in rows]) for title, rows in page.context["tables"]]
    assert titles == [
        ("Committed to", ["Pay/GetSlip"]),
        ("Ranked, fast mode", ["Pay/GetSlip", "OldPay/GetSlip"]),
    ]
    text = page.content.decode()
    assert (
        f'<a class="rule-mark" href="/rules/{rule.pk}/versions/1/">SLIP_YEAR</a>' in text and "60.7 %" in text
    )
    assert [s.text for s in page.context["spans"] if s.chosen and s.final] == ["Pay/GetSlip"]
    assert "its reasoning" not in text


def test_an_answer_says_what_was_not_read_and_that_its_reasoning_ends_elsewhere(
    client_as, engine, monkeypatch
):
    raw = {"tools": ["OldPay/GetSlip"], "scores": [-0.5], "trace": "So it is Pay/GetSlip."}
    raw |= {"follows_trace": False, "trace_tools": ["Pay/GetSlip"], "unread": ["工资单"], "cut_request": True}
    monkeypatch.setattr(retriever, "ask", lambda url, request, patience=0: raw)
    page = client_as("expert").get(ASK, {"q": "my 工资单", "model": make_model().pk, "mode": "trace"})
    text = page.content.decode()
    assert "The answer is not the tool its reasoning ends with." in text
    assert (
        "The model cannot read 1 of 2 words of this request: its encoder has no words in that script." in text
    )
    assert "This request is longer than the model reads" in text


def test_a_refusal_of_the_engine_is_part_of_the_page(client_as, monkeypatch):
    def refuse(**_):
        raise TraceError("the model is loading.", code="unavailable", hint="Try again in a moment.")

    monkeypatch.setattr(retriever, "retrieve", refuse)
    page = client_as("expert").get(ASK, {"q": "my slip", "model": make_model().pk})
    assert page.status_code == 200 and b"Try again in a moment." in page.content
