"""The offline writers as one set: no key, no network, deterministic by seed, labelled "offline" on every sample."""

from synthesis.core.judge import OfflineJudge
from synthesis.core.queries import Writers
from synthesis.core.recipe import Recipe
from synthesis.writers.template_queries import TemplateQueryWriter, askable_tiers, unsupported
from synthesis.writers.template_traces import TemplateTraceWriter


def offline_writers(recipe: Recipe) -> Writers:
    judge = OfflineJudge(recipe.judge.thresholds)
    return Writers(
        "offline", TemplateQueryWriter(), TemplateTraceWriter(), judge, unsupported, tiers=askable_tiers
    )
