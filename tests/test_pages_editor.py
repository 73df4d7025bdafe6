"""The rule editor's pages and fragments, as a browser without scripts and the scripts use them."""

import json

import pytest
from django.test import Client

from catalog.models import NeighbourList
from rules.models import ChangeRequest, Rule, RuleChange
from tests.factories import make_cluster, make_tool
from tests.rules.saving import rule_save

pytestmark = pytest.mark.django_db
TEXT = "Payslips from 2024 on are read with A/New, earlier ones with A/Old, whatever the worker says."
JSON = {"HTTP_ACCEPT": "application/json"}


@pytest.fixture
def tools():
    return make_tool("A/New"), make_tool("A/Old")


def form(**fields):
    return {"target": "A/New", "confusables": ["A/Old"], "text": TEXT, "do": "save", **fields}


def published():
    kept = {"target": "A/New", "confusables": ["A/Old"], "text": TEXT, "code": "NEW_OLD"}
    return rule_save(**kept, publish=True).version.rule


def first_save(client, **fields):
    return client.post("/rules/changes/save/", form(**fields), **JSON).json()


def test_opening_the_editor_leaves_nothing_behind(client_as, tools):
    client = client_as("expert")
    rule = published()
    for path in ("/rules/new/?tools=1,2", f"/rules/{rule.pk}/edit/"):
        assert client.get(path).status_code == 200
    assert not ChangeRequest.objects.exists()


def test_cluster_prefills_the_editor_with_tools_that_stay_first(client_as):
    old, new = make_tool("A/Aged", deprecated=True), make_tool("A/New")
    page = client_as("expert").get(f"/rules/new/?domain=hr&tools={old.pk},{new.pk}")
    draft = page.context["form"].draft
    assert (draft["target"], draft["confusables"]) == ("A/New", ["A/Aged"])


def test_new_rule_is_saved_as_a_draft_without_scripts(client_as, tools):
    data = form(code="PAYSLIP_PERIOD", note="two systems", add_confusable="")
    data |= {
        "clause-0-when": "2024 or later",
        "clause-0-route_to": "A/New",
        "clause-0-signals": "May 2024; Q1 2025",
    }
    data |= {"clause-7-when": "earlier", "clause-7-route_to": "A/Old", "clause-7-exception": "1"}
    data |= {"test-3-query": "my pay for may 2024", "test-3-tools": "A/New"}
    response = client_as("expert").post("/rules/new/", data)
    change = RuleChange.objects.get()
    assert response["Location"] == f"/rules/changes/{change.pk}/"
    assert (change.code, change.note, change.edited_by.username) == (
        "PAYSLIP_PERIOD",
        "two systems",
        "expert",
    )
    assert change.content["clauses"] == [
        {
            "when": "2024 or later",
            "route_to": "A/New",
            "exception": False,
            "signals": ["May 2024", "Q1 2025"],
        },
        {"when": "earlier", "route_to": "A/Old", "exception": True, "signals": []},
    ]
    assert change.content["tests"] == [{"query": "my pay for may 2024", "tools": ["A/New"]}]
    assert not Rule.objects.exists()


def test_largest_rule_that_the_format_allows_is_saved(client_as, tools):
    data = form(confusables=[f"A/Tool{number}" for number in range(200)])
    for number in range(100):
        fields = {"when": "late", "route_to": "A/New", "exception": "1", "signals": "late; later"}
        data |= {f"clause-{number}-{name}": value for name, value in fields.items()}
    for number in range(200):
        data |= {f"test-{number}-query": f"pay {number}", f"test-{number}-tools": "A/New"}
    assert client_as("expert").post("/rules/changes/save/", data, **JSON).status_code == 200
    assert len(RuleChange.objects.get().content["tests"]) == 200


def test_line_ends_of_the_browser_are_stored_as_people_see_them(client_as, tools):
    first_save(client_as("expert"), text="One.\r\n\r\nTwo.")
    assert RuleChange.objects.get().content["text"] == "One.\n\nTwo."


def test_autosave_answers_with_the_next_revision_and_the_address_of_the_draft(client_as, tools):
    client = client_as("expert")
    told = first_save(client, text="Half")
    assert (told["revision"], told["url"]) == (1, f"/rules/changes/{told['change']}/")
    assert json.loads(told["base"])["text"] == "Half"
    again = client.post("/rules/changes/save/", form(change=told["change"], revision=1), **JSON).json()
    assert (again["revision"], RuleChange.objects.count()) == (2, 1)


def test_autosave_whose_answer_was_lost_goes_into_the_same_draft(client_as, tools):
    client = client_as("expert")
    first = first_save(client, token="page-1", text="Half")
    second = first_save(client, token="page-1", text="Half and more")
    other = first_save(client, token="page-2", text="Else")
    assert first["change"] == second["change"] != other["change"]


def test_autosave_over_somebody_elses_is_refused_and_tells_who_and_what(client_as, user_with, tools):
    client, maria = client_as("expert"), Client()
    maria.force_login(user_with("expert", username="maria"))
    change = first_save(client)["change"]
    opened = {"change": change, "revision": 1, "base": json.dumps(RuleChange.objects.get().content)}
    maria.post("/rules/changes/save/", form(**opened, text="Theirs. " + TEXT), **JSON)
    mine = form(**opened, text=TEXT + " Mine.")
    refused = client.post("/rules/changes/save/", mine, **JSON)
    words = refused.json()["html"]
    assert refused.status_code == 409 and "maria saved revision 2" in words and "Keep mine on top" in words
    page = client.post(f"/rules/changes/{change}/", mine)
    assert page.status_code == 409 and "Theirs." in page.content.decode() and "Mine." in page.content.decode()
    client.post(f"/rules/changes/{change}/", {**mine, "do": "keep", "onto": "2"})
    assert RuleChange.objects.get().content["text"] == f"Theirs. {TEXT} Mine."


def test_submitting_saves_first_and_leads_to_the_request(client_as, tools):
    client = client_as("expert")
    response = client.post("/rules/new/", form(do="submit"), follow=True)
    asked = ChangeRequest.objects.get()
    assert response.redirect_chain == [(f"/rules/requests/{asked.pk}/", 302)] and asked.state == "in_review"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"confusables": []}, "The list of look-alikes is empty."),
        ({"confusables": ["A/Olt"]}, "Closest: A/Old"),
        ({"text": "Use the newer one."}, "names none of the confusables"),
        ({"clause-0-when": "always", "clause-0-route_to": "A/Gone"}, "Clause 1: "),
        ({"target": ""}, "The target"),
    ],
)
def test_refused_submission_keeps_the_draft_and_everything_that_was_typed(client_as, tools, fields, told):
    response = client_as("expert").post("/rules/new/", form(**fields, do="submit"))
    page = response.content.decode()
    assert response.status_code in (400, 409) and told in page
    assert ChangeRequest.objects.get().state == "draft"
    change = RuleChange.objects.get()
    assert f'name="change" value="{change.pk}"' in page and change.content["text"] in page


def test_editing_a_published_rule_begins_from_its_newest_version_and_opens_the_same_draft_again(
    client_as, tools
):
    client, rule = client_as("expert"), published()
    page = client.get(f"/rules/{rule.pk}/edit/")
    assert page.context["form"].draft["text"] == TEXT and page.context["form"].began == 1
    told = client.post(
        "/rules/changes/save/", form(rule=rule.pk, began=1, text=TEXT + " And more."), **JSON
    ).json()
    assert client.get(f"/rules/{rule.pk}/edit/")["Location"] == told["url"]
    assert client.get(told["url"]).context["form"].draft["text"] == TEXT + " And more."


def test_page_of_a_rule_says_who_else_changes_it(client_as, user_with, tools):
    rule, maria = published(), Client()
    maria.force_login(user_with("expert", username="maria"))
    maria.post("/rules/changes/save/", form(rule=rule.pk, began=1, text=TEXT + " Hers."), **JSON)
    page = client_as("expert").get(f"/rules/{rule.pk}/edit/").content.decode()
    assert "maria also changes this rule" in page


def test_draft_that_a_newer_version_overtook_is_put_on_top_of_it(client_as, tools):
    client, rule = client_as("expert"), published()
    told = client.post(
        "/rules/changes/save/", form(rule=rule.pk, began=1, text=TEXT + " Mine."), **JSON
    ).json()
    rule_save(target="A/New", confusables=["A/Old"], text="Theirs. " + TEXT, rule=rule, publish=True)
    page = client.get(told["url"]).content.decode()
    assert "made v2 of NEW_OLD" in page and f"/rules/{rule.pk}/compare/1/2/" in page
    opened = {"change": told["change"], "revision": told["revision"], "rule": rule.pk}
    client.post(told["url"], form(**opened, text=TEXT + " Mine.", do="rebase"))
    change = RuleChange.objects.get()
    assert (change.content["text"], change.base.number) == (f"Theirs. {TEXT} Mine.", 2)


def test_change_of_a_submitted_request_is_not_saved_by_itself_and_says_what_saving_does(client_as, tools):
    client = client_as("expert")
    client.post("/rules/new/", form(do="submit"))
    page = client.get(f"/rules/changes/{RuleChange.objects.get().pk}/").content.decode()
    assert "data-by-hand" in page and "has to be reviewed" in page and "Submit for review" not in page


def test_change_that_was_ended_is_read_on_its_request(client_as, tools):
    client = client_as("expert")
    told = first_save(client)
    ChangeRequest.objects.update(state="cancelled")
    assert client.get(told["url"])["Location"] == f"/rules/requests/{ChangeRequest.objects.get().pk}/"
    assert client.post("/rules/changes/save/", form(**told, text="Late"), **JSON).status_code == 409


def test_change_joins_another_draft_request_of_mine(client_as, tools):
    client, rule = client_as("expert"), published()
    first = first_save(client, target="A/Old", confusables=["A/New"])
    told = client.post(
        "/rules/changes/save/", form(rule=rule.pk, began=1, text=TEXT + " More."), **JSON
    ).json()
    into = RuleChange.objects.get(pk=first["change"]).request_id
    page = client.get(told["url"]).content.decode()
    assert f'<option value="{into}">{into}: new rule for A/Old</option>' in page
    client.post(told["url"], form(**told, rule=rule.pk, text=TEXT + " More.", do="move", into=into))
    assert RuleChange.objects.filter(request=into).count() == 2
    page = client.get(f"/rules/changes/{RuleChange.objects.get(rule=rule).pk}/").content.decode()
    assert "Submit 2 changes for review" in page


def test_discarding_deletes_the_draft_and_leads_back_to_the_rule(client_as, tools):
    client, rule = client_as("expert"), published()
    told = client.post("/rules/changes/save/", form(rule=rule.pk, began=1, text="Else"), **JSON).json()
    response = client.post(told["url"], form(**told, text="Else", do="discard"))
    assert response["Location"] == f"/rules/{rule.pk}/" and not RuleChange.objects.exists()


@pytest.mark.parametrize("role", ["reviewer", "product_manager"])
@pytest.mark.parametrize("path", ["new/", "{}/edit/", "changes/save/", "changes/{}/"])
def test_readers_change_no_rule(client_as, tools, role, path):
    rule = published()
    response = client_as(role).post("/rules/" + path.format(rule.pk), form())
    assert response.status_code == 403 and not RuleChange.objects.exists()


def test_nothing_is_saved_for_who_is_signed_out(client, tools):
    response = client.post("/rules/changes/save/", form(), **JSON)
    assert response.status_code == 401 and not RuleChange.objects.exists()


def test_neighbours_versions_and_cluster_of_the_target_are_suggested_with_scores(client_as, tools):
    new, old = tools
    twin, mate = make_tool("AV2/New", family="A", api_version=2), make_tool("B/Mate")
    new.family, new.cluster = "A", make_cluster(new, mate)
    new.save()
    NeighbourList.objects.create(tool=new, neighbour_ids=[old.pk], scores=[0.9])
    chosen = client_as("expert").post("/rules/confusables/", {"target": "A/New"}).context["set"]
    found = {item.tool.name: (item.score, item.sources) for item in chosen.suggested}
    assert found == {
        twin.name: (None, ("twin",)),
        "A/Old": (0.9, ("neighbour",)),
        "B/Mate": (None, ("cluster",)),
    }
    assert [item.tool.name for item in chosen.suggested][:2] == ["AV2/New", "A/Old"]


def test_chosen_look_alikes_stand_beside_the_target_with_the_differing_words_marked(client_as):
    make_tool("A/New", description="Reads a payslip as a document.")
    make_tool("A/Old", description="Reads a payslip as a table.")
    page = client_as("expert").post("/rules/confusables/", form()).content.decode()
    assert "as a <mark>table</mark>." in page and "as a <mark>document" not in page


def test_search_offers_tools_with_their_score_and_leaves_the_target_out(client_as):
    make_tool("A/GetPayslip", embedding=[1.0, 0.0], words="a get payslip")
    make_tool("B/GetPayslip", embedding=[0.6, 0.8], words="b get payslip")
    page = client_as("expert").get("/rules/tool-search/", {"q": "payslip", "target": "A/GetPayslip"})
    assert [(item.tool.name, round(item.score, 2)) for item in page.context["found"]] == [
        ("B/GetPayslip", 0.6)
    ]


def test_search_box_and_set_need_as_many_queries_for_forty_tools_as_for_two(
    client_as, django_assert_max_num_queries
):
    many = [make_tool(f"A/Tool{number}", embedding=[1.0, number]) for number in range(40)]
    many[0].cluster = make_cluster(*many)
    many[0].save()
    client = client_as("expert")
    with django_assert_max_num_queries(12):
        client.post(
            "/rules/confusables/", form(target="A/Tool0", confusables=[tool.name for tool in many[1:]])
        )
    with django_assert_max_num_queries(12):
        client.get("/rules/tool-search/", {"q": "tool", "target": "A/Tool0"})


def checked(client, **fields):
    return client.post("/rules/check/", form(**fields))


def test_findings_are_told_at_their_place_and_nothing_is_written(client_as, tools):
    page = checked(client_as("expert"), text="  Use the newer one.")
    assert ("no_confusable", "text") in [
        (finding.code, field) for finding, field in page.context["findings"]
    ] and not Rule.objects.exists()


def test_place_of_a_finding_counts_the_blanks_before_the_text(client_as, tools):
    text = "\n  " + TEXT + " B/Else is not meant."
    make_tool("B/Else")
    findings = checked(client_as("expert"), text=text).context["findings"]
    (place,) = [finding.place for finding, _ in findings if finding.code == "outside_set"]
    assert text[place.start : place.end] == "B/Else"


def test_unfinished_rows_and_unknown_tools_are_told_and_the_rest_is_still_checked(client_as, tools):
    page = checked(
        client_as("expert"),
        text="Use the newer one.",
        confusables=["A/Old", "A/Gone"],
        **{"clause-3-when": "late", "clause-3-route_to": "", "test-5-query": "pay", "test-5-tools": "B/Else"},
    )
    assert {field for _, field in page.context["problems"]} == {"set", "clause-3", "test-5"}
    assert "no_confusable" in {finding.code for finding, _ in page.context["findings"]}


def test_findings_of_later_rows_keep_their_row_when_an_earlier_one_is_unfinished(client_as, tools):
    make_tool("B/Else")
    rows = {
        "clause-0-when": "late",
        "clause-0-route_to": "",
        "clause-4-when": "early",
        "clause-4-route_to": "B/Else",
    }
    findings = checked(client_as("expert"), **rows).context["findings"]
    assert ("clause_outside_set", "clause-4") in {(finding.code, field) for finding, field in findings}


def test_empty_page_raises_no_alarm(client_as, tools):
    page = checked(client_as("expert"), text="").content.decode()
    assert "Write when A/New is right" in page and "finding" not in page


def test_sentences_of_the_text_are_offered_as_clauses_and_taken_over(client_as, tools):
    client, text = client_as("expert"), "When it is late, use A/Old. When it is early, use A/New."
    assert "2 sentences of the text say when a tool is used" in checked(client, text=text).content.decode()
    told = client.post("/rules/sentence-fix/", form(text=text)).json()["clauses"]
    assert [(one["row"], one["when"], one["route_to"], one["exception"]) for one in told] == [
        (None, "it is late", "A/Old", True),
        (None, "it is early", "A/New", False),
    ]


def test_clause_that_differs_from_the_text_is_marked_and_either_side_can_win(client_as, tools):
    client, text = client_as("expert"), "Ask. When it is very late, use A/Old. Else use A/New."
    rows = {"clause-6-when": "it is too late", "clause-6-route_to": "A/Old", "clause-6-exception": "1"}
    assert "out of step" in checked(client, text=text, **rows).content.decode()
    (told,) = client.post("/rules/sentence-fix/", form(text=text, **rows)).json()["clauses"]
    assert (told["row"], told["when"]) == (6, "it is very late")
    start, end, words = client.post("/rules/sentence-fix/", form(text=text, say="6", **rows)).json()["edit"]
    assert text[:start] + words + text[end:] == text.replace("very", "too")


def test_copy_from_the_browser_comes_back_into_the_fields(client_as, tools):
    rows = {"test-9-query": "my <b>pay</b>", "test-9-tools": "A/New"}
    page = client_as("expert").post("/rules/fields/", form(text="Kept & typed", **rows)).content.decode()
    assert (
        "Kept &amp; typed" in page and "my &lt;b&gt;pay&lt;/b&gt;" in page and 'name="test-9-query"' in page
    )


def test_names_and_texts_are_shown_literally(client_as):
    make_tool("A/<script>alert(1)</script>", description="<img src=x onerror=alert(1)>")
    page = client_as("expert").post("/rules/confusables/", {"target": "A/<script>alert(1)</script>"})
    assert "<script>alert" not in page.content.decode() and "<img" not in page.content.decode()


@pytest.mark.parametrize("number", ["", "x", "\N{SUPERSCRIPT TWO}", "9" * 30, "-1"])
def test_odd_numbers_in_the_form_are_no_error(client_as, tools, number):
    client = client_as("expert")
    data = form(change=number, revision=number, began=number, rule=number, into=number, onto=number)
    assert client.post("/rules/check/", data).status_code == 200
    for do in ("save", "keep", "submit", "move", "rebase", "discard"):
        assert client.post("/rules/new/", {**data, "do": do}).status_code in (302, 400, 404, 409)
    assert client.get(f"/rules/new/?tools={number},{number}").status_code == 200
