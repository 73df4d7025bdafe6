"""The run directory keeps its promises when processes die or meet."""

import json
from pathlib import Path

import pytest

from trace_site.lib.errors import TraceError
from training.core.rundir import RunDir, is_intact


def write_file(text: str):  # type: ignore[no-untyped-def]
    return lambda folder: (folder / "x").write_text(text)


def test_two_trainers_never_share_a_directory(tmp_path: Path) -> None:
    with (
        RunDir(tmp_path).locked(),
        pytest.raises(TraceError, match="another trainer"),
        RunDir(tmp_path).locked(),
    ):
        pass
    with RunDir(tmp_path).locked():
        pass


def test_latest_checkpoint_is_the_last_saved_and_two_are_kept(tmp_path: Path) -> None:
    with RunDir(tmp_path).locked() as run:
        for step in (1, 20, 300):
            run.save_checkpoint(step, write_file(str(step)))
        latest = run.latest_checkpoint()
    assert latest is not None
    assert latest.name == "step-000300"
    assert sorted(p.name for p in run.checkpoints.glob("step-*")) == ["step-000020", "step-000300"]
    assert json.loads((latest / "manifest.json").read_text())["files"]["x"]["bytes"] == 3


def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path) -> None:
    with RunDir(tmp_path).locked() as run:
        good = run.save_checkpoint(1, write_file("one"))
        bad = run.save_checkpoint(2, write_file("two"))
        (bad / "x").write_text("tw0")
        assert not is_intact(bad)
        assert run.latest_checkpoint() == good


def test_a_checkpoint_that_failed_half_way_is_never_seen(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "x").write_text("half")
        raise OSError("disk full")

    with RunDir(tmp_path).locked() as run:
        with pytest.raises(OSError, match="disk full"):
            run.save_checkpoint(1, fail)
        assert run.latest_checkpoint() is None
    with RunDir(tmp_path).locked() as run:
        assert list(run.checkpoints.iterdir()) == []


def test_a_half_written_metrics_line_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"ste')
    with RunDir(tmp_path).locked() as run:
        run.add_metrics({"step": 2})
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert rows == [{"step": 1}, {"step": 2}]


def test_stop_file_asks_to_stop(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    assert not run.stop_requested()
    (tmp_path / "STOP").touch()
    assert run.stop_requested()
