"""Queries that follow an expert's clause: its signals say in everyday words which case holds.

Years, places, people and things in a signal are exchanged for others that leave the case as it is.
"""

import random
import re
from collections.abc import Mapping, Sequence

from synthesis.core.queries import Clause, QueryRequest, ToolText
from synthesis.core.words import content_stems
from synthesis.writers.frames import CONDITION
from synthesis.writers.instances import filled, reason
from synthesis.writers.lexicon import COMPANIES, MONTHS, PEOPLE, ROLE
from synthesis.writers.phrases import phrase, terse, vary_words
from synthesis.writers.wants import ARTICLE, Want, want_of

NOUN_FRAMES = [
    "{ask}, {signal}", "{ask} - {signal}", "{signal}: {ask}", "{ask} ({signal})", "{signal}, {ask}",
    "it's {a_signal}, {ask}",
    "{ask} for {the_signal}", "{ask}, it is about {the_signal}", "we have {a_signal} here, {ask}",
    "re {signal}, {ask}",
    "{ask}, this one is {a_signal}", "about {the_signal}: {ask}", "{ask}. It concerns {the_signal}",
    "got {a_signal}, {ask}",
    "{ask} because of {the_signal}", "{ask}, {signal} again", "{signal} - {ask}", "for {the_signal}, {ask}",
    "{signal} here. {Ask}", "{ask}, think {signal}", "{Signal}. {Ask}", "it's about {the_signal}, {ask}",
    "{ask}; {signal}", "on {the_signal}: {ask}", "{ask}. {Signal}",
]  # fmt: skip
LOOSE_FRAMES = [
    "{ask}, {signal}", "{signal}, {ask}", "{signal} - {ask}", "{ask} ({signal})",
    "{signal}, so {ask}", "{signal}: {ask}",
    "{ask}. {Signal}", "{Signal}. {Ask}", "{ask}, note {signal}", "{ask} - {signal}", "{ask}; {signal}",
]  # fmt: skip
SENTENCE = re.compile(
    r"\b(?:is|are|was|were|has|have|had|asks?|needs?|wants?|pays?|belongs?|arriv\w+|comes?|came|uses?)\b"
)
LOOSE = re.compile(
    r"^(?:called|paid|sold|why|back|before|after|as|cannot|was|who|when|charged|joined|moves?|moved|got|started|booked|"
    r"referred|promoted|through|collected|waiting|posted|my|from|via|in|at|same|needs|no|not|works|reversed|split|"
    r"revalue|rebill|driven|ship|switch)\b|\b(?:is|are|was|were|wants|pays|paid|shows|offered|lost|taken|needed|"
    r"reimburses|transfers|withheld|differs|charged|asked|missing|ends)\b",
    re.IGNORECASE,
)
AFTER = re.compile(r"\b((?:19|20)\d\d)\s(?:or|and)\slater|(?:since|from)\s(?:\w+\s)?((?:19|20)\d\d)")
BEFORE = re.compile(r"before\s(?:\w+\s)?((?:19|20)\d\d)|(?:19|20)\d\d\sor\searlier")
# set phrases in which no word may be exchanged
FIXED = re.compile(
    r"opening balance|flight risk|position explained|job board|open position|class of|leave of absence"
)
YEAR = re.compile(r"\b(?:19|20)\d\d\b")


def query(
    clause: Clause,
    rivals: Sequence[Clause],
    request: QueryRequest,
    pool: Mapping[str, ToolText],
    turn: int,
    rng: random.Random,
) -> str:
    """What the person wants, with the signal of the case; `explicit` says the case's condition too."""
    assert request.rule is not None
    target = request.rule.target
    source = pool[clause.route_to if rng.random() < 0.6 or clause.route_to != target else target]
    want = want_of(source.name, source.description)
    theirs = " ".join(f"{other.when} {' '.join(other.signals)}" for other in rivals)
    if request.style == "underspecified" or not clause.signals:
        asked = _plain(want, rng)
        return conditioned(clause, asked, rng) if request.style == "explicit" else asked
    # each signal has its turn before any comes back, in an order of the rule's own
    order = random.Random(f"{clause.when}|{request.style}").sample(clause.signals, len(clause.signals))
    signal = _varied(order[turn % len(order)], clause, rng, theirs)
    if said := _by_role(signal, want, rng):
        return said if request.style != "explicit" else conditioned(clause, said, rng)
    if rng.random() < 0.22 and request.style != "explicit":
        return _terse(signal, want, rng)
    asked = _with_entity(_plain(want, rng), request.domain, rng)
    if request.style == "explicit" and rng.random() < 0.85:
        return conditioned(clause, asked, rng, signal)
    if request.style == "explicit" and rng.random() < 0.4 and len(order) > 1:
        signal = f"{signal}, {_varied(order[(turn + 1) % len(order)], clause, rng, theirs)}"
    evidence = f"{theirs} {clause.when} {' '.join(clause.signals)}"
    return _with_reason(_joined(asked, signal, rng), evidence, rng)


def _by_role(signal: str, want: Want, rng: random.Random) -> str:
    """The wish with the signal as the person it is about, where the signal is a role; now and then."""
    if not re.search(ROLE, signal, re.IGNORECASE) or LOOSE.search(signal) or rng.random() > 0.6:
        return ""
    person = _determined(signal, rng)
    asked = phrase(want, rng, person=person, named=0)
    return asked if person in asked else ""


def _plain(want: Want, rng: random.Random) -> str:
    """The wish with its thing in full, or only its core: long lists of what a document holds bore a reader."""
    thing = want.head if rng.random() < 0.55 else want.thing
    thing = ARTICLE.sub("", thing)
    article = "the " if want.kind in ("read", "list", "summarize") else ""
    return phrase(Want(want.verb, want.kind, f"{article}{thing}", want.details), rng, named=0)


def _terse(signal: str, want: Want, rng: random.Random) -> str:
    """As into a search box."""
    head = terse(Want(want.verb, want.kind, want.head), rng) if rng.random() < 0.6 else want.head
    frames = ("{h} {s}", "{s} {h}", "{h} - {s}", "{s}, {h}", "{h}, {s}")
    return rng.choice(frames).format(h=head, s=re.sub(r"^(?:an?|the) ", "", signal))


def _joined(asked: str, signal: str, rng: random.Random) -> str:
    frames = LOOSE_FRAMES if LOOSE.search(signal) or YEAR.search(signal) or "," in signal else NOUN_FRAMES
    if YEAR.search(signal) and rng.random() < 0.6 and not LOOSE.search(signal):
        return f"{asked} {rng.choice(('for', 'from', 'of'))} {re.sub(r'^the ', '', signal)}"
    bare = re.sub(r"^(?:an?|the) ", "", signal)
    return rng.choice(frames).format(
        ask=asked,
        Ask=_capital(asked),
        signal=signal,
        Signal=_capital(signal),
        a_signal=_determined(signal, rng),
        the_signal=f"the {bare}",
    )


def conditioned(clause: Clause, asked: str, rng: random.Random, signal: str = "") -> str:
    """Say the condition itself, shortened where it lists alternatives."""
    when = _one_alternative(clause.when, rng)
    if not SENTENCE.search(when):
        return f"{asked}, {signal}, {when}" if signal and rng.random() < 0.5 else f"{asked}, {when}"
    when = re.sub(r"^the ", rng.choice(("the ", "the ", "this ", "our ")), when)
    text = rng.choice(CONDITION).format(ask=asked, Ask=_capital(asked), when=when, When=_capital(when))
    return f"{text} ({signal})" if signal and rng.random() < 0.75 and "(" not in text else text


def _one_alternative(when: str, rng: random.Random) -> str:
    """`in a plant or warehouse` -> one of the two, now and then both."""
    match = re.search(r"\b([\w-]+) or (?:an? |the )?([\w-]+)$", when)
    if not match or rng.random() < 0.35 or match.group(2) in ("later", "earlier", "more"):
        return when
    return when[: match.start()] + rng.choice(match.groups())


def _varied(signal: str, clause: Clause, rng: random.Random, rivals: str) -> str:
    """The same evidence in other words: dates within the condition, kin places, people and things."""
    after, before = AFTER.search(clause.when), BEFORE.search(clause.when)
    if (after or before) and YEAR.search(signal) and rng.random() < 0.75:
        edge = int(YEAR.findall(clause.when)[0])
        if after:
            return _dated(rng.choice(range(edge, edge + 3)), rng)
        return _dated(edge - rng.randint(0 if "or earlier" in clause.when else 1, 6), rng)
    if not YEAR.search(signal):
        signal = re.sub(r"\b\d{3,6}\b", lambda match: _like(match.group(), rng), signal)
    return signal if FIXED.search(signal) else vary_words(signal, rng, 0.45, f"{rivals} {clause.when}")


def _dated(year: int, rng: random.Random) -> str:
    month = rng.choice(MONTHS)
    number = MONTHS.index(month) + 1
    return rng.choice(
        (f"{month} {year}", f"{month[:3]} {year}", f"{year}-{number:02d}", f"Q{rng.randint(1, 4)} {year}", f"{year}",
         f"{number:02d}/{year}", f"{month.lower()} {year}", f"the year {year}", f"{rng.randint(1, 28)} {month} {year}")
    )  # fmt: skip


def _like(digits: str, rng: random.Random) -> str:
    """Another number of the same length; the first digit stays, it may mean something."""
    return digits[0] + "".join(rng.choice("0123456789") for _ in digits[1:]) if rng.random() < 0.5 else digits


def _determined(signal: str, rng: random.Random) -> str:
    if re.match(r"^(?:the|a|an|my|our|one|some)\b", signal) or signal.split()[-1].endswith("s"):
        return signal
    article = "an" if signal[:1].lower() in "aeiou" else "a"
    return f"{rng.choice((article, article, 'the'))} {signal}"


def _with_entity(asked: str, domain: str, rng: random.Random) -> str:
    """Now and then whom or what it is about: a name, a number, an amount."""
    roll = rng.random()
    if roll < 0.6:
        return asked
    if roll < 0.85:
        known = rng.choice(PEOPLE if domain == "hr" else COMPANIES)
        named = filled("{person}" if domain == "hr" else "{company}", rng)
        return f"{asked} for {named if rng.random() < 0.7 else known}"
    if domain == "hr":
        return (
            f"{asked}, {rng.choice(('emp', 'staff no', 'id', 'personnel number'))} {rng.randint(1000, 99999)}"
        )
    amount = f"{rng.randint(2, 98) * 50:,} {rng.choice(('EUR', 'USD', 'GBP', 'euros', 'dollars'))}"
    return (
        f"{asked}, {rng.choice((amount, f'no. {rng.randint(1000, 99999)}', f'ref {rng.randint(100, 9999)}'))}"
    )


def _with_reason(text: str, evidence: str, rng: random.Random) -> str:
    """Seldom why somebody asks, in words that no case of the rule knows."""
    if rng.random() > 0.08 or len(text.split()) > 14:
        return text
    why = reason(rng)
    return text if content_stems(why) & content_stems(evidence) else f"{text}, {why}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
