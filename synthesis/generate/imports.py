"""Labelled queries of a team's own (production logs) as samples of the branch `imported`.

In: JSON lines {"query", "tools", "split"?}. Each query is registered in the catalog's registry of labelled queries,
so benchmarks and few-shot seeds stay disjoint from it; what repeats a benchmark query is not imported. Personal data
are replaced in the queries before they are stored, as in every text of people; the tools stay.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from catalog.core.scrubbing.child import scrub_many
from catalog.core.words import text_key
from catalog.models import LabelledQuery
from catalog.queries.registry import benchmark_firewall
from catalog.selectors import as_stored
from synthesis.core.keys import sample_seed
from synthesis.models import RunUnit, Sample, SynthesisRun
from synthesis.samples.decisions import decisions_unread
from synthesis.samples.sources import CatalogView, load_catalog
from trace_site.audit import models as audit_models
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash, read_rows
from trace_site.lib.letters import entered_all

MAX_QUERY = 2000
LISTED = 50
BATCH = 2000


@dataclass(slots=True)
class ImportCounts:
    """`rows` of the file = all other numbers together but `scrubbed`, the queries in which something personal was
    replaced; `repeated` say what an earlier row of the file says."""

    rows: int = 0
    imported: int = 0
    unchanged: int = 0
    other_split: int = 0
    repeated: int = 0
    contaminated: int = 0
    skipped: int = 0
    scrubbed: int = 0
    errors: list[str] = field(default_factory=list)

    def refuse(self, where: str, why: str) -> None:
        self.skipped += 1
        if len(self.errors) < LISTED:
            self.errors.append(f"{where}: {why}")


class QueryRow(NamedTuple):
    query: str
    tools: tuple[str, ...]
    typed: str = ""
    replaced: tuple[str, ...] = ()


def samples_import(
    *, path: Path, approve: bool = False, split: str = "train", actor: Any = None
) -> ImportCounts:
    """Import a file; rows already imported stay as they are. Everything is written in one transaction."""
    catalog = load_catalog(neighbours=False)
    counts = ImportCounts()
    different: dict[str, QueryRow] = {}  # by their keys, the first of equal rows
    typed = list(_rows(path, split, catalog, counts))
    for said, done in zip(typed, scrub_many(row.query for row in typed), strict=True):
        row = QueryRow(done.text, said.tools, said.query, tuple(done.kinds))
        counts.repeated += different.setdefault(content_hash(_inputs(row)), row) is not row
    firewall = benchmark_firewall()
    rows = {key: row for key, row in different.items() if firewall.check(row.query) is None}
    counts.scrubbed = sum(bool(row.replaced) for row in rows.values())
    counts.contaminated = len(different) - len(rows)
    if not different:
        reason = counts.errors[0] if counts.errors else f"no row of split '{split}'"
        raise TraceError(f"nothing to import ({reason}).", code="nothing_imported", where=str(path))
    with transaction.atomic():
        _write(rows, path.name, approve, catalog, counts, actor)
    return counts


def untraced(domain: str = "") -> QuerySet[Sample]:
    """Imported samples that no run has tried to write a trace for; what a snapshot holds stays as it is."""
    rows = Sample.objects.filter(branch="imported", machine=Sample.Machine.READY, trace="")
    rows = rows.exclude(human=Sample.Human.REJECTED)
    rows = rows.filter(attempts__isnull=True, memberships__isnull=True)
    return (rows.filter(domain_id=domain) if domain else rows).order_by("id")


def spare(domain: str = "") -> QuerySet[Sample]:
    """Untraced samples that no run under way has planned."""
    active = [Job.State.QUEUED, Job.State.RUNNING]
    planned = RunUnit.objects.filter(sample=OuterRef("pk"), why="", run__job__state__in=active)
    return untraced(domain).exclude(Exists(planned))


def spoken_for(run: SynthesisRun) -> list[int]:
    """Samples whose traces the run planned, that it did not write and nobody is to write any more."""
    planned = Sample.objects.filter(shared_by__run=run, shared_by__why="", attempts__isnull=True)
    return list(planned.exclude(pk__in=untraced().values("pk")).values_list("pk", flat=True))


def _rows(path: Path, split: str, catalog: CatalogView, counts: ImportCounts) -> Iterator[QueryRow]:
    for number, data in as_stored(entered_all([[number, row] for number, row in read_rows(path)])):
        counts.rows += 1
        if split != "all" and data.get("split", split) != split:
            counts.other_split += 1
            continue
        where = f"{path.name}:{number}"
        query, tools = data.get("query"), data.get("tools")
        if not isinstance(query, str) or not query.strip() or len(query) > MAX_QUERY:
            counts.refuse(where, f'"query" must be a text of 1 to {MAX_QUERY:,} characters')
        elif not isinstance(tools, list) or not tools or not all(isinstance(name, str) for name in tools):
            counts.refuse(where, '"tools" must be a list of tool names')
        elif unknown := [name for name in tools if name not in catalog.tools]:
            counts.refuse(where, f"'{unknown[0]}' is not in the catalog")
        else:
            yield QueryRow(" ".join(query.split()), tuple(dict.fromkeys(tools)))


def _inputs(row: QueryRow) -> dict[str, Any]:
    return {"branch": "imported", "query": row.query, "answer": sorted(row.tools)}


def _write(
    rows: dict[str, QueryRow],
    name: str,
    approve: bool,
    catalog: CatalogView,
    counts: ImportCounts,
    actor: Any,
) -> None:
    known = set(Sample.objects.filter(branch="imported").values_list("key", flat=True))
    # a row that came in before queries were scrubbed here does not come a second time
    fresh = {
        key: row
        for key, row in rows.items()
        if known.isdisjoint((key, content_hash(_inputs(row._replace(query=row.typed)))))
    }
    counts.imported, counts.unchanged = len(fresh), len(rows) - len(fresh)
    if not fresh:
        return
    run = SynthesisRun.objects.create(
        branch="imported", writer="import", params={"file": name}, created_by=actor, units=len(fresh)
    )
    queries = _registered(fresh.values(), f"import:{name}"[:100])
    policy = f"import --approve: labels of {name} taken as they are" if approve else ""
    samples = Sample.objects.bulk_create(
        (
            Sample(
                run=run,
                key=key,
                branch="imported",
                domain_id=catalog.domains[row.tools[0]],
                labelled_query_id=queries[text_key(row.query), row.tools],
                seed=sample_seed(0, key),
                answer=list(row.tools),
                query=row.query,
                writer="import",
                machine=Sample.Machine.READY,
                human=Sample.Human.APPROVED if approve else Sample.Human.PENDING,
                approved_by=policy[:200],
                approved_how=Sample.How.IMPORT if approve else "",
                made_from=_inputs(row),
            )
            for key, row in fresh.items()
        ),
        batch_size=BATCH,
    )
    if approve:
        approved = [(sample.pk, None) for sample in samples]
        decisions_unread(approved, policy=policy, by=policy, how=Sample.How.IMPORT, reviewer=actor)
    audit_models.record(
        actor=actor, action="samples.imported", obj=run, detail={"file": name, "samples": len(samples)}
    )


def _registered(rows: Iterable[QueryRow], collection: str) -> dict[tuple[str, tuple[str, ...]], int]:
    """The ids of the rows in the registry of labelled queries, by text key and tools."""
    queries = (
        LabelledQuery(
            collection=collection,
            use=LabelledQuery.Use.IMPORT,
            text=row.query,
            text_key=text_key(row.query),
            tools=list(row.tools),
            source=collection,
            extra={"replaced": list(row.replaced)} if row.replaced else {},
        )
        for row in rows
    )
    LabelledQuery.objects.bulk_create(queries, ignore_conflicts=True, batch_size=BATCH)
    found = LabelledQuery.objects.filter(collection=collection).values_list("text_key", "tools", "pk")
    return {(key, tuple(tools)): pk for key, tools, pk in found}
