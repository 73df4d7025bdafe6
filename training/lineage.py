"""What was trained on snapshots, for the lineage of a sample."""

from collections import defaultdict
from collections.abc import Iterator

from django.urls import reverse

from synthesis.onward import Made
from training.models import Run
from training.registry import current_aliases


def made_of_snapshots(snapshots: list[int]) -> Iterator[Made]:
    """Runs and their models, with the aliases that name them now; two queries."""
    runs = list(
        Run.objects.filter(snapshot__in=snapshots)
        .select_related("job", "model")
        .only(*("snapshot", "format", "memo", "retrieval", "base", "job__state", "model__run"))
        .order_by("pk")
    )
    aliases: defaultdict[int, list[str]] = defaultdict(list)
    for alias, model in current_aliases().items():
        aliases[model.pk].append(alias)
    for run in runs:
        state = run.job.state if run.job else "done"
        address = reverse("training:detail", args=[run.pk])
        yield Made("run", run.pk, run.snapshot_id, f"run {run.pk} {run.cell}", address, state, run.base)
    for run in runs:
        if hasattr(run, "model"):
            made = run.model.pk
            address = reverse("training:model", args=[made])
            yield Made("model", made, run.pk, f"model {made}", address, aliases=aliases[made])
