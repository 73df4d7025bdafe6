"""The cases of a rule. Experts may write them as clauses; a rule with text only has them derived here.

In: a RuleText and the pool. Out: cases (what must hold -> tool), main one first. A case is kept only where its words
set it apart from the rule's other live tools, so that no query can follow it and still fit another tool as well.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from catalog.core.words import base_form
from synthesis.core.queries import RULE_STYLES, Clause, RuleText, ToolText
from synthesis.core.words import STOP, content_stems, words
from trace_site.lib.letters import sentence_end

FULL_STOP = sentence_end(r"(?<=[.!?])\s+|\n")

# Reading a rule's prose: what each sentence part says a tool is for, as one plain condition or purpose.
#
# In: a rule's text with its tools as holes `⟦n⟧`, cut into parts. Out: for a hole, a `CaseWords`: the words of the case
# (`to change a card's PIN`; `the payout is still pending, to stop it`; `the PSP reference is known`) or none.
# A purpose starts with `to`; a condition is a sentence; a purpose under a condition is both, joined by `, to `.


_VERBS = """
accept activate add adjust apply approve archive ask assign attach authorize authorise balance bill block book
calculate call cancel capture change check clear close collect complete compute confirm connect convert correct
count create credit deactivate debit declare decline delete deliver deploy detach disable discover display
dispute download edit enable end enroll enter estimate export extend fetch file fill find finish freeze generate
get give grant hand hire hold import increase issue join keep link list load lock log look make manage map mark
match merge migrate modify move name notify open order pass pause pay place plan post preview print process
produce publish pull put query quote read rebill receive recharge record redeem refresh refund register reject
release remove rename renew repeat replace report request resend reserve reset restore resume retire retrieve
retry return reveal reverse review revoke run save schedule search see select sell send set settle share ship
show sign simulate split start stop store submit subscribe suspend swap sync tax terminate test track transfer
turn undo unlink update upload use validate verify view void waive withdraw write"""
VERBS = frozenset(_VERBS.split())
HOLE_MARKS = str.maketrans("⟦⟧", "[]")  # a text's own are none of our holes
HOLE = re.compile(r"⟦(\d+)⟧")
DEAD = re.compile(
    r"deprecat|no longer|replaced|retired|obsolete|removed|legacy|superseded|old (?:version|route)|being phased|"
    r"discontinued|sunset|not recommended|unsupported|will not be supported|do not use|and not ⟦",
    re.IGNORECASE,
)
INSTEAD = re.compile(r"\b(?:instead of|rather than)\b", re.IGNORECASE)
GERUND = re.compile(
    r"\b(?:instead of|rather than)\s(\w+ing)\s(.+?)\s(?:with|from|through|by)\s⟦", re.IGNORECASE
)
CLASSIC = re.compile(
    r"⟦\d+⟧\s(?:belongs to|is part of|is)\sthe (?:classic|legacy) (?:integration|endpoint)|the classic ⟦",
    re.I,
)
NEWER = re.compile(r"\b(in|and the integration is) an? new(?:er)? (integration|one)\b", re.IGNORECASE)
PARENTHESES = re.compile(r"\s*\([^)]*\)")
HOW = re.compile(
    r",\s(?=(?:use|call|choose|prefer|create|pass|read|submit|start|send|archive|square|newer|new|you|please)\b)|"
    r",\s(?=\w+\s(?:it|them)\b)|\s(?:use|call|newer integrations use)\s(?:the\s)?⟦|"
    r"\s(?:with|through|via|from|by)\s(?:the\s)?⟦|⟦|,?\s(?:rather than|instead of|and not|not with)\b|,\sand always\b|"
    r"\s(?:with|on)\s(?:the\s)?(?:\w+\s){1,3}(?:API|parameter)\b|\s(?:with|and the)\s\w+_\w+",
    re.IGNORECASE,
)
CONDITION = re.compile(
    rf"^(?:when|whenever|if)\s(.+?(?:,\s.+(?=,\s))?)(?:,\s|\s(?=(?:{'|'.join(sorted(VERBS))})\s(?:(?:the|an?|it|them)\b|⟦)))(.*?)(?:\s(?:with|through|via|from|by))?\s?⟦",
    re.I,
)
LATER = re.compile(r"⟦\d+⟧\s(?:only\s)?(?:when|if)\s(.+)$", re.IGNORECASE)
FOR = re.compile(r"^for\s(.+?),?\s(?:use|call)\s⟦", re.IGNORECASE)
USE = re.compile(r"^(?:use|call|choose|take)\s⟦\d+⟧\s((?:for|to)\s.+)$", re.IGNORECASE)
TIME = re.compile(
    r"^((?:from|since|until|till|before|after|as\sof|starting|during|in|on|outside|within)\s.+?),?\s"
    r"(?:use|call|choose|take)\s⟦",
    re.IGNORECASE,
)
PASSIVE = re.compile(
    r"^(.+)\s(?:is|are)\s(\w+(?:ed|wn|ne|en)|read|sent|put|made|paid|found|kept|held|run|set)(\s\w+\s[A-Z]\w+)?"
    r"\s(?:with|through|by|from|via|in)\s⟦",
    re.IGNORECASE,
)
COMES = re.compile(
    r"^(.+?)\s(comes?|goe?s?(?:\sout)?|stays?|remains?|belongs?|lives?)\s(?:from|through|to|in|with|at)\s(?:the\s)?"
    r"(?:[\w ]+,\s)?⟦",
    re.IGNORECASE,
)
OWN = re.compile(r"^⟦\d+⟧\s(?:only\s|also\s)?(\w+)\s(.+)$")
NEGATIVE = re.compile(r"^(?:does|do|cannot|will|must|should|has|have|excludes?|may|can)$|n't$", re.IGNORECASE)
IRREGULAR = {"read": "read", "paid": "pay", "found": "find", "kept": "keep", "held": "hold", "set": "set",
    "withdrawn": "withdraw", "undone": "undo", "sent": "send", "made": "make", "taken": "take",
    "run": "run", "put": "put", "done": "do", "given": "give", "seen": "see", "shown": "show"}  # fmt: skip
TO_GET = {"return", "retrieve", "fetch", "provide", "give", "cover", "contain", "hold"}


@dataclass(frozen=True, slots=True)
class CaseWords:
    """`when`: the case in words, empty where the text gives none; `open`: the tool's own description may tell it."""

    when: str = ""
    open: bool = True


def target_reading(part: str) -> str:
    """What a part says of the rule's main tool."""
    part = PARENTHESES.sub("", part).strip(" .;,:")
    if match := re.match(r"(?:to|in order to)\s(.+)$", part, re.IGNORECASE):
        newer = " in a newer integration" if "newer integrations use" in part else ""
        goal = HOW.split(match.group(1), maxsplit=1)[0].strip(" .,;:")
        return f"to {_low(goal)}{newer}" if len(words(goal)) >= 2 else ""
    if match := USE.match(part):
        return match.group(1) if match.group(1).startswith("to ") else f"… {match.group(1)}"
    if match := TIME.match(part):
        return f"… {_low(match.group(1))}"
    if match := CONDITION.match(part[: part.find("⟧") + 1]):
        # `condition, to do it`; without a word of what to do the condition alone
        then = HOW.split(f" {match.group(2)}", maxsplit=1)[0].strip(" ,")
        then = re.sub(r"^(?:use|call|newer integrations use)$", "", then)
        condition = match.group(1).strip(" ,")
        return f"{condition}, to {_low(then)}" if len(words(then)) >= 2 else condition
    if match := FOR.match(part):
        return _purpose(f"get {match.group(1)} ⟦")
    return _statement(part)


def _statement(part: str) -> str:
    """`X is withdrawn with T`, `X comes from T`, `List X with T`."""
    if match := PASSIVE.match(part):
        noun, verb, place = match.group(1), match.group(2).casefold(), match.group(3) or ""
        return f"to {active(verb)} {_low(noun.strip(' ,'))}{place}"
    if match := COMES.match(part):
        verb = "make" if match.group(1).casefold().startswith("changes") else "get"
        verb = "send" if match.group(2).casefold().endswith("out") else verb
        return f"to {verb} {_low(match.group(1))}"
    found = _purpose(part)
    later = LATER.search(part)
    return f"{later.group(1)}, {found}" if later and found else found


def active(participle: str) -> str:
    if participle in IRREGULAR:
        return IRREGULAR[participle]
    base = participle.removesuffix("ed")
    if (
        base[-1:] in "tds"
        and base[-3:-2] not in "aeiou"
        and not base.endswith(("ss", "st", "nt", "ct", "rt"))
    ):
        return base + "e"
    return base + "e" if base.endswith(("at", "ang", "g", "c", "v", "z", "us", "os")) else base


def _purpose(text: str) -> str:
    goal = HOW.split(text, maxsplit=1)[0].strip(" .,;:")
    said = words(goal)
    return f"to {_low(goal)}" if len(said) >= 2 and said[0] in VERBS else ""


def confusable_reading(part: str, target: str, task: str) -> CaseWords:
    """What a part says of a confusable. `target` is the main case in words, `task` its purpose alone."""
    if CLASSIC.search(part):  # the main case in the older integration
        changed = NEWER.sub(lambda match: f"{match.group(1)} the classic {match.group(2)}", target)
        return CaseWords(changed if changed != target else f"{target} in the classic integration")
    if DEAD.search(part):
        return CaseWords(open=False)
    if match := GERUND.search(part):
        verb = match.group(1).casefold().removesuffix("ing")
        verb += "e" * verb.endswith(("at", "us", "as", "v", "c"))
        return CaseWords(f"to {verb} {match.group(2)}")
    if INSTEAD.search(part):
        # a case of its own only where the main one is a condition that can fail
        return CaseWords(open=bool(re.match(r"\W*(?:when|if)\b", part, re.I) or " without " in part))
    part = PARENTHESES.sub("", part).strip(" .;,:")
    if match := OWN.match(part):
        return _own_reading(match.group(1).casefold(), match.group(2), task)
    if match := LATER.search(part):
        return CaseWords(f"{match.group(1)}, {task}" if task else match.group(1))
    if match := re.match(r"(?:when|if)\s(.+?),?\s(?:use|call)\s⟦", part, re.IGNORECASE):
        return CaseWords(f"{match.group(1)}, {task}".removesuffix(", "))
    if match := FOR.match(part):
        return CaseWords(f"… for {match.group(1)}")
    if match := TIME.match(part):
        return CaseWords(f"… {_low(match.group(1))}")
    return CaseWords(_statement(part))


def _own_reading(verb: str, rest: str, task: str) -> CaseWords:
    """`T reveals the PIN`, `T is for Treasury flows`, `T works only after capture`, `T needs the PSP reference`."""
    if NEGATIVE.search(verb):
        return CaseWords()
    rest = re.sub(r"^only\s", "", rest)
    if verb in ("is", "are"):
        purpose = re.match(r"(?:only\s)?for\s(.+)$", rest)
        return CaseWords(f"… for {purpose.group(1)}") if purpose else CaseWords()
    if verb == "needs":
        return CaseWords(f"{rest} is known, {task}".removesuffix(", "))
    if verb in ("works", "applies"):
        return CaseWords(f"… {rest}")
    if len(words(rest)) < 2 or not verb.endswith("s") or verb.endswith("ss"):
        return CaseWords()
    noun = re.search(r"\b(?:an?|the)\s[\w' -]+?(?=\swithout|\swith|\sand|$)", task)
    rest = re.sub(r"^(?:it|them)\b|^(?=without)", f"{noun.group()} " if noun else "it ", rest)
    rest = re.sub(r"\s+", " ", rest)
    return CaseWords(f"to {_base_form(verb)} {rest}")


def _base_form(verb: str) -> str:
    """`reveals` -> `reveal`, `returns` -> `get`."""
    verb = base_form(verb.casefold())
    return "get" if verb in TO_GET else verb


def _low(text: str) -> str:
    text = text.strip()
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] in (" ", "-") else text


SPLIT = re.compile(
    r"(?<=[.;])\s+|;\s*|:\s+(?=⟦)|,\s+(?:and|but|while|whereas)\s+(?=⟦)|\s+(?:and|but|while|whereas)\s+(?=⟦)"
)
# words that say nothing of which tool is meant
VAGUE = frozenset(
    content_stems("data details information object resource record given specified existing single new")
)
AGAINST = re.compile(r"\b(?:instead of|rather than)\b|\bnot (?:with )?(?=⟦)")
DETAIL = re.compile(r"[,:;]\s|\s(?:by|with|that|which|including|via)\s")  # what a description goes on with
PLAIN_VERB = re.compile(r"^[A-Z][a-z]+$")
# what opens descriptions and is no verb, besides small words and gerunds
_NO_VERBS = """ability able amazon api app application custom data deprecated detailed fast free general latest last
live new online payment platform plugin powerful product real service simple site tool trusted utility website"""
ASKED = frozenset(["get", "see", "show"])  # small words in a request, verbs in a description
NO_VERB = frozenset(_NO_VERBS.split())


@dataclass(frozen=True, slots=True)
class Case:
    """A clause ready for use.

    `own`: the rule itself tells its cases apart, in clauses or in sentences, so that descriptions of tools decide
    nothing between them.
    """

    clause: Clause
    own: bool


def cases(rule: RuleText, pool: Mapping[str, ToolText]) -> list[Case]:
    """Every case that routes to a live tool of T(r), main one first."""
    return list(_cases(rule, tuple(pool.get(name) for name in rule.tools)))


@lru_cache(maxsize=4096)
def _cases(rule: RuleText, tools: tuple[ToolText | None, ...]) -> tuple[Case, ...]:
    alive = {tool.name: tool for tool in tools if tool is not None and not tool.deprecated}
    if rule.clauses:
        # a clause marked as an exception that still routes to the target is one more way to the target
        found = [Case(clause, True) for clause in rule.clauses if clause.route_to in alive]
    else:
        read = [clause for clause in derived(rule) if clause.route_to in alive]
        filled = [_filled(clause, alive) for clause in read]
        told = len(read) > 1 and bool(read[0].when)
        kept = [
            clause
            for clause, said in zip(filled, read, strict=True)
            if clause.when
            and (_apart(clause, filled, alive) or (clause.route_to == rule.target and said.when))
        ]
        found = [Case(replace(clause, signals=_only_here(clause, kept)), told) for clause in kept]
    return tuple(sorted(found, key=lambda case: case.clause.route_to != rule.target))


def _filled(clause: Clause, tools: Mapping[str, ToolText]) -> Clause:
    """Where the text says nothing of when a tool is right, or only under what limits, its own description does."""
    if clause.when and not clause.when.startswith("…"):
        return clause
    task = DETAIL.split(described_task(tools[clause.route_to].description))[0]
    limit = clause.when.removeprefix("… ")
    said = content_stems(limit) <= content_stems(task)
    return replace(clause, when=task if said else f"{task} {limit}")


def _apart(clause: Clause, found: list[Clause], tools: Mapping[str, ToolText]) -> bool:
    """Does the case say a word that no other live tool's case or first sentence says?"""
    mine = content_stems(clause.when)
    for other in found:
        if other.route_to == clause.route_to:
            continue
        theirs = content_stems(f"{other.when} {first_sentence(tools[other.route_to].description)}")
        if not mine - theirs - VAGUE:
            return False
    return True


def _only_here(clause: Clause, found: list[Clause]) -> tuple[str, ...]:
    """The words that this case alone says, as its signal: `newer` against `classic`."""
    others = content_stems(" ".join(other.when for other in found if other is not clause)) | VAGUE | STOP
    own = [word for word in words(clause.when) if content_stems(word) and not content_stems(word) & others]
    return (" ".join(own),) if own and len(found) > 1 else ()


def described_task(description: str) -> str:
    """A description's first sentence as a purpose: `Returns a list of X` -> `to get a list of X`."""
    sentence = re.sub(r"\s*\((?![A-Z][a-z]+\))[^)]*\)", "", first_sentence(description))
    verb, _, rest = re.sub(r"\s\((\w+)\)", r", \1", sentence).partition(" ")
    rest = re.split(
        r"\s(?:for the user specified|identified|specified by|using|via|based on)\b|\s\w+_\w+", rest
    )[0]
    word = verb.casefold()
    no_verb = word in STOP - ASKED or word in NO_VERB or (len(word) > 5 and word.endswith("ing"))
    if no_verb or not PLAIN_VERB.match(verb) or not rest:
        return sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() else sentence
    return f"to {_base_form(verb) if verb.endswith('s') else verb.lower()} {rest}"


@lru_cache(maxsize=20_000)
def first_sentence(description: str) -> str:
    """A description's first sentence that says something, at most 20 words."""
    parts = [part for part in FULL_STOP.split(description.strip()) if len(words(part)) >= 2]
    sentence = (parts or [description.strip()])[0].rstrip(". ")
    return " ".join(sentence.split()[:20])


@lru_cache(maxsize=8192)
def told(rule: RuleText, name: str) -> str:
    """The part of the rule's text that names a tool first, without its full stop; empty where none does."""
    parts = re.split(r"(?<=\.)\s+|;\s+", rule.text)
    found = next((part for part in parts if name in part), "")
    return re.sub(r"\s+", " ", found).strip(" .;")


@lru_cache(maxsize=4096)
def derived(rule: RuleText) -> tuple[Clause, ...]:
    """Clauses read out of the rule's text, the target's first; a confusable's may be empty (see `_filled`)."""
    names = sorted(rule.tools, key=len, reverse=True)
    text = rule.text.translate(HOLE_MARKS)
    for number, name in enumerate(names):
        text = text.replace(name, f"⟦{number}⟧")
    parts = [part for part in SPLIT.split(text) if part.strip()]
    mine = [part for part in parts if f"⟦{names.index(rule.target)}⟧" in part]
    main = next((when for part in [*mine, *parts[:1]] if (when := target_reading(part))), "")
    task = main[main.find(", to ") + 2 :] if ", to " in main else main if main.startswith("to ") else ""
    task = re.split(r"\s(?:when|if)\s", task)[0]
    found = [Clause(main, rule.target)]
    for name in rule.confusables:
        hole = f"⟦{names.index(name)}⟧"
        readings = [
            _read(part, hole, part in mine, main, task) for part in parts if hole in part or name in part
        ]
        if not readings or all(reading.open for reading in readings):
            when = next((reading.when for reading in readings if reading.when), "")
            found.append(Clause(when, name, True))
    return tuple(found)


def _read(part: str, hole: str, shared: bool, main: str, task: str) -> CaseWords:
    """A part that names several confusables at once says nothing of one alone; nor does `not T` beside the target."""
    if not shared and len(set(HOLE.findall(part))) > 1:
        return replace(confusable_reading(part, main, task), when="")
    reading = confusable_reading(part, main, task)
    named_against = hole not in AGAINST.split(part)[0]
    if shared and named_against and not (GERUND.search(part) or CLASSIC.search(part)):
        return replace(reading, when="")
    return reading


def reasons_unsupported(rule: RuleText, pool: Mapping[str, ToolText]) -> dict[str, str]:
    """Styles the rule cannot support, each with the reason. No exception query may teach a dead tool."""
    routes = {case.clause.route_to for case in cases(rule, pool)}
    alive = {name for name in rule.tools if name in pool and not pool[name].deprecated}
    if rule.target not in routes:
        unsaid = (
            "The text does not say when the target is right and its look-alikes are not. Add a condition."
        )
        reason = unsaid if rule.target in alive else "The target is deprecated or retired."
        return dict.fromkeys(RULE_STYLES, reason)
    if routes == {rule.target}:
        unsaid = "The rule gives no case in which a confusable is clearly right."
        none_left = alive == {rule.target}
        return {"exception": "Every confusable is deprecated or retired." if none_left else unsaid}
    return {}


def evidence(clause: Clause) -> frozenset[str]:
    """The content stems by which a clause is recognised."""
    return content_stems(f"{clause.when} {' '.join(clause.signals)}")
