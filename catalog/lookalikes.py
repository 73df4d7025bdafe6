"""Look-alikes: embeddings and neighbour lists in step with the active tools, and clusterings found from them.

Only what changed is encoded, compared and written. Clusterings are frozen versions, whose clusters people may dismiss.
"""

import json
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from datetime import date
from itertools import combinations
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count, F, Q
from django.urls import reverse

from catalog.core.clusters import ALGORITHM, MAX_OPERATIONS, MAX_SIZE, find_clusters
from catalog.core.edges import FLOOR, Graph, Pair, ToolText, operations, pair_of
from catalog.core.labels import cluster_labels
from catalog.core.neighbours import Rows, top_k
from catalog.core.tool import embedding_text
from catalog.models import Cluster, Clustering, Domain, LabelledQuery, NeighbourList, Tool
from catalog.selectors import rule_writers
from catalog.services import catalog_lock, write_or_update
from trace_site.audit import models as audit_models
from trace_site.database import database_now
from trace_site.jobs import Job, JobContext, JobPostponed, enqueue
from trace_site.lib.child import run_child
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash, write_jsonl
from trace_site.notices.services import tell

K = 13
ECHO_SECONDS = 4.0
MIN_REASON = 5
KIND = "catalog"  # of the job that refreshes both
STEPS, TRIES = 2, 3
PARAMS = {"floor": FLOOR, "max_size": MAX_SIZE, "max_operations": MAX_OPERATIONS}
Echo = Callable[[str], None]


def silent(line: str) -> None:
    """An Echo that nobody hears."""


def neighbours_update(*, k: int = K, echo: Echo = silent, actor: Any = None) -> dict[str, Any]:
    """Encode new and changed texts in a child process, find the lists that they can have changed, and rewrite those
    that differ. Returns {"tools", "encoded", "changed", "removed", "k", "encoder", "seconds"}; changed counts lists.
    """
    if k < 1:
        raise TraceError("k must be 1 or more.", code="bad_k")
    started = time.monotonic()
    encoded = _embeddings_update(echo)
    # sorted by code point, not by the database's collation
    active = Tool.objects.filter(status=Tool.Status.ACTIVE, embedding__isnull=False)
    columns = active.order_by("pk").values_list("name", "pk", "embedding_key", "embedding", "domain")
    tools = sorted(columns, key=lambda row: row[0])
    if not tools:
        raise TraceError("there are no tools.", code="empty", hint="Import a catalog first.")
    vectors: list[Any] = [vector for *_, vector, _ in tools]
    numbers = [one.to_numpy() if hasattr(one, "to_numpy") else one for one in vectors]
    rows = np.array(numbers, dtype=np.float32)
    keys = {pk: key for _, pk, key, *_ in tools}
    stored = {row.pk: row for row in NeighbourList.objects.all()}
    same = [row for pk, row in stored.items() if row.embedding_key and row.embedding_key == keys.get(pk)]
    echo(f"{len(tools):,} tools, {len(tools) - len(same):,} of them new or changed: exact top {k} by cosine")
    tick = Ticker(echo, "neighbours")
    before = {row.pk: (row.neighbour_ids, row.scores) for row in same}
    near = _near(list(keys), rows, k, before, lambda done: tick(done, len(tools)))
    names: defaultdict[str, list[str]] = defaultdict(list)  # of each domain, whose clusters are its own
    for name, *_, domain in tools:
        names[domain].append(name)
    newest = {name for own in names.values() for name in operations(own).versions}
    places = [place for place, (name, *_) in enumerate(tools) if name in newest]
    before = {row.pk: (row.other_ids, row.other_scores or []) for row in same if row.other_ids is not None}
    others = _near([tools[place][1] for place in places], rows[places], k, before)
    fresh = {}
    for pk, key in keys.items():
        values = (*near[pk], key, *others.get(pk, (None, None)))
        fresh[pk] = NeighbourList(tool_id=pk, **dict(zip(LIST_FIELDS, values, strict=True)))
    counts = {"tools": len(tools), "encoded": encoded, **_store_lists(fresh, stored), "k": k}
    result = {**counts, "encoder": settings.ENCODER}
    if encoded or counts["changed"] or counts["removed"]:
        domains = Domain.objects.filter(tools__status=Tool.Status.ACTIVE).distinct()
        told = [(domain, result) for domain in domains]
        audit_models.record_all(actor=actor, action="catalog.neighbours_updated", objects=told)
    return {**result, "seconds": round(time.monotonic() - started, 1)}


def _near(
    ids: Sequence[int],
    rows: Rows,
    k: int,
    before: Mapping[int, tuple[Sequence[int], Sequence[float]]],
    progress: Callable[[int], None] = lambda done: None,
) -> dict[int, tuple[list[int], list[float]]]:
    """The k nearest of each of `ids`, which stand in the order of `rows`; `before`: lists of unchanged tools."""
    place = {pk: number for number, pk in enumerate(ids)}
    known = {}
    for pk, (others, scores) in before.items():
        if pk in place:
            still = [(place[o], s) for o, s in zip(others, scores, strict=True) if o in before and o in place]
            known[place[pk]] = ([other for other, _ in still], [score for _, score in still])
    positions, cosines = top_k(rows, k, progress, known)
    return {
        pk: ([ids[other] for other in positions[number]], cosines[number].tolist())
        for pk, number in place.items()
    }


class Ticker:
    """Says how far a loop is, at most every four seconds."""

    def __init__(self, echo: Echo, what: str) -> None:
        self.echo, self.what, self.at = echo, what, time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() - self.at >= ECHO_SECONDS:
            self.at = time.monotonic()
            self.echo(f"{self.what}: {done:,}/{total:,}")


def embedding_key(name: str, description: str) -> str:
    """Changes when the encoder or the text does."""
    return content_hash([settings.ENCODER, embedding_text(name, description)])


def _embeddings_update(echo: Echo) -> int:
    """Encode the active tools whose text or encoder changed; returns how many."""
    active = Tool.objects.filter(status=Tool.Status.ACTIVE).order_by("name")
    stale: dict[str, list[int]] = {}
    texts: list[dict[str, str]] = []
    for pk, name, description, key in active.values_list("pk", "name", "description", "embedding_key"):
        if (wanted := embedding_key(name, description)) != key:
            if wanted not in stale:
                texts.append({"id": wanted, "text": embedding_text(name, description)})
            stale.setdefault(wanted, []).append(pk)
    if texts:
        echo(f"encoding {len(texts):,} texts with {settings.ENCODER}")
        keys, rows = encode_texts(texts, echo=echo)
        _store_embeddings([(pk, key, row) for key, row in zip(keys, rows, strict=True) for pk in stale[key]])
    return sum(map(len, stale.values()))


def encode_texts(texts: list[dict[str, str]], *, echo: Echo = silent) -> tuple[list[str], Rows]:
    """Normalised embeddings of {"id", "text"} rows, made by `python -m catalog.ml encode` in a child process."""
    tick = Ticker(echo, "encoding")

    def on_event(event: dict[str, Any]) -> None:
        if event["event"] == "progress":
            tick(event["done"], event["total"])

    with tempfile.TemporaryDirectory(prefix="trace-encode-") as name:
        folder = Path(name)
        write_jsonl(folder / "texts.jsonl", texts)
        options = ["--in", folder / "texts.jsonl", "--out", folder, "--encoder", settings.ENCODER]
        run_child(
            "catalog.ml",
            ["encode", *map(str, options), "--threads", str(settings.ML_THREADS)],
            cwd=settings.BASE_DIR,
            log=folder / "log.txt",
            on_event=on_event,
            tick=lambda: None,
        )
        keys: list[str] = json.loads((folder / "ids.json").read_text())
        return keys, np.load(folder / "embeddings.npy")


@transaction.atomic
def _store_embeddings(rows: list[tuple[int, str, Any]]) -> None:
    """One COPY and one UPDATE: thousands of vectors within seconds."""
    catalog_lock()
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE fresh (id bigint, key varchar(64), embedding vector)")
        with cursor.copy("COPY fresh FROM STDIN") as copy:
            for pk, key, row in rows:
                copy.write_row((pk, key, str(row.astype(float).round(7).tolist())))
        cursor.execute(
            "UPDATE catalog_tool AS tool SET embedding = fresh.embedding, embedding_key = fresh.key "
            "FROM fresh WHERE tool.id = fresh.id; DROP TABLE fresh"
        )


LIST_FIELDS = ["neighbour_ids", "scores", "embedding_key", "other_ids", "other_scores"]


@transaction.atomic
def _store_lists(fresh: dict[int, NeighbourList], stored: dict[int, NeighbourList]) -> dict[str, int]:
    def content(row: NeighbourList | None) -> list[Any]:
        return [getattr(row, field, None) for field in LIST_FIELDS]

    changed = [row for pk, row in fresh.items() if content(row) != content(stored.get(pk))]
    write_or_update(changed, of=["tool"], fields=LIST_FIELDS)
    removed, _ = NeighbourList.objects.filter(pk__in=stored.keys() - fresh.keys()).delete()
    return {"changed": len(changed), "removed": removed}


def clusters_update(*, domain: str = "", echo: Echo = silent, actor: Any = None) -> dict[str, dict[str, Any]]:
    """Find the clusters of one domain, or of all. A new version is stored only where the result differs.

    Returns {slug: {"version", "new", "clusters", "tools", "median"}}.
    """
    domains = Domain.objects.filter(tools__status=Tool.Status.ACTIVE).distinct()
    if domain:
        domains = domains.filter(slug=domain.lower())
    if not domains:
        where = f"the domain '{domain}'" if domain else "the catalog"
        raise TraceError(f"{where} has no tools.", code="empty", hint="Import a catalog first.")
    results = {}
    for row in domains:
        results[row.slug] = found = _cluster_domain(row, actor)
        echo(f"{row.slug}: {found['clusters']:,} clusters of {found['tools']:,} tools")
    return results


@transaction.atomic
def _cluster_domain(domain: Domain, actor: Any) -> dict[str, Any]:
    Domain.objects.select_for_update().get(pk=domain.pk)
    last = Clustering.objects.filter(domain=domain).order_by("-version").first()
    rows = _found_clusters(domain)
    new = last is None or last.algorithm != ALGORITHM or last.params != PARAMS
    if last and not new:
        before = last.clusters.order_by("position").values_list("tool_ids", "edges")
        new = list(before) != [(row.tool_ids, row.edges) for row in rows]
    if new:
        last = _store_clustering(domain, last, rows)
        detail = {"version": last.version, "clusters": len(rows)}
        audit_models.record(actor=actor, action="catalog.clustered", obj=last, detail=detail)
    assert last is not None
    sizes = sorted(len(row.tool_ids) for row in rows)
    found = {"clusters": len(rows), "tools": sum(sizes), "median": sizes[len(sizes) // 2] if sizes else 0}
    return {"version": last.version, "new": new, **found}


def _found_clusters(domain: Domain) -> list[Cluster]:
    active = Tool.objects.filter(domain=domain, status=Tool.Status.ACTIVE).order_by()
    rows = list(active.values_list("pk", "name", "description", "deprecated"))
    tools = {name: ToolText(description, deprecated) for _, name, description, deprecated in rows}
    ids = {name: pk for pk, name, *_ in rows}
    names = {pk: name for name, pk in ids.items()}
    stored = NeighbourList.objects.filter(tool__in=active).values_list("tool_id", "other_ids", "other_scores")
    lists = {
        names[pk]: [(names[o], s) for o, s in zip(others, scores, strict=True) if o in names]
        for pk, others, scores in stored
        if others is not None and scores is not None
    }
    newest = operations(tools).versions
    if missing := len(tools) - len(stored) or len(newest.keys() - lists.keys()):
        message = f"{missing:,} tools of the domain '{domain.slug}' have no neighbours yet."
        raise TraceError(message, code="no_neighbours", hint="Run catalog_neighbours first.")
    graph = Graph(tools, lists, _shared_answers(tools))
    wanted = [pair for pair in graph.pairs() if pair not in graph.cosines]
    cosines = _cosines([*wanted, *graph.operations.pairs()], ids)
    found = find_clusters(graph.edges(cosines), graph.operations, cosines)
    return [
        Cluster(
            position=place,
            label=label,
            tool_ids=[ids[name] for name in cluster.tools],
            edges=[
                [ids[edge.left], ids[edge.right], edge.signals.cosine, edge.weight, edge.signals.as_dict()]
                for edge in cluster.edges
            ],
            mean_similarity=round(cluster.mean_similarity, 6),
        )
        for place, (cluster, label) in enumerate(
            zip(found, cluster_labels([cluster.tools for cluster in found]), strict=True), start=1
        )
    ]


def _cosines(pairs: Sequence[Pair], ids: Mapping[str, int]) -> dict[Pair, float]:
    """Of pairs whose tools are embedded."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pair.place, round((1 - (a.embedding <=> b.embedding))::numeric, 6)::float "
            "FROM unnest(%s::bigint[], %s::bigint[]) WITH ORDINALITY AS pair(a, b, place) "
            "JOIN catalog_tool a ON a.id = pair.a JOIN catalog_tool b ON b.id = pair.b "
            "WHERE a.embedding IS NOT NULL AND b.embedding IS NOT NULL",
            [[ids[left] for left, _ in pairs], [ids[right] for _, right in pairs]],
        )
        return {pairs[place - 1]: cosine for place, cosine in cursor.fetchall()}


def _shared_answers(names: Container[str]) -> Counter[Pair]:
    """How many labelled requests two tools both answer. Benchmarks are not asked: they measure what clusters hold."""
    told = LabelledQuery.objects.exclude(use=LabelledQuery.Use.BENCHMARK).filter(tools__1__isnull=False)
    counts: Counter[Pair] = Counter()
    for tools in told.order_by().values_list("tools", flat=True):
        known = sorted({name for name in tools if name in names})
        counts.update(pair_of(*pair) for pair in combinations(known, 2) if len(known) <= MAX_SIZE)
    return counts


def _store_clustering(domain: Domain, last: Clustering | None, rows: list[Cluster]) -> Clustering:
    """A new version, in which people's decisions hold on."""
    catalog_lock()
    version = last.version + 1 if last else 1
    clustering = Clustering.objects.create(domain=domain, version=version, algorithm=ALGORITHM, params=PARAMS)
    for row in rows:
        row.clustering = clustering
    if last:
        # who decides now waits: _newest
        list(last.clusters.select_for_update().order_by("pk").values_list("pk"))
        decided = last.clusters.filter(Q(owner__isnull=False) | ~Q(dismissed_reason=""))
        _carry_over(decided.defer("edges").order_by(F("due").asc(nulls_last=True), "pk"), rows)
    Cluster.objects.bulk_create(rows, batch_size=1000)
    _place_tools(clustering)
    return clustering


def _carry_over(before: Iterable[Cluster], rows: Sequence[Cluster]) -> None:
    """A dismissal holds on for a cluster of exactly the same tools. An owner goes where more than half of the tools
    went; of two that meet there, the one who is due first."""
    home = {tool: row for row in rows for tool in row.tool_ids}
    for old in before:
        went = [home[tool] for tool in old.tool_ids if tool in home]
        row = max(went, key=went.count, default=None)
        if row is None:
            continue
        if old.dismissed_reason and set(row.tool_ids) == set(old.tool_ids):
            row.dismissed_reason, row.dismissed_by_id = old.dismissed_reason, old.dismissed_by_id
            row.dismissed_at = old.dismissed_at
        if old.owner_id and row.owner_id is None and 2 * went.count(row) > len(old.tool_ids):
            row.owner_id, row.due = old.owner_id, old.due


def _place_tools(clustering: Clustering) -> None:
    """Every tool of the domain knows its cluster, so that lists need not look into arrays."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE catalog_tool AS tool SET cluster_id = found.cluster_id FROM catalog_tool AS same LEFT JOIN "
            "(SELECT id AS cluster_id, unnest(tool_ids) AS tool_id FROM catalog_cluster WHERE clustering_id = %s) "
            "AS found ON found.tool_id = same.id WHERE same.id = tool.id AND tool.domain_id = %s "
            "AND tool.cluster_id IS DISTINCT FROM found.cluster_id",
            [clustering.pk, clustering.domain_id],
        )


def _newest(cluster: Cluster) -> Cluster:
    """To be decided on, to the end of the transaction. Raises `bad_state` for one of an older clustering."""
    row = Cluster.objects.select_for_update(of=("self",)).select_related("clustering").get(pk=cluster.pk)
    newer = Clustering.objects.filter(domain=row.clustering.domain_id, version__gt=row.clustering.version)
    if newer.exists():
        message = f"{row.label} belongs to an older clustering."
        raise TraceError(message, code="bad_state", where=f"cluster {row.pk}")
    return row


@transaction.atomic
def cluster_dismiss(*, cluster: Cluster, reason: str, actor: Any) -> None:
    """Take a cluster out of the coverage denominator: its descriptions are enough. Raises TraceError: `no_reason`,
    `bad_state`."""
    reason = reason.strip()
    if len(reason) < MIN_REASON:
        message = f"Say why the cluster needs no rule, in at least {MIN_REASON} characters."
        raise TraceError(message, code="no_reason", where="reason")
    row = _newest(cluster)
    row.dismissed_reason, row.dismissed_by, row.dismissed_at = reason, actor, database_now()
    row.save(update_fields=["dismissed_reason", "dismissed_by", "dismissed_at"])
    audit_models.record(actor=actor, action="cluster.dismissed", obj=row, detail={"reason": reason})


@transaction.atomic
def cluster_restore(*, cluster: Cluster, actor: Any) -> None:
    """Undo a dismissal. Raises `bad_state`."""
    row = _newest(cluster)
    if row.dismissed_reason:
        row.dismissed_reason, row.dismissed_by, row.dismissed_at = "", None, None
        row.save(update_fields=["dismissed_reason", "dismissed_by", "dismissed_at"])
        audit_models.record(actor=actor, action="cluster.restored", obj=row)


@transaction.atomic
def cluster_assign(*, cluster: Cluster, owner: Any, due: date | None, actor: Any) -> None:
    """Say who writes what tells the tools apart, and by when; without an owner, nobody does. Raises TraceError:
    `not_allowed`, `bad_input`, `bad_state`."""
    row = _newest(cluster)
    if owner is not None and not rule_writers().filter(pk=owner.pk).exists():
        message = f"{owner} cannot write rules; domain experts and admins can."
        raise TraceError(message, code="not_allowed", where="owner")
    if owner is not None and due is not None and due < database_now().date():
        raise TraceError("The day is over already.", code="bad_input", where="due")
    if row.dismissed_reason:
        raise TraceError(f"{row.label} is dismissed.", code="bad_state", where=f"cluster {row.pk}")
    before = row.owner_id
    row.owner, row.due = owner, due if owner is not None else None
    row.save(update_fields=["owner", "due"])
    detail = {"owner": owner.username if owner else None, "due": str(row.due) if row.due else None}
    audit_models.record(actor=actor, action="cluster.assigned", obj=row, detail=detail)
    if owner is not None and owner != actor:
        by = f" by {row.due:%-d %b}" if row.due else ""
        text = f"{actor or 'A command'} asks you for a rule that tells {row.label} apart{by}."
        tell([owner], "gap", text, link=reverse("cluster", args=[row.pk]), key=f"gap {row.pk}")
    if before not in (None, row.owner_id, getattr(actor, "pk", None)):
        text = f"{actor or 'A command'} took back the gap {row.label}."
        tell([before], "gap", text, link=reverse("cluster", args=[row.pk]), key=f"gap {row.pk}")


def tools_behind() -> int:
    """How many tools came, changed or went since look-alikes were found; counted from indexes, not from texts."""
    active = Tool.objects.filter(status=Tool.Status.ACTIVE).order_by()
    embedded = active.exclude(embedding_key="").first()
    if embedded and embedded.embedding_key != embedding_key(embedded.name, embedded.description):
        return active.count()  # another encoder
    gone = NeighbourList.objects.filter(tool__status=Tool.Status.RETIRED).count()
    unlisted = active.count() - (NeighbourList.objects.count() - gone)
    return max(active.filter(embedding_key="").count(), unlisted) + gone


def half_embedded() -> bool:
    """Whether some active tools are embedded and others are not, or not as they are described now."""
    active = Tool.objects.filter(status=Tool.Status.ACTIVE).order_by()
    rows, keys = Count("pk", filter=Q(embedding__isnull=False)), Count("pk", filter=~Q(embedding_key=""))
    states = active.aggregate(tools=Count("pk"), rows=rows, keys=keys)
    return any(0 < states[name] < states["tools"] for name in ("rows", "keys"))


def refresh_job() -> Job | None:
    """The newest refresh that is worth showing: one that is under way, or the last when it did not end well."""
    last = Job.objects.filter(kind=KIND).order_by("-pk").first()
    return last if last and last.state != Job.State.DONE else None


@transaction.atomic
def catalog_refresh_start(*, actor: Any) -> Job:
    """Queue the refresh. One that still waits is joined; one that runs may have begun before the last change."""
    waiting = Job.objects.select_for_update().filter(kind=KIND, state=Job.State.QUEUED).first()
    return waiting or enqueue(KIND, {}, title="Find look-alikes: neighbours and clusters", created_by=actor)


def await_look_alikes(ctx: JobContext) -> NoReturn:
    """For a job that cannot go on without the look-alikes of new tools: they are found first. Raises JobPostponed, or
    TraceError "no_neighbours" when the job that this one waited for could not find them.
    """
    waited = Job.objects.filter(pk=ctx.waited_for or 0, kind=KIND).first()
    if waited is not None and not waited.is_active and waited.state != Job.State.DONE:
        raise TraceError(
            f"the look-alikes of new tools were not found: {waited.error or waited.state}",
            code="no_neighbours",
            where=f"job {waited.pk}",
            hint="Mend what it says, then resume: they are looked for again.",
        )
    under_way = Job.objects.filter(kind=KIND, state__in=[Job.State.QUEUED, Job.State.RUNNING]).first()
    with ctx.guard():
        found = under_way or catalog_refresh_start(actor=ctx.job.created_by)
    message = f"waits for the look-alikes of {tools_behind():,} tools, which job {found.pk} finds"
    raise JobPostponed(message, found)


def catalog_refresh(ctx: JobContext) -> dict[str, Any]:
    """The job's handler body. What it writes follows from the catalog alone, so doing it twice changes nothing."""
    actor = ctx.job.created_by
    for tried in range(1, TRIES + 1):
        try:
            ctx.progress(0, STEPS, "reading the catalog")
            neighbours = neighbours_update(echo=lambda line: ctx.progress(0, STEPS, line), actor=actor)
            ctx.progress(1, STEPS, "finding clusters")
            domains = clusters_update(echo=lambda line: ctx.progress(1, STEPS, line), actor=actor)
            break
        except TraceError as error:  # no_neighbours: tools were imported between the two steps
            if error.code != "no_neighbours" or tried == TRIES:
                raise
    ctx.progress(STEPS, STEPS, "")
    return {
        "tools": neighbours["tools"],
        "encoded": neighbours["encoded"],
        "lists_changed": neighbours["changed"],
        "clusters": {slug: found["clusters"] for slug, found in domains.items()},
        "new_versions": sum(found["new"] for found in domains.values()),
    }
