"""The strip on every page while no model answers yet or one is being made: what answers now, how right it is, what is
under way and how long that takes. Every page asks for it, so all of it is one query."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import F, Value
from django.db.models.functions import Extract, JSONObject, Now
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.functional import SimpleLazyObject
from django.views.decorators.http import require_GET

from evaluation.core.metrics import ALL
from evaluation.models import DomainRollup
from trace_site.jobs import Job
from training.core.recipe import STAGES
from training.models import UNDER_WAY, AliasMove

WORDS = {"training": "Training run", "evaluation": "Measuring model", "gate": "Gate of model"}


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A job that makes, measures or gates a model. `taken`: seconds since it started; `run`, `stages`: what it trains."""

    job: Job
    taken: float | None
    run: int | None
    stages: list[dict[str, Any]] | None

    @property
    def title(self) -> str:
        number = self.run or self.job.params.get("model")
        return f"{WORDS[self.job.kind]} {number}" if number else self.job.title

    @property
    def url(self) -> str:
        if self.run is not None:
            return reverse("training:detail", args=[self.run])
        return reverse("jobs:detail", args=[self.job.pk])

    @property
    def seconds_left(self) -> float | None:
        """A training job counts the stage it is in: the later ones take what they were expected to."""
        left = self.job.seconds_left
        if left is None or not self.stages:
            return left
        names = [STAGES[row["stage"]].lower() for row in self.stages]
        here = self.job.note.partition(":")[0]
        later = self.stages[names.index(here) + 1 :] if here in names else []
        return left + sum(row.get("seconds") or 0.0 for row in later)

    @property
    def percent(self) -> int:
        """Of the time from its start to its end."""
        left = self.seconds_left
        return round(100 * self.taken / (self.taken + left)) if left is not None and self.taken else 0


@dataclass(frozen=True, slots=True)
class Strip:
    """`model`: the champion, None where plain search answers. Of `asked` labelled requests its first tool is right in
    `right`; none asked: not measured. `waiting`: jobs beside the first."""

    model: int | None
    right: int
    asked: int
    first: UnderWay | None
    waiting: int

    @property
    def is_shown(self) -> bool:
        return self.model is None or self.first is not None


def strip() -> Strip:
    """One query."""
    champion = AliasMove.objects.filter(alias=AliasMove.Alias.CHAMPION).order_by("-pk")
    active = Job.objects.filter(kind__in=WORDS, state__in=UNDER_WAY).order_by("-state", "pk")
    fields = ("pk", "kind", "title", "params", "state", "done", "total", "rate", "note")
    job = JSONObject(**{name: F(name) for name in fields})
    taken = Extract(Now() - F("started_at"), "epoch")
    trained = {"run": "training_run", "stages": "training_run__stages"}
    parts = [
        champion.values_list(Value("champion"), JSONObject(model="model_id"))[:1],
        DomainRollup.objects.values_list(Value("domains"), JSONObject(model="model_id", groups="groups")),
        active.values_list(Value("jobs"), JSONObject(job=job, taken=taken, **trained)),
    ]
    found: dict[str, list[dict[str, Any]]] = {"champion": [], "domains": [], "jobs": []}
    for part, row in parts[0].union(*parts[1:], all=True):
        found[part].append(row)
    model = found["champion"][0]["model"] if found["champion"] else None
    jobs = [UnderWay(**{**row, "job": Job(**row["job"])}) for row in found["jobs"]]
    counted = _counted(model, ((row["model"], row["groups"]) for row in found["domains"]))
    return Strip(model, *counted, jobs[0] if jobs else None, len(jobs[1:]))


def first_tools(model: int | None) -> tuple[int, int]:
    """Of a model or of plain search: (in how many labelled requests its first tool is right, of how many)."""
    return _counted(model, DomainRollup.objects.values_list("model_id", "groups"))


def _counted(model: int | None, domains: Iterable[tuple[int | None, dict[str, Any]]]) -> tuple[int, int]:
    """Over all domains; (0, 0) where they are counted for another model."""
    side = "_embedding" if model is None else ""
    counts = [groups[ALL] for of, groups in domains if model in (None, of)]
    asked = sum(one[f"n{side}"] for one in counts)
    return asked - sum(one[f"wrong{side}"] for one in counts), asked


def strip_context(request: HttpRequest) -> dict[str, Any]:
    """For base.html: asked only where a page shows it."""
    return {"strip": SimpleLazyObject(strip)}


@require_GET
def strip_live(request: HttpRequest) -> HttpResponse:
    """The strip again, as it polls; once a model answers and nothing is under way it says so a last time."""
    return render(request, "evaluation/_strip.html", {"strip": strip()})
