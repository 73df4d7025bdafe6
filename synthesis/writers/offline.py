"""The offline writers as one set: no key, no network, deterministic by seed, labelled "offline" on every sample."""

from synthesis.core.judge import OfflineJudge
from synthesis.core.queries import Writers
from synthesis.core.recipe import Recipe
from synthesis.writers.offline_queries import OfflineQueryWriter
from synthesis.writers.offline_traces import OfflineTraceWriter


def offline_writers(recipe: Recipe) -> Writers:
    return Writers(
        "offline", OfflineQueryWriter(), OfflineTraceWriter(), OfflineJudge(recipe.judge.thresholds)
    )
