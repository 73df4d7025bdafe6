"""Whatever happens to runs and in whatever order: one that says done has written, dropped or given up all it planned.

Thirty more of these, with processes that are killed: tests/bench/run_interleavings.py.
"""

import pytest

from tests.synthesis.interleavings import Play

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("seed", range(6))
def test_runs_that_say_done_keep_the_equation(seed):
    found = Play(seed).play()
    assert not found.problems, "\n".join([*found.problems, *found.told])
