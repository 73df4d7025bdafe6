"""The frame: login, roles, jobs, audit, account, health, error pages."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.urls import reverse

from tests.factories import make_tool
from trace_site import jobs
from trace_site.audit import models as audit_models
from trace_site.rest.tokens import ApiToken, digest_of
from trace_site.templatetags.trace import NAVIGATION

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def handlers(settings):
    settings.JOB_HANDLERS = {"training": ("tests.test_jobs.ok_handler", "gpu")}


def make_job(**fields):
    job = jobs.enqueue("training", {"recipe": "small"}, title="Train (a, m, r)", wake=False)
    jobs.Job.objects.filter(pk=job.pk).update(**fields)
    return jobs.Job.objects.get(pk=job.pk)


@pytest.mark.parametrize(
    "path", ["/", "/catalog/", "/rules/", "/clusters/", "/jobs/", "/audit/", "/account/"]
)
def test_a_page_sends_a_stranger_to_the_login(client, path):
    assert client.get(path)["Location"].startswith("/login/?next=")


@pytest.mark.parametrize(
    "path", ["/", "/catalog/", "/rules/", "/clusters/", "/jobs/", "/evaluation/", "/account/"]
)
@pytest.mark.parametrize("role", ["expert", "reviewer", "admin", "product_manager"])
def test_every_role_reads_these_pages_of_an_empty_installation(client_as, role, path):
    assert client_as(role).get(path).status_code == 200


def test_every_entry_of_the_navigation_leads_to_a_page(client_as):
    client = client_as("admin")
    names = [entry[1] for entry in NAVIGATION if entry]
    assert {name: client.get(reverse(name)).status_code for name in names} == dict.fromkeys(names, 200)


@pytest.mark.parametrize(
    ("role", "left_out"),
    [
        ("expert", {"Prompts", "Review", "Audit"}),
        ("reviewer", {"Prompts", "Audit"}),
        ("admin", set()),
        ("product_manager", {"Changes", "Synthesis", "Prompts", "Review", "Snapshots", "Audit"}),
    ],
)
def test_the_navigation_leaves_out_what_one_may_not_read(client_as, role, left_out):
    page = client_as(role).get("/").content.decode()
    nav = page.partition("<nav")[2].partition("</nav>")[0]
    assert {entry[0] for entry in NAVIGATION if entry and f"{entry[0]}<" not in nav} == left_out


def test_an_account_without_a_role_is_led_to_its_own_page_and_asks_for_nothing_else(client_as):
    client = client_as()
    assert client.get("/")["Location"] == "/account/"
    page = client.get("/account/").content.decode()
    assert "Your account has no role yet" in page and "data-unread" not in page and "hx-get" not in page


def test_a_role_that_is_taken_away_takes_its_pages_along(client, user_with):
    user = user_with("expert")
    client.force_login(user)
    assert client.get("/synthesis/samples/").status_code == 200
    user.groups.clear()
    assert client.get("/synthesis/samples/").status_code == 403
    assert client.get("/api/v1/rules").status_code == 403


def test_health_needs_no_login(client):
    assert client.get("/healthz").json() == {"ok": True}


def test_wrong_password_is_said_in_words(client, user_with):
    user_with("expert", username="erin")
    page = client.post("/login/", {"username": "erin", "password": "wrong"}).content.decode()
    assert "do not match" in page


def test_pages_carry_a_policy_that_allows_no_inline_script_and_obey_it(client_as):
    response = client_as("admin").get("/")
    page = response.content.decode()
    assert "script-src 'self' 'nonce-" in response["Content-Security-Policy"]
    assert " style=" not in page and " onclick=" not in page and "<script>" not in page


def test_unknown_address_is_a_page_of_the_site(client_as):
    response = client_as("expert").get("/nowhere/")
    assert response.status_code == 404 and "There is no such page" in response.content.decode()


def test_token_is_shown_once(client_as):
    client = client_as("expert")
    shown = client.post("/account/token/", {"holds": "all", "password": "pass"}).content.decode()
    (key,) = re.findall(r"trs_[\w-]{43}", shown)
    assert digest_of(key) == ApiToken.objects.get().digest
    assert key not in client.get("/account/").content.decode()


def test_replacing_a_token_ends_the_old_one(client_as):
    client = client_as("expert")
    client.post("/account/token/", {"holds": "all", "password": "pass"})
    old = ApiToken.objects.get().digest
    client.post("/account/token/", {"holds": "all", "password": "pass"})
    assert ApiToken.objects.get().digest != old


def test_running_job_polls_its_card_and_an_ended_one_stops(client_as):
    job = make_job(state="running", done=5, total=10, rate=1.0)
    client = client_as("reviewer")
    card = client.get(f"/jobs/{job.pk}/card/")
    page = card.content.decode()
    assert card.status_code == 200 and "every 2s" in page and "(50 %)" in page and "5 s left" in page
    jobs.Job.objects.update(state="done", done=10)
    card = client.get(f"/jobs/{job.pk}/card/")
    assert card.status_code == 286 and "every 2s" not in card.content.decode()


def test_admin_cancels_a_queued_job_and_resumes_it(client_as):
    job = make_job()
    client = client_as("admin")
    client.post(f"/jobs/{job.pk}/cancel/")
    assert jobs.Job.objects.get().state == "cancelled"
    client.post(f"/jobs/{job.pk}/retry/")
    assert jobs.Job.objects.get().state == "queued"
    actions = audit_models.AuditEntry.objects.order_by("id").values_list("action", flat=True)
    assert list(actions) == ["job.cancelled", "job.resumed"]


def test_somebody_elses_job_is_not_cancelled_by_a_reviewer(client_as):
    job = make_job()
    response = client_as("reviewer").post(f"/jobs/{job.pk}/cancel/")
    assert response.status_code == 403 and jobs.Job.objects.get().state == "queued"


def test_cancelling_an_ended_job_says_so(client_as):
    job = make_job(state="done")
    response = client_as("admin").post(f"/jobs/{job.pk}/cancel/")
    assert response.status_code == 409 and "has already ended" in response.content.decode()


def test_job_list_says_how_long_a_short_job_took(client_as):
    began = datetime(2026, 11, 20, 9, tzinfo=UTC)
    make_job(state="done", started_at=began, finished_at=began + timedelta(seconds=4))
    assert ">4 s<" in client_as("expert").get("/jobs/").content.decode()


def test_failed_job_shows_its_sentence(client_as):
    job = make_job(state="failed", error="The disk is full. Free 2 GB.")
    assert "The disk is full. Free 2 GB." in client_as("expert").get(f"/jobs/{job.pk}/").content.decode()


def test_job_list_reads_its_rows_in_one_query(client_as, django_assert_num_queries):
    client = client_as("admin")
    for _ in range(30):
        make_job(state="done")
    with django_assert_num_queries(6):  # session, user, roles, strip, kinds, rows
        client.get("/jobs/")


def test_audit_is_filtered_and_names_the_command_line(client_as, user_with):
    audit_models.record(
        actor=user_with("expert", username="erin"), action="rule.saved", obj=make_tool("A/One")
    )
    audit_models.record(actor=None, action="tool.retired", obj=make_tool("B/Two"))
    client = client_as("admin")
    page = client.get("/audit/?action=tool.retired").content.decode()
    assert "B/Two" in page and "command line" in page and "A/One" not in page
    page = client.get("/audit/?actor=erin").content.decode()
    assert "A/One" in page and "B/Two" not in page


def test_audit_pages_go_on_where_the_last_one_ended(client_as):
    tool = make_tool()
    for number in range(51):
        audit_models.record(actor=None, action="tool.seen", obj=tool, detail={"number": number})
    client = client_as("admin")
    first = client.get("/audit/?action=tool.seen").context["page"]
    second = client.get(f"/audit/?action=tool.seen&after={first.next_key}").context["page"]
    assert (len(first.rows), len(second.rows), second.rows[0].detail, second.next_key) == (
        50,
        1,
        {"number": 0},
        None,
    )


@pytest.mark.parametrize("path", ["/catalog/?q=%00", "/jobs/?kind=a%00", "/catalog/tools/named/A%00"])
def test_a_nul_in_an_address_is_a_bad_request(client_as, path):
    assert client_as("expert").get(path).status_code == 400


def test_a_nul_in_a_form_is_a_bad_request(client_as):
    assert client_as("expert").post("/rules/new/", {"text": "one\0two"}).status_code == 400


def test_health_answers_plain_http_behind_https_and_pages_do_not(client, settings):
    settings.SECURE_SSL_REDIRECT = True
    assert client.get("/healthz").status_code == 200
    assert client.get("/login/")["Location"].startswith("https://")
