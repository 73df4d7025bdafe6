"""Export, import, export: byte for byte the same, also in a database that knows only the tools."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rules.exchange.services import Format, as_text, rules_export, rules_import
from rules.models import Rule
from tests.factories import make_tool
from tests.rules.contents import rules
from trace_site.lib.letters import entered

pytestmark = pytest.mark.django_db
NAMES = ["Pay/get", "Pay/getOld", "=Pay/-get;v=2", '"Pay"/a,b', "'=x/<<a&&b>>", "漢/🙂", "م/x"]


class RolledBack(Exception):
    """Leaves a database as it was."""


def fresh(path: Path, data: bytes, fmt: Format) -> bytes:
    """Import into a database without rules, export again, and forget both."""
    path.write_bytes(data)
    text = ""
    try:
        with transaction.atomic():
            rules_import(path=path)
            text = as_text(rules_export(), fmt)
            assert not rules_import(path=path)[0].changes
            raise RolledBack
    except RolledBack:
        assert not Rule.objects.exists()
        return text.encode()


@pytest.mark.parametrize("examples", [12, pytest.param(200, marks=pytest.mark.long)])
def test_any_valid_rules_survive_every_way_out_and_in(tmp_path: Path, examples: int) -> None:
    for name in NAMES:
        make_tool(name)
    path = tmp_path / "rules"

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(st.lists(rules(st.sampled_from(NAMES)), min_size=1, max_size=4))
    def check(drawn: list[dict[str, Any]]) -> None:
        coded = [rule | {"code": f"R{number}"} for number, rule in enumerate(drawn)]
        first = fresh(path, json.dumps(coded).encode(), "json")
        assert fresh(path, first, "json") == first
        table = fresh(path, first, "csv")
        assert fresh(path, table, "csv") == table
        assert fresh(path, table, "json") == first

    check()


def test_markup_emoji_and_both_directions_come_back_in_one_spelling(tmp_path: Path) -> None:
    for name in NAMES[:2]:
        make_tool(name)
    text = "a && b <script>'\"\\ ||| \u202eright\u202c שלום 🙂🇪🇺\r\n\ttwo\n\n three; =4, -5 é e\u0301"
    rule = {"tool_name": "Pay/get", "confusables": ["Pay/getOld"], "rule_text": text, "code": "X"}
    for fmt in ("json", "csv"):
        data = fresh(tmp_path / "rules", json.dumps([rule]).encode(), fmt)
        stored = json.loads(fresh(tmp_path / "rules", data, "json"))
        assert stored[0]["rule_text"] == entered(text)


def test_outer_spaces_are_the_only_thing_an_import_takes_away(tmp_path: Path) -> None:
    for name in NAMES[:2]:
        make_tool(name)
    clause = {"when": " x ", "route_to": " Pay/getOld ", "exception": False, "signals": [" a "]}
    rule = {
        "code": "X", "domain": " HR ", "tool_name": " Pay/get ", "confusables": ["Pay/getOld\n"],
        "rule_text": "\n two  words \t", "clauses": [clause], "tests": [{"query": " q ", "tools": [" Pay/get"]}],
    }  # fmt: skip
    (stored,) = json.loads(fresh(tmp_path / "rules", json.dumps([rule]).encode(), "json"))
    assert {name: stored[name] for name in rule} == {
        "code": "X", "domain": "hr", "tool_name": "Pay/get", "confusables": ["Pay/getOld"], "rule_text": "two  words",
        "clauses": [{"when": "x", "route_to": "Pay/getOld", "exception": False, "signals": ["a"]}],
        "tests": [{"query": "q", "tools": ["Pay/get"]}],
    }  # fmt: skip
