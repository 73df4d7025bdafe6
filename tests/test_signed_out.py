"""What happens to people whose session ended, and what the frame answers to odd requests."""

import pytest
from django.urls import path

from trace_site import urls
from trace_site.lib.errors import STATUS_OF, TraceError

pytestmark = pytest.mark.django_db


def refuse(request, code):
    raise TraceError("nothing was done.", code=code, hint="Try again.")


def crash(request):
    return 1 / 0


@pytest.fixture
def refusing(monkeypatch, settings):
    # under names that people with a role, and everybody, may use
    more = [path("x/<slug:code>/", refuse, name="rules:check"), path("api/x", crash, name="healthz")]
    monkeypatch.setattr(urls, "urlpatterns", [*urls.urlpatterns, *more])
    settings.ROOT_URLCONF = "trace_site.urls"


@pytest.mark.parametrize(
    ("code", "status"), {status: (code, status) for code, status in STATUS_OF.items()}.values()
)
def test_a_page_answers_with_the_status_of_the_error(refusing, client_as, code, status):
    client = client_as("expert")
    page = client.post(f"/x/{code}/")
    assert page.status_code == status and "data-error-text" in page.content.decode()
    told = client.post(f"/x/{code}/", headers={"Accept": "application/json"})
    assert told.status_code == status and told.json()["code"] == code


def test_a_stranger_who_sends_something_is_told_instead_of_losing_it(client):
    page = client.post("/rules/new/", {"text": "long"})
    assert page.status_code == 401 and "What you typed is still in the form" in page.content.decode()
    fragment = client.get("/jobs/1/card/", headers={"HX-Request": "true"})
    assert fragment.status_code == 401 and "data-error-text" in fragment.content.decode()
    told = client.post("/rules/new/", headers={"Accept": "application/json"})
    assert told.status_code == 401 and told.json()["code"] == "not_authenticated"
    assert client.get("/rules/")["Location"] == "/login/?next=/rules/"


def test_signing_out_by_address_asks_first(client_as):
    client = client_as("expert")
    page = client.get("/logout/")
    assert page.status_code == 200 and "Sign out?" in page.content.decode()
    assert client.get("/account/").status_code == 200
    assert client.post("/logout/")["Location"] == "/login/"
    assert client.get("/logout/")["Location"] == "/login/"


def test_unknown_addresses_and_crashes_of_the_api_are_json(refusing, client):
    answer = client.get("/api/v1/nothing")
    assert answer.status_code == 404 and answer.json()["code"] == "not_found"
    client.raise_request_exception = False
    answer = client.get("/api/x")
    assert answer.status_code == 500 and answer.json()["code"] == "crash"
