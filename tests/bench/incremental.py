"""How exact the content keys are over 500 edit scripts, and how long planning a million of them takes.

python -m tests.bench.incremental oracle [--scripts 500]
python -m tests.bench.incremental plan [--keys 1000000]
"""

import argparse
import json
import os
import resource
import time
from collections import Counter
from typing import Any


def oracle(scripts: int) -> dict[str, Any]:
    """Keys against rendered prompts: samples missed, extra and stale, the same per stage."""
    from synthesis.llm import prompts
    from tests.synthesis.edited_world import SHOWN, make_world
    from tests.synthesis.test_incremental_oracle import compare, written

    world, source = make_world(), prompts.source
    prompts.source = SHOWN.__getitem__  # type: ignore[assignment]
    try:
        before = written(world)
        total: Counter[str] = Counter(missed=0, extra=0, stages_missed=0, stages_extra=0)
        for seed in range(scripts):
            total.update(compare(world, before, seed))
    finally:
        prompts.source = source
    return {"tools": len(world.tools), "rules": len(world.rules), "samples": len(before.rows), **total}


def plan(keys: int) -> dict[str, Any]:
    """Seconds to plan `keys` samples of made-up rules over rows in memory, one rule edited since."""
    from dataclasses import replace

    from synthesis.core.keys import stage_keys
    from synthesis.core.plan import Group, Held, plan_style
    from synthesis.samples.inputs import FewShots, Inputs, SampleKeys
    from synthesis.samples.sources import CatalogView
    from tests.synthesis.edited_world import SEED, make_world
    from tests.synthesis.test_incremental_oracle import inputs_of, version_of

    world = make_world()
    base = inputs_of(world, "rule")
    rules = list(world.rules.values())
    per_style = keys // (3 * len(rules))
    styles = ("explicit", "implicit", "exception")

    def rows() -> Any:
        """As the database would stream them: made one by one, none kept."""
        for rule in rules:
            made, version = base.of_rule(rule), version_of(rule)
            for style in styles:
                for index in range(per_style):
                    yield rule, style, index, *base.seeds(made, style, index, SEED), made, version

    started = time.perf_counter()
    table = []
    for _, style, index, own, batch, made, version in rows():
        digest = base.shots.digests([own if batch is None else batch])[0]
        key = stage_keys(made, style, index, own, batch, digest, False)[-1]
        fields = ("rule", "all", version, None, style, "", own, key, "ready", "approved", "llm:m")
        table.append(SampleKeys(len(table), *fields, made.plain.content, index, batch, False))
    prepared = time.perf_counter() - started
    edited = replace(rules[0], version=2, text=f"{rules[0].text} Twice.", hash="edited")
    now = {version_of(rule): rule for rule in (edited, *rules[1:])}
    shots = FewShots(world.shots, world.recipe.query.few_shots)
    inputs = Inputs(base.catalog, now, "rule", base.made_with, base.share, shots)
    assert isinstance(inputs.catalog, CatalogView)
    of_version = {version_of(rule): rule.code for rule in rules}
    started, worked = time.perf_counter(), time.process_time()
    groups = {rule.code: Group() for rule in rules}
    for row, state in inputs.states(table):
        groups[of_version[row.version or 0]].add(Held(row.kind, row.number or 0, row.key, state))
    by_code = {rule.code: rule for rule in now.values()}
    written = 0
    for code, group in groups.items():
        for style in styles:
            made = plan_style(
                code,
                style,
                group,
                per_style,
                rewrite=True,
                key_of=lambda of, kind, index: inputs.key(inputs.of_rule(by_code[of]), kind, index, SEED),
            )
            written += sum(1 for _ in made.slots())
    seconds = time.perf_counter() - started
    return {
        "keys": len(table),
        "seconds": round(seconds, 2),
        "cpu_seconds": round(time.process_time() - worked, 2),
        "written_again": written,
        "share": round(written / len(table), 5),
        "prepared_seconds": round(prepared, 1),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("oracle", "plan"))
    parser.add_argument("--scripts", type=int, default=500)
    parser.add_argument("--keys", type=int, default=1_000_000)
    asked = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trace_site.settings")
    import django

    django.setup()
    started = time.perf_counter()
    found = oracle(asked.scripts) if asked.what == "oracle" else plan(asked.keys)
    print(json.dumps({**found, "wall": round(time.perf_counter() - started, 1)}))


if __name__ == "__main__":
    main()
