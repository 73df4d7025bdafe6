"""Blocking a tool: who may, what is asked for, what is on record, and what the page offers."""

import pytest
from rest_framework.test import APIClient

from catalog.models import Tool
from catalog.services import masked_names, retired_names
from tests.factories import make_tool
from trace_site.audit.models import AuditChange, AuditEntry

pytestmark = pytest.mark.django_db


def api_as(user):
    client = APIClient()
    client.force_authenticate(user)
    return client


def test_a_block_needs_a_reason_and_is_on_record_both_ways(user_with):
    tool, admin = make_tool("Pay/Get"), api_as(user_with("admin"))
    address = f"/api/v1/tools/{tool.pk}/block"
    assert admin.post(address, {}, format="json").status_code == 400
    answer = admin.post(address, {"because": "down until Monday"}, format="json").json()
    assert (answer["blocked"], answer["blocked_by"], answer["blocked_because"]) == (
        True,
        "admin",
        "down until Monday",
    )
    assert masked_names() == {"Pay/Get"} and not retired_names()
    again = admin.post(address, {"because": "still down"}, format="json")
    assert (again.status_code, again.json()["code"]) == (409, "bad_state")
    assert admin.delete(address).json()["blocked"] is False and not masked_names()
    assert admin.delete(address).status_code == 409
    entries = AuditEntry.objects.filter(object_type="tool").order_by("pk")
    assert [(entry.action, entry.detail["because"]) for entry in entries] == [
        ("tool.blocked", "down until Monday"),
        ("tool.unblocked", "down until Monday"),
    ]
    assert AuditChange.objects.filter(table_name="catalog_tool", after__blocked_because="down until Monday")


def test_a_retired_tool_is_masked_as_a_blocked_one_is():
    make_tool("Old/Get", status=Tool.Status.RETIRED)
    make_tool("New/Get")
    assert masked_names() == retired_names() == {"Old/Get"}


def test_the_page_offers_the_block_to_admins_only_and_says_what_it_does(client, user_with):
    tool, admin, expert = make_tool("Pay/Get"), user_with("admin"), user_with("expert")
    page = f"/catalog/tools/{tool.pk}/"

    def seen_by(user):
        client.force_login(user)
        return client.get(page).content.decode()

    assert "At once no answer names it. Training and rules are not touched." in seen_by(admin)
    assert "Block this tool" not in seen_by(expert)
    assert client.post(f"{page}block/", {"because": "down"}).status_code == 403
    client.force_login(admin)
    sent = client.post(f"{page}block/", {"because": "down"}, follow=True).content.decode()
    assert "Pay/Get is blocked: no answer names it from now on." in sent and "Unblock" in sent
    seen = seen_by(expert)
    assert "No answer names it since" in seen and "Unblock" not in seen
    client.force_login(admin)
    client.post(f"{page}block/", {"unblock": "1"})
    assert not masked_names()


def test_a_block_without_a_reason_is_refused_on_the_page(client_as):
    tool = make_tool("Pay/Get")
    sent = client_as("admin").post(f"/catalog/tools/{tool.pk}/block/", {"because": " "}, follow=True)
    assert "a reason of 1 to 300 characters is needed" in sent.content.decode() and not masked_names()
