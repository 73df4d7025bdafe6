"""Aliases are an append-only history; a model is found by id or by alias and verified before use."""

import threading

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction

from tests.factories import crown, make_model, make_rule, make_run, make_tool
from trace_site.audit.models import AuditEntry
from trace_site.lib.errors import TraceError
from training.models import AliasMove
from training.registry import registry
from training.registry.registry import (
    current_aliases,
    export_dir,
    model_named,
    promote,
    roll_back,
    set_challenger,
)

pytestmark = pytest.mark.django_db


def test_promotion_keeps_the_old_champion_as_previous(user_with):
    old, new = make_model(), make_model()
    crown(model=old, actor=None)
    crown(model=new, actor=user_with("admin"), note="better on HR")
    assert current_aliases() == {"champion": new, "previous": old}
    entry = AuditEntry.objects.filter(action="model.promoted").first()
    assert entry.actor.username == "admin" and entry.detail["previous"] == old.pk


def test_promoting_previous_goes_back():
    old, new = make_model(), make_model()
    for model in (old, new):
        crown(model=model, actor=None)
    crown(model=model_named("previous"), actor=None)
    assert model_named("champion") == old and model_named("previous") == new


def test_promoting_the_champion_again_writes_nothing():
    model = make_model()
    assert crown(model=model, actor=None) == crown(model=model, actor=None)
    assert AliasMove.objects.count() == AuditEntry.objects.filter(action="model.promoted").count() == 1


def test_alias_history_cannot_be_changed():
    crown(model=make_model(), actor=None)
    with pytest.raises(DatabaseError, match="frozen"), transaction.atomic():
        AliasMove.objects.update(note="other")


def test_unknown_model_or_alias_says_what_there_is():
    model = make_model()
    with pytest.raises(TraceError, match=f"there is no model 999999. The models are: {model.pk}"):
        model_named("999999")
    with pytest.raises(TraceError, match="neither a model's id nor an alias"):
        model_named("winner")
    with pytest.raises(TraceError, match="no model is champion yet. Promote one"):
        model_named("champion")


def test_promote_command_moves_the_alias(capsys):
    model = make_model()
    call_command("promote", model=str(model.pk), confirm=True, json=True)
    assert '"alias": "champion"' in capsys.readouterr().out.splitlines()[-1]
    with pytest.raises(CommandError, match="neither"):
        call_command("promote", model="best")


def test_model_whose_files_changed_is_refused(settings, tmp_path):
    from trace_site.artefacts import store

    settings.STORE_URL = (tmp_path / "store").as_uri()
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "trace.json").write_text("{}")
    digest = store().put_dir(tmp_path / "export", "models/x")
    model = make_model(store_key="models/x", store_digest=digest)
    (tmp_path / "store" / "models" / "x" / "trace.json").write_text('{"other": 1}')
    with pytest.raises(TraceError, match="differ from their digests"):
        export_dir(model)


def test_rolling_back_is_one_step_and_says_what_was_rolled_back(user_with):
    first, second = make_model(), make_model()
    for model in (first, second):
        crown(model=model, actor=None)
    move = roll_back(actor=user_with("admin"), note="answers in English only")
    assert current_aliases() == {"champion": first, "previous": second}
    assert move.note == f"back from model {second.pk}: answers in English only"
    entry = AuditEntry.objects.get(action="model.rolled_back")
    assert (entry.actor.username, entry.detail["rolled_back"]) == ("admin", second.pk)
    assert move.gate == {"back_from": second.pk}
    for to in (None, second):  # it would come back past its gate
        with pytest.raises(TraceError, match=f"model {second.pk} was rolled back"):
            roll_back(actor=None, model=to)


def test_a_new_champion_wakes_the_sweeper(monkeypatch, django_capture_on_commit_callbacks):
    woken, model = [], make_model()
    monkeypatch.setattr(registry, "wake_worker", woken.append)
    with django_capture_on_commit_callbacks(execute=True):
        crown(model=model, actor=None)
        crown(model=model, actor=None)  # it is the champion already
    assert woken == ["sweep"]


def test_rolling_back_reaches_any_earlier_champion_and_no_other_model():
    models = [make_model() for _ in range(3)]
    for model in models:
        crown(model=model, actor=None)
    assert roll_back(actor=None, model=models[0]).model == models[0]
    assert current_aliases()["previous"] == models[2]
    with pytest.raises(TraceError, match="is the champion already"):
        roll_back(actor=None, model=models[0])
    with pytest.raises(TraceError, match="never was champion"):
        roll_back(actor=None, model=make_model())


def test_nothing_to_go_back_to_is_said():
    with pytest.raises(TraceError, match="no earlier champion to go back to: no model was champion before"):
        roll_back(actor=None)
    crown(model=make_model(), actor=None)
    with pytest.raises(CommandError, match="no earlier champion"):
        call_command("rollback")


def test_rollback_command_goes_back(capsys):
    first, second = make_model(), make_model()
    for model in (first, second):
        crown(model=model, actor=None)
    call_command("rollback", note="worse on HR", json=True)
    assert f'"model": {first.pk}' in capsys.readouterr().out.splitlines()[-1]


def test_challenger_is_set_once_and_never_the_champion():
    champion, challenger = make_model(), make_model()
    crown(model=champion, actor=None)
    with pytest.raises(TraceError, match="is the champion"):
        set_challenger(model=champion, actor=None)
    move = set_challenger(model=challenger, actor=None)
    assert set_challenger(model=challenger, actor=None) == move
    assert current_aliases()["challenger"] == challenger
    assert AuditEntry.objects.filter(action="model.challenger_set").count() == 1


@pytest.mark.django_db(transaction=True)
def test_many_moves_at_once_leave_a_history_without_gaps(user_with):
    admin, why = user_with("admin"), "six at once, so nobody is compared with anybody"
    models = [make_model() for _ in range(6)]
    barrier = threading.Barrier(len(models))

    def move(model):
        try:
            barrier.wait()
            promote(model=model, actor=admin, override=why)
        finally:
            connection.close()

    threads = [threading.Thread(target=move, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    crowned = list(AliasMove.objects.filter(alias="champion").order_by("id").values_list("model", flat=True))
    replaced = list(AliasMove.objects.filter(alias="previous").order_by("id").values_list("model", flat=True))
    assert sorted(crowned) == sorted(model.pk for model in models) and replaced == crowned[:-1]


def stored_model(settings, tmp_path):
    from trace_site.artefacts import store

    settings.STORE_URL, settings.TRACE_HOME = (tmp_path / "store").as_uri(), tmp_path
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "trace.json").write_text("{}")
    digest = store().put_dir(tmp_path / "export", "models/x")
    return make_model(store_key="models/x", store_digest=digest)


def test_byte_that_flips_after_the_first_load_is_refused_on_every_way_to_the_model(
    settings, tmp_path, client_as
):
    from evaluation.benchmarks.services import evaluation_request
    from evaluation.retrieval import retriever
    from trace_site import jobs

    model = stored_model(settings, tmp_path)
    settings.JOB_LEASE_SECONDS = 3600
    crown(model=model, actor=None)
    assert export_dir(model) == export_dir(model)
    weights = tmp_path / "store" / "models" / "x" / "trace.json"
    weights.write_text("[]")
    said = f"model {model.pk} is not loaded: the stored files differ from their digests"
    with pytest.raises(TraceError, match=said):
        retriever.retrieve(retriever.Query("x"), model.pk)
    page = client_as("expert").get(
        "/evaluation/playground/answer/", {"q": "x", "model": model.pk, "mode": "fast"}
    )
    assert said in page.content.decode().replace("Model", "model")
    make_rule(make_tool("Pay/A"), make_tool("Pay/B"), tests=[{"query": "a", "tools": ["Pay/A"]}])
    job = jobs.run(evaluation_request(model=model).pk)
    assert job.state == "failed" and said in job.error
    weights.write_text("{}")
    assert export_dir(model).is_dir()


def test_verified_folder_is_read_once_while_nobody_touches_it(settings, tmp_path, monkeypatch):
    from trace_site.lib import store

    model = stored_model(settings, tmp_path)
    export_dir(model)
    monkeypatch.setattr(store, "sha256_file", lambda path: pytest.fail("read again"))
    assert export_dir(model).is_dir()


@pytest.mark.parametrize(
    ("base", "moved"), [("pocket", ("<<NEW#1>>", "<<OLD#1>>")), ("smollm", ("<<NEW#1>>",))]
)
def test_a_model_is_measured_by_the_clauses_in_force_and_a_language_model_keeps_what_it_learned(
    monkeypatch, base, moved
):
    model = make_model(run=make_run(base=base))
    taught = frozenset({"<<OLD#1>>", "<<RULE#1>>"})  # OLD was withdrawn
    force = [{"token": f"<<{code}#1>>", "waits": code == "LATER"} for code in ("RULE", "NEW", "LATER")]
    monkeypatch.setattr(registry, "held_clauses", lambda: force)
    monkeypatch.setattr(registry, "facts_of", lambda _: registry.Facts(clauses=taught))
    served = registry.Served.now(model)
    assert (served.clauses, served.moved) == (tuple(force), moved)
    monkeypatch.setattr(registry, "facts_of", lambda _: registry.Facts())
    assert registry.Served.now(model).clauses == (), "a control, or an export that does not tell"
