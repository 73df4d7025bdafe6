"""Pages of change control: the list, a request from draft to applied, what is printed for whom, comparing versions."""

from datetime import UTC, datetime, timedelta

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from rules.changes import drafts
from rules.changes import services as changes_services
from rules.models import ChangeRequest, Rule
from tests.factories import make_rule, make_tool
from tests.rules.saving import rule_save
from trace_site.impact import Impact

pytestmark = pytest.mark.django_db
TEXT = "Payslips from 2024 on are read with A/New, earlier ones with A/Old, whatever the worker says."


@pytest.fixture
def tools():
    return make_tool("A/New"), make_tool("A/Old"), make_tool("A/Odd")


@pytest.fixture
def people(user_with):
    return user_with("expert", username="erin"), user_with("expert", username="rui")


@pytest.fixture
def as_user(client):
    def login(user):
        client.force_login(user)
        return client

    return login


def content(text=TEXT, **fields):
    return {"target": "A/New", "confusables": ["A/Old"], "text": text, "clauses": [], "tests": [], **fields}


def published(**fields) -> Rule:
    return rule_save(**(content() | fields), code="NEW_OLD", publish=True).version.rule


def submitted(author, rule=None, **fields) -> ChangeRequest:
    change = drafts.change_draft(actor=author, rule=rule, content=content(**fields))
    return changes_services.request_submit(
        request=change.request, actor=author, revision=change.request.revision
    )


def act(client, request, verb, **data):
    revision = data.pop("revision", None) or ChangeRequest.objects.get(pk=request.pk).revision
    return client.post(f"/rules/requests/{request.pk}/{verb}/", {"revision": revision, **data}, follow=True)


def text_of(response) -> str:
    return response.content.decode()


def test_second_expert_approves_and_applies_what_the_first_wrote(as_user, people, tools):
    erin, rui = people
    request = submitted(erin, published(), text=TEXT.replace("2024", "2025"))
    client = as_user(rui)
    page = text_of(client.get(f"/rules/requests/{request.pk}/"))
    assert "<del>2024</del>" in page and "<ins>2025</ins>" in page and "Approve revision" in page
    page = text_of(act(client, request, "approve", comment="Right, since 2025."))
    assert "Apply now" in page and "Right, since 2025." in page
    page = text_of(act(client, request, "apply"))
    assert "v2" in page and "Applied" in page
    rule = Rule.objects.get()
    assert rule.published.number == 2 and rule.published.author == erin


def test_author_sees_why_the_own_request_has_no_approve_button(as_user, people, tools):
    request = submitted(people[0])
    page = text_of(as_user(people[0]).get(f"/rules/requests/{request.pk}/"))
    assert "Approve revision" not in page and "Nobody approves or rejects their own request" in page


def test_reviewers_read_every_page_and_find_no_button(client_as, people, tools):
    request = submitted(people[0], published(), text=TEXT + " Always.")
    client = client_as("reviewer")
    page = text_of(client.get(f"/rules/requests/{request.pk}/"))
    assert "Only the role domain expert or admin may do this" in page
    assert f'action="/rules/requests/{request.pk}/' not in page
    assert client.get("/rules/requests/").status_code == 200
    assert client.get(f"/rules/requests/{request.pk}/impact/").status_code == 200


def test_a_rule_tells_of_its_open_requests_to_those_who_may_read_them(as_user, people, tools, user_with):
    rule = published()
    submitted(people[0], rule, text=f"{TEXT} Always.")
    told = "Open changes of this rule"
    assert told in text_of(as_user(people[0]).get(f"/rules/{rule.pk}/"))
    assert told not in text_of(as_user(user_with("product_manager")).get(f"/rules/{rule.pk}/"))


def test_rejection_is_told_to_its_author_on_the_list_and_in_the_navigation(as_user, people, tools):
    erin, rui = people
    request = submitted(erin)
    act(as_user(rui), request, "reject", reason="Old periods are missing.")
    client = as_user(erin)
    assert "Old periods are missing." in text_of(client.get("/rules/requests/"))
    assert text_of(client.get("/rules/requests/count/")) == "1"
    act(client, request, "reopen")
    assert ChangeRequest.objects.get().state == "draft"
    assert text_of(client.get("/rules/requests/count/")) == ""
    assert "it was sent back" in text_of(client.get(f"/rules/requests/{request.pk}/"))


def test_navigation_counts_what_waits_for_this_person(as_user, people, tools, user_with):
    submitted(people[0])
    counts = {
        user.username: text_of(as_user(user).get("/rules/requests/count/"))
        for user in (*people, user_with("reviewer", username="rita"))
    }
    assert counts == {"erin": "", "rui": "1", "rita": ""}


def test_reason_that_was_typed_survives_a_refusal(as_user, people, tools):
    request = submitted(people[0])
    response = act(as_user(people[1]), request, "reject", reason="Too short.", revision=1)
    assert response.status_code == 409 and "Too short." in text_of(response)
    assert "edited since you opened it" in text_of(response)


def samples_of(ids):
    return [Impact("samples", 36 * len(ids), "samples", "/synthesis/samples/")]


def test_impact_is_counted_in_total_and_per_rule_before_and_kept_after(as_user, people, tools, monkeypatch):
    for app in apps.get_app_configs():
        told = {"rules": f"{__name__}.samples_of"} if app.name == "rules" else {}
        monkeypatch.setattr(app, "impact", told, raising=False)
    erin, rui = people
    first, second = published(), make_rule(*tools[:2], code="OTHER", text=TEXT + " Other.")
    request = drafts.change_draft(actor=erin, rule=first, content=content(text=TEXT + " Ever.")).request
    drafts.change_add(request=request, actor=erin, rule=second, content=content(text=TEXT + " Never."))
    request = changes_services.request_submit(request=request, actor=erin, revision=3)
    client = as_user(rui)
    fragment = text_of(client.get(f"/rules/requests/{request.pk}/impact/"))
    assert "<b>72</b>" in fragment and fragment.count("36 samples") == 2
    act(client, request, "approve")
    page = text_of(act(client, request, "apply"))
    assert "It touched <b>72</b> samples" in page


def test_scheduled_request_names_its_time_in_utc(as_user, people, tools):
    request = submitted(people[0])
    client = as_user(people[1])
    act(client, request, "approve")
    at = (timezone.now() + timedelta(days=2)).replace(hour=9, minute=30)
    page = text_of(act(client, request, "schedule", at=f"{at:%Y-%m-%dT%H:%M}"))
    assert f"{at:%-d %b %Y}, 09:30 UTC" in page
    assert ChangeRequest.objects.get().apply_at == datetime(at.year, at.month, at.day, 9, 30, tzinfo=UTC)
    page = text_of(act(client, request, "unschedule"))
    assert "Apply now" in page


def test_emergency_is_offered_with_the_permission_only(as_user, people, tools):
    erin, rui = people
    request = submitted(erin)
    url = f"/rules/requests/{request.pk}/"
    assert "Apply without approval" not in text_of(as_user(rui).get(url))
    rui.user_permissions.add(Permission.objects.get(codename="bypass_review"))
    assert "Apply without approval" in text_of(as_user(rui).get(url))
    page = text_of(act(as_user(rui), request, "bypass", reason="Payroll runs tonight."))
    assert "Nobody approved this" in page and "Payroll runs tonight." in page
    assert Rule.objects.get().published is not None


def test_conflict_is_shown_and_settled_on_top_of_the_newer_version(as_user, people, tools):
    erin, rui = people
    rule = published()
    request = submitted(erin, rule, text=TEXT + " Mine.")
    rule_save(**content(text=TEXT + " Theirs."), rule=rule, publish=True, actor=rui)
    client = as_user(erin)
    page = text_of(client.get(f"/rules/requests/{request.pk}/"))
    assert "rui made v2 of NEW_OLD" in page and f"/rules/{rule.pk}/compare/1/2/" in page
    change = request.changes.get()
    page = text_of(act(client, request, "rebase", change=change.pk, revision=change.revision))
    assert "rui made v2" not in page and "from v2" in page


def test_other_open_request_on_the_rule_is_shown_and_does_not_block(as_user, people, tools):
    erin, rui = people
    rule = published()
    first, second = submitted(erin, rule, text=TEXT + " One."), submitted(rui, rule, text=TEXT + " Two.")
    page = text_of(as_user(erin).get(f"/rules/requests/{second.pk}/"))
    assert (
        "Other open requests change this rule too" in page and f">{first.pk}</a> of erin, in review" in page
    )
    assert "Approve revision" in page
    assert f"/rules/requests/{first.pk}/" in text_of(as_user(erin).get(f"/rules/{rule.pk}/"))


def test_rule_page_rolls_back_and_withdraws_by_requests(as_user, people, tools):
    erin, rui = people
    rule = published()
    rule_save(**content(text=TEXT + " Later."), rule=rule, publish=True)
    client = as_user(erin)
    page = client.post(f"/rules/{rule.pk}/versions/1/propose/", follow=True)
    request = ChangeRequest.objects.get()
    assert "roll back to v1" in text_of(page) and Rule.objects.get().published.number == 2
    client.post(f"/rules/{rule.pk}/versions/1/propose/")
    assert ChangeRequest.objects.count() == 1  # a second click finds the draft
    act(client, request, "submit")
    act(as_user(rui), request, "approve")
    act(as_user(rui), request, "apply")
    rule.refresh_from_db()
    assert (rule.published.number, rule.published.text) == (3, TEXT)
    client.force_login(erin)
    client.post(f"/rules/{rule.pk}/withdraw/")
    withdrawal = ChangeRequest.objects.get(state="draft")
    page = text_of(act(client, withdrawal, "submit"))
    assert "Withdraw NEW_OLD" in page
    act(as_user(rui), withdrawal, "approve")
    act(as_user(rui), withdrawal, "apply")
    rule.refresh_from_db()
    assert rule.published is None and rule.versions.count() == 3


def test_two_versions_are_compared_in_either_order(client_as, tools):
    rule = published()
    rule_save(**content(text=TEXT.replace("2024", "2025"), confusables=["A/Odd"]), rule=rule)
    client = client_as("reviewer")
    page = text_of(client.get(f"/rules/{rule.pk}/compare/1/2/"))
    assert "<del>2024</del>" in page and "removed" in page and "A/Odd" in page
    assert "<del>2025</del>" in text_of(client.get(f"/rules/{rule.pk}/compare/2/1/"))
    assert client.get(f"/rules/{rule.pk}/compare/?from=1&to=2").url == f"/rules/{rule.pk}/compare/1/2/"
    assert client.get(f"/rules/{rule.pk}/compare/1/9/").status_code == 404
    assert client.get(f"/rules/{rule.pk}/compare/?from=x&to=2").status_code == 404


def test_list_is_filtered_by_state_person_and_words(as_user, people, tools):
    erin, rui = people
    mine = submitted(erin)
    draft = drafts.change_draft(actor=rui, content=content(target="A/Odd"), code="ODD_ONE").request
    client = as_user(rui)

    def found(**query):
        return [row.pk for row in client.get("/rules/requests/", query).context["page"].rows]

    assert found() == [draft.pk, mine.pk]
    assert found(state="draft") == [draft.pk] and found(state="applied") == []
    assert found(whose="mine") == [draft.pk] and found(whose="waiting") == [mine.pk]
    assert (
        found(q="odd_one") == [draft.pk]
        and found(q="erin new") == [mine.pk]
        and found(q=str(mine.pk)) == [mine.pk]
    )
    assert found(state="bogus") == [draft.pk, mine.pk]


def test_list_and_page_need_the_same_queries_however_much_they_hold(as_user, people, tools):
    erin, rui = people
    request = drafts.request_create(actor=erin, title="many")
    client = as_user(rui)
    counted = []
    for number in range(12):
        rule = make_rule(*tools[:2], code=f"RULE_{number}", text=f"{TEXT} {number}")
        drafts.change_add(
            request=request, actor=erin, rule=rule, content=content(text=f"{TEXT} new {number}")
        )
        drafts.change_draft(actor=erin, content=content())
        if number in (1, 11):
            client.get(f"/rules/requests/{request.pk}/")  # the process reads the rule book once
            with CaptureQueriesContext(connection) as of_list:
                client.get("/rules/requests/")
            with CaptureQueriesContext(connection) as of_page:
                client.get(f"/rules/requests/{request.pk}/")
            counted.append((len(of_list), len(of_page)))
    assert counted[0] == counted[1]
    assert counted[1][0] <= 10 and counted[1][1] <= 22


def test_list_is_read_in_keyset_pages(as_user, people, tools):
    made = [drafts.request_create(actor=people[0], title=f"r{number}").pk for number in range(60)]
    client = as_user(people[1])
    first = client.get("/rules/requests/").context["page"]
    second = client.get("/rules/requests/", {"after": first.next_key}).context["page"]
    assert [row.pk for row in [*first.rows, *second.rows]] == made[::-1]


def test_empty_list_and_filters_say_what_to_do_next(as_user, people):
    client = as_user(people[0])
    assert "No rule was changed yet" in text_of(client.get("/rules/requests/"))
    assert "Nothing waits for you" in text_of(client.get("/rules/requests/", {"whose": "waiting"}))


def test_login_that_ran_out_leads_back_to_the_request_and_nothing_is_lost(client, people, tools):
    request = submitted(people[0])
    url = f"/rules/requests/{request.pk}/approve/"
    response = client.post(url, {"revision": request.revision})
    assert response.status_code == 401 and "You are signed out" in text_of(response)
    client.force_login(people[1])
    back = client.get(url)
    assert back.status_code == 405 and f'href="/rules/requests/{request.pk}/"' in text_of(back)
    assert ChangeRequest.objects.get().state == "in_review"
