"""How models made of snapshots were evaluated, for the lineage of a sample."""

from collections.abc import Iterator

from django.urls import reverse

from evaluation.selectors import evaluations, score_bar
from synthesis.onward import Made


def made_of_snapshots(snapshots: list[int]) -> Iterator[Made]:
    """One query."""
    for row in evaluations().filter(model__run__snapshot__in=snapshots).order_by("pk"):
        state = "done" if row.metrics else row.job.state if row.job else ""
        bar = score_bar(row) if row.metrics else None
        about = f"{bar.value:.2f} {bar.note}, n = {bar.n}" if bar else row.decode
        address = reverse("evaluation:detail", args=[row.pk])
        yield Made("evaluation", row.pk, row.model_id or 0, row.benchmark.title, address, state, about)
