"""Catalog pages: finding tools, one tool, importing with a preview."""

import json
import os

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from catalog.core.tool import search_words
from catalog.models import CatalogImport, NeighbourList, Tool
from tests.factories import make_cluster, make_rule, make_tool

pytestmark = pytest.mark.django_db


def tool(name, **fields):
    return make_tool(name, words=search_words(name), **fields)


def names(response):
    return [row.name for row in response.context["page"].rows]


def upload(*rows):
    return SimpleUploadedFile("tools.jsonl", "\n".join(json.dumps(row) for row in rows).encode())


def row(name, description="Reads a payslip.", **fields):
    return {"name": name, "description": description, **fields}


def test_search_finds_word_beginnings_in_names_and_descriptions(client_as):
    tool("PayrollNova/GetPayslip", description="Shows net pay.")
    tool("TimeHub/GetShift", description="Shows a roster.")
    client = client_as("reviewer")
    assert names(client.get("/catalog/?q=payro")) == ["PayrollNova/GetPayslip"]
    assert names(client.get("/catalog/?q=rost")) == ["TimeHub/GetShift"]
    assert names(client.get("/catalog/?q=TimeHub/GetShift")) == ["TimeHub/GetShift"]
    assert names(client.get("/catalog/?q=payro rost")) == []


def test_search_survives_the_signs_of_the_query_language(client_as):
    tool("A/One")
    assert names(client_as("expert").get("/catalog/", {"q": "a' & !(<one>:*|"})) == ["A/One"]


def test_filters_narrow_the_list(client_as):
    old, alike, other = tool("A/Old", deprecated=True), tool("A/Alike"), tool("B/Other")
    tool("B/Gone", status=Tool.Status.RETIRED)
    make_cluster(old, alike)
    make_rule(other, old)
    client = client_as("expert")
    expected = {
        "": ["A/Alike", "A/Old", "B/Other"],
        "api=B": ["B/Other"],
        "state=deprecated": ["A/Old"],
        "state=retired": ["B/Gone"],
        "clustered=no": ["B/Other"],
        "ruled=yes": ["A/Old", "B/Other"],
        "ruled=no&clustered=yes": ["A/Alike"],
    }
    assert {query: names(client.get(f"/catalog/?{query}")) for query in expected} == expected


def test_list_pages_by_name_without_gaps_or_repeats(client_as):
    for number in range(60):
        tool(f"A/Tool{number:02}")
    client = client_as("expert")
    first = client.get("/catalog/")
    second = client.get("/catalog/", {"after": first.context["page"].next_key})
    assert names(first) + names(second) == [f"A/Tool{number:02}" for number in range(60)]


def test_list_needs_the_same_queries_for_one_tool_and_for_fifty(client_as, django_assert_max_num_queries):
    for number in range(50):
        tool(f"A/Tool{number:02}")
    client = client_as("expert")
    with django_assert_max_num_queries(7):  # session, user, roles, count, rows, domains, APIs
        client.get("/catalog/")


def test_typing_is_answered_with_the_rows_alone(client_as):
    tool("A/One")
    page = client_as("expert").get("/catalog/?q=one", headers={"HX-Request": "true"}).content.decode()
    assert "A/" in page and "<html" not in page


def test_names_with_markup_show_literally(client_as):
    odd = tool("Pay<b>/Get&Put<i>", description="<script>alert(1)</script>")
    page = client_as("expert").get(f"/catalog/tools/{odd.pk}/").content.decode()
    assert "<script>alert" not in page and "<b>/" not in page
    assert "&lt;&lt;Pay&lt;b&gt;&amp;&amp;Get&amp;Put&lt;i&gt;&gt;&gt;" in page


def test_tool_page_marks_what_differs_in_a_look_alike(client_as):
    one = tool("A/One", description="Reads the payslip of a month.")
    two = tool("A/Two", description="Reads the payslip of a year.")
    NeighbourList.objects.create(tool=one, neighbour_ids=[two.pk], scores=[0.91])
    page = client_as("expert").get(f"/catalog/tools/{one.pk}/").content.decode()
    assert "<mark>year</mark>" in page and "0.910" in page and "<mark>payslip" not in page


def test_name_in_a_text_leads_to_the_tool(client_as):
    one = tool("A/One/Deep")
    assert (
        client_as("expert").get("/catalog/tools/named/A/One/Deep")["Location"] == f"/catalog/tools/{one.pk}/"
    )


def test_import_is_previewed_then_applied(client_as):
    client = client_as("admin")
    preview = client.post(
        "/catalog/imports/new/", {"file": upload(row("A/One")), "domain": "hr", "format": "auto"}
    )
    assert preview.status_code == 200 and not Tool.objects.exists()
    assert "Apply 1 change" in preview.content.decode()
    client.post("/catalog/imports/apply/", {"ticket": preview.context["ticket"]})
    assert Tool.objects.get().name == "A/One"
    assert CatalogImport.objects.get().filename == "tools.jsonl"


def test_preview_shows_what_changes_and_what_is_retired(client_as):
    client = client_as("admin")
    first = {"file": upload(row("A/One"), row("A/Two")), "domain": "hr", "format": "auto"}
    ticket = client.post("/catalog/imports/new/", first).context["ticket"]
    client.post("/catalog/imports/apply/", {"ticket": ticket})
    again = {"file": upload(row("A/One", "Reads a payslip as PDF.")), "domain": "hr", "format": "auto"}
    page = client.post("/catalog/imports/new/", again)
    preview = page.context["preview"]
    assert [item.tool.name for item in preview.changed] == ["A/One"]
    assert [tool.name for tool in preview.removed] == ["A/Two"]
    assert "<mark>as PDF</mark>" in page.content.decode()
    assert ">A/One\nA/Two\n</textarea>" in page.content.decode()  # what the rules fragment is asked about


def test_applying_is_refused_when_the_catalog_moved_meanwhile(client_as):
    client = client_as("admin")
    data = {"file": upload(row("A/One")), "domain": "hr", "format": "auto"}
    ticket = client.post("/catalog/imports/new/", data).context["ticket"]
    client.post("/catalog/imports/apply/", {"ticket": ticket})
    response = client.post("/catalog/imports/apply/", {"ticket": ticket})
    assert response.status_code == 409 and CatalogImport.objects.count() == 1


def test_forged_ticket_applies_nothing(client_as):
    response = client_as("admin").post("/catalog/imports/apply/", {"ticket": "made-up"})
    assert response.status_code == 409 and "Preview the file again" in response.content.decode()


def test_unreadable_file_is_named_with_its_line(client_as):
    data = {"file": SimpleUploadedFile("tools.jsonl", b"{not json"), "domain": "hr", "format": "jsonl"}
    response = client_as("admin").post("/catalog/imports/new/", data)
    assert response.status_code == 422 and "tools.jsonl" in response.content.decode()


@pytest.mark.parametrize("role", ["reviewer", "product_manager"])
def test_readers_do_not_import(client_as, role):
    response = client_as(role).get("/catalog/imports/new/")
    assert response.status_code == 403 and "domain expert" in response.content.decode()


def test_uploads_that_nobody_applied_are_forgotten_after_a_day(client_as, settings, tmp_path):
    settings.TRACE_HOME = tmp_path
    client = client_as("admin")
    data = {"domain": "hr", "format": "auto"}
    client.post("/catalog/imports/new/", {**data, "file": upload(row("A/One"))})
    [first] = (tmp_path / "uploads").iterdir()
    os.utime(first, (0, 0))
    client.post("/catalog/imports/new/", {**data, "file": upload(row("A/Two"))})
    [kept] = (tmp_path / "uploads").iterdir()
    assert kept.name != first.name
