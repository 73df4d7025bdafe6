"""What a text asks for: verb, thing and details read out of a description or a rule's purpose, in everyday words.

In: a tool's description or a purpose (`to change a card's PIN`). Out: a Want, from which phrases.py makes requests.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from synthesis.core.clauses import first_sentence
from synthesis.core.queries import ToolText
from synthesis.core.readings import active, base_form
from synthesis.core.words import CAMEL, content_stems, stem, words
from synthesis.writers.verbs import ACTIONS, VERB_CLASS

LEAD_IN = re.compile(
    r"^(?:(?:this|the)\s(?:endpoint|api|method|operation|call|resource|service|request)\s)?(?:is\sused\s(?:to|for)\s|"
    r"(?:allows?|lets?|enables?)\s(?:you|users?|the\suser|customers?|merchants?|clients?)?\s?(?:to\s)?|"
    r"use\s(?:this\s)?(?:\w+\s)?to\s|used\sto\s|(?:endpoint|method|api|operation|request)\s(?:to|for|that)\s|"
    r"can\sbe\sused\sto\s|makes?\sa\srequest\sto\s|attempts?\sto\s)",
    re.IGNORECASE,
)
NOISE = re.compile(
    r"\s*\([^)]*\)|\bv\d+(?:\.\d+)*\b|\bone or more\s|\bmultiple\s|\s(?:by|for|of)\s(?:\w*_\w+|UUID)|`|\*|\"|"
    r"\b(?:specified|the given|given|particular|specific|supplied|selected)\b\s?|\s(?:by|with|for)\s(?:its\s|the\s)?"
    r"(?:id|ids|ID|IDs|uuid|identifier|token)\b|\b(?:object|resource|instance|endpoint)s?\b|/\S+|\bAPI\b|\s-\s.*$",
)
CUT = re.compile(
    r"\s*(?:[;:(]|,\s|\s-\s|\s(?:using|via|based on|so that|in order|when|if|where|which|"
    r"that matches?|with|to match|by (?=\w+ing)|by its|by the|identified)\s"
    r"|\sand\s(?=\w+s\s(?:the|an?|its|every|any)\s)|\sand\s(?:creates|validates|returns|computes|informs|stores|"
    r"notifies|releases|keeps|splits|collects|publishes|sends|sets|attaches|assigns|captures|invites)\b"
    r"|\sfor (?:your|the) (?:workspace|organi[sz]ation|system|merchant)$)"
)
TAIL = re.compile(
    r"\s(?:for|by|of|in|from|to|on|at|between|into|against|within|as|per|under|with|without|that|which|whose|who|"
    r"before|after|and|so|associated|attached|or(?=\s(?:an?|the)\s))\s"
)
ARTICLE = re.compile(r"^(?:an?|the|one|single|this|your)\s+(?:single\s)?", re.IGNORECASE)
LISTING = re.compile(
    r"^(?:an?\s|the\s)?(?:\w+\s)?(?:list|collection|array|page|set)\s(?:of|about|on|for)\s"
    r"(?:(?:all|the|our|an?|available|existing)\s)*",
    re.IGNORECASE,
)
DETAILS = re.compile(
    r"^(?:the\s)?(?:\w+\s)?(?:details|information|info)\s(?:of|about|on|for)\s", re.IGNORECASE
)
DANGLING = re.compile(
    r"(?:\s+(?:and|or|the|an?|from|to|with|as|in|of|for|by|on|is|are|its?|their|whether|that|associated|attached))+$"
)
TECH = re.compile(
    r"\b(?:endpoint|api|json|id|ids|uuid|http|object|resource|payload|request|parameter|array|deprecat\w*|webhook|"
    r"query|response|field|format|\w+_\w+)s?\b",
    re.I,
)
# things that take no article and no number: questions, pronouns, `with our own reference`
OPEN_QUESTION = re.compile(r"^(?:which|whether|what|how|if|where|who|out|it|them|with|in|without|by|that)\b")
GENERIC = frozenset(
    (
        "details",
        "data",
        "information",
        "list",
        "status",
        "settings",
        "info",
        "number",
        "type",
        "record",
        "records",
        "summary",
        "set",
        "copy",
        "version",
    )
)
_MASS = """information data access communication help income history equipment support inventory feedback material
    metadata security leave depreciation tax"""
MASS = frozenset(_MASS.split())
_PROPER = """PayPal Stripe Square Plaid Adyen Personio Mollie Xero Visa Mastercard Google Apple Amazon Treasury Monday
    PIN Bacs Klarna Codat Lago Kill Travel Marqeta Lithic January February March April June July August September
    October November December German Payto Pix Boleto Fireblocks Recurly Chargebee Dwolla Alpaca Web Services"""
PROPER = frozenset(_PROPER.split())

# what interfaces call things -> what people call them
PLAIN = {"your": "our", "provided": "new", "sdk": "app", "api": "system", "parameters": "settings",
    "identifier": "number",
    "user_id": "user number", "access_token": "access key", "asynchronously": "", "backend": "automatic",
    "paginated": "long", "async": "later", "deprecated": "old", "endpoints": "addresses", "payload": "content",
    "params": "settings", "parameter": "setting", "schema": "layout", "metadata": "extra data"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Want:
    """verb: base form; kind: its class or ""; thing: what it is done to, with its limits; details: listed parts."""

    verb: str
    kind: str
    thing: str
    details: tuple[str, ...] = ()

    @property
    def head(self) -> str:
        """The thing without article and limits."""
        head = ARTICLE.sub("", TAIL.split(self.thing, maxsplit=1)[0].strip())
        return ARTICLE.sub("", self.thing) if head in GENERIC else head or self.thing


@lru_cache(maxsize=20_000)
def want_of(name: str, description: str) -> Want:
    """What a tool does; the endpoint's words stand in for an empty description."""
    sentence = NOISE.sub(" ", LEAD_IN.sub("", first_sentence(description))).strip(" .,;:")
    verb, rest = _split_verb(re.sub(r"\s+", " ", sentence), name)
    core = DANGLING.sub("", " ".join((CUT.split(rest, maxsplit=1)[0].strip(" .,;:")).split()[:10]))
    core = LISTING.sub("", core) or core
    if VERB_CLASS.get(verb) == "read":
        core = DETAILS.sub("", core) or core
    core = core if ARTICLE.sub("", f"{core} ").strip() else " ".join(words(name.partition("/")[2])[-3:])
    core = re.sub(r"^(create(?:/update)?|update) (.+) model$", r"model to \1 a \2", everyday(core))
    if verb == "return" and words(name.partition("/")[2])[:1] == ("return",):
        return Want(verb, "", core, _details(description))
    kind = VERB_CLASS.get(verb, "")
    return Want(base_form(verb), kind, core, _details(description))


def _split_verb(sentence: str, name: str) -> tuple[str, str]:
    if said := re.match(r"(?:an?|the|one)?\s?(.+?)\s(?:can|may)\sbe\s(\w+ed)\b", sentence, re.IGNORECASE):
        return active(said.group(2)), said.group(1)
    first, _, rest = sentence.partition(" ")
    verb = first.casefold().strip(".,:")
    if phrasal := re.match(r"[A-Z][a-z]+( (?:up|out|off))?\s(?=(?:an?|the|all)\s)", sentence):
        return f"{verb}{phrasal.group(1) or ''}", sentence[phrasal.end() :]
    if verb == "takes" and rest.startswith("in "):
        verb, rest = "records", rest[3:]  # takes in an invoice
    known = verb in VERB_CLASS or base_form(verb) in ACTIONS
    if rest and (known or _is_verb(verb, rest, name)):
        rest = re.sub(
            r"^(?:(?:and|or) \w+s\b|(?:and|or) \w+ (?=to |from |an? |the )|(?:in|up|out|off)(?=\s))\s?",
            "",
            rest,
        )
        second = re.match(r"(?:and|or) (\w+) ", rest)
        if second and (second.group(1) in VERB_CLASS or second.group(1) in ACTIONS):
            rest = rest[second.end() :]
        return verb, re.sub(r"^(?:to|for)\s(?=\w)", "", rest)
    endpoint = words(name.partition("/")[2])
    return next((word for word in endpoint if word in VERB_CLASS or word in ACTIONS), "get"), sentence


def _is_verb(word: str, rest: str, name: str) -> bool:
    """A verb that the endpoint's name holds too (`Enrolls`, EnrollWorker), or one with an object behind it."""
    if len(word) > 2 and stem(word) in {stem(part) for part in words(name.partition("/")[2])[:1]}:
        return True
    ends = word.endswith("s") and not word.endswith("ss")
    return len(word) > 3 and ends and bool(re.match(r"(?:an?|the|one|all|each|selected|several)\b", rest))


@lru_cache(maxsize=20_000)
def want_of_task(task: str) -> Want:
    """`to change a card's PIN` as a Want."""
    said = task.removeprefix("to ")
    phrasal = re.match(r"(?:look|find|set|put) (?:up|out)\b", said)
    verb = phrasal.group() if phrasal else said.partition(" ")[0]
    rest = said[len(verb) :].strip()
    rest = re.sub(r"\s*\([^)]*\)", "", rest)
    kind = VERB_CLASS.get(verb.casefold().split()[0], "") if verb and verb != "return" else ""
    return Want(verb.casefold(), kind, everyday(rest.strip()))


@lru_cache(maxsize=50_000)
def everyday(text: str) -> str:
    """CamelCase and Title Case as people write them; products keep their capitals."""
    return re.sub(r"\s+", " ", " ".join(map(_everyday_word, text.split()))).strip()


def _everyday_word(word: str) -> str:
    if (plain := PLAIN.get(word.casefold())) is not None:
        return plain
    word = re.sub(r"(?<=\w)_(?=\w)", " ", word)
    bare = re.sub(r"'s$|[^\w]", "", word)
    if bare in PROPER or bare.isupper() or not any(char.isupper() for char in bare):
        return word
    if re.fullmatch(r"[A-Z]+s|\w*\d\w*", bare):
        return word
    parts = CAMEL.sub(" ", word).split()
    return " ".join(part if part.isupper() and len(part) > 1 else part.lower() for part in parts)


def _details(description: str) -> tuple[str, ...]:
    """The listed parts of the description: short pieces between commas after `with` or a colon."""
    tail = re.split(r":\s|\swith\s|\sincluding\s|;\s", NOISE.sub("", first_sentence(description)), maxsplit=1)
    pieces = re.split(r",\s(?:and\s)?|\sand\s|;\s", tail[1]) if len(tail) > 1 else []
    clean = [everyday(piece.strip(" .")) for piece in pieces]
    return tuple(piece for piece in clean if 1 <= len(piece.split()) <= 4 and not TECH.search(piece))


@lru_cache(maxsize=4096)
def distinguishing(tool: ToolText, pool: tuple[ToolText, ...]) -> tuple[str, ...]:
    """Runs of the tool's own description whose words few look-alikes use, the rarest first."""
    others = [content_stems(f"{t.endpoint} {t.description}") for t in pool if t.name != tool.name]
    scored = []
    for run in re.split(r"[,;:.()]\s*|\s(?:and|with|for|by|from|in|on|that|which|using)\s", tool.description):
        clean = everyday(ARTICLE.sub("", DANGLING.sub("", _without_verb(run.strip(" .")))))
        said = content_stems(clean)
        if (
            run.strip().split(" ")[0] in ("and", "or", "but")
            or not said
            or not 2 <= len(clean.split()) <= 5
            or TECH.search(clean)
            or FINITE & set(words(clean))
            or re.search(r"[a-z]\d|\d[a-z]", clean)
        ):
            continue
        scored.append((min(sum(word in other for other in others) for word in said), clean))
    limit = max(1, len(others) // 3)
    return tuple(run for rarity, run in sorted(scored, key=lambda item: item[0]) if rarity <= limit)


_FINITE = """is are was were be been has have can cannot might must may will should would could does do did you your it
    its this these they if when not only also then therefore please note see use or as once than who where there
    otherwise such let we us our whether how that which following later identifies identify contains
    contain includes include cover covers represents represent"""
FINITE = frozenset(_FINITE.split())


def _without_verb(run: str) -> str:
    """A piece of a description without the verb that starts it."""
    first, _, rest = run.partition(" ")
    starts = first[:1].isupper() and first[1:].islower()
    return rest if rest and (starts or first.casefold() in VERB_CLASS) else run
