"""A declared grid: what it may say, in which order its cells train, and what trains once."""

import json
import tracemalloc

import pytest

from trace_site.lib.errors import TraceError
from training.core.grid import Cell, GridPlan, Source, forecast, read_plan, totals
from training.core.recipe import Recipe
from training.core.stages import Step, steps

ALL = {"snapshots": [1]}


def steps_of(cell: Cell) -> list[Step]:
    return steps(cell.of(Recipe(base="some/base")), f"snapshot {cell.source}", "catalog", "plain")


def planned(data, kept=frozenset()):
    return forecast({cell: steps_of(cell) for cell in read_plan(data).cells()}, kept)


def test_plan_without_axes_is_the_whole_grid_of_45_cells():
    plan = read_plan(ALL)
    assert len(plan.cells()) == 45 == len({(c.format, c.memo, c.retrieval) for c in plan.cells()})


def test_plan_survives_being_written_and_read_again():
    plan = read_plan(
        {"snapshots": [3, "append:0,3", "replace:6"], "formats": ["a"], "seeds": [0, 7], "rrb": 20}
        | {"recipe": {"stage2": {"lr": 1e-5}}, "base": "some/base", "name": "sweep"}
    )
    assert read_plan(json.loads(json.dumps(plan.as_dict()))) == plan
    assert [str(one) for one in plan.sources] == ["snapshot 3", "append(0)", "append(3)", "replace(6)"]
    assert plan.sources[1].per_rule == 0


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"format": ["a"]}, "'format' is unknown|grid field 'format'"),
        ({"formats": ["d"]}, "'d' is not one of a, b, c"),
        ({"formats": []}, "at least one"),
        ({"formats": ["a", "a"]}, "names a twice"),
        ({"memos": "x"}, "grid field 'memos'"),
        ({"retrievals": ["r", "R"]}, "'R' is not one of"),
        ({"seeds": [-1]}, "'-1' is not a whole number"),
        ({"seeds": [True]}, "'True' is not a whole number"),
        ({"snapshots": []}, "at least one"),
        ({"snapshots": ["newest"]}, "neither a snapshot's number nor a sweep"),
        ({"snapshots": ["append:"]}, "'' is not a whole number"),
        ({"snapshots": ["add:1"]}, "neither"),
        ({"snapshots": [1, 1]}, "names snapshot 1 twice"),
        ({"recipe": ["lr"]}, "grid field 'recipe'"),
        ({"branches": ["rule", "all"]}, "'all' is not one of"),
        ({"seeds": list(range(40))}, "at most 500"),
        ({"seeds": [[0]]}, "a list is not a whole number"),
        ({"snapshots": [10**20]}, "is not a whole number"),
        ({"snapshots": ["x" * 5000]}, "x{80}…' is neither"),
        ({"name": "x" * 201}, "longer than 200"),
    ],
    ids=str,
)
def test_what_is_wrong_in_a_plan_is_named(change, where):
    with pytest.raises(TraceError, match=where):
        read_plan(ALL | change)


def test_a_plan_without_end_is_counted_and_not_built():
    every = {name: list(range(500)) for name in ("snapshots", "seeds")}
    tracemalloc.start()
    try:
        with pytest.raises(TraceError, match="has 11,250,000 cells"):
            read_plan(every)
        for axis in ({"seeds": list(range(10_000))}, {"snapshots": ["append:" + "1," * 10_000]}):
            with pytest.raises(TraceError, match="at most 500"):
                read_plan(ALL | axis)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_plan_that_is_no_mapping_is_refused():
    with pytest.raises(TraceError, match="must be a mapping"):
        read_plan(["a"])


def test_cells_that_others_go_on_from_train_first():
    found = planned(ALL)
    seen: set[str] = set()
    for one in found:
        fresh = [step for step in one.steps if step.key not in seen]
        assert len(fresh) <= 1, "a cell finds all but its own last stage trained"
        seen |= {step.key for step in one.steps}


def test_whole_grid_trains_42_of_the_75_stages_that_its_cells_need():
    assert totals(planned(ALL)) == {"stages": 75, "train": 42, "shared": 33, "kept": 0}


def test_sweep_over_k_trains_only_the_passes_with_rule_samples_again():
    data = {"snapshots": ["append:0,3,6,9,12"], "formats": ["a"], "memos": ["m"]}
    found = totals(planned(data))
    # stage 1, n, r and the reasoning pass of n>r once; r+R five times
    assert found["train"] == 4 + 5 and found["stages"] == 5 * 10


def test_kept_stages_are_not_trained_again():
    found = planned(ALL)
    kept = {step.key for one in found for step in one.steps if step.stage == "stage1"}
    said = totals(planned(ALL, kept))
    assert (said["kept"], said["train"]) == (30, 36)
    assert totals(planned(ALL, {s.key for one in found for s in one.steps}))["train"] == 0


def test_plan_keeps_defaults_of_the_paper():
    plan = GridPlan((Source(id=1),))
    assert (plan.base, plan.seeds, plan.branches) == ("pocket", (0,), ("rrb", "rule"))
