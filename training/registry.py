"""Which model is meant: ids, aliases, and where a model's files lie.

An alias is the newest row of an append-only history, so every promotion can be read back and undone by another.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from trace_site import audit
from trace_site.artefacts import store
from trace_site.lib.errors import TraceError
from trace_site.webhooks import emit
from training.models import AliasMove, Model

ALIAS_LOCK = 7_210_401  # advisory lock number: one promotion at a time


def current_aliases() -> dict[str, Model]:
    """{alias: the model it names now}; one query."""
    moves = AliasMove.objects.order_by("alias", "-id").distinct("alias")
    return {move.alias: move.model for move in moves.select_related("model__run__snapshot")}


def model_named(reference: str | int) -> Model:
    """The model of an id (`7`) or an alias (`champion`)."""
    models = Model.objects.select_related("run__snapshot")
    text = str(reference).strip()
    if text.isdecimal():
        model = models.filter(pk=int(text)).first()
        if model is None:
            raise TraceError(
                f"there is no model {text}.",
                code="not_found",
                hint=f"The models are: {_known() or 'none yet'}.",
            )
        return model
    if text not in AliasMove.Alias.values:
        raise TraceError(
            f"{text!r} is neither a model's id nor an alias.",
            code="not_found",
            hint=f"Use a number or one of {', '.join(AliasMove.Alias.values)}.",
        )
    move = AliasMove.objects.filter(alias=text).order_by("-id").first()
    if move is None:
        raise TraceError(
            f"no model is {text} yet.", code="not_found", hint="Promote one: manage.py promote --model ID."
        )
    return models.get(pk=move.model_id)


def _known() -> str:
    return ", ".join(map(str, Model.objects.order_by("-id").values_list("pk", flat=True)[:10]))


@transaction.atomic
def promote(*, model: Model, actor: Any, note: str = "") -> AliasMove:
    """Make the model champion; the old champion becomes previous. Promoting the champion again changes nothing."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [ALIAS_LOCK])
    old = AliasMove.objects.filter(alias=AliasMove.Alias.CHAMPION).order_by("-id").first()
    if old is not None and old.model_id == model.pk:
        return old
    if old is not None:
        AliasMove.objects.create(
            alias=AliasMove.Alias.PREVIOUS,
            model_id=old.model_id,
            actor=actor,
            note=f"replaced by model {model.pk}",
        )
    move = AliasMove.objects.create(alias=AliasMove.Alias.CHAMPION, model=model, actor=actor, note=note)
    audit.record(
        actor=actor,
        action="model.promoted",
        obj=model,
        detail={"alias": "champion", "previous": old.model_id if old else None, "note": note},
    )
    told = {"alias": "champion", "model": model.pk, "previous": old.model_id if old else None}
    emit("model.promoted", told)
    return move


def export_dir(model: Model) -> Path:
    """The model's folder on this machine, its digests verified once in the life of this process."""
    folder = _verified(settings.STORE_URL, model.store_key, model.store_digest)
    if not folder.is_dir():
        _verified.cache_clear()
        folder = _verified(settings.STORE_URL, model.store_key, model.store_digest)
    return folder


@lru_cache(maxsize=64)
def _verified(store_url: str, key: str, digest: str) -> Path:
    return store().get_dir(key, digest)
