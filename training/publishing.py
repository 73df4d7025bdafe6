"""A trained model becomes known: its row with its lineage, the event, and the evaluation that follows by itself."""

import json
import math
from pathlib import Path
from typing import Any

from trace_site import jobs
from trace_site.webhooks import emit
from training.core.stages import Step
from training.models import Model, Run
from training.provenance import provenance
from training.sharing import Trained, size


def publish_model(run: Run, plan: list[Step], last: Trained, **lineage: Any) -> Model:
    """The run's model, in the transaction of the caller. A model whose files were removed has them again."""
    card = last.export / "README.md"
    model, _ = Model.objects.update_or_create(
        run=run,
        defaults={
            "store_key": last.store_key,
            "store_digest": last.store_digest,
            "bytes": size(last.export),
            "parameters": parameter_count(last.export),
            "card": card.read_text("utf-8") if card.is_file() else "",
            "lineage": {**provenance(run, plan), **lineage},
            "removed_at": None,
        },
    )
    emit("run.finished", {"run": run.pk, "cell": run.cell, "model": model.pk})
    jobs.enqueue(
        "evaluation",
        {"model": model.pk},
        title=f"evaluate model {model.pk} {run.cell}",
        created_by=run.created_by,
        idempotency_key=f"evaluation:model:{model.pk}",
    )
    return model


def parameter_count(export: Path) -> int:
    """Numbers stored in the safetensors files, read from their headers alone."""
    count = 0
    for path in export.glob("*.safetensors"):
        with path.open("rb") as handle:
            header = json.loads(handle.read(int.from_bytes(handle.read(8), "little")))
        count += sum(math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")
    return count
