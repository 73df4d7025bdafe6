"""The accelerator script is ready: it runs to its end at toy size, and claims nothing without a GPU."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from bench import accelerator  # noqa: E402

pytestmark = [
    pytest.mark.ml,
    pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU to measure"),
]


def script(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["accelerator", *arguments])
    return accelerator.main()


def test_the_toy_run_prints_the_ratio_and_the_floors_and_writes_its_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "facts.json"
    assert script(monkeypatch, "--toy", "--stretch", "0.3", "--out", str(out)) == 0
    told = capsys.readouterr().out
    assert "ratio of real tokens a second, ours over padded:" in told
    assert told.count("GFLOP a real token") == 4
    assert "attention kernels: " in told and "no claim" in told
    facts = json.loads(out.read_text())
    ours, padded, recomputed, grouped = facts["results"][0]["sides"]
    assert facts["toy"] and facts["results"][0]["ratio"] > 0
    assert 1 <= ours["computed"] < padded["computed"] and grouped["computed"] < padded["computed"]
    assert ours["flops_per_token"] < recomputed["flops_per_token"]
    assert ours["flops_per_token"] < padded["flops_per_token"]


def test_without_a_gpu_there_is_nothing_to_claim(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script(monkeypatch) == 2
    told = capsys.readouterr().out
    assert "no GPU" in told and "YES" not in told.upper()
