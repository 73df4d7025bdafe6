"""A small storm: real clients, a real server killed in the middle, and books that hold."""

import pytest

from tests.synthesis.review_storm import storm


@pytest.mark.django_db(transaction=True)
def test_every_reading_has_one_decision_whatever_people_and_the_server_do():
    outcome = storm(reviewers=6, items=40, kills=1)
    assert outcome.problems == {}
    assert outcome.kills == 1 and sum(outcome.rounds.values()) >= 40 and outcome.rounds[2] > 0
    assert outcome.answers[409] > 0
