"""The template query writer: a wish, and the fact that decides, in a few frames; deterministic by seed.

`explicit` says the condition of a rule's case, `implicit` one of the signals an expert gave for it, `exception`
follows a case that leads to a confusable, `underspecified` leaves the deciding fact out. A catalog query asks for what
one tool does, or two, and for nothing that a look-alike does as well: four wishes in one breath are nobody's. What the
texts have no words for is refused with the reason.
"""

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from synthesis.core.clauses import VAGUE, cases
from synthesis.core.names import is_title
from synthesis.core.queries import TIERS, Clause, QueryDraft, QueryRequest, RuleText, ToolText, by_name
from synthesis.core.words import content_stems, spaced
from synthesis.offline.wishes import PRONOUNS, Wish, wish_of, wish_of_purpose, worded
from trace_site.lib.errors import TraceError

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


class TemplateQueryWriter:
    def made_with(self, branch: str) -> dict[str, Any]:
        return {"writer": "template-queries-2"}

    async def write(self, request: QueryRequest) -> QueryDraft:
        """Raises TraceError where the rule or the tools give no words for what is asked."""
        rng = random.Random(f"{request.seed}|{request.attempt}")
        return _rule_query(request, request.rule, rng) if request.rule else _catalog_query(request, rng)


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
    wish = _wish(clause, pool[clause.route_to])
    signals = _signals(clause, rule)
    if request.style == "underspecified":
        text = _aside(_said(wish, rng), rng)
    elif request.style == "implicit" or (leads_away and signals and turn % 2):
        text = _hinted(wish, signals[(turn + request.attempt - 1) % len(signals)], rng)
    else:
        text = _stated(wish, clause, rng)
    return QueryDraft(text, (clause.route_to,), _explanation(clause))


def _wish(clause: Clause, tool: ToolText) -> Wish:
    """What the case is for, or what its tool does."""
    purpose = f", {clause.when}".partition(", to ")[2]
    found = wish_of_purpose(f"to {purpose}") or wish_of(tool.description)
    if found is None:
        raise _refused(f"neither rule nor description says what {tool.name} is wanted for.", tool.name)
    return found


def _stated(wish: Wish, clause: Clause, rng: random.Random) -> str:
    """The wish with the case's condition; a purpose is the condition itself."""
    said = _said(wish, rng)
    if clause.when.startswith("to "):
        return _aside(said, rng)
    fact = clause.when.partition(", to ")[0]
    fact = re.sub(r"\b(?:you are|you have|your|yourself|you)\b", lambda match: PERSON[match.group()], fact)
    frames = FACT_FIRST if wish.thing in PRONOUNS else FACTS if VERB.search(fact) else NOTES
    return _typed(rng.choice(frames), said, fact=_capital(fact), low=fact)


def _hinted(wish: Wish, signal: str, rng: random.Random) -> str:
    if len(signal.split()) >= SENTENCE:
        return _aside(signal, rng)
    return _typed(rng.choice(SIGNALS), _said(wish, rng), sign=signal)


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


def _explanation(clause: Clause) -> str:
    if clause.when.startswith("to "):
        return f"The request is {clause.when}, which by the rule is for {clause.route_to}."
    return f"{_capital(clause.when)}, so by the rule it goes to {clause.route_to}."
