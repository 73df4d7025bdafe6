"""Words: how names and queries are split and normalised wherever texts are compared."""

import re
from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from functools import lru_cache
from hashlib import sha256
from heapq import nsmallest

from trace_site.lib.letters import BETWEEN_BARE, RUN, entered, folded, split_humps, split_words

BRITISH = re.compile(r"is(e|ed|es|er|ers|ing|ation|ations)$")
WITH_S = (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch"), ("shes", "sh"), ("s", ""))
OF_VERBS = (("ing", ""), ("eed", "eed"), ("ed", ""))
SHORTEST, LONGEST = 3, 60
MOST_COMPARED = 60  # names, letter by letter
LONGEST_NAME = 400
ALIKE = 0.72  # difflib's ratio: one wrong, missing or swapped letter in five


def plain_words(text: str) -> list[str]:
    """The folded words of running text, in order."""
    return split_words(folded(text))


def name_words(name: str) -> list[str]:
    """The words inside an identifier: `AdyenPayoutV68/post-confirmThirdParty` -> adyen payout v68 post confirm ..."""
    return [folded(word) for word in split_humps(entered(name))]


def join_words(words: Iterable[str]) -> str:
    """Words as a sentence has them: with spaces where their script has some."""
    return BETWEEN_BARE.sub("", " ".join(words))


def camel_case(text: str) -> str:
    """`Xero Payroll AU` -> `XeroPayrollAu`."""
    return "".join(word.capitalize() for word in name_words(text))


def text_key(text: str) -> str:
    """One key for texts that differ only in case, spacing and punctuation; what stands together stays whole."""
    return sha256(" ".join(RUN.findall(folded(text))).encode()).hexdigest()


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """A light stem: `authorised` and `authorizes`, `cancelled` and `canceling`, `employees` and `employee` meet."""
    word = _without(BRITISH.sub(r"iz\1", word), (*WITH_S, *OF_VERBS), 3)
    word = word[:-1] if len(word) > 3 and word[-1] == "e" else word
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word


def base_form(verb: str) -> str:
    """`reveals` -> `reveal`, `matches` -> `match`, `applies` -> `apply`."""
    return _without(verb, WITH_S, 2)


def _without(word: str, endings: Iterable[tuple[str, str]], least: int) -> str:
    """Less the first ending that leaves at least so many letters."""
    if word.endswith(("ss", "us")):
        return word
    fits = (end for end in endings if word.endswith(end[0]) and len(word) - len(end[0]) >= least)
    ending, kept = next(fits, ("", ""))
    return word.removesuffix(ending) + kept


def vocabulary(name: str, description: str) -> set[str]:
    """The words a search may mean by this tool: those of its name, its joined parts, and its description."""
    joined = map(folded, split_words(entered(name)))
    words = {*joined, *name_words(name), *plain_words(description)}
    return {word for word in words if SHORTEST <= len(word) <= LONGEST and not word.isdecimal()}


def inner_trigrams(word: str) -> list[str]:
    """The trigrams that every word holds which holds `word` somewhere inside."""
    return sorted({word[at : at + 3] for at in range(len(word) - 2)})


def trigrams(word: str) -> list[str]:
    """The trigrams of a word and of its beginning and end, as pg_trgm cuts them."""
    return inner_trigrams(f"  {word} ")


def closest(name: str, known: Iterable[str], limit: int, cutoff: float) -> list[str]:
    """The names most like this one. Only those that share most words with it are compared letter by letter."""
    if len(name) > LONGEST_NAME:
        return []
    words = set(name_words(name))
    near = nsmallest(MOST_COMPARED, known, key=lambda one: (-len(words.intersection(name_words(one))), one))
    return get_close_matches(name, near, n=limit, cutoff=cutoff)


def spelt_alike(word: str, candidates: Iterable[str], limit: int = 3) -> list[str]:
    """The candidates that differ by a slip of the keyboard, the likeliest first, ties by name."""
    matcher = SequenceMatcher(b=word, autojunk=False)
    rated = []
    for candidate in candidates:
        matcher.set_seq1(candidate)
        if matcher.quick_ratio() >= ALIKE and (ratio := matcher.ratio()) >= ALIKE:
            rated.append((-ratio, candidate))
    return [candidate for _, candidate in sorted(rated)[:limit]]
