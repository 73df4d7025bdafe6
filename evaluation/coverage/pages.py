"""What the coverage pages show: figures and next steps drawn from `coverage.py`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from django.utils.http import urlencode

from catalog.models import Tool
from catalog.selectors import tools_by_id
from evaluation.coverage.rows import ClusterRow, DomainCoverage
from rules.models import Rule, RuleVersion
from trace_site.paging import SIZE, Page

STATE_LABELS = {
    "no_rule": ("no rule", "bad"),
    "draft": ("draft", "wait"),
    "touched": ("touched", "warn"),
    "resolved": ("resolved", "run"),
    "taught": ("taught", "good"),
    "in_champion": ("in champion", "taught"),
    "dismissed": ("dismissed", "idle"),
}
STATES = tuple(STATE_LABELS)
STATE_MEANINGS = {
    "no_rule": "no published rule holds any of its pairs",
    "draft": "a draft or an open change request holds two of its tools",
    "touched": "some pairs are covered, less than 80 %",
    "resolved": "at least 80 % of its pairs are covered",
    "taught": "resolved, and every rule has 10 approved samples",
    "in_champion": "taught, and the champion was trained on it",
    "dismissed": "an expert said the descriptions are enough",
}
SCORE_FORMULA = "pairs no rule holds × mean similarity × (1 + production misses); misses are not recorded yet"
# signs of the map: paths in a box from -6 to 6, drawn with round strokes
STATE_SIGNS = {
    "no_rule": "M-4-4 4 4M4-4-4 4",
    "draft": "M-4.5 0h.01M0 0h.01M4.5 0h.01",
    "touched": "M0-5V1.5M0 5h.01",
    "resolved": "M-4.5.5-1.5 3.5 4.5-3.5",
    "taught": "M-6 .5-3 3.5 2-2.5M-.5 3 0 3.5 6-3.5",
    "in_champion": "M-5 4V-3L-2 0 0-4.5 2 0 5-3V4Z",
    "dismissed": "M-4 0H4",
}


@dataclass(frozen=True, slots=True)
class Edge:
    """A pair of look-alikes and the published rules that hold both."""

    left: Tool
    right: Tool
    cosine: float
    rules: list[RuleVersion]


def clusters_url(domain: str, **filters: str) -> str:
    return f"{reverse('clusters')}?{urlencode({'domain': domain, **filters})}"


def state_parts(page: DomainCoverage) -> list[dict[str, Any]]:
    """The clusters of a domain by state, for the stacked bar."""
    return [
        {
            "label": label,
            "tone": tone,
            "count": page.totals.states[state],
            "href": clusters_url(page.domain, state=state),
            "title": STATE_MEANINGS[state],
        }
        for state, (label, tone) in STATE_LABELS.items()
    ]


def legend(page: DomainCoverage) -> list[dict[str, Any]]:
    """Every state with its word, tone, sign, meaning and count, for the key of the map."""
    return [
        {
            "state": state,
            "label": label,
            "tone": tone,
            "sign": STATE_SIGNS[state],
            "meaning": STATE_MEANINGS[state],
            "count": page.totals.states[state],
        }
        for state, (label, tone) in STATE_LABELS.items()
    ]


def without_rule(page: DomainCoverage) -> int:
    return page.totals.states["no_rule"] + page.totals.states["draft"]


def next_steps(page: DomainCoverage) -> Iterator[tuple[str, str, str]]:
    """(what, why, where), the most useful first."""
    if page.clustering is None:
        yield (
            "Find the look-alikes",
            "Nobody has looked for them since the tools were imported; the imports page does.",
            reverse("catalog:imports"),
        )
        return
    if page.gaps:
        gap = page.gaps[0]
        why = f"{gap.label}: {gap.edges - gap.covered} of its {gap.edges} pairs are told apart by nothing."
        yield "Write a rule for the costliest gap", why, reverse("cluster", args=[gap.id])
    if drafts := page.totals.states["draft"]:
        why = f"{drafts} cluster{'s' if drafts > 1 else ''} would be covered."
        yield "Publish the drafts", why, clusters_url(page.domain, state="draft")
    if resolved := page.totals.states["resolved"]:
        why = f"{resolved} resolved cluster{'s' if resolved > 1 else ''} lack approved samples to learn from."
        yield "Write and approve samples", why, clusters_url(page.domain, state="resolved")
    if taught := page.totals.states["taught"]:
        why = f"{taught} taught cluster{'s' if taught > 1 else ''} are not in the champion."
        yield "Build a snapshot, train, promote", why, clusters_url(page.domain, state="taught")


def write_url(domain: str, row: ClusterRow) -> str:
    """The rule editor with the cluster's tools filled in."""
    ids = ",".join(str(tool.id) for tool in row.tools)
    return f"{reverse('rules:create')}?{urlencode({'domain': domain, 'tools': ids})}"


def found_rows(page: DomainCoverage, state: str = "", search: str = "") -> list[ClusterRow]:
    """Gaps first, the costliest on top, then the rest; every word must occur in the label or a tool's name."""
    words = search.casefold().split()
    return [
        row
        for row in page.ranked
        if (row.state == state or not state) and all(word in row.words for word in words)
    ]


def page_after(rows: list[ClusterRow], after: str) -> Page:
    """The rows behind cluster `after`; from the top when it is no longer among them."""
    start = next((place for place, row in enumerate(rows, start=1) if str(row.id) == after), 0)
    shown = rows[start : start + SIZE]
    return Page(shown, after if start else "", str(shown[-1].id) if len(rows) > start + SIZE else None)


def panel(page: DomainCoverage, row: ClusterRow) -> dict[str, Any]:
    """What the panel and the page of a cluster share."""
    tools = tools_by_id([tool.id for tool in row.tools])
    return {
        "row": row,
        "tools": tools,
        "reference": reference(tools),
        "label": STATE_LABELS[row.state],
        "meaning": STATE_MEANINGS[row.state],
        "write_url": write_url(page.domain, row),
    }


def reference(tools: list[Tool], chosen: int = 0) -> Tool:
    """The tool the others are compared with: the chosen one, else the first that is not deprecated."""
    wanted = (
        [tool for tool in tools if tool.pk == chosen]
        or [tool for tool in tools if not tool.deprecated]
        or tools
    )
    return wanted[0]


def cluster_edges(row: ClusterRow, tools: Iterable[Tool]) -> list[Edge]:
    """Every pair of the cluster, uncovered ones first, then by similarity."""
    by_id = {tool.pk: tool for tool in tools}
    wanted = RuleVersion.objects.filter(pk__in=row.coverage.rules).select_related("rule")
    versions = list(wanted.defer("text", "clauses", "tests"))
    edges = [
        Edge(by_id[a], by_id[b], cosine, [one for one in versions if {a, b} <= set(one.tool_ids)])
        for a, b, cosine in row.coverage.cluster.edges
    ]
    return sorted(edges, key=lambda edge: (bool(edge.rules), -edge.cosine, edge.left.name))


def clusters_of_rule(page: DomainCoverage, rule: Rule) -> list[tuple[ClusterRow, int]]:
    """The clusters a rule's set reaches into, with how many of their pairs it holds, most first."""
    version = rule.published or rule.versions.order_by("-number").first()
    held = set(version.tool_ids) if version else set()
    rows = {row.id: row for row in map(page.cluster_of, held) if row is not None}
    counted = [
        (row, sum(a in held and b in held for a, b, _ in row.coverage.cluster.edges)) for row in rows.values()
    ]
    return sorted(((row, count) for row, count in counted if count), key=lambda pair: (-pair[1], pair[0].id))
