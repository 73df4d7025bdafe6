"""The slot plan: what is kept, written again in place, or new; pools, few-shot queries, the place of the gold tool."""

import math
import random
from collections import Counter, defaultdict

import pytest

from catalog.models import NeighbourList, Tool
from rules.models import Rule
from synthesis.core.anchors import plan_anchors, stratified
from synthesis.core.keys import shots_digest, slot_name
from synthesis.core.plan import Group, Held, Slot, State, plan_style, shuffled_pool
from synthesis.core.queries import ToolText, carries_permissions, permission_targets
from synthesis.core.recipe import default_recipe
from synthesis.generate.planning import plan
from synthesis.generate.services import synthesis_start
from synthesis.models import Sample, SynthesisRun
from synthesis.offline.writer import offline_writers
from synthesis.samples.inputs import FewShots
from synthesis.samples.sources import load_catalog
from tests.factories import make_domain, make_tool
from tests.synthesis.test_incremental_runs import new_version
from trace_site import jobs

CURRENT, OUTDATED, STALE = State.CURRENT, State.OUTDATED, State.STALE


def group(*held: Held) -> Group:
    found = Group()
    for one in held:
        found.add(one)
    return found


def style_plan(
    *held: Held, goal: int = 3, rewrite: bool = True
) -> tuple[list[tuple[int, State | None]], int]:
    key_of = lambda of, kind, index: f"key-{index}"  # noqa: E731
    found = plan_style("R", "explicit", group(*held), goal, rewrite=rewrite, key_of=key_of)
    return [(slot.index, slot.state) for slot in found.slots()], found.kept.total()


def held(
    index: int, state: State = CURRENT, *, gone: bool = False, key: str = "", kind: str = "explicit"
) -> Held:
    return Held(kind, index, key or f"key-{index}", state, gone)


def test_an_empty_style_is_filled_from_the_first_index():
    assert style_plan() == ([(0, None), (1, None), (2, None)], 0)


def test_what_is_current_stays_and_gaps_are_filled():
    assert style_plan(held(0), held(3)) == ([(1, None)], 2)
    assert style_plan(held(0), held(1), held(2), held(3)) == ([], 4)
    assert style_plan(held(0, kind="implicit")) == ([(0, None), (1, None), (2, None)], 0)


def test_what_is_not_current_is_written_again_in_place_up_to_the_goal():
    old = [held(index, STALE, key=f"old-{index}") for index in range(5)]
    assert style_plan(*old) == ([(0, STALE), (1, STALE), (2, STALE)], 0)
    assert style_plan(held(0), held(1, OUTDATED, key="old")) == ([(1, OUTDATED), (2, None)], 1)
    assert style_plan(held(0), held(1, OUTDATED, key="old"), rewrite=False) == ([(2, None)], 2)


def test_the_best_sample_of_a_slot_counts():
    assert style_plan(held(0, STALE, key="old"), held(0), goal=1) == ([], 1)


def test_a_refused_key_is_not_tried_again_but_another_one_in_its_slot_is():
    assert style_plan(held(0, gone=True), goal=1) == ([(1, None)], 0)
    assert style_plan(held(0, STALE, gone=True, key="old"), goal=1) == ([(0, None)], 0)
    # the slot went A (refused) -> B, and the inputs came back to A
    back = [held(0, CURRENT, gone=True), held(0, STALE, key="b")]
    assert style_plan(*back, goal=1) == ([(1, None)], 0)


def anchors_plan(groups: dict[str, Group], goal: int, order: str = "abcdef", rewrite: bool = True):
    return plan_anchors(
        list(order),
        groups,
        goal,
        rewrite=rewrite,
        key_of=lambda of, kind, index: f"{of}-{kind}-{index}",
        tiers_of=lambda anchor: ["easy"] if anchor == "a" else ["easy", "medium", "hard"],
    )


def test_anchors_are_asked_in_turn_and_tiers_equally():
    found = anchors_plan({}, 12)
    assert Counter(slot.of for slot in found.slots()) == dict.fromkeys("abcdef", 2)
    assert [slot.kind for slot in found.slots() if slot.of == "a"] == ["easy", "easy"]
    assert Counter(slot.kind for slot in found.slots()) == {"easy": 4, "medium": 4, "hard": 4}


def test_top_up_takes_the_anchors_asked_least_with_fresh_indexes():
    asked = {
        "a": group(held(0, kind="easy"), held(1, kind="easy")),
        "b": group(held(0, kind="hard", gone=True)),
    }
    found = anchors_plan(asked, 6)
    assert found.kept.total() == 2
    assert [(slot.of, slot.index) for slot in found.slots()] == [("c", 0), ("d", 0), ("e", 0), ("f", 0)]
    assert [(slot.of, slot.index) for slot in anchors_plan(asked, 7).slots()][-1] == ("b", 1)


def test_stale_slots_of_live_anchors_are_written_again_and_retired_anchors_leave():
    stale = {name: group(held(0, STALE, kind="easy", key="old")) for name in "bz"}
    found = anchors_plan(stale, 2)
    assert next(found.slots()) == Slot("b", "easy", 0, STALE)
    assert {slot.of for slot in found.slots()} == {"b", "a"}


def test_every_beginning_of_the_stratified_order_is_spread_over_the_groups():
    groups = {"big": [f"b{n}" for n in range(80)], "small": [f"s{n}" for n in range(20)], "one": ["o"]}
    order = stratified(groups, 0)
    assert sorted(order) == sorted(name for names in groups.values() for name in names)
    assert {name[0] for name in order[:3]} == {"b", "s", "o"}
    assert 0.15 < sum(name[0] == "s" for name in order[:50]) / 50 < 0.25
    more = stratified({**groups, "new": ["n"]}, 0)
    assert [name for name in more if name != "n"] == order


def test_a_pools_order_depends_on_its_set_and_seed_alone():
    near = {"t": ["a", "b", "c", "d"], "u": ["e"]}
    other = {"t": ["d", "c", "b", "a"], "u": ["e"]}
    assert shuffled_pool(["t", "u"], near, 7) == shuffled_pool(["u", "t"], other, 7)
    assert shuffled_pool(["t"], near, 7) != shuffled_pool(["t"], near, 8)


def test_one_more_few_shot_query_changes_few_choices():
    texts = [f"query {number}" for number in range(200)]
    before, after = FewShots(texts, 4), FewShots([*texts, "one more"], 4)
    changed = [seed for seed in range(3000) if before.chosen(seed) != after.chosen(seed)]
    assert 0.005 < len(changed) / 3000 < 0.04  # 4 of 201
    assert all("one more" in after.chosen(seed) for seed in changed)
    seeds = list(range(5000))
    assert after.digests(seeds)[4321] == shots_digest(after.chosen(4321))
    assert len(set(after.chosen(1))) == 4
    assert FewShots(texts[:2], 4).chosen(1) and FewShots([], 4).chosen(1) == ()


def test_every_query_is_shown_about_as_often():
    shots = FewShots([f"query {number}" for number in range(50)], 5)
    shown = Counter(text for seed in range(4000) for text in shots.chosen(seed))
    assert chi_square_p([shown[text] for text in shots.texts]) > 0.001


def test_samples_that_carry_permissions_are_known_before_their_answer_is():
    tool = ToolText("A/b", "Reads.", ("read",))
    for seed in range(300):
        assert bool(permission_targets(("A/b",), (tool,), 0.3, seed)) == carries_permissions(0.3, seed)


def test_slots_hold_names_of_any_length():
    long = "A/" + "x" * 398
    assert len(slot_name("rrb", "d" * 60, long, "medium", 10**6)) <= 300
    assert slot_name("rrb", "hr", long, "easy", 0) != slot_name("rrb", "hr", f"{long[:-1]}y", "easy", 0)


def chi_square_p(counts: list[int]) -> float:
    """P(chi-square as large, were all equally likely), by Wilson and Hilferty."""
    expected = sum(counts) / len(counts)
    return tail(sum((count - expected) ** 2 / expected for count in counts), len(counts) - 1)


def tail(statistic: float, freedom: int) -> float:
    spread = 2 / (9 * freedom)
    z = ((statistic / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
    return 0.5 * math.erfc(z / math.sqrt(2))


def make_many_rules(rules: int) -> None:
    rng = random.Random(3)
    tools = [
        make_tool(f"Api{number % 23}/Get{number}", description=f"Gets {number}.")
        for number in range(rules * 3)
    ]
    for tool in tools:
        others = rng.sample([other.pk for other in tools if other != tool], 7)
        NeighbourList.objects.create(tool=tool, neighbour_ids=others, scores=[0.5] * 7)
    for number in range(rules):
        rule = Rule.objects.create(code=f"RULE_{number}", domain=make_domain("hr"))
        rule.published = new_version(rule, tools[number * 3 : number * 3 + 3], 1)
        rule.save()


def planned(branch: str, **options) -> list[Sample]:
    run = synthesis_start(branch=branch, seed=11, wake=False, **options)
    context = jobs.claim(run.job.pk)
    plan(context, SynthesisRun.objects.get(pk=run.pk), offline_writers(default_recipe()), load_catalog())
    context.close()
    return list(Sample.objects.filter(run=run).select_related("anchor", "rule_version__target"))


@pytest.mark.django_db
def test_the_gold_tool_stands_anywhere_in_its_pool():
    """Chi-square over pools of equal size, added up, per rule style and per tier; seed and catalog are fixed."""
    make_many_rules(40)
    places: defaultdict[str, defaultdict[int, Counter[int]]]
    places = defaultdict(lambda: defaultdict(Counter))
    for sample in [*planned("rule", per_rule=48), *planned("rrb", anchors=1200)]:
        gold = sample.anchor or sample.rule_version.target
        assert len(set(sample.pool)) == len(sample.pool)
        places[sample.style or sample.tier][len(sample.pool)][sample.pool.index(gold.name)] += 1
    assert set(places) == {"explicit", "implicit", "exception", "easy", "medium"}
    for kind, sizes in places.items():
        statistic, freedom = 0.0, 0
        for size, counts in sizes.items():
            expected = counts.total() / size
            statistic += sum((counts[place] - expected) ** 2 / expected for place in range(size))
            freedom += size - 1
        assert tail(statistic, freedom) > 0.001, kind
    assert Tool.objects.count() == 120
