"""The endpoint as a copilot meets it: who is given which tools, in every way of asking; what it costs; model swaps."""

import json
import threading
import time
from pathlib import Path

import pytest
from django.conf import settings
from hypothesis import given
from hypothesis import strategies as st
from rest_framework.exceptions import ValidationError
from rest_framework.test import APIClient

from catalog.services import tool_block
from evaluation.core.asking import Query
from evaluation.core.withholding import WITHHELD
from evaluation.models import Calibration
from evaluation.retrieval import api, engine, retriever
from evaluation.retrieval.lookups import lookups, versions_in
from evaluation.retrieval.retriever import stored
from tests.evaluation.endpoint_home import (
    API,
    ask,
    ask_batch,
    champion,
    events,
    exported,
    loaded,
    names,
    program,
    stub,
    tools,
)
from tests.factories import crown, make_domain, make_rule
from trace_site.lib.departure import Departure
from trace_site.lib.errors import TraceError
from trace_site.rest.schema import InputSerializer
from training.registry.registry import export_dir

__all__ = ["champion", "stub", "tools"]
pytestmark = pytest.mark.django_db


@pytest.fixture
def reader(user_with):
    return program(user_with("expert"), holds=["pay.read"])


HELD_BACK = [{"name": "Pay/GetPaystub", "needs": ["pay.admin", "pay.all"]}]


def whole(client, way, mode, **body):
    """The answer to one request, asked alone, in a batch or as a stream; and everything that was sent of it."""
    if way == "batch":
        response = ask_batch(client, {"query": "my payslip", "mode": mode, **body})
        return response.json()["answers"][0]["answer"], response.content.decode()
    if way == "stream":
        parts = events(ask(client, mode=mode, stream=True, **body))
        return parts[-1][1], json.dumps(parts)
    response = ask(client, mode=mode, **body)
    return response.json(), response.content.decode()


WAYS = [(way, mode) for way in ("alone", "batch", "stream") for mode in ("fast", "trace", "both")]


@pytest.mark.parametrize(("way", "mode"), WAYS)
@pytest.mark.parametrize("ignores", [False, True], ids=["engine filters", "engine filters nothing"])
def test_a_tool_that_the_token_does_not_hold_is_in_no_list_and_no_text(
    reader, champion, stub, way, mode, ignores
):
    stub.ignores_permissions = ignores
    answer, sent = whole(reader, way, mode)
    assert answer["withheld"] == HELD_BACK
    assert "Pay/GetPaystub" not in sent.replace(json.dumps(HELD_BACK), "").replace(
        json.dumps(HELD_BACK, separators=(",", ":")), ""
    )
    if mode != "trace" or not ignores:
        assert "Pay/GetPayslip" in names(answer, "ranked" if mode == "both" else "tools")
    if mode != "fast":
        assert answer["trace"].endswith(f"So it is {WITHHELD}.")


@pytest.mark.parametrize(
    ("holds", "asked", "given"),
    [
        (None, None, ["Pay/GetPaystub", "Pay/GetPayslip", "Leave/Book"]),
        (None, ["pay.read"], ["Pay/GetPayslip", "Leave/Book"]),
        (None, [], ["Leave/Book"]),
        (["pay.read"], None, ["Pay/GetPayslip", "Leave/Book"]),
        (["pay.read"], ["pay.read", "pay.admin"], ["Pay/GetPayslip", "Leave/Book"]),
        (["pay.read"], ["pay.admin"], ["Leave/Book"]),
        ([], None, ["Leave/Book"]),
        ([], ["pay.admin"], ["Leave/Book"]),
    ],
)
def test_a_call_narrows_what_its_token_holds_and_leaving_it_out_is_not_everything(
    user_with, champion, holds, asked, given
):
    client = program(user_with("expert"), holds=holds)
    body = {} if asked is None else {"permissions": asked}
    assert names(ask(client, **body).json()) == given
    assert names(ask(client, permissions=asked).json()) == given  # null is the same as left out


def test_a_signed_in_person_who_may_read_the_catalog_is_given_all(client_as, champion):
    answer = client_as("expert").post(API, {"query": "my payslip"}, content_type="application/json").json()
    assert len(answer["tools"]) == 3 and answer["withheld"] == []


def test_everything_withheld_is_said_to_be(user_with, champion, tools, stub):
    type(tools["Leave/Book"]).objects.filter(name="Leave/Book").update(permissions=["leave"])
    answer = ask(program(user_with("expert"), holds=[])).json()
    assert answer["tools"] == [] and len(answer["withheld"]) == 3


@pytest.mark.parametrize("mode", ["fast", "trace", "both"])
def test_an_answer_takes_one_query_however_many_tools_it_names(
    reader, champion, tools, django_assert_num_queries, mode
):
    make_rule(tools["Pay/GetPayslip"], tools["Pay/GetPaystub"], code="PAYSLIP_PERIOD")
    ask(reader, mode=mode)
    for k in (1, 3):
        # the token with its owner, their roles and the counters
        with django_assert_num_queries(1):
            assert ask(reader, mode=mode, k=k).status_code == 200
    with django_assert_num_queries(1):
        assert ask_batch(reader, *[{"query": "a", "mode": mode}] * 9).status_code == 200


def test_what_changes_counts_from_the_next_request_on(reader, champion, tools, stub, tmp_path):
    assert names(ask(reader).json()) == ["Pay/GetPayslip", "Leave/Book"]
    tool_block(tool=tools["Pay/GetPayslip"], because="down", actor=None)
    assert names(ask(reader).json()) == ["Leave/Book"]
    type(tools["Leave/Book"]).objects.filter(name="Leave/Book").update(
        description="other", permissions=["pay.read"]
    )
    answer = ask(reader).json()
    assert answer["tools"][0]["description"] == "other" and answer["confidence"] is None
    fit = {"names": ["first"], "right": {"centre": [0.0], "scale": [1.0], "weights": [0.0, 1.0]}}
    Calibration.objects.create(
        model=champion,
        decode="fast",
        features=["first"],
        fit={**fit, "fits": None, "threshold": None},
        development=[],
        n=9,
        n_outside=0,
    )
    assert ask(reader).json()["confidence"] == pytest.approx(0.3775, abs=1e-3)
    other = exported(tmp_path, 2)
    crown(other)
    assert ask(reader).json()["model"]["id"] == other.pk


def test_a_cited_rule_is_told_as_the_snapshot_has_it_and_whether_it_still_holds(
    user_with, stub, tools, tmp_path
):
    rule = make_rule(
        tools["Pay/GetPayslip"], tools["Pay/GetPaystub"], code="PAYSLIP_PERIOD", text="Once: Pay/GetPaystub."
    )
    model = exported(tmp_path, rules=[{"domain": "hr", "code": "PAYSLIP_PERIOD", "version": 1}])
    crown(model)
    client = program(user_with("expert"))

    def cited():
        (row,) = ask(client, mode="trace").json()["cited_rules"]
        return [row[name] for name in ("version", "in_snapshot", "is_published", "published_version", "text")]

    assert cited() == [1, True, True, 1, "Once: Pay/GetPaystub."]
    second = type(rule.published).objects.create(
        rule=rule, number=2, target=tools["Leave/Book"], confusable_ids=[], text="Now", content_hash="1" * 64
    )
    rule.published = second
    rule.save()
    assert cited() == [1, True, False, 2, "Once: Pay/GetPaystub."]
    rule.published = None
    rule.save()
    assert cited() == [1, True, False, None, "Once: Pay/GetPaystub."]
    (row,) = ask(client, mode="trace", permissions=[]).json()["cited_rules"]
    assert (row["target"], row["text"]) == (WITHHELD, f"Once: {WITHHELD}.")


def test_a_rule_newer_than_the_snapshot_is_told_as_published(user_with, champion, tools):
    make_rule(tools["Pay/GetPayslip"], code="PAYSLIP_PERIOD")
    assert versions_in(champion.run.snapshot_id) == {}
    (row,) = ask(program(user_with("expert")), mode="trace").json()["cited_rules"]
    assert (row["version"], row["in_snapshot"], row["is_published"]) == (1, False, True)


def test_while_a_new_champion_loads_the_one_before_it_answers_and_says_so(reader, champion, stub, tmp_path):
    ask(reader)
    stub.load = 3600
    other = exported(tmp_path, 2)
    crown(other)
    notes = [f"Model {other.pk} is still loading; model {champion.pk}, a champion before it, answered."]
    batch = ask_batch(reader, {"query": "a"}).json()["answers"][0]["answer"]
    for answer in (ask(reader).json(), batch):
        assert (answer["model"]["id"], answer["notes"]) == (champion.pk, notes)
    assert events(ask(reader, stream=True, mode="trace"))[-1][1]["model"]["id"] == champion.pk
    loaded(stub, other)
    answer = ask(reader).json()
    assert (answer["model"]["id"], answer["notes"]) == (other.pk, [])


def test_another_model_than_the_one_that_was_asked_for_by_its_id_never_answers(
    reader, champion, stub, tmp_path
):
    ask(reader)
    stub.load = 3600
    other = exported(tmp_path, 2)
    answer = ask(reader, model=str(other.pk))
    assert (answer.status_code, answer["Retry-After"], answer.json()["code"]) == (503, "2", "unavailable")


def test_a_connection_to_the_engine_stays_open_and_a_stale_one_costs_no_answer(reader, champion, stub):
    for _ in range(5):
        assert ask(reader).status_code == 200
    assert stub.connections == 1
    stub.close_after = 1  # from now on every connection is closed after an answer, without a word
    for _ in range(4):
        assert ask(reader).status_code == 200
    assert stub.connections > 2


def test_who_leaves_within_an_answer_ends_the_question_and_is_not_asked_for_again(champion, stub):
    stub.word = 0.05
    departure, known = Departure(), retriever.Query("my payslip", "trace")
    parts = retriever.retrieve_in_parts(known, departure=departure)
    assert next(parts)[0] == "text" and stub.open == 1
    departure.happen()
    with pytest.raises(TraceError):
        list(parts)
    waited_until(lambda: stub.open == 0)
    stub.think = 60.0
    departure = Departure()
    threading.Timer(0.2, departure.happen).start()
    began = time.monotonic()
    with pytest.raises(TraceError):
        retriever.retrieve(retriever.Query("my payslip"), departure=departure)
    assert time.monotonic() - began < 30 and len(stub.asked) == 2


def test_an_engine_that_says_nothing_is_waited_for_once_however_many_connections_are_open(
    champion, stub, monkeypatch
):
    monkeypatch.setattr(engine, "READ_SECONDS", 0.3)
    query = retriever.Query("my payslip")
    question = retriever.Session([query], champion).question("/retrieve", query.as_asked(), None)
    stub.think = 0.2
    askers = [threading.Thread(target=question.answer) for _ in range(4)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert (stub.connections, len(stub.asked)) == (4, 4)
    stub.think = 60.0
    with pytest.raises(TraceError, match="does not answer"):
        question.answer()
    assert len(stub.asked) == 5


def waited_until(happened):
    end = time.monotonic() + 10
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_stream_tells_the_ranked_list_the_trace_and_the_whole_answer(user_with, champion):
    client = program(user_with("expert"))
    response = ask(client, mode="both", stream=True)
    assert response["Content-Type"] == "text/event-stream" and response["X-Accel-Buffering"] == "no"
    parts = events(response)
    kinds = [name for name, _ in parts]
    assert (kinds[0], kinds[-1]) == ("fast", "done") and set(kinds[1:-1]) == {"text"} and len(kinds) > 5
    done = parts[-1][1]
    assert "".join(part["text"] for name, part in parts if name == "text") == done["trace"]
    assert names(parts[0][1], "ranked") == names(done, "ranked")
    alone = ask(client, mode="both").json()
    for changing in ("id", "latency"):
        del done[changing], alone[changing]
    assert done == alone


def test_a_client_that_accepts_events_is_sent_them(user_with, champion):
    client = program(user_with("expert"))
    response = client.post(API, {"query": "q"}, format="json", headers={"Accept": "text/event-stream"})
    assert events(response)[-1][0] == "done"


def test_a_stream_that_cannot_begin_is_refused_with_its_status_and_one_that_breaks_says_so(
    user_with, champion, stub, tmp_path
):
    client = program(user_with("expert"))
    assert ask(client, stream=True, k=0).status_code == 400
    stub.cuts_streams = True
    parts = events(ask(client, mode="trace", stream=True))
    assert [name for name, _ in parts][-1] == "error" and parts[-1][1]["code"] == "unavailable"
    stub.cuts_streams, stub.load = False, 3600
    refused = ask(client, stream=True, model=str(exported(tmp_path, 2).pk))
    assert (refused.status_code, refused["Retry-After"]) == (503, "2")


def test_a_batch_answers_each_in_its_place_and_says_which_failed(user_with, champion):
    client = program(user_with("expert"))
    queries = [{"query": "a", "k": 1}, {"query": "fail"}, {"query": "b", "mode": "trace"}]
    answers = ask_batch(client, *queries).json()["answers"]
    assert [row["error"] and row["error"]["code"] for row in answers] == [None, "engine_failed", None]
    assert names(answers[0]["answer"]) == ["Pay/GetPaystub"] and answers[2]["answer"]["mode"] == "trace"
    for wrong in ([], [{"query": "a"}] * 65, [{"query": " "}], [{"query": "a", "stream": True}]):
        assert ask_batch(client, *wrong).status_code == 400


@pytest.mark.parametrize(
    ("wrong", "code", "place"),
    [
        ({"query": "a", "domain": "nowhere"}, "no_such_domain", "domain"),
        ({"query": "a", "k": 0}, "bad_input", "/k"),
        ({"query": " "}, "bad_input", "/query"),
        ({"mode": "fast"}, "bad_input", "/query"),
        ({"query": "a", "stream": True}, "bad_input", "/stream"),
        ("a", "bad_input", "dictionary"),
        (None, "bad_input", "null"),
    ],
)
def test_one_wrong_request_of_a_batch_is_its_own_error(user_with, champion, wrong, code, place):
    client = program(user_with("expert"))
    answers = ask_batch(client, {"query": "a"}, wrong, {"query": "b"}).json()["answers"]
    assert [row["error"] and row["error"]["code"] for row in answers] == [None, code, None]
    assert place in answers[1]["error"]["message"] and answers[2]["answer"]["tools"]


def test_a_batch_of_nothing_but_unknown_domains_asks_no_engine(user_with, champion, stub):
    client = program(user_with("expert"))
    asked = len(stub.asked)
    answers = ask_batch(client, *[{"query": "a", "domain": "nowhere"}] * 2).json()["answers"]
    assert [row["error"]["code"] for row in answers] == ["no_such_domain"] * 2 and len(stub.asked) == asked


JSON = "application/json"
CASES = Path(settings.TRACE_PUBLIC_DATA) / "cases" / "api"


@pytest.mark.skipif(not CASES.is_dir(), reason="the cases are absent (set TRACE_PUBLIC_DATA)")
@pytest.mark.parametrize("name", ["accept-both", "bearer", "null-fields", "batch-one-bad"])
def test_calls_of_the_cases_are_answered_as_the_description_says(user_with, champion, name):
    case = json.loads((CASES / f"{name}.json").read_text())
    token = program(user_with("expert"))._credentials["HTTP_AUTHORIZATION"].split()[1]
    headers = dict(line.replace("TOKEN", token).split(": ", 1) for line in case["headers"])
    response = APIClient().generic(case["method"], case["path"], case["body"], JSON, headers=headers)
    assert (response.status_code, response["Content-Type"]) == (200, JSON)
    answers = response.json().get("answers", [{"answer": response.json(), "error": None}])
    assert answers[0]["answer"]["tools"]
    if name == "batch-one-bad":
        assert answers[1]["error"]["code"] == "no_such_domain" and answers[1]["answer"] is None


@pytest.mark.parametrize("given", ["", "Basic dTpw", "token", "{token}", "Key {token}", "Bearer x y"])
def test_who_sends_no_token_is_told_how(user_with, champion, given):
    client = program(user_with("expert"))
    token = client._credentials["HTTP_AUTHORIZATION"].split()[1]
    client.credentials(**({"HTTP_AUTHORIZATION": given.format(token=token)} if given else {}))
    refused = ask(client)
    assert refused.status_code == 401 and "token" in refused.json()["message"].lower()


@pytest.mark.parametrize(
    ("accept", "body", "kind"),
    [
        (f"{JSON}, text/event-stream", {"stream": False}, JSON),
        (f"{JSON}, text/event-stream", {}, JSON),
        ("text/event-stream", {"stream": False}, JSON),
        (f"text/event-stream;q=0.1, {JSON}", {"stream": None}, JSON),
        ("text/event-stream;q=0", {}, JSON),
        ("*/*, text/event-stream;q=0.9", {}, JSON),
        ("*/*", {}, JSON),
        ("application/*, text/*", {}, JSON),
        ("text/html, application/xhtml+xml", {}, JSON),
        ("", {}, JSON),
        ("TEXT/EVENT-STREAM ; q=0.9, application/json ; q=0.8", {}, "text/event-stream"),
        ("text/event-stream;q=x", {}, "text/event-stream"),
        ("text/event-stream", {}, "text/event-stream"),
        ("Text/Event-Stream, */*;q=0.1", {}, "text/event-stream"),
        (f"{JSON};q=0.2, text/event-stream;q=0.7", {}, "text/event-stream"),
        (JSON, {"stream": True}, "text/event-stream"),
    ],
)
def test_events_are_sent_to_who_wants_them_rather_than_json(user_with, champion, accept, body, kind):
    client = program(user_with("expert"))
    response = client.post(API, {"query": "q", **body}, format="json", headers={"Accept": accept})
    assert response["Content-Type"] == kind
    b"".join(response.streaming_content) if response.streaming else None


def test_null_is_like_left_out_in_every_field_that_may_be(user_with, champion):
    client = program(user_with("expert"))
    optional = ("mode", "k", "domain", "permissions", "exact", "model", "stream", "caller")
    for name in optional:
        assert ask(client, **{name: None}).status_code == 200, name
    body = {"requests": [{"query": "a", "k": None}], "model": None, "caller": None}
    assert client.post(f"{API}/batch", body, format="json").status_code == 200
    assert client.post(API, {"query": None}, format="json").status_code == 400


@pytest.mark.parametrize("scheme", ["Token", "Bearer", "bearer"])
def test_a_token_is_taken_with_the_word_that_most_clients_send(user_with, champion, scheme):
    client = program(user_with("expert"))
    word, token = client._credentials["HTTP_AUTHORIZATION"].split()
    client.credentials(HTTP_AUTHORIZATION=f"{scheme} {token}")
    assert word == "Token" and ask(client).status_code == 200
    client.credentials(HTTP_AUTHORIZATION=f"{scheme} nobody")
    assert ask(client).status_code == 401


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 101),
    st.sampled_from(
        ["fast", "trace", "", " fast", "a", "a" * 61, "a" * 201, "a" * 4001, "1", "true", "\u00a0b"]
    ),
    st.lists(st.sampled_from(["pay.read", "", " b ", 1, None, "a" * 301]), max_size=3),
    st.just(["p"] * 201),
)


@given(st.dictionaries(st.sampled_from([*api.PLAINLY, "other"]), VALUES, min_size=1))
def test_what_is_plainly_right_is_read_as_its_fields_read_it(data):
    def read(serializer):
        try:
            return dict(serializer.run_validation(data))
        except ValidationError as error:
            return error.detail

    fields = type("Fields", (api.RetrieveInput,), {"to_internal_value": InputSerializer.to_internal_value})
    assert read(api.RetrieveInput()) == read(fields())


def test_every_request_of_a_batch_counts_towards_the_rate(user_with, champion, settings):
    settings.RETRIEVE_RATE = 5
    client = program(user_with("expert"))
    codes = [ask_batch(client, *[{"query": "a"}] * 3).status_code for _ in range(2)]
    assert codes == [200, 429]


def test_only_tools_of_a_domain_that_there_is_are_asked_for(user_with, champion, stub):
    client = program(user_with("expert"))
    make_domain("finance")
    assert ask(client, domain="finance", exact=False).status_code == 200
    assert (stub.asked[-1]["domain"], stub.asked[-1]["exact"]) == ("finance", False)
    refused = ask(client, domain="nowhere")
    assert (refused.status_code, refused.json()["code"]) == (400, "no_such_domain")
    assert lookups().catalog._domains == {"finance"}  # whatever callers name, nothing is kept of it


def test_an_answer_says_where_its_time_went(user_with, champion, stub):
    stub.think = 0.02
    answer = ask(program(user_with("expert"))).json()
    latency = answer["latency"]
    assert 0.02 <= latency["engine"] <= latency["total"] and latency["model"] == answer["seconds"] == 0.02


def test_no_answer_is_kept_for_a_repeated_call(user_with, champion):
    from trace_site.rest.idempotency import IdempotencyKey

    client = program(user_with("expert"))
    for query in ("one", "two"):
        answer = client.post(API, {"query": query}, format="json", headers={"Idempotency-Key": "k"})
        assert answer.status_code == 200 and "Idempotent-Replayed" not in answer
    assert not IdempotencyKey.objects.exists()


def test_the_folder_of_a_champion_that_lost_its_files_is_no_fallback(reader, champion, stub, tmp_path):
    other = exported(tmp_path, 2)
    crown(other)
    loaded(stub, other)
    type(champion).objects.filter(pk=champion.pk).update(removed_at="2026-01-01T00:00Z")
    assert ask(reader).status_code == 200 and stub.asked[-1]["fallback"] == []
    assert stub.asked[-1]["model"] == stored(other)._asdict()


def test_a_champion_whose_files_are_damaged_answers_from_memory_and_says_so(reader, champion, stub):
    known = export_dir(champion) / "trace.json"
    loaded(stub, champion)
    known.write_text(known.read_text() + " ")
    answer = ask(reader)
    assert answer.status_code == 200 and stub.asked[-1]["model"] == stored(champion)._asdict()
    assert stub.asked[-1]["damaged"]  # so it is not loaded again
    assert f"The files of model {champion.pk} are damaged; it answered from memory" in str(
        answer.json()["notes"]
    )


def test_the_command_line_and_the_pages_ask_with_everything_granted(champion):
    assert len(retriever.retrieve(Query("my payslip"))["tools"]) == 3
