"""The playground: what may be asked, two models side by side, and what is shown when nothing can answer."""

import pytest

from evaluation.core.confidence import AnswerVerdict
from evaluation.models import Answer, Benchmark, Evaluation, LabelledRequest
from evaluation.retrieval import retriever
from evaluation.retrieval.engine import Question
from tests.factories import answer_tests, known_models, make_model, make_rule, make_run, make_tool
from trace_site.lib.errors import TraceError
from training.models import AliasMove, Run
from training.registry import registry

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
    known_models(monkeypatch)
    monkeypatch.setattr(Question, "answer", lambda _: {"fast": fast, "trace": answer})


def test_without_a_model_plain_search_answers_and_says_so(client_as, rule, engine):
    client = client_as("product_manager")
    page = client.get("/evaluation/playground/", {"q": "my slip"})
    assert (page.context["first"], page.context["second"]) == ("search", "")
    assert page.content.count(b'class="answer-slot"') == 1
    answer = client.get(ASK, {"q": "my slip", "model": "search", "mode": "both"})
    text = answer.content.decode()
    assert "<h2>Plain search</h2>" in text and "No model answered: this is a search" in text
    assert [row["name"] for row in answer.context["tables"][0][1]] == ["Pay/GetSlip"]


def test_plain_search_is_offered_beside_a_champion(client_as, rule, engine):
    AliasMove.objects.create(alias="champion", model=make_model())
    page = client_as("expert").get("/evaluation/playground/", {"q": "my slip"})
    assert page.context["second"] == "search"
    assert page.content.decode().count('<option value="search" selected>plain search, no model</option>') == 1


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
    assert page.content.count(b'class="answer-slot"') == page.content.count(b"sse-connect") == 2
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
    assert f'<a class="rule-mark" href="/rules/{rule.pk}/versions/1/">SLIP_YEAR</a>' in text
    assert " %" not in text, "how sure to be is said once, by a model that is calibrated"
    assert [s.text for s in page.context["spans"] if s.chosen and s.final] == ["Pay/GetSlip"]
    assert "its reasoning" not in text


def test_an_answer_says_what_was_not_read_and_that_its_reasoning_ends_elsewhere(
    client_as, engine, monkeypatch
):
    raw = {"tools": ["OldPay/GetSlip"], "scores": [-0.5], "trace": "So it is Pay/GetSlip."}
    raw |= {"follows_trace": False, "trace_tools": ["Pay/GetSlip"], "unread": ["工资单"], "cut_request": True}
    monkeypatch.setattr(Question, "answer", lambda _: raw)
    page = client_as("expert").get(ASK, {"q": "my 工资单", "model": make_model().pk, "mode": "trace"})
    text = page.content.decode()
    assert "The answer is not the tool its reasoning ends with." in text
    assert (
        "The model cannot read 1 of 2 words of this request: its encoder has no words in that script." in text
    )
    assert "This request is longer than the model reads" in text


def test_what_a_language_model_wrote_is_folded_behind_the_trace_that_is_written_out(
    client_as, rule, engine, monkeypatch
):
    raw = {"tools": ["Pay/GetSlip"], "scores": [-0.5], "follows_trace": True, "trace_tools": ["Pay/GetSlip"]}
    raw |= {"trace": 'SLIP_YEAR decides: "new slips". So it is Pay/GetSlip.', "wrote": "Well, <b> SLIP_YEAR."}
    monkeypatch.setattr(Question, "answer", lambda _: raw)
    text = (
        client_as("expert")
        .get(ASK, {"q": "my slip", "model": make_model().pk, "mode": "trace"})
        .content.decode()
    )
    above, _, behind = text.partition("<summary>What the model wrote</summary>")
    assert "Trace, written out</h3>" in above and "decides:" in above
    assert "Well, &lt;b&gt; SLIP_YEAR." in behind.partition("</details>")[0]


def test_a_refusal_of_the_engine_is_part_of_the_page(client_as, monkeypatch):
    def refuse(*_, **__):
        raise TraceError("the model is loading.", code="unavailable", hint="Try again in a moment.")

    monkeypatch.setattr(retriever, "retrieve", refuse)
    page = client_as("expert").get(ASK, {"q": "my slip", "model": make_model().pk})
    assert page.status_code == 200 and b"Try again in a moment." in page.content


def test_a_request_that_no_tool_fits_is_told_so_above_the_nearest_tools(client_as, rule, engine, monkeypatch):
    says = (AnswerVerdict(confidence=0.02, fits=False), "")
    monkeypatch.setattr(retriever, "judged", lambda *_: says)
    page = client_as("expert").get(ASK, {"q": "lunch", "model": make_model().pk, "mode": "both"})
    text = page.content.decode()
    assert "No tool fits this request.</b> The nearest:" in text and 'class="is-nearest"' in text
    assert "OldPay/GetSlip" in [row["name"] for row in page.context["tables"][1][1]]
    assert "sure that the first tool" not in text and page.context["notes"] == []


def test_an_answer_says_how_sure_its_first_tool_is_or_why_that_is_not_known(
    client_as, rule, engine, monkeypatch
):
    client, asked = client_as("expert"), {"q": "slip", "model": make_model().pk, "mode": "both"}
    assert "This model is not calibrated" in client.get(ASK, asked).content.decode()
    monkeypatch.setattr(retriever, "judged", lambda *_: (AnswerVerdict(0.714, True), ""))
    text = client.get(ASK, asked).content.decode()
    assert "<b>71 %</b> sure that the first tool is right" in text and "not calibrated" not in text


def test_tools_newer_than_the_model_are_named_and_listed(client_as, rule, monkeypatch):
    model = make_model()
    monkeypatch.setattr(registry, "facts_of", lambda _: registry.Facts(frozenset({"Pay/GetSlip"})))
    make_tool("Gone/Tool", status="retired")
    client = client_as("expert")
    page = " ".join(client.get("/evaluation/playground/", {"model": model.pk}).content.decode().split())
    assert "1 tool is newer than this model, which ranks it by its description alone" in page
    listed = client.get(f"/training/models/{model.pk}/newer/")
    assert [tool.name for tool in listed.context["page"].rows] == ["OldPay/GetSlip"]
    assert "it ranks by its description alone" in client.get(f"/training/models/{model.pk}/").content.decode()
    Run.objects.filter(pk=model.run_id).update(base="some/language-model")
    page = " ".join(client.get("/evaluation/playground/", {"model": model.pk}).content.decode().split())
    assert "1 tool is newer than this model, which cannot answer with it" in page
    assert "it cannot answer with" in client.get(f"/training/models/{model.pk}/").content.decode()


def test_examples_are_what_the_model_answers_and_one_request_that_no_tool_fits(client_as, rule):
    model = make_model()
    answer_tests(model, rule.published, False)
    benchmark = Benchmark.objects.create(
        name="outside-development", kind="outside", is_development=True, hash="h", count=1
    )
    item = LabelledRequest.objects.create(
        benchmark=benchmark, position=0, domain="general", data={"query": "what is for lunch", "tools": []}
    )
    made = Evaluation.objects.create(key="k", model=model, benchmark=benchmark, decode="fast", metrics={})
    Answer.objects.create(evaluation=made, item=item, output={"tools": []}, scores={"refused": 1.0})
    page = client_as("expert").get("/evaluation/playground/", {"model": model.pk})
    assert page.context["examples"] == [{"query": "what is for lunch", "code": ""}]
