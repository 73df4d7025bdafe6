"""Things as people speak of them: a description's `payslip of a worker for one pay period` is `Dana Ruiz's payslip`.

In: a Want. Out: a Want whose thing has lost what every description says (`by worker number`, `for a customer`), with
the person or firm it is about in its place where one is named.
"""

import random
import re
from dataclasses import dataclass, replace

from synthesis.writers.wants import ARTICLE, GENERIC, OPEN_QUESTION, TAIL, Want

_PERSONS = (
    "worker employee person applicant candidate participant traveler learner staff\\smember team\\smember"
)
_FIRMS = "customer client supplier vendor payee debtor"
PERSON = rf"(?:{'|'.join(_PERSONS.split())})s?"
FIRM = rf"(?:{'|'.join(_FIRMS.split())})s?"
OWNER = re.compile(
    rf"\s(?P<prep>of|for|to|from)\s(?:(?:an?|the|one)\s)?(?P<who>{PERSON}|{FIRM})(?=\s(?:for|in|with|by)\s|$)"
)
# how interfaces look a thing up, and for which span: nobody says it
KEYS = re.compile(
    r"\sby\s(?:\w+\s){0,3}(?:number|code|filename|name|day)\b|"
    r"\s(?:for|per)\s(?:an?|one|each)\s(?:pay period|work week|review cycle|accounting period|period)\b|"
    r"\sper period\b"
)
# things that say nothing without their limits: `an election for a worker in a benefit plan`
EMPTY = frozenset(
    (
        "entry",
        "election",
        "assignment",
        "record",
        "list",
        "request",
        "amount",
        "elimination",
        "task",
        "scorecard",
    )
)
LIMIT = re.compile(TAIL.pattern.replace("after|and|so", "after|so"))


@dataclass(frozen=True, slots=True)
class About:
    """Whom or what firm a request is about; `name` is empty where nobody is named."""

    name: str = ""
    kind: str = ""


def owner_kind(want: Want) -> str:
    """`person` or `firm`, where the thing belongs to or is one; else empty."""
    found = OWNER.search(f" {want.thing}") or re.match(
        rf"(?:(?:an?|the)\s)?(?P<who>{PERSON}|{FIRM})\b", want.thing
    )
    if not found or (found.group("who").endswith("s") and found.re is not OWNER):
        return ""
    return "person" if re.fullmatch(PERSON, found.group("who")) else "firm"


def is_owner(want: Want) -> bool:
    """Is the thing a person or a firm itself?"""
    return bool(re.fullmatch(rf"{PERSON}|{FIRM}", want.head))


def without_keys(thing: str) -> str:
    """`purchase order by order number` -> `purchase order`."""
    return KEYS.sub("", thing).strip() or thing


def spoken(want: Want, about: About, rng: random.Random) -> Want:
    """The thing as somebody says it who knows what it is about; needs rules whose signals tell the cases apart."""
    if OPEN_QUESTION.match(want.thing):
        return want
    thing = ARTICLE.sub("", without_keys(want.thing))
    found = OWNER.search(thing)
    if re.match(rf"(?:{PERSON}|{FIRM})(?<=s)$", thing):
        return replace(want, thing=thing, details=())
    if is_one := re.match(rf"(?:{PERSON}|{FIRM})(?=\s(?:in|to|for|with)\s|$)", thing):
        who = about.name or f"the {is_one.group()}"
        return replace(want, thing=who + _limits(thing[is_one.end() :]))
    if not found:
        return replace(want, thing=_core(thing, want, rng), details=())
    core = _core(thing[: found.start()], want, rng)
    if core.split()[-1] in EMPTY:
        whom = f" {found['prep']} {about.name}" if about.name else ""
        return replace(want, thing=f"{core}{whom}{_limits(thing[found.end() :])}", details=())
    if not about.name:
        return replace(want, thing=_unowned(core, found, want, rng), details=())
    if rng.random() < 0.5 and want.kind not in ("create", "submit", "send", "assign"):
        return replace(want, thing=f"{about.name}'s {core}", details=())
    prep = "for" if found["prep"] == "of" and rng.random() < 0.5 else found["prep"]
    return replace(want, thing=f"{_told(core, want)} {prep} {about.name}", details=())


def _core(thing: str, want: Want, rng: random.Random) -> str:
    """The thing without its limits, where it says something without them."""
    thing = re.sub(r"^(?:employee|worker) (?=expense)", "", re.sub(r" or [A-Z]+(?= for |$)", "", thing))
    match = LIMIT.search(thing)
    if not match or thing[: match.start()].split()[-1] in EMPTY | GENERIC:
        return thing
    if match.group().strip() in ("to", "into") and want.kind in ("post", "import", "") and rng.random() < 0.4:
        return thing
    return thing[: match.start()]


def _limits(tail: str) -> str:
    return re.sub(r"\ban? employee (benefit plan)", r"a \1", tail)


def _unowned(core: str, found: re.Match[str], want: Want, rng: random.Random) -> str:
    if found["who"].rstrip("s") in core or TAIL.search(f"{core} "):
        return core
    reads = want.kind in ("read", "list", "summarize")
    if reads and re.fullmatch(FIRM, found["who"]) and (core.startswith("master") or rng.random() < 0.5):
        return f"{found['who']} {core}"
    mine = (
        re.fullmatch(PERSON, found["who"]) and found["prep"] in ("of", "for") and not core.endswith("change")
    )
    return (
        f"my {core}" if mine and rng.random() < 0.6 and not core.startswith(("worker", "employee")) else core
    )


def _told(core: str, want: Want) -> str:
    return f"the {core}" if want.kind in ("read", "list", "summarize") and not core.endswith("s") else core


def possessive(thing: str) -> str:
    """`PIN of a card` -> `card's PIN`, with the article in front."""
    found = re.fullmatch(r"(?:(?:an?|the)\s)?([\w-]+(?: [\w-]+)?) of (an?|the) ([\w-]+)", thing)
    if not found or found.group(3).endswith("s") or found.group(1).split()[-1] in ("list", "number", "copy"):
        return thing
    return f"{found.group(2)} {found.group(3)}'s {found.group(1)}"
