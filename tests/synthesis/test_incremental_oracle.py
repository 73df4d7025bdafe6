"""What keys call stale is what would be sent otherwise: planner against rendered prompts, over random edit scripts."""

import zlib
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from synthesis.core.anchors import plan_anchors
from synthesis.core.keys import stage_keys
from synthesis.core.plan import Group, Held, State, plan_style
from synthesis.llm import prompts
from synthesis.llm.writers import llm_writers
from synthesis.samples.inputs import FewShots, Inputs, SampleKeys
from synthesis.samples.sources import CatalogView
from tests.synthesis import edited_world
from tests.synthesis.edited_world import SEED, SHOWN, Place, World, edited, make_world, places, sent
from trace_site.lib.llm.exchange import Endpoint

MAX_EXTRA = 0.02


@dataclass(frozen=True)
class Named:
    endpoint: Endpoint


def inputs_of(world: World, branch: str) -> Inputs:
    SHOWN.update(world.prompts)
    domains = dict.fromkeys(world.tools, "all")
    catalog = CatalogView(dict(world.tools), {}, domains, world.near)
    clients: Any = {role: Named(Endpoint("http://model", model)) for role, model in world.models.items()}
    writers = llm_writers(clients, world.recipe)
    rules = {version_of(rule): rule for rule in world.rules.values()}
    shots = FewShots(world.shots, world.recipe.query.few_shots)
    made_with = writers.made_with(branch)
    return Inputs(catalog, rules, branch, made_with, world.recipe.trace.permission_share, shots)


def version_of(rule: Any) -> int:
    return zlib.crc32(f"{rule.code}|{rule.version}".encode())


@dataclass
class Written:
    """The samples of the world before its edits."""

    rows: dict[Place, SampleKeys]
    bytes: dict[Place, tuple[bytes, bytes, bytes]]
    keys: dict[Place, tuple[str, str, str]]


def written(world: World) -> Written:
    found = Written({}, {}, {})
    inputs = {branch: inputs_of(world, branch) for branch in ("rule", "rrb")}
    for number, place in enumerate(places(world)):
        branch, of, kind, index = place
        made, known = ground(world, inputs[branch], place), inputs[branch]
        seed, batch = known.seeds(made, kind, index, SEED)
        key, behind = known.made_from(made, kind, index, seed, batch)
        rule = branch == "rule"
        found.rows[place] = SampleKeys(
            number,
            branch,
            "all",
            version_of(world.rules[of]) if rule else None,
            None if rule else of,
            kind if rule else "",
            "" if rule else kind,
            seed,
            key,
            "ready",
            "approved",
            "llm:model-1",
            behind["content"],
            index,
            batch,
            behind["granted"],
        )
        found.bytes[place] = sent(world, place, seed, batch)
        found.keys[place] = keys_now(known, made, found.rows[place])
    return found


def ground(world: World, inputs: Inputs, place: Place) -> Any:
    return inputs.of_rule(world.rules[place[1]]) if place[0] == "rule" else inputs.of_anchor(place[1])


def keys_now(inputs: Inputs, made: Any, row: SampleKeys) -> tuple[str, str, str]:
    digest = inputs.shots.digests([row.seed if row.batch is None else row.batch])[0]
    return stage_keys(made, row.kind, row.number or 0, row.seed, row.batch, digest, row.granted)


def replanned(world: World, before: Written) -> tuple[set[Place], dict[Place, State]]:
    """The slots that the real planner writes again, and every sample's state."""
    now = set(places(world))
    states: dict[Place, State] = {}
    groups: dict[tuple[str, str], Group] = {}
    inputs = {branch: inputs_of(world, branch) for branch in ("rule", "rrb")}
    by_id = {row.pk: place for place, row in before.rows.items()}
    for branch, known in inputs.items():
        rows = [row for row in before.rows.values() if row.branch == branch]
        for row, state in known.states(rows):
            place = by_id[row.pk]
            states[place] = state
            groups.setdefault(place[:2], Group()).add(Held(place[2], place[3], row.key, state))
    again: set[Place] = set()
    for of in world.rules:
        for style in {place[2] for place in now if place[:2] == ("rule", of)}:
            key_of = lambda of, kind, index: inputs["rule"].key(  # noqa: E731
                inputs["rule"].of_rule(world.rules[of]), kind, index, SEED
            )
            plan = plan_style(of, style, groups.get(("rule", of), Group()), 2, rewrite=True, key_of=key_of)
            again |= {("rule", of, slot.kind, slot.index) for slot in plan.slots() if slot.state is not None}
    tiers: dict[str, list[str]] = {}
    for branch, of, kind, _ in sorted(now):
        if branch == "rrb":
            tiers.setdefault(of, []).append(kind)
    plan = plan_anchors(
        sorted(tiers),
        {of: group for (branch, of), group in groups.items() if branch == "rrb"},
        len(before.rows),
        rewrite=True,
        key_of=lambda of, kind, index: inputs["rrb"].key(inputs["rrb"].of_anchor(of), kind, index, SEED),
        tiers_of=tiers.__getitem__,
    )
    again |= {("rrb", slot.of, slot.kind, slot.index) for slot in plan.slots() if slot.state is not None}
    return again, states


def compare(world: World, before: Written, seed: int) -> Counter[str]:
    """missed, extra and stale samples of one script; the same per stage under `stages_`."""
    after, edits = edited(world, seed)
    now = set(places(after))
    again, states = replanned(after, before)
    inputs = {branch: inputs_of(after, branch) for branch in ("rule", "rrb")}
    found: Counter[str] = Counter(scripts=1)
    for place, row in before.rows.items():
        if place not in now:
            assert states[place] == State.STALE, (edits, place)
            found["left"] += 1
            continue
        bytes_now = sent(after, place, row.seed, row.batch)
        changed = bytes_now != before.bytes[place]
        found["stale"] += changed
        found["missed"] += changed and place not in again
        found["extra"] += not changed and place in again
        keys = keys_now(inputs[place[0]], ground(after, inputs[place[0]], place), row)
        for stage in range(3):
            differs = bytes_now[stage] != before.bytes[place][stage]
            keyed = keys[stage] != before.keys[place][stage]
            found["stages_stale"] += differs
            found["stages_missed"] += differs and not keyed
            found["stages_extra"] += keyed and not differs
    return found


@pytest.fixture
def world(monkeypatch):
    found = make_world()
    monkeypatch.setattr(prompts, "source", SHOWN.__getitem__)
    yield found
    edited_world._made.clear()


@pytest.mark.parametrize("scripts", [range(4), pytest.param(range(4, 60), marks=pytest.mark.long)])
def test_planner_writes_again_exactly_what_would_be_sent_otherwise(world, scripts):
    assert len(world.rules) == 123
    before = written(world)
    assert len({row.key for row in before.rows.values()}) == len(before.rows) > 600
    total: Counter[str] = Counter()
    for seed in scripts:
        total += compare(world, before, seed)
    print(dict(total))
    assert total["missed"] == total["stages_missed"] == 0
    assert total["stale"] > 50 * len(scripts)
    assert total["extra"] <= MAX_EXTRA * total["stale"]
    assert total["stages_extra"] <= MAX_EXTRA * total["stages_stale"]


def test_nothing_edited_is_nothing_to_write(world):
    again, states = replanned(world.copy().refresh(), written(world))
    assert again == set() and set(states.values()) == {State.CURRENT}
