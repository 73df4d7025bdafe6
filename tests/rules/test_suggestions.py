"""What is suggested from the words of a catalog: kinds, texts that the editor reads back, pairs that are left out."""

import pytest

from rules.core.check import check_rule, has_errors
from rules.core.draft import content_of
from rules.core.redirects import Described
from rules.core.rule_book import RuleBook, ToolState
from rules.core.sentences import compare
from rules.core.suggestions import Failure, Suggester, asked_to

BANK = [
    Described(
        "BankV1/cancelPayment",
        "Cancel a payment. For captured payments, use the Create a refund endpoint instead.",
    ),
    Described("BankV1/createRefund", "Create a refund. Pays money back."),
    Described("BankV1/listOldReports", "List reports. Use List all reports instead.", deprecated=True),
    Described("BankV1/listReports", "List all reports. Newest first."),
    Described(
        "LeaveV1/POSTTimeOffs",
        "Create a Time-Off. Adds absence data for absence types with time unit set to days.",
    ),
    Described(
        "LeaveV1/POSTPeriods",
        "Create a Period. Adds absence data for absence types with time unit set to hours.",
    ),
    Described("PayrollV1/readSlip", "Read a payslip."),
    Described("PayrollV2/readSlip", "Read a payslip."),
    Described("ShopOrders/createTag", "Create a tag."),
    Described("ShopCustomers/createTag", "Create a tag."),
]


def suggested(tools=BANK, **options):
    without = options.pop("without", ())
    return Suggester(tools, **options).suggestions(without)


def pairs(found):
    return {(one.kind, one.target, *one.confusables) for one in found}


def test_each_kind_is_found_with_the_tool_that_is_right_as_target():
    assert pairs(suggested()) == {
        ("condition", "BankV1/createRefund", "BankV1/cancelPayment"),
        ("deprecated", "BankV1/listReports", "BankV1/listOldReports"),
        ("condition", "LeaveV1/POSTTimeOffs", "LeaveV1/POSTPeriods"),
        ("twin", "PayrollV2/readSlip", "PayrollV1/readSlip"),
        ("line", "ShopOrders/createTag", "ShopCustomers/createTag"),
    }


def test_the_vendor_s_words_stand_above_what_nobody_says():
    kinds = [one.kind for one in suggested()]
    assert kinds.index("deprecated") < kinds.index("twin") and kinds[-1] == "line"


def test_what_tells_two_descriptions_apart_is_marked_in_both():
    one = next(one for one in suggested() if one.target == "LeaveV1/POSTTimeOffs")
    said = {tool.name: tool.description for tool in BANK}
    marked = [[said[part.tool][start:end] for start, end in part.marks] for part in one.evidence]
    assert marked == [["days"], ["hours"]]


def test_list_and_get_or_two_nouns_of_the_names_call_for_no_rule():
    tools = [
        Described("A/listCards", "List the cards of a customer of the bank."),
        Described("A/getCard", "Get a card of a customer of the bank."),
        Described("A/getLoan", "Get a loan of a customer of the bank."),
    ]
    assert suggested(tools) == []


@pytest.mark.parametrize(
    "one", suggested(failures=[Failure("BankV1/listReports", "PayrollV2/readSlip", ("q",))])
)
def test_a_draft_has_no_errors_and_its_clauses_are_what_its_text_says(one):
    content = content_of(one.content)
    states = {tool.name: ToolState(deprecated=tool.deprecated) for tool in BANK}
    assert not has_errors(check_rule(content, RuleBook(states, [])))
    said = compare(content.text, content.clauses, content.tools)
    assert set(said.agreed) == set(range(len(content.clauses))) and not said.offered


def test_pairs_that_need_no_rule_are_left_out_alone():
    tools = [
        *BANK,
        Described("BankV1/stopPayment", "Stop a payment. For captured payments, use createRefund instead."),
    ]
    whole = next(one for one in suggested(tools) if one.target == "BankV1/createRefund")
    assert set(whole.confusables) == {"BankV1/cancelPayment", "BankV1/stopPayment"}
    without = [frozenset(("BankV1/createRefund", "BankV1/cancelPayment"))]
    left = next(one for one in suggested(tools, without=without) if one.target == "BankV1/createRefund")
    assert left.confusables == ("BankV1/stopPayment",)


def test_requests_that_go_wrong_both_ways_make_one_suggestion():
    one, other = "BankV1/createRefund", "LeaveV1/POSTPeriods"
    failures = [Failure(other, one, ("hours",)), Failure(one, other, ("money back", "pay it back"))]
    (new,) = [found for found in suggested(failures=failures) if found.kind == "failures"]
    assert new.tools == (one, other) and set(new.failures) == set(failures) and "3 requests" in new.why


@pytest.mark.parametrize("name", ["Pay/-", "Pay//", "$/get", "-/-"])
def test_a_name_without_letters_stops_no_suggestion(name):
    assert pairs(suggested([*BANK, Described(name, "Read it. Use Create a refund instead.")])) >= pairs(
        suggested()
    )


def test_the_eleventh_minor_version_is_older_than_the_second_major_one():
    tools = [Described(f"GoalsV1/update-goal-{version}", "Update a goal.") for version in ("v1.11", "v2")]
    assert [one.target for one in suggested(tools)] == ["GoalsV1/update-goal-v2"]


def test_failing_requests_join_the_suggestion_of_their_pair_or_make_one():
    failures = [
        Failure("PayrollV2/readSlip", "PayrollV1/readSlip", ("slip of May", "my slip")),
        Failure("BankV1/createRefund", "LeaveV1/POSTPeriods", ("money back",)),
        Failure("BankV1/createRefund", "Gone/tool", ("money",)),
    ]
    found = suggested(failures=failures)
    twin = next(one for one in found if one.kind == "twin")
    before = next(one for one in suggested() if one.kind == "twin")
    assert twin.failures == (failures[0],) and twin.score > before.score and "2 requests" in twin.why
    (new,) = [one for one in found if one.kind == "failures"]
    assert new.tools == ("BankV1/createRefund", "LeaveV1/POSTPeriods") and new.failures == (failures[1],)
    assert new.content["tests"] == [], "a benchmark's request is not to be learned from"


def test_neighbours_are_read_beside_each_other_whatever_their_names_share():
    tools = [
        Described("A/alpha", "Mails balance and interest of personal accounts to owners each spring."),
        Described("A/beta", "Mails balance, fees and taxes of business accounts to owners each autumn."),
    ]
    assert suggested(tools) == []
    near = {"A/alpha": {"A/beta": 0.95}}
    assert [set(one.tools) for one in suggested(tools, near=near)] == [{"A/alpha", "A/beta"}]


def test_the_order_of_the_tools_changes_nothing():
    assert suggested(list(reversed(BANK))) == suggested()


@pytest.mark.parametrize(
    ("description", "asked"),
    [
        ("Deletes a Shift.", "delete a Shift"),
        ("Note: Retrieves the payslips of a month.", "retrieve the payslips of a month"),
        ("Use this endpoint to list members.", "list members"),
        ("The members of a team.", "do “The members of a team”"),
    ],
)
def test_what_a_tool_is_for_is_told_in_its_own_words(description, asked):
    assert asked_to(Described("A/x", description)) == f"asked to {asked}"
