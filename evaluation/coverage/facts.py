"""What coverage is computed from, kept per process and read again exactly when it has moved.

Database triggers stamp the parts named in `Stamps`. A page reads the stamps in one query; a part whose stamp is the
one it was read at is not read again, so no number is ever older than the page.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

from django.db.models import Count, F, Q

from catalog.models import Cluster, Clustering, Domain, Tool
from evaluation.core.coverage import ClusterFacts, RuleFacts
from rules.models import ChangeRequest, RuleChange, RuleVersion
from synthesis.models import Sample, SnapshotSample
from synthesis.samples.staleness import without_stale
from synthesis.samples.standing import OUTDONE
from trace_site.database import Generation
from training.models import AliasMove, Run

Kept = TypeVar("Kept")
Stamp = tuple[int, ...]
OPEN = (
    ChangeRequest.State.DRAFT,
    ChangeRequest.State.IN_REVIEW,
    ChangeRequest.State.APPROVED,
    ChangeRequest.State.SCHEDULED,
)


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


class Keeper(Generic[Kept]):
    """The last value computed, and the stamp it was computed at."""

    def __init__(self) -> None:
        self._held: tuple[Hashable, Kept] | None = None

    @property
    def last(self) -> Kept | None:
        return self._held[1] if self._held else None

    def at(self, stamp: Hashable, compute: Callable[[], Kept]) -> Kept:
        held = self._held  # read once: another thread may replace it
        if held is None or held[0] != stamp:
            held = self._held = (stamp, compute())
        return held[1]


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


@dataclass(frozen=True)
class ToolBook:
    """Every tool, and every domain with `active`, its number of active tools."""

    domains: list[Any]
    tools: dict[int, ToolName]

    @cached_property
    def ids(self) -> dict[str, int]:
        return {tool.name: tool.id for tool in self.tools.values()}


@dataclass(frozen=True)
class ClusterBook:
    """The newest clustering of every domain, with the labels of its clusters."""

    clusterings: dict[str, Clustering]
    clusters: dict[str, list[ClusterFacts]]
    labels: dict[int, str]

    @cached_property
    def home(self) -> dict[int, int]:
        """Tool id -> cluster id."""
        return {tool: row.id for rows in self.clusters.values() for row in rows for tool in row.tools}


@dataclass(frozen=True)
class RuleSets:
    """Sets T(r) with the name of each version, and the domain each counts in."""

    facts: dict[str, list[RuleFacts]]
    names: dict[int, RuleName]


def read_tools() -> ToolBook:
    active = Count("tools", filter=Q(tools__status=Tool.Status.ACTIVE))
    columns = ("pk", "name", "deprecated", "version", "domain_id")
    tools = {row[0]: ToolName(*row) for row in Tool.objects.values_list(*columns)}
    return ToolBook(list(Domain.objects.annotate(active=active)), tools)


def read_clusters() -> ClusterBook:
    clusterings = newest_clusterings()
    owner = {clustering.pk: slug for slug, clustering in clusterings.items()}
    book = ClusterBook(clusterings, {slug: [] for slug in clusterings}, {})
    columns = ("pk", "clustering_id", "tool_ids", "edges", "mean_similarity", "label")
    rows = Cluster.objects.filter(clustering__in=owner).order_by("position", "id").values_list(*columns)
    for pk, clustering, tools, edges, similarity, label in rows:
        pairs = tuple((a, b, cosine) for a, b, cosine in edges)
        book.clusters[owner[clustering]].append(ClusterFacts(pk, frozenset(tools), pairs, similarity))
        book.labels[pk] = label
    return book


def read_dismissals(book: ClusterBook) -> dict[int, str]:
    """{cluster: why it needs no rule}."""
    found = Cluster.objects.filter(clustering__in=book.clusterings.values()).exclude(dismissed_reason="")
    return dict(found.values_list("pk", "dismissed_reason"))


def newest_clusterings() -> dict[str, Clustering]:
    found = Clustering.objects.order_by("domain_id", "-version").distinct("domain_id")
    return {clustering.domain_id: clustering for clustering in found}


COLUMNS = ("pk", "rule_id", "rule__code", "rule__domain_id", "number", "target_id", "confusable_ids")


def read_published() -> RuleSets:
    """The published version of every rule, by code."""
    rows = RuleVersion.objects.filter(rule__published_id=F("pk")).order_by("rule__code", "pk")
    return _sets(rows.values_list(*COLUMNS), published=True)


def _sets(rows: Any, *, published: bool) -> RuleSets:
    found = RuleSets({}, {})
    for pk, rule, code, domain, number, target, confusables in rows:
        found.facts.setdefault(domain, []).append(RuleFacts(pk, (target, *confusables), published))
        found.names[pk] = RuleName(rule, code, number, published)
    return found


def read_drafts(book: ToolBook) -> RuleSets:
    """Newest versions that are not published, and the changes of open requests (their ids are negative)."""
    newest = RuleVersion.objects.order_by("rule_id", "-number").distinct("rule_id").values("pk")
    waiting = RuleVersion.objects.filter(pk__in=newest).exclude(rule__published_id=F("pk"))
    found = _sets(waiting.order_by("rule__code", "pk").values_list(*COLUMNS), published=False)
    changes = RuleChange.objects.filter(action=RuleChange.Action.SAVE, request__state__in=OPEN)
    for change in changes.select_related("rule").order_by("pk"):
        tools = _named(change.content, book.ids)
        domain = (
            change.rule.domain_id
            if change.rule
            else change.domain or (book.tools[tools[0]].domain if tools else "")
        )
        code = change.rule.code if change.rule else change.code
        found.facts.setdefault(domain, []).append(RuleFacts(-change.pk, tools, published=False))
        found.names[-change.pk] = RuleName(
            change.rule_id, code or "new rule", 0, False, request=change.request_id
        )
    return found


def _named(content: Mapping[str, Any], ids: Mapping[str, int]) -> tuple[int, ...]:
    """The catalog's tools among those a change names so far; what is typed may be incomplete."""
    names = [content.get("target"), *(content.get("confusables") or ())]
    return tuple(dict.fromkeys(ids[name] for name in names if isinstance(name, str) and name in ids))


def approved_samples() -> dict[int, int]:
    """{rule version: its approved samples}, of every slot one; what its tools made stale does not count."""
    approved = Sample.objects.filter(
        ~OUTDONE, rule_version__isnull=False, machine=Sample.Machine.READY, human=Sample.Human.APPROVED
    )
    counted = without_stale(approved).order_by().values_list("rule_version")
    return dict(counted.annotate(n=Count("rule_version")))


def champion_versions() -> frozenset[int]:
    """The rule versions the champion was trained on: those of its snapshot, if its cell trains on rule samples."""
    move = (
        AliasMove.objects.filter(alias=AliasMove.Alias.CHAMPION)
        .order_by("-id")
        .values_list("model__run__snapshot", "model__run__retrieval")
        .first()
    )
    if move is None or move[1] != Run.Retrieval.RULES:
        return frozenset()
    return snapshot_versions(move[0])


@lru_cache(maxsize=8)
def snapshot_versions(snapshot: int) -> frozenset[int]:
    """The rule versions a snapshot has samples of; a snapshot never changes."""
    members = SnapshotSample.objects.filter(snapshot=snapshot, sample__rule_version__isnull=False)
    return frozenset(members.order_by().values_list("sample__rule_version", flat=True).distinct())
