"""Fixtures of the tests of evaluation."""

import pytest

from evaluation.results import tasks

FAKE = "tests.evaluation.fake_engine"


@pytest.fixture
def fake_engine(trace_home, monkeypatch):
    """An engine and an encoder that take no time, and a home of its own."""
    monkeypatch.setattr(tasks, "ENGINE", FAKE)
    monkeypatch.setattr(tasks, "ENCODER", FAKE)
    monkeypatch.delenv("FAKE_ENGINE", raising=False)
