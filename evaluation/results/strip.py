"""The strip on every page while no model answers yet or one is being made: what answers now, how right it is, what is
under way and how long that takes. Every page asks for it, so all of it is one query."""

from dataclasses import dataclass
from typing import Any

from django.db.models import F, Value
from django.db.models.functions import JSONObject
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.functional import SimpleLazyObject
from django.views.decorators.http import require_GET

from evaluation.core.metrics import ALL
from evaluation.models import DomainRollup
from trace_site.jobs import Job
from training.models import UNDER_WAY, AliasMove

KINDS = ("training", "evaluation", "gate")


@dataclass(frozen=True, slots=True)
class Strip:
    """`model`: the champion, None where plain search answers. Of `asked` labelled requests its first tool is right in
    `right`; none asked: not measured. `job`: what is under way, `waiting`: how many more are."""

    model: int | None
    right: int
    asked: int
    job: Job | None
    waiting: int

    @property
    def is_shown(self) -> bool:
        return self.model is None or self.job is not None

    @property
    def stage(self) -> str:
        """As the job's note begins: "stage 2"."""
        return self.job.note.partition(":")[0] if self.job and self.job.kind == "training" else ""

    @property
    def url(self) -> str:
        """Of the run that trains, else of the job."""
        assert self.job is not None
        if self.job.kind == "training":
            return reverse("training:detail", args=[self.job.params["run"]])
        return reverse("jobs:detail", args=[self.job.pk])


def strip() -> Strip:
    """One query."""
    champion = AliasMove.objects.filter(alias=AliasMove.Alias.CHAMPION).order_by("-pk")
    counts = DomainRollup.objects.order_by()
    active = Job.objects.filter(kind__in=KINDS, state__in=UNDER_WAY).order_by("-state", "pk")
    fields = ("pk", "kind", "params", "state", "done", "total", "rate", "note")
    parts = [
        champion.values_list(Value("champion"), JSONObject(model="model_id"))[:1],
        counts.values_list(Value("counts"), JSONObject(model="model_id", groups=f"groups__{ALL}")),
        active.values_list(Value("job"), JSONObject(**{name: F(name) for name in fields})),
    ]
    found: dict[str, list[dict[str, Any]]] = {"champion": [], "counts": [], "job": []}
    for part, row in parts[0].union(*parts[1:], all=True):
        found[part].append(row)
    model = found["champion"][0]["model"] if found["champion"] else None
    right, asked = counted(model, found["counts"])
    jobs = [Job(**row) for row in found["job"]]
    return Strip(model, right, asked, jobs[0] if jobs else None, len(jobs[1:]))


def first_tools(model: int | None) -> tuple[int, int]:
    """(right, asked) of a model as domains are counted now, or of plain search."""
    rows = DomainRollup.objects.values("groups", model=F("model_id"))
    return counted(model, [{**row, "groups": row["groups"][ALL]} for row in rows])


def counted(model: int | None, rows: list[dict[str, Any]]) -> tuple[int, int]:
    """(right, asked) over all domains; (0, 0) where the model is not counted yet."""
    right = asked = 0
    for row in rows:
        all_of = row["groups"]
        if model is None:
            asked += all_of["n_embedding"]
            right += all_of["n_embedding"] - all_of["wrong_embedding"]
        elif row["model"] == model:
            asked += all_of["n"]
            right += all_of["n"] - all_of["wrong"]
    return right, asked


def strip_context(request: HttpRequest) -> dict[str, Any]:
    """For base.html: asked only where a page shows it."""
    return {"strip": SimpleLazyObject(strip)}


@require_GET
def strip_live(request: HttpRequest) -> HttpResponse:
    """The strip again, as it polls; once a model answers and nothing is under way it says so a last time."""
    return render(request, "evaluation/_strip.html", {"strip": strip()})
