"""The team page, comments, saved views and guidelines as people meet them."""

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from synthesis.models import Assignment, Guideline, ReviewItem, SampleComment, SavedView
from synthesis.review import queue as review_queue
from synthesis.review import services as review_services
from synthesis.team.guidelines import guideline_save
from synthesis.team.services import comment_add
from tests.factories import make_domain, make_rule, make_sample, make_tool
from trace_site.audit.models import AuditChange, AuditEntry

pytestmark = pytest.mark.django_db


@pytest.fixture
def signed_in(user_with):
    """signed_in("admin", "alma") -> a client of that person."""

    def make(role: str, username: str) -> Client:
        client = Client()
        client.force_login(user_with(role, username=username))
        return client

    return make


@pytest.fixture
def samples():
    tools = [make_tool("New/GetSlip"), make_tool("Old/GetSlip")]
    rule = make_rule(*tools, code="SLIP_YEAR")
    return [make_sample(rule=rule, tools=tools) for _ in range(4)]


def text(answer) -> str:
    return answer.content.decode()


def test_the_team_page_shows_progress_and_who_holds_what(signed_in, samples):
    admin, ada = signed_in("admin", "alma"), signed_in("reviewer", "ada")
    person = User.objects.get(username="ada")
    review_services.approve(sample=samples[0], reviewer=person)
    review_queue.claim_next(person)
    page = text(admin.get("/synthesis/team/"))
    assert "3 samples wait for a reading" in page and "Free 1" in page and "this is no ranking" in page
    assert "Free 1" not in text(ada.get("/synthesis/team/"))
    answer = admin.post(f"/synthesis/team/{person.pk}/release/", follow=True)
    assert "1 held by ada freed." in text(answer)
    assert not ReviewItem.objects.filter(state="claimed").exists()
    entry = AuditEntry.objects.get(action="review.released")
    assert entry.detail == {"items": 1} and entry.object_label == "ada"


def test_a_team_page_with_nothing_says_so(signed_in):
    page = text(signed_in("reviewer", "ada").get("/synthesis/team/"))
    assert "Nothing waits for a reading." in page and "Nothing is assigned" in page


def test_the_team_page_costs_the_same_with_many_people_and_assignments(
    signed_in, samples, user_with, django_assert_num_queries
):
    admin = signed_in("admin", "alma")
    person = User.objects.get(username="alma")
    admin.get("/synthesis/team/")
    # session, user, roles, strip; team 6; mine, running, ended; domains and people of the form, each twice
    with django_assert_num_queries(18):
        admin.get("/synthesis/team/")
    from synthesis.team.services import assign

    for number in range(3):
        who = user_with("reviewer", username=f"r{number}")
        assign(assignee=who, actor=person, filters={}, count=1)
    with django_assert_num_queries(18):
        assert "Take back 1" in text(admin.get("/synthesis/team/"))


def test_giving_says_before_what_it_will_give_and_after_what_it_gave(signed_in, samples):
    admin = signed_in("admin", "alma")
    signed_in("reviewer", "ada")
    ada = User.objects.get(username="ada")
    asked = {"assignee": ada.pk, "rule": "SLIP_YEAR", "count": 3}
    assert "3 of the 4 that are free for ada" in text(admin.get("/synthesis/assignments/free/", asked))
    page = text(admin.post("/synthesis/assignments/", {**asked, "note": "by <Friday>"}, follow=True))
    assert "3 given to ada. Nobody else meets them now." in page
    assert "by &lt;Friday&gt;" in page and "rule SLIP_YEAR" in page and "Take back 3" in page
    row = Assignment.objects.get()
    assert row.filters == {"rule": "SLIP_YEAR"}
    signed_in("reviewer", "bob")
    bob = User.objects.get(username="bob")
    assert "3 given to bob instead" in text(
        admin.post(f"/synthesis/assignments/{row.pk}/reassign/", {"assignee": bob.pk}, follow=True)
    )
    new = Assignment.objects.get(assignee=bob)
    assert "3 taken back" in text(admin.post(f"/synthesis/assignments/{new.pk}/take-back/", follow=True))
    assert admin.post(f"/synthesis/assignments/{new.pk}/reassign/", {"assignee": ""}).status_code == 400


def test_a_refused_gift_keeps_what_was_typed(signed_in, samples):
    ada = signed_in("reviewer", "ada")
    answer = ada.post("/synthesis/assignments/", {"domain": "", "rule": "NO_SUCH", "count": "2", "note": "n"})
    page = text(answer)
    assert answer.status_code == 409 and "no item of this selection is free" in page
    assert 'value="NO_SUCH"' in page and 'value="2"' in page
    assert ada.post("/synthesis/assignments/", {"count": "0"}).status_code == 400
    signed_in("reviewer", "bob")
    bob = User.objects.get(username="bob")
    assert ada.post("/synthesis/assignments/", {"assignee": bob.pk, "count": 1}).status_code == 403


def test_comments_are_written_and_shown_and_hidden_by_who_asks_not_by_the_address(signed_in, samples):
    erin, ada = signed_in("expert", "erin"), signed_in("reviewer", "ada")
    url = f"/synthesis/samples/{samples[0].pk}/comments/"
    page = text(erin.post(url, {"text": "<script>alert(1)</script> @ada see\nhere"}))
    assert "&lt;script&gt;" in page and '<b class="mention">@ada</b>' in page
    for query in ("", "?blind=1", "?blind=0"):
        page = text(ada.get(url + query))
        assert "script" not in page and "shown once it is decided" in page
    assert "&lt;script&gt;" not in text(ada.get("/synthesis/comments/"))
    review_services.approve(sample=samples[0], reviewer=User.objects.get(username="ada"))
    assert "&lt;script&gt;" in text(ada.get(url)) and "&lt;script&gt;" in text(
        ada.get("/synthesis/comments/")
    )
    assert erin.post(url, {"text": " "}).status_code == 400
    guest = Client()
    guest.force_login(User.objects.create_user("guest"))
    assert guest.post(url, {"text": "x"}).status_code == 403 and SampleComment.objects.count() == 1
    assert guest.get(url).status_code == 403


def test_from_a_comment_one_gets_to_its_sample(signed_in, samples):
    erin = signed_in("expert", "erin")
    comment_add(sample=samples[1], author=User.objects.get(username="erin"), text="look")
    assert f'href="/synthesis/samples/{samples[1].pk}/#comments"' in text(erin.get("/synthesis/comments/"))
    assert f'hx-get="/synthesis/samples/{samples[1].pk}/comments/"' in text(
        erin.get(f"/synthesis/samples/{samples[1].pk}/")
    )


def test_comment_lists_cost_the_same(signed_in, samples, django_assert_num_queries):
    erin = signed_in("expert", "erin")
    person = User.objects.get(username="erin")
    for sample in samples * 3:
        comment_add(sample=sample, author=person, text="@erin @ghost x")
    with django_assert_num_queries(6):  # session, user, roles, strip, comments, mentioned
        erin.get("/synthesis/comments/")
    with django_assert_num_queries(7):  # session, user, roles, sample, comments, mentioned, is it blind
        erin.get(f"/synthesis/samples/{samples[0].pk}/comments/")


def save_view(client, page, name, at, **more):
    return client.post(
        "/synthesis/views/",
        {"page": page, "name": name, **more},
        headers={"HX-Current-URL": f"http://testserver{at}"},
    )


def test_a_view_keeps_what_the_page_would_take_of_its_address(signed_in):
    make_domain("hr")
    ada = signed_in("reviewer", "ada")
    page = text(
        save_view(
            ada,
            "samples",
            " My  HR ",
            "/synthesis/samples/?domain=hr&style=nonsense&evil=1&after=9&q=a%26b%3Cx%3E",
        )
    )
    row = SavedView.objects.get()
    assert (row.name, row.query) == ("My HR", "q=a%26b%3Cx%3E&domain=hr")
    assert 'href="/synthesis/samples/?q=a%26b%3Cx%3E&amp;domain=hr"' in page
    save_view(ada, "review", "adjudications", "/synthesis/review/?round=3&rule=SLIP&batch=x")
    assert SavedView.objects.get(page="review").query == "round=3&rule=SLIP"
    assert "adjudications" not in text(ada.get("/synthesis/views/?page=samples"))


def test_saving_again_under_a_name_replaces_ones_own(signed_in):
    make_domain("hr")
    ada, bob = signed_in("reviewer", "ada"), signed_in("reviewer", "bob")
    for client in (ada, bob):
        save_view(client, "samples", "mine", "/synthesis/samples/?domain=hr")
    save_view(ada, "samples", "mine", "/synthesis/samples/?tier=easy", shared="on")
    assert set(SavedView.objects.values_list("owner__username", "query")) == {
        ("ada", "tier=easy"),
        ("bob", "domain=hr"),
    }


def test_only_shared_views_are_seen_and_only_owner_or_admin_changes_them(signed_in):
    ada, bob, alma = signed_in("reviewer", "ada"), signed_in("reviewer", "bob"), signed_in("admin", "alma")
    save_view(ada, "samples", "secret", "/synthesis/samples/")
    save_view(ada, "samples", "ours", "/synthesis/samples/?tier=easy", shared="on")
    page = text(bob.get("/synthesis/views/?page=samples"))
    assert "ours" in page and "by ada" in page and "secret" not in page and "Delete" not in page
    secret, ours = SavedView.objects.get(name="secret"), SavedView.objects.get(name="ours")
    assert bob.post(f"/synthesis/views/{secret.pk}/delete/").status_code == 404
    assert bob.post(f"/synthesis/views/{ours.pk}/delete/").status_code == 403
    assert (
        alma.post(f"/synthesis/views/{ours.pk}/change/", {"name": "all of us", "shared": "on"}).status_code
        == 200
    )
    assert ada.post(f"/synthesis/views/{ours.pk}/change/", {"name": "secret"}).status_code == 400
    ada.post(f"/synthesis/views/{ours.pk}/change/", {"name": "all of us"})
    assert "all of us" not in text(bob.get("/synthesis/views/?page=samples"))
    ada.post(f"/synthesis/views/{ours.pk}/delete/")
    assert list(SavedView.objects.values_list("name", flat=True)) == ["secret"]


@pytest.mark.parametrize("given", [{"page": "nowhere", "name": "x"}, {"page": "samples", "name": " "}, {}])
def test_a_view_without_page_or_name_is_refused(signed_in, given):
    ada = signed_in("reviewer", "ada")
    assert ada.post("/synthesis/views/", given).status_code == 400
    assert ada.get("/synthesis/views/").status_code == 400 and not SavedView.objects.exists()


def test_an_admin_writes_a_guideline_with_examples_and_all_read_it(signed_in):
    make_domain("hr")
    admin, expert = signed_in("admin", "alma"), signed_in("expert", "paul")
    assert "Begin with one for all samples" in text(admin.get("/synthesis/guidelines/"))
    assert "An admin writes them" in text(expert.get("/synthesis/guidelines/"))
    example = {
        "verdict": "reject",
        "query": "GetSlip <2022>?",
        "answer": "New/GetSlip; Old/GetSlip",
        "why": "named",
    }
    typed = {"base": "0", "text": "First.\n\nThen <b>.", **{f"example-3-{k}": v for k, v in example.items()}}
    typed |= {"example-7-verdict": "approve", "example-7-query": " "}
    page = text(admin.post("/synthesis/guidelines/edit/?domain=hr&style=exception", typed, follow=True))
    assert "Saved as version 1." in page and "Then &lt;b&gt;." in page
    row = Guideline.objects.get()
    assert row.examples == [
        {**example, "answer": ["New/GetSlip", "Old/GetSlip"], "trace": ""},
    ]
    page = text(admin.get("/synthesis/guidelines/edit/?domain=hr&style=exception"))
    assert "You edit version 1" in page and "GetSlip &lt;2022&gt;?" in page
    assert "HR, exception" in text(expert.get("/synthesis/guidelines/"))
    assert "GetSlip &lt;2022&gt;?" in text(expert.get(f"/synthesis/guidelines/{row.pk}/"))


def test_an_edit_that_came_too_late_keeps_what_was_typed_beside_what_stands(signed_in):
    admin = signed_in("admin", "alma")
    bea = User.objects.create_user("bea")
    for number, words in enumerate(("one", "two, by bea")):
        guideline_save(domain="", style="", text=words, author=bea, base=number)
    answer = admin.post("/synthesis/guidelines/edit/", {"base": "1", "text": "two, by me"})
    page = text(answer)
    assert answer.status_code == 409 and "bea saved version 2 meanwhile" in page
    assert "two, by me" in page and "two, by bea" in page and 'name="base" value="2"' in page
    admin.post("/synthesis/guidelines/edit/", {"base": "2", "text": "two, by me"})
    assert Guideline.objects.order_by("-number").first().text == "two, by me"
    assert admin.post("/synthesis/guidelines/edit/?style=violation", {"text": "x"}).status_code == 400


def test_a_version_shows_what_it_changed_and_which_one_counts(signed_in):
    client = signed_in("expert", "erin")
    author = User.objects.create_user("alma")
    first = guideline_save(domain="", style="", text="Reject what is wrong.", author=author, base=0)
    second = guideline_save(domain="", style="", text="Reject what is unclear.", author=author, base=1)
    page = text(client.get(f"/synthesis/guidelines/{second.pk}/"))
    assert "<mark>wrong</mark>" in page and "<mark>unclear</mark>" in page and "counts now" not in page
    assert "counts now" in text(client.get(f"/synthesis/guidelines/{first.pk}/"))


def test_the_pane_shows_the_most_specific_guideline_open_and_the_general_one_below(signed_in):
    make_domain("hr")
    ada = signed_in("reviewer", "ada")
    author = User.objects.create_user("alma")
    url = "/synthesis/guidelines/pane/?domain=hr&style=exception"
    assert "No guideline holds for this sample." in text(ada.get(url))
    guideline_save(domain="", style="", text="for everything", author=author, base=0)
    guideline_save(domain="hr", style="exception", text="for this", author=author, base=0)
    page = text(ada.get(url))
    assert page.index("for this") < page.index("for everything") and page.count("<details open>") == 1
    assert "for this" not in text(ada.get("/synthesis/guidelines/pane/?domain=x&style=y"))


def test_a_decided_sample_is_copied_to_its_guideline_by_one_click(signed_in, samples):
    admin = signed_in("admin", "alma")
    url = f"/synthesis/samples/{samples[0].pk}/"
    assert "as an example" not in text(admin.get(url))
    assert admin.post(f"{url}example/").status_code == 409
    review_services.approve(sample=samples[0], reviewer=User.objects.get(username="alma"))
    assert "as an example" in text(admin.get(url))
    page = text(admin.post(f"{url}example/", follow=True))
    assert f"Sample {samples[0].pk} is an example in version 1" in page and samples[0].query in page


def test_the_audit_list_does_not_tell_a_reader_what_others_said_or_decided(signed_in, samples):
    erin = User.objects.create_user("erin")
    erin.groups.add(Group.objects.get(name="expert"))
    comment_add(sample=samples[1], author=erin, text="I would refuse it")
    review_services.reject(sample=samples[1], reviewer=a_reviewer(), reason="unnatural", note="too stiff")
    for role, name, told in (("reviewer", "ada", False), ("admin", "alma", True)):
        client = signed_in(role, name)
        for table, secret in (("synthesis_samplecomment", "refuse it"), ("synthesis_decision", "too stiff")):
            change = AuditChange.objects.get(table_name=table)
            pages = text(client.get("/audit/")) + text(client.get(f"/audit/changes/{change.pk}/"))
            assert (secret in pages) == told, (role, table)


def a_reviewer() -> User:
    person = User.objects.create_user("bob")
    person.groups.add(Group.objects.get(name="reviewer"))
    return person
