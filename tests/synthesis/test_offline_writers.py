"""The offline writers: deterministic, varied, clean, and true to the rule's cases."""

import asyncio
import re
from dataclasses import replace

import pytest

from synthesis.core.clauses import cases, derived, described_task, reasons_unsupported
from synthesis.core.filters import Candidate, failures
from synthesis.core.queries import TIERS, RuleText, ToolText, TraceRequest, by_name
from synthesis.core.recipe import default_recipe
from synthesis.core.traces import permission_targets
from synthesis.writers.hints import hints_for
from synthesis.writers.offline import offline_writers
from synthesis.writers.restated import asked_in, wish_in
from synthesis.writers.wants import want_of, want_of_task
from tests.synthesis.texts import RULE, TOOLS, context, request

WRITERS = offline_writers(default_recipe())


def made(**overrides):
    asked = request(**overrides)
    draft = asyncio.run(WRITERS.query.write(asked))
    about = TraceRequest(draft.query, draft.answer, asked.pool, asked.seed, asked.rule)
    return draft, asyncio.run(WRITERS.trace.write(about)).trace


def test_the_same_seed_writes_the_same():
    assert made(seed=3) == made(seed=3)
    assert made(seed=3)[0].query != made(seed=4)[0].query


def test_every_style_passes_the_filter():
    for style in ("explicit", "implicit", "exception"):
        for index in range(30):
            draft, trace = made(style=style, index=index, seed=index)
            found = failures(
                Candidate(
                    branch="rule",
                    query=draft.query,
                    answer=draft.answer,
                    pool=frozenset(by_name(TOOLS)),
                    trace=trace,
                    style=style,
                    rule_code=RULE.code,
                    rule_tools=RULE.tools,
                    permission_tags=frozenset({"payroll.read"}),
                ),
                context(),
            )
            assert found == [], (draft.query, trace)
            assert draft.explanation.count(".") >= 1


def test_explicit_and_implicit_lead_to_the_target_and_exceptions_to_every_live_confusable():
    answers = {
        style: {made(style=style, index=i)[0].answer[0] for i in range(8)}
        for style in ("explicit", "implicit")
    }
    assert answers == dict.fromkeys(("explicit", "implicit"), {RULE.target})
    exceptions = {made(style="exception", index=i)[0].answer[0] for i in range(8)}
    assert exceptions == {"PayOne/GetPayslip", "PayNova/GetPayslipLines"}


def test_years_that_are_varied_stay_within_the_case():
    for index in range(60):
        draft, _ = made(style="implicit", index=index, seed=index)
        assert all(int(year) >= 2024 for year in re.findall(r"\b20\d\d\b", draft.query)), draft.query
        draft, _ = made(style="exception", index=index * 2, seed=index)
        if draft.answer == ("PayOne/GetPayslip",):
            assert all(int(year) < 2024 for year in re.findall(r"\b20\d\d\b", draft.query)), draft.query


def test_a_tier_decides_how_many_tools_answer():
    for tier, (low, high) in TIERS.items():
        for seed in range(10):
            draft, trace = made(
                branch="rrb", rule=None, style="", tier=tier, anchor="CarPool/BookCar", seed=seed
            )
            assert low <= len(draft.answer) <= high
            assert draft.answer[0] == "CarPool/BookCar"
            assert "PayClassic/GetPayslip" not in draft.answer
            assert all(name in trace for name in draft.answer)


def test_the_permission_step_is_there_only_with_targets():
    draft, plain = made()
    asked = TraceRequest(draft.query, draft.answer, TOOLS, 7, RULE, permissions=("payroll.read",))
    told = asyncio.run(WRITERS.trace.write(asked)).trace
    assert "access" in told or "may use" in told or "may work" in told
    assert "access" not in plain
    assert "payroll.read" not in told


def test_without_a_rule_the_request_is_restated_alike_whatever_the_answer_and_quoted_after_it_is_named():
    live = [tool for tool in TOOLS if not tool.deprecated]
    query = "Where can I see the payslips of last month?"

    def told(tool: ToolText, seed: int) -> str:
        about = TraceRequest(query, (tool.name,), tuple(live), seed)
        return asyncio.run(WRITERS.trace.write(about)).trace

    for seed in range(12):
        traces = {tool.name: told(tool, seed) for tool in live}
        assert len({trace.partition(".")[0] for trace in traces.values()}) == 1
        assert all(trace.index("'last month'") > trace.index(name) for name, trace in traces.items())
        for name, trace in traces.items():
            weighed = re.findall("|".join(sorted(traces, key=len, reverse=True)), trace)
            assert len(set(weighed)) > 1 and weighed[0] == weighed[-1] == name


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("I'm looking for a car that is free on Monday. Can you help me?", "car"),
        ("Could you fetch the specific guitar chord positions for E7, please?", "chord positions"),
        ("Kindly tell me which name registrar, preferably cheap, is best for the family.", "name registrar"),
        ("Thanks!", "Thanks"),
        ("¿?", "¿?"),
    ],
)
def test_a_request_is_quoted_by_the_two_words_that_say_most_and_stand_together(query, said):
    assert asked_in(query) == said


@pytest.mark.parametrize(
    ("query", "wish"),
    [
        ("Could you suggest a car?", "something found"),
        ("I must tell my boss: please WRITE it for me", "an answer"),
        ("Design a logo and find a name", "something made"),
        ("Book me a car.", "something done"),
        ("¿?", "something done"),
    ],
)
def test_the_first_word_that_says_what_kind_of_thing_is_wanted_decides(query, wish):
    assert wish_in(query) == wish


@pytest.mark.parametrize(
    ("description", "task"),
    [
        ("Returns a list of cars.", "to get a list of cars"),
        ("Tool that finds cars.", "tool that finds cars"),
        ("The easiest way to find cars.", "the easiest way to find cars"),
        ("Planning trips made easy.", "planning trips made easy"),
        ("AI for cars.", "AI for cars"),
    ],
)
def test_only_a_description_that_opens_with_a_verb_is_told_as_a_purpose(description, task):
    assert described_task(description) == task
    tools = (
        ToolText("Car/Find", description, (), False),
        ToolText("Car/Book", "Books a car for a day.", (), False),
    )
    for seed in range(20):
        request = TraceRequest("find me cars", ("Car/Find",), tools, seed)
        trace = asyncio.run(WRITERS.trace.write(request)).trace
        purposes = re.findall(r"(?:serves|there|need,) (\w+)", trace)
        assert all(word == "to" for word in purposes), trace


def test_permission_targets_hold_one_of_every_answer():
    assert permission_targets(("CarPool/BookCar",), TOOLS, 0.0, 1) == ()
    assert "car.write" in permission_targets(("CarPool/BookCar",), TOOLS, 1.0, 1)


def test_a_rule_without_clauses_is_read_sentence_by_sentence():
    rule = RuleText(
        "CARD_PIN",
        1,
        "Cards/putPins",
        ("Cards/revealPins", "Cards/oldPins"),
        "To change a card's PIN, use Cards/putPins; Cards/revealPins only reveals the PIN. "
        "Cards/oldPins is deprecated.",
    )
    found = {clause.route_to: clause.when for clause in derived(rule)}
    assert found == {"Cards/putPins": "to change a card's PIN", "Cards/revealPins": "to reveal the PIN"}


def test_styles_without_an_honest_query_are_named_with_the_reason():
    tools = by_name(TOOLS)
    dead = {
        name: replace(tool, deprecated=tool.deprecated or name in RULE.confusables)
        for name, tool in tools.items()
    }
    assert reasons_unsupported(RULE, tools) == {}
    assert list(reasons_unsupported(RULE, dead)) == ["exception"]
    gone = {name: tool for name, tool in tools.items() if name != RULE.target}
    assert set(reasons_unsupported(RULE, gone)) == {"explicit", "implicit", "exception"}


def test_a_dead_tool_has_no_case():
    rule = replace(
        RULE, clauses=(), text="Use PayNova/GetPayslip for payslips. PayClassic/GetPayslip is for old ones."
    )
    assert "PayClassic/GetPayslip" not in {case.clause.route_to for case in cases(rule, by_name(TOOLS))}


def test_a_description_in_any_form_still_gives_a_query():
    for text in (
        "",
        "x",
        "POST /v1/things",
        "This endpoint allows you to delete a thing.",
        "Thing",
        "a. b. c.",
    ):
        tool = ToolText("Api/doThing", text)
        asked = request(
            branch="rrb", rule=None, style="", tier="easy", anchor=tool.name, pool=(tool, *TOOLS[:2])
        )
        assert len(asyncio.run(WRITERS.query.write(asked)).query) > 3


def prose(text, *confusables, target="Desk/open"):
    return RuleText("DESK_RULE", 1, target, confusables, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "If the parcel is still in the depot, hold it with Desk/open; Desk/close ships a parcel again.",
            {
                "Desk/open": "the parcel is still in the depot, to hold it",
                "Desk/close": "to ship a parcel again",
            },
        ),
        (
            "Broken parcels are withdrawn with Desk/open. Desk/close is for parcels on the road.",
            {"Desk/open": "to withdraw broken parcels", "Desk/close": "… for parcels on the road"},
        ),
        (
            "To weigh a parcel in a newer integration, use Desk/open rather than the classic Desk/close.",
            {
                "Desk/open": "to weigh a parcel in a newer integration",
                "Desk/close": "to weigh a parcel in the classic integration",
            },
        ),
        (
            "To find a parcel, use Desk/open instead of calling a driver with Desk/close.",
            {"Desk/open": "to find a parcel", "Desk/close": "to call a driver"},
        ),
        ("List parcels with Desk/open; Desk/close is deprecated.", {"Desk/open": "to list parcels"}),
    ],
)
def test_a_rule_in_prose_gives_conditions_and_purposes(text, expected):
    found = derived(prose(text, "Desk/close"))
    assert {clause.route_to: clause.when for clause in found} == expected


def test_a_case_that_reads_like_another_is_no_exception():
    rule = prose("When the door is locked, ring with Desk/open instead of Desk/close.", "Desk/close")
    same = {
        "Desk/open": ToolText("Desk/open", "Ring a bell."),
        "Desk/close": ToolText("Desk/close", "Ring a bell."),
    }
    assert "exception" in reasons_unsupported(rule, same)
    other = {**same, "Desk/close": ToolText("Desk/close", "Send a telegram to the owner.")}
    assert reasons_unsupported(rule, other) == {}


def test_a_hint_stands_only_for_the_case_that_alone_has_its_condition():
    newer = "to weigh a parcel in a newer integration"
    assert hints_for(newer, ("to weigh a parcel in the classic integration",))
    assert not hints_for(newer, ("to ship a parcel in a newer integration",))


def test_returning_a_thing_is_not_asked_as_a_look_up():
    tool = ToolText("Shop/returnParcel", "Return parcel. Returns a parcel to its sender.")
    assert want_of(tool.name, tool.description).kind == ""
    assert want_of_task("to return parcels").verb == "return"


def test_an_underspecified_query_says_no_signal_of_any_case():
    signals = [signal for clause in RULE.clauses for signal in clause.signals]
    for seed in range(20):
        draft, _ = made(style="underspecified", index=seed, seed=seed)
        assert draft.answer == (RULE.target,)
        assert not any(signal in draft.query for signal in signals), draft.query


def test_a_wish_that_two_versions_answer_is_answered_by_both_or_says_which():
    pool = (
        ToolText("ParcelDeskV1/getParcels", "Lists parcels of a depot."),
        ToolText("ParcelDeskV2/getParcels", "Lists parcels of a depot."),
        *TOOLS[:4],
    )
    for seed in range(30):
        overrides = {"branch": "rrb", "rule": None, "style": "", "pool": pool, "seed": seed}
        draft, _ = made(**overrides, tier="easy", anchor="ParcelDeskV2/getParcels")
        assert "v2" in draft.query, draft.query
        draft, _ = made(**overrides, tier="medium", anchor="ParcelDeskV2/getParcels")
        assert "v2" in draft.query or "ParcelDeskV1/getParcels" in draft.answer, draft.query
