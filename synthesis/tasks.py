"""The job handlers of synthesis."""

from typing import Any

from synthesis import runs, snapshot_rebuilds, snapshots
from trace_site.jobs import JobContext


def run_synthesis(ctx: JobContext) -> dict[str, Any]:
    return runs.run_synthesis(ctx)


def run_snapshot(ctx: JobContext) -> dict[str, Any]:
    return snapshots.run_snapshot(ctx)


def run_rebuild(ctx: JobContext) -> dict[str, Any]:
    return snapshot_rebuilds.run_rebuild(ctx)
