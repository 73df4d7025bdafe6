"""The paper's four checks of filter V, written down as its appendix B states them, with nothing added.

In: query q, answer A, its text y, trace z, pool P, the catalog's names, the tokens of a format, the rule's code.
Out: the names of the checks that fail. A tool is referenced by its name, or by what is written like the name of a
tool of a known API; "at the end of z" is its last sentence. A list on lines of its own is one sentence.
"""

import json
import re
from collections.abc import Collection, Mapping

REFERENCE = re.compile(r"(?<![\w/&:])\w+(?:[.\-]\w+)*/\w+(?:[.\-/&:]\w+)*")
SENTENCES = re.compile(r"(?<=[.!?])(?<!\n\d\.)(?<!\n\d\d\.)[\"')\]]*\s+|\n+(?!\s*(?:[-*•]|\d+[.)])\s)")


def paper_failures(
    q: str,
    answer: Collection[str],
    y: str,
    z: str,
    pool: Collection[str],
    apis: Collection[str],
    tokens: Mapping[str, str],
    rule: str | None,
) -> set[str]:
    failed = set()
    if not (set(answer) <= set(pool) and referenced(z, apis) <= set(pool)):
        failed.add("grounding")
    if any(name in q for name in answer):
        failed.add("leakage")
    if not (set(answer) == committed(z, apis) == read(y, tokens)):
        failed.add("consistency")
    if rule is not None and not re.search(rf"\b{re.escape(rule)}\b", z):
        failed.add("attribution")
    return failed


def referenced(text: str, apis: Collection[str]) -> set[str]:
    found = REFERENCE.findall(text)
    return {name for name in found if name.partition("/")[0] in apis}


def committed(z: str, apis: Collection[str]) -> set[str]:
    sentences = [sentence for sentence in SENTENCES.split(z) if re.search(r"[^\W_]", sentence)]
    return referenced(sentences[-1], apis) if sentences else set()


def read(y: str, tokens: Mapping[str, str]) -> set[str] | None:
    """The tools of a well-formed JSON list of valid tokens; None for any other text."""
    try:
        found = json.loads(y)
    except ValueError:
        return None
    valid = isinstance(found, list) and all(token in tokens for token in found)
    return {tokens[token] for token in found} if valid else None
