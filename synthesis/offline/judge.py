"""The offline judge J: heuristics, apart from the offline writers, that score a sample on the four axes.

In: a JudgeRequest. Out: scores 1..5 with a critique that says what to change. Nothing a sample says of itself counts:
the right tool is derived again from the rule's cases or the tools' descriptions, and the trace is read against that.
5 is a sample without a flaw; 4 and 3 pass with one that a reviewer may mind: words taken over from rule or description,
a condition said in part, a close second tool, a trace that names no rival. Unknown styles or tiers, empty texts and a
style without its rule fail. What each part catches is measured on samples that people wrote (tests/synthesis/judged).
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from catalog.core.words import stem
from synthesis.core.clauses import HOLE, HOLE_MARKS, cases
from synthesis.core.names import SENTENCE_END
from synthesis.core.queries import TIERS, Clause, JudgeRequest, RuleText, ToolText, Verdict, by_name
from synthesis.core.words import STOP, content_stems, spaced, words

Scored = tuple[int, str]  # score, what to change


class OfflineJudge:
    def __init__(self, thresholds: Mapping[str, int]) -> None:
        self.thresholds = dict(thresholds)

    def made_with(self, branch: str) -> dict[str, Any]:
        return {"writer": "offline-judge-6", "thresholds": self.thresholds}

    async def judge(self, request: JudgeRequest) -> Verdict:
        axes = {
            "naturalness": _naturalness(request),
            "compliance": _compliance(request),
            "label": (5, "") if request.branch == "imported" else _label(request),
            "faithfulness": _faithfulness(request),
        }
        critique = " ".join(note for _, note in axes.values() if note)
        scores = {axis: score for axis, (score, _) in axes.items()}
        return Verdict(request.id, scores, critique, thresholds=self.thresholds)


# What texts are compared by: stems, a rule's cases in stems, and dates. Nothing here depends on a query, so each rule
# is read once for all its samples.

PART = re.compile(r"(?<=[.;])\s+|,\s+(?:and|but|while|whereas)\s+")


@lru_cache(maxsize=50_000)
def stems(text: str) -> frozenset[str]:
    """Content words by their first six letters."""
    return frozenset(one[:6] for one in content_stems(text) if len(one) > 1)


@dataclass(frozen=True, slots=True, eq=False)
class KnownCase:
    """A case and its stems.

    `condition`: of its condition; `told`: of the rule's sentences on its tool; `every`: those, condition and signals;
    `stated`: what may state it in a trace. `own`: the rule itself tells its cases apart.
    """

    clause: Clause
    own: bool
    condition: frozenset[str]
    told: frozenset[str]
    every: frozenset[str]
    stated: frozenset[str]


def known_cases(rule: RuleText, pool: Sequence[ToolText]) -> tuple[KnownCase, ...]:
    known = by_name(pool)
    return _known_cases(rule, tuple(known[name] for name in rule.tools if name in known))


@lru_cache(maxsize=2048)
def _known_cases(rule: RuleText, tools: tuple[ToolText, ...]) -> tuple[KnownCase, ...]:
    # what the text of a rule without clauses says at all may be said of any of its cases
    more = frozenset() if rule.clauses else stems(_nameless(rule.text, rule.tools))
    found = []
    for case in cases(rule, by_name(tools)):
        clause = case.clause
        longer = [name for name in rule.tools if clause.route_to in name and name != clause.route_to]
        mine = [part for part in PART.split(rule.text) if clause.route_to in _nameless(part, longer)]
        told = frozenset[str]().union(*(stems(_nameless(part, rule.tools)) for part in mine))
        every = told.union(*map(stems, (clause.when, *clause.signals)))
        found.append(KnownCase(clause, case.own, stems(clause.when), told, every, every | more))
    return tuple(found)


def _nameless(text: str, names: Iterable[str]) -> str:
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, " ")
    return text


MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
DATE = re.compile(
    r"\b(?P<year>(?:19|20)\d\d)[-/.](?P<month>0?[1-9]|1[0-2])\b|"
    r"\b(?P<month2>0?[1-9]|1[0-2])[-/.](?P<year2>(?:19|20)\d\d)\b|"
    rf"\b(?:(?P<name>(?:{'|'.join(MONTHS)})[a-z]*\.?)\s+(?:\d{{1,2}}(?:st|nd|rd|th)?,?\s+)?)?"
    r"(?P<year3>(?:19|20)\d\d)\b|\bfy\s?'?(?P<short>\d\d)\b",
    re.IGNORECASE,
)
LATER = re.compile(
    r"\b(?:or|and)\s(?:later|after|newer)|\bonwards?\b|\b(?:since|from|after|as\sof|starting)\b",
    re.IGNORECASE,
)
EARLIER = re.compile(
    r"\b(?:or|and)\s(?:earlier|before|older)|\b(?:before|until|up\sto|prior\sto|till)\b", re.IGNORECASE
)


@lru_cache(maxsize=20_000)
def dates(text: str) -> tuple[tuple[int, int], ...]:
    """(year, month) of each date, month 0 where only a year is said."""
    found = []
    for match in DATE.finditer(text):
        part = match.groupdict()
        year = part["year"] or part["year2"] or part["year3"] or f"20{part['short']}"
        name = part["name"]
        month = MONTHS.index(name[:3].lower()) + 1 if name else int(part["month"] or part["month2"] or 0)
        found.append((int(year), month))
    return tuple(found)


def date_limit(condition: str, text: str) -> int:
    """+1 a text keeps the date limit of the condition, by its date or by the same limit, -1 it breaks it, else 0."""
    edges, said = dates(condition), dates(text)
    if not edges or not said:
        return 0
    ways = [(LATER.search(one) is not None) - (EARLIER.search(one) is not None) for one in (condition, text)]
    if all(ways) and set(edges) & set(said):
        return ways[0] * ways[1]
    size = 2 if edges[0][1] and said[0][1] else 1
    edge, date = edges[0][:size], said[0][:size]
    if EARLIER.search(condition):
        kept = date <= edge if re.search(r"\bor\searlier|up\sto|until", condition) else date < edge
    elif LATER.search(condition):
        kept = date >= edge
    else:
        kept = any(one[0] == edge[0] for one in said)
    return 1 if kept else -1


# Label correctness, the third axis: which tools are right, derived again, compared with the answer.
#
# With a rule, its cases are scored on the query: their condition, their signals, the rule's sentences about their
# tool, and the dates they set. Without a rule the tools' own words decide, and no part of the query may ask for
# another tool.

PARTS = re.compile(r"[,;:.?!]\s|\s-\s|\b(?:and|then|also|plus|n|after\sthat|as\swell\sas)\b|&", re.IGNORECASE)
CLEAR = 2.0  # times the second tool's score: nobody would take that one
SAID = 3.0  # from here on a query says which case it is
LEAST = 4.0  # what a part of a query must weigh to ask for a tool of its own
NEAR = 0.4  # of the best tool's score, in the query or a part of it: that tool may be asked for
LIMIT = 4.0  # how much a limit counts


def _label(request: JudgeRequest) -> Scored:
    """5 when what is derived here is the answer."""
    known = by_name(request.pool)
    if not request.answer or any(name not in known for name in request.answer):
        return 1, "The answer names no tool at all, or one that is not there."
    if dead := [name for name in request.answer if known[name].deprecated]:
        return 1, f"{dead[0]} is deprecated and never right."
    return _label_by_rule(request, request.rule) if request.rule else _label_by_texts(request)


def _label_by_rule(request: JudgeRequest, rule: RuleText) -> Scored:
    if outside := [name for name in request.answer if name not in rule.tools]:
        return 1, f"{outside[0]} is not one of the rule's tools."
    scores = tool_scores(request.query, rule, request.pool)
    mine = min(scores.get(name, 0.0) for name in request.answer)
    winner = _best(scores)
    best = scores.get(winner, 0.0)
    if request.style == "underspecified":
        return (5, "") if best - mine < SAID else (2, f"Another case of the rule fits better: {winner}.")
    if best <= 0:
        return 2, "Nothing in the query tells which case of the rule holds; say what makes it that case."
    if len(request.answer) > 1 and mine < 0.75 * best:
        return 2, f"The rule leads to one tool here, {winner}; the others are too many."
    if mine < 0.9 * best:
        return 2, f"By the rule the query belongs to {winner}."
    if mine < best - 1e-9:
        return 4, ""
    second = _best({name: score for name, score in scores.items() if name not in request.answer})
    if mine < CLEAR * scores.get(second, 0.0):
        return 4, f"{second} is nearly as close."
    nearest = _best(tool_scores(request.query, None, request.pool))
    return (5, "") if nearest in request.answer else (4, f"{nearest}'s own words fit it better.")


def _best(scores: Mapping[str, float]) -> str:
    return max(scores, key=lambda name: (scores[name], name), default="")


def tool_scores(query: str, rule: RuleText | None, pool: Sequence[ToolText]) -> dict[str, float]:
    """How well the query fits each live tool: by the rule's cases, or by the tools' own words."""
    if rule is None:
        return _text_scores(pool)(query)
    known, asked = known_cases(rule, pool), stems(query)
    # where the rule itself does not tell its cases apart, the tools' own words help
    apart = all(one.own for one in known)
    texts = {} if apart else _text_scores([tool for tool in pool if tool.name in rule.tools])(query)
    scores: dict[str, float] = {}
    for one in known:
        tool, strength = one.clause.route_to, _strength(one.clause.signals, asked)
        limit = date_limit(one.clause.when, query)
        if limit < 0 and strength and " or " in one.clause.when:
            limit = 0  # another alternative of the condition holds
        score = len(asked & one.condition) + 0.5 * len(asked & one.every - one.condition)
        score += 3 * strength + LIMIT * limit + texts.get(tool, 0.0)
        scores[tool] = max(scores.get(tool, 0.0), score)
    return scores


def _strength(signals: Iterable[str], asked: frozenset[str]) -> float:
    """The share of the best-matching signal's content words that the query says, where that is more than half."""
    wanted = [found for signal in signals if (found := stems(signal))]
    best = max((len(one & asked) / len(one) for one in wanted), default=0.0)
    return best if best > 0.5 else 0.0


def _text_scores(tools: Iterable[ToolText]) -> Callable[[str], dict[str, float]]:
    """Scores a text for each live tool by the tool's own words: those that few tools have count most."""
    sets = {tool.name: stems(f"{tool.name} {tool.description}") for tool in tools if not tool.deprecated}
    counts = Counter(word for own in sets.values() for word in own)
    weights = {word: 0.1 + math.log((len(sets) + 0.5) / count) for word, count in counts.items()}
    # fsum: sets are walked in another order in every process, and a plain sum would differ in its last bit, which is
    # enough to decide a tie otherwise
    return lambda text: {
        name: math.fsum(weights[word] for word in stems(text) & own) for name, own in sets.items()
    }


def _label_by_texts(request: JudgeRequest) -> Scored:
    """The query or a part of it says each answer's words nearly best, and no part asks for one tool more."""
    read = _text_scores(request.pool)
    whole, parts = read(request.query), [read(part) for part in PARTS.split(request.query)]
    for name in request.answer:
        if not any(0 < said[name] >= NEAR * max(said.values()) for said in (whole, *parts)):
            return 2, f"The query does not ask for what {name} does."
    if len(request.answer) == 1 and whole[request.answer[0]] < 0.6 * max(whole.values()):
        return 2, "The query fits another tool better."
    for part in parts:
        rival = _best(part)
        if part[rival] > 1.5 * max(part[name] for name in request.answer) and part[rival] >= LEAST:
            return 2, f"The query also asks for what {rival} does."
    return 5, ""


# Naturalness, the first axis: would an employee type this query? Looked for: code and markup, left-overs of templates
# and chats, the jargon of interfaces, descriptions taken over, tool names in plain words, repeated words, and queries
# without content.

SHORTEST, LONGEST = 3, 60
COPIED = 10  # words in a row that a query may not take from a description
CODE = re.compile(
    r"""\bselect\b.+\bfrom\b|\w\(['"\w]*\)\s*[;{]|[=!]=|=>|->|\w\s*=\s*['"\w]|;\s*$|\bcurl\b|https?:|\?\w+=|
    (?<!\w)/\w+(?:/\w+|\?)|["'}\]]\s*:|\b[a-z]+_[a-z_]+\b|\b(?:null|undefined)\b|^\s*[\[{<]|</|/>|\n\s*\w+:\s|
    \b(?:get|post|put|patch|delete)\s/""",
    re.IGNORECASE | re.VERBOSE,
)
LEFT_OVER = re.compile(
    r"""[{}<>]|\[[^\]]*\]|%[sd]\b|\$\w|_{2,}|\bx{2,}\b|\#{2,}|\*{2,}|`|\.{4,}|^\s*(?:\d{1,2}[.)]|[-*•])\s|[\r\n]|
    \b(?:lorem|ipsum|todo|tbd|tba|placeholder|n/a)\b|^\s*(?:["']?(?:query|request|question|prompt|output|example|answer|
    user|employee|human)["']?\s*\#?\d*\s*["']?:)|\b(?:assistant|system|user)\s*:|\b(?:style|tier|category)\s*[:=]|
    \b(?:explicit|implicit|exception|underspecified)\s(?:style|query|request|question|example)\b|\bas\san\sai\b|
    ^\s*(?:sure|certainly|of\scourse|okay|here)[,!:]?\s(?:here\s)?(?:is|are)\b""",
    re.IGNORECASE | re.VERBOSE,
)
JARGON = re.compile(
    r"""\b(?:apis?|endpoints?|payloads?|sdk|rest(?:ful)?\s(?:call|service|api|endpoint)|crud|openapi|operationid|param\w*|
    (?:request|response|message)\s(?:body|header|payload|schema)|http[s]?|status\scode|async\w*|invoke\w*|microservice|
    (?:tool|function|method|service)\scall|call\sthe\s(?:tool|function|method)|(?:get|post|put|patch)\s(?:request|call)|
    array\sof|data\stype|boolean|string\svalue|callback\surl|rate\slimit|paginat\w+|return\scode|deprecated|backend)\b""",
    re.IGNORECASE | re.VERBOSE,
)
REPEATED = re.compile(r"\b(\w+)(?:\s+\1\b)+(?!')|\s[,;:!]|[,;:?!]\s*[,;:]|\s{2,}", re.IGNORECASE)


def _naturalness(request: JudgeRequest) -> Scored:
    query = request.query
    if not query.strip():
        return 1, "The query is empty."
    if request.branch == "imported":
        return 5, ""
    if notes := [*_written_by_machine(query, request.pool), *_badly_worded(query, len(request.answer))]:
        return max(1, 5 - 3 * len(notes)), " ".join(notes)
    texts = [tool.description for tool in request.pool if tool.name in request.answer]
    if request.rule:
        texts += [one.clause.when for one in known_cases(request.rule, request.pool)]
    taken = max((copied_words(query, text) for text in texts), default=0)
    if taken < 4:
        return 5, ""
    return 4 if taken < 7 else 3, f"{taken} words in a row are copied; use others."


def _written_by_machine(query: str, pool: Sequence[ToolText]) -> Iterator[str]:
    said = words(query)
    if match := CODE.search(query):
        yield f"'{match.group().strip()}' is code; say it in plain words."
    elif match := LEFT_OVER.search(query):
        yield f"'{match.group().strip() or 'a line break'}' is left over from a template; take it out."
    if match := JARGON.search(query):
        yield f"'{match.group()}' is not how an employee speaks; name the matter, not the interface."
    manual = bool(said) and said[0].endswith("s") and not said[0].endswith("ss")
    if manual and any(words(tool.description)[:1] == said[:1] for tool in pool):
        yield f"'{said[0]}' opens it like a manual; ask for something instead."
    elif copied := min(
        (one.name for one in pool if copied_words(query, one.description) >= COPIED), default=""
    ):
        yield f"The query copies the description of {copied}; use other words."
    # a service's and an operation's name together are a tool's name, however spaced
    for tool in pool:
        titled = content_stems(tool.endpoint) or content_stems(tool.name)
        service = len(words(tool.api)) > 1 and spaced(tool.api) in spaced(query)
        if service and 2 * len(titled & content_stems(query)) >= len(titled):
            yield f"The query names the tool {tool.name} in plain words; say what is needed instead."
            return


def _badly_worded(query: str, answers: int) -> Iterator[str]:
    said = words(query)
    if not SHORTEST <= len(said) <= LONGEST:
        yield f"The query has {len(said)} words; people type {SHORTEST} to {LONGEST}."
    if match := REPEATED.search(query):
        yield f"'{match.group().strip() or 'a double space'}' reads like a broken sentence."
    counted = Counter(stem(word) for word in said if word not in STOP and not word.isdigit())
    # a request for several things may name what they share once for each
    if counted and counted.most_common(1)[0][1] > max(2, answers):
        yield f"'{counted.most_common(1)[0][0]}' is repeated."
    capitals = sum(map(str.isupper, query))
    if capitals > 8 and capitals > 0.45 * sum(map(str.isalpha, query)):
        yield "Too many capitals."
    if len(content_stems(query)) < 2:
        yield "The query does not say what it is about."


def copied_words(copy: str, text: str) -> int:
    """How many words in a row one text takes over from another."""
    said, held = words(copy), spaced(text)
    longest = 0
    for start in range(len(said)):
        while start + longest < len(said) and f" {' '.join(said[start : start + longest + 1])} " in held:
            longest += 1
    return longest


# Compliance, the second axis: does the query do what its style or tier asks?


def _compliance(request: JudgeRequest) -> Scored:
    if request.branch == "imported" and not request.style and not request.tier:
        return 5, ""
    if request.branch == "rrb" or request.tier:
        if request.tier not in TIERS:
            return 1, f"'{request.tier}' is not a tier; tiers are {', '.join(TIERS)}."
        least, most = TIERS[request.tier]
        size = len(request.answer)
        return (
            (5, "") if least <= size <= most else (1, f"A {request.tier} query does not have {size} answers.")
        )
    if request.rule is None:
        return 1, "A rule sample without its rule cannot be judged."
    return _style(request, request.rule)


def _style(request: JudgeRequest, rule: RuleText) -> Scored:
    asked = stems(request.query)
    known = known_cases(rule, request.pool)
    mine = [one for one in known if one.clause.route_to in request.answer]
    said = max((len(one.condition & asked) / max(1, len(one.condition)) for one in mine), default=0.0)
    match request.style:
        case "explicit" | "implicit" | "underspecified" if tuple(request.answer) != (rule.target,):
            return 1, f"An {request.style} query leads to the rule's main tool alone, {rule.target}."
        case "explicit" if not said and not any(len(one.told & asked) > 1 for one in mine):
            return 2, "An explicit query says key words of the rule's condition itself."
        case "explicit":
            whens = [one.clause.when for one in mine]
            taken = max(copied_words(when, request.query) / max(1, len(words(when))) for when in whens)
            note = "It takes the condition over; say it in other words." if taken >= 0.5 else ""
            return (3 if taken >= 0.8 else 4 if taken >= 0.5 or said < 0.3 else 5), note
        case "implicit" if any(_states_condition(one, asked, bool(rule.clauses)) for one in mine):
            return 2, "An implicit query does not state the rule's condition; hint at it by the situation."
        case "implicit":
            return 5 if said < 0.2 else 4, ""
        case "exception" if rule.target in request.answer:
            return 1, "An exception query leads away from the rule's main tool."
        case "underspecified" if any(
            _strength(one.clause.signals, asked) for one in known if one not in mine
        ):
            return 2, "An underspecified query carries no signal of another case."
        case "exception" | "underspecified":
            return 5, ""
    return 1, f"'{request.style}' is not a style."


def _states_condition(one: KnownCase, asked: frozenset[str], written: bool) -> bool:
    """Does the query say most of it? One read out of a text is mostly what the tool is for, which every query says."""
    least = max(3, 0.5 * len(one.condition)) if written else max(4, 0.8 * len(one.condition))
    return len(one.condition & asked) >= least


# Faithfulness, the fourth axis: does the reasoning, read alone, lead to the answer?
#
# The trace must restate this request and no other, state the decisive case of the rule where it cites it, say of each
# tool what rule and description say, and end on the answer. A quote or a number that stands in none of these texts
# counts as invented.

QUOTED = re.compile(r"[“\"‘]([^”\"“’]{3,}?)[”\"’]|(?<![\w])'([^']{3,}?)'(?!\w)")
NUMBER = re.compile(r"\d[\d.,/-]*\d")
STRANGE = 0.6  # share of a sentence's words on a tool that may come from nowhere: turns of phrase


@dataclass(frozen=True, slots=True)
class TraceSentence:
    """One sentence without the names in it; `said`: the stems of its words."""

    text: str
    tools: frozenset[str]
    cites: bool
    said: frozenset[str]


def _faithfulness(request: JudgeRequest) -> Scored:
    found = _trace_sentences(request)
    if notes := _unfaithful(request, found):
        return max(1, 5 - 2 * len(notes)), " ".join(notes)
    rival = any(len(one.tools) == 1 and not one.tools & set(request.answer) for one in found)
    return (4, "It weighs no look-alike against the answer.") if request.rule and not rival else (5, "")


def _trace_sentences(request: JudgeRequest) -> list[TraceSentence]:
    tools = {tool.name for tool in request.pool} | set(request.answer)
    code = request.rule.code if request.rule else ""
    names = sorted({*tools, *(name.partition("/")[0] for name in tools), code} - {""}, key=len, reverse=True)
    named = re.compile(rf"(?<![\w/])(?:{'|'.join(map(re.escape, names)) or '(?!)'})(?![\w/])")
    # a name may hold what ends a sentence
    marked = named.sub(lambda match: f"⟦{names.index(match.group())}⟧", request.trace.translate(HOLE_MARKS))
    made = []
    for part in filter(str.strip, SENTENCE_END.split(marked)):
        inside = {names[int(number)] for number in HOLE.findall(part)}
        bare = HOLE.sub("·", part)
        made.append(TraceSentence(bare, frozenset(inside & tools), code in inside, stems(bare)))
    return made


def _unfaithful(request: JudgeRequest, found: Sequence[TraceSentence]) -> list[str]:
    """What is wrong with the reasoning; empty when it leads to the answer."""
    if not found:
        return ["There is no reasoning."]
    last, answer, rule = found[-1].tools, set(request.answer), request.rule
    notes = [f"The last sentence does not name {name}." for name in sorted(answer - last)[:1]]
    notes += [f"The last sentence names {name} too." for name in sorted(last - answer)[:1]]
    notes += _invented(request, found)
    restated = not stems(request.query).isdisjoint(frozenset[str]().union(*(one.said for one in found)))
    if rule:
        # the sentence that cites the rule, or the one after it, states the answer's case
        decisive = [
            one
            for before, one in zip([None, *found], found, strict=False)
            if one.cites or (before and before.cites)
        ]
        if not decisive:
            return [*notes, f"The trace does not cite {rule.code}."]
        mine = [one for one in known_cases(rule, request.pool) if one.clause.route_to in request.answer]
        least = 2 if rule.clauses else 1
        if not any(
            len(sentence.said & one.stated) >= least and date_limit(one.clause.when, sentence.text) >= 0
            for sentence in decisive
            for one in mine
        ):
            notes.append(f"The trace cites {rule.code} but not the clause of it that decides.")
        intent = frozenset[str]().union(*(one.said for one in found[:2]))
        restated = restated or any(one.stated & intent for one in mine)
    else:
        said = frozenset[str]().union(*(one.said for one in found))
        for tool in (one for one in request.pool if one.name in request.answer):
            if said.isdisjoint(stems(f"{tool.endpoint} {tool.description}")):
                return [*notes, f"The trace does not say what {tool.name} does."]
    return notes if restated else [*notes, "The trace does not restate what is asked."]


def _invented(request: JudgeRequest, found: Sequence[TraceSentence]) -> list[str]:
    """Quotes and numbers that stand nowhere, and claims on one tool that are."""
    tools = [tool for tool in request.pool if tool.name in request.trace or tool.name in request.answer]
    sources = [request.query, *(f"{tool.name} {tool.description}" for tool in tools)]
    if rule := request.rule:
        sources += [rule.text, rule.code.replace("_", " ")]
        for one in known_cases(rule, request.pool):
            sources += [one.clause.when, *one.clause.signals]
    origin, text = " ".join(sources), " ".join(sentence.text for sentence in found)
    ground = stems(origin)
    quotes = [next(filter(None, match.groups())) for match in QUOTED.finditer(text)]
    notes = [f"'{quote}' is quoted but said nowhere." for quote in quotes if stems(quote) - ground]
    notes += [
        f"'{number}' stands in none of the texts." for number in NUMBER.findall(text) if number not in origin
    ]
    for sentence in found:
        strange = sentence.said - ground
        if (
            len(sentence.tools) == 1
            and not sentence.cites
            and len(strange) > max(2, STRANGE * len(sentence.said))
        ):
            notes.append(f"'{sentence.text.strip()}' is mostly said by none of the texts.")
    return notes[:2]
