"""Which one is meant: numbers, names, dates and amounts that people add to a thing, by the kind of thing."""

import random
import re

from synthesis.core.words import stem
from synthesis.writers.frames import LATELY, REASONS, SOON, WHO
from synthesis.writers.lexicon import FIRMS, FIRST_NAMES, LAST_NAMES, MONTHS, TRADES

CITIES = ["Porto", "Lyon", "Bremen", "Leeds", "Ghent", "Turin", "Malmo", "Cork", "Basel", "Graz", "Utrecht", "Gdansk",
    "Boise", "Tulsa", "Perth", "Quito"]  # fmt: skip
_KINDS: list[tuple[str, tuple[str, ...]]] = [
    ("invoice bill", (" no. {n}", " INV-{n}", " for {company}", " of {month}", " over {amount}", " from {company}")),
    ("payment charge authorization authorisation capture", (" for order {n}", " of {amount}", " from {company}",
        " ref {n}",
        " made {lately}", " by {company}", " over {amount}")),
    ("payout transfer refund chargeback dispute deposit withdrawal", (" of {amount}", " to {company}", " ref {n}",
        " from {day}", " for {company}", " over {amount}")),
    ("transaction order sale purchase", (" no. {n}", " from {day}", " of {company}", " over {amount}", " ref {n}")),
    ("customer client vendor supplier merchant company organization business contact holder buyer seller payee",
        (" {company}", " {company}", " no. {n}")),
    ("employee worker person member user contractor applicant candidate operator cardholder recipient individual",
        (" {person}", " {person}", " no. {n}")),
    ("card wallet", (" ending in {n}", " of {person}", " for {person}", " for {company}", " no. {n}")),
    ("balance", (" of {company}", " for {company}", " for {month}")),
    ("account vault ledger", (" no. {n}", " of {company}", " for {company}", " {n}")),
    ("subscription plan contract agreement mandate coupon", (" of {company}", " for {company}", " no. {n}")),
    ("store location branch site warehouse", (" in {city}", " no. {n}", " {city}")),
    ("terminal device reader", (" in the {city} store", " no. {n}", " at the {city} counter")),
    ("report statement summary entry", (" for {month}", " of {month}", " for {company}", " no. {n}")),
    ("grant loan offer program quote estimate", (" for {company}", " no. {n}", " of {amount}")),
    ("absence leave timesheet payslip shift timecard policy pay day goal", (" of {person}", " for {person}",
        " from {day}", " for {month}")),
    ("address phone email document file attachment note comment image", (
        " of {company}", " for {company}", " of {person}")),
    ("item product asset inventory count stock", (" no. {n}", " in {city}")),
    ("application job opening interview position", (" for {city}", " in {city}", " no. {n}", " of {person}")),
    ("tax rate price fee budget cost", (" for {month}", " for {company}")),
    ("link session page checkout", (" for {company}", " over {amount}", " for order {n}")),
]  # fmt: skip
_BY_HEAD = {stem(word): told for heads, told in _KINDS for word in heads.split()}
DAYS = ["yesterday", "last week", "monday", "last friday", "this morning", "tuesday", "last month"]
ANY = (" for {company}", " for {company}", " of {company}")


def instance(core: str, rng: random.Random) -> str:
    """What tells this one apart (` INV-2041`, ` of Dana Ruiz`), with a leading space; empty where nothing fits."""
    last = re.sub(r"\W", "", core.split()[-1]) if core.split() else ""
    told = _BY_HEAD.get(stem(last.casefold()))
    if told is None:
        return filled(rng.choice(ANY), rng) if rng.random() < 0.5 else ""
    text = rng.choice(told)
    if last.endswith("s") and not text.startswith(
        (" of", " for", " from", " in", " to", " by", " made", " at")
    ):
        text = rng.choice(ANY)
    return filled(text, rng)


def filled(text: str, rng: random.Random) -> str:
    """Names, numbers and dates in the places of a text."""
    return re.sub(r"\{(\w+)\}", lambda match: _value(match.group(1), rng), text)


def _value(name: str, rng: random.Random) -> str:
    if name == "amount":
        number = rng.choice((rng.randint(2, 98) * 5, rng.randint(2, 98) * 50, rng.randint(11, 9999)))
        return rng.choice((f"{number:,} EUR", f"{number:,} USD", f"{number} euros", f"{number} pounds"))
    if name == "n":
        return str(rng.randint(1000, 9999))
    if name == "month":
        return rng.choice(MONTHS)
    if name == "who":
        return filled(rng.choice(WHO), rng)
    if name == "first":
        return rng.choice(FIRST_NAMES)
    if name == "person":
        return f"{rng.choice(FIRST_NAMES)} {rng.choice(LAST_NAMES)}"
    if name == "company":
        firm = rng.choice(FIRMS)
        return f"{firm} {rng.choice(TRADES)}" if rng.random() < 0.7 else firm
    sources = {
        "city": CITIES,
        "soon": SOON,
        "lately": LATELY,
        "day": DAYS,
    }
    return rng.choice(sources[name])


def reason(rng: random.Random) -> str:
    """Why somebody asks; says nothing of what is asked."""
    return filled(rng.choice(REASONS), rng)
