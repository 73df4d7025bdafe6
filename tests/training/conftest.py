"""Fixtures of the tests of training."""

import pytest

from training.runs import stages


@pytest.fixture
def fake_trainer(trace_home, monkeypatch):
    """A trainer that takes no time, and a home of its own."""
    monkeypatch.setattr(stages, "TRAINER", "tests.training.fake_trainer")
    monkeypatch.delenv("FAKE_TRAINER", raising=False)
