"""Rules in the database: import, versions, publishing, export."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction

from catalog.models import Tool
from rules.book import cached_book
from rules.core.rule import PLAIN, make_content
from rules.exchange.services import FilePreview, rules_export, rules_import
from rules.models import Rule, RuleVersion
from rules.services import rule_preview, rule_withdraw
from tests.factories import make_tool
from tests.rules.saving import rule_save
from trace_site.audit.models import AuditEntry
from trace_site.lib.errors import TraceError

pytestmark = pytest.mark.django_db
TEXT = "Use Pay/get from 2024 on, and Pay/getOld for every month before that."
RULE: dict[str, Any] = {"tool_name": "Pay/get", "confusables": ["Pay/getOld"], "rule_text": TEXT}
FORM: dict[str, Any] = {"target": "Pay/get", "confusables": ["Pay/getOld"], "text": TEXT}


@pytest.fixture(autouse=True)
def tools() -> None:
    for name in ("Pay/get", "Pay/getOld", "Pay/third"):
        make_tool(name)


@pytest.fixture
def load(tmp_path: Path):
    def run(*rules: dict[str, Any], **options: Any) -> FilePreview:
        path = tmp_path / "rules.json"
        path.write_text(json.dumps(list(rules)))
        return rules_import(path=path, **options)[0]

    return run


def counts(result: FilePreview) -> tuple[int, int, int]:
    found = result.counts()
    return found["added"], found["changed"], found["unchanged"]


def test_import_is_idempotent_and_a_change_is_a_new_version(load) -> None:
    assert counts(load(RULE, publish=True)) == (1, 0, 0)
    assert counts(load(RULE, publish=True)) == (0, 0, 1)
    assert counts(load(RULE | {"rule_text": TEXT + " Ask when unsure."}, publish=True)) == (0, 1, 0)
    rule = Rule.objects.get()
    assert (rule.code, rule.published.number, rule.versions.count()) == ("GET", 2, 2)


def test_export_imports_as_unchanged(load, tmp_path: Path) -> None:
    clause = {"when": "before 2024", "route_to": "Pay/getOld", "exception": True, "signals": ["2023"]}
    load(RULE | {"clauses": [clause], "tests": [{"query": "q", "tools": ["Pay/get"]}]}, publish=True)
    exported = rules_export()
    assert exported[0]["clauses"] == [clause]
    assert counts(load(*exported)) == (0, 0, 1)
    assert rules_export() == exported
    assert rules_export(domain="finance") == []


def test_draft_is_imported_without_publishing_and_published_later(load) -> None:
    load(RULE)
    assert Rule.objects.get().published is None
    load(RULE, publish=True)
    assert Rule.objects.get().published is not None
    assert Rule.objects.get().published.number == 1


def test_dry_run_writes_nothing(load) -> None:
    assert counts(load(RULE, dry_run=True, publish=True)) == (1, 0, 0)
    assert not Rule.objects.exists() and not AuditEntry.objects.exists()


def test_unknown_tool_is_refused_with_the_closest_names(load) -> None:
    with pytest.raises(TraceError) as caught:
        load(RULE, RULE | {"confusables": ["Pay/getOlder"]})
    assert "rules.json#/1/confusables/0: 'Pay/getOlder' is not in the catalog. Closest: Pay/getOld" in str(
        caught.value
    )
    assert not Rule.objects.exists()


def test_retired_target_is_refused(load) -> None:
    Tool.objects.filter(name="Pay/get").update(status="retired")
    with pytest.raises(TraceError, match="rules.json#/0/tool_name: the target 'Pay/get' is retired"):
        load(RULE)


def test_domain_must_be_the_targets(load) -> None:
    with pytest.raises(
        TraceError, match="#/0/domain: the target belongs to the domain 'hr', not to 'Finance'"
    ):
        load(RULE | {"domain": "Finance"})
    assert counts(load(RULE | {"domain": "HR"})) == (1, 0, 0)


def test_same_code_twice_names_both_places(load) -> None:
    with pytest.raises(TraceError, match="#/1/code: the code X is already used at .*rules.json#/0/code"):
        load(RULE | {"code": "X"}, RULE | {"code": "X", "rule_text": "Other Pay/getOld"})


def test_finding_that_is_an_error_stops_publishing_but_not_a_draft(load) -> None:
    mute = RULE | {"rule_text": "Always use this one and never the other one, please."}
    with pytest.raises(TraceError, match="names none of the confusables"):
        load(mute, publish=True)
    assert not Rule.objects.exists()
    assert counts(load(mute)) == (1, 0, 0)


def test_broken_json_names_line_and_file(tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    path.write_text('[\n{"tool_name": ')
    with pytest.raises(TraceError, match=r"rules.json:2:15: not valid JSON \(it ends in the middle\)"):
        rules_import(path=path)


def test_versions_are_frozen_by_the_database(load) -> None:
    load(RULE, publish=True)
    everything = RuleVersion.objects.all()
    for change in (lambda: everything.update(text="x"), lambda: everything._raw_delete(everything.db)):
        with pytest.raises(IntegrityError, match="frozen"), transaction.atomic():
            change()
    assert RuleVersion.objects.get().text == TEXT


def test_saving_the_same_content_makes_no_version(user_with) -> None:
    expert = user_with("expert")
    first = rule_save(**FORM, actor=expert, note="first")
    assert (first.changed, first.published, first.version.author) == (True, False, expert)
    again = rule_save(**FORM, rule=first.version.rule, actor=expert, publish=True)
    assert (again.changed, again.published, again.version.pk) == (False, True, first.version.pk)
    actions = list(AuditEntry.objects.order_by("id").values_list("action", "actor"))
    assert actions == [("rule.saved", expert.pk), ("rule.published", expert.pk)]


def test_errors_leave_the_version_saved_and_unpublished() -> None:
    saved = rule_save(**FORM | {"text": "Always use this one."}, publish=True)
    assert (saved.published, saved.findings[0].code) == (False, "no_confusable")
    assert RuleVersion.objects.count() == 1


def test_form_mistakes_carry_pointers_and_write_nothing() -> None:
    with pytest.raises(TraceError) as caught:
        rule_save(**FORM | {"target": "Pay/gett", "text": ""})
    assert [problem["pointer"] for problem in caught.value.extra["problems"]] == ["/rule_text", "/tool_name"]
    with pytest.raises(TraceError, match="Closest: Pay/get") as caught:
        rule_save(**FORM | {"target": "Pay/gett"})
    assert caught.value.where == "/tool_name"
    rule_save(**FORM, code="MINE")
    with pytest.raises(TraceError, match="already exists"):
        rule_save(**FORM, code="MINE")
    assert RuleVersion.objects.count() == 1


def test_preview_writes_nothing_and_withdrawing_keeps_versions() -> None:
    findings = rule_preview(content=make_content(**FORM), rule=None, book=cached_book())
    assert [finding.code for finding in findings] == ["no_test"]
    assert not Rule.objects.exists()
    rule = rule_save(**FORM, publish=True).version.rule
    assert rule_withdraw(rule=rule).published is None
    assert rule.versions.count() == 1


def test_number_of_queries_does_not_grow_with_the_file(load, django_assert_max_num_queries) -> None:
    many = [RULE | {"code": f"R{number}"} for number in range(60)]
    # four of them read and keep what the versions tell apart, seven give their clauses tokens
    with django_assert_max_num_queries(37):
        load(*many, publish=True)


def test_commands_speak_json(load, tmp_path: Path, capsys) -> None:
    load(RULE, publish=True)
    call_command("rules_check", json=True)
    checked = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert (checked["rules"], checked["errors"], checked["warnings"]) == (1, 0, 1)
    call_command("rules_export")
    path = tmp_path / "out.json"
    path.write_text(capsys.readouterr().out)
    call_command("rules_import", str(path), json=True)
    last = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    nothing = {"added": 0, "changed": 0, "skipped": 0, "errors": [], "ignored": {}}
    assert last == nothing | {"unchanged": 1}
    with pytest.raises(CommandError, match="does not exist"):
        call_command("rules_import", str(tmp_path / "none.json"))


def test_bad_rows_are_skipped_and_listed_when_the_operator_says_so(load) -> None:
    other = {"code": "X", "rule_text": f"{TEXT} Twice."}
    rows = [RULE, RULE | {"tool_name": "Pay/gett"}, {"rule_text": "x"}, RULE | other, RULE | other]
    with pytest.raises(TraceError) as caught:
        load(*rows)
    assert caught.value.extra["count"] == 4 and not Rule.objects.exists()
    result = load(*rows, skip_bad_rows=True)
    assert counts(result) == (2, 0, 0)
    assert result.skipped == 3
    assert [line.split("#")[1].split(":")[0] for line in result.errors] == [
        "/1/tool_name", "/2", "/2", "/4/code",
    ]  # fmt: skip
    with pytest.raises(TraceError):
        load(rows[2], skip_bad_rows=True)


def test_findings_that_are_errors_skip_their_rule_when_publishing(load) -> None:
    mute = RULE | {"code": "MUTE", "rule_text": "Always use this one and never the other one, please."}
    result = load(RULE, mute, publish=True, skip_bad_rows=True)
    assert (counts(result), result.skipped, Rule.objects.exclude(published=None).count()) == ((1, 0, 0), 1, 1)
    entry = AuditEntry.objects.get(action="rule.published")
    assert (entry.detail["via"], entry.detail["file"]) == ("import", "rules.json")


def test_csv_is_recognised_and_its_mistakes_name_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "rules.csv"
    call_command("rules_export", format="csv", out=path)
    first = ["code", "domain", "tool_name", "confusables", "rule_text", "clauses", "tests"]
    columns = first + [one.key for one in PLAIN.values()]
    assert path.read_bytes() == ("\ufeff" + ",".join(f'"{name}"' for name in columns) + "\r\n").encode()
    path.write_text("tool_name;confusables;rule_text\nPay/get;Pay/getOld;t\nPay/get;Pay/nope;t\n")
    with pytest.raises(
        TraceError, match=r"rules.csv:3, column confusables, entry 1: 'Pay/nope' is not in the"
    ):
        rules_import(path=path)
    assert counts(rules_import(path=path, skip_bad_rows=True)[0])[0] == 1


def test_fields_that_are_not_kept_are_said_by_the_command(load, tmp_path: Path, capsys) -> None:
    path = tmp_path / "rules.json"
    path.write_text(json.dumps([RULE | {"evidence": "page 3"}]))
    call_command("rules_import", str(path), json=True)
    out, err = capsys.readouterr()
    assert json.loads(out.strip().splitlines()[-1])["ignored"] == {"evidence": 1}
    assert "The field evidence of 1 rules is not part of a rule" in err


def test_many_unknown_names_do_not_cost_a_look_at_the_catalog_each(load, monkeypatch) -> None:
    monkeypatch.setattr("rules.book.MOST_MEANT", 2)
    with pytest.raises(TraceError) as caught:
        load(*[RULE | {"confusables": [f"Pay/getOl{number}"]} for number in range(4)])
    assert ["Closest" in line for line in caught.value.extra["errors"]] == [True, True, False, False]
