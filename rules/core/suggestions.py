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
from itertools import combinations, product
from typing import Any, Literal, NamedTuple

import regex

from catalog.core.edges import pair_of
from catalog.core.near_duplicates import SetIndex
from catalog.core.tokens import split_name
from catalog.core.twins import newest_first, twin_key
from catalog.core.words import base_form, join_words, name_words
from rules.core.redirects import Described, Redirect, Redirects, Span, concepts
from rules.core.wording import ALTERNATIVES, SMALL, concept
from trace_site.lib.letters import PIECE, folded

METHOD = "words-1"  # changes when other suggestions would be made of the same texts
Kind = Literal["deprecated", "twin", "line", "condition", "failures"]
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
    when: str
    else_when: str = ""
    never: bool = False  # the confusable is to be used no more
    said: bool = False  # the vendor says so, of these two

    def clashes(self, other: "_Lead") -> bool:
        """Whether the look-alikes of both would be right in one case."""
        return not self.never and not other.never and self.else_when == other.else_when


# What a tool is for, as the words behind "when".

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
THIS = r"this (?:version|endpoint|service|operation|method|request|api)"
NOISE = re.compile(
    rf"^(?:\W|(?:note|important|deprecated|warning|{THIS} (?:is used to|will|can|allows you to|lets you)"
    rf"|use {THIS} to|use the .{{3,60}}? (?:endpoint|api|operation) to|allows you to|you can|we)\b[:.]?\s*)+",
    re.I,
)
PURPOSE_LONGEST = 160


def asked_to(tool: Described, place: Span | None = None) -> str:
    """ "asked to list the assets of a vault": from the sentence at `place`, else from the first that says what the tool
    does."""
    for span in [place] if place else tool.sentences[:3]:
        said = NOISE.sub("", " ".join(tool.description[slice(*span)].split())).rstrip(" .:;!")
        first, _, rest = said.partition(" ")
        verb = next((word for word in (first.casefold(), base_form(first.casefold())) if word in VERBS), "")
        if verb and rest and len(said) <= PURPOSE_LONGEST:
            return f"asked to {verb} {rest}"
    title = (tool.title or join_words(name_words(tool.endpoint))).strip(" .:")
    return f"asked to do “{title}”"


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
SAYS_DEPRECATED = re.compile(r"deprecat\w*|no longer \w+|legacy", re.I)
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
        leads = [*self._redirected(), *self._deprecated(), *self._selves()]
        leads += filter(None, (self._contrast(left, right) for left, right in self._siblings()))
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
            if (group := next(fits, None)) is None:
                joined.append(group := [])
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
                if one.preferred == one.other and one.cue == "instead" and source.api != other.api:
                    sent[source.api, other.api] += 1
                yield self._lead(one, source, other)
        for (api, newer), times in sent.items():
            if times >= 2:
                yield from self._by_api(api, newer, times)

    def _lead(self, one: Redirect, source: Described, other: Described) -> _Lead:
        target, confusable, condition = one.source, one.other, one.condition
        why, rest = f"{one.source} says how it differs from {one.other}.", asked_to(other)
        if one.preferred == one.other:
            target, confusable = one.other, one.source
            why = f"The description of {one.source} sends its reader to {one.other}."
            # what a legacy tool's replacement is good for is no condition
            condition = condition if one.leads or not LEGACY.search(source.description) else ""
            rest = f"{asked_to(source)} in any other case" if condition else ""
        kind: Kind = "condition" if source.family == other.family else "line"
        evidence = (Evidence(one.source, *one.sentence, one.marks),)
        when = _when(condition) or asked_to(source)
        return _Lead(kind, target, confusable, one.sure, why, evidence, when, rest, not rest, said=True)

    def _by_api(self, api: str, other: str, times: int) -> Iterator[_Lead]:
        """The API's other tools, where so many of them send to that other API: each to the one most like it."""
        why = f"{times} other tools of {api} send to {other}; this is the tool there that is most like it."
        for tool in self.book.of_api(api):
            told = (one for one in self._found[tool.name] if self.tools[one.other].api == other)
            if any(one.cue != "help" for one in told):
                continue
            alike, name = max((self.book.alike(tool, one), one.name) for one in self.book.of_api(other))
            said = LEGACY.search(tool.description)
            if alike < SIBLINGS or not (said or alike >= 0.7):
                continue
            score = (0.55 if said else 0.4) + 0.3 * alike
            when = f"{asked_to(tool)} in a newer integration"
            evidence = (_quoted(tool, said), _opening(self.tools[name]))
            yield _Lead("line", name, tool.name, round(score, 3), why, evidence, when, never=True, said=True)

    def _deprecated(self) -> Iterator[_Lead]:
        """Every deprecated tool, the newest version of each alone, with the tool to use instead."""
        newest: dict[tuple[str, tuple[str, ...]], Described] = {}
        for tool in filter(lambda tool: tool.deprecated, self.tools.values()):
            key = tool.family, tool.operation or (tool.endpoint,)
            if tool.version > newest.setdefault(key, tool).version:
                newest[key] = tool
        for tool in newest.values():
            told = [one for one in self._found.get(tool.name, ()) if not self.tools[one.other].deprecated]
            best = max(told, key=lambda one: (one.sure, one.other), default=None)
            heir, sure = self._heir(tool)
            if best is not None and best.cue != "help" and (best.sure >= 0.95 or sure < 0.7):
                heir, sure = self.tools[best.other], max(best.sure, 0.7)
            if heir is None or sure < 0.5:
                continue
            evidence: tuple[Evidence, ...]
            if best and best.other == heir.name:
                evidence = (Evidence(tool.name, *best.sentence, best.marks),)
            else:
                evidence = (_quoted(tool, SAYS_DEPRECATED.search(tool.description)), _opening(heir))
            why, when = f"{tool.name} is deprecated.", asked_to(heir)
            yield _Lead("deprecated", heir.name, tool.name, round(sure, 3), why, evidence, when, never=True)

    def _heir(self, tool: Described) -> tuple[Described | None, float]:
        """The vendor's tool in use that is most like a deprecated one, and how surely it is the one."""
        named = self.book.named_apis(tool, tool.description) - {tool.api}
        operation = tuple(word for word in tool.operation if word != DEPRECATED)
        rated = []
        for other in self.book.vendors[tool.vendor]:
            if other.deprecated or other is tool or not other.about & tool.about:
                continue
            family = other.family == tool.family
            kin = 0.12 * family + 0.12 * (family and other.version > tool.version)
            kin += 0.06 * (other.method == tool.method) + 0.25 * (other.api in named)
            kin += 0.3 * (other.operation == operation)
            rated.append((round(0.7 * self.book.alike(tool, other) + kin, 4), other.name))
        sure, name = max(rated, default=(0.0, ""))
        return self.tools.get(name), min(sure, 0.85)

    def _selves(self) -> Iterator[_Lead]:
        """Tools that say when they are meant, with the tool of their API that is most like them."""
        for tool in self.tools.values():
            said = SELF.search(tool.description)
            if tool.deprecated or not self.book.is_newest(tool) or said is None:
                continue
            kin = (one for one in self.book.of_api(tool.api) if one is not tool and one.method == tool.method)
            share, name = max(((self.book.alike(tool, one), one.name) for one in kin), default=(0.0, ""))
            if share < SIBLINGS:
                continue
            evidence = (_quoted(tool, said), _opening(self.tools[name]))
            target, other = (name, tool.name) if said["not"] else (tool.name, name)
            if re.search(r"\b(?:if|when|for|with|by)$", said[0], re.I):
                when = _plain(tool, (said.end(), evidence[0].end))
                when = f"it is for {when}" if said[0].lower().endswith(("for", "with", "by")) else when
            else:
                before = _plain(tool, (evidence[0].start, said.start()))
                when = _when(re.sub(r"\W*\bthen\W*$", "", before))
            when, rest = when or asked_to(self.tools[target]), asked_to(self.tools[other])
            why, score = f"{tool.name} says when it is meant; {name} is most like it.", 0.4 + 0.35 * share
            yield _Lead("condition", target, other, round(score, 3), why, evidence, when, rest, said=True)

    # leads by what differs

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
            pairs = worded = self._worded_alike(use)
            for held in holders.values():
                if len(held) <= COMMON:
                    pairs = pairs | {pair_of(a.name, b.name) for a, b in combinations(held, 2)}
            for tool in use:
                near = (self.tools[name] for name in self.near.get(tool.name, ()) if name in self.tools)
                kin = (other for other in near if other.api == tool.api and not other.deprecated)
                pairs = pairs | {pair_of(tool.name, other.name) for other in kin}
            for a, b in sorted(pairs):
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
        best: tuple[float, _Difference] | None = None
        names = f"{left.endpoint} {right.endpoint}".casefold()
        for one, two in product(left.sentences[:2], right.sentences[:2]):
            if (found := _difference(left, one, right, two)) is None:
                continue
            # a word that the names show tells the two apart without a rule
            hidden = not any(word in names for word in found.telling)
            score = 0.15 * hidden + 0.25 * found.turns + 0.1 * (hidden and found.turns)
            score += 0.1 * found.limits + 0.2 * found.ratio
            if (hidden or found.turns) and (best is None or score > best[0]):
                best = score, found
        if best is None:
            return None
        score, found = best[0] + 0.1 + 0.15 * self.book.alike(left, right), best[1]
        if score < LEAST:
            return None
        # of the one that says more first
        longer = len(right.description) > len(left.description)
        evidence = found.evidence[::-1] if longer else found.evidence
        first, second = (self.tools[one.tool] for one in evidence)
        asked, rest = (asked_to(self.tools[one.tool], (one.start, one.end)) for one in evidence)
        why = "Their descriptions say the same but for the marked words."
        return _Lead("condition", first.name, second.name, round(score, 3), why, evidence, asked, rest)

    def _twins(self) -> Iterator[_Lead]:
        groups: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        inside: defaultdict[tuple[str, str], list[tuple[tuple[int, int], str]]] = defaultdict(list)
        for tool in self.tools.values():
            if not tool.deprecated:
                groups[twin_key(tool.name)].append(tool.name)
                if self.book.is_newest(tool):
                    root, number = _versioned(tool.endpoint)
                    inside[tool.api, root].append((number, tool.name))
        for names in groups.values():
            newest, *older = newest_first(names)
            for place, name in enumerate(older[:MOST]):
                yield self._twin(newest, name, round(0.4 - 0.01 * place, 3), split_name(name)[0])
        for rows in inside.values():
            rows.sort(reverse=True)
            for number, name in rows[1 : MOST + 1]:
                if number < rows[0][0]:
                    yield self._twin(rows[0][1], name, 0.5, "the older version")

    def _twin(self, newest: str, older: str, score: float, what: str) -> _Lead:
        tool, other = self.tools[newest], self.tools[older]
        same = tool.description == other.description
        why = f"{newest} is a newer version of {older}" + (", described in the same words." if same else ".")
        rest = f"an integration is already built on {what} and has to stay on it"
        evidence = (_opening(tool), _opening(other))
        return _Lead("twin", newest, older, score, why, evidence, asked_to(tool), rest)

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
                products = ((tool, join_words(name_words(tool.family))) for tool in (first, other))
                asked, rest = (f"{asked_to(tool)} in {name}" for tool, name in products)
                evidence = (_opening(first), _opening(other))
                yield _Lead("line", first.name, other.name, 0.3, why, evidence, asked, rest)

    # from leads to suggestions

    def _suggestion(self, leads: Sequence[_Lead]) -> Suggestion:
        """One rule of the leads to one target, in sentences that the editor reads back as its clauses."""
        first = leads[0]
        said: list[str] = []
        clauses: list[dict[str, Any]] = []

        def say(when: str, tool: str, exception: bool = False) -> None:
            # on one line that ends no sentence, so that the editor reads it back as one clause
            when = " ".join(re.sub(r"[.!?;]+(?=\s|$)", ",", when).split()).strip(" ,:–-")[:400]
            clause = {"when": when, "route_to": tool, "exception": exception, "signals": []}
            if when and clause not in clauses:
                clauses.append(clause)
                said.append(f"{'Exception: when' if exception else 'When'} {when}, use {tool}.")

        for when in dict.fromkeys(lead.when for lead in leads):
            say(when, first.target)
        never = [lead.confusable for lead in leads if lead.never]
        if never:
            is_are, it, one = ("is", "it", "one") if len(never) == 1 else ("are", "them", "ones")
            gone = (
                f"deprecated: do not use {it}."
                if first.kind == "deprecated"
                else f"not the {one} to use for this."
            )
            listed = " and ".join(filter(None, (", ".join(never[:-1]), never[-1])))
            said.append(f"{listed} {is_are} {gone}")
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
        evidence, asked, rest = (_opening(wanted), _opening(chosen)), asked_to(wanted), asked_to(chosen)
        return _Lead("failures", failure.wanted, failure.chosen, score, why, evidence, asked, rest)


def _times(failures: Iterable[Failure]) -> str:
    count = sum(len(failure.queries) for failure in failures)
    return f"{count} request{'s' if count > 1 else ''}"


def _plain(tool: Described, place: Span) -> str:
    return " ".join(tool.description[slice(*place)].split()).strip(" .:;,")


def _opening(tool: Described) -> Evidence:
    place = tool.sentences[0] if tool.sentences else (0, len(tool.description))
    return Evidence(tool.name, *place)


def _quoted(tool: Described, said: re.Match[str] | None) -> Evidence:
    """The sentence that says it, or the first one where nothing does."""
    if said is None:
        return _opening(tool)
    around = (span for span in tool.sentences if span[0] <= said.start() < span[1])
    return Evidence(tool.name, *next(around, said.span()), (said.span(),))


def _versioned(endpoint: str) -> tuple[str, tuple[int, int]]:
    """`update-goal-v1.1` -> ("update-goal", (1, 1)); no version counts as the first."""
    found = re.search(r"[-_.]?[vV](\d+)(?:[-_.](\d+))?$", endpoint)
    if not found:
        return endpoint, (1, 0)
    return endpoint[: found.start()], (int(found[1]), int(found[2] or 0))


class _Difference(NamedTuple):
    """How two sentences differ. `ratio`: share of words in common; `evidence`: the sentences with the places of the
    other words; `telling`: what these say; `turns`: they exclude each other; `limits`: a word that narrows stands among
    them.
    """

    ratio: float
    evidence: tuple[Evidence, Evidence]
    telling: set[str]
    turns: bool
    limits: bool


def _difference(left: Described, one: Span, right: Described, two: Span) -> _Difference | None:
    """None when the sentences are one, are too far apart, speak of something else than the tools, or differ only in
    what is done, or to how many.
    """
    found = [list(WORD.finditer(tool.description, *span)) for tool, span in ((left, one), (right, two))]
    if min(map(len, found)) < 4:
        return None
    a, b = ([concept(folded(word[0])) for word in words] for words in found)
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    if matcher.quick_ratio() < ALIKE or (ratio := matcher.ratio()) < ALIKE:
        return None
    if not ((left.about | right.about) - ACTS - PLAIN) & set(a) & set(b):
        return None
    changes = [change for change in matcher.get_opcodes() if change[0] != "equal"]
    ranges = [[(i, j) for _, i, j, *_ in changes if j > i], [(k, m) for *_, k, m in changes if m > k]]
    ours, theirs = ({word for i, j in ranges[n] for word in (a, b)[n][i:j]} for n in (0, 1))
    if (ours | theirs) & ACTS or not (ours | theirs) - PLAIN:
        return None
    ours, theirs = ours - PLAIN, theirs - PLAIN
    pairs = product(ours - theirs, theirs - ours)
    turns = any(word in CONTRAST and CONTRAST[word] == CONTRAST.get(other) for word, other in pairs)
    marks = [
        tuple((words[i].start(), words[j - 1].end()) for i, j in places)
        for words, places in zip(found, ranges, strict=True)
    ]
    evidence = Evidence(left.name, *one, marks[0]), Evidence(right.name, *two, marks[1])
    said = " ".join(
        tool.description[slice(*place)]
        for tool, places in zip((left, right), marks, strict=True)
        for place in places
    )
    return _Difference(ratio, evidence, ours ^ theirs, turns, bool(LIMIT.search(said)))
