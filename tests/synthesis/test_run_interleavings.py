"""Whatever happens to runs, in whatever order: one that says done has written, dropped or given up all it planned."""

import pytest

from tests.synthesis.interleavings import Play

pytestmark = pytest.mark.django_db(transaction=True)


HERE = [(0, False), (1, False), (2, False)]
# from the sixth on workers are processes
MORE = [pytest.param(seed, seed > 5, marks=pytest.mark.long) for seed in range(3, 12)]


@pytest.mark.parametrize(("seed", "processes"), [*HERE, *MORE])
def test_runs_that_say_done_keep_the_equation(seed, processes):
    found = Play(seed, processes).play()
    assert not found.problems, "\n".join([*found.problems, *found.told])
