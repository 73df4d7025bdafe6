"""What rule samples taught, by hand-made scores: slices, paired differences, and the plain sentence."""

from evaluation.core.gate import EMBEDDING, judge
from evaluation.core.paired import Asked
from evaluation.core.taught import ThreeAnswers, taught_cells


def asked(count, champion, embedding, *, control=None, domain="hr", group="covered"):
    return [ThreeAnswers(domain, group, champion, control, embedding) for _ in range(count)]


def cells(queries):
    """With what the gate says of the same queries."""
    columns = (
        [getattr(one, side) for one in queries] for side in ("domain", "group", "champion", "embedding")
    )
    rows, _ = judge(
        [Asked("prb", "prb v1", "fast", "hit@1", range(len(queries)), *columns)], EMBEDDING, flips=1999
    )
    return taught_cells(queries, {(row.domain, row.group): row for row in rows})


def test_every_domain_and_group_has_its_own_cell_and_all_of_them_one():
    found = taught_cells([*asked(4, True, False), *asked(2, False, False, domain="tax", group="outside")])
    assert {key: cell.n for key, cell in found.items()} == {
        ("all", "all"): 6,
        ("all", "covered"): 4,
        ("all", "outside"): 2,
        ("hr", "all"): 4,
        ("hr", "covered"): 4,
        ("tax", "all"): 2,
        ("tax", "outside"): 2,
    }


def test_difference_is_paired_request_by_request():
    queries = [*asked(10, True, False, control=True), *asked(10, False, False, control=False)]
    cell = cells(queries)["all", "all"]
    assert (cell.champion.value, cell.control.value, cell.embedding.value) == (0.5, 0.5, 0.0)
    assert (cell.over_control.difference, cell.over_control.answer) == (0, "cannot tell")
    assert (cell.over_embedding.won, cell.over_embedding.answer) == (10, "better")


def test_nobody_can_tell_where_few_requests_differ():
    few = cells(asked(5, False, True))["all", "all"]
    assert (few.over_embedding.answer, few.warning) == ("cannot tell", "")


def test_worse_than_the_embedding_is_said_in_a_plain_sentence_with_its_numbers():
    found = cells([*asked(40, False, True, group="outside"), *asked(50, True, True, group="outside")])
    assert found["all", "outside"].warning == (
        "Worse than plain embedding search outside every cluster: 0.56 against 1.00 "
        "(n 90, difference −0.44, 95 % −0.55 to −0.35)"
    )
    assert not any(cell.warning for cell in cells(asked(9, True, True)).values())


def test_side_that_was_not_measured_has_no_mean_and_no_difference():
    cell = taught_cells(asked(3, True, None))["all", "covered"]
    assert (cell.control, cell.embedding, cell.over_control, cell.over_embedding) == (None,) * 4
    assert cell.warning == ""
