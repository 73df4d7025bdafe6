"""Reads behind the pages of runs and models."""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import FloatField, OuterRef, QuerySet, Subquery
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce

from training.models import AliasMove, Model, Run, RunMetric

LAST_FIRST = ("stage2", "plain", "stage1")


def runs() -> QuerySet[Run]:
    """Every run with its job, snapshot, model and newest loss; one query."""
    last = RunMetric.objects.filter(run=OuterRef("pk")).annotate(loss=Cast(KT("data__loss"), FloatField()))
    newest = [last.filter(stage=stage).order_by("-step").values("loss")[:1] for stage in LAST_FIRST]
    return (
        Run.objects.select_related("job", "snapshot", "model", "created_by")
        .defer("log_tail", "snapshot__manifest", "snapshot__parts", "model__card")
        .annotate(loss=Coalesce(*(Subquery(rows) for rows in newest)))
    )


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
