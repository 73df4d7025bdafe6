"""Aliases are an append-only history; a model is found by id or by alias and verified before use."""

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, transaction

from tests.factories import make_model
from trace_site.audit import AuditEntry
from trace_site.lib.errors import TraceError
from training.models import AliasMove
from training.registry import current_aliases, export_dir, model_named, promote

pytestmark = pytest.mark.django_db


def test_promotion_keeps_the_old_champion_as_previous(user_with):
    old, new = make_model(), make_model()
    promote(model=old, actor=None)
    promote(model=new, actor=user_with("admin"), note="better on HR")
    assert current_aliases() == {"champion": new, "previous": old}
    entry = AuditEntry.objects.filter(action="model.promoted").first()
    assert entry.actor.username == "admin" and entry.detail["previous"] == old.pk


def test_promoting_previous_goes_back():
    old, new = make_model(), make_model()
    for model in (old, new):
        promote(model=model, actor=None)
    promote(model=model_named("previous"), actor=None)
    assert model_named("champion") == old and model_named("previous") == new


def test_promoting_the_champion_again_writes_nothing():
    model = make_model()
    assert promote(model=model, actor=None) == promote(model=model, actor=None)
    assert AliasMove.objects.count() == AuditEntry.objects.filter(action="model.promoted").count() == 1


def test_alias_history_cannot_be_changed():
    promote(model=make_model(), actor=None)
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
    call_command("promote", model=str(model.pk), json=True)
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
