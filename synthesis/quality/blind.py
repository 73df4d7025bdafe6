"""Ready samples for blind reading, over branches, styles and tiers in equal shares."""

import random
from collections import defaultdict
from collections.abc import Sequence

from catalog.models import Tool
from synthesis.core.review.blind import LETTERS, Reading
from synthesis.models import Sample
from trace_site.lib.errors import TraceError

SHOWN = 10
DESCRIPTION = 200


def blind_readings(*, run: int | None, count: int, seed: int) -> list[Reading]:
    """`count` ready samples, or as many as there are; raises TraceError when there are none."""
    ready = Sample.objects.filter(machine=Sample.Machine.READY, branch__in=("rule", "rrb"))
    if run is not None:
        ready = ready.filter(run_id=run)
    strata: dict[str, list[int]] = defaultdict(list)
    for pk, branch, style, tier in ready.order_by("pk").values_list("pk", "branch", "style", "tier"):
        strata[f"{branch} {style or tier}".strip()].append(pk)
    if not strata:
        raise TraceError("No ready samples to read.", code="no_samples", hint="Run synthesis_run first.")
    rng = random.Random(f"{seed}|blind sample")
    picked = _spread({name: rng.sample(pks, len(pks)) for name, pks in sorted(strata.items())}, count)
    samples = Sample.objects.filter(pk__in=picked).select_related("rule_version").order_by("pk")
    named = {name for sample in samples for name in sample.pool}
    texts = dict(Tool.objects.filter(name__in=named).values_list("name", "description"))
    return [_reading(sample, picked[sample.pk], texts, seed) for sample in samples]


def _spread(queues: dict[str, list[int]], count: int) -> dict[int, str]:
    """{sample: stratum}, one from each stratum in turn until `count` or nothing is left."""
    picked: dict[int, str] = {}
    while len(picked) < count and any(queues.values()):
        for name, queue in queues.items():
            if queue and len(picked) < count:
                picked[queue.pop()] = name
    return picked


def _reading(sample: Sample, stratum: str, texts: dict[str, str], seed: int) -> Reading:
    rng = random.Random(f"{seed}|{sample.pk}")
    shown = _shown(sample, rng)
    tools = tuple((name, _short(texts.get(name, ""))) for name in shown)
    rule = sample.rule_version.text if sample.rule_version else ""
    return Reading(sample.pk, stratum, sample.query, rule, tools, tuple(sample.answer), sample.trace)


def _shown(sample: Sample, rng: random.Random) -> Sequence[str]:
    """The answer, what the rule or the trace names, and others of the pool, shuffled."""
    close = [name for name in sample.pool if name in sample.trace or _ruled(sample, name)]
    rest = [name for name in sample.pool if name not in close and name not in sample.answer]
    names = list(dict.fromkeys([*sample.answer, *close]))[: len(LETTERS)]
    names += rng.sample(rest, min(len(rest), max(0, SHOWN - len(names))))
    return rng.sample(names, len(names))


def _ruled(sample: Sample, name: str) -> bool:
    return sample.rule_version is not None and name in sample.rule_version.text


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= DESCRIPTION else text[: DESCRIPTION - 1].rsplit(" ", 1)[0] + "…"
