"""A query as it is typed at last, and whether it is fit to be handed over."""

import random
import re
from collections import Counter
from functools import lru_cache

from synthesis.core.clauses import VAGUE, cases, first_sentence
from synthesis.core.queries import Clause, QueryDraft, QueryRequest, by_name
from synthesis.core.words import STOP, content_stems, spaced, stem, words
from synthesis.writers.frames import CLOSERS, OPENERS
from synthesis.writers.hints import hint_in
from synthesis.writers.instances import filled


def sound(draft: QueryDraft, request: QueryRequest) -> bool:
    """Says what it is about, names no tool, repeats no word thrice; `implicit` quotes no five words of its case."""
    if len(content_stems(draft.query)) < 2 or _leaks(draft, request):
        return False
    if request.rule is None:
        return True
    counts = Counter(stem(word) for word in words(draft.query) if word not in STOP)
    if max(counts.values()) > 2:
        return False
    if request.style != "underspecified" and not decisive(draft, request):
        return False
    if request.style != "implicit":
        return True
    when = next(
        one.clause.when
        for one in cases(request.rule, by_name(request.pool))
        if one.clause.route_to in draft.answer
    )
    said, asked = words(when.removeprefix("to ")), spaced(draft.query)
    if any(f" {' '.join(said[i : i + 5])} " in asked for i in range(len(said) - 4)):
        return False
    wanted = {word[:6] for word in content_stems(when)}
    shared = len(wanted & {word[:6] for word in content_stems(draft.query)})
    return shared < 3 or 2 * shared < len(wanted)


def decisive(draft: QueryDraft, request: QueryRequest) -> bool:
    """Does a query to a rule without clauses say what only its case says: a word of its own, or a hint at it?"""
    if request.rule is None or request.rule.clauses:
        return True
    pool = by_name(request.pool)
    found = tuple((one.clause, pool[one.clause.route_to].description) for one in cases(request.rule, pool))
    only = _only(found, draft.answer)
    if not only or only & content_stems(draft.query):
        return True
    whens = {
        own: tuple(c.when for c, _ in found if (c.route_to in draft.answer) == own) for own in (True, False)
    }
    return any(hint_in(draft.query, when, whens[False]) for when in whens[True])


@lru_cache(maxsize=4096)
def _only(found: tuple[tuple[Clause, str], ...], answer: tuple[str, ...]) -> frozenset[str]:
    """The content words that only the answer's cases say; empty where there is no other case."""
    mine, others = set[str](), set[str]()
    for clause, description in found:
        said = content_stems(f"{clause.when} {first_sentence(description)}")
        (mine if clause.route_to in answer else others).update(said)
    return frozenset(mine - others - VAGUE) if others else frozenset()


def _leaks(draft: QueryDraft, request: QueryRequest) -> bool:
    asked = spaced(draft.query)
    names = {*draft.answer, *(request.rule.tools if request.rule else ())}
    titles = [spaced(name.partition("/")[2]) for name in names] + [spaced(name) for name in names]
    if request.rule:
        titles.append(spaced(request.rule.code))
    return any(title in asked and title.count(" ") > 2 for title in titles)


# what takes no closing word any more: it has a time, a question mark or a please
DATED = re.compile(
    r"\?|please|pls|\b(?:today|tomorrow|week|soon|noon|when|by|friday|monday|tuesday|wednesday|tonight|morning|yesterday|noon|lunch|meeting)\b",
    re.IGNORECASE,
)


def finished(text: str, rng: random.Random) -> str:
    """Typed as people type: openers, haste, small letters, missing full stops."""
    if rng.random() < 0.15:
        text = filled(rng.choice(OPENERS), rng) + text
    if rng.random() < 0.1 and not DATED.search(text) and len(text.split()) < 12:
        text = text.rstrip(".") + rng.choice(CLOSERS)
    text = re.sub(r"\s+", " ", text).strip(" ,;:-")
    text = re.sub(r"s's\b", "s'", re.sub(r"^this (?!is )", "the ", text))
    text = re.sub(r"\b(\w+)( \1)+\b", r"\1", text, flags=re.IGNORECASE)
    text = re.sub(r"\?(?=[,;]| [-(])", "", text)
    text = re.sub(r"\b([Aa]) (?=[aeio]|un[^i])(?!one\b|eu)", r"\1n ", text)
    text = re.sub(r"\b([Aa])n (?=[bcdfgjklmnpqrstvwxz]|h(?!our|onest))", r"\1 ", text)
    text = text.replace(" i ", " I ") if rng.random() < 0.4 else text
    asks = re.match(r"^(?:[\w ]+, )?(?:can|could|how|what|where|who|is|do|would|may|which|are|any)\b", text)
    if asks and not re.search(r"[.?]", text) and rng.random() < 0.55:
        text += "?"
    elif not asks and rng.random() < 0.2 and text[-1:] not in ".?":
        text += "."
    return capital(text) if rng.random() < 0.5 else text


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]
