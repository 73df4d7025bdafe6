"""A wish with the condition of its case, of the person or firm it is about: explicit queries of an expert's clause."""

import random
import re
from collections.abc import Sequence

from synthesis.core.queries import Clause
from synthesis.writers.frames import CONDITION
from synthesis.writers.phrases import phrase
from synthesis.writers.spoken import PERSON, About, spoken
from synthesis.writers.typed import capital
from synthesis.writers.wants import Want

SENTENCE = re.compile(
    r"\b(?:is|are|was|were|has|have|had|asks?|needs?|wants?|pays?|paid|belongs?|arriv\w+|comes?|came|uses?|goes|bought|"
    r"changes|follows?|supports?|exceeds|delivers|drove|took|cross|refers|collects|move|applies|covers)\b"
)
AFTER_ALL = ["{ask}, {when}", "{ask} - {when}", "{ask}. {When}"]
SUBJECT = re.compile(
    r"the (worker|person|employee|customer|supplier)(?= (?:is|are|has|came|bought|paid|wants|drove)\b)"
)
REGIONS = ("Americas", "Europe", "Africa", "October")


def plainly(want: Want, rng: random.Random, about: About) -> str:
    """The wish with its thing as people say it, of the person or firm it is about."""
    return phrase(spoken(want, about, rng), rng, named=0)


def conditioned(clause: Clause, want: Want, about: About, rng: random.Random, signal: str = "") -> str:
    """Say the condition itself, shortened where it lists alternatives; of the person named, where it is about one."""
    when = _proper(_one_alternative(clause.when, rng), clause.signals)
    if about.name and (subject := SUBJECT.match(when)) and _same_kind(subject.group(1), about):
        when = f"{about.name}{when[subject.end() :]}"
        own = spoken(want, About(), rng)
        thing = re.sub(r"^my ", "their ", own.thing)
        one = "them" if about.kind == "person" else "it"
        thing = re.sub(r"^the (?:worker|employee|person)\b", one, thing)
        return under(clause, phrase(Want(own.verb, own.kind, thing), rng, named=0), rng, signal, when)
    return under(clause, plainly(want, rng, about), rng, signal, when)


def under(clause: Clause, asked: str, rng: random.Random, signal: str = "", when: str = "") -> str:
    """The wish and its condition in one request, and now and then the signal too."""
    when = when or _proper(_one_alternative(clause.when, rng), clause.signals)
    told = signal and signal not in f"{asked} {when}" and rng.random() < 0.65
    if not SENTENCE.search(when):
        lead = (
            "it's for" if re.match(r"an? (?:\w+ )*(?:seller|supplier|partner|applicant)\b", when) else "it's"
        )
        plural = re.search(r"^\w+s\b", when) and not when.startswith("an ")
        lead = "it's about" if plural else lead
        text = rng.choice(
            (f"{asked}, {lead} {when}", f"{asked}. {lead.capitalize()} {when}", f"{asked} - {lead} {when}")
        )
        return f"{text}{rng.choice((', ', ' - '))}{signal}" if told else text
    when = (
        re.sub(r"^the ", rng.choice(("the ", "the ", "the ", "our ")), when)
        if when.startswith("the c")
        else when
    )
    named = re.match(r"the (\w+) is (?=for |from )", when)
    frames = CONDITION
    if named and re.search(rf"\b{named[1]}\b", asked):
        when, frames = f"it's {when[named.end() :]}", AFTER_ALL
    text = rng.choice(frames).format(ask=asked, Ask=capital(asked), when=when, When=capital(when))
    if not told or "(" in text:
        return text
    return f"{text}{rng.choice((f' ({signal})', f' - {signal}', f', {signal}'))}"


def _same_kind(subject: str, about: About) -> bool:
    return bool(re.fullmatch(PERSON, subject)) == (about.kind == "person")


def _proper(when: str, signals: Sequence[str]) -> str:
    """Names in a condition with the capitals that its signals or a map give them."""
    names = {
        word.lower(): word
        for text in signals
        for word in re.findall(r"\b[A-Z][a-z]{3,}\b", text[1:] and text)
    }
    plain = {word for text in signals for word in re.findall(r"\b[a-z]+\b", text)}
    for place in REGIONS:
        names[place.lower()] = place
    return re.sub(
        r"\b[a-z]{4,}\b",
        lambda found: names.get(found[0], found[0]) if found[0] not in plain else found[0],
        re.sub(r"\beuropean union\b", "EU", re.sub(r"\bunited states\b", "US", when)),
    )


def _one_alternative(when: str, rng: random.Random) -> str:
    """`in a plant or warehouse` -> one of the two, now and then both."""
    match = re.search(r"\b([\w-]+) or (?:an? |the )?([\w-]+)$", when)
    if not match or rng.random() < 0.35 or match.group(2) in ("later", "earlier", "more"):
        return when
    return when[: match.start()] + rng.choice(match.groups())
