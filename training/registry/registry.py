"""Which model is meant: ids, aliases, and where a model's files lie.

An alias is the newest row of an append-only history, so every move can be read back. All moves take one lock, as
retention does: a model whose files are gone can never be named.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from django.apps import apps
from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Left
from django.utils.module_loading import import_string

from catalog.models import Tool
from catalog.services import retired_names
from rules.core.text_clauses import LEADING
from rules.selectors import clauses_in_force
from synthesis.models import LoopSettings
from trace_site.artefacts import store
from trace_site.audit import models as audit_models
from trace_site.celery import wake_worker
from trace_site.database import hold_lock
from trace_site.lib.errors import TraceError, not_found
from trace_site.lib.store import reaching
from trace_site.webhooks.services import emit
from training.core.recipe import POCKET
from training.models import AliasMove, Model
from training.registry import gate

# newer tools; an engine reads them, some 100 a second, within the first question after an import
MOST_HELD = 500
LONGEST_READ = 4000  # characters of a description, of which an encoder reads less
ALIAS_LOCK = 7_210_401  # advisory lock number: held to the end of a transaction, one move at a time
Alias = AliasMove.Alias
Stamp = tuple[tuple[str, int, int], ...]


def current_aliases() -> dict[str, Model]:
    """{alias: the model it names now}; one query."""
    moves = AliasMove.objects.order_by("alias", "-id").distinct("alias")
    return {move.alias: move.model for move in moves.select_related("model__run__snapshot")}


def model_named(reference: str | int) -> Model:
    """The model of an id (`7`) or an alias (`champion`)."""
    models = Model.objects.select_related("run__snapshot")
    text = str(reference).strip()
    if text.isdecimal():
        if (model := models.filter(pk=int(text)).first()) is None:
            newest_first = models.order_by("-id").values_list("pk", flat=True)
            raise not_found(f"model {text}", "models", newest_first[:10])
        return model
    if text not in Alias.values:
        problem = f"{text!r} is neither a model's id nor an alias."
        raise TraceError(problem, code="not_found", hint=f"Use a number or one of {', '.join(Alias.values)}.")
    move = newest(text)
    if move is None:
        raise TraceError(
            f"no model is {text} yet.", code="not_found", hint="Promote one: manage.py promote --model ID."
        )
    return models.get(pk=move.model_id)


def newest(alias: str) -> AliasMove | None:
    return AliasMove.objects.filter(alias=alias).order_by("-id").first()


def champion_moves() -> list[AliasMove]:
    """Every move of champion, the oldest first, with what pages say of its model and its actor; one query."""
    rows = AliasMove.objects.filter(alias=Alias.CHAMPION).select_related("model__run", "actor").order_by("pk")
    return list(
        rows.only(
            *("alias", "model", "actor__username", "note", "gate", "override", "at"),
            *("model__run", "model__removed_at"),
            *("model__run__format", "model__run__memo", "model__run__retrieval"),
        )
    )


def earlier_champions(moves: Iterable[AliasMove] | None = None) -> list[Model]:
    """Whom one may go back to, the nearest first: those that the promotions that still stand put others in place of.
    Going back takes off its promotion and all after it."""
    line: list[Model] = []
    for move in champion_moves() if moves is None else moves:
        if "back_from" in move.gate and move.model in line:
            while line[-1] != move.model:
                line.pop()
        else:
            line.append(move.model)
    found = dict.fromkeys(reversed(line[:-1]))
    return [model for model in found if model != line[-1]]


def no_way_back(moves: Sequence[AliasMove]) -> str:
    """Why nobody can be gone back to; empty where an earlier champion has its files."""
    if any(model.removed_at is None for model in earlier_champions(moves)):
        return ""
    former = dict.fromkeys(move.model for move in reversed(moves) if move.model_id != moves[-1].model_id)
    kept, gone = ([one.pk for one in former if (one.removed_at is None) is has] for has in (True, False))
    reasons = []
    if kept:
        verb, one = ("were", "one of them") if len(kept) > 1 else ("was", "it")
        reasons.append(f"{_named(kept)} {verb} rolled back, so only a promotion brings {one} back")
    if gone:
        reasons.append(f"retention removed the files of {_named(gone)}")
    return "; ".join(reasons) or "no model was champion before"


def _named(models: Sequence[int]) -> str:
    return f"model{'s' if len(models) > 1 else ''} {', '.join(map(str, models))}"


@transaction.atomic
def promote(
    *,
    model: Model,
    actor: Any,
    note: str = "",
    override: str = "",
    confirmed: bool = False,
    report: int | None = None,
) -> AliasMove:
    """Make the model champion; the old champion becomes previous. Promoting the champion again changes nothing.

    What the gate asks for is asked under the lock, of the champion that is replaced: see gate.check, also for what it
    raises. `report`: the gate report that the actor has read.
    """
    hold_lock(ALIAS_LOCK)
    old = newest(Alias.CHAMPION)
    if old is not None and old.model_id == model.pk:
        return old
    refuse_removed(model)
    champion = old.model_id if old else None
    word, override = gate.check(
        model=model,
        champion=champion,
        actor=actor,
        override=override,
        confirmed=confirmed,
        report=report,
    )
    said = {"gate": word.as_dict(), "override": override}
    move = _crown(model, old, actor, note, f"replaced by model {model.pk}", **said)
    detail = {"alias": Alias.CHAMPION, "previous": champion, "note": note, **said}
    audit_models.record(actor=actor, action="model.promoted", obj=model, detail=detail)
    return move


@transaction.atomic
def roll_back(*, actor: Any, model: Model | None = None, note: str = "") -> AliasMove:
    """Make an earlier champion champion again (None: the nearest that has files); what is rolled back becomes previous.

    No gate is asked, so nobody comes back this way who was gone back from: `earlier_champions`. Raises TraceError
    `bad_state` when there is nothing to go back to, or the model is none of them.
    """
    hold_lock(ALIAS_LOCK)
    old, moves = newest(Alias.CHAMPION), champion_moves()
    earlier = earlier_champions(moves)
    model = model or next((one for one in earlier if one.removed_at is None), None)
    if old is None or model is None:
        hint = "Promote a model instead: manage.py promote --model ID."
        problem = f"there is no earlier champion to go back to: {no_way_back(moves)}."
        raise TraceError(problem, code="bad_state", hint=hint)
    if model.pk == old.model_id:
        raise TraceError(f"model {model.pk} is the champion already.", code="bad_state")
    if model not in earlier:
        was = AliasMove.objects.filter(alias=Alias.CHAMPION, model=model).exists()
        problem = "was rolled back itself" if was else "never was champion"
        hint = "Promote it instead: that is a decision of its own."
        raise TraceError(f"model {model.pk} {problem}.", code="bad_state", hint=hint)
    refuse_removed(model)
    said = f"back from model {old.model_id}{f': {note}' if note else ''}"
    back = {"back_from": old.model_id}
    move = _crown(model, old, actor, said, f"rolled back to model {model.pk}", gate=back)
    detail = {"alias": Alias.CHAMPION, "rolled_back": old.model_id, "note": note}
    audit_models.record(actor=actor, action="model.rolled_back", obj=model, detail=detail)
    return move


@transaction.atomic
def set_challenger(*, model: Model, actor: Any, note: str = "") -> AliasMove:
    """Name the model that is watched beside the champion: rule tests run on it, the playground offers it."""
    hold_lock(ALIAS_LOCK)
    old, champion = newest(Alias.CHALLENGER), newest(Alias.CHAMPION)
    if champion is not None and champion.model_id == model.pk:
        raise TraceError(f"model {model.pk} is the champion.", code="bad_state", hint="Choose another model.")
    if old is not None and old.model_id == model.pk:
        return old
    refuse_removed(model)
    move = _moved(Alias.CHALLENGER, model.pk, actor, note)
    detail = {"alias": Alias.CHALLENGER, "before": old.model_id if old else None, "note": note}
    audit_models.record(actor=actor, action="model.challenger_set", obj=model, detail=detail)
    emit("model.promoted", {"alias": Alias.CHALLENGER, "model": model.pk, "previous": detail["before"]})
    return move


def _crown(model: Model, old: AliasMove | None, actor: Any, note: str, why: str, **gate: Any) -> AliasMove:
    if old is not None:
        _moved(Alias.PREVIOUS, old.model_id, actor, why)
    move = _moved(Alias.CHAMPION, model.pk, actor, note, **gate)
    told = {"alias": "champion", "model": model.pk, "previous": old.model_id if old else None}
    emit("model.promoted", told)
    transaction.on_commit(lambda: wake_worker("sweep"))  # what is counted of the champion follows
    return move


def _moved(alias: str, model: int, actor: Any, note: str, **gate: Any) -> AliasMove:
    return AliasMove.objects.create(alias=alias, model_id=model, actor=actor, note=note[:300], **gate)


def refuse_removed(model: Model) -> None:
    """Read under the lock that retention takes too, it holds to the end of the transaction. Raises TraceError."""
    if (at := Model.objects.values_list("removed_at", flat=True).get(pk=model.pk)) is not None:
        raise _removed(model, at)


def _removed(model: Model, at: Any) -> TraceError:
    problem = f"model {model.pk} has no files any more: retention removed them on {at:%Y-%m-%d}."
    return TraceError(problem, code="removed", hint="Clone its run to train it again.", permanent=True)


@contextmanager
def _files_of(model: Model) -> Iterator[None]:
    """What the store says of them names the model. Raises TraceError `removed`."""
    if model.removed_at is not None:
        raise _removed(model, model.removed_at)
    try:
        yield
    except TraceError as error:
        error.message = f"model {model.pk} is not loaded: {error.message}"
        error.args = (error.message,)
        raise


def export_dir(model: Model) -> Path:
    """The model's folder on this machine. Its digests are verified the first time, and whenever a file has another
    size or time than when it was verified. Raises TraceError `removed`, `store_missing` or `store_corrupt`.
    """
    with _files_of(model):
        local = store().local_dir(model.store_key, model.store_digest)
        return _verified(settings.STORE_URL, model.store_key, model.store_digest, stamp(local))


def check_files(model: Model) -> None:
    """Raises as `export_dir`. From a store on other machines nothing is fetched but what `facts_of` reads: the engine
    looks at the rest when it loads the model."""
    if store().is_local:
        export_dir(model)
    else:
        facts_of(model)


def stamp(folder: Path) -> Stamp:
    """Names, sizes and times of all files below: another stamp means the folder was touched."""
    found: list[tuple[str, int, int]] = []
    folders = [str(folder)]
    while folders:  # every request for tools asks this, and Path.rglob would take most of a millisecond
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_file():
                    at = entry.stat()
                    found.append((entry.path, at.st_size, at.st_mtime_ns))
    return tuple(sorted(found))


@lru_cache(maxsize=64)
def _verified(store_url: str, key: str, digest: str, stamped: Stamp) -> Path:
    return store().get_dir(key, digest)


# What models score, told by the function that the app which evaluates names in its AppConfig.


@dataclass(frozen=True, slots=True)
class Score:
    """One figure of a model: its mean with the interval and n, what it measures, and the page behind it."""

    value: float | None
    low: float | None
    high: float | None
    n: int | None
    label: str
    url: str


def scores_of(models: Iterable[int]) -> dict[int, Score]:
    """{model id: its score} of the models that have one."""
    wanted = list(models)
    named = [getattr(app, "model_scores", "") for app in apps.get_app_configs()]
    tellers: list[Callable[[list[int]], dict[int, Score]]] = [import_string(name) for name in named if name]
    return {pk: score for teller in tellers for pk, score in teller(wanted).items()} if wanted else {}


# Which tools a model has tokens for, as its export says, and which came to the catalog after it.


class Facts(NamedTuple):
    """What an export says of itself. `tools`: names; `clauses`: tokens of those it was taught, none of a language
    model's of before exports said so; `is_outdated`: it is of the pocket model of before, which wrote and cannot be
    asked any more."""

    tools: frozenset[str] = frozenset()
    clauses: frozenset[str] = frozenset()
    is_outdated: bool = False


def facts_of(model: Model) -> Facts:
    """From its trace.json alone, which is read once. Raises as `export_dir`."""
    with _files_of(model):
        return _facts(settings.STORE_URL, model.store_key, model.store_digest)


@lru_cache(maxsize=16)
def _facts(store_url: str, key: str, digest: str) -> Facts:
    with reaching(key):
        spec = json.loads(store().read(key, digest, "trace.json"))
    return Facts(
        frozenset(tool["name"] for tool in spec.get("tools", ())),
        frozenset(one["token"] for one in spec.get("clauses", ())),
        spec.get("base") == POCKET and "calibration" not in spec,
    )


def newer_tools(model: Model) -> QuerySet[Tool] | None:
    """Active tools the model has no token for; None where its files are gone."""
    try:
        known = facts_of(model).tools
    except (TraceError, OSError):
        return None
    return newer_than(known).defer("embedding", "search", "words")


def newer_than(known: Set[str]) -> QuerySet[Tool]:
    """Active tools beside those."""
    names = Tool.objects.filter(status=Tool.Status.ACTIVE).order_by().values_list("name", flat=True)
    return Tool.objects.filter(name__in=[name for name in names if name not in known])


def holds_newer(model: Model) -> bool:
    """Whether its engine answers with newer tools too: a base with an encoder reads their descriptions."""
    return model.run.base == POCKET


def held_tools(newer: QuerySet[Tool]) -> list[dict[str, Any]]:
    """Of tools newer than a model those that its engine answers with, at most MOST_HELD, the newest first; as it reads
    them."""
    return as_held(newer.order_by("-pk")[:MOST_HELD])


def as_held(tools: QuerySet[Tool]) -> list[dict[str, Any]]:
    """As an engine is told of tools."""
    names = ("name", "description", "domain", "permissions", "deprecated")
    rows = tools.values_list("name", Left("description", LONGEST_READ), *names[2:])
    return [dict(zip(names, row, strict=True)) for row in rows]


def held_clauses() -> list[dict[str, Any]]:
    """As an engine is told of the clauses that are in force. What `waits` speaks only where it was taught."""
    answers = LoopSettings.now().answer
    return [one | {"waits": one["waits"] or not answers} for one in clauses_in_force()]


def untaught_clauses(model: Model | None) -> dict[str, bool]:
    """{token: whether it waits for training} of the clauses of published rules that lead to tools and that a model was
    not taught; None: plain search, which no training taught. None of a model that writes, which holds no clauses."""
    if model is not None and not holds_newer(model):
        return {}
    try:
        taught = facts_of(model).clauses if model else frozenset()
    except (TraceError, OSError):
        return {}
    return {
        one["token"]: one["waits"]
        for one in held_clauses()
        if one["stance"] in LEADING and one["token"] not in taught
    }


@dataclass(frozen=True, slots=True)
class Served:
    """How a model is served now: without its tools that are retired, with those that are newer than it, and by the
    clauses that are in force. A model that was trained without the samples of rules is measured without their clauses:
    it is what others are compared with."""

    without: tuple[str, ...] = ()
    newer: tuple[dict[str, Any], ...] = ()
    clauses: tuple[dict[str, Any], ...] = ()
    # tokens of clauses in force that it was not taught, and of those it was that are not
    moved: tuple[str, ...] = ()

    @classmethod
    def now(cls, model: Model) -> "Served":
        """Blocks are for a day and no part of it. Raises as `export_dir`."""
        known, taught, _ = facts_of(model)
        newer = held_tools(newer_than(known)) if holds_newer(model) else []
        clauses = held_clauses() if taught else []
        now = {one["token"] for one in clauses if one["token"] in taught or not one["waits"]}
        # what a language model has learned it keeps, in force or not
        moved = taught ^ now if holds_newer(model) else now - taught
        return cls(tuple(sorted(retired_names() & known)), tuple(newer), tuple(clauses), tuple(sorted(moved)))

    def counted(self, model: Model) -> dict[str, int]:
        """{clauses, rules, untrained}: how many may decide, of how many rules, how many of them it was not taught."""
        taught = facts_of(model).clauses
        leading = [one for one in self.clauses if one["stance"] in LEADING]
        held = [one for one in leading if one["token"] in taught or not one["waits"]]
        return {
            "clauses": len(held),
            "rules": len({one["domain"] + one["rule"] for one in held}),
            "untrained": sum(one["token"] not in taught for one in held),
        }


def lost_tools(model: Model, champion: Model) -> list[str]:
    """Active tools that the champion answers with and the model could not, by name; none where files are gone."""
    try:
        ours, theirs = facts_of(model).tools, facts_of(champion).tools
    except (TraceError, OSError):
        return []
    lost = Tool.objects.filter(status=Tool.Status.ACTIVE, name__in=theirs - ours)
    return list(lost.order_by("name").values_list("name", flat=True))
