"""What the coverage pages show, drawn from `selectors.py` (as it is now) and `gaps.py` (as it was counted last)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from django.http import Http404
from django.urls import reverse
from django.utils.http import urlencode

from catalog.models import Cluster, Tool
from catalog.selectors import pair_reasons, tools_by_id
from evaluation.core.coverage import pair_of
from evaluation.coverage.gaps import STATE_GROUPS, UNSPOKEN, Gap, cluster_count
from evaluation.coverage.outcomes import Source
from evaluation.coverage.selectors import ClusterRow, DomainCoverage, RuleName, coverage
from evaluation.models import DomainPoint
from rules.models import Rule, RuleVersion
from rules.selectors import newest_readings


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
# groups of states that a list may be narrowed to, in words
GROUPS_OF_STATES = {
    "open": "no pair is told apart",
    "apart": "told apart",
    "not_apart": "not told apart",
    "counted": "all but the dismissed",
}


def domain_coverage(slug: str) -> DomainCoverage:
    """Raises Http404."""
    for page in coverage(slug):
        return page
    raise Http404


def clusters_url(domain: str, **filters: str) -> str:
    return f"{reverse('clusters')}?{urlencode({'domain': domain, **filters})}"


def requests_url(domain: str, **filters: Any) -> str:
    """The labelled requests behind a number; `tool` may be several ids."""
    return f"{reverse('coverage-requests', args=[domain])}?{urlencode(filters, doseq=True)}"


# which pairs a list holds, in words
ALL_PAIRS, OUTSIDE_PAIRS = "all", "outside"
PAIRS = {
    ALL_PAIRS: "all of clusters",
    "apart": "told apart",
    "named": "only named",
    "open": "not told apart",
    OUTSIDE_PAIRS: "named by a rule, in no cluster",
}


class PairRow(NamedTuple):
    """Names of the two tools; `cluster`: the one that holds them, `rule`: that names a pair which none holds."""

    left: str
    right: str
    state: str
    cluster: ClusterRow | None = None
    rule: RuleName | None = None


def pairs(page: DomainCoverage, state: str) -> list[PairRow]:
    """Of its clusters in their order; dismissed ones count for nothing."""
    if state == OUTSIDE_PAIRS:
        rules = Rule.objects.filter(pk__in=[row.rule.id for row in page.outside])
        targets = dict(rules.values_list("pk", "published__target__name"))
        return [
            PairRow(targets[row.rule.id], other, state, rule=row.rule)
            for row in page.outside
            if row.rule.id is not None
            for other in row.outside
        ]
    found = []
    for row in page.clusters:
        names = {tool.id: tool.name for tool in row.tools}
        told, named = set(row.coverage.covered), set(row.coverage.named)
        for a, b, _ in row.coverage.cluster.edges if row.state != "dismissed" else ():
            of = "apart" if (a, b) in told else "named" if (a, b) in named else "open"
            if state in (ALL_PAIRS, of, "open" if of == "named" else of):
                found.append(PairRow(names[a], names[b], of, row))
    return found


def state_parts(domain: str, states: Mapping[str, int]) -> list[dict[str, Any]]:
    """The clusters of a domain by state, for the stacked bar and the key of the map."""
    return [
        {
            **words._asdict(),
            "state": state,
            "title": words.meaning,
            "count": states.get(state, 0),
            "href": clusters_url(domain, state=state),
        }
        for state, words in STATES.items()
    ]


def without_rule(page: DomainCoverage) -> int:
    """Clusters of which no rule tells any pair apart; `?state=open` lists them."""
    return sum(page.totals.states[state] for state in STATE_GROUPS["open"])


def write_url(domain: str, tools: Iterable[int], suggestion: int | None = None) -> str:
    """The rule editor with a suggested rule or with these tools filled in."""
    if suggestion:
        return f"{reverse('rules:create')}?{urlencode({'suggestion': suggestion})}"
    ids = ",".join(map(str, tools))
    return f"{reverse('rules:create')}?{urlencode({'domain': domain, 'tools': ids})}"


# who is asked, in words; what a group of requests is, and where a wrong answer goes
SIDE_WORDS = {"model": "the {}", "embedding": "plain embedding search"}
GROUP_WORDS = {
    "covered": "where a rule tells look-alikes apart",
    "exceptions": "whose rule leads to another tool than its target",
    "uncovered": "where no rule tells look-alikes apart",
    "outside": "outside every cluster of look-alikes",
}
AT_WORDS = {
    "uncovered": "with a look-alike that no rule tells apart",
    "covered": "with a look-alike that a rule tells apart",
    "elsewhere": "with a tool that is no look-alike",
    "unspoken": "although a rule exists, whose clause was not chosen",
}


SOURCE_WORDS: dict[str, str] = {
    Source.BENCHMARK: "from a benchmark",
    Source.SAMPLE: "from an approved sample",
    Source.PRODUCTION: "from a reported request",
}


def model_words(figures: DomainPoint) -> str:
    """Whose figures they are."""
    if figures.model_id is None:
        return "plain embedding search"
    return "champion" if figures.alias == "champion" else f"newest model ({figures.model_id})"


def gap_lines(domain: str, gaps: Iterable[Gap], side: str) -> list[dict[str, Any]]:
    """Gaps with the addresses behind their numbers and of the next step."""
    lines = []
    for gap in gaps:
        row, suggestion = gap.row, gap.suggestion
        asked_url = requests_url(domain, cluster=row.pk)
        lines.append(
            {
                "gap": gap,
                "row": row,
                "cluster": row.cluster,
                "label": STATES[row.state].label,
                "write_url": write_url(
                    domain, row.open_tools or row.cluster.tool_ids, suggestion.pk if suggestion else None
                ),
                "asked_url": asked_url,
                "wrong_url": f"{asked_url}&wrong={side}",
                "missing_url": f"{asked_url}&wrong={side}&at=uncovered",
            }
        )
    return lines


def request_words(
    figures: DomainPoint,
    given: Mapping[str, str],
    cluster: Cluster | None,
    tools: Sequence[Tool],
    rule: RuleVersion | None,
    total: int,
) -> str:
    """What a list of so many labelled requests holds."""
    parts = [f"request{'' if total == 1 else 's'} kept out of training"]
    if cluster:
        parts.append(f"about the look-alikes {cluster.label}")
    if tools:
        parts.append(f"that {' or '.join(tool.name for tool in tools)} answers")
    if rule:
        parts.append(f"that a tool of {rule.rule.code} answers")
    if group := GROUP_WORDS.get(given["group"]):
        parts.append(group)
    if given["source"]:
        parts.append(SOURCE_WORDS[given["source"]])
    if given["asked"]:
        parts.append("that both the model and the embedding were asked")
    if given["wrong"]:
        who = SIDE_WORDS[given["wrong"]].format(model_words(figures))
        at = AT_WORDS.get(given["at"], "")
        does = "confuses" if at and given["at"] != UNSPOKEN else "gets wrong"
        parts.append(f"that {who} {does} {at}".rstrip())
    return " ".join(parts)


def found_rows(page: DomainCoverage, search: str) -> list[ClusterRow]:
    """As they are ranked; every word must occur in the label or a tool's name."""
    words = search.casefold().split()
    return [row for row in page.ranked if all(word in row.words for word in words)]


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
        "write_url": write_url(page.domain, (tool.id for tool in row.tools)),
        "count": cluster_count(page.domain, row.id),
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
