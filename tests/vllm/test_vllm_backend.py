"""Our engine behind a real vLLM: the same predictions as with the weights at hand. Run by `make test-vllm`."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from openai import OpenAI  # noqa: E402

from evaluation.core.questions import mcq_question  # noqa: E402
from evaluation.ml.engine import Engine, open_engine  # noqa: E402
from evaluation.ml.export import load  # noqa: E402
from evaluation.ml.manifest import (
    digest,  # noqa: E402
    verify,  # noqa: E402
)
from evaluation.ml.remote import name_of  # noqa: E402
from tests.vllm.test_vllm_parity import SERVER, served, train  # noqa: E402
from trace_site.lib.files import read_json  # noqa: E402

pytestmark = [
    pytest.mark.ml,
    pytest.mark.vllm,
    pytest.mark.skipif(not SERVER, reason="needs vLLM in an environment of its own: make test-vllm"),
]
QUERIES = 40


def rows_of(engine: Any, items: list[dict[str, Any]], decode: str) -> dict[str, dict[str, Any]]:
    return {str(row["id"]): row for batch in engine.predict(items, decode, 5) for row in batch}


@pytest.mark.parametrize(
    ("shape", "fmt"),
    [("llama", "a"), ("qwen3", "b"), ("gemma4", "c")],
    ids=["llama-a", "qwen3-b", "gemma4-c"],
)
def test_every_decode_through_vllm_says_what_our_own_engine_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str, fmt: str
) -> None:
    export = train(tmp_path, shape, "new_rows", fmt)
    own = Engine(load(export, verify(export), read_json(export / "trace.json")))
    items: list[dict[str, Any]] = [
        {"id": str(number), "query": f"please show case {number}"} for number in range(QUERIES)
    ]
    items[1]["permissions"] = []
    items[2]["without"] = own.export.names[:1]
    question = {
        "id": "q",
        "tool": own.export.names[0],
        "question": "Which?",
        "correct": "a b",
        "wrong": ["c", "d"],
    }
    letters = [mcq_question({**question, "domain": "hr"})]
    name = name_of(digest(export))
    with served(export, tmp_path / "server.log", name, longest=512) as client:
        monkeypatch.setenv("TRACE_BACKEND_URL", str(client.base_url))
        remote = open_engine(export, 2)
        assert remote.backend["engine"] == "vllm" and remote.backend["version"].startswith("0.32")
        for decode in ("fast", "trace", "trace-free", "letters"):
            asked = letters if decode == "letters" else items
            begun = time.monotonic()
            ours = rows_of(own, asked, decode)
            middle = time.monotonic()
            theirs = rows_of(remote, asked, decode)
            print(
                f"{shape} {fmt} {decode}: own {middle - begun:.2f} s, vLLM {time.monotonic() - middle:.2f} s"
            )
            for key, row in theirs.items():
                alike(row, ours[key])
        check_in_a_crowd(own, remote, client, items[:8], name)


def alike(row: dict[str, Any], ours: dict[str, Any]) -> None:
    for name in ("letter", "tools", "ranked", "raw", "cut", "off_vocabulary", "exact"):
        assert row.get(name) == ours.get(name), name
    assert row["scores"] == pytest.approx(ours["scores"], abs=1e-3)


def check_in_a_crowd(own: Any, remote: Any, client: OpenAI, items: list[dict[str, Any]], name: str) -> None:
    """While another client asks with logprob_token_ids, which mixes up what vLLM tells of the likeliest tokens."""
    wanted = rows_of(own, items, "fast")
    prompt = own.export.ids_of(items[0], "fast")
    more = {"logprob_token_ids": [5, 6, 7]}

    def disturb(number: int) -> None:
        client.completions.create(model=name, prompt=prompt, max_tokens=40, logprobs=3, extra_body=more)

    with ThreadPoolExecutor(12) as pool:
        others = [pool.submit(disturb, number) for number in range(16)]
        rows = list(pool.map(lambda item: remote.ask(item, "fast", 5)(), items * 3))
        for other in others:
            other.result()
    for row in rows:
        assert row["tools"] == wanted[row["id"]]["tools"]


def test_vllm_under_another_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trace_site.lib.errors import TraceError

    export = train(tmp_path, "llama", "new_rows", "b")
    with served(export, tmp_path / "server.log") as client:
        monkeypatch.setenv("TRACE_BACKEND_URL", str(client.base_url))
        with pytest.raises(TraceError, match="offers trace, and not trace-"):
            open_engine(export, 2)
