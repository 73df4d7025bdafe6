"""The offline query writer: a grammar over a rule's cases and the tools' descriptions, deterministic by seed.

Every rule query carries what the person wants (from the description of the tool group) and the signal of the case that
decides; `explicit` says the case's condition too, `exception` follows a case that leads to a confusable. RRB queries
ask for what a tool does in its words and in those that set it apart from its look-alikes.
"""

import random
import re
from collections.abc import Sequence
from typing import Any

from synthesis.core.clauses import cases
from synthesis.core.queries import TIERS, Clause, QueryDraft, QueryRequest, ToolText, by_name
from synthesis.core.words import content_stems, spaced, words
from synthesis.writers.lexicon import CLOSERS, COMPANIES, MONTHS, OPENERS, PEOPLE, ROLE, VERB_CLASS
from synthesis.writers.phrases import Ask, ask_of, distinguishing, phrase, vary_words
from trace_site.lib.errors import TraceError

NOUN_FRAMES = [
    "{ask}, {signal}", "{ask} - {signal}", "{signal}: {ask}", "{ask} ({signal})", "{signal}, {ask}",
    "it's {a_signal}, {ask}",
    "{ask} for {the_signal}", "{ask}, it is about {the_signal}", "we have {a_signal} here, {ask}",
    "re {signal}, {ask}",
    "{ask}, this one is {a_signal}", "about {the_signal}: {ask}", "{ask}. It concerns {the_signal}",
    "got {a_signal}, {ask}",
    "{ask} because of {the_signal}", "{ask}, {signal} again", "{signal} - {ask}", "for {the_signal}, {ask}",
]  # fmt: skip
LOOSE_FRAMES = [
    "{ask}, {signal}", "{signal}, {ask}", "{signal} - {ask}", "{ask} ({signal})",
    "{signal}, so {ask}", "{signal}: {ask}",
    "{ask}. {Signal}", "{Signal}. {ask}", "{ask}, note {signal}", "{ask} - {signal}",
]  # fmt: skip
CONDITION_FRAMES = [
    "{ask}, {when}", "{when}, {ask}", "{ask} since {when}", "because {when}, {ask}",
    "{when}, so {ask}", "{when} - {ask}",
    "{ask}. {When}", "{ask} ({when})", "as {when}, {ask}", "{ask}, you see {when}",
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
YEAR = re.compile(r"\b(?:19|20)\d\d\b")
JARGON = re.compile(
    r"\b(?:endpoint|payload|query param\w*|json|http|schema|deprecat\w*|boolean|body)\b", re.IGNORECASE
)
DRAWS = 30


class OfflineQueryWriter:
    def made_with(self, branch: str) -> dict[str, Any]:
        return {"writer": "offline-queries-1"}

    async def write(self, request: QueryRequest) -> QueryDraft:
        """One query; draws again until it gives no name away and has a natural length."""
        rng = random.Random(f"{request.seed}|{request.attempt}")
        order = random.Random(f"{request.rule.hash if request.rule else request.anchor}|{request.style}")
        for _ in range(DRAWS):
            draft = _rule_query(request, rng, order) if request.rule else _anchor_query(request, rng)
            if 4 <= len(words(draft.query)) <= 32 and not _leaks(draft, request):
                return draft
        return draft


def _leaks(draft: QueryDraft, request: QueryRequest) -> bool:
    asked = spaced(draft.query)
    names = {*draft.answer, *(request.rule.tools if request.rule else ())}
    titles = [spaced(name.partition("/")[2]) for name in names] + [spaced(name) for name in names]
    if request.rule:
        titles.append(spaced(request.rule.code))
    return any(title in asked and title.count(" ") > 2 for title in titles)


def _rule_query(request: QueryRequest, rng: random.Random, order: random.Random) -> QueryDraft:
    """Follow one case of the rule: its signal (and, explicitly, its condition) and what is asked for."""
    assert request.rule is not None
    rule, pool = request.rule, by_name(request.pool)
    found = cases(rule, pool)
    leading = [
        case for case in found if (case.clause.route_to != rule.target) == (request.style == "exception")
    ]
    if not leading:
        message = f"the rule {rule.code} supports no {request.style} query."
        raise TraceError(message, code="style_unsupported", where=rule.code, permanent=True)
    case = leading[request.index % len(leading)]
    clause = case.clause
    rivals = " ".join(
        f"{other.clause.when} {' '.join(other.clause.signals)}" for other in found if other is not case
    )
    source = pool[clause.route_to if rng.random() < 0.6 or clause.route_to != rule.target else rule.target]
    ask = ask_of(source.name, source.description)
    turn = request.index // len(leading) + request.attempt - 1
    if case.own:
        text = _with_signal(clause, ask, request, rng, turn, rivals)
    else:
        text = _from_text(clause, source, request, rng)
    why = f"{_capital(clause.when)}, so by the rule it goes to {clause.route_to}."
    return QueryDraft(_finish(text, rng), (clause.route_to,), why)


def _with_signal(
    clause: Clause, ask: Ask, request: QueryRequest, rng: random.Random, turn: int, rivals: str
) -> str:
    if request.style == "underspecified" or not clause.signals:
        return (
            _conditioned(clause, phrase(ask, rng), rng) if request.style == "explicit" else phrase(ask, rng)
        )
    # each signal has its turn before any comes back, in an order of the rule's own
    signals = random.Random(f"{clause.when}|{request.style}").sample(clause.signals, len(clause.signals))
    signal = _vary_signal(signals[turn % len(signals)], clause, rng, rivals)
    role = re.search(ROLE, signal, re.IGNORECASE) and not LOOSE.search(signal)
    if role and rng.random() < 0.6:
        person = _determined(signal, rng)
        asked = phrase(ask, rng, person=person)
        if person in asked:
            return asked if request.style != "explicit" else _conditioned(clause, asked, rng)
    if rng.random() < 0.15 and request.style != "explicit":
        return _terse(signal, ask, rng)
    asked = _with_entity(phrase(ask, rng), request.domain, rng)
    if request.style == "explicit" and rng.random() < 0.55:
        return _conditioned(clause, asked, rng, signal)
    if request.style == "explicit" and rng.random() < 0.4 and len(signals) > 1:
        other = _vary_signal(signals[(turn + 1) % len(signals)], clause, rng, rivals)
        signal = f"{signal}, {other}"
    return _joined(asked, signal, rng)


def _terse(signal: str, ask: Ask, rng: random.Random) -> str:
    """As into a search box."""
    head = vary_words(ask.head, rng, 0.5)
    verb = "" if ask.kind in ("read", "list", "summarize") else f"{ask.verb} "
    frames = ("{v}{h} {s}", "{s} {v}{h}", "{v}{h} - {s}", "{s}, {v}{h}", "{v}{h}, {s}")
    return rng.choice(frames).format(v=verb, h=head, s=re.sub(r"^(?:an?|the) ", "", signal))


def _joined(asked: str, signal: str, rng: random.Random) -> str:
    frames = LOOSE_FRAMES if LOOSE.search(signal) or YEAR.search(signal) or "," in signal else NOUN_FRAMES
    if YEAR.search(signal) and rng.random() < 0.6 and not LOOSE.search(signal):
        return f"{asked} {rng.choice(('for', 'from', 'of'))} {re.sub(r'^the ', '', signal)}"
    bare = re.sub(r"^(?:an?|the) ", "", signal)
    return rng.choice(frames).format(
        ask=asked,
        signal=signal,
        Signal=_capital(signal),
        a_signal=_determined(signal, rng),
        the_signal=f"the {bare}",
    )


def _conditioned(clause: Clause, asked: str, rng: random.Random, signal: str = "") -> str:
    """Say the condition itself, shortened where it lists alternatives."""
    when = _one_alternative(clause.when, rng)
    if not SENTENCE.search(when):
        return f"{asked}, {signal}, {when}" if signal and rng.random() < 0.5 else f"{asked}, {when}"
    when = re.sub(r"^the ", rng.choice(("the ", "the ", "this ", "our ")), when)
    text = rng.choice(CONDITION_FRAMES).format(ask=asked, when=when, When=_capital(when))
    return f"{text} ({signal})" if signal and rng.random() < 0.6 and "(" not in text else text


def _one_alternative(when: str, rng: random.Random) -> str:
    """`in a plant or warehouse` -> one of the two, now and then both."""
    match = re.search(r"\b([\w-]+) or (?:an? |the )?([\w-]+)$", when)
    if not match or rng.random() < 0.35 or match.group(2) in ("later", "earlier", "more"):
        return when
    return when[: match.start()] + rng.choice(match.groups())


def _vary_signal(signal: str, clause: Clause, rng: random.Random, rivals: str) -> str:
    """The same evidence in other words: dates within the condition, kin places, people and things."""
    after, before = AFTER.search(clause.when), BEFORE.search(clause.when)
    if (after or before) and YEAR.search(signal) and rng.random() < 0.75:
        edge = int(YEAR.findall(clause.when)[0])
        if after:
            year = rng.choice(range(edge, edge + 3))
        else:
            year = edge - rng.randint(0 if "or earlier" in clause.when else 1, 6)
        return _dated(year, rng)
    if not YEAR.search(signal):
        signal = re.sub(r"\b\d{3,6}\b", lambda match: _like(match.group(), rng), signal)
    return vary_words(signal, rng, 0.45, f"{rivals} {clause.when}")


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
        return f"{asked} for {rng.choice(PEOPLE if domain == 'hr' else COMPANIES)}"
    if domain == "hr":
        return (
            f"{asked}, {rng.choice(('emp', 'staff no', 'id', 'personnel number'))} {rng.randint(1000, 99999)}"
        )
    amount = f"{rng.randint(2, 98) * 50:,} {rng.choice(('EUR', 'USD', 'GBP', 'euros', 'dollars'))}"
    return (
        f"{asked}, {rng.choice((amount, f'no. {rng.randint(1000, 99999)}', f'ref {rng.randint(100, 9999)}'))}"
    )


def _from_text(clause: Clause, tool: ToolText, request: QueryRequest, rng: random.Random) -> str:
    """A rule without clauses: its own sentence, or the tool's description with the words that set it apart."""
    ask = ask_of(tool.name, tool.description)
    told = _asked_as_told(clause.when, rng) if clause.when and not JARGON.search(clause.when) else ""
    if request.style == "implicit" and len(words(clause.when)) > 5:
        told = ""  # in the rule's own words it would be explicit
    if request.style == "explicit" and told:
        return _with_entity(told, request.domain, rng)
    own = distinguishing(tool, request.pool)
    text = told if told and rng.random() < 0.45 else phrase(ask, rng)
    said = content_stems(text)
    extra = [run for run in own if not content_stems(run) <= said and len(content_stems(run) & said) < 2]
    if extra and rng.random() < 0.6:
        text = f"{text}{rng.choice((', ', ' - ', ' with '))}{rng.choice(extra[:4])}"
    return _with_vendor(_with_entity(text, request.domain, rng), tool, rng)


def _asked_as_told(when: str, rng: random.Random) -> str:
    """The rule's purpose turned into a request: `change a card's PIN` -> `can you change a card's PIN`."""
    when = vary_words(
        when[:1].lower() + when[1:] if when[1:2].islower() or when[1:2] == " " else when, rng, 0.4
    )
    first = when.split()[0] if when.split() else ""
    if SENTENCE.search(when) and first not in VERB_CLASS:
        ending = rng.choice(
            ("what do i do", "how do i handle that", "can you take care of it", "please help")
        )
        return f"{when}, {ending}"
    if first.endswith("s") and not first.endswith("ss") and " " in when:
        return f"{rng.choice(('i need something that', 'which one', 'want what'))} {when}"
    if re.match(r"^(?:a|an|the|one|all|your|new|information|changes|absences|tokens|\w+ed)\b", when):
        return f"{rng.choice(('i have', 'this is about', 'need help with', 'what about', 'it is'))} {when}"
    frames = ("can you {0}", "i need to {0}", "how do i {0}", "{0}", "please {0}", "we want to {0}",
    "trying to {0}",
        "what's the way to {0}", "could someone {0}", "is it possible to {0}", "have to {0}",
        "help me {0}")  # fmt: skip
    return rng.choice(frames).format(when)


def _with_vendor(text: str, tool: ToolText, rng: random.Random) -> str:
    """The product an employee would name, when its name is not an ordinary word of the description."""
    vendor = re.split(r"(?<=[a-z])(?=[A-Z0-9])", tool.api)[0]
    if len(vendor) < 4 or not vendor[0].isupper() or vendor.casefold() in spaced(text) or rng.random() < 0.45:
        return text
    if vendor.casefold() in ORDINARY:
        return text
    return rng.choice(
        (f"{text} in {vendor}", f"{text}, {vendor}", f"{vendor}: {text}", f"{text} on {vendor}")
    )


_ORDINARY_WORDS = (
    "payroll people work workforce time absence benefit benefits talent reward comp ledger close consol invoice "
    "payables pay payments bill billing cash receivables trip expense asset rate rates treasury fx plan budget "
    "procure supplier vendor entity open bank tax hire learn shift team staff core "
    "account cards data file store stock order"
)
ORDINARY = frozenset(_ORDINARY_WORDS.split())


def _anchor_query(request: QueryRequest, rng: random.Random) -> QueryDraft:
    """RRB: ask for what the anchor does; harder tiers ask for several tools at once."""
    pool = by_name(request.pool)
    anchor = pool[request.anchor]
    answer = (anchor.name, *_companions(anchor, request, rng))
    parts: list[str] = []
    for place, name in enumerate(answer):
        tool = pool[name]
        ask = ask_of(tool.name, tool.description)
        text = phrase(ask, rng, plain=place > 0) if place < 2 else _briefly(ask, parts)
        own = [
            run for run in distinguishing(tool, request.pool) if not content_stems(run) <= content_stems(text)
        ]
        if own and (len(answer) == 1 or rng.random() < 0.5) and place < 2:
            text = f"{text}{rng.choice((', ', ' - ', ', with ', ', I mean '))}{rng.choice(own[:3])}"
        parts.append(text)
    text = _chained(parts, rng)
    if len(answer) == 1:
        text = _with_entity(text, request.domain, rng)
    text = _with_vendor(text, anchor, rng)
    why = "; ".join(f"{name} does: {_purpose(pool[name])}" for name in answer)
    return QueryDraft(_finish(text, rng), answer, f"{why}.")


def _briefly(ask: Ask, parts: Sequence[str]) -> str:
    """The thing alone, with its verb when the thing has been named already."""
    said = any(ask.head in part for part in parts)
    return f"{ask.verb} {ask.head}" if said and ask.kind != "read" else ask.head


def _purpose(tool: ToolText) -> str:
    ask = ask_of(tool.name, tool.description)
    return f"{ask.verb} {ask.object}"


def _chained(parts: Sequence[str], rng: random.Random) -> str:
    """`a and then b, also c, d and e`."""
    text = parts[0]
    if len(parts) > 1:
        text += rng.choice((" and then ", ", and ", " and also ", ". After that ", ", plus ")) + parts[1]
    if len(parts) > 2:
        rest = list(parts[2:])
        listed = ", ".join(rest[:-1]) + (f" and {rest[-1]}" if len(rest) > 1 else rest[0])
        text += rng.choice((", same for ", ", and the same with ", ", also ", ", plus ")) + listed
    return text


def _companions(anchor: ToolText, request: QueryRequest, rng: random.Random) -> list[str]:
    """Further answers for the harder tiers: live neighbours that ask for something the anchor does not."""
    low, high = TIERS[request.tier or "easy"]
    if high == 1:
        return []
    heads = [content_stems(ask_of(anchor.name, anchor.description).head)]
    found: list[str] = []
    for tool in rng.sample(request.pool, len(request.pool)):
        head = content_stems(ask_of(tool.name, tool.description).head)
        if (
            tool.name != anchor.name
            and not tool.deprecated
            and all(len(head & other) <= 1 for other in heads)
        ):
            heads.append(head)
            found.append(tool.name)
    if len(found) < low - 1:
        live = [tool.name for tool in request.pool if not tool.deprecated and tool.name != anchor.name]
        found += [name for name in live if name not in found]
    return found[: rng.randint(low, min(high, 4)) - 1]


def _finish(text: str, rng: random.Random) -> str:
    """Typed as people type: openers, haste, small letters, missing full stops."""
    if rng.random() < 0.1:
        text = rng.choice(OPENERS) + text
    if rng.random() < 0.14 and "?" not in text:
        text = text.rstrip(".") + rng.choice(CLOSERS)
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r"\b(\w+)( \1)+\b", r"\1", text)
    text = re.sub(r"\?(?=[,;]| [-(])", "", text)
    text = re.sub(r"\b([Aa]) (?=[aeio]|un[^i])(?!one\b|eu)", r"\1n ", text)
    text = re.sub(r"\b([Aa])n (?=[bcdfgjklmnpqrstvwxz]|h(?!our|onest))", r"\1 ", text)
    asks = re.match(r"^(?:\w+, )?(?:can|could|how|what|where|who|is|do|would|may|which)\b", text)
    if asks and rng.random() < 0.6:
        text += "?"
    elif rng.random() < 0.25:
        text += "."
    return _capital(text) if rng.random() < 0.5 else text


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
