"""The offline judge J: heuristics, apart from the offline writers, that score a sample on the four axes.

In: a JudgeRequest. Out: scores 1..5 with a critique that says what to change. Nothing a sample says of itself counts:
the right tool is derived again from the rule's cases or the tools' descriptions, and the trace is read against that.
5 is a sample without a flaw; 4 and 3 pass with one that a reviewer may mind: words taken over from rule or description,
a condition said in part, a close second tool, a trace that names no rival. Unknown styles or tiers, empty texts and a
style without its rule fail.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from synthesis.core.queries import TIERS, JudgeRequest, RuleText, ToolText, Verdict
from synthesis.core.words import STOP, Wording, content_stems, spaced, stem, words
from synthesis.offline.judge_label import strength_of, wrong_label
from synthesis.offline.judge_trace import rivals_named, unfaithful
from synthesis.offline.judge_words import Known, known_rule, stems

# Naturalness, the judge's first axis: would an employee type this query?
#
# In: the query and the tools it may be about. Out: what is wrong with it, one sentence each; nothing is wrong when the
# list is empty. Looked for: code and markup, left-overs of templates and chats, the jargon of interfaces, the tone of
# documentation, tool names in plain words, repeated words, and queries without content.


SHORTEST, LONGEST = 3, 60
COPIED = 10  # words in a row that a query may not take from a description
CODE = Wording(
    r"""\bselect\b.+\bfrom\b|\w\(['"\w]*\)\s*[;{]|[=!]=|=>|->|\w\s*=\s*['"\w]|;\s*$|\bcurl\b|https?:|\?\w+=|
    (?<!\w)/\w+(?:/\w+|\?)|["'}\]]\s*:|\b[a-z]+_[a-z_]+\b|\b(?:null|undefined)\b|^\s*[\[{<]|</|/>|\n\s*\w+:\s|
    \b(?:get|post|put|patch|delete)\s/"""
)
LEFT_OVER = Wording(
    r"""[{}<>]|\[[^\]]*\]|%[sd]\b|\$\w|_{2,}|\bx{2,}\b|\#{2,}|\*{2,}|`|\.{4,}|^\s*(?:\d{1,2}[.)]|[-*•])\s|[\r\n]|
    \b(?:lorem|ipsum|todo|tbd|tba|placeholder|n/a)\b|^\s*(?:["']?(?:query|request|question|prompt|output|example|answer|
    user|employee|human)["']?\s*\#?\d*\s*["']?:)|\b(?:assistant|system|user)\s*:|\b(?:style|tier|category)\s*[:=]|
    \b(?:explicit|implicit|exception|underspecified)\s(?:style|query|request|question|example)\b|\bas\san\sai\b|
    ^\s*(?:sure|certainly|of\scourse|okay|here)[,!:]?\s(?:here\s)?(?:is|are)\b"""
)
JARGON = Wording(
    r"""\b(?:apis?|endpoints?|payloads?|sdk|rest(?:ful)?\s(?:call|service|api|endpoint)|crud|openapi|operationid|param\w*|
    (?:request|response|message)\s(?:body|header|payload|schema)|http[s]?|status\scode|async\w*|invoke\w*|microservice|
    (?:tool|function|method|service)\scall|call\sthe\s(?:tool|function|method)|(?:get|post|put|patch)\s(?:request|call)|
    array\sof|data\stype|boolean|string\svalue|callback\surl|rate\slimit|paginat\w+|return\scode|deprecated|backend)\b"""
)
ABOUT_ITSELF = Wording(
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
