"""What somebody wants of a tool, in words people type: `Returns a list of Invoice objects by customer id.` asks for
`see the invoices`. In: a purpose or a description. Out: a wish, and ways to say it."""

import random
import re
from dataclasses import dataclass

from synthesis.core.clauses import VERBS, described_task, first_sentence
from synthesis.core.words import content_stems

_READING = "get see look find show list read retrieve fetch view search query pull display provide"
READING = frozenset(_READING.split())
ALIKE = {
    "create": ("create", "make", "set up"),
    "update": ("update", "change", "correct"),
    "change": ("change", "update"),
    "edit": ("edit", "change"),
    "modify": ("change", "adjust"),
    "delete": ("delete", "remove", "get rid of"),
    "remove": ("remove", "take out"),
    "cancel": ("cancel", "call off"),
    "submit": ("submit", "send in"),
    "generate": ("generate", "produce"),
    "start": ("start", "begin"),
    "record": ("record", "enter"),
    "download": ("download", "export"),
}
JOINED = re.compile(r"\b[A-Z]?[a-z]{3,}(?:[A-Z][a-z]{2,})+\b")  # PaymentMethods, not PayPal
ALLOWS = re.compile(
    r"^(?:to )?(?:you can|use this \w+ to|(?:this \w+ )?(?:allows?|enables?|lets?)(?: \w+){0,2} to|"
    r"sends? an? \w+ to)\s",
    re.IGNORECASE,
)
LEAD_IN = re.compile(
    r"^(?:(?:an?|the)\s)?(?:(?:paginated|complete|full|detailed)\s)*(?:lists?|arrays?|collections?|details|"
    r"information)\s(?:of|about|on|for)\s(?:all\s)?",
    re.IGNORECASE,
)
BY_ID = re.compile(
    r",?\s(?:by|with|for|using|given|via|based\son|identified\sby|matching)\s(?:(?:an?|the|its|their|one)\s)?"
    r"(?:\w+\s){0,2}(?:ids?|identifiers?|uuids?|references?|tokens?|parameters?|filters?)\b.*$",
    re.IGNORECASE,
)
FILLING = re.compile(
    r"\b(?:previously created|given|specified|provided|supplied|existing|selected|corresponding|specific|certain|"
    r"particular|objects?|resources?)\s?(?!\w*-)",
    re.IGNORECASE,
)
TAIL = re.compile(
    r"(?:[,:]|\s(?:by|that|which|including|such as|so that|as well as|where|when|returning|using|with)\b).*$"
)
LOOSE_END = re.compile(
    r"(?:\s(?:and|or|\w+'s|the|an?|of|for|to|in|with|by|on|from|as|after|before|between|against|into|its|your|their))+$",
    re.IGNORECASE,
)
_PREPOSITIONS = "of for in to from by on with at between against into after before"
PREPOSITIONS = frozenset(_PREPOSITIONS.split())
TITLED = VERBS | {"a", "all", "allow", "an", "the", "use", "you"}  # how a description opens that says a wish
PRONOUNS = ("it", "them")
WORDS, SHORT = 16, 11  # of a purpose, of one in a description, where more is detail
COMPANIES = (
    "Nordwind", "Halden & Sons", "Brightline", "Ostrava Tools", "Meridian Foods", "Kestrel", "Tamura",
)  # fmt: skip
PEOPLE = ("Dana Ruiz", "Piotr Nowak", "Aisha Bello", "Tom Lindqvist", "Mei Chen", "Jonas Weber", "Carla Dias")
_AFTER = r"(?='s\b|$|[.,]|\s(?:of|for|in|to|from|and|by|on|with|at)\b)"
_ONE = r"\b(?:an?|the|one|any|a\ssingle|your)\s"
INSTANCES = {
    re.compile(rf"{_ONE}({nouns}){_AFTER}"): instance
    for nouns, instance in (
        ("customer|merchant|client|vendor|supplier", "{noun} {company}"),
        ("employee|worker|person|user|cardholder|team member|staff member", "{person}"),
        ("invoice|order|payment|refund|transaction|dispute|payout|transfer", "{noun} {number}"),
    )
}


@dataclass(frozen=True, slots=True)
class Wish:
    """`verb` and `thing`, or a thing alone (`the payslip of one worker`) that one can only want to see."""

    verb: str
    thing: str

    @property
    def reads(self) -> bool:
        return self.verb in READING

    @property
    def text(self) -> str:
        return f"{self.verb} {self.thing}"

    @property
    def stems(self) -> frozenset[str]:
        return content_stems(self.thing)


def wish_of(description: str) -> Wish | None:
    """The wish that a tool's description answers, without its details; None where its words give none."""
    first = first_sentence(description).partition(" ")[0]
    if not first.endswith("s") and first.casefold() not in TITLED:
        return None
    purpose = BY_ID.sub("", ALLOWS.sub("to ", TAIL.sub("", described_task(description))))
    return wish_of_purpose(_shortened(purpose.split()))


def _shortened(said: list[str]) -> str:
    """At most 11 words, and no phrase cut in its middle."""
    kept = said[:SHORT]
    if len(said) > SHORT:
        at = max((n for n, word in enumerate(kept) if word in PREPOSITIONS), default=0)
        kept = kept[:at] if at > 3 else kept
    return " ".join(kept)


def wish_of_purpose(purpose: str) -> Wish | None:
    """The wish in a purpose (`to void a check`) or in a description that names a thing."""
    if not purpose.startswith("to "):
        thing = _plain(purpose)
        named = re.match(r"(?:the|an?|all)\s", thing) and len(content_stems(thing)) > 1
        return Wish("see", thing) if named else None
    verb, _, rest = purpose[3:].partition(" ")
    rest = re.sub(r"^(?:up|out|for|back|off)\s", "", rest) if verb in ("look", "search") else rest
    rest = re.sub(r"^(?:and|or)\s\w+\s", "", rest)  # `create and posts journal entries`: the first says it
    thing = _plain(rest)
    if not (content_stems(thing) or thing in PRONOUNS) or not verb.isalpha():
        return None
    return Wish(verb.lower(), thing)


def _plain(text: str) -> str:
    """Without brackets and the words of data models, at most 16 words, `a` and `an` as they are spoken."""
    text = re.sub(r"\s*\([^)]*\)|[`*_\"]", " ", text).strip()
    text = JOINED.sub(lambda match: re.sub(r"(?<=[a-z])(?=[A-Z])", " ", match.group()).lower(), text)
    text = re.sub(r"\s+", " ", FILLING.sub("", LEAD_IN.sub("the ", text))).strip(" .,;:")
    text = re.sub(r"^the (?=(?:an?|the|your|all)\s)", "", text)
    text = LOOSE_END.sub("", " ".join(_unrepeated(text.split()[:WORDS])).strip(" ,;:"))
    text = re.sub(r"\ban (?=[bcdfgjklmnpqrstvwxz]|[BCDFGJKLMNPQRSTVWXZ][a-z])", "a ", text)
    return re.sub(r"\ba (?=[aeio])", "an ", text)


def _unrepeated(said: list[str]) -> list[str]:
    """Up to where a word of content comes again: `a cost center by cost center code` says enough before."""
    seen: set[str] = set()
    for place, word in enumerate(said):
        if (again := content_stems(word)) & seen:
            return said[:place]
        seen |= again
    return said


def worded(wish: Wish, rng: random.Random) -> Wish:
    """The wish in other words for the same, now and then about a certain customer, person or paper."""
    verb = rng.choice(ALIKE.get(wish.verb, (wish.verb,)))
    if wish.reads:
        verb = rng.choice(("see", "look up", "get", "find", "check", "pull up"))
    for noun, instance in INSTANCES.items():
        if rng.random() < 0.4 and (match := noun.search(wish.thing)):
            company, person, number = rng.choice(COMPANIES), rng.choice(PEOPLE), rng.randint(1200, 98000)
            made = instance.format(noun=match.group(1), company=company, person=person, number=number)
            return Wish(verb, wish.thing[: match.start()] + made + wish.thing[match.end() :])
    return Wish(verb, wish.thing)
