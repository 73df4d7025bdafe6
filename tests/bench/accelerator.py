"""LoRA training of a Gemma-4-E4B-shaped random model on one GPU: our path beside a padded, full-logits one.

    python -m tests.bench.accelerator [--stretch 1 5] [--seconds 540] [--out FILE] [--toy]

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
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from tests.bench import e4b
from tests.bench.e4b_sides import BATCH, Bench, Side, synchronize
from tests.bench.measure import machine
from training.ml.bases.named import device

BATCHES, PAIRS = 8, 7
FASTER, TOKENS_PER_SECOND, PEAK_GB, NOISE = 2.5, 14_000, 70.0, 0.10


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
