"""What rule samples taught, by hand-made scores: slices, paired differences, and the plain sentence."""

from evaluation.core.comparison import ThreeAnswers, taught_cells


def asked(count, champion, embedding, *, control=None, domain="hr", group="covered"):
    return [ThreeAnswers(domain, group, champion, control, embedding) for _ in range(count)]


def test_every_domain_and_group_has_its_own_cell_and_all_of_them_one():
    found = taught_cells([*asked(4, 1.0, 0.0), *asked(2, 0.0, 0.0, domain="tax", group="outside")])
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
    queries = [*asked(10, 1.0, 0.0, control=1.0), *asked(10, 0.0, 0.0, control=0.0)]
    cell = taught_cells(queries)["all", "all"]
    assert (cell.champion.mean, cell.control.mean, cell.embedding.mean) == (0.5, 0.5, 0.0)
    assert (cell.over_control.low, cell.over_control.high, cell.over_control.verdict) == (0, 0, "cannot tell")
    assert (cell.over_embedding.differ, cell.over_embedding.verdict) == (10, "better")


def test_nobody_can_tell_where_fewer_than_six_requests_differ():
    few = taught_cells([*asked(5, 0.0, 1.0)])["all", "all"]
    assert (few.over_embedding.verdict, few.warning) == ("cannot tell", "")


def test_worse_than_the_embedding_is_said_in_a_plain_sentence_with_its_numbers():
    found = taught_cells([*asked(40, 0.0, 1.0, group="outside"), *asked(50, 0.5, 0.5, group="outside")])
    warnings = [cell.warning for (domain, _), cell in found.items() if domain == "all"]
    assert warnings[1] == (
        "Worse than plain embedding search on requests outside every cluster: 0.28 against 0.72 "
        "(n 90, difference −0.44, 95 % −0.54 to −0.34)"
    )
    assert len(warnings) == 2 and all(warnings)
    assert not any(cell.warning for cell in taught_cells(asked(9, 1.0, 0.0)).values())


def test_side_that_was_not_measured_has_no_mean_and_no_difference():
    cell = taught_cells(asked(3, 1.0, None))["all", "covered"]
    assert (cell.control, cell.embedding, cell.over_control, cell.over_embedding) == (None,) * 4
    assert cell.warning == ""
