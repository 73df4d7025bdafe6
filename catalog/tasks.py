"""The job handler of the catalog."""

from typing import Any

from catalog import refresh
from trace_site.jobs import JobContext


def run_refresh(ctx: JobContext) -> dict[str, Any]:
    return refresh.catalog_refresh(ctx)
