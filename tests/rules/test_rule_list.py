"""The list of rules: it reads what the checks kept, in pages, with the same queries however many rules it shows."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rules.models import RuleHealth, RuleVersion
from rules.selectors import RuleFilter, rule_ids, rule_list
from rules.services import rule_withdraw
from tests.factories import make_domain, make_rule, make_tool
from tests.rules.saving import rule_save

pytestmark = pytest.mark.django_db
TEXT = "Payslips from 2024 on are read with A/New, earlier ones with A/Old, whatever the worker says."


@pytest.fixture
def tools():
    return make_tool("A/New"), make_tool("A/Old")


def saved(**fields):
    given = {"target": "A/New", "confusables": ["A/Old"], "text": TEXT, "code": "NEW_OLD"}
    return rule_save(**{**given, **fields}).version


def codes(listed):
    return [row.rule.code for row in listed.page.rows]


def queries_of(client, url):
    with CaptureQueriesContext(
        connection,
    ) as captured:
        assert client.get(url).status_code == 200
    return len(captured)


def test_row_shows_state_light_findings_and_tests(tools):
    saved(publish=True, tests=[{"query": "my slip of may 2024", "tools": ["A/New"]}])
    saved(code="SHORT", text="Use the newer one.", publish=True)
    rows = {row.rule.code: row for row in rule_list(RuleFilter()).page.rows}
    assert (rows["NEW_OLD"].state, rows["NEW_OLD"].light, rows["NEW_OLD"].findings) == ("published", "ok", [])
    assert (rows["SHORT"].state, rows["SHORT"].light) == ("draft", "error")
    assert rows["SHORT"].findings[0]["code"] == "no_confusable"


def test_list_counts_all_rules_by_light(tools):
    saved(publish=True)
    saved(code="SHORT", text="Use the newer one.")
    listed = rule_list(RuleFilter(), size=1)
    assert (listed.total, listed.errors, listed.warnings) == (2, 1, 1)


def test_rules_that_sql_wrote_are_checked_when_the_list_is_opened(client_as, tools):
    make_rule(*tools, code="BY_SQL", text="Use A/New for the newest periods.")
    shown = client_as("reviewer").get("/rules/").context["rows"]
    assert [row.rule.code for row in shown] == ["BY_SQL"] and RuleHealth.objects.get().light == "error"


def test_list_needs_the_same_queries_for_ten_rules_and_for_sixty(client_as, tools):
    client = client_as("expert")
    for number in range(10):
        make_rule(*tools, code=f"RULE_{number:02}", tests=[{"query": f"query {number}", "tools": ["A/New"]}])
    client.get("/rules/")
    few = {url: queries_of(client, url) for url in ("/rules/", "/rules/?q=rule&state=published&light=error")}
    for number in range(10, 60):
        make_rule(*tools, code=f"RULE_{number:02}")
    client.get("/rules/")
    assert {url: queries_of(client, url) for url in few} == few
    assert few["/rules/"] <= 9


def test_pages_show_every_rule_once_in_the_order_of_domain_and_code(tools):
    other = make_tool("B/Other", domain=make_domain("finance"))
    for number in range(7):
        saved(code=f"RULE_{number}")
    saved(
        code="RULE_3",
        target="B/Other",
        text="Invoices are read with B/Other, payslips with A/Old; never both.",
    )
    assert other.domain_id == "finance"
    seen, after = [], ""
    while True:
        listed = rule_list(RuleFilter(), after, size=3)
        seen += [(row.rule.domain_id, row.rule.code) for row in listed.page.rows]
        if listed.page.next_key is None:
            break
        after = listed.page.next_key
    assert seen == [("finance", "RULE_3"), *(("hr", f"RULE_{number}") for number in range(7))]


def test_newest_change_comes_first_when_asked(tools):
    for code in ("ONE", "TWO", "THREE"):
        saved(code=code)
    rule = RuleVersion.objects.get(rule__code="ONE").rule
    saved(rule=rule, text=f"{TEXT} Always.")
    first = rule_list(RuleFilter(order="changed"), size=2)
    assert codes(first) == ["ONE", "THREE"]
    assert codes(rule_list(RuleFilter(order="changed"), first.page.next_key, size=2)) == ["TWO"]


@pytest.mark.parametrize("after", ["nonsense", "hr/", "²", "9" * 30, "%00"])
@pytest.mark.parametrize("order", ["", "changed"])
def test_key_of_an_old_link_is_no_error(client_as, tools, after, order):
    saved()
    assert client_as("expert").get("/rules/", {"after": after, "order": order}).status_code == 200


def test_every_word_must_occur_in_code_target_or_text(tools):
    saved()
    expected = {"new_old": 1, "2024 a/new": 1, "2024 unheard": 0, "100%": 0}
    assert {words: rule_list(RuleFilter(search=words)).total for words in expected} == expected


def test_filters_narrow_and_the_export_gets_the_same_rules(tools):
    dusk = make_tool("A/Dusk", deprecated=True)
    saved(publish=True)
    saved(
        code="DUSK", target=dusk.name, text="Read the night's shifts with A/Dusk, and the day's with A/Old."
    )
    withdrawn = saved(code="GONE", publish=True, text=f"{TEXT} It was tried once.").rule
    rule_withdraw(rule=withdrawn)
    saved(rule=RuleVersion.objects.get(rule__code="NEW_OLD").rule, text=TEXT.replace("2024", "2025"))
    found = {
        "state draft": RuleFilter(state="draft"),
        "state changed": RuleFilter(state="changed"),
        "state published": RuleFilter(state="published"),
        "target deprecated": RuleFilter(target="deprecated"),
        "domain": RuleFilter(domain="finance"),
        "light": RuleFilter(light="error"),
    }
    shown = {name: codes(rule_list(chosen)) for name, chosen in found.items()}
    assert shown == {
        "state draft": ["DUSK", "GONE"],
        "state changed": ["NEW_OLD"],
        "state published": [],
        "target deprecated": ["DUSK"],
        "domain": [],
        "light": [],
    }
    assert all(len(rule_ids(chosen)) == len(shown[name]) for name, chosen in found.items())


def test_list_asks_for_the_samples_of_the_shown_rules_only(client_as, tools):
    versions = [saved(code=f"RULE_{number:02}") for number in range(55)]
    page = client_as("expert").get("/rules/").content.decode()
    asked = page.split("samples/counts/?rules=")[1].split('"')[0].split(",")
    assert asked == [str(version.rule_id) for version in versions[:50]]


def test_empty_list_says_what_to_do_next(client_as, db):
    assert "There are no rules yet" in client_as("expert").get("/rules/").content.decode()
    assert "No rule matches" in client_as("admin").get("/rules/", {"q": "x"}).content.decode()
