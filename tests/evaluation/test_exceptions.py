"""Requests that a rule sends to another tool than its target have a line of their own in every report."""

import pytest
from django.urls import reverse

from evaluation.core.gate import CHAMPION, judge
from evaluation.core.paired import Asked
from evaluation.core.taught import ThreeAnswers, taught_cells
from evaluation.coverage.counted import counted
from evaluation.management.commands.evaluate import evaluation_lines
from tests.factories import (
    count_rollups,
    crown,
    make_cluster,
    make_evaluation,
    make_model,
    make_rule,
    make_tool,
)

RULED = {"rule": "PAY"}
EXCEPTION, TARGET = RULED | {"side": "exception"}, RULED | {"side": "target"}


def test_a_gate_judges_exceptions_apart_and_within_their_group():
    sides = [True] * 40 + [False] * 60
    ours = [0.0] * 40 + [1.0] * 60
    columns = (range(100), ["hr"] * 100, ["covered"] * 90 + [""] * 10, ours, [1.0] * 100)
    rows, _ = judge(
        [Asked("prb", "prb v1", "fast", "hit@1", *columns, exceptions=sides)], CHAMPION, flips=999
    )
    found = {row.group: (row.n, row.verdict) for row in rows}
    assert found == {"all": (100, "fail"), "covered": (90, "fail"), "exceptions": (40, "fail")}


def test_what_rules_taught_is_told_of_exceptions_too():
    answers = [ThreeAnswers("hr", "covered", True, False, False, place < 3) for place in range(8)]
    cells = taught_cells(answers)
    assert (cells["all", "exceptions"].n, cells["hr", "covered"].n) == (3, 8)


@pytest.fixture
def measured(db):
    """Two requests of the target, one of its exceptions, answered by a champion and by plain search."""
    read, write = make_tool("Pay/Get"), make_tool("Pay/Set")
    make_cluster(read, write)
    make_rule(read, write, code="PAY")
    answers = [
        (read, ["Pay/Get"], {}, TARGET),
        (write, ["Pay/Get"], {}, EXCEPTION),
        (read, ["Pay/Get"], {}, {"rule": "PAY", "side": "primary"}),
    ]
    model = make_model()
    crown(model)
    made = make_evaluation(*answers, model=model, decode="fast")
    make_evaluation(*answers, model=None, decode="embedding", benchmark=made.benchmark)
    count_rollups()
    return made


def test_the_page_of_an_evaluation_lists_exceptions_and_opens_exactly_them(client_as, measured):
    address = reverse("evaluation:detail", args=[measured.pk])
    client = client_as("expert")
    shown = client.get(address).content.decode()
    assert 'exceptions <span class="of">1</span>' in shown and 'covered <span class="of">3</span>' in shown
    found = client.get(address, {"group": "exceptions"})
    assert [row.text for row in found.context["shown"]] == ["query 1"]


def test_the_text_report_has_a_line_of_exceptions(measured):
    lines = [line for line in evaluation_lines(measured) if line.startswith("  all/exceptions: n 1 ")]
    assert "hit@1 0.000" in lines[0]


def test_two_evaluations_are_compared_on_exceptions_alone(client_as, measured):
    address = {
        "a": measured.pk,
        "b": measured.benchmark.evaluations.get(model=None).pk,
        "group": "exceptions",
    }
    found = client_as("expert").get(reverse("evaluation:compare"), address)
    assert found.context["n"] == 1


def test_the_page_of_a_domain_and_the_api_count_exceptions(client_as, measured):
    client = client_as("expert")
    shown = client.get("/?domain=hr").content.decode()
    assert "exceptions of rules" in shown
    counts = {"n": 1, "wrong": 1, "n_embedding": 1, "wrong_embedding": 1, "answer": "cannot tell"}
    assert counted().domains["hr"].groups["exceptions"] == counts
    assert client.get("/api/v1/coverage/hr").json()["groups"]["exceptions"] == counts
    behind = client.get(reverse("coverage-requests", args=["hr"]), {"group": "exceptions", "wrong": "model"})
    assert "1 request kept out of training on exceptions of rules" in behind.content.decode()
