"""The offline judge J: heuristics, apart from the offline writers, that score a sample on the four axes.

In: a JudgeRequest. Out: scores 1..5 with a critique that says what to change. Nothing a sample says of itself counts:
the right tool is derived again from the rule's cases or the tools' descriptions, and the trace is read against that.
5 is a sample without a flaw; 4 and 3 pass with one that a reviewer may mind: words taken over from rule or description,
a condition said in part, a close second tool, a trace that names no rival. Unknown styles or tiers, empty texts and a
style without its rule fail.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from synthesis.core.queries import TIERS, JudgeRequest, RuleText, ToolText, Verdict, by_name
from synthesis.core.words import STOP, AnyCase, content_stems, spaced, stem, words
from synthesis.offline.judge_trace import rivals_named, unfaithful
from synthesis.offline.judge_words import Known, known_rule, rarity, stems
from synthesis.offline.limits import same_side, side

# Label correctness, the judge's third axis: which tools are right, derived again, compared with the answer.
#
# With a rule, its cases are scored on the query: their condition, their signals, the rule's sentences about their
# tool, and the limits they set (years, amounts, workdays, regions). Without a rule the tools' own words decide, and
# no part of the query may ask for another tool.


PARTS = re.compile(r"[,;:.?!]\s|\s-\s|\b(?:and|then|also|plus|n|after\sthat|as\swell\sas)\b|&", re.IGNORECASE)
CLEAR = 2.0  # times the second tool's score: nobody would take that one
SAID = 3.0  # from here on a query says which case it is
LEAST = 4.0  # what a part of a query must weigh to ask for a tool of its own
NEAR = 0.4  # of the best tool's score, in the query or a part of it: that tool may be asked for
LIMIT = 4.0  # how much a limit counts


def wrong_label(request: JudgeRequest) -> tuple[int, str]:
    """(score, what to change); 5 when what is derived here is the answer."""
    known = by_name(request.pool)
    if not request.answer or any(name not in known for name in request.answer):
        return 1, "The answer names no tool at all, or one that is not there."
    if dead := [name for name in request.answer if known[name].deprecated]:
        return 1, f"{dead[0]} is deprecated and never right."
    return _by_rule(request, request.rule) if request.rule else _by_texts(request)


def _by_rule(request: JudgeRequest, rule: RuleText) -> tuple[int, str]:
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
    known, asked = known_rule(rule, pool), stems(query)
    # where the rule itself does not tell its cases apart, the tools' own words help
    texts = {} if all(one.case.own for one in known.cases) else _text_scores(known.live)(query)
    scores: dict[str, float] = {}
    for one in known.cases:
        score = _case_score(one, known.weights, query, asked) + texts.get(one.tool, 0.0)
        scores[one.tool] = max(scores.get(one.tool, 0.0), score)
    return scores


def _case_score(one: Known, weights: Mapping[str, float], query: str, asked: frozenset[str]) -> float:
    condition, hinted = asked & one.condition, asked & (one.every - one.condition)
    said = math.fsum([*(weights[word] for word in condition), *(0.5 * weights[word] for word in hinted)])
    strength = strength_of(one.case.clause.signals, asked)
    limit = same_side(one.when, query) or side(one.when, query)
    if limit < 0 and strength and " or " in one.when:
        limit = 0  # another alternative of the condition holds
    return said + 3 * strength + LIMIT * limit


def strength_of(signals: Iterable[str], asked: frozenset[str]) -> float:
    """The share of the best-matching signal's content words that the query says, where that is more than half."""
    wanted = [found for signal in signals if (found := stems(signal))]
    best = max((len(one & asked) / len(one) for one in wanted), default=0.0)
    return best if best > 0.5 else 0.0


def _text_scores(tools: Iterable[ToolText]) -> Callable[[str], dict[str, float]]:
    """Scores a text for each live tool by the tool's own words, rare ones the most."""
    sets = {tool.name: stems(f"{tool.name} {tool.description}") for tool in tools if not tool.deprecated}
    weights = rarity(sets.values())

    def scores(text: str) -> dict[str, float]:
        asked = stems(text)
        return {name: math.fsum(0.1 + weights[word] for word in asked & own) for name, own in sets.items()}

    return scores


def _by_texts(request: JudgeRequest) -> tuple[int, str]:
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


# Naturalness, the judge's first axis: would an employee type this query?
#
# In: the query and the tools it may be about. Out: what is wrong with it, one sentence each; nothing is wrong when
# the list is empty. Looked for: code and markup, left-overs of templates and chats, the jargon of interfaces, the
# tone of documentation, tool names in plain words, repeated words, and queries without content.


SHORTEST, LONGEST = 3, 60
COPIED = 10  # words in a row that a query may not take from a description
CODE = AnyCase(
    r"""\bselect\b.+\bfrom\b|\w\(['"\w]*\)\s*[;{]|[=!]=|=>|->|\w\s*=\s*['"\w]|;\s*$|\bcurl\b|https?:|\?\w+=|
    (?<!\w)/\w+(?:/\w+|\?)|["'}\]]\s*:|\b[a-z]+_[a-z_]+\b|\b(?:null|undefined)\b|^\s*[\[{<]|</|/>|\n\s*\w+:\s|
    \b(?:get|post|put|patch|delete)\s/"""
)
LEFT_OVER = AnyCase(
    r"""[{}<>]|\[[^\]]*\]|%[sd]\b|\$\w|_{2,}|\bx{2,}\b|\#{2,}|\*{2,}|`|\.{4,}|^\s*(?:\d{1,2}[.)]|[-*•])\s|[\r\n]|
    \b(?:lorem|ipsum|todo|tbd|tba|placeholder|n/a)\b|^\s*(?:["']?(?:query|request|question|prompt|output|example|answer|
    user|employee|human)["']?\s*\#?\d*\s*["']?:)|\b(?:assistant|system|user)\s*:|\b(?:style|tier|category)\s*[:=]|
    \b(?:explicit|implicit|exception|underspecified)\s(?:style|query|request|question|example)\b|\bas\san\sai\b|
    ^\s*(?:sure|certainly|of\scourse|okay|here)[,!:]?\s(?:here\s)?(?:is|are)\b"""
)
JARGON = AnyCase(
    r"""\b(?:apis?|endpoints?|payloads?|sdk|rest(?:ful)?\s(?:call|service|api|endpoint)|crud|openapi|operationid|param\w*|
    (?:request|response|message)\s(?:body|header|payload|schema)|http[s]?|status\scode|async\w*|invoke\w*|microservice|
    (?:tool|function|method|service)\scall|call\sthe\s(?:tool|function|method)|(?:get|post|put|patch)\s(?:request|call)|
    array\sof|data\stype|boolean|string\svalue|callback\surl|rate\slimit|paginat\w+|return\scode|deprecated|backend)\b"""
)
ABOUT_ITSELF = AnyCase(
    r"""^(?:this|the)\s(?:operation|function|method|service|tool|call|action|feature)\b|^(?:used|designed|intended|allows?|
    enables?|provides?|endpoint|operation|description)\b|\bsee\salso\b|\bthis\s(?:operation|function|method|tool)\b"""
)
REPEATED = re.compile(r"\b(\w+)(?:\s+\1\b)+(?!')|\s[,;:!]|[,;:?!]\s*[,;:]|\s{2,}", re.IGNORECASE)


def unnatural(query: str, answer: Sequence[str], pool: Sequence[ToolText]) -> list[str]:
    """What an employee would not type, each as a sentence that says what to change."""
    return [
        *_written_by_machine(query),
        *_documentation(query, pool),
        *_named(query, pool),
        *_wording(query, len(answer)),
    ]


def _written_by_machine(query: str) -> Iterator[str]:
    if match := CODE.search(query):
        yield f"'{match.group().strip()}' is code; say it in plain words."
    elif match := LEFT_OVER.search(query):
        yield f"'{match.group().strip() or 'a line break'}' is left over from a template; take it out."
    if match := JARGON.search(query):
        yield f"'{match.group()}' is not how an employee speaks; name the matter, not the interface."


def _documentation(query: str, pool: Sequence[ToolText]) -> Iterator[str]:
    said = words(query)
    manual = bool(said) and said[0].endswith("s") and not said[0].endswith("ss")
    if manual and any(words(tool.description)[:1] == said[:1] for tool in pool):
        yield f"'{said[0]}' opens it like a manual; ask for something instead."
    elif match := ABOUT_ITSELF.search(query):
        yield f"'{match.group()}' is the tone of a manual; ask for something instead."
    elif copied := next((one.name for one in pool if copied_words(query, one.description) >= COPIED), ""):
        yield f"The query copies the description of {copied}; use other words."


def copied_words(copy: str, text: str) -> int:
    """How many words in a row one text takes over from another."""
    said, held = words(copy), spaced(text)
    longest = 0
    for start in range(len(said)):
        while start + longest < len(said) and f" {' '.join(said[start : start + longest + 1])} " in held:
            longest += 1
    return longest


def _named(query: str, pool: Sequence[ToolText]) -> Iterator[str]:
    """A service's and an operation's name together are a tool's name, however spaced."""
    text, said = spaced(query), content_stems(query)
    services = {api for api in {tool.api for tool in pool} if len(words(api)) > 1 and spaced(api) in text}
    for tool in pool if services else ():
        titled = content_stems(tool.endpoint) or content_stems(tool.name)
        if tool.api in services and 2 * len(titled & said) >= len(titled):
            yield f"The query names the tool {tool.name} in plain words; say what is needed instead."
            return


def _wording(query: str, answers: int) -> Iterator[str]:
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


Scored = tuple[int, str]


class OfflineJudge:
    def __init__(self, thresholds: Mapping[str, int]) -> None:
        self.thresholds = dict(thresholds)

    def made_with(self, branch: str) -> dict[str, Any]:
        return {"writer": "offline-judge-5", "thresholds": self.thresholds}

    async def judge(self, request: JudgeRequest) -> Verdict:
        axes = {
            "naturalness": _naturalness(request),
            "compliance": _compliance(request),
            "label": (5, "") if request.branch == "imported" else wrong_label(request),
            "faithfulness": _faithfulness(request),
        }
        critique = " ".join(note for _, note in axes.values() if note)
        scores = {axis: score for axis, (score, _) in axes.items()}
        return Verdict(request.id, scores, critique, thresholds=self.thresholds)


def _naturalness(request: JudgeRequest) -> Scored:
    """Is this something an employee would type?"""
    if not request.query.strip():
        return 1, "The query is empty."
    if request.branch == "imported":
        return 5, ""
    if notes := unnatural(request.query, request.answer, request.pool):
        return max(1, 5 - 3 * len(notes)), " ".join(notes)
    texts = [tool.description for tool in request.pool if tool.name in request.answer]
    if request.rule:
        texts += [one.when for one in known_rule(request.rule, request.pool).cases]
    taken = max((copied_words(request.query, text) for text in texts), default=0)
    if taken < 4:
        return 5, ""
    return 4 if taken < 7 else 3, f"{taken} words in a row are copied; use others."


def _compliance(request: JudgeRequest) -> Scored:
    """Does the query do what its style or tier asks?"""
    if request.branch == "imported" and not request.style and not request.tier:
        return 5, ""
    if request.branch == "rrb" or request.tier:
        return _tier(request)
    if request.rule is None:
        return 1, "A rule sample without its rule cannot be judged."
    return _style(request, request.rule)


def _tier(request: JudgeRequest) -> Scored:
    if request.tier not in TIERS:
        return 1, f"'{request.tier}' is not a tier; tiers are {', '.join(TIERS)}."
    least, most = TIERS[request.tier]
    size = len(request.answer)
    return (5, "") if least <= size <= most else (1, f"A {request.tier} query does not have {size} answers.")


def _style(request: JudgeRequest, rule: RuleText) -> Scored:
    asked = stems(request.query)
    known = known_rule(rule, request.pool).cases
    mine = [one for one in known if one.tool in request.answer]
    said = max((len(one.condition & asked) / max(1, len(one.condition)) for one in mine), default=0.0)
    match request.style:
        case "explicit" | "implicit" | "underspecified" if tuple(request.answer) != (rule.target,):
            return 1, f"An {request.style} query leads to the rule's main tool alone, {rule.target}."
        case "explicit" if not said and not any(len(one.told & asked) > 1 for one in mine):
            return 2, "An explicit query says key words of the rule's condition itself."
        case "explicit":
            taken = max(copied_words(one.when, request.query) / max(1, len(words(one.when))) for one in mine)
            note = "It takes the condition over; say it in other words." if taken >= 0.5 else ""
            return (3 if taken >= 0.8 else 4 if taken >= 0.5 or said < 0.3 else 5), note
        case "implicit" if any(_states(one, request.query, bool(rule.clauses)) for one in mine):
            return 2, "An implicit query does not state the rule's condition; hint at it by the situation."
        case "implicit":
            return 5 if said < 0.2 else 4, ""
        case "exception" if rule.target in request.answer:
            return 1, "An exception query leads away from the rule's main tool."
        case "underspecified" if any(
            strength_of(one.case.clause.signals, asked) > 0 for one in known if one not in mine
        ):
            return 2, "An underspecified query carries no signal of another case."
        case "exception" | "underspecified":
            return 5, ""
    return 1, f"'{request.style}' is not a style."


def _states(one: Known, query: str, written: bool) -> bool:
    """Does the query say most of the condition?"""
    # a condition read out of a text is mostly what the tool is for, which every query says
    least = max(3, 0.5 * len(one.condition)) if written else max(4, 0.8 * len(one.condition))
    return len(one.condition & stems(query)) >= least


def _faithfulness(request: JudgeRequest) -> Scored:
    if notes := unfaithful(request):
        return max(1, 5 - 2 * len(notes)), " ".join(notes)
    if request.rule and not rivals_named(request):
        return 4, "It weighs no look-alike against the answer."
    return 5, ""
