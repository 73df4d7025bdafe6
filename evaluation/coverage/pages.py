"""What the coverage pages show: figures and next steps drawn from `selectors.py`."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from django.http import Http404
from django.urls import reverse
from django.utils.http import urlencode

from catalog.models import Cluster, Tool
from catalog.selectors import pair_reasons, tools_by_id
from evaluation.core.coverage import DONE, pair_of
from evaluation.coverage.selectors import ClusterRow, DomainCoverage, coverage
from rules.models import Rule, RuleVersion
from rules.selectors import newest_readings
from trace_site.paging import SIZE, Page


class StateWords(NamedTuple):
    label: str
    tone: str
    meaning: str
    sign: str  # on the map: a path in a box from -6 to 6, drawn with round strokes


STATES = {
    "no_rule": StateWords("no rule", "bad", "no published rule names any of its pairs", "M-4-4 4 4M4-4-4 4"),
    "draft": StateWords(
        "draft",
        "wait",
        "a draft or an open change request holds two of its tools",
        "M-4.5 0h.01M0 0h.01M4.5 0h.01",
    ),
    "named": StateWords(
        "named only",
        "bad",
        "published rules name its tools, and no condition tells a pair of them apart",
        "M-4.5-3H4.5M-4.5 3H4.5",
    ),
    "touched": StateWords("touched", "warn", "some pairs are told apart, less than 80 %", "M0-5V1.5M0 5h.01"),
    "resolved": StateWords(
        "resolved", "run", "at least 80 % of its pairs are told apart", "M-4.5.5-1.5 3.5 4.5-3.5"
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
OPEN = ("no_rule", "draft", "named")
SCORE_FORMULA = (
    "pairs no rule tells apart × mean similarity × (1 + production misses); misses are not recorded yet"
)


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
    """Clusters of which no rule tells any pair apart; `?state=open` lists them."""
    return sum(page.totals.states[state] for state in OPEN)


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
        ("named", "Say when each tool is right", "only named by rules."),
        ("draft", "Publish the drafts", "would be covered."),
        ("resolved", "Write and approve samples", "without approved samples to learn from."),
        ("taught", "Build a snapshot, train, promote", "not in the champion."),
    ):
        if count := page.totals.states[state]:
            clusters = f"{f'{state} ' if state in DONE else ''}cluster{'s' if count > 1 else ''}"
            yield what, f"{count} {clusters} {why}", clusters_url(page.domain, state=state)


def write_url(domain: str, row: ClusterRow) -> str:
    """The rule editor with the cluster's tools filled in."""
    ids = ",".join(str(tool.id) for tool in row.tools)
    return f"{reverse('rules:create')}?{urlencode({'domain': domain, 'tools': ids})}"


def found_rows(page: DomainCoverage, state: str = "", search: str = "") -> list[ClusterRow]:
    """Gaps first, the costliest on top, then the rest; every word must occur in the label or a tool's name."""
    words, states = (
        search.casefold().split(),
        OPEN if state == "open" else (state,) if state else tuple(STATES),
    )
    return [row for row in page.ranked if row.state in states and all(word in row.words for word in words)]


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
    """Every pair of the cluster with why it is one, the published rules that tell it apart, and those that only name
    it: open ones first, then by what speaks for them."""
    by_id = {tool.pk: tool for tool in tools}
    wanted = RuleVersion.objects.filter(pk__in={*row.coverage.rules, *row.coverage.naming})
    versions = list(wanted.select_related("rule").defer("text", "clauses", "tests"))
    apart = {
        reading.version_id: {tuple(pair) for pair in reading.apart}
        for reading in newest_readings(versions).defer("said", "pairs", "corrections")
    }
    edges = []
    for (a, b, cosine, *more), why in zip(cluster.edges, pair_reasons(cluster), strict=True):
        holding = [one for one in versions if {a, b} <= set(one.tool_ids)]
        telling = [one for one in holding if pair_of(a, b) in apart.get(one.pk, ())]
        edges.append(
            {
                "left": by_id[a],
                "right": by_id[b],
                "cosine": cosine,
                "weight": more[0] if more else cosine,
                "why": why,
                "rules": telling,
                "naming": [] if telling else holding,
            }
        )
    return sorted(edges, key=lambda edge: (bool(edge["rules"]), -edge["weight"], edge["left"].name))


def clusters_of_rule(page: DomainCoverage, rule: Rule) -> list[tuple[ClusterRow, str, int, int]]:
    """The clusters a rule's set reaches into, their state in words, how many of their pairs it tells apart and how
    many it only names, most first."""
    version = rule.published or rule.versions.order_by("-number").first()
    reading = newest_readings([version]).first() if version else None
    held = set(version.tool_ids) if version else set()
    apart = {tuple(pair) for pair in reading.apart} if reading else set()
    found = []
    for row in page.clusters:
        edges = [pair_of(a, b) for a, b, _ in row.coverage.cluster.edges if a in held and b in held]
        telling = sum(edge in apart for edge in edges)
        if edges:
            found.append((row, STATES[row.state].label, telling, len(edges) - telling))
    return sorted(found, key=lambda entry: (-entry[2], -entry[3], entry[0].id))
