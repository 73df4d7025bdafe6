"""Rule pages: the list, one rule, the editor that never overwrites somebody else's version."""

import json

import pytest

from catalog.models import NeighbourList
from rules.models import Rule, RuleVersion
from rules.services import rule_save
from tests.factories import make_rule, make_tool

pytestmark = pytest.mark.django_db
TEXT = "Payslips from 2024 on are read with A/New, earlier ones with A/Old, whatever the worker says."


@pytest.fixture
def tools():
    return make_tool("A/New"), make_tool("A/Old")


def form(**fields):
    return {"target": "A/New", "confusables": ["A/Old"], "text": TEXT, "base": "0", "do": "save", **fields}


def saved(**fields):
    return rule_save(target="A/New", confusables=["A/Old"], text=TEXT, code="NEW_OLD", **fields).version


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


def test_expert_writes_a_rule_with_clauses_and_tests(client_as, tools):
    data = form(code="PAYSLIP_PERIOD")
    data |= {
        "clause-0-when": "2024 or later",
        "clause-0-route_to": "A/New",
        "clause-0-signals": "May 2024; Q1 2025",
    }
    data |= {"clause-7-when": "earlier", "clause-7-route_to": "A/Old", "clause-7-exception": "1"}
    data |= {"test-3-query": "my pay for may 2024", "test-3-tools": "A/New"}
    response = client_as("expert").post("/rules/new/", data)
    version = RuleVersion.objects.get()
    assert response["Location"] == f"/rules/{version.rule_id}/" and version.rule.code == "PAYSLIP_PERIOD"
    assert version.clauses == [
        {
            "when": "2024 or later",
            "route_to": "A/New",
            "exception": False,
            "signals": ["May 2024", "Q1 2025"],
        },
        {"when": "earlier", "route_to": "A/Old", "exception": True, "signals": []},
    ]
    assert version.tests == [{"query": "my pay for may 2024", "tools": ["A/New"]}]
    assert version.author.username == "expert" and version.rule.published_id is None


def test_save_and_publish_publishes_what_has_no_errors(client_as, tools):
    client_as("expert").post("/rules/new/", form(do="publish"))
    assert Rule.objects.get().published.number == 1


def test_errors_leave_the_version_saved_and_unpublished(client_as, tools):
    response = client_as("expert").post(
        "/rules/new/", form(do="publish", text="Use the newer one."), follow=True
    )
    assert Rule.objects.get().published is None and "not published" in response.content.decode()


def test_unknown_tool_comes_back_with_everything_that_was_typed(client_as, tools):
    response = client_as("expert").post("/rules/new/", form(confusables=["A/Olt"]))
    page = response.content.decode()
    assert response.status_code == 409 and not Rule.objects.exists()
    assert "Closest: A/Old" in page and TEXT in page


def test_version_saved_by_somebody_else_is_never_overwritten(client_as, tools):
    rule = saved().rule
    rule_save(target="A/New", confusables=["A/Old"], text=TEXT + " Theirs.", rule=rule)
    client, mine = client_as("expert"), TEXT + " Mine."
    response = client.post(f"/rules/{rule.pk}/edit/", form(base="1", text=mine))
    page = response.content.decode()
    assert response.status_code == 409 and rule.versions.count() == 2
    assert "v2 was saved" in page and "Mine." in page and "Theirs" in page
    client.post(f"/rules/{rule.pk}/edit/", form(base=str(response.context["form"].base), text=mine))
    assert [version.text for version in rule.versions.order_by("number")][1:] == [TEXT + " Theirs.", mine]


def test_cluster_prefills_the_editor_with_tools_that_stay_first(client_as):
    old, new = make_tool("A/Aged", deprecated=True), make_tool("A/New")
    page = client_as("expert").get(f"/rules/new/?domain=hr&tools={old.pk},{new.pk}")
    assert (page.context["form"].target, page.context["form"].confusables) == ("A/New", ["A/Aged"])


def test_neighbours_of_the_target_are_suggested_unchecked(client_as, tools):
    new, old = tools
    NeighbourList.objects.create(tool=new, neighbour_ids=[old.pk], scores=[0.9])
    page = client_as("expert").post("/rules/confusables/", {"target": "A/New"})
    assert [(item.tool.name, item.chosen) for item in page.context["suggestions"]] == [("A/Old", False)]
    page = client_as("admin").post("/rules/confusables/", {"target": "A/New", "confusables": ["A/Old"]})
    assert [(item.tool.name, item.chosen) for item in page.context["suggestions"]] == [("A/Old", True)]


def test_findings_are_told_while_typing_and_nothing_is_written(client_as, tools):
    page = client_as("expert").post("/rules/check/", form(text="Use the newer one.")).content.decode()
    assert "names none of the confusables" in page and not Rule.objects.exists()


def test_published_version_is_withdrawn_and_published_again(client_as, tools):
    rule = saved(publish=True).rule
    client = client_as("expert")
    client.post(f"/rules/{rule.pk}/withdraw/")
    assert Rule.objects.get().published is None
    client.post(f"/rules/{rule.pk}/publish/", {"version": "1"})
    assert Rule.objects.get().published.number == 1


def test_publishing_a_version_with_errors_is_refused(client_as, tools):
    rule = make_rule(*tools, published=False)
    response = client_as("expert").post(f"/rules/{rule.pk}/publish/", {"version": "1"})
    assert response.status_code == 409 and Rule.objects.get().published is None


@pytest.mark.parametrize("role", ["reviewer", "product_manager"])
@pytest.mark.parametrize("path", ["new/", "{}/edit/", "{}/publish/", "{}/withdraw/"])
def test_readers_change_no_rule(client_as, tools, role, path):
    rule = saved(publish=True).rule
    response = client_as(role).post("/rules/" + path.format(rule.pk), form(base="1", version="1"))
    assert response.status_code == 403 and RuleVersion.objects.count() == 1 and Rule.objects.get().published


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


def test_refusal_speaks_of_the_fields_of_the_form(client_as, tools):
    client = client_as("expert")
    page = client.post("/rules/new/", form(confusables=[])).content.decode()
    assert (
        "The list of look-alikes is empty." in page
        and "/confusables" not in page.split('role="alert"')[1][:200]
    )
    clause = {"clause-0-when": "always", "clause-0-route_to": "A/Gone"}
    page = client.post("/rules/check/", form(**clause)).content.decode()
    assert "Clause 1: " in page and "A/Gone" in page


def test_unknown_version_of_a_rule_is_not_found(client_as, tools):
    version = saved()
    assert client_as("expert").get(f"/rules/{version.rule_id}/versions/7/").status_code == 404


@pytest.mark.parametrize("number", ["", "two", "\N{SUPERSCRIPT TWO}", "99"])
def test_version_that_is_none_is_not_published(client_as, tools, number):
    rule = make_rule(*tools)
    url = f"/rules/{rule.pk}/publish/"
    assert client_as("expert").post(url, {"version": number}).status_code == 404
