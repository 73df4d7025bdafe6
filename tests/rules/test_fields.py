"""What follows from the list of a rule's fields, and that a new one leaves what is stored as it is."""

from typing import Any

import pytest
from django.template.loader import render_to_string

from rules.book import version_contents
from rules.core import rule
from rules.core.draft import content_of, diff_rules, draft_of, fill_draft, merge_contents
from rules.core.rule import FIELDS, PLAIN, RuleContent, RuleField, choice, make_content, optional_text
from rules.core.rules_file import read_rules, to_json
from rules.core.tables import write_table
from rules.models import Rule
from rules.serializers import Content, ContentIn, Diff
from rules.services import versions_save
from tests.factories import make_domain, make_tool

WORDS = {"target": "A/New", "text": "From 2024 on use A/New, earlier A/Old, whatever the worker says."}
CLAUSE = {"when": "the period is before 2024", "route_to": "A/Old", "exception": True, "signals": ["2023"]}
LISTS = {
    "confusables": ["A/Old"],
    "clauses": [CLAUSE],
    "tests": [{"query": "my slip of May 2024", "tools": ["A/New"]}],
}
NOTE = RuleField("owner_note", "Note for its owner", optional_text(200), help="who is asked about it")
RISK = RuleField("risk", "Risk", choice("low", "high"))
HASH = "1df14fd792e3894e73491f7dd7728c10dc31ff5c888537cdb40f03904d0fbbe3"  # of WORDS and LISTS, for ever


def whole(**changed: Any) -> RuleContent:
    plain = {name: (one.choices or ["Ask Eve."])[0] for name, one in PLAIN.items()}
    return make_content(**{**WORDS, **LISTS, **plain, **changed})


def another(name: str) -> RuleContent:
    """The rule with another value of the field."""
    if name in PLAIN:
        return whole(**{name: ""})
    extra = {
        "confusables": "A/Third",
        "clauses": {**CLAUSE, "when": "it is late"},
        "tests": {"query": "which one", "tools": ["A/Old"]},
    }
    if name in LISTS:
        return whole(**{name: [*LISTS[name], extra[name]]})
    return whole(**{name: {"target": "A/Other", "text": "Use A/New for all but what A/Old holds."}[name]})


def test_an_empty_field_that_came_later_changes_no_hash_and_no_draft(monkeypatch) -> None:
    said = make_content(**WORDS, **LISTS)
    assert said.content_hash() == HASH
    monkeypatch.setitem(rule.PLAIN, "owner_note", NOTE)
    before = draft_of(said)
    assert rule.without_empty({**before, "owner_note": ""}) == before
    assert rule.without_empty({**before, "owner_note": "Ask Eve."}) != before


@pytest.mark.parametrize("name", FIELDS)
def test_each_field_is_part_of_drafts_files_api_and_difference(name: str) -> None:
    old, new, key = whole(), another(name), FIELDS[name].key
    assert old.content_hash() != new.content_hash()
    for said in (old, new):
        assert content_of(draft_of(said)) == said
        entry = to_json(said, code="ONE", domain="hr")
        table = write_table([entry])
        assert [one.content for one in read_rules(table.encode(), "f.csv", 9).entries] == [said]
        assert Content(entry).data[key] == entry[key]
        given = ContentIn(data={one.key: entry[one.key] for one in FIELDS.values()})
        assert given.is_valid() and given.validated_data[key] == entry[key]
    diff = diff_rules(old, new)
    assert diff.changed == (name,)
    shown, same = Diff(diff).data, Diff(diff_rules(old, old)).data
    assert {part for part in shown if shown[part] != same[part]} > {"changed"}
    assert merge_contents(draft_of(old), draft_of(old), draft_of(new)).content == draft_of(new)


@pytest.mark.django_db
def test_each_field_is_stored_typed_and_shown(client_as) -> None:
    for name in ("A/New", "A/Old"):
        make_tool(name)
    row = Rule.objects.create(domain=make_domain(), code="ONE")
    said = whole()
    (version,) = versions_save([(row, said, "", None)])
    version.refresh_from_db()
    assert version_contents([version])[version.pk] == said
    client = client_as("expert")
    editor, page = (client.get(f"/rules/{row.pk}/{place}").content.decode() for place in ("edit/", ""))
    saved = client.get(f"/api/v1/rules/{row.pk}/versions/1").json()["content"]
    assert saved == {one.key: to_json(said, code="", domain="")[one.key] for one in FIELDS.values()}
    typed = {"confusables": "confusables", "clauses": "clause-0-when", "tests": "test-0-query"}
    for name, one in FIELDS.items():
        place = f"plain-{name}" if name in PLAIN else typed.get(name, name)
        assert f'name="{place}"' in editor
        if name in PLAIN:
            assert one.label in page and getattr(said, name) in page


def test_plain_fields_are_shown_by_their_label_and_typed_as_text_or_choice() -> None:
    fields = [("owner_note", NOTE, "Ask <Eve>"), ("risk", RISK, "high")]
    form = render_to_string("rules/_fields.html", {"plain": fields, "form": {"draft": fill_draft({})}})
    assert 'name="plain-owner_note" maxlength="200"' in form and "Ask &lt;Eve&gt;</textarea>" in form
    assert "who is asked about it" in form and '<option value="high" selected>high</option>' in form
    content = render_to_string("rules/_content.html", {"content": {"plain": [(NOTE, "Ask Eve")]}})
    assert '<dt>Note for its owner</dt><dd class="prewrap">Ask Eve</dd>' in content
    change = render_to_string("rules/_change.html", {"change": {"plain": [(RISK, "", "high")]}})
    assert "Risk: none → high" in change
