"""The two halves of the tools, and the lettered questions that Stage 1 may learn from."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from training.core.questions import Questions, taught

WORDS = ("payslip", "bonus", "shift", "contract", "review", "parcel", "invoice", "refund")
TOOLS: list[dict[str, Any]] = [
    {
        "name": f"Api{n % 7}/Do{n}",
        "domain": "hr",
        "description": f"Returns the {WORDS[n % 8]} of case {n}. Needs an open period {n} before.",
    }
    for n in range(120)
]


def near(tools: Sequence[dict[str, Any]] = TOOLS) -> dict[str, list[str]]:
    names = [tool["name"] for tool in tools]
    return {name: [other for other in names if other != name][:8] for name in names}


@pytest.mark.parametrize(
    ("name", "half"),
    [("PayV1/ListRuns", True), ("PayV1/GetSlip", False), ("PayV2/GetSlip", False), ("Pay/runs/{id}", False)],
)
def test_the_half_of_a_tool_never_changes(name: str, half: bool) -> None:
    assert taught(name) is half


def test_the_halves_are_about_even() -> None:
    count = sum(taught(f"Api{n % 50}/Operation{n}") for n in range(8000))
    assert 3800 < count < 4200


def test_the_versions_of_an_endpoint_are_in_one_half() -> None:
    """They say much the same, and in the formats b and c they share a token."""
    for n in range(50):
        assert len({taught(f"{api}/Operation{n}") for api in ("PayV1", "PayV2", "Other")}) == 1


def test_questions_repeat_and_stay_when_another_tool_comes() -> None:
    new = {"name": "New/Tool", "domain": "hr", "description": "Burns the archive of one year."}
    links = near()
    for tool in TOOLS[:20]:
        pair = list(Questions(TOOLS, links).pair(tool["name"], 3))
        assert pair == list(Questions([*TOOLS, new], links).pair(tool["name"], 3))
        assert [len(question["choices"]) for question in pair] == [4, 2]


def test_no_letter_is_the_better_guess() -> None:
    questions = Questions(TOOLS, near())
    asked = [question for tool in TOOLS for question in questions.pair(tool["name"], 0)]
    letters = Counter((len(question["choices"]), question["answer"]) for question in asked)
    assert all(17 <= letters[4, letter] <= 43 for letter in "ABCD")
    assert 45 <= letters[2, "A"] <= 75


def test_a_tool_that_cannot_be_asked_for_a_no_is_not_asked_for_a_yes() -> None:
    alone = [{"name": "A/x", "domain": "hr", "description": "Keeps things as they were."}]
    assert list(Questions(alone, {}).pair("A/x", 0)) == []
