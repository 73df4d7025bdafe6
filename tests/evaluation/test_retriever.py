"""An answer joins the engine's words with what the catalog knows now; a silent engine is said to be silent."""

import json
import threading
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from django.core.management import call_command
from rest_framework.test import APIClient

from catalog.services import tool_block, tool_unblock
from evaluation.core import confidence
from evaluation.core.asking import Query
from evaluation.models import Calibration
from evaluation.retrieval import retriever
from rules.services import rule_wait, rule_withdraw
from synthesis.generate.automatic import loop_save
from tests.factories import crown, known_models, make_model, make_rule, make_tool
from tests.rules.saving import rule_save
from tests.tokens import token_of
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash
from training.models import Run
from training.registry.registry import Facts

pytestmark = [pytest.mark.django_db]
TRACE = "The period is May 2024. PAYSLIP_PERIOD sends it to Pay/GetPayslip."


@pytest.fixture
def engine(settings, monkeypatch):
    """A local server that speaks the engine's protocol; `answers` are given in turn, `asked` keeps the requests."""
    answers, asked = [], []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            status, body = answers.pop(0)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    settings.ENGINE_URL = f"http://127.0.0.1:{server.server_address[1]}"
    known_models(monkeypatch)
    yield answers, asked
    server.shutdown()
    server.server_close()


@pytest.fixture
def champion():
    model = make_model()
    crown(model=model, actor=None)
    return model


@pytest.fixture
def tools():
    return [
        make_tool("Pay/GetPayslip", permissions=["pay.read"]),
        make_tool("Pay/GetPaystub", deprecated=True, permissions=["pay.admin", "pay.all"]),
        make_tool("Leave/Book"),
    ]


def fast(*names, **extra):
    return {"tools": list(names), "scores": [-float(n) for n in range(len(names))], "seconds": 0.02, **extra}


def test_fast_answer_carries_scores_descriptions_and_deprecation(engine, champion, tools):
    answers, asked = engine
    answers.append((200, fast("Pay/GetPaystub", "Pay/GetPayslip", "Gone/Tool")))
    found = retriever.retrieve(Query("my payslip", k=2))
    assert asked[0] == {
        "model": {"key": champion.store_key, "digest": champion.store_digest},
        "query": "my payslip",
        "mode": "fast",
        "k": 2,
        "permissions": None,
        "without": [],
        "fallback": [],
        "damaged": False,
        "caller": "",
        "held": f"/{content_hash([])}",
        "domain": None,
        "exact": True,
        "stream": False,
    }
    assert [(row["name"], row["score"], row["deprecated"]) for row in found["tools"]] == [
        ("Pay/GetPaystub", 0.0, True),
        ("Pay/GetPayslip", -1.0, False),
    ]
    assert found["tools"][1]["description"] == tools[0].description and found["model"]["id"] == champion.pk
    assert (found["trace"], found["cited_rules"], found["seconds"]) == ("", [], 0.02)


def test_tool_that_left_the_catalog_is_shown_as_retired(engine, champion):
    engine[0].append((200, fast("Gone/Tool")))
    assert retriever.retrieve(Query("q"))["tools"][0]["retired"] is True


def test_trace_names_the_published_rule_it_cites(engine, champion, tools):
    rule = make_rule(*tools[:2], code="PAYSLIP_PERIOD")
    make_rule(tools[2], tools[1], code="UNPUBLISHED", published=False)
    engine[0].append((200, fast("Pay/GetPayslip", trace=TRACE + " UNPUBLISHED")))
    (cited,) = retriever.retrieve(Query("q", mode="trace"))["cited_rules"]
    assert (cited["id"], cited["version"], cited["target"]) == (rule.pk, 1, "Pay/GetPayslip")
    assert TRACE[cited["start"] :].startswith("PAYSLIP_PERIOD")


def test_of_two_domains_with_one_code_the_rule_about_the_answer_is_cited(engine, champion, tools):
    from tests.factories import make_domain

    other = make_tool("Ledger/Post", domain=make_domain("finance"))
    make_rule(other, code="PAYSLIP_PERIOD")
    rule = make_rule(tools[0], code="PAYSLIP_PERIOD")
    engine[0].append((200, fast("Pay/GetPayslip", trace=TRACE)))
    assert [row["id"] for row in retriever.retrieve(Query("q", mode="trace"))["cited_rules"]] == [rule.pk]


def test_both_gives_the_committed_list_and_the_ranked_one(engine, champion, tools):
    body = {"fast": fast("Pay/GetPaystub", "Pay/GetPayslip"), "trace": fast("Pay/GetPayslip", trace=TRACE)}
    engine[0].append((200, body))
    found = retriever.retrieve(Query("q", mode="both"))
    assert [row["name"] for row in found["tools"]] == ["Pay/GetPayslip"]
    assert [row["name"] for row in found["ranked"]] == ["Pay/GetPaystub", "Pay/GetPayslip"]
    assert found["trace"] == TRACE and found["seconds"] == 0.02


@pytest.mark.parametrize(
    ("said", "notes"),
    [
        ((True, ["Pay/GetPayslip"]), []),
        ((False, ["Pay/GetPaystub"]), ["The answer is not the tool its reasoning ends with."]),
        ((False, ["A/b", "C/d"]), ["The answer is not the tools its reasoning ends with."]),
        ((False, []), ["The reasoning names no tool, so the answer does not rest on it."]),
    ],
)
def test_an_answer_other_than_its_trace_ends_with_is_flagged_and_said(api, engine, champion, said, notes):
    beside = dict(zip(("follows_trace", "trace_tools"), said, strict=True))
    none = {"follows_trace": None, "trace_tools": []}
    body = {
        "fast": fast("Pay/GetPayslip", **none),
        "trace": fast("Pay/GetPayslip", trace=TRACE, **beside),
    }
    engine[0].extend([(200, body), (200, body["trace"]), (200, body["fast"])])
    for mode in ("both", "trace"):
        answer = post(api, mode=mode).json()
        assert (answer["follows_trace"], answer["trace_tools"], answer["notes"]) == (*said, notes)
    answer = post(api, mode="fast").json()
    assert (answer["follows_trace"], answer["trace_tools"], answer["notes"]) == (None, [], [])


def test_a_request_that_was_not_wholly_read_is_told_so(api, engine, champion):
    read = {"unread": ["工资单"], "cut_request": True}
    body = {"fast": fast("Pay/GetPayslip", **read), "trace": fast("Pay/GetPayslip", **read)}
    engine[0].extend([(200, body), (200, body["fast"]), (200, fast("Pay/GetPayslip"))])
    for mode in ("both", "fast"):
        answer = post(api, mode=mode, query="my 工资单").json()
        assert (answer["unread"], answer["cut_request"]) == (["工资单"], True)
        assert answer["notes"] == [
            "The model cannot read 1 of 2 words of this request: its encoder has no words in that script.",
            "This request is longer than the model reads; what goes beyond was left out.",
        ]
    answer = post(api).json()  # of a base that reads without an encoder
    assert (answer["unread"], answer["cut_request"], answer["notes"]) == (None, False, [])


def test_retrieve_command_prints_what_to_know_of_the_answer(engine, champion, tools, capsys):
    said = {"trace": TRACE, "follows_trace": False, "trace_tools": ["Pay/GetPaystub"], "unread": ["und"]}
    engine[0].append((200, fast("Pay/GetPayslip", **said)))
    call_command("retrieve", "pay und slip", mode="trace")
    printed = capsys.readouterr().out
    assert (
        "The model cannot read 1 of 3 words" in printed and "not the tool its reasoning ends with" in printed
    )


def test_tool_whose_permissions_are_not_granted_is_withheld(engine, champion, tools):
    for _ in range(2):
        engine[0].append((200, fast("Pay/GetPaystub", "Pay/GetPayslip", "Leave/Book")))
    found = retriever.retrieve(Query("q", permissions=frozenset(["pay.read"])))
    assert [row["name"] for row in found["tools"]] == ["Pay/GetPayslip", "Leave/Book"]
    assert found["withheld"] == [{"name": "Pay/GetPaystub", "needs": ["pay.admin", "pay.all"]}]
    assert len(retriever.retrieve(Query("q"))["tools"]) == 3


def test_loading_model_is_waited_for_only_with_patience(engine, champion, tools):
    loading = (503, {"message": "the model is loading.", "code": "loading"})
    engine[0].extend([loading, loading, (200, fast("Leave/Book"))])
    with pytest.raises(TraceError, match="the model is loading") as caught:
        retriever.retrieve(Query("q"))
    assert caught.value.code == "unavailable"
    assert retriever.retrieve(Query("q"), patience=5)["tools"][0]["name"] == "Leave/Book"


def test_engine_that_is_away_is_named_with_a_remedy(champion, settings, monkeypatch, tmp_path):
    known_models(monkeypatch)
    settings.ENGINE_URL, settings.TRACE_HOME = "", tmp_path
    with pytest.raises(TraceError, match="the engine is not running. Start it with manage.py up"):
        retriever.retrieve(Query("q"))
    engine = {"home": str(tmp_path), "url": "http://127.0.0.1:1", "token": "t"}
    (tmp_path / "engine.json").write_text(json.dumps(engine))
    with pytest.raises(TraceError, match="the engine does not answer"):
        retriever.retrieve(Query("q"))
    (tmp_path / "engine.json").write_text(json.dumps(engine | {"home": "/copied/from/here"}))
    with pytest.raises(TraceError, match="the engine is not running"):
        retriever.retrieve(Query("q"))


def test_the_engine_is_told_its_token_and_one_that_does_not_know_it_is_not_the_callers_fault(
    engine, champion, settings, monkeypatch
):
    settings.ENGINE_TOKEN, sent = "right", []
    ask = HTTPConnection.request

    def listened(connection, method, url, body, headers):
        sent.append(headers["Authorization"])
        return ask(connection, method, url, body, headers)

    monkeypatch.setattr(HTTPConnection, "request", listened)
    engine[0].append((401, {"message": "the engine's token is wrong.", "code": "not_authenticated"}))
    with pytest.raises(TraceError) as caught:
        retriever.retrieve(Query("q"))
    assert caught.value.code == "unavailable" and "ENGINE_TOKEN" in str(caught.value)
    assert sent == ["Bearer right"]


@pytest.mark.parametrize(
    "wrong", [{"query": " "}, {"query": "q" * 4001}, {"k": 0}, {"k": 101}, {"mode": "slow"}]
)
def test_wrong_request_is_refused_before_the_engine_is_asked(engine, champion, wrong):
    with pytest.raises(TraceError) as caught:
        retriever.retrieve(Query(**{"query": "q", **wrong}))
    assert caught.value.code == "bad_request" and engine[1] == []


@pytest.fixture
def api(user_with):
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {token_of(user_with('expert'))}")
    return client


def post(client, **body):
    return client.post("/api/v1/retrieve", {"query": "my payslip", **body}, format="json")


def test_api_answers_a_token(api, engine, champion, tools):
    engine[0].append((200, fast("Pay/GetPayslip", "Leave/Book")))
    answer = post(api, k=1)
    assert answer.status_code == 200 and [row["name"] for row in answer.json()["tools"]] == ["Pay/GetPayslip"]


def test_api_refuses_a_caller_without_a_token(champion):
    assert post(APIClient()).status_code == 401


def test_api_says_which_field_is_wrong(api, champion):
    answer = post(api, mode="slow")
    assert answer.status_code == 400 and "mode" in answer.json()["extra"]


def test_api_without_an_engine_is_503_with_retry_after(api, champion, settings, tmp_path, monkeypatch):
    known_models(monkeypatch)
    settings.ENGINE_URL, settings.TRACE_HOME = "", tmp_path
    answer = post(api)
    assert (answer.status_code, answer["Retry-After"], answer.json()["code"]) == (503, "1", "unavailable")


def test_without_a_champion_a_plain_search_answers_and_says_so(api, engine, tools):
    answers, asked = engine
    answers.append((200, fast("Leave/Book") | {"model": None}))
    answer = post(api).json()
    assert [tool["name"] for tool in answer["tools"]] == ["Leave/Book"]
    assert answer["model"] == {"id": None, "cell": "", "base": "", "snapshot": None}
    assert answer["notes"] == [
        "No model answered: this is a search over descriptions and the clauses of published rules."
    ]
    assert (asked[0]["model"], asked[0]["fallback"]) == (None, [])


def test_a_champion_of_the_pocket_model_that_wrote_is_not_asked(engine, champion, tools, monkeypatch):
    monkeypatch.setattr("evaluation.retrieval.lookups.facts_of", lambda _: Facts(is_outdated=True))
    answers, asked = engine
    answers.append((200, fast("Leave/Book") | {"model": None}))
    answer = retriever.retrieve(Query("book a day off"))
    assert asked[0]["model"] is None and answer["model"]["id"] is None
    assert answer["notes"] == [
        f"Model {champion.pk} is of an earlier version and must be trained again: this is a search over descriptions "
        "and the clauses of published rules."
    ]


def test_api_limits_a_caller(api, champion, settings):
    settings.RETRIEVE_RATE = 2
    codes = [post(api, mode="slow").status_code for _ in range(3)]
    assert codes == [400, 400, 429]


def test_schema_describes_the_operation():
    from drf_spectacular.generators import SchemaGenerator

    operation = SchemaGenerator().get_schema(request=None, public=True)["paths"]["/api/v1/retrieve"]["post"]
    assert {"200", "400", "401", "404", "429", "503"} <= operation["responses"].keys()


def test_api_refuses_a_wrong_method_in_words_every_renderer_writes(api):
    for path, method in (("/api/v1/retrieve", api.get), ("/api/v1/schema", api.post)):
        answer = method(path)
        assert answer.status_code == 405 and "not allowed" in answer.content.decode()
        assert "{method}" not in answer.content.decode()


def exported(monkeypatch, *names):
    """An export that knows these tools."""
    monkeypatch.setattr("evaluation.retrieval.lookups.facts_of", lambda _: Facts(frozenset(names)))


def test_a_newer_tool_is_told_the_engine_once_and_marked_in_the_answer(
    engine, champion, calibrated, tools, tmp_path, monkeypatch
):
    answers, asked = engine
    exported(monkeypatch, "Pay/GetPayslip", "Leave/Book")
    unknown = (409, {"message": "what is to be held is not known here.", "code": "unknown_catalog"})
    found = (200, fast("Pay/GetPaystub", "Leave/Book"))
    answers.extend([unknown, (200, {"held": "", "tools": 1, "clauses": 0}), found, found])
    for _ in range(2):
        answer = retriever.retrieve(Query("q"))
        assert [row["newer"] for row in answer["tools"]] == [True, False]
        assert (answer["fits"], answer["confidence"]) == (None, None), "never measured of such a tool"
        assert answer["calibration"] == "How sure to be of a tool that is newer than the model is not known."
        assert answer["notes"] == [
            "Pay/GetPaystub is newer than the model: its description and the clauses of rules speak for it, no "
            "training."
        ]
    first, told, again, later = asked
    assert first == again == later and first["held"] == told["held"]
    stub = tools[1]
    assert told["tools"] == [
        {
            "name": stub.name,
            "description": stub.description,
            "domain": stub.domain_id,
            "permissions": stub.permissions,
            "deprecated": stub.deprecated,
        }
    ]
    assert told["clauses"] == []
    answers.append(found)
    tool_block(tool=stub, because="down", actor=None)
    retriever.retrieve(Query("q"))
    assert asked[-1]["held"] == f"/{content_hash([])}", "a blocked tool is in no answer"


def test_a_base_without_an_encoder_says_in_every_answer_which_tools_it_is_too_old_for(
    engine, champion, tools, tmp_path, monkeypatch
):
    answers, asked = engine
    exported(monkeypatch, "Pay/GetPayslip", "Leave/Book")
    Run.objects.filter(pk=champion.run_id).update(base="some/language-model")
    answers.append((200, fast("Leave/Book")))
    answer = retriever.retrieve(Query("q"))
    assert answer["notes"] == ["1 tool is newer than this model, which cannot answer with it."]
    assert asked[0]["held"] == f"/{content_hash([])}"


def test_an_answer_whose_best_tool_is_withheld_says_so_and_is_sure_of_no_other(
    engine, champion, calibrated, tools
):
    near = {"first": -1.0, "lead": 4.0, "nearest": 0.6}
    row = fast("Leave/Book", features=near, withheld=["Pay/GetPayslip"], withheld_first=True)
    engine[0].append((200, row))
    answer = retriever.retrieve(Query("my payslip", permissions=frozenset([])))
    assert answer["notes"] == [
        "The tool that fits this request best needs a permission that this call does not have."
    ]
    assert (answer["fits"], answer["confidence"]) == (True, None)


def test_what_the_model_computed_is_no_longer_than_what_the_caller_waited(engine, champion, tools):
    part = {"seconds": 0.5}  # a both-answer tells the whole time with each of its parts
    engine[0].append(
        (200, {"fast": fast("Leave/Book") | part, "trace": fast("Leave/Book", trace=TRACE) | part})
    )
    assert retriever.retrieve(Query("q", mode="both"))["latency"]["model"] == 0.5


@pytest.mark.parametrize("mode", ["fast", "trace", "both"])
def test_the_engine_is_told_which_of_the_models_tools_to_leave_out_today(
    engine, champion, tools, tmp_path, monkeypatch, mode
):
    answers, asked = engine
    exported(monkeypatch, "Pay/GetPayslip", "Old/Tool", "Leave/Book")
    make_tool("Old/Tool", status="retired")
    make_tool("Never/Known", status="retired")
    body = {"fast": fast("Leave/Book"), "trace": fast("Leave/Book")} if mode == "both" else fast("Leave/Book")
    answers.extend([(200, body)] * 3)
    retriever.retrieve(Query("q", mode=mode))
    tool_block(tool=tools[0], because="down", actor=None)
    retriever.retrieve(Query("q", mode=mode))
    tool_unblock(tool=tools[0], actor=None)
    retriever.retrieve(Query("q", mode=mode))
    assert [one["without"] for one in asked] == [["Old/Tool"], ["Old/Tool", "Pay/GetPayslip"], ["Old/Tool"]]


@pytest.fixture
def calibrated(champion):
    """Lists with a large lead are right; requests far from every tool have none."""
    rows = [
        (
            {"first": -1.0, "lead": float(n % 5), "nearest": 0.6 - 0.5 * (n % 3 == 0)},
            n % 3 > 0,
            n % 3 * n % 5 > 2,
        )
        for n in range(300)
    ]
    found = confidence.fit(*zip(*rows, strict=True))
    fields = {"features": found.names, "fit": found.as_dict(), "threshold": found.threshold}
    for decode in ("fast", "trace"):
        Calibration.objects.create(
            model=champion, decode=decode, **fields, development=[], n=300, n_outside=100
        )


@pytest.mark.parametrize(
    ("query", "unread", "nearest", "fits"),
    [
        ("مفردات الراتب", ["مفردات", "الراتب"], 0.6, None),
        ("مفردات الراتب", ["مفردات", "الراتب"], 0.1, None),
        ("工资单 please", ["工资单"], 0.6, None),
        ("工资单 please", ["工资单"], 0.1, False),
        ("12 工资单 34", ["工资单"], 0.6, None),
        ("ＰＡＹ зарплата", ["зарплата"], 0.6, None),
        ("my payslip", [], 0.6, True),
    ],
)
def test_no_tool_is_said_to_fit_what_the_model_cannot_read(
    api, engine, champion, calibrated, query, unread, nearest, fits
):
    features = {"first": -1.0, "lead": 4.0, "nearest": nearest}
    engine[0].append((200, fast("Pay/GetPayslip", features=features, unread=unread)))
    answer = post(api, query=query).json()
    assert answer["fits"] is fits and (answer["confidence"] is None) == bool(unread)
    assert any("cannot read" in note for note in answer["notes"]) == bool(unread)
    assert bool(answer["calibration"]) == (fits is None)


def test_a_request_outside_every_tool_is_answered_so_with_the_nearest_tools(
    api, engine, champion, calibrated, capsys
):
    near, far = ({"first": -1.0, "lead": 4.0, "nearest": cosine} for cosine in (0.6, 0.1))
    inside, outside = fast("Pay/GetPayslip", features=near), fast("Pay/GetPayslip", features=far)
    engine[0].extend(
        [(200, inside), (200, outside), (200, {"fast": outside, "trace": outside}), (200, outside)]
    )
    answer = post(api).json()
    assert (answer["fits"], answer["notes"], answer["calibration"]) == (True, [], "")
    assert 0 < answer["confidence"] < 1
    for mode in ("fast", "both"):
        answer = post(api, mode=mode).json()
        assert answer["fits"] is False and answer["tools"][0]["name"] == "Pay/GetPayslip"
        assert answer["notes"] == ["No tool fits this request; a tool that is named is only the nearest."]
        assert answer["confidence"] is None, "there is no first tool to be sure of"
    call_command("retrieve", "lunch")
    printed = capsys.readouterr().out
    assert "No tool fits this request. The nearest:" in printed and "% sure" not in printed


def test_without_development_requests_nothing_is_refused_and_the_answer_says_what_to_do(
    api, engine, champion
):
    engine[0].append((200, fast("Pay/GetPayslip", features={"first": -1.0})))
    answer = post(api).json()
    assert (answer["confidence"], answer["fits"]) == (None, None)
    assert "not calibrated: import requests with benchmark_import --part development" in answer["calibration"]


# Clauses in force.

TEXT = "For May 2024 use Pay/GetPayslip; before that use Pay/GetPaystub."


@pytest.fixture
def rule(tools):
    return rule_save(
        target="Pay/GetPayslip", confusables=["Pay/GetPaystub"], text=TEXT, code="PERIOD", publish=True
    ).version.rule


def told(engine, model="champion"):
    """The clauses that an engine which knows nothing is told with the next question."""
    answers, asked = engine
    unknown = (409, {"message": "what is to be held is not known here.", "code": "unknown_catalog"})
    answers.extend([unknown, (200, {}), (200, fast("Pay/GetPayslip"))])
    retriever.retrieve(Query("my payslip"), model=model)
    return {one["token"]: one["waits"] for one in asked[-2]["clauses"]}


def test_the_clauses_of_a_rule_are_told_with_the_next_request_and_gone_with_the_rule(engine, champion, rule):
    assert told(engine) == {"<<hr/PERIOD#1>>": False, "<<hr/PERIOD#2>>": False}
    rule_withdraw(rule=rule)
    assert told(engine) == {}


def test_a_model_without_rules_that_is_asked_by_its_number_answers_without_clauses(engine, champion, rule):
    Run.objects.filter(pk=champion.run_id).update(retrieval=Run.Retrieval.REASONED)
    assert told(engine, champion.pk) == {}
    assert len(told(engine)) == 2, "as champion it follows what is published"


def test_clauses_wait_for_training_where_their_rule_or_the_installation_says_so(engine, champion, rule):
    rule_wait(rule=rule, waits=True, actor=None)
    assert set(told(engine).values()) == {True}
    rule_wait(rule=rule, waits=False, actor=None)
    assert set(told(engine).values()) == {False}
    loop_save(actor=None, answer=False)
    assert set(told(engine).values()) == {True}


def test_an_answer_tells_which_clause_decided_and_cites_its_rule_as_it_is_published(engine, champion, rule):
    spoken = [
        {"token": "<<hr/PERIOD#1>>", "share": 0.8, "trained": False},
        {"token": "<<hr/PERIOD#2>>", "share": 0.1, "trained": False},
        {"token": "<<hr/GONE#1>>", "share": 0.01, "trained": True},
    ]
    trace = 'PERIOD (in force, not yet trained) decides: "For May 2024 use Pay/GetPayslip". So it is Pay/GetPayslip.'
    row = fast("Pay/GetPayslip", clauses=spoken, clause="<<hr/PERIOD#1>>", trace=trace, follows_trace=True)
    engine[0].append((200, row | {"trace_tools": ["Pay/GetPayslip"]}))
    answer = retriever.retrieve(Query("my payslip", mode="trace"))
    assert answer["written_out"] is True
    assert [(one["text"], one["decided"], one["trained"]) for one in answer["clauses"]] == [
        ("For May 2024 use Pay/GetPayslip", True, False),
        ("before that use Pay/GetPaystub.", False, False),
    ]
    assert [(one["code"], one["version"], one["start"]) for one in answer["cited_rules"]] == [
        ("PERIOD", 1, 0)
    ]


def test_clauses_name_no_tool_that_is_withheld(engine, champion, rule):
    spoken = [{"token": "<<hr/PERIOD#1>>", "share": 0.8, "trained": True}]
    engine[0].append((200, fast("Leave/Book", clauses=spoken, withheld=["Pay/GetPayslip"])))
    (clause,) = retriever.retrieve(Query("my payslip", permissions=frozenset([])))["clauses"]
    assert (clause["text"], clause["tools"]) == ("For May 2024 use [withheld]", ["[withheld]"])


def test_what_a_language_model_wrote_stands_behind_its_decision_and_names_nothing_withheld(
    engine, champion, rule
):
    trace = 'PERIOD decides: "For May 2024 use Pay/GetPayslip". So it is Pay/GetPayslip.'
    row = fast(
        "Pay/GetPayslip", trace=trace, wrote="May 2024: PERIOD says Pay/GetPayslip.", follows_trace=True
    )
    row |= {"trace_tools": ["Pay/GetPayslip"]}
    engine[0].extend([(200, row), (200, row)])
    answer = retriever.retrieve(Query("my payslip", mode="trace"))
    assert (answer["written_out"], answer["trace"], answer["wrote"]) == (True, trace, row["wrote"])
    assert [(one["code"], one["start"]) for one in answer["cited_rules"]] == [("PERIOD", 0)]
    hidden = retriever.retrieve(Query("my payslip", mode="trace", permissions=frozenset([])))
    assert hidden["wrote"] == "May 2024: PERIOD says [withheld]."


def test_how_sure_to_be_of_a_clause_that_the_model_has_not_learned_is_not_known(engine, champion, rule):
    spoken = [{"token": "<<hr/PERIOD#1>>", "share": 0.8, "trained": False}]
    engine[0].append((200, fast("Pay/GetPayslip", clause="<<hr/PERIOD#1>>", clauses=spoken, features={})))
    answer = retriever.retrieve(Query("my payslip"))
    assert answer["confidence"] is answer["fits"] is None
    assert answer["calibration"] == "How sure to be of a clause that the model has not learned is not known."
