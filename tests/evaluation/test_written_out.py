"""Decisions in words: what a reader of a trace is told, sentence by sentence."""

import pytest

from evaluation.core.written_out import Decision, LookAlike, concluded, tokens_of, written_out

NAMES = ("Desk/Submit", "Desk/Cancel", "Classic/Post", "Pro/Create", "Pro/List")
TOOLS = {name: {"name": name, "deprecated": False, "permissions": []} for name in NAMES}
TOOLS["Classic/Post"]["deprecated"] = True
TOOLS["Pro/List"]["permissions"] = ["list", "all"]
SPEAKS = {
    "token": "<<LEAVE#1>>",
    "rule": "LEAVE",
    "text": "Planned time off goes through Desk/Submit.",
    "trained": True,
}
OTHER = {**SPEAKS, "token": "<<LEAVE#2>>", "text": "hours that were worked go to Pro/Create;"}


def weighed(name, clause=None, further=True):
    return LookAlike(TOOLS[name], clause, further)


def test_a_trace_reads_like_this():
    found = Decision(SPEAKS, ["Desk/Submit"], [weighed("Classic/Post", OTHER), weighed("Pro/Create", OTHER)])
    assert written_out(found) == (
        'LEAVE decides: "Planned time off goes through Desk/Submit". '
        "Not Classic/Post: it is deprecated. "
        'Not Pro/Create: the rule says "hours that were worked go to Pro/Create". '
        "So it is Desk/Submit."
    )
    assert tokens_of(found, {name: f"<<{name}>>" for name in NAMES}) == (
        '<<LEAVE#1>> <<Classic/Post>> <<Pro/Create>> ["<<Desk/Submit>>"]'
    )


def test_a_clause_that_no_training_has_seen_is_marked():
    found = Decision({**SPEAKS, "trained": False}, ["Desk/Submit"])
    assert written_out(found).startswith("LEAVE (in force, not yet trained) decides: ")


def test_two_rules_that_speak_at_once_are_both_named():
    other = {**OTHER, "rule": "HOURS", "token": "<<HOURS#1>>"}
    found = Decision(SPEAKS, ["Desk/Submit"], second=other)
    assert written_out(found) == (
        'LEAVE decides: "Planned time off goes through Desk/Submit". '
        'HOURS speaks too: "hours that were worked go to Pro/Create". So it is Desk/Submit.'
    )
    assert tokens_of(found, {"Desk/Submit": "<<S>>"}) == '<<LEAVE#1>> <<HOURS#1>> ["<<S>>"]'


def test_where_no_rule_speaks_the_trace_says_so():
    found = Decision(None, ["Desk/Submit", "Desk/Cancel", "Pro/List"], [weighed("Pro/Create")])
    assert written_out(found) == (
        "The model finds no clause near enough to decide and takes the closest tool. "
        "Not Pro/Create: it is a weaker match. "
        "So it is Desk/Submit, Desk/Cancel and Pro/List."
    )
    assert tokens_of(Decision(None, []), {}) == "<no rule> []"


@pytest.mark.parametrize(
    ("granted", "reason"),
    [
        (None, "it is a weaker match"),
        (frozenset({"list"}), "it is a weaker match"),
        (frozenset({"other"}), "it needs another permission"),
        (frozenset(), "it needs another permission"),
    ],
)
def test_a_look_alike_that_the_request_may_not_use_needs_another_permission(granted, reason):
    found = Decision(SPEAKS, ["Desk/Submit"], [weighed("Pro/List")])
    assert f"Not Pro/List: {reason}." in written_out(found, granted)


def test_a_look_alike_that_lies_nearer_is_not_said_to_lie_further():
    near = [weighed("Pro/Create", further=False)]
    ruled, free = (written_out(Decision(clause, ["Desk/Submit"], near)) for clause in (SPEAKS, None))
    assert "Not Pro/Create: the rule leads elsewhere." in ruled
    assert "Not Pro/Create: it is no closer a match." in free


# what a language model wrote, read as a decision


def said(number, tool, text, rule="LEAVE", stance="use"):
    about = {"rule": rule, "domain": "hr", "set": NAMES[:4], "stance": stance, "trained": True}
    return about | {"token": f"<<{rule}#{number}>>", "tools": [tool], "text": text}


LEARNED = [
    said(1, "Desk/Submit", "Planned time off goes through Desk/Submit."),
    said(2, "Desk/Submit", "so do hours of sick leave: Desk/Submit."),
    said(3, "Pro/Create", "hours that were worked go to Pro/Create;"),
    said(4, "Desk/Cancel", "never Desk/Cancel for hours.", stance="not"),
    said(1, "Desk/Submit", "Desk/Submit is the desk.", rule="DESK"),
]


def read(wrote, *listed):
    tools = {name: tool for name, tool in TOOLS.items() if name in wrote}
    return written_out(concluded(wrote, tools, list(listed), LEARNED))


def test_the_clause_of_the_named_rule_that_leads_to_the_answer_is_quoted():
    wrote = "Pro/Create and Pro/List came up. LEAVE decides: sick leave of some hours, so it is Desk/Submit."
    assert read(wrote, "Desk/Submit") == (
        'LEAVE decides: "so do hours of sick leave: Desk/Submit". '
        'Not Pro/Create: the rule says "hours that were worked go to Pro/Create". So it is Desk/Submit.'
    )


def test_a_text_that_names_no_rule_is_told_as_no_rule():
    assert read("It is Pro/List.", "Pro/List") == "The model names no rule. So it is Pro/List."


def test_a_named_rule_that_does_not_lead_to_the_answer_is_not_said_to_decide():
    for listed in ("Pro/List", "Desk/Cancel"):
        told = read(f"By LEAVE and DESK it is {listed}.", listed)
        assert told == f"The model names LEAVE and DESK, no clause of which leads there. So it is {listed}."
