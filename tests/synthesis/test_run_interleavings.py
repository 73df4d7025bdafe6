"""Whatever happens to runs, in whatever order: one that says done has written, dropped or given up all it planned."""

import pytest

from tests.synthesis.interleavings import Play

pytestmark = pytest.mark.django_db(transaction=True)


KILLED = [pytest.param(seed, True, marks=pytest.mark.long) for seed in range(6, 12)]  # workers are processes


@pytest.mark.parametrize(("seed", "processes"), [*((seed, False) for seed in range(6)), *KILLED])
def test_runs_that_say_done_keep_the_equation(seed, processes):
    found = Play(seed, processes).play()
    assert not found.problems, "\n".join([*found.problems, *found.told])
