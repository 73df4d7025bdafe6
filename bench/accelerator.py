"""LoRA training of a Gemma-4-E4B-shaped random model on one GPU: our path beside a padded, full-logits one.

    python -m bench.accelerator [--stretch 1 5] [--seconds 540] [--out FILE] [--toy]

Ours: batches of similar length cut to a token budget, the blocked loss head, tool rows beside frozen tables. Theirs is
what a Trainer does: 16 sequences in random order padded to the longest, an attention mask, all logits, the library's
loss; it trains LoRA only, which spares it the tool rows. Both read the same records, in turn, in one run. Lengths are
those of our generator's records, times `--stretch`: a teacher's traces are about five times as long. Without a GPU
nothing is claimed; `--toy` runs everything at toy size on the CPU.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from bench import e4b
from bench.measure import machine
from training.ml.bases.named import autocast, device
from training.ml.data import epoch_batches
from training.ml.language import LanguageTrainee, Written
from training.ml.rows import SplitEmbedding, SplitHead
from training.ml.step import gradients
from training.ml.team import Team

BATCHES, PAIRS = 8, 7
BATCH = 16
BUDGET, TOY_BUDGET = 8192, 1024  # tokens of one forward pass, padding included
FASTER, TOKENS_PER_SECOND, PEAK_GB, NOISE = 2.5, 14_000, 70.0, 0.10


@dataclass
class Side:
    """One way to train, and what was measured of it."""

    name: str
    run: Callable[[list[Written]], tuple[int, int]]  # tokens through the body, positions through the head
    seconds: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)
    computed: int = 0
    heads: int = 0
    peak: float = 0.0  # GB
    recomputed: bool = False
    products: int = (
        3  # of a position with the frozen head: forward, backward, and ours makes its blocks once more
    )
    note: str = ""

    def turn(self, records: list[Written], times: list[float]) -> None:
        synchronize()
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        started = time.perf_counter()
        self.computed, self.heads = self.run(records)
        synchronize()
        times.append(time.perf_counter() - started)
        if torch.cuda.is_available():
            self.peak = max(self.peak, torch.cuda.max_memory_allocated() / 1e9)


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


class Bench:
    """The model and its two ways to train; both keep an optimizer of their own."""

    def __init__(self, trainee: LanguageTrainee, toy: bool) -> None:
        self.trainee, self.recipe, self.budget = trainee, e4b.recipe(toy), TOY_BUDGET if toy else BUDGET
        self.model: Any = trainee.model.train()
        self.base: Any = self.model.get_base_model()
        kinds = (SplitEmbedding, SplitHead)
        self.split = {n: m for n, m in self.base.named_modules() if isinstance(m, kinds)}
        self.weights = {n: w for n, w in self.model.named_parameters() if w.requires_grad}
        self.ours_optimizer = self._optimizer(list(self.weights.values()))
        self.lora = [w for n, w in self.weights.items() if not n.endswith(".rows")]
        self.theirs_optimizer = self._optimizer(self.lora)
        self.micro = BATCH

    def _optimizer(self, weights: list[Any]) -> torch.optim.AdamW:
        return torch.optim.AdamW(weights, lr=1e-4, fused=True)

    def _use_tables(self, whole: bool) -> None:
        for name, module in self.split.items():
            self.base.set_submodule(name, module.table if whole else module)

    def ours(self, records: list[Written], recompute: bool = False) -> tuple[int, int]:
        self._use_tables(whole=False)
        if recompute:
            self.base.activation_checkpointing_enable()
        trainer: Any = SimpleNamespace(
            trainee=self.trainee, weights=self.weights, team=Team(), recipe=self.recipe, computed=0, real=0
        )
        for numbers in epoch_batches([len(e.ids) for e in records], BATCH, 0, 0):
            chosen = [records[number] for number in numbers]
            batch = self.trainee.collate(chosen)
            rows = max(1, self.budget // batch.ids.shape[1])
            trainer.stage = replace(self.recipe.stage2, micro_batch=min(rows, BATCH))
            self.ours_optimizer.zero_grad(set_to_none=True)
            gradients(trainer, batch)
            torch.nn.utils.clip_grad_norm_(list(self.weights.values()), 1.0)
            self.ours_optimizer.step()
        if recompute:
            self.base.activation_checkpointing_disable()
        return trainer.computed, sum(sum(e.mask[1:]) for e in records)

    def theirs(self, records: list[Written], grouped: bool = False) -> tuple[int, int]:
        self._use_tables(whole=True)
        computed = 0
        order = (
            epoch_batches([len(e.ids) for e in records], BATCH, 0, 0) if grouped else _in_order(len(records))
        )
        for numbers in order:
            self.theirs_optimizer.zero_grad(set_to_none=True)
            for at in range(0, len(numbers), self.micro):
                computed += self._their_part([records[number] for number in numbers[at : at + self.micro]])
            torch.nn.utils.clip_grad_norm_(self.lora, 1.0)
            self.theirs_optimizer.step()
        return computed, computed

    def _their_part(self, records: list[Written]) -> int:
        width = max(len(e.ids) for e in records)
        ids = torch.tensor([e.ids + [0] * (width - len(e.ids)) for e in records], device=device())
        seen = torch.tensor([[1] * len(e.ids) + [0] * (width - len(e.ids)) for e in records], device=device())
        kept = torch.tensor([e.mask + [0] * (width - len(e.mask)) for e in records], device=device())
        labels = torch.where(kept.bool(), ids, -100)
        with autocast(self.recipe):
            loss = self.model(input_ids=ids, attention_mask=seen, labels=labels, use_cache=False).loss
        (loss * (len(records) / BATCH)).backward()
        return ids.numel()

    def fit(self, side: str, records: list[Written], limit: float) -> str:
        """Try the widest batch; halve the batch or the budget until it fits. Says what did not."""
        widest = sorted(records, key=lambda e: len(e.ids))[-BATCH:]
        failed = []
        while True:
            size = self.micro if side == "theirs" else self.budget
            try:
                torch.cuda.reset_peak_memory_stats()
                getattr(self, side)(widest)
                if side == "theirs" or torch.cuda.max_memory_allocated() / 1e9 <= limit:
                    break
                failed.append(f"{size} over {limit:.0f} GB")
            except torch.OutOfMemoryError:
                failed.append(f"{size} out of memory")
            if size == 1:
                raise SystemExit(f"{side}: not even one sequence fits")
            torch.cuda.empty_cache()
            if side == "theirs":
                self.micro //= 2
            else:
                self.budget //= 2
        unit = "sequences" if side == "theirs" else "tokens a pass"
        return f"{', '.join(failed) or 'all fits'}; runs with {size} {unit}"

    def kernels(self, records: list[Written]) -> list[str]:
        """Which attention kernels a forward and backward pass of ours calls, with how often."""
        kinds = [torch.profiler.ProfilerActivity.CPU]
        with torch.profiler.profile(activities=kinds, record_shapes=True) as seen:
            self.ours(records[:BATCH])
        found: dict[str, int] = {}
        for event in seen.key_averages(group_by_input_shape=True):
            if "_scaled_dot_product" in event.key and "backward" not in event.key:
                wide = event.input_shapes[0][-1] if event.input_shapes and event.input_shapes[0] else "?"
                name = f"{event.key.split('::')[-1].strip('_')} head {wide}"
                found[name] = found.get(name, 0) + event.count
        return [f"{name} x{count}" for name, count in sorted(found.items())]


def _in_order(count: int) -> list[list[int]]:
    return [list(range(start, min(start + BATCH, count))) for start in range(0, count, BATCH)]


def peak_flops() -> float:
    """Measured bf16 products a second of this GPU (fp32 of this CPU): what a share of the peak is a share of."""
    kind = torch.bfloat16 if torch.cuda.is_available() else torch.float32
    size = 8192 if torch.cuda.is_available() else 512
    square = torch.randn(size, size, device=device(), dtype=kind)
    best = float("inf")
    for _ in range(8):
        synchronize()
        started = time.perf_counter()
        square @ square
        synchronize()
        best = min(best, time.perf_counter() - started)
    return 2 * size**3 / best


def measure(
    bench: Bench, sizes: e4b.Sizes, stretch: float, until: float, toy: bool, peak: float
) -> dict[str, Any]:
    pairs = 1 if toy else PAIRS
    records = e4b.examples("stage2", BATCH * (2 if toy else BATCHES), stretch, 60 if toy else 1024, toy)
    real = sum(len(e.ids) for e in records)
    ours, theirs = Side("ours", bench.ours), Side("padded, full logits", bench.theirs, products=2)
    extra = [
        Side("ours, activations recomputed", lambda r: bench.ours(r, recompute=True), recomputed=True),
        Side("padded after length grouping", lambda r: bench.theirs(r, grouped=True), products=2),
    ]
    if torch.cuda.is_available():
        ours.note, theirs.note = bench.fit("ours", records, PEAK_GB), bench.fit("theirs", records, PEAK_GB)
    print(f"\nlengths x{stretch:g}: {len(records)} records, {real / len(records):.0f} tokens on average")
    print(f"attention kernels: {'; '.join(bench.kernels(records))}")
    for side in (ours, theirs, *extra):
        side.turn(records, [])  # warm-up
    while len(ours.seconds) < pairs and (len(ours.seconds) < 3 or time.monotonic() < until):
        ours.turn(records, ours.seconds)
        theirs.turn(records, theirs.seconds)
        ours.turn(records, ours.again)
        for side in extra:
            if len(side.seconds) < min(3, pairs):
                side.turn(records, side.seconds)
    ratio = statistics.median(b / a for a, b in zip(ours.seconds, theirs.seconds, strict=True))
    noise = abs(statistics.median(b / a for a, b in zip(ours.seconds, ours.again, strict=True)) - 1)
    rows = [_row(side, sizes, real, peak) for side in (ours, theirs, *extra)]
    print(
        f"ratio of real tokens a second, ours over padded: {ratio:.2f} (A/A {noise:.1%}, {len(ours.seconds)} pairs)"
    )
    return {"stretch": stretch, "tokens": real, "ratio": ratio, "noise": noise, "sides": rows}


def _row(side: Side, sizes: e4b.Sizes, real: int, peak: float) -> dict[str, Any]:
    speed = real / statistics.median(side.seconds)
    flops = sizes.flops(side.computed / real, side.heads * side.products / real, side.recomputed)
    print(
        f"{side.name}: {speed:,.0f} real tok/s, peak {f'{side.peak:.1f} GB' if side.peak else 'not measured'},"
        f" computed/real {side.computed / real:.2f}; floor {flops / 1e9:.4g} GFLOP a real token ="
        f" {peak / flops:,.0f} tok/s at the probe's rate, {speed * flops / peak:.0%} of it reached"
        f"{'; ' + side.note if side.note else ''}"
    )
    kept = {"name": side.name, "tokens_per_second": speed, "peak_gb": side.peak, "seconds": side.seconds}
    return kept | {"computed": side.computed / real, "flops_per_token": flops, "note": side.note}


def verdict(found: dict[str, Any]) -> bool:
    ours = found["sides"][0]
    if found["noise"] > NOISE:
        print(f"no verdict: A/A differs by more than {NOISE:.0%}")
        return False
    goals = {
        f">= {FASTER}x the padded baseline": found["ratio"] >= FASTER,
        f">= {TOKENS_PER_SECOND:,} real tok/s": ours["tokens_per_second"] >= TOKENS_PER_SECOND,
        f"peak <= {PEAK_GB:g} GB": ours["peak_gb"] <= PEAK_GB,
    }
    print(
        *(f"lengths x{found['stretch']:g}, {goal}: {'yes' if met else 'NO'}" for goal, met in goals.items()),
        sep="\n",
    )
    return all(goals.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stretch", type=float, nargs="+", default=[1.0, 5.0])
    parser.add_argument("--seconds", type=float, default=540.0, help="of the whole run")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--toy", action="store_true", help="toy size, on the CPU too; claims nothing")
    options = parser.parse_args()
    started = time.monotonic()
    if not options.toy and not torch.cuda.is_available():
        print("There is no GPU here, so there is nothing to claim. --toy runs the same at toy size.")
        return 2
    peak = peak_flops()
    print(torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU, toy size: no claim")
    print(
        f"{machine() if not options.toy else 'no probe'}; product probe {peak / 1e12:.3g} TFLOP/s", flush=True
    )
    trainee, sizes = e4b.build(device(), options.toy)
    print(
        f"body {sizes.body:,}, LoRA {sizes.lora:,}, head {sizes.head:,}, tool rows {sizes.rows:,} parameters"
    )
    bench, results = Bench(trainee, options.toy), []
    for number, stretch in enumerate(options.stretch):
        until = started + options.seconds * (number + 1) / len(options.stretch)
        results.append(measure(bench, sizes, stretch, until, options.toy, peak))
    if options.out:
        facts = {
            "toy": options.toy,
            "peak_flops": peak,
            "sizes": asdict(sizes),
        }
        options.out.write_text(json.dumps({**facts, "results": results}, indent=1) + "\n")
    if options.toy:
        return 0
    verdicts = [verdict(found) for found in results]
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
