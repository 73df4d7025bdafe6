"""Removing the files of models and stages that nothing needs; their rows stay and say so.

Order: the rows are marked first, the folders go after the commit. A kill in between leaves folders of marked rows,
which the next run removes; the other order would leave rows that promise files. Between the two, what became needed
meanwhile is looked up again and its rows are given back. Aliases move under the same lock.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from trace_site.artefacts import store
from trace_site.audit import models as audit_models
from trace_site.database import hold_lock
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from training.models import UNDER_WAY, Model, Retraining, Run, TrainedStage
from training.registry.registry import ALIAS_LOCK, current_aliases, earlier_champions, export_dir
from training.registry.selectors import alias_names

# What may leave the artefact store: folders that nothing needed lives in.
#
# In: which model and stage lives in which folder (a store key), and what is needed. Out: the keys that may go. The unit
# is the folder: rows that share one stay or go together.


@dataclass(frozen=True, slots=True)
class Held:
    """A row that has files. `why` says what needs them; empty: nothing does."""

    kind: str  # model or stage
    id: int
    store_key: str
    why: str = ""
    bytes: int = 0


def removable(held: Iterable[Held], last_valid: Collection[str] = ()) -> list[str]:
    """Store keys in which no needed row lives, in the order they were given; never one of `last_valid`."""
    rows = list(held)
    needed = {row.store_key for row in rows if row.why} | set(last_valid)
    return [key for key in dict.fromkeys(row.store_key for row in rows) if key and key not in needed]


ASKS = ("evaluation", "rule_tests", "gate")  # kinds of jobs that load a model
KINDS: dict[str, Any] = {"model": Model, "stage": TrainedStage}


@dataclass(slots=True)
class RetentionPlan:
    """What would be removed and what stays why; `bytes` counts each folder once."""

    goes: list[Held]
    stays: list[Held]
    keep: int = 0

    @property
    def keys(self) -> list[str]:
        return list(dict.fromkeys(row.store_key for row in self.goes))

    @property
    def bytes(self) -> int:
        return sum({row.store_key: row.bytes for row in self.goes}.values())


def plan(keep: int | None = None) -> RetentionPlan:
    """What retention would do now. keep: so many of the newest models stay whatever they are for."""
    keep = settings.MODEL_RETENTION_KEEP if keep is None else keep
    rows = held(keep)
    gone = set(removable(rows, _last_valid(rows)))
    goes = [row for row in rows if row.store_key in gone]
    return RetentionPlan(goes, [row for row in rows if row.store_key not in gone], keep)


def held(keep: int) -> list[Held]:
    """Every row that has files, with what needs them; the number of queries does not grow with them."""
    if keep < 0:
        raise TraceError("must not be negative.", code="bad_input", where="keep")
    rows = Model.objects.filter(removed_at=None).select_related("run").order_by("-pk")
    models = list(rows.only("store_key", "bytes", "kept_because", "run__stages"))
    why = _needed_models(models, keep)
    stages_of = {model.pk: {stage["key"] for stage in model.run.stages} for model in models}
    needed = _needed_stages()
    for model in models:
        for key in stages_of[model.pk] if why[model.pk] else ():
            needed.setdefault(key, f"a stage of model {model.pk}")
    stages = TrainedStage.objects.filter(removed_at=None).order_by("-pk")
    return [
        *(Held("model", row.pk, row.store_key, why[row.pk], row.bytes) for row in models),
        *(Held("stage", row.pk, row.store_key, needed.get(row.key, ""), row.bytes) for row in stages),
    ]


def _needed_models(models: Iterable[Model], keep: int) -> dict[int, str]:
    """{model: what needs it}, newest first."""
    aliases, asked, why = alias_names(current_aliases()), _asked(), {}
    back = next((one for one in earlier_champions() if one.removed_at is None), None)
    for place, model in enumerate(models):
        why[model.pk] = (
            ", ".join(sorted(aliases.get(model.pk, ())))
            or (f"kept: {model.kept_because}" if model.kept_because else "")
            or ("being evaluated" if model.pk in asked else "")
            or ("one click goes back to it" if model == back else "")
            or (f"one of the newest {keep}" if place < keep else "")
        )
    return why


def _asked() -> set[int]:
    """Models that a job loads or will load; an evaluation of the baseline alone names none."""
    named = Job.objects.filter(kind__in=ASKS, state__in=UNDER_WAY).values_list("params__model", flat=True)
    return {model for model in named if isinstance(model, int)}


def _needed_stages() -> dict[str, str]:
    """{stage key: what needs it}: runs under way, and what an active policy would go on from."""
    needed: dict[str, str] = {}
    for run in Run.objects.filter(job__state__in=UNDER_WAY).only("stages"):
        needed |= {stage["key"]: f"run {run.pk} is under way" for stage in run.stages}
    newest = Retraining.objects.filter(policy__active=True).order_by("policy_id", "-id").distinct("policy_id")
    for row in newest.select_related("run", "policy"):
        for stage in row.run.stages:
            needed.setdefault(stage["key"], f"policy {row.policy} reuses it")
    return needed


def _last_valid(rows: list[Held]) -> list[str]:
    """The folder of a model that is whole, a needed one if there is one: some model can always be loaded."""
    held_models = sorted((row for row in rows if row.kind == "model"), key=lambda row: (not row.why, -row.id))
    models = Model.objects.defer("card").in_bulk([row.id for row in held_models])
    for row in held_models:
        try:
            export_dir(models[row.id])
        except TraceError:
            continue
        return [row.store_key]
    return [held_models[0].store_key] if held_models else []


def apply(*, keep: int | None = None, actor: Any = None) -> dict[str, Any]:
    """Remove what `plan` says, and what an interrupted run left behind: {"models", "stages", "bytes", "restored"}."""
    plan(keep)  # reads files: not while aliases wait for the lock
    marked = _mark(keep, actor)
    restored = _give_back(marked.goes)
    for key in _leftovers():
        store().remove(key)
    rows = [row for row in marked.goes if row.store_key not in restored]
    return {
        "models": [row.id for row in rows if row.kind == "model"],
        "stages": [row.id for row in rows if row.kind == "stage"],
        "bytes": RetentionPlan(rows, []).bytes,
        "restored": sorted(restored),
    }


@transaction.atomic
def _mark(keep: int | None, actor: Any) -> RetentionPlan:
    hold_lock(ALIAS_LOCK)
    found = plan(keep)
    for kind, rows in KINDS.items():
        ids = [row.id for row in found.goes if row.kind == kind]
        objects = list(rows.objects.filter(pk__in=ids))
        rows.objects.filter(pk__in=ids).update(removed_at=Now())
        details = [(obj, {"store_key": obj.store_key, "bytes": obj.bytes}) for obj in objects]
        audit_models.record_all(actor=actor, action=f"{kind}.files_removed", objects=details)
    return found


@transaction.atomic
def _give_back(goes: list[Held]) -> set[str]:
    """Unmark what something began to need between reading and marking; returns its store keys."""
    hold_lock(ALIAS_LOCK)
    needed = set(TrainedStage.objects.filter(key__in=_needed_stages()).values_list("store_key", flat=True))
    needed |= set(Model.objects.filter(pk__in=_asked()).values_list("store_key", flat=True))
    back = {row.store_key for row in goes} & needed
    for kind, rows in KINDS.items():
        ids = [row.id for row in goes if row.kind == kind and row.store_key in back]
        objects = [(obj, {"store_key": obj.store_key}) for obj in rows.objects.filter(pk__in=ids)]
        rows.objects.filter(pk__in=ids).update(removed_at=None)
        audit_models.record_all(actor=None, action=f"{kind}.files_given_back", objects=objects)
    return back


def _leftovers() -> list[str]:
    """Folders of removed rows that are still there and that no live row shares."""
    keys: set[str] = set()
    for rows in KINDS.values():
        keys |= set(rows.objects.filter(removed_at__isnull=False).values_list("store_key", flat=True))
    for rows in KINDS.values():
        keys -= set(rows.objects.filter(removed_at=None).values_list("store_key", flat=True))
    return sorted(key for key in keys if key and store().has(key))


@transaction.atomic
def keep_by_hand(*, model: Model, note: str, actor: Any) -> Model:
    """Let retention pass this model by; `note`: why, an empty one takes the mark away."""
    hold_lock(ALIAS_LOCK)
    row = Model.objects.select_for_update().get(pk=model.pk)
    if note and row.removed_at is not None:
        raise TraceError(f"the files of model {row.pk} are gone already.", code="removed")
    row.kept_because = note.strip()[:300]
    row.save(update_fields=["kept_because"])
    action = "model.kept" if row.kept_because else "model.no_longer_kept"
    audit_models.record(actor=actor, action=action, obj=row, detail={"because": row.kept_because})
    return row
