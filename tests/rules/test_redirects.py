"""Descriptions that send to another tool: who is named, which of the two is right, and when."""

import pytest

from rules.core.redirects import Described, Redirects


def found(source: str, *others: tuple[str, str], name: str = "Bank/cancelPayment"):
    """(other, whether it is preferred, condition, cue) for what `source`, the description of `name`, says."""
    tools = [Described(name, source), *(Described(*other) for other in others)]
    return [
        (one.other, one.preferred == one.other, one.condition, one.cue)
        for one in Redirects(tools).find(tools[0])
    ]


REFUND = ("Bank/createRefund", "Create a refund. Pays money back.")
VOID = ("Bank/voidPayment", "Void a payment. Takes back what was not captured.")


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("Cancel a payment. Use Bank/createRefund instead.", "a full name"),
        ("Cancel a payment. Please use createRefund instead.", "an operation"),
        ("Cancel a payment. Use the Create a refund endpoint instead.", "a title"),
        ("Cancel a payment. Use “Create a refund” instead.", "a quoted title"),
        ("Cancel a payment. Use POST /refund/create instead.", "a path"),
    ],
)
def test_a_tool_is_found_by_whatever_it_is_called(said, named):
    assert found(said, REFUND, VOID) == [("Bank/createRefund", True, "", "instead")], named


def test_the_words_before_the_name_say_when_the_other_tool_is_right():
    said = "Cancel a payment. If the payment was captured, use createRefund instead."
    assert found(said, REFUND) == [("Bank/createRefund", True, "If the payment was captured", "instead")]


def test_a_tool_that_is_used_instead_of_another_is_itself_the_right_one():
    said = "Cancel a payment. You can use this operation instead of voidPayment to keep the record."
    assert found(said, VOID) == [("Bank/voidPayment", False, "to keep the record", "away")]


def test_a_verb_names_the_tool_of_the_same_subject():
    said = "Cancel a payment. Only open ones can be cancelled; for a captured payment, void it instead."
    assert [row[:2] for row in found(said, VOID, REFUND)] == [("Bank/voidPayment", True)]


@pytest.mark.parametrize(
    "said",
    [
        "Cancel a payment. To find the payment id, use the List payments endpoint.",
        "Cancel a payment. To see what data to post, first call List payments.",
        "Cancel a payment. Every open one is listed by List payments.",
        "Cancel a payment. It uses the payment method of the customer instead.",
    ],
)
def test_a_tool_that_only_helps_is_no_redirect(said):
    listing = ("Bank/listPayments", "List payments. All of a month.")
    assert [row for row in found(said, listing, REFUND) if row[3] != "help"] == []


def test_an_api_is_its_tool_most_like_the_source_and_newest():
    said = "Cancel a payment. This is part of our classic integration. For new ones use the /cancels endpoint under "
    said += "Checkout API instead."
    others = [
        ("BankCheckoutV2/post-cancels", "Cancel a payment."),
        ("BankCheckoutV3/post-cancels", "Cancel a payment."),
        ("BankLoansV1/post-cancels", "Cancel a loan."),
    ]
    rows = found(said, *others, name="BankPaymentV1/post-cancel")
    assert [row[:2] for row in rows] == [("BankCheckoutV3/post-cancels", True)]


def test_a_description_without_end_or_sense_is_read_in_bounded_time():
    import time

    hostile = "use the " * 20_000 + "If " * 5_000 + "/a" * 20_000 + '"x' * 10_000
    started = time.process_time()
    found(hostile, REFUND, VOID)
    assert time.process_time() - started < 20
