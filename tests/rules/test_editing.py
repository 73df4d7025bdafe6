"""Saving from the editor: what was saved meanwhile is never overwritten, and both sides can be kept."""

import threading

import pytest
from django.db import connection

from rules.book import version_contents
from rules.changes.drafts import change_save
from rules.changes.proposals import request_conflicts
from rules.changes.services import request_submit
from rules.core.draft import draft_of, fill_draft
from rules.editor.services import (
    EditConflict,
    RuleForm,
    draft_discard,
    draft_move,
    form_rebase,
    form_save,
    open_change,
)
from rules.models import ChangeRequest, RuleChange
from tests.factories import make_tool
from tests.rules.saving import rule_save
from trace_site.lib.errors import TraceError

pytestmark = pytest.mark.django_db
TEXT = "Payslips from 2024 on are read with A/New, earlier ones with A/Old, whatever the worker says."


@pytest.fixture
def tools():
    return [make_tool(f"A/{name}") for name in ("New", "Old", "Other")]


@pytest.fixture
def erin(user_with):
    return user_with("expert", username="erin")


@pytest.fixture
def maria(user_with):
    return user_with("expert", username="maria")


def form(**fields):
    typed = {"target": "A/New", "confusables": ["A/Old"], "text": TEXT}
    return RuleForm(fill_draft({**typed, **fields}))


def opened(change, **typed):
    """The form of a page that shows the change, with something typed over it."""
    shown = RuleForm.of(change.content, change=change.pk, revision=change.revision, note=change.note)
    shown.draft = shown.draft | typed
    return shown


def submitted(change, actor):
    return request_submit(request=change.request, actor=actor, revision=change.request.revision)


def published(text=TEXT, rule=None):
    version = rule_save(target="A/New", confusables=["A/Old"], text=text, rule=rule, publish=True).version
    return version.rule


def is_behind(change):
    return any(one.since for one in request_conflicts(change.request, [change], []))


def version_form(rule, note="", **typed):
    newest = rule.versions.order_by("-number").first()
    shown = RuleForm.of(
        draft_of(version_contents([newest])[newest.pk]), domain=rule.domain_id, began=newest.number, note=note
    )
    shown.draft = shown.draft | typed
    return shown


def test_first_save_makes_a_draft_and_the_next_ones_raise_its_revision(tools, erin):
    change = form_save(form=form(text=""), rule=None, actor=erin)
    assert (change.revision, change.request.state, change.request.author) == (1, "draft", erin)
    change = form_save(form=opened(change, text="Half a"), rule=None, actor=erin)
    assert (change.revision, change.content["text"], RuleChange.objects.count()) == (2, "Half a", 1)


def test_first_save_repeated_after_a_lost_answer_makes_no_second_draft(tools, erin):
    lost = form_save(form=form(), rule=None, actor=erin)
    again = form_save(form=form(text=TEXT + " More."), rule=None, actor=erin, made=lost.pk)
    assert (again.pk, again.content["text"]) == (lost.pk, TEXT + " More.")


def test_second_save_of_one_revision_is_refused_with_both_sides(tools, erin, maria):
    change = form_save(form=form(), rule=None, actor=erin)
    mine, theirs = opened(change, text=TEXT + " Mine."), opened(change, text="Theirs. " + TEXT)
    form_save(form=theirs, rule=None, actor=maria)
    with pytest.raises(EditConflict) as told:
        form_save(form=mine, rule=None, actor=erin)
    clash = told.value
    assert (clash.theirs.who, clash.theirs.label) == ("maria", "revision 2")
    assert clash.merged.content["text"] == f"Theirs. {TEXT} Mine." and clash.merged.overlaps == 0
    assert RuleChange.objects.get().content["text"] == "Theirs. " + TEXT


def test_keeping_mine_puts_it_on_top_of_theirs(tools, erin, maria):
    change = form_save(form=form(), rule=None, actor=erin)
    mine = opened(change, confusables=["A/Old", "A/Other"])
    form_save(form=opened(change, text=TEXT + " Theirs."), rule=None, actor=maria)
    kept = form_save(form=mine, rule=None, actor=erin, onto=2)
    assert kept.content["confusables"] == ["A/Old", "A/Other"] and kept.content["text"].endswith("Theirs.")
    assert kept.revision == 3


def test_keeping_mine_is_refused_when_a_third_save_came_between(tools, erin, maria):
    change = form_save(form=form(), rule=None, actor=erin)
    mine = opened(change, text=TEXT + " Mine.")
    for number in (2, 3):
        change = form_save(form=opened(change, text=f"{TEXT} {number}"), rule=None, actor=maria)
    with pytest.raises(EditConflict) as told:
        form_save(form=mine, rule=None, actor=erin, onto=2)
    assert told.value.theirs.label == "revision 3" and RuleChange.objects.get().revision == 3


def test_draft_of_a_rule_that_was_published_anew_since_the_page_was_opened_is_refused(tools, erin, maria):
    rule = published()
    mine = version_form(rule, text=TEXT + " Mine.")
    rule_save(target="A/New", confusables=["A/Old"], text="Theirs. " + TEXT, rule=rule, actor=maria)
    with pytest.raises(EditConflict) as told:
        form_save(form=mine, rule=rule, actor=erin)
    assert (told.value.theirs.label, told.value.theirs.who) == ("v2", "maria")
    assert not RuleChange.objects.exists()
    kept = form_save(form=mine, rule=rule, actor=erin, onto=2)
    assert kept.content["text"] == f"Theirs. {TEXT} Mine." and kept.base.number == 2


def test_first_save_in_a_second_tab_does_not_overwrite_the_draft_of_the_first(tools, erin):
    rule = published()
    first, second = version_form(rule, text=TEXT + " One."), version_form(rule, text=TEXT + " Two.")
    form_save(form=first, rule=rule, actor=erin)
    with pytest.raises(EditConflict) as told:
        form_save(form=second, rule=rule, actor=erin)
    assert told.value.theirs.content["text"] == TEXT + " One." and RuleChange.objects.count() == 1


def test_draft_left_behind_by_a_newer_version_is_put_on_top_of_it(tools, erin):
    rule = published()
    change = form_save(form=version_form(rule, text=TEXT + " Mine."), rule=rule, actor=erin)
    published("Theirs. " + TEXT, rule)
    assert is_behind(open_change(change.pk))
    change, overlaps = form_rebase(form=opened(change), actor=erin)
    assert (change.content["text"], overlaps) == (f"Theirs. {TEXT} Mine.", 0)
    assert change.base.number == 2 and not is_behind(open_change(change.pk))


def test_submitting_takes_the_request_to_review(tools, erin):
    change = form_save(form=form(), rule=None, actor=erin)
    asked = submitted(change, erin)
    assert asked.state == "in_review" and asked.title == "new rule for A/New"


def test_discarded_draft_leaves_no_open_request(tools, erin):
    change = form_save(form=form(), rule=None, actor=erin)
    draft_discard(form=opened(change), actor=erin)
    assert not RuleChange.objects.exists() and ChangeRequest.objects.get().state == "cancelled"


def test_discarding_what_somebody_else_saved_meanwhile_is_refused(tools, erin, maria):
    change = form_save(form=form(), rule=None, actor=erin)
    form_save(form=opened(change, text=TEXT + " Theirs."), rule=None, actor=maria)
    with pytest.raises(TraceError, match="maria saved"):
        draft_discard(form=opened(change), actor=erin)
    assert RuleChange.objects.exists()


def test_change_moves_into_another_draft_request_with_all_it_says(tools, erin):
    first = form_save(form=form(), rule=None, actor=erin)
    rule = published()
    second = form_save(form=version_form(rule, text=TEXT + " New.", note="why"), rule=rule, actor=erin)
    moved = draft_move(change=second, into=first.request_id, actor=erin)
    assert (moved.request_id, moved.content, moved.note) == (first.request_id, second.content, "why")
    assert ChangeRequest.objects.get(pk=second.request_id).state == "cancelled"


def test_change_is_not_moved_into_a_submitted_request(tools, erin):
    first = form_save(form=form(), rule=None, actor=erin)
    submitted(first, erin)
    second = form_save(form=form(target="A/Other"), rule=None, actor=erin)
    with pytest.raises(TraceError, match="no draft request"):
        draft_move(change=second, into=first.request_id, actor=erin)
    assert RuleChange.objects.filter(pk=second.pk).exists()


def test_discarded_draft_tells_the_other_page_so(tools, erin):
    change = form_save(form=form(), rule=None, actor=erin)
    page = opened(change, text=TEXT + " More.")
    draft_discard(form=opened(change), actor=erin)
    with pytest.raises(TraceError, match="discarded meanwhile"):
        form_save(form=page, rule=None, actor=erin)


@pytest.mark.django_db(transaction=True)
def test_of_many_saves_at_once_exactly_one_is_written(tools, erin):
    change = form_save(form=form(), rule=None, actor=erin)
    outcomes: list[str] = []

    def save(number: int) -> None:
        try:
            form_save(form=opened(change, text=f"{TEXT} {number}"), rule=None, actor=erin)
            outcomes.append(f"{TEXT} {number}")
        except EditConflict:
            outcomes.append("refused")
        finally:
            connection.close()

    threads = [threading.Thread(target=save, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written = [text for text in outcomes if text != "refused"]
    assert len(written) == 1 and len(outcomes) == 8
    assert RuleChange.objects.get().content["text"] == written[0]


@pytest.mark.django_db(transaction=True)
def test_first_saves_of_one_rule_at_once_make_one_draft(tools, erin):
    rule = published()
    outcomes: list[str] = []

    def save(number: int) -> None:
        try:
            form_save(form=version_form(rule, text=f"{TEXT} {number}"), rule=rule, actor=erin)
            outcomes.append("saved")
        except EditConflict:
            outcomes.append("refused")
        finally:
            connection.close()

    threads = [threading.Thread(target=save, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["refused"] * 5 + ["saved"] and RuleChange.objects.count() == 1


def test_save_of_equal_words_keeps_the_revision_even_from_an_old_page(tools, erin):
    change = form_save(form=form(), rule=None, actor=erin)
    old = opened(change, text=TEXT + " Same.")
    form_save(form=opened(change, text=TEXT + " Same."), rule=None, actor=erin)
    assert form_save(form=old, rule=None, actor=erin).revision == 2


def test_change_of_a_submitted_request_goes_back_to_review_when_saved(tools, erin):
    change = form_save(form=form(), rule=None, actor=erin)
    asked = submitted(change, erin)
    change = change_save(
        change=change, expected=change.revision, actor=erin, content={**change.content, "text": TEXT + "!"}
    )
    assert ChangeRequest.objects.get().revision > asked.revision and change.request.state == "in_review"
