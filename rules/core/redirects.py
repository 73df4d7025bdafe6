"""Where a tool's description sends its reader to another tool: "use X instead", "for a finalized one, void it".

In: tools as described. Out: `Redirect`s, each with the sentence and the words that say so. A tool is named in many
ways: by its full name, its operation, its title, its path, the name of its API. A name counts only with a cue beside
it; what is named as a help ("use List Ids to find the id") is none.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import log

from catalog.core.mentions import NameFinder
from catalog.core.pointers import vendor_of
from catalog.core.tokens import split_name
from catalog.core.twins import api_family
from catalog.core.words import name_words
from rules.core.wording import SMALL, concept
from trace_site.lib.letters import sentence_end

Span = tuple[int, int]

_VERBS = {
    "GET": "get list search query download",
    "POST": "create post",
    "DELETE": "delete remove",
    "PUT": "update put patch replace",
}
METHODS = {"GET": "GET", "POST": "POST", "PUT": "PUT", "PATCH": "PUT", "DELETE": "DELETE"}
_VERB = {concept(word): method for method, words in _VERBS.items() for word in words.split()}
_METHOD_WORDS = frozenset(concept(word) for word in ("get", "post", "put", "patch", "delete"))
PARAMETER = re.compile(r"\{[^}]*\}|^(?:[a-z]+(?:[-_ ]?(?:id|uuid|token|reference))|id|v\d+(?:\.\d+)?)$", re.I)
SENTENCE_END = sentence_end(r"[.!?:](?:\s+|$)(?=[^a-z]|$)|;\s|\n+|\s[•·]\s")
TITLE_LONGEST = 70
LONGEST, MOST_SENTENCES = 1000, 40  # characters of a sentence, sentences of a description that are read
BRACKETS = re.compile(r"\s*\([^()]*\)")


@dataclass(frozen=True)
class Described:
    """What the suggestions know of a tool."""

    name: str
    description: str
    deprecated: bool = False

    @cached_property
    def api(self) -> str:
        return split_name(self.name)[0]

    @cached_property
    def endpoint(self) -> str:
        return split_name(self.name)[1]

    @cached_property
    def family(self) -> str:
        return api_family(self.api)[0]

    @cached_property
    def version(self) -> int:
        return api_family(self.api)[1] or 0

    @cached_property
    def vendor(self) -> str:
        """The first word of the API's name: `AdyenPayoutV68` -> adyen."""
        return vendor_of(self.family)

    @cached_property
    def sentences(self) -> tuple[Span, ...]:
        """Places in the description; what is no prose is cut."""
        ends = [match.end() for match in SENTENCE_END.finditer(self.description)]
        starts = [0, *ends]
        spans = zip(starts, [*ends, len(self.description)], strict=True)
        said = (
            (start, min(stop, start + LONGEST))
            for start, stop in spans
            if self.description[start:stop].strip()
        )
        return tuple(islice(said, MOST_SENTENCES))

    @cached_property
    def title(self) -> str:
        """The first sentence when it is short enough to be one."""
        if not self.sentences:
            return ""
        start, stop = self.sentences[0]
        said = self.description[start:stop].strip().rstrip(".:!")
        return said if len(said) <= TITLE_LONGEST else ""

    @cached_property
    def operation(self) -> tuple[str, ...]:
        """The concepts of the endpoint; of a method with a path (`post-payments-id`) those of the path, without its
        parameters."""
        head, *parts = [part for part in re.split(r"[-/]", self.endpoint) if part] or [self.endpoint]
        if head.upper() in METHODS and parts:
            parts = [part for part in parts if not PARAMETER.search(part)]
        else:
            parts = [head, *parts]
        return tuple(concept(word) for part in parts for word in name_words(part) if word not in SMALL)

    @cached_property
    def about(self) -> frozenset[str]:
        """The concepts of endpoint and title."""
        return frozenset((*self.operation, *concepts(self.title)))

    @cached_property
    def opening(self) -> frozenset[str]:
        """The concepts of endpoint and first sentences."""
        stop = self.sentences[min(2, len(self.sentences) - 1)][1] if self.sentences else 0
        return self.about | frozenset(concepts(self.description[:stop]))

    @cached_property
    def method(self) -> str:
        """What the tool does, as an HTTP method, judged from its words; "" when they do not tell."""
        head = re.match(r"(?:GET|POST|PUT|PATCH|DELETE)(?![a-z])", self.endpoint, re.I)
        words = (*concepts(self.title)[:1], *self.operation)
        return next(
            (_VERB[word] for word in words if word in _VERB), METHODS[head[0].upper()] if head else ""
        )

    @property
    def reads(self) -> bool:
        return self.method == "GET"

    @cached_property
    def subject(self) -> frozenset[str]:
        """What the tool acts on: its words without those of acting."""
        return frozenset(word for word in self.operation if word not in _VERB)


def concepts(text: str) -> list[str]:
    """The telling words of a phrase or path, in order; parameters are left out."""
    parts = [part for part in re.split(r"[\s/]+", text) if part and not PARAMETER.fullmatch(part)]
    words = (word for part in parts for word in name_words(part))
    return [concept(word) for word in words if word not in SMALL]


@dataclass(frozen=True, slots=True)
class Redirect:
    """`source` says of `other`; `preferred` is the one of the two that its words lead to. Places are in the
    description of `source`. `condition` are its words that say when, "" where it always holds; it `leads` the sentence
    or follows the name. `sure`: 0..1, whether the right tool was found and the words mean it.
    """

    source: str
    other: str
    preferred: str
    condition: str
    leads: bool
    sentence: Span
    marks: tuple[Span, ...]
    cue: str
    sure: float


METHOD = r"(?:GET|POST|PUT|PATCH|DELETE)"
PATH = re.compile(rf"(?:\b(?P<method>{METHOD})\s+(?:the\s+)?)?(?<![\w/:])(?P<path>/[\w{{}}.:/-]*[\w}}])")
KINDS = (
    r"(?:endpoint|end point|API|APIs|operation|(?<!payment )(?<!card )method|service|request|route|call)s?"
)
PHRASE = re.compile(
    r"\b(?:the|new|our|an?|via)\s+(?:new\s+|newer\s+)?"
    r"(?P<phrase>(?:(?!(?:the|use|and|or|of|to|this|same)\b)[\w'’*-]+\s+){1,6})"
    rf"{KINDS}\b"
)
API = re.compile(r"\b(?P<api>(?:[A-Z][\w-]*\s+){1,4})API\b")
VERB_IT = re.compile(r"\b(?P<verb>[a-z]{3,12}) (?:it|them) instead\b")
QUOTED = re.compile(r"[\"“](?P<title>[^\"”]{4,70})[\"”]")

AWAY = re.compile(
    r"\b(?:instead of|rather than|over|unlike|distinct from|different from|differs? from|as opposed to"
    r"|in contrast to|compared (?:to|with)|replaces|supersedes|alternative to|replacement for)"
    r"(?:\s+(?:the|a|an|our|using|calling|to|use|call|deprecated|legacy|old|older|previous|single|request|endpoint))*"
    rf"(?:\s+{METHOD})?\s*[\"“(]?\s*$",
    re.I,
)
INSTEAD = re.compile(
    r"\b(?:instead|rather than|prefer(?!red|ence|able)|recommend(?:ed)?|encouraged?|migrate to"
    r"|replaced (?:by|with)|superseded by|in favou?r of|should (?:be )?use|please use)\b",
    re.I,
)
CONDITION = re.compile(
    r"^[^\w(]*\(?(?:\W*note:?\s*|then\s+|however,?\s*|but\s+)?"
    r"(?P<when>(?:if|when|whenever|for|to|in case|unless|in order to)\b.+?),?"
    r"\s*\b(?:please|you (?:can|should|must|may)|we recommend|then|it is recommended to|use|call|see|refer|do so)\b",
    re.I | re.S,
)
PURPOSE = re.compile(
    r"^\W*(?:endpoint|API|operation|method|request|call)?s?\s*(?:instead\s*)?(?P<when>(?:to|for|if|when)\s+[^.;]+)"
)
CALL = re.compile(
    r"\b(?:use|using|call|calling|via|with|by|through|see|refer to|migrate to|to|via|make|prefer|choose|implement|and)"
    r"(?:\s+(?:the|a|an|our|new|newer|updating \w+|free|following|corresponding|same|either))*"
    rf"(?:\s+{METHOD})?\s*[\"“(]?\s*$",
    re.I,
)
BESIDE = re.compile(r"\b(?:while|whereas|other endpoints)\b", re.I)  # "while other endpoints, such as X, ..."
INTENT = re.compile(r"^(?:if|when) you (?:want|wish|need|prefer|would like)\b", re.I)
LIKE = re.compile(r"\b(?:same as|similar to)\b", re.I)
BUT = re.compile(r"\b(?:but|except|only|without)\b", re.I)
FETCHES = re.compile(
    r"^\W*(?:in order )?(?:to|for)\s+(?:a |an |more |further |in-depth |complete |full |the )*"
    r"(?:get|obtain|retrieve|find|fetch|access|discover|look up|view|see|learn|know|check|determine|generate"
    r"|reference|explanation|information|details)\b",
    re.I,
)
HELPS = re.compile(
    r"\b(?:valid|possible|available|the|an?|this|your|returned|response)\s+(?:[\w-]+\s+){0,3}"
    r"(?:ids?|keys?|tokens?|values?|names?|codes?|webhooks?|credentials?|guid|uuid|list)\b"
    r"|\b\w+Ids?\b|\bIDs?\b|\b(?:status|explanation|reference of|obtain|poll)\b",
)
FIRST = re.compile(r"\bfirst\b|\bmust\b", re.I)
LOOKS_ALIKE = 0.3
# how sure a cue makes it
SURE = {"instead": 1.0, "away": 0.95, "condition": 0.75, "like": 0.6, "help": 0.2}


class Redirects:
    """The tools of one domain, found by whatever a description calls them."""

    def __init__(
        self, tools: Iterable[Described], near: Mapping[str, Mapping[str, float]] | None = None
    ) -> None:
        self.tools = {tool.name: tool for tool in tools}
        self.near = near or {}
        counts = Counter(word for tool in self.tools.values() for word in tool.about)
        self._weight = {word: log(1 + len(self.tools) / count) for word, count in counts.items()}
        self._rare = log(1 + len(self.tools))
        self._vendors: defaultdict[str, list[Described]] = defaultdict(list)
        newest: dict[str, int] = {}
        for tool in self.tools.values():
            newest[tool.family] = max(newest.get(tool.family, 0), tool.version)
        self.newest = newest
        for tool in self.tools.values():
            if tool.version == newest[tool.family]:
                self._vendors[tool.vendor].append(tool)
        self.apis: defaultdict[str, list[Described]] = defaultdict(list)
        for tool in self.tools.values():
            self.apis[tool.api].append(tool)
        self._finders: dict[str, tuple[NameFinder, dict[str, list[Described]]]] = {}

    def weight(self, words: Iterable[str]) -> float:
        return sum(self._weight.get(word, self._rare) for word in words)

    def alike(self, left: Described, right: Described) -> float:
        """0..1: the weighted share of words (Dice) of endpoint and title, or the cosine where they are neighbours."""
        cosine = self.near.get(left.name, {}).get(right.name) or self.near.get(right.name, {}).get(left.name)
        both = self.weight(left.about & right.about)
        words = 2 * both / (self.weight(left.about) + self.weight(right.about) or 1)
        return max(words, (cosine or 0.0) ** 2)

    def of_vendor(self, vendor: str) -> Sequence[Described]:
        """The newest versions."""
        return self._vendors[vendor]

    def named_apis(self, tool: Described) -> set[str]:
        """The vendor's other APIs that a description names."""
        found = {api for match in API.finditer(tool.description) for api in self._apis(tool, match[0])}
        return found - {tool.api}

    def of_api(self, api: str) -> Sequence[Described]:
        return [tool for tool in self.apis[api] if not tool.deprecated]

    def is_newest(self, tool: Described) -> bool:
        return tool.version == self.newest[tool.family]

    def find(self, source: Described) -> list[Redirect]:
        """What the tool's description says of others, the surest word on each."""
        best: dict[str, Redirect] = {}
        for start, stop in source.sentences:
            for one in self._sentence(source, source.description[start:stop], start):
                if one.other not in best or one.sure > best[one.other].sure:
                    best[one.other] = one
        return sorted(best.values(), key=lambda one: (-one.sure, one.other))

    def _sentence(self, source: Described, said: str, at: int) -> Iterator[Redirect]:
        if len(said) < 12:
            return
        instead = INSTEAD.search(said)
        condition = CONDITION.match(said)
        like = LIKE.search(said)
        telling = instead or condition or like or AWAY_ANYWHERE.search(said)
        if not telling:
            return
        mentions = list(self._mentions(source, said))
        for (start, end), other, sure in mentions:
            before, after = said[:start], said[end:]
            when, leads = "", False
            if away := AWAY.search(before) or BESIDE.search(before):
                cue, mark, preferred = "away", away.span(), source.name
                when = self._purpose(after)
                if source.deprecated:
                    continue
            elif like and like.start() < start:
                if not BUT.search(after):
                    continue
                cue, mark, preferred = "like", like.span(), source.name
            else:
                named = instead and (start > instead.start() or sure >= 0.9)
                if not (CALL.search(before) or said[start:end].endswith("instead") or named):
                    continue
                if not instead and not condition:
                    continue
                leads = bool(condition and condition.end("when") <= start)
                when = condition["when"].strip() if condition and leads else self._purpose(after)
                cue = "instead" if instead else "condition"
                mark, preferred = (instead or condition).span(), other.name  # type: ignore[union-attr]
                helps = FETCHES.match(when) and (
                    other.subject & set(concepts(when)) == set() or other.method == "GET" != source.method
                )
                if cue == "condition":
                    far = source.method != other.method or self.alike(source, other) < LOOKS_ALIKE
                    far &= not (INTENT.match(when) and sure >= 0.9)
                    if (
                        helps
                        or far
                        or HELPS.search(when)
                        or FIRST.search(before)
                        or not when
                        or said[start:end].endswith("API")
                    ):
                        cue = "help"
            place = (at, at + len(said.rstrip()))
            marks = tuple(sorted({(at + mark[0], at + mark[1]), (at + start, at + end)}))
            yield Redirect(
                source.name,
                other.name,
                preferred,
                _tidy(when),
                leads,
                place,
                marks,
                cue,
                round(SURE[cue] * sure, 3),
            )

    def _purpose(self, after: str) -> str:
        found = PURPOSE.match(after)
        return found["when"] if found else ""

    # what a sentence names

    def _mentions(self, source: Described, said: str) -> Iterator[tuple[Span, Described, float]]:
        """(place, tool, how surely it is that tool); the surest reading of each place, the tool itself left out."""
        found: list[tuple[Span, Described, float]] = []
        finder, holders = self._finder(source.vendor)
        for start, end, written in finder.find(said):
            tool = self._closest(source, holders[written], written)
            found.append(((start, end), tool, 1.0))
        for match in PATH.finditer(said):
            tools = self._by_path(source, match["path"], match["method"] or "", said, match.end())
            found += [(match.span(), *tool) for tool in tools or self._by_sense(source, said)]
        for match in QUOTED.finditer(said):
            found += [(match.span("title"), *tool) for tool in self._by_phrase(source, match["title"], said)]
        for match in PHRASE.finditer(said):
            place = (match.start("phrase"), match.start("phrase") + len(match["phrase"].rstrip()))
            found += [(place, *tool) for tool in self._by_phrase(source, match["phrase"], said)]
        for match in API.finditer(said):
            found += [(match.span(), *tool) for tool in self._by_api(source, match["api"])]
        for match in VERB_IT.finditer(said):
            wanted = source.subject | {concept(match["verb"])}
            for tool in self._vendors[source.vendor]:
                if tool.api == source.api and tool is not source and wanted == frozenset(tool.operation):
                    found.append((match.span(), tool, 0.95))
        taken: list[Span] = []
        for place, tool, sure in sorted(found, key=lambda one: (-one[2], one[0][0] - one[0][1])):
            if any(place[0] < end and start < place[1] for start, end in taken):
                continue
            taken.append(place)
            if tool.name != source.name and sure >= 0.4:
                yield place, tool, sure

    def _finder(self, vendor: str) -> tuple[NameFinder, dict[str, list[Described]]]:
        """Full names, operations that are words of their own, and titles, of the vendor's newest versions."""
        if vendor not in self._finders:
            holders: defaultdict[str, list[Described]] = defaultdict(list)
            for tool in self._vendors[vendor]:
                holders[tool.name].append(tool)
                if re.search(r"[a-z][A-Z]|[a-z][-_][a-z]", tool.endpoint) and len(tool.endpoint) > 6:
                    holders[tool.endpoint].append(tool)
                for title in {tool.title, BRACKETS.sub("", tool.title)}:
                    if len(title.split()) >= 2 and title[:1].isupper():
                        holders[title].append(tool)
            self._finders[vendor] = (NameFinder(holders), dict(holders))
        return self._finders[vendor]

    def _closest(self, source: Described, tools: Sequence[Described], written: str) -> Described:
        """Of tools that are written alike: whole, the tool itself, one of its API, else the one most like it."""
        return min(
            tools,
            key=lambda tool: (
                written not in (tool.name, tool.endpoint, tool.title),
                tool is not source,
                tool.api != source.api,
                tool.deprecated,
                -self.alike(source, tool),
                tool.name,
            ),
        )

    def _by_path(
        self, source: Described, path: str, method: str, said: str, end: int
    ) -> list[tuple[Described, float]]:
        words = concepts(path)
        if not words:
            return []
        apis = self._apis(source, said[end : end + 60])
        verb = METHODS.get(method, "")
        return self._best(source, words, verb, apis)

    def _by_sense(self, source: Described, said: str) -> list[tuple[Described, float]]:
        """For a path that resembles no tool: the one of its API whose opening holds most of what is asked for."""
        when = CONDITION.match(said)
        asked = frozenset(concepts(when["when"])) - source.about if when else frozenset()
        if len(asked) < 2:
            return []
        rated = [
            (round(self.weight(asked & tool.opening) / self.weight(asked), 4), tool.name, tool)
            for tool in self.apis[source.api]
            if tool is not source and not tool.deprecated
        ]
        share, _, tool = max(rated, default=(0.0, "", source))
        return [(tool, 0.6)] if share >= 0.4 else []

    def _by_phrase(self, source: Described, phrase: str, said: str) -> list[tuple[Described, float]]:
        words = concepts(BRACKETS.sub("", phrase))
        return self._best(source, words, "", ()) if words else []

    def _by_api(self, source: Described, named: str) -> list[tuple[Described, float]]:
        """The tool of the named API that is most like this one."""
        apis = self._apis(source, f"{named} API")
        if not apis:
            return self._best(source, concepts(named), "", ())
        inside = [tool for tool in self._vendors[source.vendor] if tool.api in apis and not tool.deprecated]
        if not inside or source.api in apis:
            return []
        first = max(inside, key=lambda tool: (self._fit(source, tool), tool.name))
        sure = self._fit(source, first)
        return [(first, min(0.9, 0.35 + sure / 2))]

    def _fit(self, source: Described, tool: Described) -> float:
        return self.alike(source, tool) + 0.1 * (tool.method == source.method)

    def _apis(self, source: Described, said: str) -> tuple[str, ...]:
        """The vendor's APIs named as "<words> API"."""
        found = API.search(said)
        if not found:
            return ()
        words = set(concepts(found["api"])) - {concept(source.vendor)}
        apis = {tool.api: tool for tool in self._vendors[source.vendor]}
        return tuple(
            api
            for api, tool in apis.items()
            if words and words == set(map(concept, name_words(tool.family)[1:]))
        )

    def _best(
        self, source: Described, words: Sequence[str], verb: str, apis: Collection[str]
    ) -> list[tuple[Described, float]]:
        """The one tool whose operation or title these words are; none when two fit as well or none fits."""
        wanted = frozenset(words)
        total = self.weight(wanted)
        own = self._vendors[source.vendor]
        rated: list[tuple[float, float, str, Described]] = []
        for tool in own:
            if (apis and tool.api not in apis) or not (wanted & tool.about):
                continue
            operation = frozenset(tool.operation)
            plain = operation - _METHOD_WORDS if not wanted & _METHOD_WORDS else operation
            if tuple(words) == tool.operation:
                fit = 1.0
            elif tuple(words) == tuple(word for word in tool.operation if word in plain):
                fit = 0.88
            else:
                cover = self.weight(wanted & tool.about) / total
                titled = frozenset(concepts(tool.title))
                exact = max(
                    self.weight(wanted & part) / (self.weight(wanted | part) or 1)
                    for part in (operation, plain, titled)
                )
                fit = cover * (0.42 + 0.45 * exact)
            if verb and tool.method and verb != tool.method:
                fit *= 0.6
            elif tool.reads == source.reads:
                fit += 0.04
            if tool.api == source.api or apis:
                fit += 0.05
            if tool.deprecated:
                fit *= 0.8
            if tool is source and fit < 1.0:
                fit *= 0.9
            rated.append((round(fit, 4), round(self._fit(source, tool), 4), tool.name, tool))
        if not rated:
            return []
        fit, _, _, tool = max(rated)
        return [(tool, min(1.0, fit))] if fit >= 0.5 else []


AWAY_ANYWHERE = re.compile(AWAY.pattern.partition(r"(?:\s+(?:the|a|an|our")[0], re.I)


def _tidy(when: str) -> str:
    return " ".join(when.split()).strip(" ,;:–-")
