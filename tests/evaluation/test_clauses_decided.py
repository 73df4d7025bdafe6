"""What each clause decided stands on its rule's page; wrong answers whose rule did not speak, among the gaps."""

import json
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from catalog.models import Cluster
from evaluation.benchmarks.selectors import clause_words
from evaluation.benchmarks.services import Unit
from evaluation.coverage.gaps import asked_by_group, outcomes
from evaluation.gate.evidence import evidence
from evaluation.loop.selectors import courses
from evaluation.models import Benchmark, Evaluation, RetrievalRequest
from evaluation.requests.log import Entry, as_row
from evaluation.results.clauses import clauses_told
from rules.models import RuleClause, RuleVersion
from rules.services import rule_wait
from tests.factories import count_rollups, crown, make_cluster, make_evaluation, make_model, make_tool, thawed
from tests.rules.saving import rule_save
from trace_site.artefacts import store
from training.registry.registry import Served

pytestmark = pytest.mark.django_db
TEXT = "For May 2024 use Pay/New; before that use Pay/Old."
NEW, OLD, OTHER = "<<hr/PERIOD#1>>", "<<hr/PERIOD#2>>", "<<hr/ELSE#1>>"


@pytest.fixture(autouse=True)
def home(settings, tmp_path):
    settings.TRACE_HOME, settings.STORE_URL = tmp_path, (tmp_path / "store").as_uri()


@pytest.fixture
def tools():
    tools = make_tool("Pay/New"), make_tool("Pay/Old"), make_tool("Leave/Book")
    make_cluster(*tools[:2])
    return tools


@pytest.fixture
def rule(tools):
    return rule_save(
        target="Pay/New", confusables=["Pay/Old"], text=TEXT, code="PERIOD", publish=True
    ).version.rule


def asked(gold, first, clause, rule="PERIOD"):
    """An answer as make_evaluation takes it."""
    return gold, [first.name], {"clause": clause}, {"rule": rule} if rule else {}


@pytest.fixture
def champion(tools, tmp_path):
    return taught(tmp_path, NEW)


def taught(tmp_path, *tokens):
    """A champion that was taught these clauses."""
    folder = tmp_path / "export"
    folder.mkdir()
    spec = {"tools": [], "clauses": [{"token": token} for token in tokens]}
    (folder / "trace.json").write_text(json.dumps(spec))
    model = make_model(store_key="models/1", store_digest=store().put_dir(folder, "models/1"))
    crown(model)
    return model


@pytest.fixture
def measured(rule, tools, champion):
    """The first clause is right once, and wins where the other, no rule and another rule are right; the second never
    speaks."""
    new, old, leave = tools
    answers = [
        asked(new, new, NEW),
        asked(old, new, NEW),
        asked(leave, new, NEW, rule=""),
        asked(old, leave, None),
        asked(new, leave, OTHER),
    ]
    return make_evaluation(*answers, model=champion, decode="fast")


def told(rule):
    return {row.clause.token.string: row for row in clauses_told(rule).rows}


def fragment(client, rule):
    return client.get(reverse("evaluation:clauses_of_rule", args=[rule.pk])).content.decode()


def test_a_clause_counts_what_it_decided_right_and_wrong_and_what_it_missed(rule, measured):
    rows = told(rule)
    assert (rows[NEW].decided, rows[NEW].right) == (3, 1)
    assert [(one.text, one.rule) for one in rows[NEW].wrong] == [("query 1", "PERIOD"), ("query 2", "")]
    assert [(one.text, one.by) for one in rows[NEW].missed] == [("query 4", "hr/ELSE#1")]
    assert rows[OLD].decided == 0
    assert [(one.text, one.by) for one in rows[OLD].missed] == [("query 1", "hr/PERIOD#1"), ("query 3", "")]


def test_the_page_of_a_rule_names_the_clause_that_never_decided_with_its_requests(client_as, rule, measured):
    client = client_as("expert")
    assert (
        reverse("evaluation:clauses_of_rule", args=[rule.pk])
        in client.get(f"/rules/{rule.pk}/").content.decode()
    )
    shown = fragment(client, rule)
    assert shown.count("never decided") == 1 and "1 right, 2 wrong" in shown
    assert "decided 2 requests for another tool" in shown and "no rule decides" in shown
    assert "was not chosen for 2 requests that need its tool" in shown and "query 3" in shown


def test_requests_of_a_development_half_are_never_shown(client_as, rule, measured):
    with thawed():
        Benchmark.objects.update(is_development=True)
    assert "query" not in fragment(client_as("expert"), rule)
    assert not any(row.decided or row.missed for row in told(rule).values())


def test_a_clause_published_after_the_tests_missed_none_of_them(client_as, rule, measured):
    with thawed():
        Evaluation.objects.update(created_at=timezone.now() - timedelta(hours=1))
    assert not any(row.missed for row in told(rule).values())
    assert "never decided" not in fragment(client_as("expert"), rule)
    count_rollups()
    assert not outcomes(at="unspoken")


def test_a_model_that_writes_is_not_blamed_for_silence(client_as, rule, tools, champion):
    make_evaluation((tools[0], ["Pay/Old"], {}, {"rule": "PERIOD"}), model=champion, decode="fast")
    shown = fragment(client_as("expert"), rule)
    assert "does not decide by clauses" in shown and "never decided" not in shown


def logged(clause, verdict="", **fields):
    row = {"at": timezone.now(), "via": "single", "outcome": "answered", "tools": ["Pay/New"], **fields}
    return RetrievalRequest.objects.create(key=uuid4(), clause=clause, verdict=verdict, **row)


def test_real_requests_are_counted_for_all_and_opened_by_those_who_may_read_the_log(
    client_as, user_with, rule, measured
):
    owner = user_with("expert", username="copilot")
    for verdict in ("", "", "right", "wrong"):
        logged(NEW, verdict, owner=owner, query="the slip of Anna")
    logged("", owner=owner)
    shown = fragment(client_as("expert"), rule)
    assert "<b>4</b>" in shown and "1 reported wrong" in shown
    assert "/evaluation/requests/" not in shown and "Anna" not in shown
    reader = client_as("product_manager")
    shown = fragment(reader, rule)
    assert "/evaluation/requests/?clause=%3C%3Chr%2FPERIOD%231%3E%3E&amp;verdict=wrong" in shown
    listed = reader.get("/evaluation/requests/", {"clause": NEW, "verdict": "wrong"}).context["page"].rows
    assert [row.verdict for row in listed] == ["wrong"]


def test_counting_takes_as_many_queries_for_many_requests_as_for_few(rule, measured, tools, champion):
    def queries():
        with CaptureQueriesContext(connection) as found:
            clauses_told(rule)
        return len(found)

    few = queries()
    answers = [asked(tools[1], tools[0], NEW) for _ in range(30)]
    make_evaluation(*answers, model=champion, decode="fast")
    assert queries() == few <= 10


def answer(**fields):
    spoken = [{"token": NEW, "decided": True}, {"token": OLD, "decided": False}]
    return {"model": {"id": None}, "latency": {"engine": 0.1}, "clauses": spoken, **fields}


def entry(told):
    asked = {"mode": "fast", "k": 10, "domain": "", "permissions": None}
    return Entry(uuid4(), 1, None, "", "", "single", "my slip", asked, 1.0, told)


def test_the_log_keeps_the_token_of_the_clause_that_decided_also_without_texts():
    assert (
        as_row(entry(answer()), True, timezone.now()).clause
        == as_row(entry(answer()), False, timezone.now()).clause
        == NEW
    )
    undecided = [{"token": NEW, "decided": False}]
    for nothing in (answer(clauses=undecided), answer(clauses=[]), None):
        assert as_row(entry(nothing), True, timezone.now()).clause == ""


def test_a_wrong_answer_whose_rule_did_not_speak_is_told_from_one_without_a_rule(client_as, rule, measured):
    count_rollups()
    whole = asked_by_group("hr", "model")["all"]
    assert (whole.wrong, whole.unspoken) == (4, 3)
    client = client_as("product_manager")
    home = " ".join(client.get("/?domain=hr").content.decode().split())
    assert "a rule exists, but its clause was not chosen" in home
    behind = client.get(reverse("coverage-requests", args=["hr"]), {"wrong": "model", "at": "unspoken"})
    assert [row.unspoken for row in behind.context["rows"]] == [(rule.pk, "PERIOD")] * 3
    assert "exists, its clause was not chosen" in behind.content.decode()
    cluster = client.get(reverse("cluster", args=[Cluster.objects.get().pk])).content.decode()
    assert "a rule exists, its clause was not chosen" in cluster


def test_a_withdrawn_rule_explains_no_wrong_answer(rule, measured):
    rule.published = None
    rule.save()
    count_rollups()
    assert not outcomes(at="unspoken")


def course(rule):
    version = RuleVersion.objects.select_related("rule__domain", "author").get(pk=rule.published_id)
    return courses([version])[0]


def test_clauses_the_champion_was_not_taught_are_marked_on_the_rule_and_on_its_way(client_as, rule, champion):
    assert {token: row.state for token, row in told(rule).items()} == {NEW: "", OLD: "untrained"}
    assert course(rule).clauses == "1 clause in force, not yet trained"
    client = client_as("admin")
    assert fragment(client, rule).count("in force, not yet trained") == 1
    assert "1 clause in force, not yet trained" in client.get(reverse("evaluation:loop")).content.decode()
    rule_wait(rule=rule, waits=True, actor=None)
    assert told(rule)[OLD].state == "waits"
    assert course(rule).clauses == "1 clause waiting for training"


def test_without_a_champion_every_clause_in_force_is_untrained(rule):
    assert {row.state for row in told(rule).values()} == {"untrained"}


def test_an_evaluation_and_the_gate_say_with_which_clauses_they_were_measured(
    client_as, rule, tools, champion
):
    benchmark = Benchmark.objects.create(name="prb", kind="prb", hash="1", count=1)
    unit = Unit(champion, benchmark, "fast", Served.now(champion))
    assert unit.clauses == {"clauses": 2, "rules": 1, "untrained": 1}
    made = make_evaluation(
        (tools[0], ["Pay/New"]), model=champion, decode="fast", benchmark=benchmark, clauses=unit.clauses
    )
    words = "with 2 clauses of 1 rule, 1 of them not trained"
    assert clause_words(made) == words
    assert words in client_as("expert").get(reverse("evaluation:detail", args=[made.pk])).content.decode()
    assert f"The candidate answered {words}." in evidence(champion, None, [made.pk]).notes


def test_a_rule_that_waits_is_no_part_of_what_was_measured(rule, champion):
    rule_wait(rule=rule, waits=True, actor=None)
    assert Served.now(champion).counted(champion) == {"clauses": 1, "rules": 1, "untrained": 0}


def test_clauses_that_only_lead_away_are_not_expected_to_decide(rule, tools):
    text = TEXT + " Leave/Book is deprecated."
    rule_save(target="Pay/New", confusables=["Pay/Old", "Leave/Book"], text=text, rule=rule, publish=True)
    rule.refresh_from_db()
    assert RuleClause.objects.filter(rule=rule).count() == 3 and len(clauses_told(rule).rows) == 2
