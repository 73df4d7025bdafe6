"""Naturalness, the judge's first axis: would an employee type this query?

In: the query and the tools it may be about. Out: what is wrong with it, one sentence each; nothing is wrong when the
list is empty. Looked for: code and markup, left-overs of templates and chats, the jargon of interfaces, the tone of
documentation, tool names in plain words, repeated words, and queries without content.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from synthesis.core.queries import ToolText
from synthesis.core.wordings import Wording
from synthesis.core.words import STOP, content_stems, spaced, stem, words

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
