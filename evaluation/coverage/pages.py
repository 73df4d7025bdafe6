"""What the coverage pages show: figures and next steps drawn from `selectors.py`."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from django.http import Http404
from django.urls import reverse
from django.utils.http import urlencode

from catalog.models import Cluster, Tool
from catalog.selectors import pair_reasons, tools_by_id
from evaluation.coverage.selectors import ClusterRow, DomainCoverage, coverage
from rules.models import Rule, RuleVersion
from trace_site.paging import SIZE, Page


class StateWords(NamedTuple):
    label: str
    tone: str
    meaning: str
    sign: str  # on the map: a path in a box from -6 to 6, drawn with round strokes


STATES = {
    "no_rule": StateWords("no rule", "bad", "no published rule holds any of its pairs", "M-4-4 4 4M4-4-4 4"),
    "draft": StateWords(
        "draft",
        "wait",
        "a draft or an open change request holds two of its tools",
        "M-4.5 0h.01M0 0h.01M4.5 0h.01",
    ),
    "touched": StateWords("touched", "warn", "some pairs are covered, less than 80 %", "M0-5V1.5M0 5h.01"),
    "resolved": StateWords(
        "resolved", "run", "at least 80 % of its pairs are covered", "M-4.5.5-1.5 3.5 4.5-3.5"
    ),
    "taught": StateWords(
        "taught",
        "good",
        "resolved, and every rule has 10 approved samples",
        "M-6 .5-3 3.5 2-2.5M-.5 3 0 3.5 6-3.5",
    ),
    "in_champion": StateWords(
        "in champion",
        "taught",
        "taught, and the champion was trained on it",
        "M-5 4V-3L-2 0 0-4.5 2 0 5-3V4Z",
    ),
    "dismissed": StateWords("dismissed", "idle", "an expert said the descriptions are enough", "M-4 0H4"),
}
SCORE_FORMULA = "pairs no rule holds × mean similarity × (1 + production misses); misses are not recorded yet"


def domain_coverage(slug: str) -> DomainCoverage:
    """Without its recall; raises Http404."""
    for page in coverage(slug, recall=False):
        return page
    raise Http404


def clusters_url(domain: str, **filters: str) -> str:
    return f"{reverse('clusters')}?{urlencode({'domain': domain, **filters})}"


def state_parts(page: DomainCoverage) -> list[dict[str, Any]]:
    """The clusters of a domain by state, for the stacked bar and the key of the map."""
    return [
        {
            **words._asdict(),
            "state": state,
            "title": words.meaning,
            "count": page.totals.states[state],
            "href": clusters_url(page.domain, state=state),
        }
        for state, words in STATES.items()
    ]


def without_rule(page: DomainCoverage) -> int:
    return page.totals.states["no_rule"] + page.totals.states["draft"]


def next_steps(page: DomainCoverage) -> Iterator[tuple[str, str, str]]:
    """(what, why, where), the most useful first."""
    if page.clustering is None:
        why = "Nobody has looked for them since the tools were imported; the imports page does."
        yield "Find the look-alikes", why, reverse("catalog:imports")
        return
    if page.gaps:
        gap = page.gaps[0]
        why = f"{gap.label}: {gap.open} of its {gap.edges} pairs are told apart by nothing."
        yield "Write a rule for the costliest gap", why, reverse("cluster", args=[gap.id])
    for state, what, why in (
        ("draft", "Publish the drafts", "would be covered."),
        ("resolved", "Write and approve samples", "without approved samples to learn from."),
        ("taught", "Build a snapshot, train, promote", "not in the champion."),
    ):
        if count := page.totals.states[state]:
            clusters = f"{'' if state == 'draft' else f'{state} '}cluster{'s' if count > 1 else ''}"
            yield what, f"{count} {clusters} {why}", clusters_url(page.domain, state=state)


def write_url(domain: str, row: ClusterRow) -> str:
    """The rule editor with the cluster's tools filled in."""
    ids = ",".join(str(tool.id) for tool in row.tools)
    return f"{reverse('rules:create')}?{urlencode({'domain': domain, 'tools': ids})}"


def found_rows(page: DomainCoverage, state: str = "", search: str = "") -> list[ClusterRow]:
    """Gaps first, the costliest on top, then the rest; every word must occur in the label or a tool's name."""
    words = search.casefold().split()
    return [
        row for row in page.ranked if state in ("", row.state) and all(word in row.words for word in words)
    ]


def page_after(rows: list[ClusterRow], after: str) -> Page:
    """The rows behind cluster `after`; from the top when it is no longer among them."""
    start = next((place for place, row in enumerate(rows, start=1) if str(row.id) == after), 0)
    shown = rows[start : start + SIZE]
    return Page(shown, after if start else "", str(shown[-1].id) if len(rows) > start + SIZE else None)


def panel(page: DomainCoverage, row: ClusterRow, against: int = 0) -> dict[str, Any]:
    """What the panel and the page of a cluster share. Its tools are compared with the tool `against`, else with the
    first that is not deprecated."""
    tools = tools_by_id([tool.id for tool in row.tools])
    chosen = [tool for tool in tools if tool.pk == against] or [tool for tool in tools if not tool.deprecated]
    return {
        "row": row,
        "tools": tools,
        "reference": (chosen or tools)[0],
        "label": STATES[row.state],
        "meaning": STATES[row.state].meaning,
        "write_url": write_url(page.domain, row),
    }


def cluster_edges(row: ClusterRow, cluster: Cluster, tools: list[Tool]) -> list[dict[str, Any]]:
    """Every pair of the cluster with why it is one and the published rules that hold both: uncovered ones first, then
    by what speaks for them."""
    by_id = {tool.pk: tool for tool in tools}
    wanted = RuleVersion.objects.filter(pk__in=row.coverage.rules).select_related("rule")
    versions = list(wanted.defer("text", "clauses", "tests"))
    edges = [
        {
            "left": by_id[a],
            "right": by_id[b],
            "cosine": cosine,
            "weight": more[0] if more else cosine,
            "why": why,
            "rules": [one for one in versions if {a, b} <= set(one.tool_ids)],
        }
        for (a, b, cosine, *more), why in zip(cluster.edges, pair_reasons(cluster), strict=True)
    ]
    return sorted(edges, key=lambda edge: (bool(edge["rules"]), -edge["weight"], edge["left"].name))


def clusters_of_rule(page: DomainCoverage, rule: Rule) -> list[tuple[ClusterRow, str, int]]:
    """The clusters a rule's set reaches into, their state in words and how many of their pairs it holds, most first."""
    version = rule.published or rule.versions.order_by("-number").first()
    held = set(version.tool_ids) if version else set()
    found = [
        (row, STATES[row.state].label, count)
        for row in page.clusters
        if (count := sum(a in held and b in held for a, b, _ in row.coverage.cluster.edges))
    ]
    return sorted(found, key=lambda entry: (-entry[2], entry[0].id))
