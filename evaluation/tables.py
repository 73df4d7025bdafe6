"""Results as lines of text for the command line."""

from collections.abc import Iterator
from typing import Any

from evaluation.core.coverage import STATES
from evaluation.coverage_rows import DomainCoverage
from evaluation.models import Evaluation

HEADLINES = (
    "hit@1",
    "recall@1",
    "recall@5",
    "recall@10",
    "hit@10",
    "recall@gen",
    "precision@gen",
    "f1",
    "set_size",
    "refused",
)
MOST_GAPS = 10


def interval(cell: dict[str, Any]) -> str:
    return f"{cell['mean']:.3f} [{cell['low']:.3f}, {cell['high']:.3f}]"


def evaluation_lines(evaluation: Evaluation) -> Iterator[str]:
    """One line per domain and group: n, then every metric with its interval."""
    who = (
        f"model {evaluation.model_id} {evaluation.model.run.cell}"
        if evaluation.model
        else "embedding baseline"
    )
    yield f"{who} on {evaluation.benchmark.title}, {evaluation.decode}"
    if evaluation.benchmark.is_development:
        yield "  a development half: thresholds are chosen on it, so its figures are not shown"
        return
    if left_out := (evaluation.metrics or {}).get("left_out"):
        asked = f"{left_out} of {evaluation.benchmark.count} questions"
        yield f"  {asked} are about tools that Stage 1 may learn letters on: not counted"
    for domain, groups in ((evaluation.metrics or {}).get("slices") or {}).items():
        if "accuracy" in groups:
            yield f"  {domain}: n {groups['n']}  accuracy {interval(groups['accuracy'])}  chance {groups['random']:.3f}"
            continue
        for group, found in groups.items():
            cells = found["metrics"]
            shown = "  ".join(f"{name} {interval(cells[name])}" for name in HEADLINES if name in cells)
            off = found.get("off_vocabulary")
            rest = f"  off-vocabulary {off['rate']:.3f}" if evaluation.decode == "trace-free" and off else ""
            if rate := (found.get("citation") or {}).get("rate"):
                rest += f"  cites a rule {rate:.3f}"
            rest += following_words(found.get("following") or {"n": 0})
            yield f"  {domain}/{group}: n {found['n']}  {shown}{rest}"


def following_words(counts: dict[str, Any]) -> str:
    """Answers that follow their trace, of those that have one; empty where there is none or it was not measured."""
    if not counts["n"]:
        return ""
    silent = f", {counts['names_no_tool']} name no tool" if counts["names_no_tool"] else ""
    return f"  follows its trace {counts['rate']:.3f} ({counts['follows']} of {counts['n']}{silent})"


def coverage_lines(row: DomainCoverage) -> Iterator[str]:
    """The state of a domain and its costliest gaps."""
    if row.clustering is None:
        yield f"{row.domain}: {row.tools:,} tools, no clusters yet (run manage.py catalog_clusters)"
        return
    done = row.totals
    yield f"{row.domain}: {row.tools:,} tools, {row.rules} published rules"
    yield f"  clustering v{row.clustering}, tau {row.tau:.2f}"
    states = "  ".join(
        f"{state.replace('_', ' ')} {done.states[state]}" for state in STATES if done.states[state]
    )
    yield f"  {done.done} of {done.clusters} clusters resolved ({states})"
    yield f"  {done.edges_covered:,} of {done.edges:,} edges, {done.tools_covered:,} of {done.tools:,} clustered tools"
    lost = sum(len(one.outside) for one in row.outside)
    yield f"  {lost} pairs of {len(row.outside)} rules lie outside every cluster"
    if groups := row.recall.get("groups"):
        metric = "recall@gen" if row.recall["decode"] in ("trace", "trace-free") else "recall@1"
        tier = f", {row.recall['tier']} tier" if row.recall["tier"] else ""
        yield f"  {row.recall['benchmark']}{tier}, {row.recall['decode']}"
        for group, found in groups.items():
            base = row.recall["embedding"].get(group, {}).get("metrics", {}).get("recall@1")
            beside = f"   embedding recall@1 {interval(base)}" if base else ""
            yield f"  {group}: {metric} {interval(found['metrics'][metric])} n {found['n']}{beside}"
    for gap in row.gaps[:MOST_GAPS]:
        yield f"  gap {gap.gap_score:6.1f}  {gap.edges - gap.covered} of {gap.edges} edges  {gap.state:<8} {gap.label}"
    if len(row.gaps) > MOST_GAPS:
        yield f"  ... and {len(row.gaps) - MOST_GAPS} more"
