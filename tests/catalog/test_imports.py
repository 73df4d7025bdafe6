"""Importing into the database: retire, return, permanence, refusal without traces."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction

from catalog.imports.services import ImportResult, catalog_import
from catalog.models import CatalogImport, TokenUnit, Tool, ToolRevision
from trace_site.audit.models import AuditEntry
from trace_site.deliveries import Delivery
from trace_site.lib.errors import TraceError
from trace_site.webhooks.services import Webhook

pytestmark = pytest.mark.django_db


def rows(*names: str, text: str = "Reads it.", **fields: Any) -> list[dict[str, Any]]:
    return [{"name": name, "description": text, **fields} for name in names]


@pytest.fixture
def load(tmp_path: Path):
    def run(content: list[dict[str, Any]], **options: Any) -> ImportResult:
        path = tmp_path / "tools.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in content))
        return catalog_import(path=path, **{"domain": "hr", **options})

    return run


def counts(result: ImportResult) -> tuple[int, ...]:
    return tuple(result.counts[key] for key in ("added", "changed", "unchanged", "removed", "deprecated"))


def active() -> set[str]:
    return set(Tool.objects.filter(status="active").values_list("name", flat=True))


def test_second_import_of_the_same_file_changes_nothing(load) -> None:
    assert counts(load(rows("A/x", "A/y", deprecated=True))) == (2, 0, 0, 0, 2)
    revisions = ToolRevision.objects.count()
    assert counts(load(rows("A/x", "A/y", deprecated=True))) == (0, 0, 2, 0, 0)
    assert ToolRevision.objects.count() == revisions


def test_missing_tool_is_retired_and_returns(load) -> None:
    load(rows("A/x", "A/y", "B/z"))
    pk = Tool.objects.get(name="A/y").pk
    assert counts(load(rows("A/x"))) == (0, 0, 1, 1, 0)
    assert active() == {"A/x", "B/z"}
    result = load(rows("A/x", "A/y"))
    assert (counts(result), result.diff.returning) == ((1, 0, 1, 0, 0), {"A/y"})
    assert Tool.objects.get(name="A/y").pk == pk


def test_tokens_keep_their_slots_for_ever(load) -> None:
    load(rows("A/x", "A/y"))
    before = dict(TokenUnit.objects.values_list("string", "slot"))
    load(rows("A/x", "A/new"))
    after = dict(TokenUnit.objects.values_list("string", "slot"))
    assert before.items() <= after.items()
    assert TokenUnit.objects.get(string="<<A&&y>>").state == "retired"
    assert after["<<A&&new>>"] == 2
    load(rows("A/x", "A/y", "A/new"))
    assert TokenUnit.objects.get(string="<<A&&y>>").state == "active"


def test_changed_text_makes_a_frozen_revision(load) -> None:
    load(rows("A/x"))
    assert counts(load(rows("A/x", text="Reads more."))) == (0, 1, 0, 0, 0)
    texts = [
        data["description"] for data in ToolRevision.objects.order_by("id").values_list("data", flat=True)
    ]
    assert texts == ["Reads it.", "Reads more."]
    with pytest.raises(IntegrityError, match="frozen"), transaction.atomic():
        ToolRevision.objects.update(content_hash="")


def test_dry_run_counts_and_writes_nothing(load) -> None:
    load(rows("A/x", "A/y"))
    result = load(rows("A/x", "A/z"), dry_run=True)
    assert (counts(result), result.catalog_import) == ((1, 0, 1, 1, 0), None)
    assert active() == {"A/x", "A/y"}
    assert CatalogImport.objects.count() == 1


def test_bad_row_refuses_the_whole_file(load) -> None:
    with pytest.raises(TraceError, match="tools.jsonl:2: 'description' is empty") as caught:
        load([*rows("A/x"), *rows("A/y", text="")])
    assert caught.value.code == "bad_rows"
    assert not Tool.objects.exists() and not CatalogImport.objects.exists() and not TokenUnit.objects.exists()


def test_skipped_row_does_not_retire_its_tool(load) -> None:
    load(rows("A/x", "A/y", "A/z"))
    result = load([*rows("A/x"), *rows("A/y", text="")], skip_bad_rows=True)
    assert (result.counts["skipped"], result.counts["removed"]) == (1, 1)
    assert active() == {"A/x", "A/y"}


def test_every_row_of_a_file_is_counted_once(load) -> None:
    load(rows("A/x", "A/y"))
    given = [
        *rows("A/x"),
        *rows("A/y", text="Reads more."),
        *rows("A/z"),
        *rows("A/w", text=""),
        *rows("A/x"),
    ]
    done = load(given, skip_bad_rows=True).counts
    assert sum(done[name] for name in ("added", "changed", "unchanged", "skipped")) == len(given)


def test_skipped_row_without_a_name_retires_nothing(load) -> None:
    load(rows("A/x", "A/y"))
    result = load([*rows("A/x"), {"description": "nameless"}], skip_bad_rows=True)
    assert (result.counts["skipped"], result.counts["removed"]) == (1, 0)


def test_tool_of_another_domain_is_refused(load) -> None:
    load(rows("A/x"))
    with pytest.raises(TraceError, match="'A/x' already belongs to the domain 'hr'"):
        load(rows("A/x"), domain="Finance")


def test_tools_know_their_family_and_version(load) -> None:
    load(rows("PayoutV68/x", "Office365/y"))
    found = Tool.objects.order_by("name").values_list("name", "family", "api_version")
    assert list(found) == [("Office365/y", "Office365", None), ("PayoutV68/x", "Payout", 68)]


def test_import_keeps_what_it_retired_and_brought_back(load) -> None:
    load(rows("A/x", "A/y"))
    gone = load(rows("A/x")).catalog_import
    pk = Tool.objects.get(name="A/y").pk
    assert (gone.retired_ids, gone.returned_ids) == ([pk], [])
    back = load(rows("A/x", "A/y")).catalog_import
    assert (back.retired_ids, back.returned_ids, back.counts["returned"]) == ([], [pk], 1)


def test_new_version_of_an_api_is_recognised(load) -> None:
    load(rows("PayV1/x", "PayV1/y"))
    result = load(rows("PayV2/x", "PayV2/z"))
    [sentence] = map(str, result.versions)
    assert sentence == "PayV2 is a newer version of PayV1: 1 endpoint has a twin, 1 is new, 1 is gone."
    assert result.catalog_import.counts["versions"] == [sentence]
    assert load(rows("PayV2/x", "PayV2/z")).versions == []


def test_plan_of_a_preview_is_kept_or_the_import_is_refused(load) -> None:
    plan = load(rows("A/x"), dry_run=True).plan
    assert load(rows("A/x"), dry_run=True).plan == plan
    load(rows("A/x", text="Writes it."))
    with pytest.raises(TraceError) as caught:
        load(rows("A/x"), plan=plan)
    assert caught.value.code == "stale_preview"
    assert Tool.objects.get().description == "Writes it."


def test_changed_text_waits_for_look_alikes_and_other_changes_do_not(load) -> None:
    load(rows("A/x", "A/y"))
    Tool.objects.update(embedding_key="of the text")
    load([*rows("A/x", text="Writes it."), *rows("A/y", deprecated=True)])
    keys = dict(Tool.objects.values_list("name", "embedding_key"))
    assert keys == {"A/x": "", "A/y": "of the text"}


def test_import_tells_listeners_and_webhooks(load, monkeypatch, user_with) -> None:
    heard: list[list[int]] = []
    monkeypatch.setattr("rules.services.recheck_tools", heard.append)
    hook = {"url": "https://hooks.example/", "salt": "s", "events": ["catalog.imported"]}
    Webhook.objects.create(**hook, created_by=user_with("admin"))
    row = load(rows("A/x")).catalog_import
    assert heard == [[Tool.objects.get().pk]]
    told = Delivery.objects.get().payload
    assert (told["id"], told["domain"], told["counts"]["added"]) == (row.pk, "hr", 1)


def test_import_is_audited_with_its_actor(load, user_with) -> None:
    admin = user_with("admin")
    result = load(rows("A/x"), actor=admin)
    entry = AuditEntry.objects.get(action="catalog.imported")
    assert (entry.actor, entry.object_id) == (admin, str(result.catalog_import.pk))


def test_number_of_queries_does_not_grow_with_the_file(load, django_assert_max_num_queries) -> None:
    with django_assert_max_num_queries(25):
        load(rows(*(f"A/x{number}" for number in range(200))))
    with django_assert_max_num_queries(25):
        load(rows(*(f"A/x{number}" for number in range(100)), text="New words."))


def test_names_are_searchable_by_their_parts(load) -> None:
    load(rows("AdyenPayoutV68/post-confirmThirdParty"))
    assert Tool.objects.filter(search="confirm third").exists()


def test_command_prints_json_last_and_refuses_in_one_line(tmp_path: Path, capsys) -> None:
    path = tmp_path / "tools.jsonl"
    path.write_text(json.dumps(rows("A/x")[0]) + "\n")
    call_command("catalog_import", str(path), domain="HR", json=True)
    last = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert last == {
        "added": 1,
        "changed": 0,
        "unchanged": 0,
        "removed": 0,
        "deprecated": 0,
        "skipped": 0,
        "errors": [],
    }
    path.write_text("{}\n")
    with pytest.raises(CommandError, match=r"tools.jsonl:1: 'name' is missing"):
        call_command("catalog_import", str(path), domain="HR")
