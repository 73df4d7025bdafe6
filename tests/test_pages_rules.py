"""Rule pages: one rule with its history, and what other pages show of rules. The editor has its own tests."""

import json

import pytest

from tests.factories import make_tool
from tests.rules.saving import rule_save

pytestmark = pytest.mark.django_db
TEXT = "Payslips from 2024 on are read with A/New, earlier ones with A/Old, whatever the worker says."


@pytest.fixture
def tools():
    return make_tool("A/New"), make_tool("A/Old")


def saved(**fields):
    given = {"target": "A/New", "confusables": ["A/Old"], "text": TEXT, "code": "NEW_OLD"}
    return rule_save(**{**given, **fields}).version


def test_rule_page_links_the_tools_its_text_names(client_as, tools):
    version = saved()
    page = client_as("reviewer").get(f"/rules/{version.rule_id}/").content.decode()
    assert page.count('href="/catalog/tools/named/A/New"') == 1 and "/catalog/tools/named/A/Old" in page


def test_rule_page_shows_what_a_version_changed(client_as, tools):
    version = saved()
    rule_save(target="A/New", confusables=["A/Old"], text=TEXT.replace("2024", "2025"), rule=version.rule)
    page = client_as("reviewer").get(f"/rules/{version.rule_id}/").content.decode()
    assert "<del>2024</del>" in page and "<ins>2025</ins>" in page
    old = client_as("expert").get(f"/rules/{version.rule_id}/versions/1/")
    assert old.context["version"].number == 1


def section(client, version, number=""):
    """The page's section on clauses, without line breaks."""
    page = client.get(f"/rules/{version.rule_id}/{number}").content.decode()
    return " ".join(page.partition('id="clauses"')[2].partition("</section>")[0].split())


def test_rule_page_lists_its_clauses_with_tools_and_tokens(client_as, tools):
    client, version = client_as("reviewer"), saved()
    assert section(client, version).count("gets a token once published") == 2
    saved(rule=version.rule, publish=True)
    shown = section(client, version)
    assert "Payslips from 2024 on are read with A/New" in shown and "No clause leads" not in shown
    assert f'leads to</span> <a class="tool" href="/catalog/tools/{tools[1].pk}/">' in shown
    assert "OLD#1&gt;&gt;</code></p>" in shown
    saved(text=TEXT.replace("worker", "employee"), rule=version.rule, publish=True)
    assert "OLD#2&gt;&gt;</code> · not in force" in section(client, version, "versions/1/")


def test_rule_page_says_what_to_write_where_no_clause_leads_to_the_target(client_as, tools):
    version = saved(text="A/Old is deprecated; it was read until 2024.")
    shown = section(client_as("reviewer"), version)
    assert "No clause leads to" in shown and "“For … use A/New.”" in shown and "away from" in shown


def test_tool_page_fragment_names_the_rules_that_hold_it(client_as, tools):
    saved()
    page = client_as("reviewer").get(f"/rules/of-tool/{tools[1].pk}/").content.decode()
    assert "NEW_OLD" in page and "as a look-alike of" in page


def test_import_preview_names_the_published_rules_it_touches(client_as, tools):
    saved(publish=True)
    client = client_as("admin")
    assert "NEW_OLD" in client.post("/rules/affected/", {"names": "A/Old\nB/Else"}).content.decode()
    assert "No published rule" in client.post("/rules/affected/", {"names": "B/Else"}).content.decode()


def test_export_is_the_exchange_format(client_as, tools):
    saved(publish=True)
    exported = json.loads(client_as("expert").get("/rules/export.json").content)
    assert exported[0]["tool_name"] == "A/New" and exported[0]["confusables"] == ["A/Old"]


def test_unknown_version_of_a_rule_is_not_found(client_as, tools):
    version = saved()
    assert client_as("expert").get(f"/rules/{version.rule_id}/versions/7/").status_code == 404
