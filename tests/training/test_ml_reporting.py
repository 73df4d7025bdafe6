"""Metrics also go to TensorBoard or MLflow when one variable says so; both are stood in for here."""

import sys
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from trace_site.lib.errors import TraceError
from training.core.rundir import RunDir
from training.ml.loop import VARIABLE, reporter

ROW = {"stage": "stage1", "step": 7, "loss": 0.5, "lr": 1e-3}


def test_nothing_is_imported_and_nothing_sent_without_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with reporter(RunDir(tmp_path), "stage1") as tell:
        tell(ROW)
    assert not {"tensorboard", "mlflow"} & set(sys.modules)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["tensorboard", "mlflow"])
def test_a_missing_package_is_named_with_the_extra_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(VARIABLE, name)
    monkeypatch.setitem(sys.modules, name, None)
    with (
        pytest.raises(TraceError, match=rf"{name}, which is not installed.*report"),
        reporter(RunDir(tmp_path), "stage1"),
    ):
        pass


def test_an_unknown_place_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "excel")
    with pytest.raises(TraceError, match="'excel' is not a place"), reporter(RunDir(tmp_path), "stage1"):
        pass


def test_tensorboard_gets_every_number_of_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []

    class SummaryWriter:
        def __init__(self, folder: str) -> None:
            sent.append(folder)

        def add_scalar(self, *figures: Any) -> None:
            sent.append(figures)

        def close(self) -> None:
            sent.append("closed")

    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = SummaryWriter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tensorboard", ModuleType("tensorboard"))
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    monkeypatch.setenv(VARIABLE, "tensorboard")
    with reporter(RunDir(tmp_path), "stage1") as tell:
        tell(ROW)
    assert sent == [
        str(tmp_path / "tensorboard"), ("stage1/loss", 0.5, 7), ("stage1/lr", 1e-3, 7), "closed"
    ]  # fmt: skip


def test_a_resumed_stage_goes_on_in_the_same_mlflow_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []

    @contextmanager
    def start_run(run_id: str | None, run_name: str | None) -> Any:
        sent.append((run_id, run_name))
        yield SimpleNamespace(info=SimpleNamespace(run_id="abc"))

    module = ModuleType("mlflow")
    module.start_run = start_run  # type: ignore[attr-defined]
    module.log_metrics = lambda figures, step: sent.append((figures, step))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mlflow", module)
    monkeypatch.setenv(VARIABLE, "mlflow")
    for _ in range(2):
        with reporter(RunDir(tmp_path), "stage1") as tell:
            tell(ROW)
    figures = ({"loss": 0.5, "lr": 1e-3}, 7)
    assert sent == [(None, f"{tmp_path.name} stage1"), figures, ("abc", None), figures]
