"""Pointers: where a tool's description sends the reader to another tool ("deprecated, use X instead").

In: names and descriptions. Out: for each tool those that its vendor's own words name in its place, each with the
sentence that does. X is a path, a name, a title in quotes, words before "API" or "endpoint", or another version; it is
looked for among the tools of the same vendor, which is the first word of the API's name. Only sentences that set two
tools against each other are read: those that say "instead", "prefer", "deprecated: use", or "if ..., use".
"""

import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from itertools import product
from typing import NamedTuple

from catalog.core.near_duplicates import jaccard
from catalog.core.operations import METHODS, Operation, operation, telling_stems, without_method
from catalog.core.tokens import split_name
from catalog.core.twins import api_family, newest_first, twin_key
from catalog.core.words import join_words, name_words, plain_words, stem
from trace_site.lib.letters import sentence_end

SENTENCE = sentence_end(r"(?<=[.!?])\s+(?=[A-Z0-9\"(/“‘'])")
INSTEAD = re.compile(
    r"\b(?:instead|superseded by|replaced (?:by|with)|in favou?r of|recommends?|recommended|prefer(?:red)?|rather than|"
    r"(?:transition|switch|migrate) to|differs? from|unlike|please (?:use|refer to)|newer integration)\b",
    re.IGNORECASE,
)
DEPRECATED = re.compile(
    r"\b(?:deprecat\w+|legacy|obsolete|support stops|no longer (?:be )?(?:available|recommended|support(?:s|ed)?))\b",
    re.IGNORECASE,
)
USE = re.compile(r"\b(?:use|used|using|call|calling|see|refer to|via|through|try)\b", re.IGNORECASE)
CASE = re.compile(r"\W*(?:if|to|for|when)\b.*\b(?:use|refer to|call|see)\b", re.IGNORECASE)
# steps of one task, and where to read more
SEQUENCE = re.compile(
    r"\b(?:before|after|then|first|must|once|returned by|obtain|explanations?|details|more information|parameters?)\b",
    re.IGNORECASE,
)
PATH = re.compile(
    r"(?:\b(GET|POST|PUT|PATCH|DELETE)\s*)?"
    r"((?<![\w:/.])(?:/|(?=[\w{}:-]+/[\w{}:.-]+/))[A-Za-z0-9_{}:-]+(?:/[A-Za-z0-9_{}:.-]+)+|(?<![\w/])/[a-z][\w-]+)"
)
PARAMETER = re.compile(r"[{][^}]*[}]|(?<=/):\w+")
PATH_VERSION = re.compile(r"/?v([0-9]+)(?=/)")
NAME = re.compile(r"(?<![\w/.{-])[A-Za-z][a-z0-9]*(?:[A-Z][a-z0-9]+|[_-][a-z0-9]+)+\w*")
QUOTED = re.compile(r"[\"“]([^\"“”]{3,80})[\"”]")
BEFORE_NOUN = re.compile(
    r"(?<![\w’'./()-])((?:[\w’'./()-]+\s+){1,7}?)(?:APIs?|endpoints?|method|operation|request)\b"
)
IS_GONE = re.compile(r"[^.]{0,40}\b(?:is|are|has been|was) (?:now )?deprecated", re.IGNORECASE)
LONGEST_TITLE = 80
RIGHT_ACTION, OTHER_ACTION = 0.1, -0.15  # beside the overlap of words, when the text says what is done
# the least overlap: of a path, a quoted title, words before a noun
FOUND, QUOTE, NOUN, ALL = 0.6, 0.7, 0.8, 1.0

Rank = Callable[[str, str], int]  # of the second among the neighbours of the first; large where it is none


class Pointer(NamedTuple):
    to: str
    sentence: str


def title(description: str) -> str:
    """The first sentence, by which many descriptions begin."""
    return SENTENCE.split(description, maxsplit=1)[0]


def sentences_that_compare(description: str) -> Iterator[tuple[str, bool]]:
    """(sentence, whether it says "instead" in some way); False: it names the tool for another case."""
    before = ""
    for place, sentence in enumerate(SENTENCE.split(description)):
        use = USE.search(sentence)
        if INSTEAD.search(sentence) or (use and DEPRECATED.search(before + sentence)):
            yield sentence, True
        elif place and use and CASE.match(sentence) and not SEQUENCE.search(sentence):
            yield sentence, False
        before = sentence


class PointerIndex:
    """The tools by what a text may call them; built once a catalog."""

    def __init__(self, descriptions: Mapping[str, str], deprecated: Iterable[str], rank: Rank) -> None:
        self.descriptions, self.deprecated, self.rank = descriptions, frozenset(deprecated), rank
        self.forms: dict[str, tuple[Operation, ...]] = {}
        self.vendor: dict[str, str] = {}
        self.heads: dict[str, str] = {}  # how each description begins, as it is compared
        self._of_api: defaultdict[str, list[str]] = defaultdict(list)
        # APIs of a vendor by the words of their family, and by family and version
        self._apis: defaultdict[tuple[str, frozenset[str]], list[str]] = defaultdict(list)
        self._versions: defaultdict[tuple[str, str, int | None], list[str]] = defaultdict(list)
        self._spelt: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        self._holding: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for name in sorted(descriptions):
            self._add(name)
        families: defaultdict[str, list[str]] = defaultdict(list)
        for api in self._of_api:
            families[api_family(api)[0]].append(api)
        # 0: the newest version
        self._age = {api: age for apis in families.values() for age, api in enumerate(newest_first(apis))}

    def _add(self, name: str) -> None:
        api, endpoint = split_name(name)
        vendor = self.vendor[name] = vendor_of(api)
        if api not in self._of_api:
            family, number = api_family(api)
            self._apis[vendor, frozenset(telling_stems(family)) - {stem(vendor)}].append(api)
            self._versions[vendor, family, number].append(api)
        self._of_api[api].append(name)
        head = title(self.descriptions[name])
        self.heads[name] = head.casefold().rstrip(".")
        for spelling in {_letters(endpoint), _letters(without_method(endpoint)), _letters(head)}:
            self._spelt[vendor, spelling].append(name)
        texts = (endpoint, head) if len(head) <= LONGEST_TITLE else (endpoint,)
        self.forms[name] = forms = tuple(map(operation, texts))
        for word in frozenset().union(*(form.objects for form in forms)):
            self._holding[vendor, word].append(name)

    def pointers(self, name: str) -> list[Pointer]:
        """In reading order; a tool is pointed to once. Twins in other versions are no pointers: versions say so."""
        found: dict[str, Pointer] = {}
        own = twin_key(name)
        for sentence, instead in sentences_that_compare(self.descriptions[name]):
            for other in self._named(name, sentence, instead):
                if other != name and twin_key(other) != own:
                    found.setdefault(other, Pointer(other, sentence))
        return list(found.values())

    def _named(self, name: str, sentence: str, instead: bool) -> list[str]:
        vendor, calls = self.vendor[name], list(_calls(sentence))
        # `Checkout API` -> every version of AcmeCheckout
        wanted = [operation(call).objects - {stem(vendor)} for call in calls]
        apis = frozenset(api for words in filter(None, wanted) for api in self._apis.get((vendor, words), ()))
        found: list[str | None] = []
        for match in PATH.finditer(sentence):
            if not IS_GONE.match(sentence, match.end()):
                found.append(self._at_path(name, match[1] or "", match[2], apis, instead))
        for match in NAME.finditer(sentence):
            if not IS_GONE.match(sentence, match.end()):
                found.append(self._best(name, self._spelt_so(name, match[0], ()), ""))
        for match in QUOTED.finditer(sentence):
            found.append(self._called(name, match[1], frozenset(), QUOTE))
        for call in calls:
            what = operation(call)
            clear = len(what.objects) > 1 or what.action
            if clear and (other := self._called(name, call, apis, NOUN if instead else ALL)):
                found.append(other)
                break
        if instead and apis and not any(found):
            found.append(self._same_in(name, apis))
        return [other for other in found if other]

    def _called(self, name: str, text: str, apis: frozenset[str], least: float) -> str | None:
        """The tool that is spelt so, else the one that says most nearly this."""
        spelt = self._spelt_so(name, text, apis)
        return self._best(name, spelt, "") if spelt else self._alike(name, operation(text), apis, least)

    def _spelt_so(self, name: str, text: str, apis: Container[str]) -> list[str]:
        spelt = self._spelt.get((self.vendor[name], _letters(text)), ())
        return [other for other in spelt if not apis or split_name(other)[0] in apis]

    def _at_path(self, name: str, method: str, path: str, apis: frozenset[str], instead: bool) -> str | None:
        """The tool behind `POST /v2/payments/{id}`."""
        api, vendor = split_name(name)[0], self.vendor[name]
        action = METHODS.get(method.casefold(), "")
        if version := PATH_VERSION.match(path):
            family, number = api_family(api)[0], int(version[1])
            same = frozenset(self._versions.get((vendor, family, number), ())) - {api}
            if same:
                return self._alike(name, self.forms[name][0], same, FOUND)
        path = PARAMETER.sub("", PATH_VERSION.sub("", path))
        spelt = self._spelt_so(name, path, apis)
        right = [other for other in spelt if action in ("", self.forms[other][0].action)]
        if spelt or not instead:
            return self._best(name, right or spelt, action)
        called = operation(path)
        return self._alike(name, Operation(action or called.action, called.objects), apis, FOUND)

    def _alike(self, name: str, called: Operation, apis: frozenset[str], least: float) -> str | None:
        """The tool whose endpoint or title says most nearly what the text calls it."""
        vendor = self.vendor[name]
        scores: defaultdict[float, list[str]] = defaultdict(list)
        for other in {other for word in called.objects for other in self._holding.get((vendor, word), ())}:
            if other != name and (not apis or split_name(other)[0] in apis):
                scores[max(_agreement(called, form) for form in self.forms[other])].append(other)
        best = max(scores, default=0.0)
        return self._best(name, scores[best], called.action) if best >= least else None

    def _same_in(self, name: str, apis: frozenset[str]) -> str | None:
        """The text names an API and no tool of it: the nearest there, else the one whose words are most alike."""
        own = split_name(name)[0]
        others = [
            other
            for api in sorted(apis)
            if api_family(api)[0] != api_family(own)[0] and self._age[api] == 0
            for other in self._of_api[api]
        ]

        def distance(other: str) -> tuple[int, float, str]:
            pairs = product(self.forms[name], self.forms[other])
            alike = max(jaccard(a.objects, b.objects) + 0.2 * (a.action == b.action) for a, b in pairs)
            return self.rank(name, other), -alike, other

        return min(others, key=distance, default=None)

    def _best(self, name: str, others: Iterable[str], action: str) -> str | None:
        """Of tools that are called the same: of the own API, with the right action, newest, not deprecated, nearest."""
        own, wanted = split_name(name)[0], action or self.forms[name][0].action

        def order(other: str) -> tuple[bool, bool, int, bool, int, str]:
            api = split_name(other)[0]
            wrong = bool(wanted) and self.forms[other][0].action != wanted
            rank = self.rank(name, other)
            return api != own, wrong, self._age[api], other in self.deprecated, rank, other

        return min(others, key=order, default=None)


def vendor_of(api: str) -> str:
    """`AcmeCheckoutV72` -> acme."""
    return next(iter(join_words(name_words(api)).split()), api)


def _calls(sentence: str) -> Iterator[str]:
    """What may be a tool's or an API's name before "API", "endpoint" and the like: the longest words first."""
    found = []
    for match in BEFORE_NOUN.finditer(sentence):
        words = match[1].split()
        if "/" not in words[-1]:
            found += [(len(words) - start, " ".join(words[start:])) for start in range(len(words))]
    for _, text in sorted(found, key=lambda one: -one[0]):
        if operation(text).objects:
            yield text


def _agreement(called: Operation, form: Operation) -> float:
    told = called.action and form.action
    bonus = (RIGHT_ACTION if called.action == form.action else OTHER_ACTION) if told else 0.0
    return round(jaccard(called.objects, form.objects) + bonus, 6)


def _letters(text: str) -> str:
    return "".join(plain_words(text))
