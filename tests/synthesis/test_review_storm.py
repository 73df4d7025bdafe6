"""A small storm: real clients, a real server killed in the middle, and books that hold."""

import pytest

from tests.synthesis.review_storm import storm


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("reviewers", "items"), [(4, 24), pytest.param(6, 40, marks=pytest.mark.long)])
def test_every_reading_has_one_decision_whatever_people_and_the_server_do(reviewers, items):
    outcome = storm(reviewers, items, kills=1)
    assert outcome.problems == {}
    assert outcome.kills == 1 and sum(outcome.rounds.values()) >= items and outcome.rounds[2] > 0
    assert outcome.answers[409] > 0
