"""Do clusters hold the pairs that vendors had to explain? Measured on the public catalog and its rules.

    python -m bench.lookalikes [--half first|second] [--seed 20] [--cache DIR] [--curve]

The rules are halved by rule: rules that share a tool stay together. What is tuned is tuned on the first half; the
second is looked at once, at the end. No text of a rule is read, only which tools it names. A pair is (target,
look-alike) of a rule. `--cache` keeps the embeddings; it must not hold those of another catalog.
"""

import argparse
import json
import os
import random
import resource
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

Pair = tuple[str, str]
CURVE = (0.9, 1.0, 1.15, 1.3, 1.45, 1.6, 1.8, 2.2)
K = 13
THRESHOLD = 1e-9


class Public(NamedTuple):
    tools: dict[str, dict[str, Any]]
    rules: list[dict[str, Any]]
    queries: list[dict[str, Any]]  # labelled; most are about a rule


def halves(rules: Sequence[dict[str, Any]], seed: int) -> tuple[list[int], list[int]]:
    """Rules by number. Those that share a tool are one group; groups go, shuffled, to the half that has fewer rules."""
    parent = list(range(len(rules)))

    def top(place: int) -> int:
        while parent[place] != place:
            place = parent[place]
        return place

    owner: dict[str, int] = {}
    for place, rule in enumerate(rules):
        for tool in rule_set(rule):
            one, other = sorted((top(place), top(owner.setdefault(tool, place))))
            parent[other] = one
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for place in range(len(rules)):
        groups[top(place)].append(place)
    shuffled = sorted(groups.values())
    random.Random(seed).shuffle(shuffled)
    found: tuple[list[int], list[int]] = ([], [])
    for group in shuffled:
        min(found, key=len).extend(group)
    return sorted(found[0]), sorted(found[1])


def rule_set(rule: dict[str, Any]) -> list[str]:
    return [rule["tool_name"], *rule["confusables"]]


def pairs_of(rules: Sequence[dict[str, Any]], chosen: Iterable[int]) -> list[Pair]:
    return [(rules[place]["tool_name"], other) for place in chosen for other in rules[place]["confusables"]]


def read_public(folder: Path) -> Public:
    lines = [line for path in sorted((folder / "catalog").glob("*.jsonl")) for line in path.open()]
    tools = {tool["name"]: tool for tool in map(json.loads, lines)}
    asked = (folder / "benchmarks" / "prb_public" / "queries.jsonl").open()
    return Public(tools, json.loads((folder / "rules" / "rules.json").read_text()), [*map(json.loads, asked)])


def embeddings(tools: dict[str, dict[str, Any]], cache: Path | None) -> np.ndarray:
    """Of the tools by name."""
    from catalog.core.tool import embedding_text
    from catalog.lookalikes import encode_texts

    names = sorted(tools)
    if cache and (cache / "embeddings.npy").is_file():
        if json.loads((cache / "ids.json").read_text()) != names:
            raise SystemExit(f"{cache} holds other tools")
        return np.load(cache / "embeddings.npy")  # type: ignore[no-any-return]
    texts = [{"id": name, "text": embedding_text(name, tools[name]["description"])} for name in names]
    ids, rows = encode_texts(texts, echo=print)
    assert ids == names
    if cache:
        cache.mkdir(parents=True, exist_ok=True)
        np.save(cache / "embeddings.npy", rows)
        (cache / "ids.json").write_text(json.dumps(ids))
    return rows


class World:
    """The clusters of every domain, by some floor, with or without the vendor's words."""

    def __init__(self, public: Public, rows: np.ndarray) -> None:
        from catalog.core.edges import operations
        from catalog.core.neighbours import top_k

        self.tools = public.tools
        self.names = sorted(public.tools)
        self.place = {name: place for place, name in enumerate(self.names)}
        self.rows = rows
        self.first = sorted(operations(self.names).versions)
        positions, cosines = top_k(rows[[self.place[name] for name in self.first]], K)
        self.lists = {
            name: [(self.first[other], float(cosine)) for other, cosine in zip(near, scores, strict=True)]
            for name, near, scores in zip(self.first, positions, cosines, strict=True)
        }
        self.domains = sorted({tool["domain"] for tool in public.tools.values()})

    def graph(self, domain: str, words: bool) -> Any:
        from catalog.core.edges import Graph, ToolText

        texts = {
            name: ToolText(tool["description"], tool["deprecated"])
            for name, tool in self.tools.items()
            if tool["domain"] == domain
        }
        lists = {
            name: [(other, cosine) for other, cosine in near if other in texts]
            for name, near in self.lists.items()
            if name in texts
        }
        return Graph(texts, lists, words=words)

    def cosines(self, pairs: Sequence[Pair]) -> dict[Pair, float]:
        left, right = ([self.place[pair[side]] for pair in pairs] for side in (0, 1))
        found = (self.rows[left].astype(np.float64) * self.rows[right]).sum(axis=1) if pairs else []
        return {pair: round(float(cosine), 6) for pair, cosine in zip(pairs, found, strict=True)}

    def clusters(self, words: bool = True, floors: Sequence[float] = ()) -> Iterator[tuple[float, list[Any]]]:
        """(floor, clusters) for each floor."""
        from catalog.core.clusters import find_clusters
        from catalog.core.edges import FLOOR

        lowest = min([*floors, FLOOR])
        parts = []
        for domain in self.domains:
            graph = self.graph(domain, words)
            near = self.cosines([pair for pair in graph.pairs() if pair not in graph.cosines])
            near |= self.cosines(sorted(set(graph.operations.pairs()) - near.keys()))
            parts.append((graph, graph.edges(near, floor=lowest), near))
        for floor in floors or (FLOOR,):
            found: list[Any] = []
            for graph, edges, near in parts:
                kept = [edge for edge in edges if edge.weight >= floor]
                found += find_clusters(kept, graph.operations, near)
            yield floor, found


def shares(clusters: Sequence[Any], pairs: Sequence[Pair], tools: int) -> dict[str, Any]:
    home = {name: place for place, cluster in enumerate(clusters) for name in cluster.tools}
    held = sum(left in home and home[left] == home.get(right) for left, right in pairs)
    sizes = [len(cluster.tools) for cluster in clusters]
    return {
        "pairs_held": held,
        "pairs": len(pairs),
        "share_held": round(held / len(pairs), 3),
        "share_of_tools": round(len(home) / tools, 3),
        "clusters": len(clusters),
        "median_size": median(sizes),
        "largest": max(sizes),
        "edges": sum(len(cluster.edges) for cluster in clusters),
        "tool_pairs_inside": sum(size * (size - 1) // 2 for size in sizes),
    }


def expected_rules(cluster: Any) -> float:
    from evaluation.core.confusion import rule_chance

    return sum(rule_chance(edge.signals.as_dict()) for edge in cluster.edges)


SCORES: dict[str, Callable[[Any], float]] = {
    "edges x similarity (the gap score of before)": lambda cluster: (
        len(cluster.edges) * cluster.mean_similarity
    ),
    "similarity": lambda cluster: cluster.mean_similarity,
    "expected rules, all signals": expected_rules,
    "heaviest edge": lambda cluster: max(edge.weight for edge in cluster.edges),
    "sum of weights": lambda cluster: sum(edge.weight for edge in cluster.edges),
}


class Asked(NamedTuple):
    """A labelled request, and the tool that the embedding chooses first for it."""

    gold: tuple[str, ...]
    first: str


def ask_embedding(world: "World", queries: Sequence[dict[str, Any]]) -> list[Asked]:
    from catalog.lookalikes import encode_texts

    texts = [{"id": str(place), "text": row["query"]} for place, row in enumerate(queries)]
    ids, rows = encode_texts(texts)
    best = (rows @ world.rows.T).argmax(axis=1)
    return [
        Asked(tuple(queries[int(place)]["tools"]), world.names[first])
        for place, first in zip(ids, best, strict=True)
    ]


def page_order(clusters: Sequence[Any], place: dict[str, int], asked: Sequence[Asked]) -> list[float]:
    """Of each cluster, a number that is higher the further up a page shows it: by gap score, then by what signals let
    expect. No rule is published, so every pair is open; a tool counts one request."""
    from evaluation.core import confusion
    from evaluation.core.coverage import ClusterFacts, cover

    facts = []
    for number, cluster in enumerate(clusters):
        edges = {(place[edge.left], place[edge.right]): edge.signals for edge in cluster.edges}
        chances = {pair: confusion.rule_chance(signals.as_dict()) for pair, signals in edges.items()}
        known = tuple((a, b, signals.cosine) for (a, b), signals in edges.items())
        facts.append(
            ClusterFacts(number, frozenset(map(place.__getitem__, cluster.tools)), known, 0.0, False, chances)
        )
    rows, side = cover(facts, []), confusion.EMBEDDING
    outcomes = [
        confusion.Outcome(tuple(map(place.__getitem__, one.gold)), {side: place[one.first]}) for one in asked
    ]
    tallies = confusion.Tallies.count(outcomes, confusion.Ground.build(rows), side).tools
    ranks = []
    for row in rows:
        terms = confusion.gap_terms(confusion.open_tools(row), tallies, {})
        bounds = confusion.expected(terms)
        unmeasured = any(not term.n for term in terms)
        score = bounds.value if bounds else None
        ranks.append(confusion.Rank(row.cluster.id, score, unmeasured, row.expected_rules))

    height = {place: number for number, place in enumerate(sorted({rank.place for rank in ranks}))}
    return [-float(height[rank.place]) for rank in ranks]


Scores = dict[str, Sequence[float]]


def scores_of(clusters: Sequence[Any]) -> Scores:
    return {title: [score(cluster) for cluster in clusters] for title, score in SCORES.items()}


def ranking(
    clusters: Sequence[Any], scores: Scores, wanted: Sequence[Pair], other: Sequence[Pair]
) -> dict[str, Any]:
    """AUC of each score: clusters that hold a wanted pair above those that hold no rule's pair at all."""
    home = {name: place for place, cluster in enumerate(clusters) for name in cluster.tools}

    def holding(pairs: Sequence[Pair]) -> set[int]:
        return {home[a] for a, b in pairs if a in home and home[a] == home.get(b)}

    positive, ignored = holding(wanted), holding(other)
    negative = [place for place in range(len(clusters)) if place not in positive | ignored]
    found = {}
    for title, values in scores.items():
        plus = np.array([values[place] for place in sorted(positive)])
        minus = np.sort([values[place] for place in negative])
        below = np.searchsorted(minus, plus - THRESHOLD) + np.searchsorted(
            minus, plus + THRESHOLD, side="right"
        )
        found[title] = round(float(below.mean() / (2 * len(minus))), 3)
    return {"with_rules": len(positive), "without": len(negative), "auc": found}


def without_words(clusters: Sequence[Any]) -> list[Any]:
    """The same clusters, whose edges no longer say what descriptions say."""

    def silent(edge: Any) -> Any:
        return replace(edge, signals=replace(edge.signals, points=(), deprecated=""))

    return [replace(cluster, edges=tuple(map(silent, cluster.edges))) for cluster in clusters]


def one_edit(world: World) -> dict[str, Any]:
    """Neighbours after one description changed: CPU seconds of what can have changed and of everything."""
    from catalog.core.neighbours import top_k

    positions, cosines = top_k(world.rows, K)
    edited = len(world.rows) // 2
    rows = world.rows.copy()
    rows[edited] = rows[edited // 2]
    known = {}
    for place in range(len(rows)):
        if place != edited:
            still = [
                (int(other), float(cosine))
                for other, cosine in zip(positions[place], cosines[place], strict=True)
                if other != edited
            ]
            known[place] = ([other for other, _ in still], [cosine for _, cosine in still])
    started = time.process_time()
    again = top_k(rows, K, known=known)
    between = time.process_time()
    whole = top_k(rows, K)
    ended = time.process_time()
    return {
        "equal": bool((again[0] == whole[0]).all() and (again[1] == whole[1]).all()),
        "cpu_seconds_after_one_edit": round(between - started, 2),
        "cpu_seconds_of_all": round(ended - between, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--half", choices=("first", "second"), default="first")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--curve", action="store_true", help="other floors too")
    asked = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trace_site.settings")
    import django

    django.setup()
    from django.conf import settings

    from catalog.core.edges import FLOOR
    from trace_site.lib.provenance import code_revision, hardware_facts

    public = read_public(Path(settings.TRACE_PUBLIC_DATA))
    rows = embeddings(public.tools, asked.cache)
    chosen, others = halves(public.rules, asked.seed)[:: 1 if asked.half == "first" else -1]
    pairs, rest = pairs_of(public.rules, chosen), pairs_of(public.rules, others)
    started = time.process_time()
    world = World(public, rows)
    found: dict[str, Any] = {}
    for words in (True, False):
        clusters = next(iter(world.clusters(words)))[1]
        if words:
            spent = round(time.process_time() - started, 1)
            silent, told = without_words(clusters), ask_embedding(world, public.queries)
            held = {name for place in chosen for name in rule_set(public.rules[place])}
            orders = {
                "gap score, nothing measured": page_order(clusters, world.place, []),
                "gap score, measured by requests about no rule of this half": page_order(
                    clusters, world.place, [one for one in told if not held & set(one.gold)]
                ),
                "gap score, measured by all public requests (most are about rules)": page_order(
                    clusters, world.place, told
                ),
            }
            found["ranking"] = ranking(clusters, scores_of(clusters) | orders, pairs, rest)
            quiet = {"gap score, nothing measured": page_order(silent, world.place, [])}
            found["ranking, words withheld"] = ranking(silent, scores_of(silent) | quiet, pairs, rest)
        found["with words" if words else "without words"] = shares(clusters, pairs, len(public.tools))
    if asked.curve:
        for words in (True, False):
            found[f"curve {'with' if words else 'without'} words"] = [
                {"floor": floor, **shares(clusters, pairs, len(public.tools))}
                for floor, clusters in world.clusters(words, CURVE)
            ]
    machine = hardware_facts(settings.ML_THREADS)
    made = {
        "half": asked.half,
        "rules": len(chosen),
        "seed": asked.seed,
        "floor": FLOOR,
        "encoder": settings.ENCODER,
    }
    print(json.dumps({**made, "machine": machine, "code": code_revision(settings.BASE_DIR)["commit"]}))
    for title, figures in found.items():
        for figure in figures if isinstance(figures, list) else [figures]:
            print(f"{title}: {json.dumps(figure)}")
    spent_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"cpu_seconds_once_encoded": spent, "peak_mb": spent_mb, **one_edit(world)}))


if __name__ == "__main__":
    main()
