"""Naturalness, the judge's first axis: would an employee type this query?

In: the query and the tools it may be about. Out: what is wrong with it, one sentence each; nothing is wrong when the
list is empty. Looked for: code and markup, left-overs of templates and chats, the jargon of interfaces, the tone and
the words of documentation, tool names in plain words, repeated and shuffled words, and queries without content.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from synthesis.core.queries import ToolText
from synthesis.core.wordings import Wording
from synthesis.core.words import STOP, content_stems, spaced, stem, words

SHORTEST, LONGEST = 3, 60
COPIED = 6  # words in a row that a query may not take from a description, where they are most of it
CODE = re.compile(
    r"""\bselect\b.+\bfrom\b|\b(?:insert\sinto|where\s\w+\s*=)|\b\w+\([^)]*['"=]|\w\(['"\w]*\)\s*[;{]|[=!]=|=>|->|
    \w\s*=\s*['"\w]|;\s*$|\b(?:const|let|var|def|await|lambda|import|return|print|fetch|curl|wget)\s?[({\w-]+\s*[=({]|
    \bcurl\b|https?:|\?\w+=|&\w+=|(?<!\w)/\w+(?:/\w+|\?)|(?:^|\s)(?:-[A-Za-z]|--\w+)\s|["'}\]]\s*:|\b[a-z]+_[a-z_]+\b|
    \b[a-z]{2,}[a-z0-9]*[A-Z][a-z]+|\b(?:null|true|false|undefined|None|NaN)\b|^\s*[\[{<]|</|/>|\n\s*\w+:\s|
    \b(?:GET|POST|PUT|PATCH|DELETE)\s/""",
    re.VERBOSE,
)
# every alternative of CODE holds one of these
CODE_MARK = re.compile(r"[=(;<>{\[/:_-]|[a-z0-9][A-Z]|select|insert|curl|null|true|false|undefined|None|NaN")
LEFT_OVER = Wording(
    r"""[{}<>]|\[[^\]]*\]|%[sd]\b|\$\w|_{2,}|\b[Xx]{2,}\b|\#{2,}|\*{2,}|`|\.{4,}|^\s*(?:\d{1,2}[.)]|[-*•])\s|[\r\n]|
    \b(?:lorem|ipsum|dolor\ssit|todo|tbd|tba|fixme|placeholder|foo\s?bar|n/a)\b|
    ^\s*(?:["']?(?:query|request|question|prompt|input|output|example|sample|answer|user|employee|customer|human)["']?
    \s*\#?\d*\s*["']?:)|\b(?:assistant|system|user|human)\s*:|
    \b(?:explicit|implicit|exception|underspecified)\s(?:style|query|request|question|example|phrasing|wording)\b|
    \b(?:style|tier|category|difficulty)\s*[:=]|^\s*(?:sure|certainly|of\scourse|okay|here)[,!:]?\s(?:here\s)?(?:is|are)\b|
    \bas\san\sai\b|\binsert\s(?:your\s)?(?:name|date|amount)\b|\bend\sof\s(?:query|text)\b"""
)
JARGON = Wording(
    r"""\b(?:apis?|endpoints?|payloads?|sdk|rest(?:ful)?\s(?:call|service|api|endpoint)|crud|openapi|operationid|
    (?:request|response|message)\s(?:body|header|payload|schema)|(?:query|path|request|input)\s?param\w*|
    parameters?|param\s\w+|http[s]?|status\scode|(?:tool|function|method|service)\scall|call\sthe\s(?:tool|function|method)|
    invoke\w*|(?:get|post|put|patch|delete)\s(?:request|call|body|method)|array\sof|data\stype|boolean|string\svalue|
    callback\surl|rate\slimit|paginat\w+|retry\son|return\scode|deprecated|microservice|backend|async\w*)\b"""
)
# words of techniques: out of place unless the tools asked for are themselves about them
TECHNIQUE = re.compile(r"\b(?:json|xml|oauth|scope|schema|webhook|token|regex|uuid|cors)\b", re.IGNORECASE)
ABOUT_ITSELF = re.compile(
    r"^(?:this|the)\s(?:operation|function|method|service|tool|call|action|feature)\b|^(?:used|designed|intended|allows?"
    r"|enables?|provides?|endpoint|operation|description)\b|\bsee\salso\b|\bsupports\s(?:filter|pag|sort)\w+"
    r"|\bthe\sfollowing:|\bthis\s(?:operation|function|method|tool)\b",
    re.IGNORECASE,
)
_BROKEN = r"\s[,;:!]|\s-(?=[A-Za-z])|[,;:?!]\s*[,;:]|\(\s*\)|\?\s+\?|\s{2,}|^[,;:]|[,(]\s*$"
BROKEN = re.compile(_BROKEN)
BROKEN_OR_REPEATED = re.compile(
    rf"\b(\w+)(?:\s+\1\b)+(?!')|\b(\w+(?:\W+\w+){{1,5}})\W+\2\b|{_BROKEN}", re.IGNORECASE
)
_DETERMINERS = r"(?:the|an?|my|our|his|their|your)"
_NEVER_AFTER = (
    r"(?:of|in|on|for|to|at|by|with|from|is|are|was|were|and|or|but|the|an?|my|our|we|i|he|she|they|it|who)"
)
SHUFFLED = Wording(
    rf"""\b{_DETERMINERS}\s+{_NEVER_AFTER}\b(?![-'/&.])|\b{_DETERMINERS}\W*$|\b(?:of|with|from|by)\s+
    (?:is|are|was|were|and|or|but|we|i|he|she|they|do|does|did|on|in|at|of|to|for)\b|
    \b(?:we|he|she|they|i)\s+(?:the|an?|of|my|our|for|from|by|with|and)\b|\b(?:is|are|was|has|did)\s+(?:are|was|is|of|and)\b
    |\b(?:and|or|of|the|my)\W*$|(?-i:\ban\s+[bcdfgjklmnpqrstvwyz])"""
)
MISPLACED = re.compile(
    r"(?<=[a-z,] )(?:My|The|Please|We|He|She|Is|What|When|Was|They|Could|There|How|Why|Which|Show|It)\b(?! [A-Z])"
    r"|[a-z]{3,}[.?!]\s+[a-z]+(?:\s+[a-z]+)?,?\s*$"
)


def unnatural(query: str, answer: Sequence[str], pool: Sequence[ToolText], matter: str = "") -> list[str]:
    """What an employee would not type, each as a sentence that says what to change. `matter`: the rule's words."""
    about = (matter, *(f"{tool.name} {tool.description}" for tool in pool if tool.name in answer))
    return [
        *_written_by_machine(query, about),
        *_documentation(query, pool),
        *_named(query, pool),
        *_wording(query, len(answer)),
    ]


def _written_by_machine(query: str, about: Sequence[str]) -> Iterator[str]:
    if CODE_MARK.search(query) and (match := CODE.search(query)):
        yield f"'{match.group().strip()}' is code; say it in plain words."
    elif match := LEFT_OVER.search(query):
        yield f"'{match.group().strip() or 'a line break'}' is left over from a template; take it out."
    if match := JARGON.search(query):
        yield f"'{match.group()}' is not how an employee speaks; name the matter, not the interface."
    if (match := TECHNIQUE.search(query)) and match.group().casefold() not in " ".join(about).casefold():
        yield f"'{match.group()}' is a technical word that the matter does not need."


def _documentation(query: str, pool: Sequence[ToolText]) -> Iterator[str]:
    said = words(query)
    manual = bool(said) and said[0].endswith("s") and not said[0].endswith("ss")
    if manual and any(words(tool.description)[:1] == said[:1] for tool in pool):
        yield f"'{said[0]}' opens it like a manual; ask for something instead."
    elif match := ABOUT_ITSELF.search(query):
        yield f"'{match.group()}' is the tone of a manual; ask for something instead."
    elif copied := _copied(said, pool):
        yield f"The query copies the description of {copied}; use other words."


def _copied(said: Sequence[str], pool: Sequence[ToolText]) -> str:
    """The first tool whose description holds most of the query in runs of COPIED words."""
    runs = [f" {' '.join(said[at : at + COPIED])} " for at in range(len(said) - COPIED + 1)]
    distinct = set(said)
    for tool in pool if runs else ():
        if len(distinct.difference(words(tool.description))) > 0.25 * len(said):
            continue
        text = spaced(tool.description)
        held = sum(run in text for run in runs)
        if held and held + COPIED - 1 >= 0.75 * len(said):
            return tool.name
    return ""


def _named(query: str, pool: Sequence[ToolText]) -> Iterator[str]:
    """A service's and an operation's name together are a tool's name, however spaced."""
    text, said = spaced(query), content_stems(query)
    services = {api for api in {tool.api for tool in pool} if len(words(api)) > 1 and spaced(api) in text}
    for tool in pool if services else ():
        titled = content_stems(tool.endpoint) or content_stems(tool.name)
        if tool.api in services and 2 * len(titled & said) >= len(titled):
            yield f"The query names the tool {tool.name} in plain words; say what is needed instead."
            return


def _smell(query: str) -> re.Match[str] | None:
    """Where a sentence is broken; the costly search for repeats is left out where no word and no two come again."""
    said = re.findall(r"\w+", query.lower())
    pairs = list(pairwise(said))
    again = len(set(pairs)) < len(pairs) or any(one == two for one, two in pairs)
    return (BROKEN_OR_REPEATED if again else BROKEN).search(query)


def _wording(query: str, answers: int) -> Iterator[str]:
    said = words(query)
    if not SHORTEST <= len(said) <= LONGEST:
        yield f"The query has {len(said)} words; people type {SHORTEST} to {LONGEST}."
    if match := _smell(query):
        yield f"'{match.group().strip() or 'a double space'}' reads like a broken sentence."
    elif (match := SHUFFLED.search(query)) or (match := MISPLACED.search(query)):
        yield f"The words are out of order at '{match.group().strip()}'."
    counted = Counter(stem(word) for word in said if word not in STOP and not word.isdigit())
    # a request for several things may name what they share once for each
    if counted and counted.most_common(1)[0][1] > max(2, answers):
        yield f"'{counted.most_common(1)[0][0]}' is repeated."
    capitals = sum(map(str.isupper, query))
    if capitals > 8 and capitals > 0.45 * sum(map(str.isalpha, query)):
        yield "Too many capitals."
    if len(content_stems(query)) < 2:
        yield "The query does not say what it is about."
