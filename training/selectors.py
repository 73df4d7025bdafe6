"""Reads behind the pages of runs and models."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import FloatField, OuterRef, QuerySet, Subquery
from django.db.models.fields.json import KT
from django.db.models.functions import Cast

from trace_site.lib.charts import LineChart, Series, line_chart
from training.models import AliasMove, Model, Run, RunMetric

STAGES = {"stage1": "Stage 1", "stage2": "Stage 2"}


def runs() -> QuerySet[Run]:
    """Every run with its job, snapshot, model and newest loss; one query."""
    newest = RunMetric.objects.filter(run=OuterRef("pk")).order_by("-stage", "-step")
    return (
        Run.objects.select_related("job", "snapshot", "model", "created_by")
        .defer("log_tail", "snapshot__manifest", "model__card")
        .annotate(
            loss=Subquery(newest.annotate(loss=Cast(KT("data__loss"), FloatField())).values("loss")[:1])
        )
    )


@dataclass(frozen=True, slots=True)
class Live:
    """What a run page shows while the run goes on."""

    charts: list[LineChart]
    newest: dict[str, Any]
    stage: str
    points: int


def live(of: Run) -> Live:
    """The curves so far; one query."""
    rows = list(of.metrics.order_by("stage", "step").values_list("stage", "step", "data"))
    charts = [
        curves("Is the loss still falling?", rows, "loss", "loss"),
        curves("How is the learning rate scheduled?", rows, "lr", "learning rate"),
        curves("How fast does it train?", rows, "tokens_per_second", "tokens a second"),
    ]
    stage, _, newest = rows[-1] if rows else ("", 0, {})
    return Live([chart for chart in charts if chart.curves], newest, STAGES.get(stage, stage), len(rows))


def curves(title: str, rows: Iterable[tuple[str, int, dict[str, Any]]], field: str, label: str) -> LineChart:
    points: dict[str, list[tuple[float, float]]] = {}
    for stage, step, data in rows:
        if isinstance(value := data.get(field), int | float):
            points.setdefault(stage, []).append((float(step), float(value)))
    series = [Series(STAGES.get(stage, stage), found) for stage, found in points.items()]
    return line_chart(title, series, x_label="optimiser step", y_label=label)


def seconds(of: Run) -> float | None:
    """How long the run's job has taken, or is taking."""
    job = of.job
    if job is None or job.started_at is None:
        return None
    end: datetime = job.finished_at or datetime.now(tz=job.started_at.tzinfo)
    return max(timedelta(0), end - job.started_at).total_seconds()


def models() -> QuerySet[Model]:
    return Model.objects.select_related("run__snapshot", "run__created_by").defer(
        "run__snapshot__manifest", "card"
    )


def alias_names(current: dict[str, Model]) -> dict[int, list[str]]:
    """{model id: the aliases it holds now}."""
    names: dict[int, list[str]] = {}
    for alias, named in current.items():
        names.setdefault(named.pk, []).append(alias)
    return names


def alias_history(limit: int = 50) -> list[AliasMove]:
    return list(AliasMove.objects.select_related("model__run", "actor")[:limit])


def siblings(of: Run) -> QuerySet[Run]:
    """Other runs on the same snapshot, to compare with."""
    return runs().filter(snapshot=of.snapshot_id).exclude(pk=of.pk)


def card_parts(card: str) -> list[tuple[str, Any]]:
    """A model card's Markdown as headings, paragraphs and two-column tables; nothing in it is taken as markup."""
    parts: list[tuple[str, Any]] = []
    for line in card.splitlines():
        text = line.strip()
        if text.startswith("|"):
            cells = [cell.strip() for cell in text.strip("|").split("|")]
            if set(text) <= set("|-: ") or len(cells) < 2:
                continue
            if not (parts and parts[-1][0] == "table"):
                parts.append(("table", []))
            parts[-1][1].append((cells[0], " | ".join(cells[1:])))
        elif text.startswith("#"):
            parts.append(("heading", text.lstrip("# ")))
        elif text:
            parts.append(("text", text))
    return [(kind, content[1:] if kind == "table" else content) for kind, content in parts]
