"""What the rows of the ledger are called: the words of a table, the name of a row, and the page that shows it.

Pages and columns are named as texts, because the apps that own them lie to the right.
"""

from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from typing import Any

from django.apps import apps
from django.db import models
from django.db.models import CharField, F, QuerySet, Value
from django.db.models.functions import Cast, Left
from django.urls import NoReverseMatch, reverse

PAGES = {
    "benchmark": "evaluation:benchmark",
    "catalogimport": "catalog:import_detail",
    "changerequest": "rules:request",
    "cluster": "cluster",
    "evaluation": "evaluation:detail",
    "guideline": "synthesis:guideline",
    "job": "jobs:detail",
    "model": "training:model",
    "rule": "rules:detail",
    "run": "training:detail",
    "sample": "synthesis:sample",
    "snapshot": "synthesis:snapshot",
    "synthesisrun": "synthesis:detail",
    "tool": "catalog:detail",
    "user": "people:person",
    "webhook": "webhooks:detail",
}
# columns that name a row: the first that a table has, unless CALLED knows better
NAMES = ("name", "code", "title", "username", "slug", "filename", "url", "label", "query", "text")
CALLED = {
    "rules_rulechange": "rule__code",
    "rules_ruleversion": "rule__code",
    "rules_approval": "request__title",
    "rules_changecomment": "request__title",
    "auth_user_groups": "user__username",
    "auth_user_user_permissions": "user__username",
    "auth_group_permissions": "group__name",
    "training_aliasmove": "alias",
}


def names_of_rows(rows: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """{(table, row id): name} of the rows that still exist and have one; one query, however many tables."""
    ids: dict[str, list[int]] = defaultdict(list)
    for table, row_id in rows:
        if row_id.isdecimal():
            ids[table].append(int(row_id))
    parts = [part for table, keys in ids.items() if (part := _named(table, keys)) is not None]
    if not parts:
        return {}
    found = parts[0].union(*parts[1:], all=True) if len(parts) > 1 else parts[0]
    return {(table, str(key)): name for table, key, name in found if name}


def _named(table: str, keys: list[int]) -> QuerySet[Any, Any] | None:
    model = _models().get(table)
    if model is None or not isinstance(model._meta.pk, models.AutoField):
        return None
    columns = {column.name for column in model._meta.fields}
    column = CALLED.get(table) or next((name for name in NAMES if name in columns), None)
    if column is None:
        return None
    named = model._default_manager.filter(pk__in=keys).order_by()
    rows: QuerySet[Any, Any] = named.annotate(
        of_table=Value(table, output_field=CharField()),
        of_row=F("pk"),
        called=Left(Cast(column, CharField()), 120),
    ).values_list("of_table", "of_row", "called")
    return rows


@cache
def _models() -> dict[str, type[models.Model]]:
    known = {model._meta.db_table: model for model in apps.get_models(include_auto_created=True)}
    return {table: model for table, model in known.items() if not model._meta.proxy}


@cache
def model_names() -> dict[str, str]:
    """{table: what an AuditEntry calls its model}."""
    return {table: model._meta.model_name or "" for table, model in _models().items()}


@cache
def words_of(object_type: str) -> str:
    """changerequest -> change request."""
    tables = tables_of(object_type)
    return str(_models()[tables[0]]._meta.verbose_name).replace("-", " ") if tables else object_type


def tables_of(object_type: str) -> list[str]:
    return [table for table, name in model_names().items() if name == object_type]


def page_url(object_type: str, object_id: str) -> str:
    """Where the object is shown; empty when it has no page."""
    if not object_id.isdecimal() or object_type not in PAGES:
        return ""
    try:
        return reverse(PAGES[object_type], args=[int(object_id)])
    except NoReverseMatch:
        return ""
