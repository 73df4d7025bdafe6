"""vLLM serves our exports as they are: the same greedy tokens as the project's own engine. Run by `make test-vllm`."""

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from openai import OpenAI  # noqa: E402

from evaluation.ml.engine import open_engine  # noqa: E402
from evaluation.ml.write import Written  # noqa: E402
from evaluation.ml.writing import Writing  # noqa: E402
from tests.training.small_bases import write_base  # noqa: E402
from tests.training.small_snapshot import write_snapshot  # noqa: E402
from training.core.recipe import Lora, Recipe, Stage  # noqa: E402
from training.ml.stages import train_stage  # noqa: E402

SERVER = os.environ.get("TRACE_VLLM", "")  # the `vllm` program of its own environment
START_SECONDS = 600  # half a minute on an idle machine
MAX_NEW = 96
# sizes that vLLM's attention kernels have
SIZES = {"hidden_size": 64, "head_dim": 32, "intermediate_size": 96}
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "2",
}
OPTIONS = ["--dtype", "float32", "--max-num-seqs", "16", "--enforce-eager"]

pytestmark = [
    pytest.mark.ml,
    pytest.mark.vllm,
    pytest.mark.skipif(not SERVER, reason="needs vLLM in an environment of its own: make test-vllm"),
]


def train(tmp_path: Path, shape: str, embeddings: str, fmt: str = "c") -> Path:
    """An export of a tiny model that has learned its ten samples."""
    stage = Stage(lr=5e-3, batch_size=5, epochs=120)
    recipe = Recipe(
        format=fmt,
        memo="none",
        retrieval="r",
        threads=2,
        bf16=False,
        max_seq_len=256,
        max_prompt_tokens=128,
        max_new_tokens=MAX_NEW,
        embeddings=embeddings,
        lora=Lora(rank=8, alpha=16),
        stage2=stage,
    )
    own = {"global_head_dim": 64} if shape == "gemma4" else {}
    recipe = recipe.with_cell(base=str(write_base(tmp_path / "base", shape, **SIZES, **own)))
    snapshot = write_snapshot(tmp_path / "snapshot")
    train_stage("stage2", recipe, snapshot, tmp_path / "run", lambda done, total, note: None)
    return tmp_path / "run" / "export"


def ours(export: Path) -> tuple[list[list[int]], list[list[int]]]:
    """(prompts, greedy tokens up to the closing bracket of the list)."""
    engine = open_engine(export)
    items = [{"id": str(number), "query": f"please show case {number}"} for number in range(12)]
    prompts = [engine.export.ids_of(item, "fast") for item in items]
    written: list[list[int]] = []

    class Kept(Writing):
        def _written(self, one: Any, result: Written, look: Any) -> Any:
            written.append([*result.thinking, *result.answer])
            return super()._written(one, result, look)

    for item in items:
        Kept(engine.export).run([engine.asked(item, "trace-free", 10)])
    lead = engine.export.chat.open_ids
    return [[*prompt, *lead] for prompt in prompts], written


@contextmanager
def served(export: Path, log: Path, name: str = "trace", longest: int = 256) -> Iterator[OpenAI]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [SERVER, "serve", str(export), "--host", "127.0.0.1", "--port", str(port), *OPTIONS]
    command += ["--served-model-name", name, "--max-model-len", str(longest)]
    with log.open("w") as handle:
        process = subprocess.Popen(
            command, env={**os.environ, **ENVIRONMENT}, stdout=handle, stderr=subprocess.STDOUT
        )
    try:
        wait_for(f"http://127.0.0.1:{port}/health", process, log)
        yield OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none")
    finally:
        process.terminate()
        process.wait(timeout=60)


def wait_for(address: str, process: subprocess.Popen[Any], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(1)
    pytest.fail("the server did not start:\n" + log.read_text()[-4000:])


@pytest.mark.parametrize(
    ("shape", "embeddings"),
    [
        ("llama", "full"),
        ("qwen3", "new_rows"),
        ("gemma4", "new_rows"),
    ],
)
def test_vllm_writes_the_tokens_our_engine_writes(tmp_path: Path, shape: str, embeddings: str) -> None:
    export = train(tmp_path, shape, embeddings)
    prompts, expected = ours(export)
    assert len({tuple(row) for row in expected}) > 3
    with served(export, tmp_path / "server.log") as client:
        answer = client.completions.create(
            model="trace",
            prompt=prompts,
            max_tokens=max(map(len, expected)),
            temperature=0,
            extra_body={"skip_special_tokens": False, "return_token_ids": True},
        )
    found = [choice.model_extra["token_ids"] for choice in sorted(answer.choices, key=lambda c: c.index)]
    same = [row[: len(wanted)] == wanted for row, wanted in zip(found, expected, strict=True)]
    assert all(same), f"{sum(same)} of {len(same)} answers are equal"
