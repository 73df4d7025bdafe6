"""How fast filter V is on the public catalog, and how its name scan compares with a scan name by name.

    python -m tests.bench.filter_speed [--samples 2000] [--pairs 9] [--data ../shared/data]

Compares what both scans find before it times them, then runs them in turn; medians of processor time. Prints samples a
second of the whole filter in one process, the same for the paper's four checks alone, and the ratio of the scans
at 1, 2 and 5 times the catalog. `A/A` is the scan against itself: above 10 % the machine was too busy to tell.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from catalog.core.mentions import Mention, stands_alone
from catalog.core.tokens import NameIndex
from synthesis.core.filters import Candidate, failures
from synthesis.core.names import Plain, ToolNames, is_title, letters_of
from tests.synthesis.clean_samples import Public, clean_samples, read_public
from tests.synthesis.paper_filter import paper_failures
from tests.token_lists import list_json

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument(
        "--data", type=Path, default=Path(os.environ.get("TRACE_PUBLIC_DATA", "../shared/data"))
    )
    options = parser.parse_args()
    public = read_public(options.data)
    samples = long_samples(public, options.samples)
    size = statistics.mean(len(sample.trace) for sample in samples)
    load, cores = os.getloadavg()[0], os.cpu_count()
    print(f"{len(samples):,} samples, traces of {size:,.0f} characters, load {load:.1f}, {cores} cores")
    whole_filter(public, samples, options.pairs)
    for times in (1, 2, 5):
        tools = [f"{name}{'' if number == 0 else number}" for name in public.tools for number in range(times)]
        found = compare(tools, samples, options.pairs)
        print(
            f"{len(tools):>7,} names: one by one {found.plain * 1e6:>8,.0f} us a sample, "
            f"automaton {found.automaton * 1e6:>5.1f} us, {found.ratio:>5.0f} x, A/A {found.noise:.1%}"
        )


def whole_filter(public: Public, samples: Sequence[Candidate], pairs: int) -> None:
    context = public.context()
    for number, sample in enumerate(samples):
        if number % 2:
            context.seen.add(f"{sample.query} once more, number {number}")
    apis, tokens = {name.partition("/")[0] for name in public.tools}, NameIndex(public.tools, "a").tokens

    def paper(sample: Candidate) -> object:
        text, rule = list_json(sample.answer, "a"), sample.rule_code or None
        return paper_failures(
            sample.query, sample.answer, text, sample.trace, sample.pool, apis, tokens, rule
        )

    turns = [
        (seconds(lambda sample: failures(sample, context), samples), seconds(paper, samples))
        for _ in range(pairs + 1)
    ][1:]
    ours, theirs = (statistics.median(column) for column in zip(*turns, strict=True))
    print(f"filter V: {1 / ours:,.0f} samples a second in one process ({ours * 1e6:.0f} us a sample)")
    print(f"the paper's four checks by themselves, transcribed: {1 / theirs:,.0f} a second")


if __name__ == "__main__":
    main()
