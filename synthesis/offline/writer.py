"""The offline writers as one set: no key, no network, deterministic by seed, labelled "offline" on every sample."""

from synthesis.core.queries import Writers
from synthesis.core.recipe import Recipe
from synthesis.offline.judge import OfflineJudge
from synthesis.offline.queries import TemplateQueryWriter, askable_tiers, unsupported
from synthesis.offline.traces import TemplateTraceWriter


def offline_writers(recipe: Recipe) -> Writers:
    judge = OfflineJudge(recipe.judge.thresholds)
    return Writers(
        "offline", TemplateQueryWriter(), TemplateTraceWriter(), judge, unsupported, tiers=askable_tiers
    )
