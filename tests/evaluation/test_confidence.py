"""Two regressions over made-up requests: what they learn, whom they refuse, and what is counted of their word."""

import random

import pytest

from evaluation.core.confidence import LEAST, Fit, fit, reliability, threshold


def requests(count=200, *, outside=0.3, seed=0):
    """(features, has a tool, first is right): near requests have a tool, a large lead is a right answer."""
    chance, rows = random.Random(seed), []
    for _ in range(count):
        inside = chance.random() > outside
        lead = chance.uniform(0, 4)
        near = chance.gauss(0.6 if inside else 0.2, 0.1)
        right = inside and chance.random() < lead / 4
        rows.append(({"first": -1.0, "lead": lead, "best": -0.1, "nearest": near}, inside, right))
    return rows


def fitted(rows):
    return fit(*zip(*rows, strict=True))


def test_requests_unlike_every_tool_are_refused_and_few_others():
    found, fresh = fitted(requests()), requests(400, seed=1)
    refused = [(inside, not found.verdict(features).fits) for features, inside, _ in fresh]
    outside = [said for inside, said in refused if not inside]
    kept = [said for inside, said in refused if inside]
    assert sum(outside) / len(outside) > 0.9 and sum(kept) / len(kept) < 0.1


def test_confidence_holds_on_requests_that_were_not_learned_from():
    found, fresh = fitted(requests()), requests(1000, seed=2)
    said = [found.verdict(features).confidence for features, _, _ in fresh]
    assert reliability(said, [right for _, _, right in fresh]).error < 0.08
    sure, unsure = ({"first": -1.0, "lead": lead, "best": -0.1, "nearest": 0.6} for lead in (3.9, 0.1))
    assert found.verdict(sure).confidence > 0.6 > 0.3 > found.verdict(unsure).confidence


def test_a_fit_is_the_same_after_it_was_stored():
    rows = requests()
    found = fitted(rows)
    again = Fit.of(found.as_dict())
    assert [again.verdict(row[0]) for row in rows] == [found.verdict(row[0]) for row in rows]


def test_without_outside_requests_nothing_is_refused_but_there_is_a_confidence():
    found = fitted(requests(outside=0))
    verdict = found.verdict(requests()[0][0])
    assert (found.threshold, verdict.fits) == (None, None)
    assert 0 < verdict.confidence < 1


def test_too_few_answers_teach_nothing():
    assert fitted(requests(LEAST)) is None and fit([], [], []) is None


def test_features_of_another_kind_of_model_get_no_verdict():
    verdict = fitted(requests()).verdict({"first": -1.0})
    assert (verdict.confidence, verdict.fits) == (None, None)


def test_the_reading_tells_what_a_request_is_about():
    rows = [
        (features | {"nearest": 0.5, "reading": [float(inside), 1.0]}, inside, right)
        for features, inside, right in requests()
    ]
    found = fitted(rows)
    assert found.verdict(rows[0][0] | {"reading": [1.0, 1.0]}).fits
    assert not found.verdict(rows[0][0] | {"reading": [0.0, 1.0]}).fits


@pytest.mark.parametrize(("count", "refused"), [(20, 1), (100, 5), (19, 0)])
def test_the_threshold_refuses_at_most_a_twentieth_of_the_requests_that_have_a_tool(count, refused):
    chances = [number / count for number in range(count)]
    assert sum(chance < threshold(chances) for chance in chances) == refused


def test_calibration_error_weighs_the_distance_in_each_bin_by_its_answers():
    """By hand: 2 answers said with .95, 1 of them right; 2 with .15, none right: .5 * .45 + .5 * .15."""
    found = reliability([0.95, 0.95, 0.15, 0.15], [True, False, False, False])
    assert (found.n, round(found.error, 6)) == (4, 0.3)
    assert [len(one.right) for one in found.bins] == [0, 2, 0, 0, 0, 0, 0, 0, 0, 2]
    assert reliability([1.0], [True]).bins[9].right == [1.0] and reliability([], []).error is None
