"""The offline writers: deterministic, varied, clean, and true to the rule's cases."""

import asyncio
import re
from dataclasses import replace

import pytest

from synthesis.core.clauses import cases, derived, reasons_unsupported
from synthesis.core.filters import Candidate, failures
from synthesis.core.queries import RuleText, ToolText, TraceRequest, by_name, permission_targets
from synthesis.core.recipe import default_recipe
from synthesis.offline.writer import offline_writers, unsupported, wish_of, wish_of_purpose
from tests.synthesis.texts import RULE, TOOLS, context, request
from trace_site.lib.errors import TraceError

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


def test_a_condition_that_was_refused_is_told_by_a_signal_that_no_hint_has_said():
    clauses = [
        replace(one, signals=tuple(f"{word} {place}" for word in ("red", "blue", "green", "grey")))
        for place, one in enumerate(RULE.clauses)
    ]
    rule = replace(RULE, clauses=tuple(clauses))

    def said(style, attempt):
        drafts = [made(style=style, index=index, attempt=attempt, rule=rule)[0] for index in range(2)]
        return [
            {word for word in ("red", "blue", "green", "grey") if word in one.query.lower()} for one in drafts
        ]

    assert said("explicit", 1) == [set(), set()]
    assert said("implicit", 1) == [{"red"}, {"blue"}]
    assert said("explicit", 2) == [{"grey"}, {"green"}]


def test_the_permission_step_is_there_only_with_targets():
    draft, plain = made()
    asked = TraceRequest(draft.query, draft.answer, TOOLS, 7, RULE, permissions=("payroll.read",))
    told = asyncio.run(WRITERS.trace.write(asked)).trace
    assert "access" in told or "may use" in told or "may work" in told
    assert "access" not in plain
    assert "payroll.read" not in told


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


def test_an_underspecified_query_says_no_signal_of_any_case():
    signals = [signal for clause in RULE.clauses for signal in clause.signals]
    for seed in range(20):
        draft, _ = made(style="underspecified", index=seed, seed=seed)
        assert draft.answer == (RULE.target,)
        assert not any(signal in draft.query for signal in signals), draft.query


@pytest.mark.parametrize(
    ("description", "wish"),
    [
        ("Returns a list of PaymentMethods for a given Customer", "get the payment methods for a Customer"),
        ("Creates an Invoice object by customer id.", "create an Invoice"),
        (
            "You can cancel a previously created payout if its status is pending",
            "cancel a payout if its status is pending",
        ),
        ("This endpoint allows you to delete a thing.", "delete a thing"),
        ("The payslip of one worker: gross, net", "see the payslip of one worker"),
        ("Void a PayPal order (v2)", "void a PayPal order"),
    ],
)
def test_a_description_says_what_somebody_wants(description, wish):
    found = wish_of(description)
    assert found is not None
    assert found.text == wish


@pytest.mark.parametrize("description", ["", "x", "POST /v1/things", "Thing", "a. b. c.", "¿?"])
def test_a_description_without_a_wish_gives_none(description):
    assert wish_of(description) is None


def test_returning_a_thing_is_not_asked_as_a_look_up():
    found = wish_of_purpose("to return parcels")
    assert found is not None
    assert not found.reads


def test_a_rule_without_an_experts_words_asks_for_two_example_requests():
    bare = replace(RULE, clauses=())
    assert "two requests that a colleague would send" in unsupported(bare, by_name(TOOLS))["implicit"]
    assert unsupported(RULE, by_name(TOOLS)) == {}


def test_an_example_request_of_the_expert_is_asked_as_it_stands():
    example = "can you dig out what I earned back in march for the landlord"
    clause = replace(RULE.clauses[0], signals=(example,))
    rule = replace(RULE, clauses=(clause, *RULE.clauses[1:]))
    queries = {made(style="implicit", rule=rule, seed=seed)[0].query for seed in range(20)}
    assert all(example in query for query in queries)
    assert len(queries) > 3


def asked_of_the_catalog(pool, anchor, tier, seed=0):
    overrides = {"branch": "rrb", "rule": None, "style": "", "pool": pool, "seed": seed}
    return made(**overrides, tier=tier, anchor=anchor)[0]


def test_a_tier_decides_how_many_tools_answer():
    for seed in range(10):
        for tier, size in (("easy", 1), ("medium", 2)):
            draft = asked_of_the_catalog(TOOLS, "CarPool/BookCar", tier, seed)
            assert len(draft.answer) == size
            assert draft.answer[0] == "CarPool/BookCar"
            assert "PayClassic/GetPayslip" not in draft.answer


def test_nothing_is_asked_that_a_look_alike_answers_as_well():
    pool = (
        ToolText("ParcelDeskV1/getParcels", "Lists parcels of a depot."),
        ToolText("ParcelDeskV2/getParcels", "Lists parcels of a depot."),
        *TOOLS[:4],
    )
    assert WRITERS.tiers("ParcelDeskV2/getParcels", pool) == []
    assert WRITERS.tiers("CarPool/BookCar", TOOLS) == ["easy", "medium"]
    with pytest.raises(TraceError, match="look-alike"):
        asked_of_the_catalog(pool, "ParcelDeskV2/getParcels", "easy")


def test_without_a_rule_the_closest_is_named_first_and_the_request_is_restated_before_it():
    live = [tool for tool in TOOLS if not tool.deprecated]
    for tool in live:
        about = TraceRequest("Where can I see the payslips of last month?", (tool.name,), tuple(live), 5)
        trace = asyncio.run(WRITERS.trace.write(about)).trace
        weighed = re.findall(
            "|".join(sorted(map(re.escape, (one.name for one in live)), key=len, reverse=True)), trace
        )
        assert trace.index("something shown") < trace.index(tool.name)
        assert weighed[0] == weighed[-1] == tool.name
        assert len(set(weighed)) > 1
