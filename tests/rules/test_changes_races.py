"""Two people, or two processes, at the same moment: one wins, the other is told, and nothing is done twice."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier, Event
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from catalog.models import TokenUnit, Tool
from catalog.services import catalog_lock
from rules.changes import drafts
from rules.changes import services as changes_services
from rules.exchange.services import rules_import
from rules.models import Approval, ChangeRequest, Rule, RuleChange, RuleClause, RuleVersion
from rules.selectors import clauses_in_force
from rules.services import rule_withdraw
from tests.rules.ways import TEXT, content
from trace_site.audit.models import AuditEntry
from trace_site.lib.errors import TraceError

pytestmark = pytest.mark.django_db(transaction=True)


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Every call in its own thread and connection, begun together; results, or the codes of refusals."""
    start = Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        try:
            start.wait(10)
            return call()
        except TraceError as error:
            return error.code
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def applying(world, request, who="rui"):
    return lambda: changes_services.request_apply(request=request, actor=world[who]).state


def texts(rule: Rule) -> list[str]:
    return list(rule.versions.order_by("number").values_list("text", flat=True))


def test_one_of_two_appliers_applies(world):
    request = world.approved()
    assert sorted(at_once(applying(world, request), applying(world, request, "otto"))) == [
        "applied",
        "bad_state",
    ]
    assert RuleVersion.objects.count() == 2
    assert AuditEntry.objects.filter(action="request.applied").count() == 1


def test_one_of_two_requests_on_a_rule_is_applied_and_the_other_conflicts(world):
    first = world.approved()
    change = drafts.change_draft(actor=world["ada"], rule=world.rule, content=content(TEXT + " Ada."))
    second = changes_services.request_submit(request=change.request, actor=world["ada"], revision=2)
    changes_services.request_approve(request=second, actor=world["rui"], revision=2)
    assert sorted(at_once(applying(world, first), applying(world, second))) == ["applied", "conflict"]
    assert len(texts(world.rule)) == 2


def test_withdrawing_and_editing_at_once_leaves_one_of_the_two(world):
    edit, withdrawal = world.approved(), world.approved(world.withdrawal())
    assert sorted(at_once(applying(world, edit), applying(world, withdrawal))) == ["applied", "conflict"]
    world.rule.refresh_from_db()
    assert (world.rule.published is None) == (world.rule.versions.count() == 1)


def test_one_of_two_new_rules_gets_the_code_that_both_propose(world):
    requests = [world.approved(world.new_rule("SAME")), world.approved(world.new_rule("SAME"))]
    assert sorted(at_once(*(applying(world, request) for request in requests))) == ["applied", "conflict"]
    assert Rule.objects.filter(code="SAME").count() == 1


def test_new_rules_without_a_code_get_two_codes(world):
    requests = [world.approved(world.new_rule()), world.approved(world.new_rule())]
    assert at_once(*(applying(world, request) for request in requests)) == ["applied", "applied"]
    assert set(Rule.objects.exclude(pk=world.rule.pk).values_list("code", flat=True)) == {"NEW", "NEW_2"}


def test_sweepers_apply_each_due_request_once(world):
    requests = [world.scheduled(world.new_rule(f"RULE_{number}")) for number in range(6)]
    ChangeRequest.objects.update(apply_at=timezone.now() - timedelta(seconds=1))
    assert sum(at_once(*[changes_services.apply_due] * 4)) == 6
    assert Rule.objects.filter(published__number=1).count() == 7
    assert AuditEntry.objects.filter(action="request.applied").count() == len(requests)


def test_sweeper_does_not_wait_for_a_request_that_somebody_holds(world):
    held = world.scheduled()
    other = world.scheduled(world.new_rule("OTHER"))
    ChangeRequest.objects.update(apply_at=timezone.now() - timedelta(seconds=1))
    with transaction.atomic():
        ChangeRequest.objects.select_for_update().get(pk=held.pk)
        assert at_once(changes_services.apply_due) == [1]
    states = dict(ChangeRequest.objects.values_list("pk", "state"))
    assert states == {held.pk: "scheduled", other.pk: "applied"}
    assert changes_services.apply_due() == 1


def test_approval_never_outlives_an_edit_made_at_the_same_moment(world):
    request = world.review()
    change = request.changes.get()
    said = {**change.content, "text": TEXT + " Otherwise."}

    def edit():
        return drafts.change_save(change=change, expected=1, actor=world["erin"], content=said).revision

    def approve():
        return changes_services.request_approve(request=request, actor=world["rui"], revision=2).state

    at_once(edit, approve)
    now = ChangeRequest.objects.get()
    assert (now.state, now.revision) == ("in_review", 3)
    with pytest.raises(TraceError, match="in review"):
        changes_services.request_apply(request=now, actor=world["rui"])


def test_two_approvals_at_once_are_both_counted(world, settings):
    settings.CHANGE_APPROVALS = 2
    request = world.review()

    def approving(who):
        return lambda: changes_services.request_approve(request=request, actor=world[who], revision=2).state

    assert sorted(at_once(approving("rui"), approving("otto"))) == ["approved", "in_review"]


def test_one_person_approves_once_however_often_the_button_is_pressed(world):
    request = world.review()

    def approve():
        return changes_services.request_approve(request=request, actor=world["rui"], revision=2).state

    assert sorted(at_once(approve, approve, approve)) == ["approved", "bad_state", "bad_state"]
    assert Approval.objects.count() == 1


def test_one_of_two_saves_of_a_revision_is_kept_and_the_other_is_told(world):
    change = world.draft().changes.get()

    def saving(who):
        said = content(f"{TEXT} By {who}.")
        return lambda: drafts.change_save(change=change, expected=1, actor=world[who], content=said).revision

    assert sorted(map(str, at_once(saving("erin"), saving("otto")))) == ["2", "edited_meanwhile"]
    assert RuleChange.objects.get().revision == 2


def test_first_saves_of_one_person_at_once_make_one_draft(world):
    def begin():
        return drafts.change_draft(actor=world["erin"], rule=world.rule).pk

    assert len(set(at_once(begin, begin, begin))) == 1
    assert ChangeRequest.objects.count() == 1


def test_cancelling_and_applying_at_once_do_one_of_the_two(world):
    request = world.approved()

    def cancel():
        return changes_services.request_cancel(request=request, actor=world["erin"]).state

    done = at_once(applying(world, request), cancel)
    assert sorted(done) in (["applied", "bad_state"], ["bad_state", "cancelled"])
    assert RuleVersion.objects.count() == (2 if "applied" in done else 1)


def test_target_retired_by_an_import_that_runs_now_is_not_published(world):
    request = world.approved()
    importing, commit = Event(), Event()

    def import_file():
        with transaction.atomic():
            catalog_lock()
            Tool.objects.filter(name="A/New").update(status=Tool.Status.RETIRED)
            importing.set()
            commit.wait(1)  # the applier comes while this runs and must not read the catalog as it was
        return "imported"

    def apply():
        importing.wait(10)
        return changes_services.request_apply(request=request, actor=world["rui"]).state

    assert at_once(import_file, apply) == ["imported", "conflict"]
    assert RuleVersion.objects.count() == 1


def test_rule_withdrawn_by_a_command_while_a_request_is_applied_conflicts_or_comes_after(world):
    request = world.approved()
    done = at_once(applying(world, request), lambda: rule_withdraw(rule=world.rule).published_id)
    world.rule.refresh_from_db()
    assert world.rule.published_id is None
    assert done[0] in ("applied", "conflict") and len(texts(world.rule)) == (2 if done[0] == "applied" else 1)


def test_clauses_that_are_published_at_once_get_slots_of_their_own(world, tmp_path):
    rule = {"tool_name": "A/New", "confusables": ["A/Old"], "rule_text": TEXT, "code": "FILE"}
    path = tmp_path / "rules.json"
    path.write_text(json.dumps([rule]))
    requests = [world.approved(world.new_rule(f"RULE_{number}")) for number in range(3)]
    done = at_once(
        *(applying(world, request) for request in requests),
        lambda: rules_import(path=path, publish=True)[1],
        lambda: rule_withdraw(rule=world.rule).published_id,
    )
    assert done == ["applied", "applied", "applied", 1, None]
    slots = TokenUnit.objects.filter(family="clause").values_list("slot", flat=True)
    assert sorted(slots) == list(range(len(slots))) and len(slots) == RuleClause.objects.count()
    assert {one["rule"] for one in clauses_in_force()} == {"RULE_0", "RULE_1", "RULE_2", "FILE"}
