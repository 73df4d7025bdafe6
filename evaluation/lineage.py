"""How models made of snapshots were evaluated, for the lineage of a sample."""

from collections.abc import Iterator

from django.urls import reverse

from evaluation.models import Evaluation
from evaluation.selectors import score_bar
from synthesis.onward import Made


def made_of_snapshots(snapshots: list[int]) -> Iterator[Made]:
    """One query."""
    rows = Evaluation.objects.filter(model__run__snapshot__in=snapshots).select_related("benchmark", "job")
    for row in rows.order_by("pk"):
        state = "done" if row.metrics else row.job.state if row.job else ""
        bar = score_bar(row) if row.metrics else None
        about = f"{bar.value:.2f} {bar.note}, n = {bar.n}" if bar else row.decode
        address = reverse("evaluation:detail", args=[row.pk])
        yield Made("evaluation", row.pk, row.model_id or 0, str(row.benchmark), address, state, about)
