"""Clauses of published rules have tokens that last: given once, in force with the version, never given to another."""

import pytest
from django.apps import apps
from django.db import IntegrityError, connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog.models import TokenUnit, Tool
from catalog.services import ledger_update
from rules.apps import read_versions
from rules.core import pairs as core
from rules.models import Rule, RuleClause
from rules.selectors import clauses_in_force, version_clauses
from rules.services import read_missing, rule_withdraw
from tests.factories import make_domain, make_rule, make_tool
from tests.rules.saving import rule_save

pytestmark = pytest.mark.django_db
NEW, OLD, THIRD = "Pay/new", "Pay/old", "Pay/third"
SINCE, UNTIL, DEAD = "From 2024 on use Pay/new", "Before 2024 use Pay/old", "Pay/third is deprecated"


@pytest.fixture
def tools():
    return [make_tool(name) for name in (NEW, OLD, THIRD)]


def save(*sentences, rule=None, publish=True, code="PERIOD"):
    text = "; ".join(sentences)
    given = {"target": NEW, "confusables": [OLD, THIRD], "text": text, "code": "" if rule else code}
    return rule_save(rule=rule, publish=publish, **given).version


def in_force():
    return {one["text"]: one["token"] for one in clauses_in_force()}


def test_published_clause_has_a_token_with_the_words_and_the_tools(tools):
    save(SINCE, UNTIL, DEAD)
    clauses = clauses_in_force()
    assert [(one["token"], one["text"], one["stance"], one["tools"]) for one in clauses] == [
        ("<<hr/PERIOD#1>>", SINCE, "use", [NEW]),
        ("<<hr/PERIOD#2>>", UNTIL, "use", [OLD]),
        ("<<hr/PERIOD#3>>", DEAD, "dead", [THIRD]),
    ]
    assert {(one["rule"], one["domain"], one["version"]) for one in clauses} == {("PERIOD", "hr", 1)}


def test_draft_gives_no_token(tools):
    version = save(SINCE, UNTIL, publish=False)
    assert not RuleClause.objects.exists()
    (first, _) = version_clauses([version])[version.pk]
    assert (first.clause.text, first.token, first.in_force) == (SINCE, "", False)


def test_edit_gives_tokens_to_what_is_new_and_retires_what_is_gone(tools):
    first = save(SINCE, UNTIL, DEAD)
    second = save(SINCE, "Before 2023 use Pay/old", DEAD, rule=first.rule)
    assert in_force() == {
        SINCE: "<<hr/PERIOD#1>>",
        DEAD: "<<hr/PERIOD#3>>",
        "Before 2023 use Pay/old": "<<hr/PERIOD#4>>",
    }
    assert [one.token for one in version_clauses([second])[second.pk]] == [
        "<<hr/PERIOD#1>>",
        "<<hr/PERIOD#4>>",
        "<<hr/PERIOD#3>>",
    ]
    assert [one.in_force for one in version_clauses([first])[first.pk]] == [True, False, True]


def test_clause_that_comes_back_gets_its_token_back(tools):
    first = save(SINCE, UNTIL)
    save(SINCE, DEAD, rule=first.rule)
    save(SINCE, UNTIL, rule=first.rule)
    assert in_force() == {SINCE: "<<hr/PERIOD#1>>", UNTIL: "<<hr/PERIOD#2>>"}
    assert TokenUnit.objects.filter(family="clause").count() == 3


def test_same_words_about_other_tools_are_another_clause(tools):
    text = "Choose Pay/new or Pay/old with care"
    first = save(text)
    rule_save(
        target=NEW,
        confusables=[THIRD, OLD],
        text=f"{text}; Pay/third is deprecated",
        rule=first.rule,
        publish=True,
    )
    assert in_force()[text] == "<<hr/PERIOD#1>>"
    rule_save(
        target=OLD,
        confusables=[THIRD],
        text=f"{text}; Pay/third is deprecated",
        rule=first.rule,
        publish=True,
    )
    assert [(one["token"], one["tools"]) for one in clauses_in_force()] == [
        ("<<hr/PERIOD#2>>", [THIRD]),
        ("<<hr/PERIOD#3>>", [OLD]),
    ]


def test_withdrawn_rule_has_no_clause_in_force_and_gets_its_tokens_back(tools):
    version = save(SINCE, UNTIL)
    save("Never call Pay/old", code="OTHER")
    rule_withdraw(rule=version.rule)
    assert in_force() == {"Never call Pay/old": "<<hr/OTHER#1>>"}
    assert TokenUnit.objects.get(string="<<hr/PERIOD#1>>").state == "retired"
    save(SINCE, UNTIL, rule=version.rule)
    assert in_force()[SINCE] == "<<hr/PERIOD#1>>"


def test_rules_of_one_code_in_two_domains_have_tokens_of_their_own(tools):
    bank = [make_tool(name, domain=make_domain("finance")) for name in ("Bank/new", "Bank/old")]
    save("Never call Pay/old")
    rule_save(
        target=bank[0].name,
        confusables=[bank[1].name],
        text="Never call Bank/old",
        code="PERIOD",
        publish=True,
    )
    assert sorted(one["token"] for one in clauses_in_force()) == ["<<finance/PERIOD#1>>", "<<hr/PERIOD#1>>"]


def test_ledger_of_tools_leaves_clauses_as_they_are(tools):
    save(SINCE, UNTIL)
    before = list(TokenUnit.objects.filter(family="clause").values_list("slot", "string", "state"))
    Tool.objects.filter(name=OLD).update(status="retired")
    ledger_update()
    assert list(TokenUnit.objects.filter(family="clause").values_list("slot", "string", "state")) == before
    assert set(TokenUnit.objects.values_list("family", flat=True)) == {"flat", "part", "wrap", "clause"}


def test_clauses_in_force_are_read_in_two_queries(tools, django_assert_num_queries):
    save(SINCE, UNTIL)
    save("Never call Pay/old", code="OTHER")
    with django_assert_num_queries(2):
        assert len(clauses_in_force()) == 3


def test_rules_published_before_clauses_had_tokens_get_them_with_the_migration(tools):
    rule = make_rule(*tools, code="BEFORE")
    make_rule(*tools, code="DRAFT", published=False)
    assert clauses_in_force() == []
    read_versions(apps)  # as after every migration
    assert {one["rule"] for one in clauses_in_force()} == {"BEFORE"}
    tokens = in_force()
    read_versions(apps)
    assert in_force() == tokens and rule.text_clauses.count() == 3


def test_new_edition_of_the_reading_reads_clauses_again(tools, monkeypatch):
    save(SINCE, UNTIL)
    monkeypatch.setattr("rules.services.READER", core.READER + 1)
    monkeypatch.setattr("rules.services.text_clauses", lambda content: [])
    read_missing()
    assert clauses_in_force() == []


def test_clause_is_frozen(tools):
    save(SINCE, UNTIL)
    for sql in ("UPDATE rules_ruleclause SET text = ''", "DELETE FROM rules_ruleclause"):
        with pytest.raises(IntegrityError, match="frozen"), transaction.atomic():
            connection.cursor().execute(sql)


SENTENCES = st.lists(st.sampled_from([SINCE, UNTIL, DEAD, "Use Pay/new", "Never call Pay/old"]), max_size=4)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(["A", "B"]), SENTENCES), max_size=6))
def test_no_history_moves_a_token_or_gives_it_to_other_words(tools, history):
    seen = {}
    with transaction.atomic():
        for code, sentences in history:
            rule = Rule.objects.filter(code=code).first()
            if sentences:
                said = save("Pay/old, Pay/third and Pay/new exist", *sentences, rule=rule, code=code)
                assert {one["text"] for one in clauses_in_force() if one["rule"] == code} == {
                    one.clause.text for one in version_clauses([said])[said.pk]
                }
            elif rule:
                rule_withdraw(rule=rule)
            for row in RuleClause.objects.select_related("token"):
                place = (row.token.slot, row.rule_id, row.clause)
                assert seen.setdefault(row.token.string, place) == place
            slots = TokenUnit.objects.filter(family="clause").values_list("slot", flat=True)
            assert sorted(slots) == list(range(len(slots)))
        transaction.set_rollback(True)
