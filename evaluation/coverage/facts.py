"""What coverage is computed from, kept per process and read again exactly when it has moved.

Database triggers stamp the parts named in `Stamps`, and a stamp never comes back. A page reads the stamps in one
query; each reader here keeps what it last read for the stamp it was given, so no number is ever older than the page.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from django.db.models import Count, F, Q

from catalog.models import Cluster, Clustering, Domain, Tool
from evaluation.core.coverage import ClusterFacts, RuleFacts
from rules.models import ChangeRequest, RuleChange, RuleVersion
from synthesis.models import Sample, SnapshotSample
from synthesis.samples.staleness import without_stale
from synthesis.samples.standing import OUTDONE
from trace_site.database import Generation
from training.models import AliasMove, Run

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
    """Sets T(r) by the domain each counts in, and the name of each version."""

    facts: dict[str, list[RuleFacts]]
    names: dict[int, RuleName]


class ClusterBook(NamedTuple):
    """The newest clustering of every domain; `home`: tool -> its cluster."""

    clusterings: dict[str, Clustering]
    clusters: dict[str, list[ClusterFacts]]
    labels: dict[int, str]
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
    book = ClusterBook(clusterings, {slug: [] for slug in clusterings}, {}, {})
    columns = ("pk", "clustering_id", "tool_ids", "edges", "mean_similarity", "label")
    rows = Cluster.objects.filter(clustering__in=owner).order_by("position", "id").values_list(*columns)
    for pk, clustering, members, edges, similarity, label in rows:
        pairs = tuple((a, b, cosine) for a, b, cosine in edges)
        book.clusters[owner[clustering]].append(ClusterFacts(pk, frozenset(members), pairs, similarity))
        book.labels[pk] = label
        book.home.update(dict.fromkeys(members, pk))
    return book


@lru_cache(maxsize=1)
def read_dismissals(clusters: Stamp, dismissals: Stamp) -> dict[int, str]:
    """{cluster: why it needs no rule}."""
    return dict(Cluster.objects.exclude(dismissed_reason="").values_list("pk", "dismissed_reason"))


COLUMNS = ("pk", "rule_id", "rule__code", "rule__domain_id", "number", "target_id", "confusable_ids")


@lru_cache(maxsize=1)
def read_published(rules: Stamp) -> RuleSets:
    """The published version of every rule, by code."""
    return _sets(RuleVersion.objects.filter(rule__published_id=F("pk")), published=True)


def _sets(versions: Any, *, published: bool) -> RuleSets:
    found = RuleSets({}, {})
    rows = versions.order_by("rule__code", "pk").values_list(*COLUMNS)
    for pk, rule, code, domain, number, target, confusables in rows:
        found.facts.setdefault(domain, []).append(RuleFacts(pk, (target, *confusables), published))
        found.names[pk] = RuleName(rule, code, number, published)
    return found


@lru_cache(maxsize=1)
def read_drafts(tools: Stamp, rules: Stamp, drafts: Stamp) -> RuleSets:
    """Newest versions that are not published, and the changes of open requests (their ids are negative)."""
    newest = RuleVersion.objects.order_by("rule_id", "-number").distinct("rule_id").values("pk")
    waiting = RuleVersion.objects.filter(pk__in=newest).exclude(rule__published_id=F("pk"))
    found, known = _sets(waiting, published=False), read_tools(tools)
    ids = {tool.name: tool.id for tool in known.values()}
    changes = RuleChange.objects.filter(action=RuleChange.Action.SAVE, request__state__in=OPEN)
    for change in changes.select_related("rule").order_by("pk"):
        named = _named(change.content, ids)
        code, domain = change.code or "new rule", change.domain
        if change.rule:
            code, domain = change.rule.code, change.rule.domain_id
        elif not domain and named:
            domain = known[named[0]].domain
        found.facts.setdefault(domain, []).append(RuleFacts(-change.pk, named, published=False))
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
        ~OUTDONE, rule_version__isnull=False, machine=Sample.Machine.READY, human=Sample.Human.APPROVED
    )
    counted = without_stale(approved).order_by().values_list("rule_version")
    return dict(counted.annotate(n=Count("rule_version")))


def champion_versions() -> frozenset[int]:
    """The rule versions the champion was trained on: those of its snapshot, if its cell trains on rule samples."""
    champions = AliasMove.objects.filter(alias=AliasMove.Alias.CHAMPION).order_by("-id")
    run = champions.values_list("model__run__snapshot", "model__run__retrieval").first()
    return snapshot_versions(run[0]) if run and run[1] == Run.Retrieval.RULES else frozenset()


@lru_cache(maxsize=8)
def snapshot_versions(snapshot: int) -> frozenset[int]:
    """The rule versions a snapshot has samples of; a snapshot never changes."""
    members = SnapshotSample.objects.filter(snapshot=snapshot, sample__rule_version__isnull=False)
    return frozenset(members.order_by().values_list("sample__rule_version", flat=True).distinct())
