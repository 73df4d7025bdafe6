"""What people say instead of a rule's condition: everyday evidence by which an expert knows that it holds.

Each entry: words of a condition or purpose -> things that are true only when it holds. Written from general finance
and HR language; used for `implicit` queries of rules without expert-written signals.
"""

import re
from functools import lru_cache

from synthesis.core.words import content_stems

_HINTS: list[tuple[str, tuple[str, ...]]] = [
    (r"keep everyone", ("the rest of the crew stays on it", "nobody else may drop off it", "those on it now stay",
        "without touching the people already on it", "just these two on top of the others")),
    (r"counted in days", ("three days next week", "two full days", "monday to wednesday off", "the whole week off",
        "5 days in a row", "a full day on friday")),
    (r"(?:time unit is|unit in) hours|hours-based", ("4 hours on tuesday", "the two hours at the dentist",
        "from 9 to 11", "a 90 minute slot", "half an afternoon, 3 hours", "came in 2 hours late")),
    (r"onboarded employee leaves", ("her last day is the 30th", "he resigned yesterday", "the contract ends in june",
        "she quits after four years with us", "we let him go last week", "he is moving on to another company")),
    (r"suspended right now", ("did they lock us", "our payroll is blocked since this morning",
        "are we frozen at the moment", "we can't run anything, are we cut off")),
    (r"a newer (?:integration|one)|newer integrations", ("our shop went live on the new setup this year",
        "on the new checkout we built in spring", "we moved to the current checkout last month",
        "it's the checkout flow our developers just rebuilt", "from the new webshop checkout",
        "the store uses the latest checkout", "placed in the relaunched checkout")),
    (r"classic integration", ("that shop is still on the old setup", "from the old webshop that never moved",
        "it came through the integration we had before", "on the legacy shop")),
    (r"reference is known|by its PSP reference", (
        "i have the reference, 8835{n}", "reference 8816{n}", "their PSP reference is at hand",
        "PSP reference 8836{n}")),
    (r"reference is (?:missing|not available)|own reference", ("i only have our own order number {n}",
        "we lost the PSP reference, just our own reference {n}", "all i have is our own reference {n}",
        "they never gave us a PSP reference, ours is {n}")),
    (r"not (?:sure|known) whether", ("can't tell if the money was already taken", "no idea if it went through",
        "might be captured, might not", "i don't see if it was captured", "could be captured by now, unclear")),
    (r"attached to a customer|of an? (?:customer|account holder)", (
        "it's for {company}", "{company} asked about theirs",
        "i mean those of {company}", "customer is {company}")),
    (r"payout is still pending|still pending", ("it hasn't left yet", "not paid out yet", "it is still waiting",
        "the bank hasn't sent it so far", "status says pending")),
    (r"start as a draft", ("we want to check the first invoice before it goes out",
        "the first bill must not be finalised on its own", "let us edit invoice number one first",
        "nothing may be charged until we looked at the first invoice")),
    (r"at the same time", ("in one go", "all in one step", "and go through with it right away", "both at once")),
    (r"finali[sz]ed|not a draft", ("it went out to the customer last week", "already issued", "it was sent on monday",
        "it has its final number already", "the client has it in hand")),
    (r"investments? account", ("it's the brokerage account", "from his 401k", "the account with the funds and shares",
        "her stock portfolio at the broker")),
    (r"return risk", ("will this ACH debit bounce", "could the ACH come back unpaid",
        "how likely is it that this ACH fails", "don't want the ACH debit returned")),
    (r"real-time", ("as of this minute", "right now, not from this morning", "must be up to the second",
        "live, not yesterday's figure")),
    (r"all items of a user", ("every bank {person} has linked", "{person} has four banks connected",
        "all of {person}'s linked banks", "not only one bank login of {person}")),
    (r"force a check", ("nothing from today is showing yet", "the list looks stale, look again now",
        "the bank posted something an hour ago", "we can't wait for the nightly run")),
    (r"user_id exists", ("{person} is a known user here", "that user is already set up with us",
        "the user signed up in march", "we have that user on file")),
    (r"updated version of an existing", ("the one from {month} is out of date", "same one as in {month} but fresh",
        "numbers in the old one are three months old")),
    (r"stripe integration", ("it's for taking money over Stripe", "to hand over to Stripe", "Stripe needs it")),
    (r"deleted catalog items", ("what we took off the menu last year", "things we removed from the shop",
        "the items somebody threw out")),
    (r"outcome\b.{0,30}\bis unknown", ("the connection dropped while charging",
        "the till froze in the middle of it", "timeout, no idea if the customer paid",
        "never got an answer after pressing pay")),
    (r"change a card's pin", ("the customer picked a new one", "she forgot hers and wants 4 other digits",
        "he wants different digits")),
    (r"change the state of", ("freeze it for now", "it should be open again", "close it, the client left")),
    (r"disable a payment link", ("take it offline but keep it in the list", "nobody should be able to pay there now",
        "we may use it again next season", "just put it away, don't lose it")),
    (r"non-online payment", ("it's the one we use in the store", "the one at the counter", "for paying at the till")),
    (r"data access tiers", ("our contract with them has access tiers", "we are billed by tier",
        "we are on the tiered data plan")),
    (r"individual's account|personal guarantor", ("the owner vouches for the loan with his own account",
        "her private account is in it too", "{person} guarantees the loan personally")),
    (r"billing address", ("they moved their office", "the VAT id on their bill is wrong",
        "{company} has a new street", "{company} changed the tax number")),
    (r"card number|card token", ("she read me the new card over the phone", "{company} sent a new visa, ends in {n}",
        "the old card expired, got the digits of the new one")),
    (r"affect the billed amount", ("they go up to the bigger plan", "5 more seats from may",
        "price goes down to 40 a month",
        "the client wants the cheaper plan", "they now need 12 seats instead of 8")),
    (r"without destroying", ("we may need it again in autumn", "just switch it off for a while",
        "out of use for now, but keep it", "pause it during the audit, no deleting")),
    (r"deploy a token", ("it's an ERC20 for our loyalty points", "we launch our own currency on the chain",
        "an ERC721 for the tickets")),
    (r"authorised but not captured", ("nothing was charged yet", "the money is only reserved",
        "it's just a hold so far",
        "the amount is blocked but not taken")),
    (r"manual and unlimited", ("the unlimited ones too", "with the ones we track by hand", "don't leave out the manual "
        "ones", "some people have unlimited vacation")),
    (r"wage setting", ("what does {person} earn an hour", "i want the hourly pay of {person}",
        "is {person} on salary or by the hour")),
    (r"paystub and tax form", ("from the payroll documents {person} uploaded", "W-2 and pay stubs of {person}")),
]  # fmt: skip
HINTS = [(re.compile(pattern, re.IGNORECASE), hints) for pattern, hints in _HINTS]

WHOSE = next(pattern for pattern, _ in HINTS if "account holder" in pattern.pattern)


@lru_cache(maxsize=4096)
def hints_for(when: str, against: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Everything said instead of a part of `when` that no case of `against` shares; whose it is at last."""
    found = [
        (pattern, hints)
        for pattern, hints in HINTS
        if pattern.search(when) and not any(pattern.search(other) for other in against)
    ]
    strong = [(pattern, hints) for pattern, hints in found if pattern is not WHOSE]
    return tuple(hint for _, hints in strong or found for hint in hints)


@lru_cache(maxsize=4096)
def shared_hints(when: str, against: tuple[str, ...]) -> tuple[str, ...]:
    """Everything said instead of what `when` has in common with a case of `against`."""
    both = [
        hints
        for pattern, hints in HINTS
        if pattern is not WHOSE and pattern.search(when) and any(pattern.search(other) for other in against)
    ]
    return tuple(hint for hints in both for hint in hints)


@lru_cache(maxsize=4096)
def _hint_stems(when: str, against: tuple[str, ...]) -> tuple[frozenset[str], ...]:
    return tuple(content_stems(re.sub(r"\{\w+\}", "", hint)) for hint in hints_for(when, against))


def hint_in(query: str, when: str, against: tuple[str, ...] = ()) -> str:
    """The part of a query that says a hint for `when`; empty where none does."""
    hints = _hint_stems(when, against)
    for part in re.split(r"\s-\s|[.;:()?!]\s*|,\s(?:so\s)?", query if hints else ""):
        said = content_stems(part)
        if any(len(hint & said) >= max(2, 0.7 * len(hint)) for hint in hints):
            return part.strip()
    return ""


def before_hinted(when: str) -> str:
    """`when` up to what a hint stands for."""
    starts = [match.start() for pattern, _ in HINTS if (match := pattern.search(when))]
    return when[: min(starts)] if starts else when
