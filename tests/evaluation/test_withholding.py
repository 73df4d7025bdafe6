"""What a caller holds counts with what its token holds, and no way of cutting a text lets a name through."""

import random

import pytest
from hypothesis import given, strategies

from evaluation.core.withholding import WITHHELD, Redaction, granted, is_withheld

NAMES = ["Pay/GetSlip", "Pay/Get", "Weather API/Get.Forecast", "A/b", "<<Odd>>/x-y"]
OTHERS = ["Pay/GetSlips", "Repay/Get", "DNA/bank", "Weather API/Get"]


@pytest.mark.parametrize(
    ("held", "asked", "counts"),
    [
        (None, None, None),
        (None, ["a"], {"a"}),
        (None, [], set()),
        ({"a", "b"}, None, {"a", "b"}),
        ({"a", "b"}, ["b", "c"], {"b"}),
        ({"a"}, [], set()),
        (set(), None, set()),
        (set(), ["a"], set()),
    ],
)
def test_a_call_narrows_its_token_and_never_widens_it(held, asked, counts):
    held = held if held is None else frozenset(held)
    assert granted(held, asked) == counts


def test_a_tool_that_needs_something_goes_to_who_holds_one_of_it_and_to_nobody_who_holds_nothing():
    assert [
        is_withheld(["a", "b"], holds) for holds in (None, frozenset("b"), frozenset("c"), frozenset())
    ] == [
        False,
        False,
        True,
        True,
    ]
    assert not is_withheld([], frozenset())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("So it is Pay/GetSlip.", f"So it is {WITHHELD}."),
        ("pay/get, then Pay/GetSlip", f"{WITHHELD}, then {WITHHELD}"),
        ("Pay/GetSlips, Repay/Get and DNA/banks stay", "Pay/GetSlips, Repay/Get and DNA/banks stay"),
        ("Repay/GetSlip and Weather API/Get.Forecast", f"Re{WITHHELD} and {WITHHELD}"),
        ("allPay/GetSlip is it, Pay/Get.v2", f"all{WITHHELD} is it, {WITHHELD}.v2"),
        ("Pay/GetPay/GetSlipPAY/GETis", f"{WITHHELD}{WITHHELD}{WITHHELD}is"),
        ("<<Pay>><<GetSlip>> A/b2", f"{WITHHELD} {WITHHELD}2"),
        ("Weather API is no tool", "Weather API is no tool"),
        ("see <<Odd>>/x-y!", f"see {WITHHELD}!"),
        ("", ""),
        ("A/b", WITHHELD),
    ],
)
def test_names_are_taken_out_wherever_they_stand_but_inside_the_longer_name_of_another_tool(text, shown):
    assert Redaction(NAMES, OTHERS).whole(text) == shown


PIECES = [
    *NAMES,
    *OTHERS,
    "Re",
    "s",
    "<<Pay>>",
    "<<Get",
    ">>",
    "Pay",
    "/",
    "Get",
    "Slip",
    ".",
    ". ",
    "v2",
    " ",
    "İ",
    "weather api",
    "ß",
    "b",
    "A/",
    "x",
]


@given(strategies.lists(strategies.sampled_from(PIECES), max_size=12), strategies.integers(0, 10**6))
def test_a_text_in_pieces_is_shown_as_the_whole_one(pieces, seed):
    text, chance = "".join(pieces), random.Random(seed)
    whole, stream, shown, at = Redaction(NAMES, OTHERS).whole(text), Redaction(NAMES, OTHERS), "", 0
    while at < len(text):
        step = chance.randint(1, 5)
        shown += stream.feed(text[at : at + step])
        at += step
    assert shown + stream.rest() == whole
    left = whole.lower()
    for name in sorted(OTHERS, key=len, reverse=True):
        left = left.replace(name.lower(), " ")
    assert not any(name.lower() in left for name in NAMES)


def test_what_cannot_become_a_name_is_shown_at_once():
    stream = Redaction(NAMES)
    assert stream.feed("Somebody asks for it. P") == "Somebody asks for it. "
    assert stream.feed("ay is") == "Pay is"
    assert stream.feed(" Pay/GetSl") == " "
    assert stream.feed("ip, ok") == f"{WITHHELD}, ok"
