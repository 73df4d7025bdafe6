"""The name scan of filter V finds what a scan name by name finds, at a fraction of its cost."""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from django.conf import settings

from catalog.core.mentions import Mention, stands_alone
from synthesis.core.filters import Candidate
from synthesis.core.names import Plain, ToolNames, is_title, letters_of
from tests.synthesis.clean_samples import Public, clean_samples, read_public

DATA = Path(settings.TRACE_PUBLIC_DATA)
pytestmark = pytest.mark.skipif(
    not (DATA / "catalog").is_dir(), reason="the public data is absent (set TRACE_PUBLIC_DATA)"
)

Found = tuple[list[Mention], list[Mention]]  # of the trace, of the query


class ByName:
    """The plain way: one `in` for each name, then the same boundary and longest rules."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = sorted(names)
        self.letters = [(name, letters_of(name)) for name in self.names if is_title(name.partition("/")[2])]

    def scan(self, sample: Candidate) -> Found:
        plain = Plain(sample.query)
        spelt = [(*plain.span(start, end), name) for start, end, name in self.mentions(plain.text)]
        for name, letters in self.letters:
            if letters in plain.letters:
                spelt += [(*place, name) for place in plain.places(letters)]
        return self.mentions(sample.trace), sorted(spelt)

    def mentions(self, text: str) -> list[Mention]:
        found = []
        for name in self.names:
            if name in text:
                at = text.find(name)
                while at >= 0:
                    if stands_alone(text, at, at + len(name)):
                        found.append((at, -at - len(name), name))
                    at = text.find(name, at + 1)
        kept: list[Mention] = []
        for start, end, name in sorted(found):
            if not kept or start >= kept[-1][1]:
                kept.append((start, -end, name))
        return kept


def automaton_scan(names: ToolNames, sample: Candidate) -> Found:
    return names.mentions(sample.trace), sorted(names.spellings(Plain(sample.query)))


def long_samples(public: Public, count: int, seed: int = 3) -> list[Candidate]:
    """Clean samples with traces of about 1.5 kB, a tenth of them with a leaked or invented name."""
    found: list[Candidate] = []
    for sample in clean_samples(public, 20 * count, seed):
        if not 1300 <= len(sample.trace) <= 1800:
            continue
        if len(found) % 10 == 0:
            name = sample.answer[0]
            sample = replace(
                sample, query=f"{sample.query} {name.replace('/', ' ')}", trace=f"{name}x {sample.trace}"
            )
        found.append(sample)
        if len(found) == count:
            break
    return found


@dataclass(frozen=True)
class Comparison:
    """Seconds of processor time a sample, medians over the pairs."""

    plain: float
    automaton: float
    again: float  # the automaton's scan a second time

    @property
    def ratio(self) -> float:
        return self.plain / self.automaton

    @property
    def noise(self) -> float:
        return abs(self.again / self.automaton - 1)


def compare(tools: Sequence[str], samples: Sequence[Candidate], pairs: int) -> Comparison:
    """Raises AssertionError when the two scans differ in anything. A slow scan reads fewer samples per turn."""
    plain, names = ByName(tools), ToolNames(tools)
    few = samples[:: max(1, len(samples) // 20)]
    for sample in few:
        assert plain.scan(sample) == automaton_scan(names, sample), sample
    turns: tuple[list[float], list[float], list[float]] = ([], [], [])
    for pair in range(pairs + 1):
        times = (
            seconds(plain.scan, few),
            seconds(lambda sample: automaton_scan(names, sample), samples),
            seconds(lambda sample: automaton_scan(names, sample), samples),
        )
        if pair:  # the first turn warms caches
            for turn, took in zip(turns, times, strict=True):
                turn.append(took)
    return Comparison(*(statistics.median(turn) for turn in turns))


def seconds(work: Callable[[Candidate], object], samples: Sequence[Candidate]) -> float:
    start = time.process_time()
    for sample in samples:
        work(sample)
    return (time.process_time() - start) / len(samples)


def test_the_scan_is_fifty_times_cheaper_than_one_name_by_name() -> None:
    public = read_public(DATA)
    found = compare(list(public.tools), long_samples(public, 60), pairs=3)
    assert found.ratio >= 50  # 150 and more where nothing else runs


def test_both_scans_find_the_same_in_texts_full_of_names_run_together() -> None:
    public, rng = read_public(DATA), random.Random(5)
    tools = list(public.tools)
    plain, names = ByName(tools), ToolNames(tools)
    for sample in long_samples(public, 40):
        glue = rng.choice(("", ".", "-", "/", " ", ", ", "é", "_"))
        text = glue.join(rng.choice(tools)[rng.choice((0, 0, 1)) :] for _ in range(8))
        query = rng.choice((text.replace("/", ""), text.lower(), text.replace("-", " ").replace("/", " ")))
        spoilt = replace(sample, trace=text, query=query)
        assert plain.scan(spoilt) == automaton_scan(names, spoilt)
