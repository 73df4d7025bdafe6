"""Which tools a model has tokens for, as its export says, and which came to the catalog after it."""

from functools import lru_cache
from pathlib import Path

from django.db.models import QuerySet

from catalog.models import Tool
from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_json
from training.models import Model
from training.registry.registry import export_dir


def tools_of(folder: Path, digest: str) -> frozenset[str]:
    """Names from an export's trace.json; equal content is read once."""
    return _tools_of(str(folder), digest)


@lru_cache(maxsize=16)
def _tools_of(folder: str, digest: str) -> frozenset[str]:
    return frozenset(tool["name"] for tool in read_json(Path(folder) / "trace.json")["tools"])


def newer_tools(model: Model) -> QuerySet[Tool] | None:
    """Active tools the model cannot answer with; None where its files are gone."""
    try:
        known = tools_of(export_dir(model), model.store_digest)
    except (TraceError, OSError):
        return None
    names = Tool.objects.filter(status=Tool.Status.ACTIVE).order_by().values_list("name", flat=True)
    return Tool.objects.filter(name__in=[name for name in names if name not in known]).defer(
        "embedding", "search", "words"
    )
