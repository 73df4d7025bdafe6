"""The strip on every page while no model answers yet or one is being made: what answers now, how right it is, what is
under way and how long that takes. Every page asks for it, so all of it is one query."""

from dataclasses import dataclass
from typing import Any

from django.db.models import F, JSONField, Value
from django.db.models.functions import Coalesce, JSONObject
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.functional import SimpleLazyObject
from django.views.decorators.http import require_GET

from evaluation.core.metrics import ALL
from evaluation.coverage.counted import Counted, counted, newest_counts
from trace_site.jobs import Job
from training.core.recipe import STAGES
from training.models import UNDER_WAY, AliasMove

WORDS = {"training": "Training run", "evaluation": "Measuring model", "gate": "Gate of model"}


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A job that makes, measures or gates a model; `run` and its `stages` are what it trains."""

    job: Job
    run: int | None
    stages: list[dict[str, Any]]

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
    def expected(self) -> tuple[float, float, float]:
        """Seconds that the stages before this one, this one, and those after it were expected to take when the run
        began; a training job counts the stage it is in."""
        seconds = [row.get("seconds") or 0.0 for row in self.stages]
        names = [STAGES[row["stage"]].lower() for row in self.stages]
        here = self.job.note.partition(":")[0]
        at = names.index(here) if here in names else 0
        return sum(seconds[:at]), sum(seconds[at : at + 1]), sum(seconds[at + 1 :])

    @property
    def percent(self) -> int:
        before, here, after = self.expected
        whole = before + here + after
        return round((100 * before + self.job.percent * here) / whole) if whole else self.job.percent

    @property
    def time_left(self) -> str:
        if self.job.seconds_left is None:
            return ""
        left = self.job.seconds_left + self.expected[-1]
        return f"{left / 60:.0f} min" if left >= 90 else f"{left:.0f} s"


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
    trained = {"run": "training_run", "stages": Coalesce("training_run__stages", Value([], JSONField()))}
    parts = [
        champion.values_list(Value("champion"), JSONObject(model="model_id"))[:1],
        newest_counts().values_list(Value("count"), JSONObject(pk="pk"))[:1],
        active.values_list(Value("jobs"), JSONObject(job=job, **trained)),
    ]
    found: dict[str, list[dict[str, Any]]] = {"champion": [], "count": [], "jobs": []}
    for part, row in parts[0].union(*parts[1:], all=True):
        found[part].append(row)
    model = found["champion"][0]["model"] if found["champion"] else None
    jobs = [UnderWay(**{**row, "job": Job(**row["job"])}) for row in found["jobs"]]
    told = first_tools(model, counted(found["count"][0]["pk"] if found["count"] else 0))
    return Strip(model, *told, jobs[0] if jobs else None, len(jobs[1:]))


def first_tools(model: int | None, of: Counted | None = None) -> tuple[int, int]:
    """Of a model or of plain search: (in how many labelled requests its first tool is right, of how many), over all
    domains of a count, else the newest; (0, 0) where it is of another model."""
    side = "_embedding" if model is None else ""
    rows = (of or counted()).domains.values()
    counts = [row.groups[ALL] for row in rows if model in (None, row.model_id)]
    asked = sum(one[f"n{side}"] for one in counts)
    return asked - sum(one[f"wrong{side}"] for one in counts), asked


def strip_context(request: HttpRequest) -> dict[str, Any]:
    """For base.html: asked only where a page shows it."""
    return {"strip": SimpleLazyObject(strip)}


@require_GET
def strip_live(request: HttpRequest) -> HttpResponse:
    """The strip again, as it polls; once a model answers and nothing is under way it says so a last time."""
    return render(request, "evaluation/_strip.html", {"strip": strip()})
