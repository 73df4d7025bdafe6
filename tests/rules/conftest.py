"""Fixtures of the tests of rules."""

import pytest

from tests.rules.ways import World


@pytest.fixture
def world(user_with):
    """Tools, rules and people of change requests."""
    return World(user_with)
