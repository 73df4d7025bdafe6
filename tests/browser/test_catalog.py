"""The catalog in a real browser: the API filter suggests, a file goes in and out again."""

import json
from pathlib import Path

import pytest

from catalog.models import CatalogImport, Tool

pytestmark = pytest.mark.browser


def test_api_filter_suggests_names_and_takes_how_one_begins(open_page, look_alikes):
    page = open_page("reviewer")
    page.goto("/catalog/")
    with page.expect_response("**/catalog/apis/**"):
        page.click("#api")
    api = look_alikes[0].api
    page.wait_for_selector(f'#apis option[value="{api}"]', state="attached")
    page.fill("#api", api[:3].lower())
    with page.expect_response("**/catalog/?**"):
        page.press("#api", "Tab")
    page.wait_for_url(f"**api={api[:3].lower()}**")
    assert page.locator("#tools tbody tr").count() == Tool.objects.filter(api__startswith=api[:3]).count()


def test_file_is_previewed_imported_and_undone(open_page, look_alikes, tmp_path: Path):
    rows = [{"name": "NovaV2/New", "description": "Reads it."}, {"name": "NovaV2/Bad", "description": ""}]
    file = tmp_path / "tools.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = open_page("expert")
    page.goto("/catalog/imports/new/")
    page.set_input_files("input[type=file]", file)
    page.fill("input[name=domain]", "hr")
    page.get_by_role("button", name="Preview").click()
    page.get_by_text("tools.jsonl:2").wait_for()
    page.get_by_role("button", name="Import the good rows, skip 1").click()
    page.get_by_role("button", name="Undo this import").wait_for()
    assert Tool.objects.get(name="NovaV2/New").status == "active"
    page.get_by_role("button", name="Undo this import").click()
    page.get_by_text("This import was undone by").wait_for()
    assert Tool.objects.get(name="NovaV2/New").status == "retired"
    assert CatalogImport.objects.get().undone_by.username.startswith("expert")
