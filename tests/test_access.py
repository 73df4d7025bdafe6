"""A blind note is its writer's own until nobody is left to judge the sample, and a page tells no more than one may."""

import pytest
from django.http import HttpResponse, StreamingHttpResponse
from django.test import Client, RequestFactory

from synthesis.models import SecondShare
from synthesis.review import services as review_services
from synthesis.team.services import comment_add
from tests.factories import make_rule, make_sample, make_snapshot, make_tool
from trace_site.access import ROLES, allowed, areas
from trace_site.audit.models import AuditChange
from trace_site.middleware import closed_links, head_as_get

pytestmark = pytest.mark.django_db


@pytest.fixture
def noted(user_with):
    """A sample that its first reader rejected and spoke of, and that waits for a second reading."""
    SecondShare.objects.create(share=1.0)
    sample = make_sample(rule=make_rule(make_tool("Pay/Get"), make_tool("Pay/Old")))
    ann = user_with("reviewer", username="ann")
    review_services.reject(sample=sample, reviewer=ann, reason="leak", note="SECRET note", follow_up="drop")
    comment_add(sample=sample, author=ann, text="SECRET words")
    return sample


def told(user, sample) -> list[str]:
    """The addresses that tell this person what the first reader said."""
    client = Client()
    client.force_login(user)
    of, api = f"/synthesis/samples/{sample.pk}", f"/api/v1/synthesis/samples/{sample.pk}"
    rule = sample.rule_version.rule_id
    addresses = [f"{of}/", f"{of}/lineage/", f"{of}/comments/", "/synthesis/comments/", "/synthesis/samples/"]
    addresses += [
        f"/synthesis/samples/rejections/{rule}/",
        f"/synthesis/review/{sample.pk}/",
        "/synthesis/again/",
    ]
    addresses += [api, f"{api}/lineage", f"{api}/comments", "/api/v1/synthesis/rejections", "/api/v1/audit"]
    addresses += [
        "/audit/",
        "/audit/?object_type=decision",
        "/audit/?object_type=samplecomment",
        "/audit/audit.csv",
    ]
    rows = AuditChange.objects.filter(table_name__in=["synthesis_decision", "synthesis_samplecomment"])
    addresses += [f"/audit/changes/{row.pk}/" for row in rows]
    found = []
    for address in addresses:
        answer = client.get(address)
        body = b"".join(answer.streaming_content) if answer.streaming else answer.content
        found += [address] if b"SECRET" in body else []
    return found


@pytest.mark.parametrize("roles", [(), *((role,) for role in ROLES), ROLES], ids=str)
def test_a_blind_note_is_told_to_nobody_but_its_writer(noted, user_with, roles):
    assert told(user_with(*roles, username="other"), noted) == []


def test_the_writer_of_a_note_reads_it_and_all_do_once_the_sample_is_decided(noted, user_with):
    ann = noted.decisions.get().reviewer
    assert len(told(ann, noted)) >= 4
    review_services.reject(sample=noted, reviewer=user_with("reviewer"), reason="leak", follow_up="drop")
    assert len(told(user_with("expert"), noted)) >= 6
    assert told(user_with("product_manager"), noted) == []


def test_what_stands_in_no_area_is_refused_to_everybody():
    assert allowed("rules:not_there") == () == allowed("not_there")
    assert {word for area in areas().values() for word in (*area.reads, *area.sends)} == {
        *ROLES,
        "anybody",
        "account",
    }


def test_a_store_that_is_damaged_is_no_mistake_of_who_asks(client_as):
    snapshot = make_snapshot(store_digest="0" * 64)
    client = client_as("admin")
    for address in (
        f"/api/v1/snapshots/{snapshot.pk}/files/tools.jsonl",
        f"/api/v1/snapshots/{snapshot.pk}/card",
    ):
        answer = client.get(address)
        assert (answer.status_code, answer.json()["code"]) == (503, "store_corrupt"), address
        assert "Retry-After" not in answer
    assert client.get(f"/synthesis/snapshots/{snapshot.pk}/files/tools.jsonl").status_code == 503


def test_headers_are_told_without_the_body_and_nothing_is_kept_by_a_browser(client_as):
    client = client_as("expert")
    for address in ("/", "/catalog/", "/api/v1/tools", "/rules/export.csv"):
        got, head = client.get(address), client.head(address)
        assert (head.status_code, head.content) == (200, b"") and got["Content-Type"] == head["Content-Type"]
        assert got["Cache-Control"] == head["Cache-Control"] == "no-store, private"
    assert Client().head("/healthz").status_code == 200


def test_the_body_that_a_request_for_headers_throws_away_is_closed_with_the_answer():
    closed = []

    def rows():
        try:
            yield "a row"
        finally:
            closed.append("rows")

    stream = StreamingHttpResponse(rows())
    next(iter(stream))
    answer = head_as_get(lambda request: stream)(RequestFactory().head("/rules/export.csv"))
    assert (answer.content, closed) == (b"", [])
    answer.close()
    assert closed == ["rows"]


def test_the_navigation_leads_admins_to_people_and_nobody_else(client_as):
    leads = {role: 'href="/people/"' in client_as(role).get("/account/").content.decode() for role in ROLES}
    assert leads == {role: role == "admin" for role in ROLES}


CLOSED, OPEN = "/audit/", "/catalog/tools/7/"
PAGES = {  # what an expert gets of what a template wrote
    f'see <a href="{CLOSED}">the audit</a>.': "see the audit.",
    f'<a class="rule-code" href="{CLOSED}?object_id=3#top" download>R</a>': '<span class="rule-code">R</span>',
    f'<a href="{CLOSED}" aria-current="page" class="tool">T</a>': '<span class="tool">T</span>',
    f'<p><a class="button small" href="{CLOSED}">Audit</a></p>': "<p></p>",
    f'<a class="tool" href="{CLOSED}"><i>a</i>\n<b>b</b></a>': '<span class="tool"><i>a</i>\n<b>b</b></span>',
    f'<a href="{OPEN}">a</a> <a href="{CLOSED}">b</a> <a href="{OPEN}">c</a>': (
        f'<a href="{OPEN}">a</a> b <a href="{OPEN}">c</a>'
    ),
    '<a href="/training/12/log/">the log</a>': "the log",
}
KEPT = [
    f'<a class="button" href="{OPEN}">Tool</a>',
    '<a href="#top">up</a> <a href="?after=3">next</a> <a href="https://example.org/audit/">away</a>',
    '<a href="/static/trace.css">a file</a> <a href="/nowhere/">nothing</a>',
    f"&lt;a href=&quot;{CLOSED}&quot;&gt;what somebody wrote&lt;/a&gt;",
    f'<form method="post" action="{CLOSED}"><button>Go</button></form><div hx-get="{CLOSED}"></div>',
    '<a href="/catalog/tools/named/Caf%C3%A9/Menu%20%26%20Price">a name</a>',
]


def shown(page, user, content_type="text/html; charset=utf-8"):
    request = RequestFactory().get("/")
    request.user = user
    return closed_links(lambda request: HttpResponse(page, content_type))(request).content.decode()


@pytest.mark.parametrize("page", [*PAGES, *KEPT])
def test_a_link_to_what_one_may_not_read_is_its_words(user_with, page):
    assert shown(page, user_with("expert")) == PAGES.get(page, page)
    assert shown(page, user_with("admin")) == page


def test_only_pages_are_searched_for_links(user_with):
    page = next(iter(PAGES))
    assert shown(page, user_with("expert"), "text/plain") == page
