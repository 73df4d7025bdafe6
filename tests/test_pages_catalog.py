"""Catalog pages: finding tools, one tool, importing with a preview."""

import json
import os
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.core.tool import search_words
from catalog.imports.previews import MOST_FILES, forget_old
from catalog.models import CatalogImport, NeighbourList, Tool, ToolRevision
from tests.catalog.test_importers_hostile import HOSTILE
from tests.factories import make_cluster, make_domain, make_rule, make_tool

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


def queries_of(client, path):
    with CaptureQueriesContext(connection) as queries:
        assert client.get(path).status_code == 200
    return len(queries)


@pytest.mark.parametrize(
    "query", ["", "?q=reads", "?domain=hr&state=current&clustered=no&ruled=no", "?q=reads&ruled=no&api=A"]
)
def test_list_needs_the_same_queries_for_ten_tools_and_for_sixty(client_as, query):
    client = client_as("expert")
    for number in range(10):
        tool(f"A/Tool{number:02}")
    few = queries_of(client, f"/catalog/{query}")
    for number in range(10, 60):
        tool(f"A/Tool{number:02}")
    assert queries_of(client, f"/catalog/{query}") == few <= 8


def test_tool_page_needs_the_same_queries_for_more_of_everything(client_as):
    client = client_as("expert")
    first = tool("PayV1/x", family="Pay", api_version=1)

    def grow(numbers):
        others = [tool(f"PayV{number}/x", family="Pay", api_version=number) for number in numbers]
        near, _ = NeighbourList.objects.get_or_create(
            tool=first, defaults={"neighbour_ids": [], "scores": []}
        )
        near.neighbour_ids += [other.pk for other in others]
        near.scores += [0.9 for _ in others]
        near.save()
        for other in others:
            data = {"description": other.description}
            ToolRevision.objects.create(tool=first, content_hash="0" * 64, data=data)

    grow(range(2, 12))
    few = queries_of(client, f"/catalog/tools/{first.pk}/")
    grow(range(12, 62))
    assert queries_of(client, f"/catalog/tools/{first.pk}/") == few <= 10


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


def test_tool_page_shows_the_other_versions_newest_first(client_as):
    one = tool("PayV2/x", family="Pay", api_version=2, description="Reads the payout of a day.")
    tool("PayV10/x", family="Pay", api_version=10, description="Reads the payout of a month.")
    tool("PayV1/x", family="Pay", api_version=1, description="Reads the payout of a day.")
    tool("PayV3/other", family="Pay", api_version=3)
    response = client_as("expert").get(f"/catalog/tools/{one.pk}/")
    assert [(twin["tool"].name, twin["newer"]) for twin in response.context["twins"]] == [
        ("PayV10/x", True),
        ("PayV1/x", False),
    ]
    assert "<mark>month</mark>" in response.content.decode()


def test_history_shows_what_each_import_changed_and_leads_to_it(client_as):
    client = client_as("admin")
    first = apply(client, row("A/One"))
    second = apply(client, row("A/One", "Reads a payslip as PDF.", permissions=["read"]))
    page = client.get(f"/catalog/tools/{Tool.objects.get().pk}/")
    changed = [[change["field"] for change in changes] for _, changes in page.context["history"]]
    assert changed == [["description", "permissions"], []]
    for pk in (first, second):
        assert f'href="/catalog/imports/{pk}/"' in page.content.decode()


def test_suggested_apis_are_those_of_the_chosen_domain(client_as):
    tool("A/One")
    tool("B/Two", domain=make_domain("finance"))
    page = client_as("expert").get("/catalog/apis/?domain=finance").content.decode()
    assert 'value="B"' in page and 'value="A"' not in page


def test_name_in_a_text_leads_to_the_tool(client_as):
    one = tool("A/One/Deep")
    assert (
        client_as("expert").get("/catalog/tools/named/A/One/Deep")["Location"] == f"/catalog/tools/{one.pk}/"
    )


def preview(client, *rows, domain="hr"):
    data = {"file": upload(*rows), "domain": domain, "format": "auto"}
    return client.post("/catalog/imports/new/", data)


def apply(client, *rows, choice="apply"):
    """Through the wizard; the number of the import."""
    ticket = preview(client, *rows).context["ticket"]
    response = client.post("/catalog/imports/apply/", {"ticket": ticket, "choice": choice})
    assert response.status_code == 302, response.content
    return int(response["Location"].rstrip("/").rpartition("/")[2])


def test_import_is_previewed_then_applied(client_as):
    client = client_as("admin")
    page = preview(client, row("A/One"))
    assert page.status_code == 200 and not Tool.objects.exists()
    assert "Apply 1 change" in page.content.decode()
    response = client.post("/catalog/imports/apply/", {"ticket": page.context["ticket"]})
    assert Tool.objects.get().name == "A/One"
    done = CatalogImport.objects.get()
    assert (done.filename, response["Location"]) == ("tools.jsonl", f"/catalog/imports/{done.pk}/")


def test_the_licence_given_with_a_file_stays_with_its_import(client_as):
    client = client_as("expert")
    given = {"file": upload(row("A/One")), "domain": "hr", "format": "auto", "licence": " CC-BY-4.0 "}
    ticket = client.post("/catalog/imports/new/", given).context["ticket"]
    client.post("/catalog/imports/apply/", {"ticket": ticket})
    done = CatalogImport.objects.get()
    assert done.licence == "CC-BY-4.0"
    assert "Licence: CC-BY-4.0" in client.get(f"/catalog/imports/{done.pk}/").content.decode()
    again = client.post(
        "/catalog/imports/new/", {**given, "file": upload(row("A/One")), "licence": "x" * 101}
    )
    assert again.status_code == 422


def test_bad_rows_are_shown_and_skipped_when_one_chooses_so(client_as):
    client = client_as("expert")
    page = preview(client, row("A/One"), row("A/Two", "")).content.decode()
    assert "tools.jsonl:2" in page and "Import the good rows, skip 1" in page and "Refuse the file" in page
    pk = apply(client, row("A/One"), row("A/Two", ""), choice="skip")
    assert list(Tool.objects.values_list("name", flat=True)) == ["A/One"]
    assert "tools.jsonl:2" in client.get(f"/catalog/imports/{pk}/").content.decode()


def test_bad_rows_are_never_skipped_without_the_choice(client_as):
    client = client_as("admin")
    ticket = preview(client, row("A/One"), row("A/Two", "")).context["ticket"]
    response = client.post("/catalog/imports/apply/", {"ticket": ticket, "choice": "apply"})
    assert response.status_code == 400 and "tools.jsonl:2" in response.content.decode()
    assert not Tool.objects.exists() and not CatalogImport.objects.exists()


def test_a_choice_that_is_none_imports_nothing_and_keeps_the_upload(client_as):
    client = client_as("admin")
    ticket = preview(client, row("A/One")).context["ticket"]
    response = client.post("/catalog/imports/apply/", {"ticket": ticket, "choice": "refuze"})
    assert response.status_code == 400 and "apply, skip or refuse" in response.content.decode()
    assert not Tool.objects.exists()
    client.post("/catalog/imports/apply/", {"ticket": ticket, "choice": "apply"})
    assert Tool.objects.count() == 1


def test_refused_file_is_forgotten_and_imports_nothing(client_as):
    client = client_as("admin")
    ticket = preview(client, row("A/One"), row("A/Two", "")).context["ticket"]
    response = client.post("/catalog/imports/apply/", {"ticket": ticket, "choice": "refuse"})
    assert response["Location"] == "/catalog/imports/new/" and not Tool.objects.exists()
    again = client.post("/catalog/imports/apply/", {"ticket": ticket, "choice": "skip"})
    assert again.status_code == 409 and not Tool.objects.exists()


def test_preview_counts_what_would_turn_stale(client_as):
    client = client_as("admin")
    apply(client, row("A/One"), row("A/Two"), row("A/Three"))
    make_rule(Tool.objects.get(name="A/One"), Tool.objects.get(name="A/Two"))
    page = preview(client, row("A/One", "Reads a payslip as PDF."), row("A/Three"))
    lines = {line.name: line.count for line in page.context["preview"]["impact"]}
    assert lines["rules"] == 1 and "rule names them" in page.content.decode()


def test_preview_tells_a_new_version_of_an_api(client_as):
    client = client_as("admin")
    apply(client, row("PayV1/x"), row("PayV1/y"))
    page = preview(client, row("PayV2/x")).content.decode()
    assert "PayV2 is a newer version of PayV1: 1 endpoint has a twin, 0 are new, 1 is gone." in page


def test_result_page_links_every_tool_it_touched(client_as):
    client = client_as("admin")
    apply(client, row("A/One"), row("A/Two"), row("A/Away"))
    apply(client, row("A/One"), row("A/Two"))
    pk = apply(client, row("A/One", "Reads a payslip as PDF."), row("A/New"), row("A/Away"))
    response = client.get(f"/catalog/imports/{pk}/")
    done = response.context["done"]
    assert [item["tool"].name for item in done["changed"]] == ["A/One"]
    names = [[tool.name for tool in done[kind]] for kind in ("added", "returned", "retired")]
    assert names == [["A/New"], ["A/Away"], ["A/Two"]]
    page = response.content.decode()
    assert (
        all(f"/catalog/tools/{t.pk}/" in page for t in Tool.objects.all()) and "<mark>as PDF</mark>" in page
    )


def test_import_page_needs_the_same_queries_for_ten_tools_and_for_sixty(client_as):
    client = client_as("admin")
    few = apply(client, *(row(f"A/x{number}") for number in range(10)))
    many = apply(client, *(row(f"B/x{number}") for number in range(60)))
    counts = [queries_of(client, f"/catalog/imports/{pk}/") for pk in (few, many)]
    assert counts[0] == counts[1] <= 18
    assert len({queries_of(client, f"/catalog/imports/{pk}/undo/") for pk in (few, many)}) == 1


def test_undo_says_what_it_does_and_does_it(client_as):
    client = client_as("expert")
    apply(client, row("A/One"), row("A/Two"))
    pk = apply(client, row("A/One", "Reads a payslip as PDF."), row("A/New"))
    told = " ".join(client.get(f"/catalog/imports/{pk}/undo/").content.decode().split())
    assert "retires <b>1</b> tool it brought" in told and "gives <b>1</b> its earlier words back" in told
    assert "brings <b>1</b> retired one back" in told
    response = client.post(f"/catalog/imports/{pk}/undo/", follow=True)
    assert response.status_code == 200 and "was undone by expert" in response.content.decode()
    assert Tool.objects.get(name="A/One").description == "Reads a payslip."
    assert "undone" in client.get("/catalog/imports/").content.decode()


def test_undo_that_is_refused_lists_the_reasons_and_has_no_button(client_as):
    client = client_as("admin")
    pk = apply(client, row("A/One"))
    make_rule(Tool.objects.get(), code="KEEP_ONE")
    page = client.get(f"/catalog/imports/{pk}/undo/").content.decode()
    assert "cannot be undone" in page and "KEEP_ONE" in page and "<button" not in page
    assert client.post(f"/catalog/imports/{pk}/undo/").status_code == 409


@pytest.mark.parametrize("role", ["reviewer", "product_manager"])
def test_readers_see_imports_and_do_not_undo_them(client_as, client, role):
    pk = apply(client_as("admin"), row("A/One"))
    reader = client_as(role)
    assert "<button" not in reader.get(f"/catalog/imports/{pk}/undo/").content.decode()
    assert reader.post(f"/catalog/imports/{pk}/undo/").status_code == 403
    assert Tool.objects.get().status == "active"


def test_preview_shows_what_changes_and_what_is_retired(client_as):
    client = client_as("admin")
    first = {"file": upload(row("A/One"), row("A/Two")), "domain": "hr", "format": "auto"}
    ticket = client.post("/catalog/imports/new/", first).context["ticket"]
    client.post("/catalog/imports/apply/", {"ticket": ticket})
    make_rule(*Tool.objects.order_by("name"))
    again = {"file": upload(row("A/One", "Reads a payslip as PDF.")), "domain": "hr", "format": "auto"}
    page = client.post("/catalog/imports/new/", again)
    preview = page.context["preview"]
    assert [item["tool"].name for item in preview["changed"]] == ["A/One"]
    assert [tool.name for tool in preview["removed"]] == ["A/Two"]
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


@pytest.fixture
def waiting(settings, tmp_path):
    """waiting() -> the uploads that are kept, the oldest first"""
    settings.TRACE_HOME = tmp_path

    def kept():
        found = [path for path in (tmp_path / "uploads").rglob("*") if path.is_file()]
        return sorted(found, key=lambda path: path.stat().st_mtime_ns)

    return kept


def choose(client, *rows, name="tools.jsonl", **fields):
    content = "\n".join(json.dumps(row) for row in rows).encode()
    data = {"domain": "hr", "format": "auto", "file": SimpleUploadedFile(name, content), **fields}
    return client.post("/catalog/imports/new/", data)


def test_uploads_that_nobody_applied_are_forgotten_after_a_day(client_as, waiting):
    client = client_as("admin")
    choose(client, row("A/One"))
    choose(client, row("A/Two"))
    first, second = waiting()
    os.utime(first, (0, 0))
    assert forget_old() == 1 and waiting() == [second]


@pytest.mark.parametrize("name", ["billion laughs.xml", "cut.yaml", "deep.json"])
def test_a_file_that_cannot_be_read_is_not_kept(client_as, waiting, name):
    file = SimpleUploadedFile(name, HOSTILE[name][0]().encode())
    assert choose(client_as("admin"), file=file).status_code == 422 and waiting() == []


def test_a_crash_while_a_file_is_looked_into_or_written_keeps_nothing(client_as, waiting, monkeypatch):
    def crash(*args, **options):
        raise OSError("no space left on device")

    client = client_as("admin")
    for broken in ("catalog.imports.previews.catalog_import", "catalog.imports.previews.Path.replace"):
        with monkeypatch.context() as patched:
            patched.setattr(broken, crash)
            with pytest.raises(OSError, match="no space"):
                choose(client, row("A/One"))
        assert waiting() == []


def test_of_more_uploads_than_one_person_may_have_waiting_the_oldest_give_way(
    client_as, waiting, monkeypatch
):
    client = client_as("admin")
    tickets = [choose(client, row(f"A/Tool{number}")).context["ticket"] for number in range(MOST_FILES + 1)]
    assert len(waiting()) == MOST_FILES
    gone = client.post("/catalog/imports/apply/", {"ticket": tickets[0]})
    assert gone.status_code == 409 and "gave way to later ones" in gone.content.decode()
    assert client.post("/catalog/imports/apply/", {"ticket": tickets[-1]}).status_code == 302
    monkeypatch.setattr("catalog.imports.previews.MOST_BYTES", 10)
    choose(client, row("A/Last"))
    assert len(waiting()) == 1


def test_uploads_that_come_at_once_stay_within_what_one_person_may_have_waiting(
    client_as, waiting, monkeypatch
):
    client, replace = client_as("admin"), Path.replace
    wave = [f"A/Tool{number}" for number in range(MOST_FILES + 3)]

    def meanwhile(part, whole):
        """Before a file stands, the next upload begins and ends."""
        if wave:
            choose(client, row(wave.pop()))
        return replace(part, whole)

    monkeypatch.setattr("catalog.imports.previews.Path.replace", meanwhile)
    assert choose(client, row("A/First")).status_code == 200
    assert not wave and len(waiting()) == MOST_FILES


def test_an_upload_is_its_senders_own_and_outlives_what_others_do_with_the_same_bytes(
    client, user_with, waiting
):
    admin, expert = user_with("admin"), user_with("expert")
    client.force_login(admin)
    ticket = choose(client, row("A/One")).context["ticket"]
    assert choose(client, row("A/One"), format="csv").status_code == 422 and len(waiting()) == 1
    client.force_login(expert)
    assert choose(client, row("A/One"), format="csv").status_code == 422 and len(waiting()) == 1
    for choice in ("apply", "refuse"):
        refused = client.post("/catalog/imports/apply/", {"ticket": ticket, "choice": choice})
        assert (
            refused.status_code == 409 and "somebody else chose this file" in refused.content.decode().lower()
        )
    client.force_login(admin)
    assert client.post("/catalog/imports/apply/", {"ticket": ticket}).status_code == 302
    assert Tool.objects.get().name == "A/One" and waiting() == []


def test_a_preview_that_no_longer_holds_is_not_kept(client_as, waiting):
    client = client_as("admin")
    ticket = choose(client, row("A/One")).context["ticket"]
    other = choose(client, row("A/One", "Reads a payslip as PDF.")).context["ticket"]
    client.post("/catalog/imports/apply/", {"ticket": other})
    assert client.post("/catalog/imports/apply/", {"ticket": ticket}).status_code == 409 and waiting() == []
