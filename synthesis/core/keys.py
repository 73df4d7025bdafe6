"""The content key of a sample: a hash over everything that made it.

Equal inputs give the equal key, so a plan made twice is one plan, and a changed input shows which samples are stale.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from synthesis.core.queries import RuleText, ToolText, batch_of
from trace_site.lib.files import content_hash


def made_from(
    *,
    branch: str,
    rule: RuleText | None,
    anchor: str,
    pool: Sequence[ToolText],
    writers: Mapping[str, Any],
    style: str,
    tier: str,
    seed: int,
    index: int,
    params: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The inputs behind a key, kept on the sample. Tool and rule hashes stand for their contents."""
    return {
        "branch": branch,
        "rule": {"code": rule.code, "version": rule.version, "hash": rule.hash} if rule else None,
        "anchor": anchor,
        "tools": {tool.name: tool.hash[:16] for tool in sorted(pool, key=lambda tool: tool.name)},
        "writers": dict(writers),
        "style": style,
        "tier": tier,
        "seed": seed,
        "index": index,
        "params": dict(params or {}),
    }


def sample_key(inputs: Mapping[str, Any]) -> str:
    return content_hash(inputs)


def sample_seed(seed: int, *parts: object) -> int:
    """A seed of its own for every sample, from the run's seed and what the sample is."""
    return random.Random(f"{seed}|{'|'.join(map(str, parts))}").getrandbits(31)


def batch_seed(seed: int, rule: RuleText, style: str, index: int, per_call: int) -> int:
    """The seed of a batch of rule queries: the same for every query that one call writes."""
    batch = batch_of(index, per_call)
    return sample_seed(seed, rule.domain, rule.code, rule.version, style, "batch", batch, per_call)
