"""The template writers of queries and traces: no key, no network, deterministic by seed.

A query is a wish and the fact that decides, in a few frames. `explicit` says the condition of a rule's case, and where
that is refused one of the signals an expert gave for it, as `implicit` does; `exception` follows a case that leads to a
confusable, `underspecified` leaves the deciding fact out. A catalog query asks for what one tool does, or two, and for
nothing that a look-alike does as well: four wishes in one breath are nobody's. A trace takes the steps of
`core.queries` in plain sentences; what it says of a tool stands in the rule or in the tool's description. What the
texts have no words for is refused with the reason.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from synthesis.core.clauses import VAGUE, VERBS, cases, described_task, evidence, first_sentence, told
from synthesis.core.names import is_title
from synthesis.core.queries import (
    TIERS,
    Clause,
    QueryDraft,
    QueryRequest,
    RuleText,
    ToolText,
    TraceDraft,
    TraceRequest,
    Writers,
    by_name,
)
from synthesis.core.recipe import Recipe
from synthesis.core.words import content_stems, spaced
from synthesis.offline.judge import OfflineJudge
from trace_site.lib.errors import TraceError


def offline_writers(recipe: Recipe) -> Writers:
    judge = OfflineJudge(recipe.judge.thresholds)
    return Writers(
        "offline", TemplateQueryWriter(), TemplateTraceWriter(), judge, unsupported, tiers=askable_tiers
    )


class TemplateQueryWriter:
    def made_with(self, branch: str) -> dict[str, Any]:
        return {"writer": "template-queries-3"}

    async def write(self, request: QueryRequest) -> QueryDraft:
        """Raises TraceError where the rule or the tools give no words for what is asked."""
        rng = random.Random(f"{request.seed}|{request.attempt}")
        return _rule_query(request, request.rule, rng) if request.rule else _catalog_query(request, rng)


# What somebody wants of a tool, in words people type: `Returns a list of Invoice objects by customer id.` asks for
# `see the invoices`.

READING = frozenset(
    "get see look find show list read retrieve fetch view search query pull display provide".split()  # noqa: SIM905
)
ALIKE = {
    "create": ("create", "make", "set up"), "update": ("update", "change", "correct"),
    "change": ("change", "update"), "edit": ("edit", "change"), "modify": ("change", "adjust"),
    "delete": ("delete", "remove", "get rid of"), "remove": ("remove", "take out"),
    "cancel": ("cancel", "call off"), "submit": ("submit", "send in"), "generate": ("generate", "produce"),
    "start": ("start", "begin"), "record": ("record", "enter"), "download": ("download", "export"),
}  # fmt: skip
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
PREPOSITIONS = "of for in to from by on with at between against into after before".split()  # noqa: SIM905
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
    said = BY_ID.sub("", ALLOWS.sub("to ", TAIL.sub("", described_task(description)))).split()
    kept = said[:SHORT]
    if len(said) > SHORT:  # no phrase is cut in its middle
        at = max((n for n, word in enumerate(kept) if word in PREPOSITIONS), default=0)
        kept = kept[:at] if at > 3 else kept
    return wish_of_purpose(" ".join(kept))


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


# A query: a wish in a frame, with the fact or the signal that decides.

DO = (
    "I need to {do}.", "Please {do}.", "Can you {do}?", "How do I {do}?", "I want to {do}.", "{do}, please.",
    "Could you help me {do}?", "We have to {do}.", "Is there a way to {do}?", "I'd like to {do}.", "{do}",
    "I was asked to {do}.", "Time to {do}.", "What do I do to {do}?", "Help me {do}.", "They want us to {do}.",
    "Would you {do} for me?", "Trying to {do}.", "My next job is to {do}.",
    "It's on me to {do}.", "Let's {do}.", "Hi, can somebody {do}?", "The client expects us to {do}.",
    "I still have to {do}.", "Kindly {do}.", "Quick one: {do}.",
)  # fmt: skip
READ = (
    "Show me {thing}.", "Where do I find {thing}?", "I'm looking for {thing}.", "Can I see {thing}?",
    "{thing}, please.", "Do you have {thing}?", "Send me {thing}.", "I can't find {thing}.", "Need {thing}.",
    "Let me see {thing}.", "Give me {thing}.", "I want {thing} on my screen.",
    "Bring up {thing}.",
)  # fmt: skip
FACT_FIRST = ("{fact}. {wish}",)
NOTES = ("{bare} ({low})", "{bare} - {low}", "{bare}, {low}")
FACTS = (*FACT_FIRST, "{wish} {fact}.", "{wish} To be clear: {low}.", *NOTES[:2])
SIGNALS = (
    "{wish} It's about {sign}.", "{sign}: {lead}", "{bare}, {sign}", "{bare} ({sign})", "{bare} - {sign}",
)  # fmt: skip
ALSO = (
    "Also, I need to {do}.", "And can you {do}?", "After that I have to {do}.", "Then please {do}.",
    "And {do}, please.",
)  # fmt: skip
ASIDES = (
    "It's for the audit.", "Today if possible.", "My manager is asking.", "I'm new here.", "No rush.", "Thanks!",
    "Month end is close.", "It came up in a call.", "Somebody else did it last time.", "We promised it for Friday.",
    "I've been asked twice now.", "Before the meeting at three.", "It's for a report.",
    "Sorry for the short notice.", "The team in Porto is waiting.", "I'm covering for a colleague.",
    "Found it on my list this morning.", "Last thing before my holiday.", "An email about it came in an hour ago.",
    "Not sure where that is done.", "Legal wants it settled.", "I tried it last week and gave up.",
    "The quarter closes soon.",
)  # fmt: skip
VERB = re.compile(
    r"\b(?:is|are|was|were|has|have|had|does|do|must|can|cannot|may|will|should|needs?|came|comes?|goes|asks?|wants?|"
    r"exists?|belongs?|includes?|contains?|covers?|leaves?|starts?|ends?|bought|drove|paid|sent|sold|took|went|"
    r"[a-z]{3,}ed)\b"
)
PERSON = {"you are": "I am", "you have": "I have", "your": "my", "you": "I", "yourself": "myself"}
LONG_NAME = 4  # words of an endpoint that nobody says together without having read it
SENTENCE = 6  # words from which on a signal is a request of its own, as an expert typed it
NO_WORDS = "Its text gives no everyday words to hint at it. Type two requests that a colleague would send."


def unsupported(rule: RuleText, pool: Mapping[str, ToolText]) -> dict[str, str]:
    """Styles for which a rule has no words that a template could use, each with what is missing."""
    mine = [case.clause for case in cases(rule, pool) if case.clause.route_to == rule.target]
    return {} if any(_signals(clause, rule) for clause in mine) else {"implicit": NO_WORDS}


def _signals(clause: Clause, rule: RuleText) -> tuple[str, ...]:
    """An expert's; those read out of a text are for the judge."""
    return clause.signals if rule.clauses else ()


def _rule_query(request: QueryRequest, rule: RuleText, rng: random.Random) -> QueryDraft:
    """Follow one case of the rule, each in its turn."""
    pool = by_name(request.pool)
    leads_away = request.style == "exception"
    found = [one.clause for one in cases(rule, pool) if (one.clause.route_to != rule.target) == leads_away]
    if request.style == "implicit":
        found = [one for one in found if _signals(one, rule)]
    if not found:
        raise _refused(f"the rule {rule.code} supports no {request.style} query.", rule.code)
    clause, turn = found[request.index % len(found)], request.index // len(found)
    # what the case is for, or what its tool does
    purpose = f", {clause.when}".partition(", to ")[2]
    wish = wish_of_purpose(f"to {purpose}") or wish_of(pool[clause.route_to].description)
    if wish is None:
        message = f"neither rule nor description says what {clause.route_to} is wanted for."
        raise _refused(message, clause.route_to)
    signals, hints = _signals(clause, rule), request.style == "implicit" or (leads_away and turn % 2)
    if request.style == "underspecified":
        text = _aside(_said(wish, rng), rng)
    elif signals and (hints or request.attempt > 1):
        place = turn + request.attempt - 1
        signal = signals[(place if hints else -place) % len(signals)]  # hints begin with the first ones
        if len(signal.split()) >= SENTENCE:
            text = _aside(signal, rng)
        else:
            text = _typed(rng.choice(SIGNALS), _said(wish, rng), sign=signal)
    else:
        text = _stated(wish, clause, rng)
    why = f"{_capital(clause.when)}, so by the rule it goes to {clause.route_to}."
    if clause.when.startswith("to "):
        why = f"The request is {clause.when}, which by the rule is for {clause.route_to}."
    return QueryDraft(text, (clause.route_to,), why)


def _stated(wish: Wish, clause: Clause, rng: random.Random) -> str:
    """The wish with the case's condition; a purpose is the condition itself."""
    said = _said(wish, rng)
    if clause.when.startswith("to "):
        return _aside(said, rng)
    fact = clause.when.partition(", to ")[0]
    fact = re.sub(r"\b(?:you are|you have|your|yourself|you)\b", lambda match: PERSON[match.group()], fact)
    frames = FACT_FIRST if wish.thing in PRONOUNS else FACTS if VERB.search(fact) else NOTES
    return _typed(rng.choice(frames), said, fact=_capital(fact), low=fact)


def _typed(frame: str, said: str, **parts: str) -> str:
    lead = said[:1].lower() + said[1:] if not re.match(r"I\b|[A-Z]{2}", said) else said
    text = frame.format(wish=said, bare=said.rstrip(".?"), lead=lead, **parts)
    return re.sub(r"([.?])\.$", r"\1", _capital(text))


def _said(wish: Wish, rng: random.Random) -> str:
    """One wish as a sentence."""
    other = worded(wish, rng)
    if wish.reads and rng.random() < 0.5:
        text = rng.choice(READ).format(thing=other.thing)
    else:
        text = rng.choice(DO).format(do=other.text)
    text = _capital(text)
    return text if text[-1] in ".?" else f"{text}."


def _aside(text: str, rng: random.Random) -> str:
    roll = rng.random()
    if roll < 0.45:
        return text
    aside = rng.choice(ASIDES)
    return f"{text} {aside}" if roll < 0.85 or aside == "Thanks!" else f"{aside} {text}"


def _catalog_query(request: QueryRequest, rng: random.Random) -> QueryDraft:
    """What the anchor does, and for `medium` one more of its pool, each told apart from every look-alike."""
    wanted = TIERS[request.tier or "easy"][0]
    found = _askable(request.anchor, rng.sample(request.pool, len(request.pool)), wanted)
    if request.tier == "hard" or len(found) < wanted:
        message = f"no {request.tier} request for {request.anchor} that fits no look-alike."
        raise _refused(message, request.anchor)
    first, *more = found.values()
    text = _said(first, rng)
    text = f"{text} {rng.choice(ALSO).format(do=worded(more[0], rng).text)}" if more else _aside(text, rng)
    why = "; ".join(f"{name} serves to {wish.text}" for name, wish in found.items())
    return QueryDraft(text, tuple(found), f"{why}.")


def askable_tiers(anchor: str, pool: Sequence[ToolText]) -> list[str]:
    """The tiers for which anchor and pool have enough tools to ask for; none where a look-alike answers as well."""
    found = len(_askable(anchor, pool, TIERS["medium"][0]))
    return [tier for tier, (low, _) in TIERS.items() if found >= low]


def _askable(anchor: str, pool: Sequence[ToolText], most: int) -> dict[str, Wish]:
    """{tool: its wish}, the anchor first: wishes of different things, each of them one live tool's alone."""
    found: dict[str, Wish] = {}
    for tool in sorted(pool, key=lambda one: one.name != anchor):
        wish = None if tool.deprecated else wish_of(tool.description)
        if wish and _alone(tool, wish, pool) and not any(wish.stems <= one.stems for one in found.values()):
            found[tool.name] = wish
        if len(found) == most or anchor not in found:
            break
    return found


def _alone(tool: ToolText, wish: Wish, pool: Sequence[ToolText]) -> bool:
    """Does the wish say what no other live tool's words hold, and neither the tool's own name nor one of a table?"""
    name = content_stems(tool.endpoint)
    copied = len(name) >= LONG_NAME and name <= content_stems(wish.text)
    bare = wish.reads and len(wish.stems) < 2 and wish.thing.split()[-1][0].isupper()  # `get Management`
    if copied or bare or (is_title(tool.endpoint) and spaced(tool.endpoint) in spaced(wish.text)):
        return False
    asked = wish.stems | (frozenset() if wish.reads else content_stems(wish.verb))
    live = (one for one in pool if one.name != tool.name and not one.deprecated)
    return all(asked - content_stems(f"{one.endpoint} {one.description}") - VAGUE for one in live)


def _refused(message: str, where: str) -> TraceError:
    return TraceError(message, code="style_unsupported", where=where, permanent=True)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# A trace: each step in a frame of its own.

ASKED = (
    "Somebody wants to {wish}.", "The request is to {wish}.", "They need to {wish}.", "Wanted: to {wish}.",
)  # fmt: skip
QUOTED = ('It says "{said}".', 'The words are "{said}".', 'What counts is "{said}".', '"{said}" is the clue.')
KINDS = {
    "something taken away": {"delete", "remove", "cancel", "rid", "void", "stop"},
    "something changed": {"update", "change", "correct", "edit", "adjust"},
    "something set up": {"create", "make", "set", "add", "enter", "start", "submit"},
    "something shown": READING,
}
WISHED = (
    "Somebody wants {wish}.", "Needed: {wish}.", "The request asks for {wish}.", "The wish is {wish}.",
)  # fmt: skip
PERMITTED = ("Access for this is allowed.", "They may use what this takes.", "Access covers it.")
SERVICES = ("{apis} could serve this.", "The services to compare are {apis}.", "I compare {apis} first.")
SERVICE = ("This lies with {apis}.", "{apis} is the service for it.", "Only {apis} is concerned.")
CLOSE = (
    "The nearest are {names}.", "It comes down to {names}.", "What could be meant: {names}.",
)  # fmt: skip
# the closest is named first where nothing but the descriptions decides, always after the same word: a small model that
# writes knows what to name by the word it has just written
NEAREST = ("Closest is {first}, then {others}.", "By purpose the closest is {first}, then {others}.")
DECIDES = (
    "{code} decides: {case}, so it is {name}.", "By {code}, {case}: {name}.",
    "{code} settles it: {case}, hence {name}.",
)  # fmt: skip
OTHERWISE = (
    "{name} would need another case: {case}.", "Not {name}: its case is that {case}.",
    "{name} is for another case: {case}.",
)  # fmt: skip
ELSEWHERE = (
    "{name} is there {case}, which is another wish.", "Not {name}, which serves {case}.", "{name} is left {case}.",
)  # fmt: skip
TOLD = (
    "{code} decides: {sentence}.", "The rule {code} says: {sentence}.", "What settles it is {code}: {sentence}.",
)  # fmt: skip
DEAD = (
    "{name} reads the same but is deprecated.", "Not {name}, it is deprecated.",
    "{name} is deprecated and drops out.",
)  # fmt: skip
ANSWERS = (
    '{name} fits "{said}": it serves {task}.', '{name} answers "{said}", it is there {task}.',
    '{name} is the one for "{said}": {task}.',
)  # fmt: skip
SECOND = (
    "The second is near, but serves {task}.", "Not the second, which is there {task}.",
    "The second differs: {task}.",
)  # fmt: skip
COMMIT = (
    "So {names}.", "I choose {names}.", "Therefore {names}.", "That leaves {names}.", "I take {names}.",
)  # fmt: skip
TASK_WORDS, CASE_WORDS, SAID_WORDS = 14, 40, 12
PIECE = re.compile(r"(?<=[.?!;:])\s+|\s[-(]\s?|,\s|[()]\s?")


class TemplateTraceWriter:
    def made_with(self, branch: str) -> dict[str, Any]:
        return {"writer": "template-traces-3"}

    async def write(self, request: TraceRequest) -> TraceDraft:
        rng = random.Random(f"{request.seed}|trace|{request.attempt}")
        pool = by_name(request.pool)
        answers = [pool[name] for name in request.answer]
        rivals = _rivals(request, pool, rng)
        alone = request.rule is None and len(answers) == 1
        if alone:  # what kind of thing is wanted, by the request's own words: the answer is not known yet
            said = set(re.findall(r"[a-z-]+", request.query.casefold()))
            kind = next((kind for kind, verbs in KINDS.items() if said & verbs), "something done")
            steps = [rng.choice(WISHED).format(wish=kind)]
        else:
            wishes = [wish.text for tool in answers if (wish := wish_of(tool.description))]
            steps = [rng.choice(ASKED).format(wish=listed(wishes))] if wishes else []
            steps += [rng.choice(QUOTED).format(said=_quote(request.query, _known(request)))]
        if request.permissions:
            steps.append(rng.choice(PERMITTED))
        apis = list(dict.fromkeys(tool.api for tool in (*answers, *rivals)))
        rng.shuffle(apis)
        steps.append(rng.choice(SERVICES if len(apis) > 1 else SERVICE).format(apis=listed(apis)))
        names = [tool.name for tool in (*answers, *rivals)]
        if not alone:
            rng.shuffle(names)
        if rivals and alone:
            steps.append(rng.choice(NEAREST).format(first=names[0], others=listed(names[1:])))
        elif rivals:
            steps.append(rng.choice(CLOSE).format(names=listed(names)))
        if request.rule:
            steps += _by_rule(request, request.rule, pool, rivals, rng)
        else:
            steps += _by_texts(request, answers, rivals, rng)
        steps.append(rng.choice(COMMIT).format(names=listed(request.answer)))
        return TraceDraft(" ".join(step.strip() for step in steps))


def _rivals(request: TraceRequest, pool: dict[str, ToolText], rng: random.Random) -> list[ToolText]:
    """The two most easily taken for the answer: live ones of T(r), else its dead ones; without a rule, by words."""
    if request.rule:
        others = [pool[name] for name in request.rule.tools if name in pool and name not in request.answer]
        others = [tool for tool in others if not tool.deprecated] or others
        return rng.sample(others, min(2, len(others)))
    asked = content_stems(request.query)
    live = [tool for tool in request.pool if not tool.deprecated and tool.name not in request.answer]
    near = sorted(
        live, key=lambda one: (-len(asked & content_stems(f"{one.endpoint} {one.description}")), one.name)
    )
    return near[:2]


def _quote(query: str, known: frozenset[str]) -> str:
    """The part of a query that says most of what is known."""
    parts = [part.strip(" .?!;:-()") for part in PIECE.split(query)]
    best = max(parts, key=lambda part: (len(content_stems(part) & known), len(content_stems(part))))
    return LOOSE_END.sub("", " ".join(best.replace('"', "").split()[:SAID_WORDS]))


def _known(request: TraceRequest) -> frozenset[str]:
    pool = by_name(request.pool)
    found = frozenset[str]().union(*(content_stems(pool[name].description) for name in request.answer))
    if request.rule:
        clauses = [
            case.clause for case in cases(request.rule, pool) if case.clause.route_to in request.answer
        ]
        found = frozenset[str]().union(*map(evidence, clauses)) or found
    return found


def _by_rule(
    request: TraceRequest,
    rule: RuleText,
    pool: dict[str, ToolText],
    rivals: Sequence[ToolText],
    rng: random.Random,
) -> list[str]:
    """Why the nearest contender is not meant, and the case of the rule that decides."""
    asked = content_stems(request.query)
    found = [case.clause for case in cases(rule, pool)]
    mine = [clause for clause in found if clause.route_to in request.answer] or found[:1]
    others = [clause for clause in found if clause.route_to not in request.answer]
    decisive = max(mine, key=lambda clause: len(asked & evidence(clause)))
    # the case as the rule's own sentence has it where that is short, else by its condition
    sentence = told(rule, decisive.route_to)
    if not rule.clauses and 4 <= len(sentence.split()) <= CASE_WORDS and rng.random() < 0.5:
        parts = [rng.choice(TOLD).format(code=rule.code, sentence=sentence)]
    else:
        case = _case(decisive)
        parts = [rng.choice(DECIDES).format(code=rule.code, case=case, name=decisive.route_to)]
    dead = [tool for tool in rivals if tool.deprecated]
    if others:
        near = max(others, key=lambda clause: (len(asked & evidence(clause)), clause.route_to))
        frames = ELSEWHERE if near.when.startswith("to ") else OTHERWISE
        parts.insert(0, rng.choice(frames).format(name=near.route_to, case=_case(near)))
    elif dead:
        parts.insert(rng.choice((0, 1)), rng.choice(DEAD).format(name=dead[0].name))
    return parts


def _case(clause: Clause) -> str:
    """A case in running text."""
    text = re.sub(r"[.!?]+\s", "; ", clause.when).strip(" .").replace(", to ", " and the wish is to ")
    return " ".join(text.split()[:CASE_WORDS]).strip(" ,;")


def _by_texts(
    request: TraceRequest, answers: Sequence[ToolText], rivals: Sequence[ToolText], rng: random.Random
) -> list[str]:
    """Without a rule: what each answer does, in its description's words, and what the nearest look-alike does."""
    parts = []
    for tool in answers:
        said = _quote(request.query, content_stems(tool.description))
        parts.append(rng.choice(ANSWERS).format(name=tool.name, task=_task(tool), said=said))
    if len(answers) == 1:
        parts += [rng.choice(SECOND).format(task=_task(tool)) for tool in rivals[:1]]
    return parts


def _task(tool: ToolText) -> str:
    """What a tool does, in at most 14 words of its description."""
    text = re.sub(r"[.!?]+\s", "; ", described_task(tool.description))
    return LOOSE_END.sub("", " ".join(text.split()[:TASK_WORDS]).strip(" ,;:"))


def listed(names: Sequence[str]) -> str:
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else "".join(names)
