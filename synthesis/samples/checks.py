"""What filter V says about samples now, benchmark queries included: one text as somebody types it, or a whole lot."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from catalog.models import Tool
from catalog.queries.registry import Firewall, benchmark_firewall
from rules.models import RuleVersion
from synthesis.core.filters import Candidate, Failure, FilterContext, query_failures, trace_failures
from synthesis.core.names import ToolNames, last_sentence
from synthesis.core.queries import RuleText
from synthesis.core.recipe import read_recipe
from synthesis.models import Sample
from synthesis.samples.sources import CatalogView, load_catalog, published_codes, rule_texts
from trace_site.lib.files import content_hash
from trace_site.lib.letters import UNBROKEN, WORD, folded, split_words


class Checker:
    """Reads catalog and rules once, however many samples it is asked about."""

    def __init__(self) -> None:
        self._contexts: dict[str, FilterContext] = {}
        self._rules: dict[int, RuleText] = {}

    def failures(
        self, sample: Sample, query: str, trace: str, answer: Iterable[str] | None = None
    ) -> list[Failure]:
        """What the filter says about the sample with these texts instead of its own."""
        given = tuple(sample.answer if answer is None else answer)
        rule = self._rule(sample.rule_version) if sample.rule_version else None
        pool, context = self._catalog.pool(sample.pool or sample.answer), self._context(sample)
        made = (sample.branch, query, given, pool, rule)
        candidate = Candidate.of(*made, style=sample.style, tier=sample.tier, trace=trace)
        found = query_failures(candidate, context)
        if trace or sample.trace:
            found += trace_failures(candidate, context)
        return found if query == sample.query else found + self._repeated(query)

    def failing(self, samples: Iterable[Sample]) -> Iterator[tuple[Sample, list[Failure]]]:
        """Of the samples as they stand those the filter refuses by now, with its reasons."""
        for sample in samples:
            found = self.failures(sample, sample.query, sample.trace) + self._repeated(sample.query)
            if found:
                yield sample, found

    @cached_property
    def _catalog(self) -> CatalogView:
        return load_catalog(neighbours=False)

    @cached_property
    def _firewall(self) -> Firewall:
        return benchmark_firewall()

    def _repeated(self, query: str) -> list[Failure]:
        hit = self._firewall.check(query)
        return [Failure("near_duplicate", "The query repeats a benchmark query.", hit.query)] if hit else []

    def _context(self, sample: Sample) -> FilterContext:
        recipe = sample.run.params.get("recipe", {})
        key = content_hash(recipe)
        if key not in self._contexts:
            codes = published_codes()
            self._contexts[key] = self._catalog.filter_context(read_recipe(recipe), codes=codes)
        return self._contexts[key]

    def _rule(self, version: RuleVersion) -> RuleText:
        if version.pk not in self._rules:
            self._rules[version.pk] = rule_texts([version])[0]
        return self._rules[version.pk]


def check(*, sample: Sample, query: str, trace: str, answer: list[str] | None = None) -> list[Failure]:
    """What filter V says about a text as a person typed it, benchmark queries included."""
    return Checker().failures(sample, query, trace, answer)


# Texts cut into pieces a page can colour, in reading order: mentions, rule codes, the commitment of a trace; failures.

QUOTE = 5  # words in a row that are no coincidence
Mark = tuple[int, int, str]  # start, end, kind


@dataclass(frozen=True, slots=True)
class Span:
    kind: str  # text | tool | rule
    text: str
    chosen: bool = False  # a mention of a tool of the answer
    final: bool = False  # inside the committing sentence
    quoted: bool = False  # in the rule's own words


def trace_spans(
    text: str, names: Iterable[str], answer: Collection[str], codes: Iterable[str] = (), rule: str = ""
) -> list[Span]:
    """The whole trace as spans; joined again they give the trace back. rule: the text it may quote."""
    known = set(names) | set(answer)
    mentions = ToolNames(known).mentions(text) if text and known else []
    found = [(start, end, "tool") for start, end, _ in mentions]
    longest_first = "|".join(re.escape(code) for code in sorted(codes, key=len, reverse=True))
    cited = re.finditer(rf"(?<!\w)(?:{longest_first})(?!\w)", text) if longest_first else ()
    marks: list[Mark] = []
    for mark in sorted(found + [(*match.span(), "rule") for match in cited]):
        if not marks or mark[0] >= marks[-1][1]:  # of two that overlap the first
            marks.append(mark)
    final_at, quotes = last_sentence(text, mentions), quote_places(text, rule)
    edges = {0, len(text), min(final_at, len(text)), *(edge for quote in quotes for edge in quote)}
    edges -= {edge for edge in edges for start, end, _ in marks if start < edge < end}
    edges |= {edge for start, end, _ in marks for edge in (start, end)}
    kinds = {start: kind for start, _, kind in marks}
    return [
        Span(
            kinds.get(start, "text"),
            text[start:end],
            chosen=start in kinds and text[start:end] in answer,
            final=start >= final_at,
            quoted=any(first <= start and end <= last for first, last in quotes),
        )
        for start, end in pairwise(sorted(edges))
    ]


def tools_near(names: Iterable[str], traces: Iterable[str]) -> list[str]:
    """What traces may mention: every tool of the APIs that the names, or words of the traces, begin with."""
    words = [*names, *(word for trace in traces for word in trace.split())]
    parts = [UNBROKEN.findall(word.split("/")[0].strip('"(')) for word in words if "/" in word]
    apis = {"".join(one[at:]) for one in parts for at in range(len(one))}
    return list(Tool.objects.filter(api__in=apis).values_list("name", flat=True))


def quote_places(text: str, rule: str) -> list[tuple[int, int]]:
    """Where at least QUOTE words stand as they stand in the rule."""
    told = [folded(word) for word in split_words(rule)]
    known = {tuple(told[at : at + QUOTE]) for at in range(len(told) - QUOTE + 1)}
    words = list(WORD.finditer(text))
    said = [folded(match[0]) for match in words]
    places: list[tuple[int, int]] = []
    for at in range(len(said) - QUOTE + 1):
        if tuple(said[at : at + QUOTE]) not in known:
            continue
        start, end = words[at].start(), words[at + QUOTE - 1].end()
        if places and start <= places[-1][1]:
            start = places.pop()[0]
        places.append((start, end))
    return places


@dataclass(frozen=True, slots=True)
class FailureSpan:
    """A piece of a text with the checks that refuse it there and what they say; both empty where nothing is wrong."""

    text: str
    checks: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()


def failure_spans(text: str, failures: Iterable[Mapping[str, Any]]) -> list[FailureSpan]:
    """A query or trace, cut where failures (as attempts store them) begin and end; joined again it is the text.

    A failure belongs to the text in which its evidence stands at its span; those of the other text, or of none, are
    passed over, so that one attempt's failures can be given for its query and for its trace.
    """
    here = [(*failure["span"], failure) for failure in failures if _stands(failure, text)]
    edges = sorted({0, len(text), *(edge for start, end, _ in here for edge in (start, end))})
    spans = []
    for start, end in pairwise(edges):
        told = [failure for first, last, failure in here if first <= start and end <= last]
        checks = tuple(dict.fromkeys(failure["check"] for failure in told))
        spans.append(FailureSpan(text[start:end], checks, tuple(failure["message"] for failure in told)))
    return spans


def _stands(failure: Mapping[str, Any], text: str) -> bool:
    start, end = failure.get("span", (0, 0))
    evidence = failure.get("evidence", "")
    return bool(evidence) and 0 <= start < end <= len(text) and text.startswith(evidence, start, end)
