"""Undo of an import: every tool goes back, nothing is deleted, and what depends on it stands in the way."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from catalog.imports.services import catalog_import, import_undo, undo_plan
from catalog.models import CatalogImport, TokenUnit, Tool, ToolRevision
from rules.models import ChangeRequest, RuleChange, RuleVersion
from tests.factories import make_rule
from trace_site.audit.models import AuditEntry
from trace_site.deliveries import Delivery
from trace_site.lib.errors import TraceError
from trace_site.webhooks.services import Webhook

pytestmark = pytest.mark.django_db


def rows(*names: str, text: str = "Reads it.", **fields: Any) -> list[dict[str, Any]]:
    return [{"name": name, "description": text, **fields} for name in names]


@pytest.fixture
def load(tmp_path: Path):
    def run(content: list[dict[str, Any]], **options: Any) -> CatalogImport:
        path = tmp_path / "tools.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in content))
        found = catalog_import(path=path, **{"domain": "hr", **options}).catalog_import
        assert found is not None
        return found

    return run


def said() -> dict[str, tuple[str, str]]:
    """Every tool with its state and description."""
    return {tool.name: (tool.status, tool.description) for tool in Tool.objects.all()}


def reasons(row: CatalogImport) -> list[str]:
    return [reason.sentence for reason in undo_plan(row)["reasons"]]


def test_undo_brings_every_touched_tool_back(load, user_with) -> None:
    load(rows("A/kept", "A/gone", "A/changed", "A/away", permissions=["read"], source="old.json"))
    load(rows("A/kept", "A/gone", "A/changed", permissions=["read"], source="old.json"))
    before = said()
    row = load([*rows("A/kept", "A/away", "A/new"), *rows("A/changed", text="Writes it.", deprecated=True)])
    assert said() != before
    import_undo(row=row, actor=user_with("admin"))
    assert said() == {**before, "A/new": ("retired", "Reads it.")}
    changed = Tool.objects.get(name="A/changed")
    assert (changed.permissions, changed.deprecated, changed.source) == (["read"], False, "old.json")


def test_undone_content_is_a_new_revision_that_names_the_undo(load) -> None:
    load(rows("A/x"))
    row = load(rows("A/x", text="Writes it."))
    import_undo(row=row, actor=None)
    history = ToolRevision.objects.order_by("pk").values_list("data__description", "undo_of")
    assert list(history) == [("Reads it.", None), ("Writes it.", None), ("Reads it.", row.pk)]


def test_tokens_of_undone_tools_become_tombstones_and_keep_their_slots(load) -> None:
    row = load(rows("A/x"))
    slot = TokenUnit.objects.get(string="<<A&&x>>").slot
    import_undo(row=row, actor=None)
    unit = TokenUnit.objects.get(string="<<A&&x>>")
    assert (unit.state, unit.slot) == ("retired", slot)
    load(rows("A/x"))
    unit.refresh_from_db()
    assert (unit.state, unit.slot) == ("active", slot)


def test_undo_is_audited_told_and_signed(load, user_with) -> None:
    admin = user_with("admin")
    Webhook.objects.create(
        url="https://hooks.example/", salt="s", events=["catalog.import_undone"], created_by=admin
    )
    row = import_undo(row=load(rows("A/x", "A/y")), actor=admin)
    counts = {"retired": 2, "restored": 0, "returned": 0}
    entry = AuditEntry.objects.get(action="catalog.import_undone")
    assert (entry.actor, entry.detail["retired"]) == (admin, 2)
    assert Delivery.objects.get().payload["undone"] == counts
    assert (row.undone_by, row.undone_at is not None) == (admin, True)


def test_listeners_hear_of_every_tool_inside_the_transaction(load, monkeypatch) -> None:
    heard: list[list[int]] = []
    monkeypatch.setattr("rules.services.recheck_tools", heard.append)
    first = load(rows("A/x", "A/y"))
    import_undo(row=first, actor=None)
    ids = sorted(Tool.objects.values_list("pk", flat=True))
    assert heard == [ids, ids]


def test_listener_that_refuses_undoes_the_undo(load, monkeypatch) -> None:
    row = load(rows("A/x"))

    def refuse(ids: list[int]) -> None:
        raise TraceError("no.", code="conflict")

    monkeypatch.setattr("rules.services.recheck_tools", refuse)
    with pytest.raises(TraceError):
        import_undo(row=row, actor=None)
    row.refresh_from_db()
    assert (said(), row.undone_at) == ({"A/x": ("active", "Reads it.")}, None)


def test_second_undo_is_refused_and_writes_nothing(load) -> None:
    row = import_undo(row=load(rows("A/x")), actor=None)
    with pytest.raises(TraceError, match="It was undone on") as caught:
        import_undo(row=row, actor=None)
    assert caught.value.code == "bad_state"
    assert AuditEntry.objects.filter(action="catalog.import_undone").count() == 1


def test_later_import_of_the_same_tools_must_be_undone_first(load) -> None:
    first = load(rows("A/x", "A/y"))
    second = load(rows("A/x", "A/y", text="Writes it."))
    assert reasons(first) == [
        f"The later import {second.pk} ({second.filename}) touched 2 of the same tools. Undo that one first."
    ]
    import_undo(row=second, actor=None)
    import_undo(row=first, actor=None)
    assert said() == {"A/x": ("retired", "Reads it."), "A/y": ("retired", "Reads it.")}


@pytest.mark.parametrize("later", [["A/x"], ["A/x", "A/y", "A/z"]], ids=["retired one", "added one"])
def test_later_import_counts_where_it_touched_a_tool_of_the_first(load, later) -> None:
    first = load(rows("A/x", "A/y"))
    load(rows(*later))
    assert bool(reasons(first)) == (later == ["A/x"])


def test_later_import_of_other_tools_stands_not_in_the_way(load) -> None:
    first = load(rows("A/x"))
    load(rows("B/y"))
    import_undo(row=first, actor=None)
    assert said() == {"A/x": ("retired", "Reads it."), "B/y": ("active", "Reads it.")}


def test_rule_that_names_an_added_tool_stands_in_the_way(load) -> None:
    row = load(rows("A/x", "A/y", "A/z"))
    make_rule(Tool.objects.get(name="A/x"), Tool.objects.get(name="A/y"), code="X_OR_Y", published=False)
    assert reasons(row) == ["Tools it added are named by X_OR_Y."]
    with pytest.raises(TraceError, match="X_OR_Y") as caught:
        import_undo(row=row, actor=None)
    assert caught.value.code == "conflict" and caught.value.extra["reasons"] == reasons(row)
    assert set(said().values()) == {("active", "Reads it.")}


def test_rule_that_names_a_changed_tool_stands_not_in_the_way(load) -> None:
    load(rows("A/x", "A/y"))
    make_rule(Tool.objects.get(name="A/x"), Tool.objects.get(name="A/y"))
    row = load(rows("A/x", "A/y", text="Writes it."))
    assert [(line.name, line.count) for line in undo_plan(row)["impact"]][0] == ("rules", 1)
    import_undo(row=row, actor=None)
    assert said() == {"A/x": ("active", "Reads it."), "A/y": ("active", "Reads it.")}


def test_rule_that_named_an_added_tool_once_stands_in_the_way(load) -> None:
    load(rows("B/other"))
    row = load(rows("A/x"))
    other = Tool.objects.get(name="B/other")
    rule = make_rule(other, Tool.objects.get(name="A/x"), code="NO_MORE")
    rule.published = RuleVersion.objects.create(
        rule=rule, number=2, target=other, confusable_ids=[], text="t", content_hash="1" * 64
    )
    rule.save()
    [line] = undo_plan(row)["impact"]
    assert (line.name, line.count, "NO_MORE" in reasons(row)[0]) == ("earlier_rules", 1, True)


def test_open_change_that_names_an_added_tool_stands_in_the_way(load, user_with) -> None:
    row = load(rows("A/x"))
    expert = user_with("expert")
    request = ChangeRequest.objects.create(title="t", author=expert)
    RuleChange.objects.create(
        request=request, content={"target": "B/other", "confusables": ["A/x"]}, edited_by=expert
    )
    assert reasons(row) == [f"Tools it added are named by change request {request.pk}."]
    ChangeRequest.objects.update(state="cancelled")
    assert reasons(row) == []


def test_import_from_before_there_was_undo_is_refused_with_the_reason(load) -> None:
    row = load(rows("A/x"))
    del row.counts["returned"]
    row.save()
    [reason] = reasons(row)
    assert "before imports kept what undoing needs" in reason


def test_undone_file_can_be_imported_again(load) -> None:
    row = load(rows("A/x"))
    import_undo(row=row, actor=None)
    again = load(rows("A/x"))
    assert (again.counts["returned"], said()["A/x"][0]) == (1, "active")
    import_undo(row=again, actor=None)
    assert said()["A/x"][0] == "retired"


def test_undo_asks_for_look_alikes_of_the_text_that_came_back(load) -> None:
    load(rows("A/x"))
    row = load(rows("A/x", text="Writes it."))
    Tool.objects.update(embedding_key="of the newer text")
    import_undo(row=row, actor=None)
    assert Tool.objects.get().embedding_key == ""


def test_number_of_queries_does_not_grow_with_the_import(load, django_assert_max_num_queries) -> None:
    load(rows(*(f"A/x{number}" for number in range(300))))
    row = load(rows(*(f"A/x{number}" for number in range(100, 400)), text="Writes it."))
    with django_assert_max_num_queries(56):
        import_undo(row=row, actor=None)


@pytest.mark.django_db(transaction=True)
def test_of_two_undos_at_once_one_is_refused(load) -> None:
    row = load(rows(*(f"A/x{number}" for number in range(50))))
    codes = together(lambda: import_undo(row=row, actor=None), lambda: import_undo(row=row, actor=None))
    assert sorted(codes) == ["bad_state", "done"]
    assert AuditEntry.objects.filter(action="catalog.import_undone").count() == 1


@pytest.mark.django_db(transaction=True)
def test_undo_and_an_import_of_the_same_tools_follow_each_other(load) -> None:
    row = load(rows("A/x"))
    codes = together(
        lambda: import_undo(row=row, actor=None), lambda: load(rows("A/x", text="Writes it."), domain="hr")
    )
    if codes == ["done", "done"]:  # undone first: the tool then returned with the new words
        assert said() == {"A/x": ("active", "Writes it.")}
    else:
        assert codes == ["conflict", "done"] and said() == {"A/x": ("active", "Writes it.")}


def together(*calls: Any) -> list[str]:
    """The outcome of each call, all begun at once in threads of their own."""
    outcomes = ["?"] * len(calls)
    gate = threading.Barrier(len(calls))

    def run(place: int) -> None:
        gate.wait()
        try:
            calls[place]()
            outcomes[place] = "done"
        except TraceError as error:
            outcomes[place] = error.code
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=[place]) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes
