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
from itertools import islice, pairwise
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
METHOD = rf"(?:{'|'.join(METHODS)})"
_VERB = {concept(word): method for method, words in _VERBS.items() for word in words.split()}
_METHOD_WORDS = frozenset(concept(word.lower()) for word in METHODS)
PARAMETER = re.compile(r"\{[^}]*\}|^(?:[a-z]+(?:[-_ ]?(?:id|uuid|token|reference))|id|v\d+(?:\.\d+)?)$", re.I)
SENTENCE_END = sentence_end(r"[.!?:](?:\s+|$)(?=[^a-z]|$)|;\s|\n+|\s[•·]\s")
TITLE_LONGEST = 70
LONGEST, MOST_SENTENCES = 1000, 40  # characters of a sentence, sentences of a description that are read
BRACKETS = re.compile(r"\s*\([^()]*\)")


class Described:
    """What the suggestions know of a tool."""

    def __init__(self, name: str, description: str, deprecated: bool = False) -> None:
        self.name, self.description, self.deprecated = name, description, deprecated
        self.api, self.endpoint = split_name(name)
        self.family, version = api_family(self.api)
        self.version, self.vendor = version or 0, vendor_of(self.family)

    @cached_property
    def sentences(self) -> tuple[Span, ...]:
        """Places in the description; what is no prose is cut."""
        ends = [match.end() for match in SENTENCE_END.finditer(self.description)]
        spans = pairwise([0, *ends, len(self.description)])
        said = ((start, stop) for start, stop in spans if self.description[start:stop].strip())
        return tuple((start, min(stop, start + LONGEST)) for start, stop in islice(said, MOST_SENTENCES))

    @cached_property
    def title(self) -> str:
        """The first sentence when it is short enough to be one."""
        if not self.sentences:
            return ""
        said = self.description[slice(*self.sentences[0])].strip().rstrip(".:!")
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
        head = re.match(rf"{METHOD}(?![a-z])", self.endpoint, re.I)
        words = (*concepts(self.title)[:1], *self.operation)
        return next(
            (_VERB[word] for word in words if word in _VERB), METHODS[head[0].upper()] if head else ""
        )

    @cached_property
    def subject(self) -> frozenset[str]:
        """What the tool acts on: its words without those of acting."""
        return frozenset(word for word in self.operation if word not in _VERB)


def _fetches(when: str, source: Described, other: Described) -> bool:
    """Whether the other tool is only to find something that this one needs."""
    apart = other.subject.isdisjoint(concepts(when)) or other.method == "GET" != source.method
    return apart and FETCHES.match(when) is not None


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


PATH = re.compile(rf"(?:\b(?P<method>{METHOD})\s+(?:the\s+)?)?(?<![\w/:])(?P<path>/[\w{{}}.:/-]*[\w}}])")
KINDS = (
    r"(?:endpoint|end point|API|APIs|operation|(?<!payment )(?<!card )method|service|request|route|call)s?"
)
PHRASE = re.compile(
    r"\b(?:the|new|our|an?|via)\s+(?:new\s+|newer\s+)?"
    r"((?:(?!(?:the|use|and|or|of|to|this|same)\b)[\w'’*-]+\s+){1,6})"
    rf"{KINDS}\b"
)
API = re.compile(r"\b(?P<api>(?:[A-Z][\w-]*\s+){1,4})API\b")
VERB_IT = re.compile(r"\b(?P<verb>[a-z]{3,12}) (?:it|them) instead\b")
QUOTED = re.compile(r"[\"“]([^\"”]{4,70})[\"”]")

_AWAY = (
    r"\b(?:instead of|rather than|over|unlike|distinct from|different from|differs? from|as opposed to"
    r"|in contrast to|compared (?:to|with)|replaces|supersedes|alternative to|replacement for)"
)
AWAY_ANYWHERE = re.compile(_AWAY, re.I)
AWAY = re.compile(
    rf"{_AWAY}(?:\s+(?:the|a|an|our|using|calling|to|use|call|deprecated|legacy|old|older|previous|single|request|endpoint))*"
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
        self.vendors: defaultdict[str, list[Described]] = defaultdict(list)  # the newest versions
        self.apis: defaultdict[str, list[Described]] = defaultdict(list)
        self.newest: defaultdict[str, int] = defaultdict(int)
        for tool in self.tools.values():
            self.apis[tool.api].append(tool)
            self.newest[tool.family] = max(self.newest[tool.family], tool.version)
        for tool in filter(self.is_newest, self.tools.values()):
            self.vendors[tool.vendor].append(tool)
        self._finders: dict[str, tuple[NameFinder, dict[str, list[Described]]]] = {}

    def weight(self, words: Iterable[str]) -> float:
        return sum(self._weight.get(word, self._rare) for word in words)

    def alike(self, left: Described, right: Described) -> float:
        """0..1: the weighted share of words (Dice) of endpoint and title, or the cosine where they are neighbours."""
        cosine = self.near.get(left.name, {}).get(right.name) or self.near.get(right.name, {}).get(left.name)
        both = self.weight(left.about & right.about)
        words = 2 * both / (self.weight(left.about) + self.weight(right.about) or 1)
        return max(words, (cosine or 0.0) ** 2)

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
        for (start, end), other, sure in self._mentions(source, said):
            before, name, after = said[:start], said[start:end], said[end:]
            purpose = PURPOSE.match(after)
            when, leads, preferred = purpose["when"] if purpose else "", False, source.name
            if cue := AWAY.search(before) or BESIDE.search(before):
                kind = "away"
                if source.deprecated:
                    continue
            elif like and like.start() < start:
                if not BUT.search(after):
                    continue
                kind, cue, when = "like", like, ""
            else:
                named = instead and (start > instead.start() or sure >= 0.9)
                if not (CALL.search(before) or name.endswith("instead") or named):
                    continue
                if (cue := instead or condition) is None:
                    continue
                kind, preferred = "instead", other.name
                if condition and condition.end("when") <= start:
                    leads, when = True, condition["when"].strip()
                if not instead:
                    far = source.method != other.method or self.alike(source, other) < LOOKS_ALIKE
                    far &= not (INTENT.match(when) and sure >= 0.9)
                    helps = not when or far or name.endswith("API") or _fetches(when, source, other)
                    told = FIRST.search(before) or HELPS.search(when)
                    kind = "help" if helps or told else "condition"
            when, place = " ".join(when.split()).strip(" ,;:–-"), (at, at + len(said.rstrip()))
            marks = {(at + first, at + last) for first, last in (cue.span(), (start, end))}
            sure = round(SURE[kind] * sure, 3)
            yield Redirect(
                source.name, other.name, preferred, when, leads, place, tuple(sorted(marks)), kind, sure
            )

    # what a sentence names

    def _mentions(self, source: Described, said: str) -> Iterator[tuple[Span, Described, float]]:
        """(place, tool, how surely it is that tool); the surest reading of each place, the tool itself left out."""
        found: list[tuple[Span, Described, float]] = []
        finder, holders = self._finder(source.vendor)
        for start, end, written in finder.find(said):
            tool = self._closest(source, holders[written], written)
            found.append(((start, end), tool, 1.0))
        for match in PATH.finditer(said):
            apis = self.named_apis(source, said[match.end() : match.end() + 60])
            verb = METHODS.get(match["method"], "")
            tools = self._best(source, concepts(match["path"]), verb, apis) or self._by_sense(source, said)
            found += [(match.span(), *tool) for tool in tools]
        phrases = [(match.start(1), match[1]) for match in QUOTED.finditer(said)]
        phrases += [(match.start(1), match[1].rstrip()) for match in PHRASE.finditer(said)]
        for start, phrase in phrases:
            tools = self._best(source, concepts(BRACKETS.sub("", phrase)))
            found += [((start, start + len(phrase)), *tool) for tool in tools]
        for match in API.finditer(said):
            found += [(match.span(), *tool) for tool in self._by_api(source, match["api"])]
        for match in VERB_IT.finditer(said):
            wanted = source.subject | {concept(match["verb"])}
            for tool in self.apis[source.api]:
                if tool is not source and wanted == frozenset(tool.operation):
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
            for tool in self.vendors[vendor]:
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

    def _by_api(self, source: Described, named: str) -> list[tuple[Described, float]]:
        """The tool of the named API that is most like this one."""
        apis = self.named_apis(source, f"{named} API")
        if not apis:
            return self._best(source, concepts(named))
        inside = [tool for tool in self.vendors[source.vendor] if tool.api in apis and not tool.deprecated]
        if not inside or source.api in apis:
            return []
        fit, name = max((self._fit(source, tool), tool.name) for tool in inside)
        return [(self.tools[name], min(0.9, 0.35 + fit / 2))]

    def _fit(self, source: Described, tool: Described) -> float:
        return self.alike(source, tool) + 0.1 * (tool.method == source.method)

    def named_apis(self, source: Described, said: str) -> set[str]:
        """The vendor's APIs named as "<words> API"."""
        named = [set(concepts(match["api"])) - {concept(source.vendor)} for match in API.finditer(said)]
        families = {tool.api: tool.family for tool in self.vendors[source.vendor]} if any(named) else {}
        words = {api: set(map(concept, name_words(family)[1:])) for api, family in families.items()}
        return {api for api, own in words.items() if own and own in named}

    def _best(
        self, source: Described, words: Sequence[str], verb: str = "", apis: Collection[str] = ()
    ) -> list[tuple[Described, float]]:
        """The one tool whose operation or title these words are; none when two fit as well or none fits."""
        wanted = frozenset(words)
        total = self.weight(wanted)
        rated: list[tuple[float, float, str]] = []
        for tool in self.vendors[source.vendor]:
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
            elif (tool.method == "GET") == (source.method == "GET"):
                fit += 0.04
            if tool.api == source.api or apis:
                fit += 0.05
            if tool.deprecated:
                fit *= 0.8
            if tool is source and fit < 1.0:
                fit *= 0.9
            rated.append((round(fit, 4), round(self._fit(source, tool), 4), tool.name))
        fit, _, name = max(rated, default=(0.0, 0.0, ""))
        return [(self.tools[name], min(1.0, fit))] if fit >= 0.5 else []
