"""Stage 1, memorization: descriptions to tokens, tokens to descriptions, the right tool among its look-alikes.

In: snapshot, recipe (memo m, mr or none). Out: run/export, the Stage-1 model (the untouched base with its token rows
when memo is none). What Stage 2 will do is none of its business: cells that differ there share this model.
"""

from pathlib import Path

from training.core.recipe import Recipe
from training.ml.loop import Progress
from training.ml.stage2 import train


def main(
    recipe: Recipe, snapshot_dir: Path, run_dir: Path, report: Progress, cache: Path | None = None
) -> None:
    train("stage1", recipe.with_cell(retrieval="none"), snapshot_dir, run_dir, report, None, cache)
