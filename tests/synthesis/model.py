"""A language model for tests: reads category, numbers and tools out of a prompt, answers well, always the same."""

import random
from typing import Any

from synthesis.core.queries import AXES
from tests.synthesis.texts import TRACE

OPENERS = {
    "explicit": ("kindly send over", "please show me", "get me", "pull up"),
    "implicit": ("where is", "still waiting on", "what happened to", "i miss"),
    "exception": ("cannot find", "i need", "looking everywhere for", "is there a copy of"),
}
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
REASONS = [
    "because the bank asks",
    "taxes are due",
    "my landlord wants it",
    "somebody deleted mine",
    "the visa office insists",
    "we refinance our house",
    "my accountant is nagging",
    "the nursery fee depends on it",
    "child support needs it",
    "a car loan hangs on it",
    "the union wants proof",
    "i moved countries",
]
HOW = [
    "today if possible",
    "by noon",
    "no rush",
    "before friday",
    "as a pdf",
    "on paper",
    "to my private mail",
    "for two people",
]


def answers(body: dict[str, Any]) -> Any:
    """The content of the answer to a request body."""
    prompt = body["messages"][0]["content"]
    marks = {"BEGIN SELECTED TOOLS": "trace", "Sample id: ": "judge", 'in the category "': "query_rule"}
    purpose = next((name for mark, name in marks.items() if mark in prompt), "")
    if "json_schema" in body.get("response_format", {}):
        purpose = body["response_format"]["json_schema"]["name"]
    told = {"query_rule": _queries, "trace": _trace, "judge": _verdict}
    return told[purpose](prompt) if purpose in told else {"ok": True}


def _queries(prompt: str) -> dict[str, Any]:
    style = prompt.split('in the category "')[1].split('"')[0]
    numbers = prompt.split(" in a long varied series")[0].rsplit("numbered ", 1)[1].split(", ")
    old = style == "exception"
    tool = "PayOne/GetPayslip" if old else "PayNova/GetPayslip"

    def said(number: int) -> str:
        draw = random.Random(f"{style} {number}")
        year = draw.choice(("2019", "2020", "2021", "2022") if old else ("2024", "2025"))
        when = f"{draw.choice(MONTHS)} {year}"
        opener = draw.choice(OPENERS[style])
        return f"{opener} my pay document of {when}, {draw.choice(REASONS)}, {draw.choice(HOW)} ({number})"

    return {
        "queries": [
            {
                "number": int(number),
                "query": said(int(number)),
                "target_tool": tool,
                "explanation": "The year decides.",
            }
            for number in numbers
        ]
    }


def _trace(prompt: str) -> dict[str, Any]:
    tool = prompt.split("BEGIN SELECTED TOOLS")[1].split("\n")[1]
    said = TRACE.replace("PayOne/GetPayslip. So PayOne/GetPayslip.", f"{tool}. So {tool}.")
    if "BEGIN BUSINESS RULE" not in prompt:
        thing = f"The person wants one thing done, and {tool} is described as doing exactly that thing"
        said = f"{thing}, without any other step and with what is given. Nothing else comes close. So {tool}."
    return {"semantic_reasoning": {"reasoning": said}}


def _verdict(prompt: str) -> dict[str, Any]:
    sample = prompt.split("Sample id: ")[1].split("\n")[0]
    return {"id": sample, "critique": "", **dict.fromkeys(AXES, 5)}
