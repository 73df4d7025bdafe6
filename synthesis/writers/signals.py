"""Queries that follow an expert's clause: its signals say in everyday words which case holds.

Years, places, people and things in a signal are exchanged for others that leave the case as it is.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from synthesis.core.queries import Clause, QueryRequest, ToolText
from synthesis.core.words import content_stems
from synthesis.writers.instances import filled, instance, reason
from synthesis.writers.lexicon import COMPANIES, MONTHS, PEOPLE, ROLE
from synthesis.writers.phrases import phrase, terse, vary_words
from synthesis.writers.spoken import About, is_owner, owner_kind, spoken
from synthesis.writers.stated import conditioned, plainly, under
from synthesis.writers.typed import capital
from synthesis.writers.wants import Want, want_of

NOUN_FRAMES = [
    "{ask}, {signal}", "{ask} - {signal}", "{signal}: {ask}", "{ask} ({signal})", "{signal} - {ask}",
    "it's about {the_signal}, {ask}", "{ask}, it's about {the_signal}", "{ask}. It's about {the_signal}",
    "{ask}, {signal}", "about {the_signal}: {ask}", "this is about {the_signal}, {ask}",
    "re {signal}: {ask}", "{ask} for {the_signal}", "{ask} regarding {the_signal}", "{ask}. {Signal}",
    "{Signal}. {Ask}", "question on {the_signal}: {ask}", "{ask}, {signal}",
    "{signal}, {ask}",
]  # fmt: skip
LOOSE_FRAMES = [
    "{ask}, {signal}", "{ask} - {signal}", "{ask} ({signal})", "{signal} - {ask}", "{signal}: {ask}",
    "{ask}. {Signal}", "{Signal}. {Ask}", "{signal}, {ask}", "{ask}, {signal}", "{ask} - {signal}",
]  # fmt: skip
LOOSE = re.compile(
    r"^(?:\w+ed(?= \w+ )|called|"
    r"paid|sold|why|back|before|after|as|cannot|was|who|when|charged|joined|moves?|moved|got|started|booked|"
    r"referred|promoted|through|collected|waiting|posted|my|from|via|in|at|same|needs|no|not|works|reversed|split|"
    r"revalue|rebill|driven|ship|switch)\b|\b(?:is|are|was|were|wants|pays|paid|shows|offered|lost|taken|needed|"
    r"reimburses|exposed|owned|bounced|transfers|withheld|differs|charged|asked|missing|ends)\b",
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
        about = _about(want, rng)
        return (
            conditioned(clause, want, about, rng)
            if request.style == "explicit"
            else plainly(want, rng, about)
        )
    # each signal has its turn before any comes back, in an order of the rule's own
    order = random.Random(f"{clause.when}|{request.style}").sample(clause.signals, len(clause.signals))
    signal = _varied(order[turn % len(order)], clause, rng, theirs)
    if said := _by_role(signal, want, rng):
        return said if request.style != "explicit" else under(clause, said, rng)
    if rng.random() < 0.22 and request.style != "explicit":
        return _terse(signal, want, rng)
    about = _about(want, rng)
    if request.style == "explicit" and rng.random() < 0.85:
        return conditioned(clause, want, about, rng, signal)
    asked = plainly(want, rng, about)
    if request.style == "explicit" and rng.random() < 0.4 and len(order) > 1:
        signal = f"{signal}, {_varied(order[(turn + 1) % len(order)], clause, rng, theirs)}"
    evidence = f"{theirs} {clause.when} {' '.join(clause.signals)}"
    return _with_reason(_numbered(_joined(asked, signal, rng), want, about, rng), evidence, rng)


def _by_role(signal: str, want: Want, rng: random.Random) -> str:
    """The wish with the signal as the person it is about, where the signal is a role; now and then."""
    if not re.search(ROLE, signal, re.IGNORECASE) or LOOSE.search(signal) or rng.random() > 0.6:
        return ""
    person = _determined(signal, rng)
    asked = phrase(replace(want, details=()), rng, person=person, named=0)
    return asked if person in asked else ""


def _about(want: Want, rng: random.Random) -> About:
    """Whom the request names, now and then, where its thing belongs to a person or a firm."""
    kind = owner_kind(want)
    if not kind or rng.random() < 0.45:
        return About()
    if kind == "person":
        return About(filled("{person}", rng) if rng.random() < 0.75 else rng.choice(PEOPLE), kind)
    return About(filled("{company}", rng) if rng.random() < 0.7 else rng.choice(COMPANIES), kind)


def _terse(signal: str, want: Want, rng: random.Random) -> str:
    """As into a search box."""
    said = spoken(want, About(), rng)
    head = (
        terse(said, rng, named=0)
        if rng.random() < 0.5 or is_owner(want)
        else re.sub(r"^(?:the|my) ", "", said.thing)
    )
    bare = re.sub(r"^(?:an?|the) ", "", signal)
    if LOOSE.search(signal) or len(signal.split()) > 3:
        return rng.choice(("{h} - {s}", "{h}, {s}", "{s}, {h}")).format(h=head, s=bare)
    frames = ("{h} {s}", "{h} - {s}", "{h} for {s}", "{h}, {s}", "{s} - {h}", "{s}: {h}")
    return rng.choice(frames).format(h=head, s=bare)


def _joined(asked: str, signal: str, rng: random.Random) -> str:
    frames = LOOSE_FRAMES if LOOSE.search(signal) or YEAR.search(signal) or "," in signal else NOUN_FRAMES
    if YEAR.search(signal) and rng.random() < 0.6 and not LOOSE.search(signal):
        return f"{asked} {rng.choice(('for', 'from', 'of'))} {re.sub(r'^the ', '', signal)}"
    bare = re.sub(r"^(?:an?|the) ", "", signal)
    return rng.choice(frames).format(
        ask=asked,
        Ask=capital(asked),
        signal=signal,
        Signal=capital(signal),
        a_signal=_determined(signal, rng),
        the_signal=f"the {bare}",
    )


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


def _numbered(asked: str, want: Want, about: About, rng: random.Random) -> str:
    """Now and then the number or amount it is about, where nobody is named."""
    if about.name or want.kind in ("create", "generate", "submit") or rng.random() < 0.75:
        return asked
    if owner_kind(want) == "person":
        return f"{asked}, {rng.choice(('employee no.', 'staff no.', 'personnel number'))} {rng.randint(1000, 99999)}"
    told = instance(want.head, rng)
    return f"{asked}, {told.strip()}" if re.match(r" (?:no|ref|INV|over)\b", told) else asked


def _with_reason(text: str, evidence: str, rng: random.Random) -> str:
    """Seldom why somebody asks, in words that no case of the rule knows."""
    if rng.random() > 0.08 or len(text.split()) > 14:
        return text
    why = reason(rng)
    return text if content_stems(why) & content_stems(evidence) else f"{text}, {why}"
