"""The words of a query that count: what a trace restates."""

import re
from collections.abc import Sequence

from synthesis.core.clauses import cases
from synthesis.core.queries import Clause, TraceRequest, by_name
from synthesis.core.words import STOP, content_stems, stem, words

ASKED = 2
# what the first such word of a request makes of it; a request without one wants something done
WISHES = {
    "something found": "find search look looking locate discover show fetch get see view where recommend suggest",
    "something made": "create make generate write design build compose draft produce",
    "an answer": "know tell what what's who when which how why information learn explain understand",
}
WISH = {word: wish for wish, known in WISHES.items() for word in known.split()}
ASKING = content_stems(
    "trying searching interested help assist provide assistance someone kindly request right really hey hi hello good"
    " morning chatbot regarding specifically particularly preferably " + " ".join(WISHES.values())
)
WORD = re.compile(r"[^\W_]+(?:[-'/][^\W_]+)*")


def said_in(request: TraceRequest) -> str:
    """The query's own words that count: its longest run of words a case of the rule knows, else its content words."""
    pool = by_name(request.pool)
    known = {
        part for case in _clauses(request) for part in content_stems(f"{case.when} {' '.join(case.signals)}")
    }
    if not (request.rule and request.rule.clauses):
        for name in request.answer:
            known |= content_stems(f"{pool[name].endpoint} {pool[name].description[:200]}")
    said = WORD.findall(request.query)
    runs: list[list[str]] = [[]]
    for word in said:
        if any(stem(part) in known for part in words(word)) or runs[-1] and word.casefold() in STOP:
            runs[-1].append(word)
        else:
            runs.append([])
    best = max(runs, key=lambda run: len(content_stems(" ".join(run))))
    while best and best[-1].casefold() in STOP:
        best = best[:-1]
    if len(content_stems(" ".join(best))) < 2:
        best = _content_run(said)
    return _cut(best, 7)


def wish_in(query: str) -> str:
    """What kind of thing is wanted, found in the query alone."""
    said = (word.casefold() for word in WORD.findall(query))
    return next((WISH[word] for word in said if word in WISH), "something done")


def asked_in(query: str) -> str:
    """The words that say most: at most two that stand together, found in the query alone."""
    said = WORD.findall(query)
    runs: list[list[str]] = [[]]
    for word in said:
        if _says([word]):
            runs[-1].append(word)
        else:
            runs.append([])
    best = max(runs, key=lambda run: len(_says(run[-ASKED:])))
    return " ".join(best[-ASKED:] or said[:ASKED]) or query


def _cut(run: Sequence[str], most: int) -> str:
    best = list(run[:most])
    while len(best) > 1 and best[-1].casefold() in STOP:
        best = best[:-1]
    return " ".join(best)


def _content_run(said: Sequence[str]) -> list[str]:
    """The run of words between two small ones that says most."""
    runs: list[list[str]] = [[]]
    for word in said:
        if _says([word]) or (runs[-1] and word.casefold() in ("of", "for", "a", "the", "to", "and")):
            runs[-1].append(word)
        else:
            runs.append([])
    best = max(runs, key=lambda run: (len(_says(run)), -len(run)))
    return best or list(said)


def _says(run: Sequence[str]) -> set[str]:
    """What counts in it: neither `I'm` nor what only asks."""
    return {part for part in content_stems(" ".join(run)) if "'" not in part} - ASKING


def _clauses(request: TraceRequest) -> list[Clause]:
    if request.rule is None:
        return []
    found = [case.clause for case in cases(request.rule, by_name(request.pool))]
    return [clause for clause in found if clause.route_to in request.answer] or found
