"""Optional: every row of metrics also to TensorBoard or MLflow, chosen by TRACE_REPORT_TO.

Nothing of it is imported unless the variable is set; metrics.jsonl stays the record.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from trace_site.lib.errors import TraceError
from training.core.rundir import RunDir

VARIABLE = "TRACE_REPORT_TO"
Reporter = Callable[[dict[str, Any]], None]


@contextmanager
def reporter(run: RunDir, stage: str) -> Iterator[Reporter]:
    """A callable that passes a row on. Raises TraceError for an unknown name or a package that is not installed."""
    wanted = os.environ.get(VARIABLE, "") if run.writer else ""
    if wanted not in WAYS:
        raise TraceError(
            f"'{wanted}' is not a place metrics can be sent to.",
            code="bad_setting",
            where=VARIABLE,
            hint="Set it to tensorboard, to mlflow, or to nothing.",
        )
    with WAYS[wanted](run, stage) as tell:
        yield tell


@contextmanager
def _nowhere(run: RunDir, stage: str) -> Iterator[Reporter]:
    yield lambda row: None


@contextmanager
def _tensorboard(run: RunDir, stage: str) -> Iterator[Reporter]:
    """Event files under RUN/tensorboard: `tensorboard --logdir RUN`."""
    _require("tensorboard")
    writer = import_module("torch.utils.tensorboard").SummaryWriter(str(run.root / "tensorboard"))

    def tell(row: dict[str, Any]) -> None:
        for name, value in figures(row).items():
            writer.add_scalar(f"{stage}/{name}", value, row["step"])

    try:
        yield tell
    finally:
        writer.close()


@contextmanager
def _mlflow(run: RunDir, stage: str) -> Iterator[Reporter]:
    """One MLflow run a stage, at the server of MLFLOW_TRACKING_URI; it keeps its id in RUN/mlflow.txt for a resume."""
    mlflow = _require("mlflow")
    kept = run.root / "mlflow.txt"
    known = kept.read_text().strip() if kept.exists() else None
    with mlflow.start_run(
        run_id=known or None, run_name=None if known else f"{run.root.name} {stage}"
    ) as active:
        kept.write_text(active.info.run_id)
        yield lambda row: mlflow.log_metrics(figures(row), step=row["step"])


WAYS: dict[str, Callable[[RunDir, str], Any]] = {"": _nowhere, "tensorboard": _tensorboard, "mlflow": _mlflow}


def figures(row: dict[str, Any]) -> dict[str, float]:
    """The numbers of a row that make a curve."""
    return {
        name: float(value)
        for name, value in row.items()
        if name != "step" and isinstance(value, (int, float))
    }


def _require(package: str) -> Any:
    try:
        return import_module(package)
    except ImportError as error:
        raise TraceError(
            f"{VARIABLE} is {package}, which is not installed.",
            code="not_installed",
            where=VARIABLE,
            hint="Install the report extra: pip install -e '.[report]' -c constraints/constraints.txt.",
        ) from error
