"""Our loss head against the library's default loss, on one model in one run.

    python -m tests.bench.loss_head [--pairs 7] [--vocabulary 270000] [--bf16]

A Gemma-4-shaped model of one layer (tied head, soft cap 30) reads 8 x 256 tokens of which 45 % are supervised. A side
is a forward and a backward pass: ours, and `model(input_ids, labels=...)`, which is what a Trainer calls. Gradients are
compared first. Memory is measured in a fresh process each: the peak of resident memory less what was resident before.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that spin would count as work

import torch
from transformers import Gemma4ForCausalLM, Gemma4TextConfig

from tests.bench.measure import NOISE, in_turn, machine
from training.ml.language import IGNORE, LanguageTrainee, Written

ROWS, LENGTH, HIDDEN = 8, 256, 256
MEMORY_GOAL, TIME_GOAL, GRADIENT_GOAL = 0.2, 0.7, 1e-4


class Case:
    """The model and a batch; both sides leave their gradients in the model."""

    def __init__(self, vocabulary: int, supervised: float, bf16: bool) -> None:
        torch.manual_seed(0)
        self.model, self.bf16 = tied_model(vocabulary), bf16
        ids = torch.randint(3, vocabulary, (ROWS, LENGTH))
        self.labels, given = ids.clone(), round(LENGTH * (1 - supervised))
        self.labels[:, :given] = IGNORE
        chat: Any = SimpleNamespace(pad_id=0)
        self.trainee = LanguageTrainee(model=self.model, chat=chat)
        mask = [0] * given + [1] * (LENGTH - given)
        self.batch = self.trainee.collate([Written(row, mask) for row in ids.tolist()])

    def ours(self) -> float:
        return self.side(lambda: self.trainee.loss(self.batch))

    def theirs(self) -> float:
        return self.side(
            lambda: self.model(input_ids=self.batch.ids, labels=self.labels, use_cache=False).loss
        )

    def side(self, loss) -> float:  # type: ignore[no-untyped-def]
        self.model.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            value = loss()
        value.backward()
        return value.item()

    def gradients(self) -> dict[str, torch.Tensor]:
        return {name: w.grad.clone() for name, w in self.model.named_parameters() if w.grad is not None}


def tied_model(vocabulary: int) -> Gemma4ForCausalLM:
    config = Gemma4TextConfig(
        vocab_size=vocabulary,
        hidden_size=HIDDEN,
        intermediate_size=2 * HIDDEN,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=64,
        global_head_dim=64,
        layer_types=["full_attention"],
        hidden_size_per_layer_input=0,
        final_logit_softcapping=30.0,
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return Gemma4ForCausalLM(config).train()


def compare(case: Case) -> tuple[float, float]:
    """Relative difference of the loss, and the largest one of a parameter's gradient."""
    ours, mine = case.ours(), case.gradients()
    theirs, other = case.theirs(), case.gradients()
    assert mine.keys() == other.keys()
    worst = max(((mine[key] - value).norm() / value.norm()).item() for key, value in other.items())
    return abs(ours / theirs - 1), worst


def peak_memory(options: argparse.Namespace, side: str) -> int:
    """Bytes that one pass takes on top, in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.loss_head", "--child", side]
    command += ["--vocabulary", str(options.vocabulary), "--supervised", str(options.supervised)]
    command += ["--threads", str(options.threads), *(["--bf16"] if options.bf16 else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(json.loads(done.stdout)["bytes"])


def child(options: argparse.Namespace) -> None:
    case = Case(options.vocabulary, options.supervised, options.bf16)
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of building the model
    before = _status("VmRSS")
    case.ours() if options.child == "ours" else case.theirs()
    print(json.dumps({"bytes": _status("VmHWM") - before}))


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--vocabulary", type=int, default=270_000)
    parser.add_argument("--supervised", type=float, default=0.45)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--bf16", action="store_true", help="bf16 autocast on both sides")
    parser.add_argument("--child", choices=("ours", "theirs"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.child:
        child(options)
        return 0
    print(machine(), flush=True)
    case = Case(options.vocabulary, options.supervised, options.bf16)
    kept = case.batch.weight
    print(
        f"{ROWS * LENGTH:,} tokens, {kept} supervised, hidden {HIDDEN}, vocabulary {options.vocabulary:,},"
        f" tied, cap 30, {'bf16 autocast' if options.bf16 else 'fp32'}"
    )
    loss, gradient = compare(case)
    print(
        f"loss differs by {loss:.1e}, gradients by at most {gradient:.1e} (relative, per tensor)", flush=True
    )
    ours, theirs = (peak_memory(options, side) for side in ("ours", "theirs"))
    print(
        f"peak memory on top: ours {ours / 2**20:,.0f} MiB, theirs {theirs / 2**20:,.0f} MiB, ratio {ours / theirs:.3f}"
    )
    processor, wall = in_turn(case.ours, case.theirs, options.pairs)
    print(
        processor.line("processor time"), wall.line("wall time"), f"load {os.getloadavg()[0]:.1f}", sep="\n"
    )
    if processor.noise > NOISE:
        print(f"no verdict on time: A/A differs by more than {NOISE:.0%}, the machine is too busy")
    passed = {
        f"memory <= {MEMORY_GOAL}": ours <= MEMORY_GOAL * theirs,
        f"time <= {TIME_GOAL}": processor.noise <= NOISE and processor.ratio <= TIME_GOAL,
        f"gradients <= {GRADIENT_GOAL:g}": gradient <= (GRADIENT_GOAL if not options.bf16 else 2e-2),
    }
    print(*(f"{goal}: {'yes' if met else 'NO'}" for goal, met in passed.items()), sep="\n")
    return 0 if all(passed.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
