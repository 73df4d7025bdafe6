"""Our training loop beside the Hugging Face Trainer at its best settings: real tokens a second, processor and wall.

    python -m tests.bench.trainer_peer --snapshot DIR [--recipe FILE] [--pairs 5] [--records 1600]

DIR is a frozen dataset. Both sides are child processes that train the same fresh pocket model on the same records for
one epoch: same batch size, bf16 autocast where the processor multiplies it itself, two threads, fused AdamW, cosine, no
dropout, one rate for all that moves and every position counted once (the Trainer has none of our rates and weights).
First every setting of the Trainer is tried once and the best is kept; then both sides run in turns. The first steps
are dropped. After the same tokens our loss on held-out records must not be higher than the Trainer's, and must equal
that of a Trainer given our batches in our order: its own length groups run from long to short within 50 batches, so
that a short run ends a little lower with ours. Processor time counts dataloader workers too; wall time means something
on an idle machine only.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).parents[2]
RATE = 2e-4
RECIPE = ROOT / "training" / "recipes" / "pocket.yaml"
WARM_UP = 8  # steps
MOST_LOSS = 0.02  # our final loss may be this share higher than that of the Trainer's own order
SAME_LOSS = (
    0.01  # and differ by this share where it gets our order: bf16 and its warm-up, a step apart, remain
)
PATIENCE = 1800  # seconds a child may take
HELD = 96  # records the final loss is read on, not trained on
TRAINER: dict[
    str, dict[str, Any]
] = {  # documented ways to make the Trainer faster, on top of what the docstring names
    "plain": {},
    "pad 8": {"pad": 8},
    "worker": {"dataloader_num_workers": 1, "dataloader_persistent_workers": True},
    "no mask": {"mask": False},
    "compile": {"torch_compile": True},
    "compile, pad 32": {"torch_compile": True, "pad": 32},
}
ORDERED = "our order"
SIDES = {**TRAINER, ORDERED: {"ordered": True}}


class Clock:
    """Seconds and real tokens from the end of the warm-up on."""

    def __init__(self) -> None:
        self.steps = self.tokens = 0
        self.at: tuple[float, float] | None = None
        self.end = (0.0, 0.0)

    def step(self, tokens: int) -> None:
        self.steps += 1
        if self.at is not None:
            self.tokens += tokens
            self.end = self.now()
        elif self.steps == WARM_UP:
            self.at = self.now()

    @staticmethod
    def now() -> tuple[float, float]:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(u.ru_utime + u.ru_stime for u in used), time.monotonic()

    def facts(self) -> dict[str, float]:
        assert self.at is not None
        cpu, wall = self.end[0] - self.at[0], self.end[1] - self.at[1]
        return {
            "cpu": self.tokens / cpu,
            "wall": self.tokens / wall,
            "tokens": self.tokens,
            "steps": self.steps,
        }


def child(side: str, asked: argparse.Namespace) -> dict[str, Any]:
    from dataclasses import replace

    import torch

    from training.core.recipe import load
    from training.core.records import load_snapshot, stage2_records
    from training.ml.bases.model import build
    from training.ml.data import encode

    torch.set_num_threads(2)
    recipe = load(asked.recipe).with_cell(memo="none", retrieval="r+R", threads=2)
    recipe = replace(recipe, pocket=replace(recipe.pocket, dropout=0.0, tool_weight=1.0))
    stage = replace(recipe.stage2, lr=RATE, encoder_lr=RATE, rows_lr=RATE, writer_lr=0.0, epochs=1.0)
    stage = replace(stage, min_steps=0, max_steps=0, max_seconds=0.0)  # one epoch, as the Trainer
    snapshot = load_snapshot(asked.snapshot)
    trainee = build(recipe, snapshot)
    examples, _ = encode(stage2_records(snapshot, recipe), trainee.chat, recipe.max_seq_len)
    held, examples = examples[:HELD], examples[HELD : HELD + asked.records]
    clock = Clock()
    ours(trainee, examples, stage, recipe, clock) if side == "ours" else trainer(
        trainee, examples, stage, recipe, clock, **SIDES[side]
    )
    return {**clock.facts(), "loss": final_loss(trainee, held, recipe), "memory_mb": peak_mb()}


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def final_loss(trainee: Any, held: list[Any], recipe: Any) -> float:
    import torch

    from training.ml.data import collate
    from training.ml.step import supervised_loss

    trainee.model.eval()
    with torch.no_grad():
        return float(supervised_loss(trainee, collate(held, trainee.chat.pad_id), recipe))


def ours(trainee: Any, examples: list[Any], stage: Any, recipe: Any, clock: Clock) -> None:
    from training.core.rundir import RunDir
    from training.ml import loop
    from training.ml.step import train_step

    def timed(trainer: Any, chosen: list[Any]) -> Any:
        norm = train_step(trainer, chosen)
        clock.step(sum(len(example.ids) for example in chosen))
        return norm

    with (
        patch.object(loop, "train_step", timed),
        tempfile.TemporaryDirectory() as folder,
        RunDir(Path(folder)).locked() as run,
    ):
        loop.fit(trainee, examples, stage, recipe, run, "stage2", lambda *_: None)


def trainer(
    trainee: Any,
    examples: list[Any],
    stage: Any,
    recipe: Any,
    clock: Clock,
    pad: int = 0,
    mask: bool = True,
    ordered: bool = False,
    **options: Any,
) -> None:
    import transformers
    from torch.nn import functional
    from torch.utils.data import DataLoader, Dataset

    from catalog.ml.encoder import native_bf16
    from training.ml.data import epoch_batches
    from training.ml.optimizer import peak

    for name, weight in trainee.model.named_parameters():  # what ours trains
        weight.requires_grad_(weight.requires_grad and peak(trainee, name, stage) > 0)

    class Rows(Dataset[dict[str, Any]]):
        def __len__(self) -> int:
            return len(examples)

        def __getitem__(self, number: int) -> dict[str, Any]:
            one = examples[number]
            labels = [n if m else -100 for n, m in zip(one.ids, one.mask, strict=True)]
            return {"input_ids": one.ids, "labels": labels, "length": len(one.ids)}

    padding = transformers.DataCollatorForSeq2Seq(
        trainee.chat.tokenizer, padding="longest", pad_to_multiple_of=pad or None
    )

    def collated(rows: list[dict[str, Any]]) -> dict[str, Any]:
        batch = padding([{name: row[name] for name in ("input_ids", "labels")} for row in rows])
        batch["real"] = sum(row["length"] for row in rows)
        if not mask:
            batch.pop("attention_mask")
        return dict(batch)

    class Timed(transformers.Trainer):
        def training_step(self, model: Any, inputs: Any, *more: Any) -> Any:
            self.real = int(inputs.pop("real"))
            return super().training_step(model, inputs, *more)

        def compute_loss(self, model: Any, inputs: Any, *_: Any, **__: Any) -> Any:
            labels = inputs.pop("labels")[:, 1:].flatten()
            logits = model(**inputs, use_cache=False).logits[:, :-1]
            return functional.cross_entropy(logits.flatten(0, 1).float(), labels, ignore_index=-100)

        def get_train_dataloader(self) -> Any:
            if not ordered:
                return super().get_train_dataloader()
            lengths = [len(example.ids) for example in examples]
            batches = epoch_batches(lengths, stage.batch_size, recipe.seed, 0)
            return DataLoader(Rows(), batch_sampler=batches, collate_fn=collated)

    class Steps(transformers.TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            clock.step(run.real)

    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            use_cpu=True,
            bf16=recipe.bf16 and native_bf16("cpu"),  # as ours: emulated, it takes many times as long
            optim="adamw_torch_fused",
            train_sampling_strategy="group_by_length",
            per_device_train_batch_size=stage.batch_size,
            num_train_epochs=1,
            learning_rate=stage.lr,
            adam_beta1=stage.betas[0],
            adam_beta2=stage.betas[1],
            weight_decay=stage.weight_decay,
            max_grad_norm=stage.max_grad_norm,
            warmup_steps=max(1, round(stage.warmup_ratio * len(examples) / stage.batch_size)),
            lr_scheduler_type="cosine_with_min_lr",
            lr_scheduler_kwargs={"min_lr_rate": stage.min_lr_ratio},
            logging_steps=50,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
            seed=recipe.seed,
            **options,
        )
        run = Timed(
            trainee.model, arguments, data_collator=collated, train_dataset=Rows(), callbacks=[Steps()]
        )
        run.train()


def measure(side: str, asked: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.bench.trainer_peer", "--side", side]
    command += [
        "--snapshot",
        str(asked.snapshot),
        "--recipe",
        str(asked.recipe),
        "--records",
        str(asked.records),
    ]
    env = {
        **os.environ,
        "OMP_NUM_THREADS": "2",
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_WAIT_POLICY": "PASSIVE",
    }
    env["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] = "64" if side == "ours" else "1024"
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        return {"side": side, "failed": [f"not done after {PATIENCE} s"]}
    if done.returncode:
        return {"side": side, "failed": done.stderr.strip().splitlines()[-1:]}
    found = {"side": side, **json.loads(done.stdout.splitlines()[-1])}
    print(
        f"{side:>16}: {found['cpu']:>8,.0f} tokens a processor second, {found['wall']:>8,.0f} a second,"
        f" loss {found['loss']:.4f}, {found['memory_mb']:,.0f} MB, {found['tokens']:,} tokens timed",
        flush=True,
    )
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--snapshot", type=Path, required=True)
    parser.add_argument("--recipe", type=Path, default=RECIPE)
    parser.add_argument("--records", type=int, default=1600)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument(
        "--by", choices=("cpu", "wall"), default="cpu", help="what the best setting is chosen by"
    )
    parser.add_argument("--side", choices=("ours", *SIDES))
    asked = parser.parse_args()
    if asked.side:
        print(json.dumps(child(asked.side, asked)))
        return 0
    print(
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors; {asked.recipe.name}, {asked.records} records"
    )
    tried = [measure(side, asked) for side in TRAINER]
    for one in tried:
        if "failed" in one:
            print(f"{one['side']:>16}: {one['failed']}")
    best = max((one for one in tried if "failed" not in one), key=lambda one: one[asked.by])["side"]
    print(f"the Trainer at its best: {best} {TRAINER[best]}")
    pairs = [(measure("ours", asked), measure(best, asked)) for _ in range(asked.pairs)]
    return verdict(pairs, measure(ORDERED, asked))


def verdict(pairs: list[tuple[dict[str, Any], dict[str, Any]]], ordered: dict[str, Any]) -> int:
    ratios = {by: [one[by] / other[by] for one, other in pairs] for by in ("cpu", "wall")}
    for by, values in ratios.items():
        print(
            f"ours / Trainer by {by}: median {statistics.median(values):.2f}, {min(values):.2f}-{max(values):.2f}"
        )
    gaps = [one["loss"] / other["loss"] - 1 for one, other in pairs]
    print(
        f"our final loss against the Trainer's: {min(gaps):+.1%} to {max(gaps):+.1%}; load now {os.getloadavg()[0]:.1f}"
    )
    same = max(abs(one["loss"] / ordered["loss"] - 1) for one, _ in pairs)
    print(f"against a Trainer with our batches in our order: {same:.2%} apart")
    return (
        0 if statistics.median(ratios["cpu"]) >= 1.3 and max(gaps) <= MOST_LOSS and same <= SAME_LOSS else 1
    )


if __name__ == "__main__":
    sys.exit(main())
