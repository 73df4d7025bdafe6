"""Coverage and confusion: counted beside what is shown, and stored as one row that pages read whole.

A count stands for the rules and clusters of one moment, one model and one window of recorded requests, and says when
it was counted. Its key is of all that it was counted from; where that moved, a sweeper counts again: at once where it
is rules, clusters or the model, else (samples, drafts, what was measured or reported, the day) after PATIENCE.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction

from catalog.models import Domain
from evaluation.core import confusion
from evaluation.core.confusion import EMBEDDING, MODEL, Ground, Rank, Tallies, Tally
from evaluation.core.coverage import EXCEPTIONS, LINES
from evaluation.core.gate import EMBEDDING as BESIDE_EMBEDDING
from evaluation.core.gate import GateRow
from evaluation.core.metrics import ALL
from evaluation.core.paired import row_of
from evaluation.coverage.counted import (
    EDITION,
    ClusterCount,
    Counted,
    Outcome,
    ToolCount,
    as_json,
    counted,
    newest_counts,
)
from evaluation.coverage.outcomes import Labelled, Source, Standing, Window, labelled, traffic
from evaluation.coverage.selectors import (
    Definition,
    DomainCoverage,
    ToolName,
    champion_versions,
    coverage,
    definition_now,
    read_tools,
    shown_model,
    stamps,
)
from evaluation.gate.evidence import judged
from evaluation.models import Count, DomainPoint
from synthesis.core.agreement import Bounds
from trace_site.database import database_now, hold_lock
from trace_site.lib.files import content_hash
from training.models import Model

LOCK = 7_210_405  # advisory lock number: one process stores at a time
PATIENCE = timedelta(seconds=60)  # between two counts by the sweeper, however much samples and drafts move
Values = dict[str, Any]


@dataclass(frozen=True)
class Now:
    """All that is counted from, as it stands. `basis`: a hash of rules, clusters and model, `key`: of all."""

    definition: Definition
    model: Model | None
    alias: str
    window: Window
    standing: Standing
    basis: str
    key: str

    @classmethod
    def read(cls) -> "Now":
        """Nine queries."""
        (model, alias), window, definition = shown_model(), Window.now(), definition_now()
        standing, domains = Standing.now(model), list(Domain.objects.values_list("pk", flat=True))
        basis = content_hash([definition.hash, model.pk if model else None])
        parts = [EDITION, basis, stamps(), sorted(champion_versions()), domains]
        key = content_hash([*parts, [str(day) for day in window], standing])
        return cls(definition, model, alias if model else "", window, standing, basis, key)


def count() -> tuple[Now, Counted]:
    """Reads and computes; writes nothing."""
    now, pages = Now.read(), coverage()
    tools = read_tools(stamps().tools)
    ids = {tool.name: tool.id for tool in tools.values()}
    ground = Ground.build([row.coverage for page in pages for row in page.clusters])
    side = MODEL if now.model else EMBEDDING
    found = [one for one in labelled(now.model, ids, now.standing.benchmarks) if side in one.outcome.firsts]
    recorded = traffic(now.window, ids)
    counts = Counts.of(found, ground, side)
    answers = judged(now.model).first_tools(BESIDE_EMBEDDING) if now.model else {}
    clusters: dict[str, list[ClusterCount]] = {}
    domains: dict[str, DomainPoint] = {}
    for page in pages:
        clusters[page.domain] = _clusters_of(page, counts, recorded)
        own = [one for one in found if tools[one.outcome.gold[0]].domain == page.domain]
        values = _domain_of(page, own, tools, clusters[page.domain], counts, recorded, ground, answers, now)
        domains[page.domain] = DomainPoint(domain_id=page.domain, **values)
    return now, Counted(
        tuple(_outcome_of(one, tools, ground) for one in found),
        {
            tool: _tool_of(tool, counts, recorded)
            for tool in sorted(counts.ours.tools.keys() | recorded.keys())
        },
        clusters,
        domains,
    )


@dataclass(frozen=True)
class Counts:
    """`ours`: of what answers here; `theirs`: of the embedding, over those of the same requests that it was asked."""

    ours: Tallies
    theirs: Tallies
    side: str

    @classmethod
    def of(cls, found: Iterable[Labelled], ground: Ground, side: str) -> "Counts":
        outcomes = [one.outcome for one in found]
        return cls(Tallies.count(outcomes, ground, side), Tallies.count(outcomes, ground, EMBEDDING), side)


def _tool_of(tool: int, counts: Counts, recorded: Mapping[int, int]) -> ToolCount:
    ours, theirs = counts.ours.tools.get(tool, Tally()), counts.theirs.tools.get(tool, Tally())
    own = (ours.n, ours.wrong, ours.uncovered, ours.covered)
    return ToolCount(*own, theirs.n, theirs.wrong, recorded.get(tool, 0))


def _outcome_of(one: Labelled, tools: Mapping[int, ToolName], ground: Ground) -> Outcome:
    outcome = one.outcome
    sides: list[Any] = []
    for side in (MODEL, EMBEDDING):
        miss = ground.miss(outcome, side)
        sides += [
            miss is not None if side in outcome.firsts else None,
            outcome.firsts.get(side),
            miss.tool if miss else None,
            miss.at if miss else "",
        ]
    return Outcome(
        str(one.source),
        one.of,
        tools[outcome.gold[0]].domain,
        ground.groups.group(outcome.gold),
        list(outcome.gold),
        list(ground.clusters(outcome.gold)),
        one.is_exception,
        one.unspoken,
        *sides,
    )


def _bounds(found: Bounds | None) -> Values:
    names = ("score", "score_low", "score_high")
    return dict(zip(names, map(_rounded, found) if found else (None,) * 3, strict=True))


def _rounded(value: float) -> float:
    return round(value, 6)  # what is stored is compared with what is counted


def _clusters_of(page: DomainCoverage, counts: Counts, recorded: Mapping[int, int]) -> list[ClusterCount]:
    """Every cluster of the domain by rank: the gaps, then the rest as the clustering has them."""
    made: dict[int, ClusterCount] = {}
    for row in page.clusters:
        found = row.coverage
        ours, theirs = counts.ours.clusters.get(row.id, Tally()), counts.theirs.clusters.get(row.id, Tally())
        waiting = confusion.open_tools(found)
        terms = confusion.gap_terms(waiting, counts.ours.tools, recorded)
        made[row.id] = ClusterCount(
            row.id,
            found.state,
            rank=0,
            tools=row.size,
            pairs=row.edges,
            covered=row.covered,
            named=row.named,
            open_tools=waiting,
            measured=sum(term.n > 0 for term in terms),
            n=ours.n,
            wrong=ours.wrong,
            wrong_uncovered=ours.uncovered,
            wrong_covered=ours.covered,
            n_embedding=theirs.n,
            wrong_embedding=theirs.wrong,
            requests=sum(int(term.requests) for term in terms if term.n),
            **_bounds(confusion.expected(terms)),
            expected_rules=_rounded(found.expected_rules),
        )
    gaps = [
        Rank(pk, row.score, row.measured < len(row.open_tools), row.expected_rules)
        for pk, row in made.items()
        if row.open_tools
    ]
    rest = [pk for pk, row in made.items() if not row.open_tools]
    ranked = [made[pk] for pk in (*confusion.ranking(gaps), *rest)]
    for place, one in enumerate(ranked, start=1):
        one.rank = place
    return ranked


def _domain_of(
    page: DomainCoverage,
    own: list[Labelled],
    tools: Mapping[int, ToolName],
    clusters: Sequence[ClusterCount],
    counts: Counts,
    recorded: Counter[int],
    ground: Ground,
    answers: Mapping[tuple[str, str], GateRow],
    now: Now,
) -> Values:
    rows = [row.coverage for row in page.clusters]
    ours = {pk: tally for pk, tally in counts.ours.tools.items() if tools[pk].domain == page.domain}
    waiting = [tool for row in rows for tool in confusion.open_tools(row)]
    terms = confusion.gap_terms(waiting, ours, recorded)
    covered = confusion.covered_tally(rows, ours)
    gaps = [row for row in clusters if row.open_tools]
    groups: dict[str, list[Labelled]] = {ALL: own, **{name: [] for name in LINES}}
    sources: dict[str, list[Labelled]] = {str(source): [] for source in Source}
    for one in own:
        groups[ground.groups.group(one.outcome.gold)].append(one)
        if one.is_exception:
            groups[EXCEPTIONS].append(one)
        sources[str(one.source)].append(one)
    told = page.totals

    def with_answer(group: str) -> Values:
        counted = _share(groups[group], counts.side)
        row = row_of(answers, page.domain, group, counted["n_embedding"])
        return {**counted, "answer": row.answer if row else ""}

    return {
        "clustering": page.clustering,
        "versions": now.definition.rules.get(page.domain, []),
        "model_id": now.model.pk if now.model else None,
        "alias": now.alias,
        "tools": page.tools,
        "rules": page.rules,
        "clusters": told.clusters,
        "states": dict(told.states),
        "clustered_tools": told.tools,
        "tools_covered": told.tools_covered,
        "pairs": told.edges,
        "covered": told.edges_covered,
        "named": told.edges_named,
        "pairs_outside": sum(len(row.outside) for row in page.outside),
        "groups": {name: with_answer(name) for name in groups},
        "sources": {name: _share(of, counts.side) for name, of in sources.items()},
        "covered_n": covered.n,
        "covered_wrong": covered.covered,
        "tools_measured": len(ours),
        "gaps": len(gaps),
        "gaps_measured": sum(row.score is not None for row in gaps),
        **_bounds(confusion.expected(terms)),
        "requests": sum(int(term.requests) for term in terms if term.n),
        "recorded": sum(many for tool, many in recorded.items() if tools[tool].domain == page.domain),
        "window_from": now.window.first,
        "window_to": now.window.last,
    }


def _share(found: list[Labelled], side: str) -> dict[str, int]:
    def wrong(of: list[Labelled], one: str) -> int:
        return sum(not row.outcome.is_right(one) for row in of)

    both = [row for row in found if EMBEDDING in row.outcome.firsts]
    return {
        "n": len(found),
        "wrong": wrong(found, side),
        "n_embedding": len(both),
        "wrong_embedding": wrong(both, EMBEDDING),
    }


# Storing.


def store(now: Now, found: Counted) -> dict[str, int]:
    """Put it in place of the count before; how many rows of each kind differ. The caller holds the lock. A point of the
    trend is kept where rules, clusters or the model moved since the last. Nothing is written where they moved while it
    was counted: the next count comes. The rest (samples, drafts, reports) may have moved: then the key is older than
    the numbers, and they are counted again."""
    if now.definition.hash != definition_now().hash or now.model != shown_model()[0]:
        return {}
    at, old, new = database_now(), as_json(counted()), as_json(found)
    newest = DomainPoint.objects.order_by("domain_id", "-pk").distinct("domain_id")
    points = {row.domain_id: row for row in newest}
    for slug, row in found.domains.items():
        why = _moved(points.get(slug), row)
        if why is not None:
            DomainPoint.objects.create(**new["domains"][slug], at=at, why=why)
    made = Count.objects.create(edition=EDITION, key=now.key, basis=now.basis, counted=new, at=at)
    Count.objects.filter(pk__lt=made.pk).delete()
    return {kind: _differing(old[kind], new[kind]) for kind in old}


def _differing(old: Any, new: Any) -> int:
    """Rows of either that the other has not."""
    a, b = (Counter(json.dumps(row, sort_keys=True) for row in _rows(of)) for of in (old, new))
    return max(sum((a - b).values()), sum((b - a).values()))


def _rows(of: Any) -> Iterable[Any]:
    if not isinstance(of, dict):
        return list(of)
    return [(key, row) for key, rows in of.items() for row in (rows if isinstance(rows, list) else [rows])]


def _moved(old: DomainPoint | None, new: DomainPoint) -> Values | None:
    """Why a point of the trend is due; None: it is not."""
    if old is None:
        return {} if new.clustering is not None else None
    why: Values = {}
    rules, were = set(new.versions), set(old.versions)
    if rules != were:
        why["rules"] = {"added": sorted(rules - were), "gone": sorted(were - rules)}
    if new.clustering != old.clustering:
        why["clustering"] = [old.clustering, new.clustering]
    if new.model_id != old.model_id:
        why["model"] = [old.model_id, new.model_id]
    if not why and any(getattr(new, name) != getattr(old, name) for name in ("pairs", "covered", "named")):
        why["counted"] = True
    return why or None


def is_behind(now: Now) -> bool:
    """Whether what is stored was counted from something else; one query."""
    return not newest_counts().filter(key=now.key).exists()


def sweep() -> int:
    """Count again where something moved; how many rows differed."""
    now, last = Now.read(), newest_counts().defer("counted").first()
    waits = last and last.basis == now.basis and last.at > database_now() - PATIENCE
    return sum(refresh().values()) if not waits and is_behind(now) else 0


def refresh() -> dict[str, int]:
    """Count and store, whatever the keys say; how many rows of each kind differed, nothing where `store` waits."""
    now, found = count()
    with transaction.atomic():
        hold_lock(LOCK)
        return store(now, found)
