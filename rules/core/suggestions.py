"""Draft rules that the catalog itself calls for. A person decides; nothing here is ever published.

In: one domain's tools as described, their nearest neighbours where they are known, the pairs that a model confused.
Out: `Suggestion`s, the likeliest first: a target, its confusables, a text with its conditions, the vendor's words
beside it. Five kinds: `deprecated`, `twin` (versions of one API), `line` (one operation in several products),
`condition` (the vendor says when, or the two differ in one condition), `failures` (requests that went wrong).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import combinations
from typing import Any, Literal

import regex

from catalog.core.near_duplicates import SetIndex
from catalog.core.tokens import split_name
from catalog.core.twins import newest_first, twin_key
from catalog.core.words import join_words, name_words
from rules.core.redirects import Described, Redirect, Redirects, Span, concepts
from rules.core.wording import ALTERNATIVES, SMALL, concept
from trace_site.lib.letters import PIECE, folded

METHOD = "words-1"  # changes when other suggestions would be made of the same texts
Kind = Literal["deprecated", "twin", "line", "condition", "failures"]
KINDS: dict[Kind, str] = {
    "deprecated": "Deprecated",
    "twin": "Version twin",
    "line": "Product line",
    "condition": "Condition",
    "failures": "Failures",
}
MOST = 5  # confusables of one suggestion
STRONG = 0.6  # from here on a suggestion rests on words that say when, or on failures


@dataclass(frozen=True, slots=True)
class Failure:
    """Requests for which a model chose `chosen` instead of `wanted`."""

    wanted: str
    chosen: str
    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Words of a tool's description: description[start:end], `marks` the places in it that speak."""

    tool: str
    start: int
    end: int
    marks: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Suggestion:
    kind: Kind
    target: str
    confusables: tuple[str, ...]
    text: str
    clauses: tuple[dict[str, Any], ...]
    evidence: tuple[Evidence, ...]
    score: float
    why: str
    failures: tuple[Failure, ...] = ()

    @property
    def tools(self) -> tuple[str, ...]:
        return (self.target, *self.confusables)

    @property
    def content(self) -> dict[str, Any]:
        """As a draft of the editor. It has no tests: the failing requests may be a benchmark's, and what is a test is
        learned from."""
        return {
            "target": self.target,
            "confusables": list(self.confusables),
            "text": self.text,
            "clauses": list(self.clauses),
            "tests": [],
        }


@dataclass(frozen=True, slots=True)
class _Lead:
    """Why one pair needs a rule. `when` says when the target is right, `else_when` when the confusable is."""

    kind: Kind
    target: str
    confusable: str
    score: float
    why: str
    evidence: tuple[Evidence, ...]
    when: str = ""
    else_when: str = ""
    never: bool = False  # the confusable is to be used no more
    said: bool = False  # the vendor says so, of these two

    def clashes(self, other: "_Lead") -> bool:
        """Whether the look-alikes of both would be right in one case."""
        return not self.never and not other.never and self.else_when == other.else_when


# What a tool is for, as the words behind "asked to".

_VERBS = """get list create delete update retrieve fetch add remove search read send cancel set view show find submit
    generate make request start stop end close open confirm complete capture refund void authorize authorise transfer
    assign reassign unassign enable disable activate deactivate verify validate check calculate estimate preview
    download upload export import sync refresh register unregister link unlink attach detach archive restore replace
    modify change edit apply approve decline reject accept pause resume evaluate execute run process record issue
    deploy mark move merge copy clone schedule invite initiate finalize finalise pay charge redeem adjust reverse
    reauthorize simulate trigger rotate publish subscribe unsubscribe query count batch bulk provide allow reset test
    store save put post patch delete convert describe lookup look withdraw deposit freeze unfreeze block unblock
    migrate exchange invalidate revoke login log associate disassociate tag untag increase decrease obtain return"""
VERBS = frozenset(_VERBS.split())
THIRD = re.compile(r"^(?:(?P<y>\w+)ies|(?P<es>\w+(?:ss|sh|ch|x|z))es|(?P<s>\w+)s)$")
THIS = r"this (?:version|endpoint|service|operation|method|request|api)"
NOISE = re.compile(
    rf"^(?:\W|(?:note|important|deprecated|warning|{THIS} (?:is used to|will|can|allows you to|lets you)"
    rf"|use {THIS} to|use the .{{3,60}}? (?:endpoint|api|operation) to|allows you to|you can|we)\b[:.]?\s*)+",
    re.I,
)
PURPOSE_LONGEST = 160


def _verb(word: str) -> str:
    """The base form of a verb in its first or third person; "" when it is none that is known."""
    word = word.casefold()
    if word in VERBS:
        return word
    found = THIRD.match(word)
    for base in (found["s"], f"{found['y']}y" if found["y"] else None, found["es"]) if found else ():
        if base and base in VERBS:
            return base
    if word.endswith("es") and word[:-1] in VERBS:
        return word[:-1]
    return word[:-2] if word.endswith("es") and word[:-2] in VERBS else ""


def purpose(tool: Described, place: Span | None = None) -> str:
    """ "to list the assets of a vault": from the sentence at `place`, else from the first that says what it does."""
    spans = [place] if place else list(tool.sentences[:3])
    for start, stop in spans:
        said = NOISE.sub("", " ".join(tool.description[start:stop].split())).rstrip(" .:;!")
        first, _, rest = said.partition(" ")
        if (verb := _verb(first)) and rest and len(said) <= PURPOSE_LONGEST:
            return f"{verb} {rest}"
    title = (tool.title or join_words(name_words(tool.endpoint))).strip(" .:")
    return f"do “{title}”"


def _when(condition: str) -> str:
    """A condition in the vendor's words as what stands behind "when"."""
    first, _, rest = condition.partition(" ")
    match first.casefold():
        case "if" | "when" | "whenever":
            return rest
        case "in" if rest.startswith("case "):
            return rest.removeprefix("case ")
        case "in" if rest.startswith("order to "):
            return f"asked to {rest.removeprefix('order to ')}"
        case "to":
            return f"asked to {rest}"
        case "for":
            return f"it is for {rest}"
        case "unless":
            return f"it is not the case that {rest}"
    return condition


# Two descriptions that say the same but for one condition.

LIMIT = re.compile(r"\b(?:only|set to|without|with|for|single|all|except|not|instead|excluding|by)\b", re.I)
SELF = re.compile(
    rf"\b(?P<not>(?:do not|don['’]t|never) use {THIS}\s+(?:if|for|when|with)\b)"
    rf"|\buse {THIS} (?:only )?(?:if|when|for)\b"
    rf"|\b{THIS}(?: of the \w+)? should (?:only )?be used\b"
    rf"|\b{THIS}(?: of the \w+)? is (?:only )?(?:for|intended for|meant for|used (?:by|for|when))\b",
    re.I,
)
LEGACY = re.compile(
    r"\b(?:classic|legacy|older|old) (?:\w+ )?(?:API|integrations?|endpoint|version|service)\b|\(legacy\)",
    re.I,
)
DEPRECATED = concept("deprecated")
LEAST = 0.55  # a contrast of less is left to the eye
# what a tool does and to how many of them is in its name; a rule is for what the name does not say
_ACTS = "deletion creation updating display displays begin handle handles"
ACTS = frozenset(map(concept, {*VERBS, *_ACTS.split()}))
_PLAIN = """single all list specific given array detail id identifier token unique every one new existing of particular
    endpoint api page pages paginated return result"""
PLAIN = SMALL | frozenset(map(concept, _PLAIN.split()))
CONTRAST = {concept(word): line for line in ALTERNATIVES for word in line.split()}
WORD = regex.compile(rf"(?V1){PIECE}(?:['’]\w+)?")
ALIKE = 0.55  # of the words of two sentences
COMMON = 40  # tools of one API from which on a word joins nothing
WORDED = 0.6  # of the words of two opening sentences (Jaccard)
SIBLINGS = 0.5  # how alike two tools of one API must be to be read beside each other


class Suggester:
    """The suggestions of one domain. `near`: tool -> {neighbour: cosine}; `told`: how many tools are read so
    far, each twice: for what it says, and beside its siblings.
    """

    def __init__(
        self,
        tools: Iterable[Described],
        near: Mapping[str, Mapping[str, float]] | None = None,
        failures: Sequence[Failure] = (),
        told: Callable[[int], None] = lambda done: None,
    ) -> None:
        self.book = Redirects(tools, near)
        self.tools = self.book.tools
        self.near = near or {}
        self.failures = failures
        self.told = told
        self._found: dict[str, list[Redirect]] = {}

    def suggestions(self, without: Collection[frozenset[str]] = ()) -> list[Suggestion]:
        """Best first, ties by name. No pair is in two of them; `without` are pairs that need none."""
        leads = [*self._redirected(), *self._deprecated(), *self._selves(), *self._contrasts()]
        leads += [*self._twins(), *self._lines()]
        best: dict[frozenset[str], _Lead] = {}
        for lead in leads:
            pair = frozenset((lead.target, lead.confusable))
            if len(pair) == 2 and pair not in without and (pair not in best or lead.score > best[pair].score):
                best[pair] = lead
        groups: defaultdict[tuple[str, Kind, bool], list[list[_Lead]]] = defaultdict(list)
        for lead in sorted(best.values(), key=lambda one: (-one.score, one.target, one.confusable)):
            joined = groups[(lead.target, lead.kind, lead.said)]
            # one rule leads to one tool in one case: what is told in the same words stands apart
            fits = (group for group in joined if len(group) < MOST and not any(map(lead.clashes, group)))
            group = next(fits, None)
            if group is None:
                joined.append([lead])
            else:
                group.append(lead)
        found = [self._suggestion(group) for joined in groups.values() for group in joined]
        return sorted(self._with_failures(found, without), key=lambda one: (-one.score, one.target, one.kind))

    # leads by the vendor's words

    def _redirected(self) -> Iterator[_Lead]:
        for number, tool in enumerate(self.tools.values()):
            if self.book.is_newest(tool) or tool.deprecated:
                self._found[tool.name] = self.book.find(tool)
            self.told(number + 1)
        sent: Counter[tuple[str, str]] = Counter()
        for name, found in self._found.items():
            source = self.tools[name]
            if source.deprecated:
                continue
            for one in found:
                other = self.tools[one.other]
                if one.cue == "help" or other.deprecated:
                    continue
                if one.preferred == one.other and one.cue == "instead":
                    sent[source.api, other.api] += source.api != other.api
                yield self._lead(one)
        for (api, newer), times in sent.items():
            if times >= 2:
                yield from self._by_api(api, newer, times)

    def _lead(self, one: Redirect) -> _Lead:
        source, other = self.tools[one.source], self.tools[one.other]
        evidence = (Evidence(one.source, *one.sentence, one.marks),)
        kind: Kind = "condition" if source.family == other.family else "line"
        if one.preferred == one.source:
            why = f"{one.source} says how it differs from {one.other}."
            asked = _when(one.condition) if one.condition else f"asked to {purpose(source)}"
            return _Lead(
                kind,
                one.source,
                one.other,
                one.sure,
                why,
                evidence,
                asked,
                f"asked to {purpose(other)}",
                said=True,
            )
        why = f"The description of {one.source} sends its reader to {one.other}."
        # what a legacy tool's replacement is good for is no condition
        condition = one.condition if one.leads or not LEGACY.search(source.description) else ""
        asked = _when(condition) if condition else f"asked to {purpose(source)}"
        rest = f"asked to {purpose(source)} in any other case" if condition else ""
        return _Lead(
            kind, one.other, one.source, one.sure, why, evidence, asked, rest, never=not rest, said=True
        )

    def _by_api(self, api: str, other: str, times: int) -> Iterator[_Lead]:
        """The API's other tools, where so many of them send to that other API: each to the one most like it."""
        ours = [tool for tool in self.tools.values() if tool.api == api and not tool.deprecated]
        theirs = [tool for tool in self.tools.values() if tool.api == other and not tool.deprecated]
        for tool in ours:
            if any(
                self.tools[one.other].api == other and one.cue != "help" for one in self._found[tool.name]
            ):
                continue
            first = max(theirs, key=lambda one: (self.book.alike(tool, one), one.name))
            alike = self.book.alike(tool, first)
            said = LEGACY.search(tool.description)
            if alike < SIBLINGS or not (said or alike >= 0.7):
                continue
            place = _around(tool, said.span()) if said else tool.sentences[0]
            marks = (said.span(),) if said else ()
            why = (
                f"{times} other tools of {api} send to {other}; this is the tool there that is most like it."
            )
            score = (0.55 if said else 0.4) + 0.3 * alike
            when = f"asked to {purpose(tool)} in a newer integration"
            evidence = (Evidence(tool.name, *place, marks), self._opening(first))
            yield _Lead(
                "line", first.name, tool.name, round(score, 3), why, evidence, when, never=True, said=True
            )

    def _deprecated(self) -> Iterator[_Lead]:
        """Every deprecated tool, the newest version of each alone, with the tool to use instead."""
        newest: dict[tuple[str, tuple[str, ...]], Described] = {}
        for tool in self.tools.values():
            if tool.deprecated:
                held = newest.setdefault((tool.family, tool.operation or (tool.endpoint,)), tool)
                if tool.version > held.version:
                    newest[tool.family, tool.operation or (tool.endpoint,)] = tool
        for tool in newest.values():
            told = [one for one in self._found.get(tool.name, ()) if not self.tools[one.other].deprecated]
            best = max(told, key=lambda one: (one.sure, one.other), default=None)
            heir, sure = self._heir(tool)
            if best is not None and best.cue != "help" and (best.sure >= 0.95 or sure < 0.7):
                heir, sure = self.tools[best.other], max(best.sure, 0.7)
            if heir is None or sure < 0.5:
                continue
            evidence = (
                [Evidence(tool.name, *best.sentence, best.marks)] if best and best.other == heir.name else []
            )
            if not evidence:
                said = re.search(r"deprecat\w*|no longer \w+|legacy", tool.description, re.I)
                place = _around(tool, said.span()) if said else tool.sentences[0]
                evidence = [Evidence(tool.name, *place, (said.span(),) if said else ()), self._opening(heir)]
            why = f"{tool.name} is deprecated."
            when = f"asked to {purpose(heir)}"
            yield _Lead(
                "deprecated", heir.name, tool.name, round(sure, 3), why, tuple(evidence), when, never=True
            )

    def _heir(self, tool: Described) -> tuple[Described | None, float]:
        """The vendor's tool in use that is most like a deprecated one, and how surely it is the one."""
        named = self.book.named_apis(tool)
        operation = tuple(word for word in tool.operation if word != DEPRECATED)
        rated = []
        for other in self.book.of_vendor(tool.vendor):
            if other.deprecated or other is tool or not other.about & tool.about:
                continue
            kin = 0.12 * (other.family == tool.family) + 0.06 * (other.method == tool.method)
            kin += 0.12 * (other.family == tool.family and other.version > tool.version) + 0.25 * (
                other.api in named
            )
            kin += 0.3 * (other.operation == operation)
            rated.append((round(0.7 * self.book.alike(tool, other) + kin, 4), other.name))
        if not rated:
            return None, 0.0
        sure, name = max(rated)
        return self.tools[name], min(sure, 0.85)

    def _selves(self) -> Iterator[_Lead]:
        """Tools that say when they are meant, with the tool of their API that is most like them."""
        for tool in self.tools.values():
            if (
                tool.deprecated
                or not self.book.is_newest(tool)
                or not (said := SELF.search(tool.description))
            ):
                continue
            alike = [
                (self.book.alike(tool, other), other.name)
                for other in self.book.of_api(tool.api)
                if other is not tool
            ]
            alike = [one for one in alike if one[0] >= SIBLINGS and self.tools[one[1]].method == tool.method]
            if not alike:
                continue
            share, name = max(alike)
            place = _around(tool, said.span())
            target, other = (name, tool.name) if said["not"] else (tool.name, name)
            if re.search(r"\b(?:if|when|for|with|by)$", said[0], re.I):
                behind = _plain(tool, (said.end(), place[1]))
                when = f"it is for {behind}" if said[0].lower().endswith(("for", "with", "by")) else behind
            else:
                when = _when(re.sub(r"\W*\bthen\W*$", "", _plain(tool, (place[0], said.start()))))
            when = when or f"asked to {purpose(self.tools[target])}"
            other_when = f"asked to {purpose(self.tools[other])}"
            evidence = (Evidence(tool.name, *place, (said.span(),)), self._opening(self.tools[name]))
            why = f"{tool.name} says when it is meant; {name} is most like it."
            yield _Lead(
                "condition",
                target,
                other,
                round(0.4 + 0.35 * share, 3),
                why,
                evidence,
                when,
                other_when,
                said=True,
            )

    # leads by what differs

    def _contrasts(self) -> Iterator[_Lead]:
        for left, right in self._siblings():
            if lead := self._contrast(left, right):
                yield lead

    def _siblings(self) -> Iterator[tuple[Described, Described]]:
        """Pairs of one API, newest versions, that do the same kind of thing to nearly the same thing."""
        done = len(self.tools)
        for tools in self.book.apis.values():
            self.told(done := done + len(tools))
            use = [tool for tool in tools if not tool.deprecated and self.book.is_newest(tool)]
            holders: defaultdict[str, list[Described]] = defaultdict(list)
            for tool in use:
                for word in tool.about:
                    holders[word].append(tool)
            pairs: set[tuple[str, str]] = set()
            for held in holders.values():
                if len(held) <= COMMON:
                    pairs |= {(a.name, b.name) for a, b in combinations(held, 2)}
            for tool in use:
                near = (other for other in self.near.get(tool.name, ()) if other in self.tools)
                pairs |= {
                    (min(tool.name, other), max(tool.name, other))
                    for other in near
                    if self.tools[other].api == tool.api and not self.tools[other].deprecated
                }
            worded = self._worded_alike(use)
            for a, b in sorted({(min(pair), max(pair)) for pair in pairs | worded}):
                left, right = self.tools[a], self.tools[b]
                near_enough = (a, b) in worded or self.book.alike(left, right) >= SIBLINGS
                if left.method == right.method and near_enough:
                    yield left, right

    def _worded_alike(self, tools: Sequence[Described]) -> set[tuple[str, str]]:
        """Pairs with an opening sentence in nearly the same words."""
        said: dict[tuple[str, Span], frozenset[str]] = {}
        for tool in tools:
            for span in tool.sentences[:3]:
                words = frozenset(concepts(tool.description[slice(*span)]))
                if len(words) >= 4:
                    said[tool.name, span] = words
        index = SetIndex(said.items(), WORDED)
        pairs = ((name, other) for (name, _), words in said.items() for (other, _), _ in index.find(words))
        return {(name, other) for name, other in pairs if name < other}

    def _contrast(self, left: Described, right: Described) -> _Lead | None:
        best: tuple[float, Span, Span, _Difference] | None = None
        names = f"{left.endpoint} {right.endpoint}".casefold()
        for one in left.sentences[:2]:
            for two in right.sentences[:2]:
                found = _difference(left, one, right, two)
                if found is None:
                    continue
                # a word that the names show tells the two apart without a rule
                hidden = not any(word in names for word in found.telling)
                score = 0.15 * hidden + 0.25 * found.turns + 0.1 * (hidden and found.turns)
                score += 0.1 * found.limits + 0.2 * found.ratio
                if (hidden or found.turns) and (best is None or score > best[0]):
                    best = (score, one, two, found)
        if best is None:
            return None
        score, one, two, found = best
        mine, theirs = found.ours, found.theirs
        score += 0.1 + 0.15 * self.book.alike(left, right)
        if score < LEAST:
            return None
        first, second = (left, one, mine), (right, two, theirs)
        if len(right.description) > len(left.description):
            first, second = second, first
        evidence = tuple(Evidence(tool.name, *place, tuple(marks)) for tool, place, marks in (first, second))
        why = "Their descriptions say the same but for the marked words."
        asked, otherwise = (f"asked to {purpose(tool, place)}" for tool, place, _ in (first, second))
        return _Lead(
            "condition", first[0].name, second[0].name, round(score, 3), why, evidence, asked, otherwise
        )

    def _twins(self) -> Iterator[_Lead]:
        groups: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for tool in self.tools.values():
            if not tool.deprecated:
                groups[twin_key(tool.name)].append(tool.name)
        for names in groups.values():
            if len(names) > 1:
                newest, *older = newest_first(names)
                for place, name in enumerate(older[:MOST]):
                    yield self._twin(newest, name, 0.4 - 0.01 * place, split_name(name)[0])
        inside: defaultdict[tuple[str, str], list[tuple[tuple[int, int], str]]] = defaultdict(list)
        for tool in self.tools.values():
            if not tool.deprecated and self.book.is_newest(tool):
                root, number = _versioned(tool.endpoint)
                inside[tool.api, root].append((number, tool.name))
        for rows in inside.values():
            rows.sort(reverse=True)
            for number, name in rows[1 : MOST + 1]:
                if number < rows[0][0]:
                    yield self._twin(rows[0][1], name, 0.5, "the older version")

    def _twin(self, newest: str, older: str, score: float, what: str) -> _Lead:
        tool, other = self.tools[newest], self.tools[older]
        same = tool.description == other.description
        why = f"{newest} is a newer version of {older}" + (", described in the same words." if same else ".")
        evidence = (self._opening(tool), self._opening(other))
        asked = f"asked to {purpose(tool)}"
        rest = f"an integration is already built on {what} and has to stay on it"
        return _Lead("twin", newest, older, round(score, 3), why, evidence, asked, rest)

    def _lines(self) -> Iterator[_Lead]:
        """One operation under one title in several products of a vendor."""
        groups: defaultdict[tuple[str, tuple[str, ...], str], list[Described]] = defaultdict(list)
        for tool in self.tools.values():
            if not tool.deprecated and self.book.is_newest(tool) and tool.title:
                groups[tool.vendor, tool.operation or (tool.endpoint,), tool.title.casefold()].append(tool)
        for tools in groups.values():
            families = {tool.family: tool for tool in sorted(tools, key=lambda one: one.name, reverse=True)}
            if len(families) < 2:
                continue
            first, *others = sorted(families.values(), key=lambda one: (len(one.family), one.name))
            for other in others[:MOST]:
                why = f"The same operation in {len(families)} products of one vendor."
                asked, otherwise = (
                    f"asked to {purpose(tool)} in {_product(tool)}" for tool in (first, other)
                )
                evidence = (self._opening(first), self._opening(other))
                yield _Lead("line", first.name, other.name, 0.3, why, evidence, asked, otherwise)

    # from leads to suggestions

    def _opening(self, tool: Described) -> Evidence:
        place = tool.sentences[0] if tool.sentences else (0, len(tool.description))
        return Evidence(tool.name, *place)

    def _suggestion(self, leads: Sequence[_Lead]) -> Suggestion:
        """One rule of the leads to one target, in sentences that the editor reads back as its clauses."""
        first = leads[0]
        said: list[str] = []
        clauses: list[dict[str, Any]] = []

        def say(when: str, tool: str, exception: bool = False) -> None:
            when = _clean(when)
            clause = {"when": when, "route_to": tool, "exception": exception, "signals": []}
            if when and clause not in clauses:
                clauses.append(clause)
                said.append(f"{'Exception: when' if exception else 'When'} {when}, use {tool}.")

        for when in dict.fromkeys(lead.when for lead in leads):
            say(when, first.target)
        never = [lead.confusable for lead in leads if lead.never]
        if never:
            gone = (
                " is deprecated: do not use it."
                if first.kind == "deprecated"
                else " is not the one to use for this."
            )
            many = (
                " are deprecated: do not use them."
                if first.kind == "deprecated"
                else " are not the ones to use for this."
            )
            said.append(f"{_listed(never)}{gone if len(never) == 1 else many}")
        for lead in leads:
            if not lead.never:
                say(lead.else_when, lead.confusable, exception=True)
        evidence = tuple(dict.fromkeys(one for lead in leads for one in lead.evidence))
        names = tuple(lead.confusable for lead in leads)
        return Suggestion(
            first.kind, first.target, names, " ".join(said), tuple(clauses), evidence, first.score, first.why
        )

    def _with_failures(
        self, found: Sequence[Suggestion], without: Collection[frozenset[str]]
    ) -> Iterator[Suggestion]:
        """Failing requests beside the suggestion on their pair; a suggestion of their own where there is none."""
        holding = {
            frozenset((one.target, name)): n for n, one in enumerate(found) for name in one.confusables
        }
        joined: defaultdict[int, list[Failure]] = defaultdict(list)
        alone: defaultdict[frozenset[str], list[Failure]] = defaultdict(list)
        for failure in self.failures:
            pair = frozenset((failure.wanted, failure.chosen))
            if len(pair) < 2 or pair in without or not pair <= self.tools.keys() or not failure.queries:
                continue
            if pair in holding:
                joined[holding[pair]].append(failure)
            else:
                alone[pair].append(failure)
        for number, one in enumerate(found):
            if failures := joined[number]:
                why = f"{one.why} {_times(failures)} went wrong between them."
                score = round(min(1.0, one.score + 0.3), 3)
                one = replace(one, failures=tuple(failures), score=score, why=why)
            yield one
        # both ways of a pair at the more frequent
        wanted: defaultdict[str, list[list[Failure]]] = defaultdict(list)
        for missed in alone.values():
            ways = sorted(missed, key=lambda failure: (-len(failure.queries), failure.wanted))
            wanted[ways[0].wanted].append(ways)
        for pairs in wanted.values():
            most = sorted(pairs, key=lambda ways: (-len(ways[0].queries), ways[0].chosen))[:MOST]
            failures = [failure for ways in most for failure in ways]
            count = sum(len(failure.queries) for failure in failures)
            score = round(min(0.95, 0.5 + 0.08 * count), 3)
            why = f"{_times(failures)} went wrong: the model chose another tool."
            leads = [self._missed(ways[0], score, why) for ways in most]
            yield replace(self._suggestion(leads), failures=tuple(failures))

    def _missed(self, failure: Failure, score: float, why: str) -> _Lead:
        wanted, chosen = self.tools[failure.wanted], self.tools[failure.chosen]
        evidence = (self._opening(wanted), self._opening(chosen))
        asked, otherwise = (f"asked to {purpose(tool)}" for tool in (wanted, chosen))
        return _Lead("failures", failure.wanted, failure.chosen, score, why, evidence, asked, otherwise)


def _times(failures: Iterable[Failure]) -> str:
    count = sum(len(failure.queries) for failure in failures)
    return f"{count} request{'s' if count > 1 else ''}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _clean(when: str) -> str:
    """One line that ends no sentence, so that the editor reads it back as one clause."""
    when = " ".join(re.sub(r"[.!?;]+(?=\s|$)", ",", when).split())
    return when.strip(" ,:–-")[:400]


def _plain(tool: Described, place: Span) -> str:
    return " ".join(tool.description[slice(*place)].split()).strip(" .:;,")


def _around(tool: Described, place: Span) -> Span:
    """The sentence in which a place lies."""
    return next((span for span in tool.sentences if span[0] <= place[0] < span[1]), place)


def _product(tool: Described) -> str:
    return join_words(name_words(tool.family))


def _versioned(endpoint: str) -> tuple[str, tuple[int, int]]:
    """`update-goal-v1.1` -> ("update-goal", (1, 1)); no version counts as the first."""
    found = re.search(r"[-_.]?[vV](\d+)(?:[-_.](\d+))?$", endpoint)
    if not found:
        return endpoint, (1, 0)
    return endpoint[: found.start()], (int(found[1]), int(found[2] or 0))


@dataclass(frozen=True, slots=True)
class _Difference:
    """How two sentences differ. `ratio`: share of words in common; `ours`, `theirs`: the places of the other words;
    `telling`: what these say; `turns`: they exclude each other; `limits`: a word that narrows stands among them.
    """

    ratio: float
    ours: list[Span]
    theirs: list[Span]
    telling: frozenset[str]
    turns: bool
    limits: bool


def _difference(one_tool: Described, one: Span, other: Described, two: Span) -> _Difference | None:
    """None when the sentences are one, are too far apart, speak of something else than the tools, or differ only in
    what is done, or to how many.
    """
    left, right = one_tool.description, other.description
    ours = [
        (match.start() + one[0], match.end() + one[0], match[0]) for match in WORD.finditer(left[slice(*one)])
    ]
    theirs = [
        (match.start() + two[0], match.end() + two[0], match[0])
        for match in WORD.finditer(right[slice(*two)])
    ]
    if min(len(ours), len(theirs)) < 4:
        return None
    a, b = ([concept(folded(word)) for _, _, word in side] for side in (ours, theirs))
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    if matcher.quick_ratio() < ALIKE or (ratio := matcher.ratio()) < ALIKE:
        return None
    about = one_tool.about | other.about
    if not (about - ACTS - PLAIN) & set(a) & set(b):
        return None
    changes = [change for change in matcher.get_opcodes() if change[0] != "equal"]
    mine = [(ours[i][0], ours[j - 1][1]) for _, i, j, _, _ in changes if j > i]
    others = [(theirs[k][0], theirs[m - 1][1]) for _, _, _, k, m in changes if m > k]
    words = [
        {word for _, i, j, _, _ in changes for word in a[i:j]},
        {word for *_, k, m in changes for word in b[k:m]},
    ]
    telling = [{word for word in side if word not in PLAIN} for side in words]
    if words[0] & ACTS or words[1] & ACTS or not telling[0] | telling[1]:
        return None
    turns = any(
        word in CONTRAST and CONTRAST[word] == CONTRAST.get(other)
        for word in telling[0] - telling[1]
        for other in telling[1] - telling[0]
    )
    said = " ".join([left[slice(*place)] for place in mine] + [right[slice(*place)] for place in others])
    return _Difference(
        ratio, mine, others, frozenset(telling[0] ^ telling[1]), turns, bool(LIMIT.search(said))
    )
