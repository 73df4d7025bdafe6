"""The accelerator script is ready: it runs to its end at toy size, and claims nothing without a GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.ml
ROOT = Path(__file__).parents[2]


def script(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.bench.accelerator", *arguments]
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True)


def test_the_toy_run_prints_the_ratio_and_the_floors_and_writes_its_facts(tmp_path: Path) -> None:
    done = script("--toy", "--stretch", "0.3", "--out", str(tmp_path / "facts.json"))
    assert done.returncode == 0, done.stderr
    assert "ratio of real tokens a second, ours over padded:" in done.stdout
    assert done.stdout.count("GFLOP a real token") == 4
    assert "attention kernels: " in done.stdout
    assert "no claim" in done.stdout
    facts = json.loads((tmp_path / "facts.json").read_text())
    ours, padded, recomputed, grouped = facts["results"][0]["sides"]
    assert facts["toy"] and facts["results"][0]["ratio"] > 0
    assert 1 <= ours["computed"] < padded["computed"] and grouped["computed"] < padded["computed"]
    assert ours["flops_per_token"] < recomputed["flops_per_token"]
    assert ours["flops_per_token"] < padded["flops_per_token"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU to measure")
def test_without_a_gpu_there_is_nothing_to_claim() -> None:
    done = script()
    assert done.returncode == 2
    assert "no GPU" in done.stdout and "YES" not in done.stdout.upper()
