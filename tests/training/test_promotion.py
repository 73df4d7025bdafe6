"""No model takes the champion's place past its gate: by page, API, command or two at once."""

import json
import threading

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from django.test import Client
from rest_framework.test import APIClient

from evaluation.models import Benchmark
from tests.factories import crown, make_gate_report, make_model
from trace_site.audit.models import AuditEntry
from trace_site.lib.errors import TraceError
from training.models import AliasMove
from training.registry import gate
from training.registry.registry import current_aliases, promote, roll_back

pytestmark = pytest.mark.django_db
WHY = "HR closes its books tonight, and the old model sends people to a dead tool."


@pytest.fixture
def two():
    champion, model = make_model(), make_model()
    crown(champion)
    return champion, model


def refused(code, **call):
    with pytest.raises(TraceError) as error:
        promote(**{"actor": None, **call})
    assert error.value.code == code, error.value
    return error.value


def test_a_passed_gate_lets_a_model_through_and_its_report_stays_with_the_move(two):
    champion, model = two
    report = make_gate_report(model, champion)
    move = promote(model=model, actor=None, note="better")
    assert (move.gate["report"], move.gate["verdict"], move.override) == (report.pk, "pass", "")
    assert list(report.moves) == [move] and report.override is None
    with pytest.raises(DatabaseError, match="frozen"), transaction.atomic():
        AliasMove.objects.filter(pk=move.pk).update(override="later")


def test_what_the_gate_cannot_tell_must_be_confirmed(two):
    champion, model = two
    make_gate_report(model, champion, "cannot tell")
    error = refused("not_confirmed", model=model)
    assert error.extra["verdict"] == "cannot tell" and current_aliases()["champion"] == champion
    refused("short_override", model=model, override="ok")  # no other word stands for it but an admin's, kept
    refused("not_allowed", model=model, override=WHY)
    assert promote(model=model, actor=None, confirmed=True).gate["verdict"] == "cannot tell"


def test_a_failed_gate_needs_an_admins_own_words_which_stay_in_the_history(two, user_with):
    champion, model = two
    report = make_gate_report(model, champion, "fail")
    admin = user_with("admin")
    refused("gate_failed", model=model, actor=admin, confirmed=True)
    refused("gate_failed", model=model, actor=admin, override="   ")
    refused("short_override", model=model, actor=admin, override="because")
    refused("short_override", model=model, actor=admin, override="x" * 2001)
    refused("not_allowed", model=model, override=WHY)
    refused("not_allowed", model=model, actor=user_with("expert"), override=WHY)
    assert AliasMove.objects.filter(model=model).count() == 0
    move = promote(model=model, actor=admin, override=f"  {WHY}\n")
    assert (move.override, move.actor, report.override) == (WHY, admin, move)
    entry = AuditEntry.objects.filter(action="model.promoted").first()
    assert (entry.detail["override"], entry.detail["gate"]["verdict"]) == (WHY, "fail")


def test_without_a_report_against_this_champion_an_override_is_needed(two, user_with):
    champion, model = two
    make_gate_report(model, None)  # made when there was no champion yet
    make_gate_report(model, make_model())  # against another one
    said = refused("no_gate", model=model, confirmed=True)
    assert f"model {model.pk} has no gate report against champion {champion.pk} yet" in str(said).lower()
    assert promote(model=model, actor=user_with("admin"), override=WHY).gate["report"] is None


def test_the_newest_report_counts(two):
    champion, model = two
    make_gate_report(model, champion)
    make_gate_report(model, champion, "fail")
    refused("gate_failed", model=model)


def test_a_report_that_does_not_know_a_new_benchmark_counts_no_more(two):
    champion, model = two
    make_gate_report(model, champion)
    Benchmark.objects.create(name="new", kind="prb", hash="x", count=1)
    assert "frozen since" in str(refused("no_gate", model=model))


def test_the_first_model_needs_a_confirmation_and_a_failed_first_one_an_override(user_with):
    model = make_model()
    refused("not_confirmed", model=model)
    make_gate_report(model, None, "fail")
    refused("gate_failed", model=model, confirmed=True)
    make_gate_report(model, None, "cannot tell")
    assert promote(model=model, actor=None, confirmed=True).model == model


def test_words_about_another_report_are_refused(two, user_with):
    champion, model = two
    read = make_gate_report(model, champion, "fail")
    make_gate_report(model, champion, "fail")
    error = refused("stale_preview", model=model, actor=user_with("admin"), override=WHY, report=read.pk)
    assert "Read what holds now" in str(error)


def test_rolling_back_asks_no_gate_and_is_recorded(two):
    champion, model = two
    crown(model)
    make_gate_report(champion, model, "fail")
    assert roll_back(actor=None).gate == {"back_from": model.pk}
    assert current_aliases()["champion"] == champion
    assert AuditEntry.objects.filter(action="model.rolled_back").exists()


def test_needs_say_what_the_promotion_asks_for():
    for verdict, champion, expected in (
        ("pass", 1, gate.NOTHING),
        ("pass", None, gate.NOTHING),
        ("cannot tell", 1, gate.CONFIRM),
        ("fail", 1, gate.OVERRIDE),
        ("fail", None, gate.OVERRIDE),
        ("", 1, gate.OVERRIDE),
        ("", None, gate.CONFIRM),
    ):
        assert gate.needs(gate.GateWord(verdict), champion) == expected


@pytest.fixture
def admin(user_with):
    return user_with("admin")


@pytest.fixture
def browsers(admin, user_with):
    """The admin's and an expert's."""
    both = (Client(), Client())
    for browser, person in zip(both, (admin, user_with("expert")), strict=True):
        browser.force_login(person)
    return both


def page(browser, model, **sent):
    return browser.post(f"/training/models/{model.pk}/promote/", sent, follow=True).content.decode()


def api(admin, model, **sent):
    client = APIClient()
    client.force_authenticate(admin)
    return client.post(f"/api/v1/training/models/{model.pk}/promote", sent, format="json")


def test_the_page_the_api_and_the_command_refuse_the_same_model(two, browsers, admin):
    champion, model = two
    make_gate_report(model, champion, "fail")
    assert "Gate: fail." in page(browsers[0], model, note="x", confirm="on")
    answer = api(admin, model, note="x", confirm=True)
    assert (answer.status_code, answer.json()["code"]) == (409, "gate_failed")
    assert answer.json()["extra"]["champion"] == champion.pk
    with pytest.raises(CommandError, match="Gate: fail"):
        call_command("promote", model=str(model.pk), confirm=True)
    with pytest.raises(CommandError, match="--by USERNAME"):
        call_command("promote", model=str(model.pk), override=WHY)
    with pytest.raises(CommandError, match="there is no account 'nobody'"):
        call_command("promote", model=str(model.pk), override=WHY, by="nobody")
    assert current_aliases()["champion"] == champion


@pytest.mark.parametrize("way", ["page", "api", "command"])
def test_an_override_goes_through_on_every_way_with_its_author(two, browsers, admin, way, capsys):
    champion, model = two
    report = make_gate_report(model, champion, "fail")
    if way == "page":
        page(browsers[0], model, override=WHY, report=report.pk)
    elif way == "api":
        moved = api(admin, model, override=WHY).json()
        assert (moved["override"], moved["gate"]["report"], moved["by"]) == (WHY, report.pk, "admin")
    else:
        call_command("promote", model=str(model.pk), override=WHY, by="admin", json=True)
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["override"] == WHY
    move = report.override
    assert (move.override, move.actor.username, current_aliases()["champion"]) == (WHY, "admin", model)


def test_the_promotion_page_shows_what_changes_and_asks_for_what_is_needed(two, browsers):
    champion, model = two
    address = f"/training/models/{model.pk}/promote/"
    admin, expert = browsers
    shown = admin.get(address).content.decode()
    assert "Run the gate now" in shown and "Override the gate and promote" in shown
    make_gate_report(model, champion, "cannot tell")
    shown = admin.get(address).content.decode()
    assert "I understand that the gate could not" in shown and "Override" not in shown
    assert "I have read" not in expert.get(address).content.decode()
    make_gate_report(model, champion)
    shown = admin.get(address).content.decode()
    assert "Promote to champion" in shown and 'name="confirm"' not in shown
    assert admin.get(f"/training/models/{champion.pk}/promote/").status_code == 302


def test_tools_that_only_the_champion_knows_are_named_before_the_promotion(two, client_as, monkeypatch):
    from training.registry import registry, views

    champion, model = two
    make_gate_report(model, champion)
    from tests.factories import make_tool

    make_tool("Pay/GetPayslip")
    known = {champion.store_digest: frozenset({"Pay/GetPayslip"}), model.store_digest: frozenset()}
    monkeypatch.setattr(registry, "facts_of", lambda one: registry.Facts(known[one.store_digest]))
    assert views.newer_tools(model).count() == 1
    shown = client_as("admin").get(f"/training/models/{model.pk}/promote/").content.decode()
    assert (
        "1 of the champion's tools is lost" in shown.replace("&#x27;", "'") and "1 active tool</a>" in shown
    )


def test_going_back_is_one_click_from_the_home_page_the_model_and_its_report(two, browsers):
    champion, model = two
    crown(model)
    admin, expert = browsers
    report = model.gate_reports.get()
    for address in ("/", f"/training/models/{model.pk}/", f"/evaluation/gate/{report.pk}/"):
        shown = admin.get(address).content.decode()
        assert f'action="/training/models/{champion.pk}/rollback/"' in shown, address
        assert "rollback/" not in expert.get(address).content.decode(), address


def test_the_history_shows_verdicts_and_overrides(two, browsers, admin):
    champion, model = two
    make_gate_report(model, champion, "fail")
    promote(model=model, actor=admin, override=WHY)
    for address in ("/training/models/", f"/training/models/{model.pk}/"):
        shown = browsers[1].get(address).content.decode()
        assert WHY in shown and "overridden" in shown and "fail" in shown


@pytest.mark.django_db(transaction=True)
def test_two_promotions_at_once_cannot_pass_on_reports_against_the_same_champion():
    """Each passed against the champion; whoever comes second would replace a model it was never compared with."""
    champion, *models = (make_model() for _ in range(3))
    crown(champion)
    for model in models:
        make_gate_report(model, champion)
    barrier, codes = threading.Barrier(2), []

    def move(model):
        try:
            barrier.wait()
            promote(model=model, actor=None, confirmed=True)
        except TraceError as error:
            codes.append(error.code)
        finally:
            connection.close()

    threads = [threading.Thread(target=move, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == ["no_gate"]
    assert AliasMove.objects.filter(alias="champion").count() == 2
