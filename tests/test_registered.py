"""What happens is registered by the app it happens in: events, kinds of notices, and rows that are audited."""

import ast
import re

import pytest
from django.apps import apps
from django.urls import reverse
from django.utils.module_loading import import_string

from tests.sources import modules
from trace_site.audit.log import model_names, words_of
from trace_site.impact import declared_by_apps
from trace_site.notices.services import KINDS
from trace_site.webhooks.services import EVENTS


def texts_given(names: set[str], place: int) -> set[str]:
    """What calls of these functions are given at a place, where it is written out."""
    calls = [node for tree in modules().values() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    named = [call for call in calls if getattr(call.func, "attr", getattr(call.func, "id", "")) in names]
    given = [node for call in named if len(call.args) > place for node in ast.walk(call.args[place])]
    return {node.value for node in given if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_every_event_that_is_sent_is_registered_and_every_registered_one_is_sent():
    sent = {text for text in texts_given({"emit", "emit_all"}, 0) if re.fullmatch(r"\w+\.\w+", text)}
    assert len(sent) > 5 and sent <= set(EVENTS)
    written = {n.value for t in modules().values() for n in ast.walk(t) if isinstance(n, ast.Constant)}
    assert set(EVENTS) <= written


def test_every_kind_of_notice_that_is_told_is_registered():
    assert texts_given({"tell"}, 1) - set(KINDS) == set()


@pytest.mark.django_db
def test_every_audited_table_has_words_and_every_page_of_the_audit_an_address():
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT tgrelid::regclass::text FROM pg_trigger JOIN pg_proc p ON p.oid = tgfoid "
            "WHERE starts_with(p.proname, 'trace_audit_of_')"
        )
        audited = {name for (name,) in cursor.fetchall()}
    assert len(audited) > 30 and audited <= set(model_names())
    for name, page in declared_by_apps("audit_pages").items():
        assert name in model_names().values() and words_of(name) and reverse(page, args=[1])
    assert set(declared_by_apps("audit_names")) <= set(model_names())


def test_every_function_that_an_app_names_exists():
    for app in apps.get_app_configs():
        named = [*getattr(app, "impact", {}).values(), *getattr(app, "audit_veils", ())]
        hooks = ("made_of_snapshots", "model_scores", "failing_requests", "rule_wording")
        named += filter(None, (getattr(app, name, "") for name in hooks))
        assert all(import_string(name) is not None for name in named)
