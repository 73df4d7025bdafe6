"""Coverage per domain over its newest clustering: what rules tell apart, what nobody has written down yet.

The arithmetic is `core/coverage.py`. Every number has the list behind it. Database triggers stamp the parts named in
`Stamps`, and a stamp never comes back: a page reads the stamps in one query, and each reader keeps what it last read
for the stamp it was given, so no number is ever older than the page.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from django.db.models import Count, F, Q

from catalog.core.edges import summary
from catalog.models import Cluster, Clustering, Domain, Tool
from evaluation.benchmarks.selectors import RESULTS
from evaluation.core import coverage as core
from evaluation.core.confusion import rule_chance
from evaluation.core.coverage import ClusterCoverage, ClusterFacts, RuleFacts, Totals
from evaluation.models import Evaluation
from rules.models import ChangeRequest, RuleChange, RuleVersion
from synthesis.models import Sample, SnapshotSample
from synthesis.samples.staleness import OUTDONE, without_stale
from trace_site.database import Generation
from trace_site.lib.files import content_hash
from training.models import AliasMove, Model, Run

Stamp = tuple[int, ...]
State = ChangeRequest.State
OPEN = (State.DRAFT, State.IN_REVIEW, State.APPROVED, State.SCHEDULED)


class Stamps(NamedTuple):
    tools: Stamp  # and domains
    clusters: Stamp
    dismissals: Stamp
    rules: Stamp
    drafts: Stamp
    samples: Stamp


def stamps() -> Stamps:
    """Every part as it is now; one query."""
    rows = Generation.objects.filter(name__startswith="coverage.").order_by("name")
    found: dict[str, list[int]] = {part: [] for part in Stamps._fields}
    for name, value in rows.values_list("name", "value"):
        found[name.split(".")[1]].append(value)
    return Stamps(*map(tuple, found.values()))


class ToolName(NamedTuple):
    id: int
    name: str
    deprecated: bool
    version: str
    domain: str


@dataclass(frozen=True, slots=True)
class RuleName:
    """A version of a rule, or (with `request`) a change that somebody has asked for."""

    id: int | None
    code: str
    version: int
    published: bool
    samples: int = 0
    request: int | None = None


class RuleSets(NamedTuple):
    """Sets T(r) by the domain each counts in, the name of each version, and the readings that their pairs are from."""

    by_domain: dict[str, list[RuleFacts]]
    names: dict[int, RuleName]
    readings: list[int]


class ClusterBook(NamedTuple):
    """The newest clustering of every domain; `home`: tool -> its cluster."""

    clusterings: dict[str, Clustering]
    clusters: dict[str, list[ClusterFacts]]
    labels: dict[int, str]
    whys: dict[int, str]
    home: dict[int, int]


@lru_cache(maxsize=1)
def read_domains(tools: Stamp) -> list[Any]:
    """Every domain with `active`, its number of active tools."""
    active = Count("tools", filter=Q(tools__status=Tool.Status.ACTIVE))
    return list(Domain.objects.annotate(active=active))


@lru_cache(maxsize=1)
def read_tools(tools: Stamp) -> dict[int, ToolName]:
    rows = Tool.objects.values_list("pk", "name", "deprecated", "version", "domain_id")
    return {row[0]: ToolName(*row) for row in rows}


@lru_cache(maxsize=1)
def read_clusters(tools: Stamp, clusters: Stamp) -> ClusterBook:
    newest = Clustering.objects.order_by("domain_id", "-version").distinct("domain_id")
    clusterings = {clustering.domain_id: clustering for clustering in newest}
    owner = {clustering.pk: slug for slug, clustering in clusterings.items()}
    book = ClusterBook(clusterings, {slug: [] for slug in clusterings}, {}, {}, {})
    columns = ("pk", "clustering_id", "tool_ids", "edges", "mean_similarity", "label")
    rows = Cluster.objects.filter(clustering__in=owner).order_by("position", "id").values_list(*columns)
    for pk, clustering, members, edges, similarity, label in rows:
        pairs = tuple((a, b, cosine) for a, b, cosine, *_ in edges)
        signals = {(edge[0], edge[1]): edge[4] if len(edge) > 4 else {} for edge in edges}
        chances = {pair: rule_chance(told) for pair, told in signals.items()}
        facts = ClusterFacts(pk, frozenset(members), pairs, similarity, chances=chances)
        book.clusters[owner[clustering]].append(facts)
        book.labels[pk] = label
        book.whys[pk] = summary(signals.values())
        book.home.update(dict.fromkeys(members, pk))
    return book


@lru_cache(maxsize=1)
def read_dismissals(clusters: Stamp, dismissals: Stamp) -> dict[int, str]:
    """{cluster: why it needs no rule}."""
    return dict(Cluster.objects.exclude(dismissed_reason="").values_list("pk", "dismissed_reason"))


COLUMNS = ("pk", "rule_id", "rule__code", "rule__domain_id", "number", "target_id", "confusable_ids")


@lru_cache(maxsize=1)
def read_published(rules: Stamp) -> RuleSets:
    """The published version of every rule, by code, with the pairs that its newest reading tells apart."""
    versions = RuleVersion.objects.filter(rule__published_id=F("pk"))
    newest = versions.order_by("rule__code", "pk", "-readings__number").distinct("rule__code", "pk")
    found = RuleSets({}, {}, [])
    for *columns, reading, apart in newest.values_list(*COLUMNS, "readings__pk", "readings__apart"):
        _add(found, columns, _pairs(apart), published=True)
        found.readings.extend([reading] if reading else [])
    return found


def _add(found: RuleSets, columns: list[Any], pairs: frozenset[core.Pair], *, published: bool) -> None:
    pk, rule, code, domain, number, target, confusables = columns
    facts = RuleFacts(pk, (target, *confusables), pairs, published)
    found.by_domain.setdefault(domain, []).append(facts)
    found.names[pk] = RuleName(rule, code, number, published)


def _pairs(stored: list[list[int]] | None) -> frozenset[core.Pair]:
    """Of a reading; a version that was never read tells nothing apart."""
    return frozenset(core.pair_of(a, b) for a, b in stored or ())


@lru_cache(maxsize=1)
def read_drafts(tools: Stamp, rules: Stamp, drafts: Stamp) -> RuleSets:
    """Newest versions that are not published, and the changes of open requests (their ids are negative)."""
    newest = RuleVersion.objects.order_by("rule_id", "-number").distinct("rule_id").values("pk")
    waiting = RuleVersion.objects.filter(pk__in=newest).exclude(rule__published_id=F("pk"))
    found, known = RuleSets({}, {}, []), read_tools(tools)
    for columns in waiting.order_by("rule__code", "pk").values_list(*COLUMNS):
        _add(found, list(columns), frozenset(), published=False)
    ids = {tool.name: tool.id for tool in known.values()}
    changes = RuleChange.objects.filter(action=RuleChange.Action.SAVE, request__state__in=OPEN)
    for change in changes.select_related("rule").order_by("pk"):
        named = _named(change.content, ids)
        code, domain = change.code or "new rule", change.domain
        if change.rule:
            code, domain = change.rule.code, change.rule.domain_id
        elif not domain and named:
            domain = known[named[0]].domain
        found.by_domain.setdefault(domain, []).append(RuleFacts(-change.pk, named, published=False))
        found.names[-change.pk] = RuleName(change.rule_id, code, 0, False, request=change.request_id)
    return found


def _named(content: Mapping[str, Any], ids: Mapping[str, int]) -> tuple[int, ...]:
    """The catalog's tools among those a change names so far; what is typed may be incomplete."""
    names = [content.get("target"), *(content.get("confusables") or ())]
    return tuple(dict.fromkeys(ids[name] for name in names if isinstance(name, str) and name in ids))


@lru_cache(maxsize=1)
def read_samples(samples: Stamp) -> dict[int, int]:
    """{rule version: its approved samples}, of every slot one; what its tools made stale does not count."""
    approved = Sample.objects.filter(
        rule_version__isnull=False, machine=Sample.Machine.READY, human=Sample.Human.APPROVED
    )
    # what is stale is told from few rows; each that is left is looked up in its slot
    counted = without_stale(approved).filter(~OUTDONE).order_by().values_list("rule_version")
    return dict(counted.annotate(n=Count("rule_version")))


def champion_versions() -> frozenset[int]:
    """The rule versions the champion was trained on: those of its snapshot, if its cell trains on rule samples."""
    champions = AliasMove.objects.filter(alias=AliasMove.Alias.CHAMPION).order_by("-id")
    run = champions.values_list("model__run__snapshot", "model__run__retrieval").first()
    return learned_versions(*run) if run else frozenset()


def learned_versions(snapshot: int, retrieval: str) -> frozenset[int]:
    """The rule versions that a run learned from, by its snapshot and what its Stage 2 learns."""
    return snapshot_versions(snapshot) if retrieval == Run.Retrieval.RULES else frozenset()


@lru_cache(maxsize=8)
def snapshot_versions(snapshot: int) -> frozenset[int]:
    """The rule versions a snapshot has samples of; a snapshot never changes."""
    members = SnapshotSample.objects.filter(snapshot=snapshot, sample__rule_version__isnull=False)
    return frozenset(members.order_by().values_list("sample__rule_version", flat=True).distinct())


# What the pages show of it.


@dataclass(frozen=True)
class ClusterRow:
    """A cluster's coverage in words."""

    coverage: ClusterCoverage
    label: str
    why: str  # its tools are look-alikes, in a line
    tools: list[ToolName]  # by name
    rules: list[RuleName]
    naming: list[RuleName]
    drafts: list[RuleName]
    dismissed_reason: str

    @property
    def id(self) -> int:
        return self.coverage.cluster.id

    @property
    def state(self) -> str:
        return self.coverage.state

    @cached_property
    def words(self) -> str:
        """What a search looks in."""
        return " ".join([self.label, *(tool.name for tool in self.tools)]).casefold()


@dataclass(frozen=True)
class OutsideRow:
    """A published rule with pairs (target, confusable) that no cluster holds."""

    rule: RuleName
    pairs: int
    outside: list[str]


@dataclass(frozen=True)
class DomainCoverage:
    domain: str
    title: str
    clustering: int | None  # version; None: the domain has no clusters yet
    clustering_id: int | None
    tau: float | None  # of a version that was found by cosine alone
    tools: int  # active
    rules: int  # published
    totals: Totals
    clusters: list[ClusterRow]
    ranked: list[ClusterRow]  # gaps, where most rules are to be expected first; then the rest
    by_id: dict[int, ClusterRow]
    outside: list[OutsideRow]


def coverage(domain: str | None = None) -> list[DomainCoverage]:
    """Every domain, or one; the number of queries does not depend on how much there is."""
    pages = _pages(stamps(), champion_versions())
    return [page for slug, page in pages.items() if domain in (None, slug)]


@dataclass(frozen=True)
class Definition:
    """What sorts benchmark queries into covered, uncovered and outside. `dismissed`: ids of clusters; `rules`: {domain:
    ids of its published versions}; `readings`: ids of what was read in those versions."""

    clusterings: dict[str, int]
    dismissed: list[int]
    rules: dict[str, list[int]]
    readings: list[int]
    words: str = core.GROUP_DEFINITION

    @cached_property
    def hash(self) -> str:
        return content_hash([self.clusterings, self.dismissed, self.rules, self.readings, self.words])


def definition_now() -> Definition:
    """By the newest clusterings and what is published; one query."""
    now = stamps()
    return definition_by(now.tools, now.clusters, now.dismissals, now.rules)


@lru_cache(maxsize=1)
def definition_by(tools: Stamp, clusters: Stamp, dismissals: Stamp, rules: Stamp) -> Definition:
    book, published = read_clusters(tools, clusters), read_published(rules)
    return Definition(
        {slug: clustering.version for slug, clustering in sorted(book.clusterings.items())},
        sorted(read_dismissals(clusters, dismissals).keys() & book.labels.keys()),
        {domain: sorted(rule.id for rule in of) for domain, of in sorted(published.by_domain.items())},
        sorted(published.readings),
    )


def edition() -> str:
    """A name for what coverage says now; it changes whenever the pages would."""
    return content_hash([stamps(), sorted(champion_versions())])[:16]


@lru_cache(maxsize=1)
def _pages(now: Stamps, champion: frozenset[int]) -> dict[str, DomainCoverage]:
    tools, book = read_tools(now.tools), read_clusters(now.tools, now.clusters)
    dismissals = read_dismissals(now.clusters, now.dismissals)
    published, drafts = read_published(now.rules), read_drafts(now.tools, now.rules, now.drafts)
    samples = read_samples(now.samples)
    names = {
        version: replace(name, samples=samples.get(version, 0))
        for version, name in (published.names | drafts.names).items()
    }

    pages = {}
    for domain in read_domains(now.tools):
        rules = published.by_domain.get(domain.slug, [])
        known = [
            replace(rule, samples=samples.get(rule.id, 0), in_champion=rule.id in champion)
            for rule in (*rules, *drafts.by_domain.get(domain.slug, ()))
        ]
        clusters = book.clusters.get(domain.slug, ())
        covered = core.cover(
            [replace(one, dismissed=True) if one.id in dismissals else one for one in clusters], known
        )
        rows = [
            ClusterRow(
                coverage=found,
                label=book.labels[found.cluster.id],
                why=book.whys[found.cluster.id],
                tools=sorted(
                    (tools[one] for one in found.cluster.tools if one in tools), key=attrgetter("name")
                ),
                rules=[names[version] for version in found.rules],
                naming=[names[version] for version in found.naming if version not in found.rules],
                drafts=[names[version] for version in found.drafts],
                dismissed_reason=dismissals.get(found.cluster.id, ""),
            )
            for found in covered
        ]
        clustering = book.clusterings.get(domain.slug)
        pages[domain.slug] = DomainCoverage(
            domain=domain.slug,
            title=domain.title,
            clustering=clustering.version if clustering else None,
            clustering_id=clustering.pk if clustering else None,
            tau=clustering.tau if clustering else None,
            tools=domain.active,
            rules=len(rules),
            totals=core.totals(covered),
            clusters=rows,
            ranked=sorted(rows, key=lambda row: (not row.coverage.is_gap, -row.coverage.expected_rules)),
            by_id={row.id: row for row in rows},
            outside=[
                OutsideRow(names[rule], pairs, [tools[tool].name for tool in outside if tool in tools])
                for rule, pairs, outside in core.pairs_outside(rules, book.home)
            ],
        )
    return pages


# Whose answers stand beside coverage.


def shown_model() -> tuple[Model | None, str]:
    """Whose recall is shown: ("champion"), else that of the newest evaluated model ("newest")."""
    champions = AliasMove.objects.filter(alias=AliasMove.Alias.CHAMPION).order_by("-id")
    if move := champions.select_related("model__run").first():
        return move.model, "champion"
    evaluated = Evaluation.objects.filter(RESULTS, model__isnull=False).values("model")
    return Model.objects.filter(pk__in=evaluated).select_related("run").order_by("-id").first(), "newest"
