"""What filter V says about samples now, benchmark queries included: one text as somebody types it, or a whole lot."""

from collections.abc import Iterable, Iterator
from functools import cached_property

from catalog.queries import BenchmarkFirewall, benchmark_firewall
from rules.models import RuleVersion
from synthesis.core.filters import Candidate, Failure, FilterContext, query_failures, trace_failures
from synthesis.core.queries import RuleText
from synthesis.core.recipe import read_recipe
from synthesis.models import Sample
from synthesis.sources import CatalogView, load_catalog, published_codes, rule_texts
from trace_site.lib.files import content_hash


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
        candidate, context = self._candidate(sample, query, trace, given), self._context(sample)
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
    def _firewall(self) -> BenchmarkFirewall:
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

    def _candidate(self, sample: Sample, query: str, trace: str, answer: tuple[str, ...]) -> Candidate:
        rule = self._rule(sample.rule_version) if sample.rule_version else None
        pool = self._catalog.pool(sample.pool or sample.answer)
        return Candidate(
            branch=sample.branch,
            query=query,
            answer=answer,
            pool=frozenset(tool.name for tool in pool),
            trace=trace,
            style=sample.style,
            tier=sample.tier,
            rule_code=rule.code if rule else "",
            rule_tools=rule.tools if rule else (),
            permission_tags=frozenset(tag for tool in pool for tag in tool.permissions),
        )

    def _rule(self, version: RuleVersion) -> RuleText:
        if version.pk not in self._rules:
            self._rules[version.pk] = rule_texts([version])[0]
        return self._rules[version.pk]


def check(*, sample: Sample, query: str, trace: str, answer: list[str] | None = None) -> list[Failure]:
    """What filter V says about a text as a person typed it, benchmark queries included."""
    return Checker().failures(sample, query, trace, answer)
