"""Catalog imports: a file in; tools added, changed, retired or brought back, in one transaction. And undoing one."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from django.db import DataError, transaction
from django.db.models import Max, Min, Q
from django.db.models.functions import Now
from django.urls import reverse
from django.utils.text import slugify

from catalog.core.importers.read import LISTED_ERRORS, read_catalog
from catalog.core.importers.rows import CatalogFile
from catalog.core.tool import (
    MAX_PART,
    CatalogDiff,
    RowError,
    StoredTool,
    diff_catalog,
    search_words,
)
from catalog.core.twins import VersionStep, api_family, version_steps
from catalog.core.words import trigrams, vocabulary
from catalog.models import CatalogImport, CatalogWord, Domain, Tool, ToolRevision
from catalog.selectors import as_stored
from catalog.services import catalog_lock, ledger_update, tools_changed, write_or_update
from trace_site.audit import models as audit_models
from trace_site.database import database_now
from trace_site.impact import impact_of
from trace_site.lib.errors import TraceError, quoted
from trace_site.lib.files import content_hash, sha256_file
from trace_site.lib.letters import entered
from trace_site.lib.provenance import licence_of
from trace_site.webhooks.services import emit

BATCH = 1000
MANY = 5000  # names or ids in one query
KEPT_ERRORS = 1000
AUDITED_NAMES = 200
TOLD_REASONS = 20  # against an undo
CONTENT_FIELDS = ["description", "permissions", "deprecated", "version", "family", "api_version", "source"]
CONTENT_FIELDS += ["status", "content_hash", "words", "updated_at"]


@dataclass(frozen=True, slots=True)
class ToolContent:
    """`data` is the record of catalog files and its `source`; the hash leaves the source out."""

    data: dict[str, Any]
    content_hash: str
    active: bool = True


def contents_write(contents: Sequence[ToolContent], **origin: CatalogImport) -> dict[str, int]:
    """Write the tools with one revision each, and the words a search may mean by them. Returns ids by name. `origin` is
    `catalog_import` or `undo_of`. Call it under `catalog_lock`, in the transaction of the whole change.
    """
    tools = [_tool(content) for content in contents]
    before: dict[str, tuple[str, str]] = {}
    for some in chunks([tool.name for tool in tools]):
        rows = Tool.objects.filter(name__in=some).values_list("name", "description", "status")
        before |= {name: (description, status) for name, description, status in rows}
    try:
        write_or_update(tools, of=["name"], fields=CONTENT_FIELDS)
    except DataError as error:
        where = next((row.filename for row in origin.values()), "")
        raise TraceError(f"a row cannot be stored ({error}).", code="bad_rows", where=where) from error
    revisions = [
        ToolRevision(tool=tool, content_hash=tool.content_hash, data=content.data, **origin)
        for tool, content in zip(tools, contents, strict=True)
    ]
    ToolRevision.objects.bulk_create(revisions, batch_size=BATCH)
    known = [tool for tool in tools if tool.name in before]
    _forget_embeddings([one.pk for one in known if before[one.name] != (one.description, one.status)])
    words = sorted({word for tool in tools for word in vocabulary(tool.name, tool.description)})
    for some in chunks(words):
        stored = set(CatalogWord.objects.filter(word__in=some).values_list("word", flat=True))
        fresh = [CatalogWord(word=word, trigrams=trigrams(word)) for word in some if word not in stored]
        CatalogWord.objects.bulk_create(fresh, batch_size=BATCH, ignore_conflicts=True)
    return {tool.name: tool.pk for tool in tools}


def tools_set_active(ids: Sequence[int], active: bool) -> None:
    """Retire tools, or bring retired ones back; their content stays."""
    status = Tool.Status.ACTIVE if active else Tool.Status.RETIRED
    for some in chunks(ids):
        Tool.objects.filter(pk__in=some).update(status=status, updated_at=Now())
    if active:
        _forget_embeddings(ids)


def chunks(values: Sequence[Any]) -> Iterable[Sequence[Any]]:
    """At most MANY at a time, for IN (...)."""
    return (values[start : start + MANY] for start in range(0, len(values), MANY))


def _tool(content: ToolContent) -> Tool:
    data = content.data
    api, _, endpoint = data["name"].partition("/")
    family, version = api_family(api)
    return Tool(
        **{key: data[key] for key in ("name", "description", "permissions", "deprecated", "version")},
        api=api,
        endpoint=endpoint,
        domain_id=data["domain"],
        family=family,
        api_version=version,
        source=data.get("source", ""),
        status=Tool.Status.ACTIVE if content.active else Tool.Status.RETIRED,
        content_hash=content.content_hash,
        words=search_words(data["name"], data["description"]),
    )


def _forget_embeddings(ids: Sequence[int]) -> None:
    """An empty key says that look-alikes were found for another text, or while the tool was retired."""
    for some in chunks(ids):
        Tool.objects.filter(pk__in=some).update(embedding_key="")


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What an import did, or, for a dry run, would do. `catalog_import` is None when nothing was written.

    `notes` tell what is no tool by design, and texts that were left out, changed or made. `known` has the ids of the
    tools it changes, retires or brings back. `plan` names what it does to the catalog as it was found: equal plans,
    equal effects.
    """

    counts: dict[str, Any]
    diff: CatalogDiff
    format: str
    domain: str
    errors: list[RowError]
    notes: list[RowError]
    versions: list[VersionStep]
    known: dict[str, int]
    plan: str
    catalog_import: CatalogImport | None = None


def catalog_import(
    *,
    path: Path,
    domain: str,
    fmt: str = "auto",
    dry_run: bool = False,
    skip_bad_rows: bool = False,
    filename: str = "",
    plan: str = "",
    licence: str = "",
    api_name: str = "",
    actor: Any = None,
) -> ImportResult:
    """Import a catalog file into one domain.

    Tools of the file's APIs that the file no longer holds are retired; a tool that returns is active again.
    Bad rows refuse the whole file unless `skip_bad_rows`. `filename` is the name people know the file by, `licence`
    what it may be used for. `api_name` is what its API is called here; without it a title that came from another
    source is refused (code api_taken). With the `plan` of a preview the import is refused (code stale_preview) when
    it would now do something else.
    """
    slug, licence = domain_slug(domain), licence_of(licence)
    name, api_name = entered(filename or path.name), entered(api_name).strip()
    shown = filename or str(path)
    read = read_catalog(path, shown=shown, fmt=fmt, keep_going=skip_bad_rows)
    if not skip_bad_rows:
        _refuse(read.errors)
    if not read.records:
        extra = {"errors": _listed(read.errors)}
        raise TraceError("the file holds no tools.", code="empty", where=shown, extra=extra)
    names = iter(as_stored([*(row.name for row in read.records), *(row.name for row in read.errors)]))
    read.records = [replace(row, name=next(names)) for row in read.records]
    read.errors = [replace(row, name=next(names)) for row in read.errors]
    with transaction.atomic():
        if not dry_run:
            catalog_lock()
        api = _api_of(read, slug, Path(name).name[-300:], api_name)
        found = _compare(read, slug)
        if not skip_bad_rows:
            _refuse(found.errors)
        if dry_run:
            return found
        if plan and plan != found.plan:
            hint = "Preview the file again."
            raise TraceError("the catalog changed since the preview.", code="stale_preview", hint=hint)
        return _apply(found, name, sha256_file(path), licence, api, actor)


def domain_slug(value: str) -> str:
    """`HR` -> `hr`; raises TraceError when nothing usable is left."""
    slug = slugify(value)[:60]
    if not slug:
        hint = "Use letters, digits and dashes."
        raise TraceError(f"'{value}' is not a domain.", code="bad_domain", hint=hint)
    return slug


def _listed(errors: list[RowError]) -> list[str]:
    return [str(error) for error in errors[:KEPT_ERRORS]]


def _refuse(errors: list[RowError]) -> None:
    if not errors:
        return
    count = f"{len(errors)} bad row{'s' if len(errors) > 1 else ''}"
    if len(errors) >= LISTED_ERRORS:
        count = f"at least {LISTED_ERRORS} bad rows"
    raise TraceError(
        errors[0].message,
        code="bad_rows",
        where=errors[0].where,
        hint=f"({count}; nothing was imported. Correct the file, or skip the bad rows.)",
        extra={"errors": _listed(errors)},
    )


# Which API a file describes. Its title says so, but many services keep the title of their framework: where the tools
# of that name came from another source, a person says what this one is called, and the same file is known by it later.

TITLED = ("openapi", "swagger", "odata", "mcp")


def _api_of(read: CatalogFile, domain: str, filename: str, given: str) -> dict[str, str]:
    """Put the tools of the file under their API; answers what tells a later import of the same source."""
    apis = {record.api for record in read.records}
    if given:
        if len(apis) > 1 or "/" in given or not given.isprintable() or len(given) > MAX_PART:
            message = f"{quoted(given)} cannot be the name of this file's API."
            hint = f"One API a file, at most {MAX_PART} characters, no slash."
            raise TraceError(message, code="bad_input", where="api_name", hint=hint)
        return _rename(read, apis.pop(), given)
    if read.format not in TITLED:
        return {}
    title = apis.pop()
    known = CatalogImport.objects.filter(undone_at=None)
    earlier = known.filter(filename=filename, domain=domain, counts__title=title)
    names = [title, *earlier.values_list("counts__api_name", flat=True)]
    own = {row.name.partition("/")[2]: "" for row in read.errors}
    own |= {row.name.partition("/")[2]: row.description for row in read.records}
    shared = {name: _shared(name, domain, filename, own) for name in names}
    best = max(names, key=lambda name: shared[name])
    if shared[best] >= 0:
        return _rename(read, title, best)
    origin = (
        known.filter(revisions__tool__api=title).order_by("-pk").values_list("filename", flat=True).first()
    )
    message = f"the API '{title}' came from elsewhere ({origin or 'another source'}), and this file holds other tools."
    hint = f"Give a Name of the API (--api-name, api_name) of its own. If it is the same API, give '{title}'."
    raise TraceError(message, code="api_taken", where=filename, hint=hint)


def _shared(api: str, domain: str, filename: str, own: dict[str, str]) -> int:
    """How many endpoints of an API the file has, where it may be its source; else -1. `own` are the file's endpoints
    with their descriptions. What it would retire must have come from a file of its name and most must stay; from a
    file of another name, most descriptions must be the same."""
    tools = Tool.objects.filter(api=api, status=Tool.Status.ACTIVE)
    held = dict(tools.filter(domain=domain).values_list("endpoint", "description"))
    both = held.keys() & own.keys()
    if not held:
        return -1 if tools.exists() else 0  # those of another domain
    same = CatalogImport.objects.filter(undone_at=None, filename=filename, revisions__tool__in=tools)
    written = set(same.values_list("revisions__tool__endpoint", flat=True))
    alike = sum(own[one] in (held[one], "") for one in both)
    if held.keys() <= own.keys():
        return len(both) if written & both or 2 * alike > len(both) else -1
    is_alike = 2 * len(both) > len(held) or 2 * len(both) >= len(own)
    return len(both) if is_alike and held.keys() - own.keys() <= written else -1


def _rename(read: CatalogFile, title: str, name: str) -> dict[str, str]:
    if title == name:
        return {}
    read.records = [replace(row, name=f"{name}/{row.name.partition('/')[2]}") for row in read.records]
    read.errors = [replace(row, name=row.name.replace(f"{title}/", f"{name}/", 1)) for row in read.errors]
    return {"title": title, "api_name": name}


def _compare(read: CatalogFile, domain: str) -> ImportResult:
    ids: dict[str, int] = {}
    stored: dict[str, StoredTool] = {}
    rows = Tool.objects.order_by().values_list(
        "pk", "name", "api", "domain_id", "content_hash", "deprecated", "status"
    )
    for pk, name, api, tool_domain, known_hash, deprecated, status in rows.iterator(10_000):
        ids[name] = pk
        is_active = status == Tool.Status.ACTIVE
        stored[name] = StoredTool(name, api, tool_domain, known_hash, deprecated, is_active)
    diff = diff_catalog(read.records, stored, domain, keep={error.name for error in read.errors})
    if any(not error.name for error in read.errors):
        diff.removed = []  # a row whose name could not be read may be any of them
    errors = read.errors + diff.errors
    written = [[(r.name, r.content_hash(domain)) for r in records] for records in (diff.added, diff.changed)]
    # how the APIs that are new to the catalog stand to the other versions of their families
    active = [(tool.api, tool.name) for tool in stored.values() if tool.active]
    held = {api for api, _ in active}
    fresh = {record.api for record in diff.added} - held
    families = {api_family(api)[0] for api in fresh}
    kin = {api for api in held if api_family(api)[0] in families}
    names = [record.name for record in diff.added if record.api in fresh]
    counts = {
        "added": len(diff.added),
        "changed": len(diff.changed),
        "unchanged": diff.unchanged,
        "removed": len(diff.removed),
        "deprecated": len(diff.deprecated),
        "skipped": len(errors),
        "errors": _listed(errors),
    }
    touched = [*(record.name for record in diff.changed), *diff.removed, *diff.returning]
    return ImportResult(
        counts=counts,
        diff=diff,
        format=read.format,
        domain=domain,
        errors=errors,
        notes=read.notes,
        versions=version_steps(fresh, [*names, *(name for api, name in active if api in kin)]),
        known={name: ids[name] for name in touched},
        plan=content_hash([domain, *written, diff.removed, sorted(diff.returning)]),
    )


def _apply(
    found: ImportResult, name: str, digest: str, licence: str, api: dict[str, str], actor: Any
) -> ImportResult:
    slug, diff = found.domain, found.diff
    # short names are acronyms (HR), long ones are words (Finance)
    title = slug.upper() if len(slug) <= 3 else slug.replace("-", " ").capitalize()
    domain, _ = Domain.objects.get_or_create(slug=slug, defaults={"title": title})
    returned = sorted(diff.returning)
    told = {"versions": [str(step) for step in found.versions], "notes": _listed(found.notes)}
    row = CatalogImport.objects.create(
        filename=name[-300:],
        format=found.format,
        domain=domain,
        digest=digest,
        licence=licence,
        counts={**found.counts, "returned": len(returned), **told, **api},
        retired_ids=[found.known[name] for name in diff.removed],
        returned_ids=[found.known[name] for name in returned],
        actor=actor,
    )
    contents = [
        ToolContent({**record.content(slug), "source": record.source}, record.content_hash(slug))
        for record in (*diff.added, *diff.changed)
    ]
    written = contents_write(contents, catalog_import=row)
    tools_set_active(row.retired_ids, False)
    if diff.added or diff.removed:
        ledger_update()
    detail = {**found.counts, "errors": len(found.errors), "import": row.pk}
    detail |= {"retired": diff.removed[:AUDITED_NAMES], "returned": returned[:AUDITED_NAMES]}
    audit_models.record(actor=actor, action="catalog.imported", obj=row, detail=detail)
    tools_changed([*written.values(), *row.retired_ids])
    emit("catalog.imported", import_told(row))
    return replace(found, catalog_import=row)


def import_told(row: CatalogImport) -> dict[str, Any]:
    """What webhooks say of an import."""
    counts = {key: count for key, count in row.counts.items() if isinstance(count, int)}
    return {"id": row.pk, "filename": row.filename, "domain": row.domain_id, "counts": counts}


# Undoing an import: every tool it touched goes back to what it was, while nothing depends on what it brought.
#
# Tools it added are retired, never deleted, and keep their tokens; tools it retired return; changed ones get their
# earlier content as a new revision.


@dataclass(frozen=True, slots=True)
class UndoObstacle:
    """Why an import cannot be undone; `url` leads to what stands in the way."""

    sentence: str
    url: str = ""

    def __str__(self) -> str:
        return self.sentence


def undo_plan(row: CatalogImport) -> dict[str, Any]:
    """What `import_undo` would do now, as ids of tools: {"retire", "changed": they stay and get their earlier content
    back, "bring_back", "earlier": {tool: the revision of what it was}, "reasons" against it, "impact"}. Reads only.
    """
    written = set(row.revisions.values_list("tool_id", flat=True))
    # the newest revision of each tool from before the import; one writer at a time makes their ids a history
    first = row.revisions.aggregate(first=Min("pk"))["first"] or 0
    older = ToolRevision.objects.filter(pk__lt=first, tool__in=row.revisions.values("tool_id"))
    earlier = dict(older.order_by().values_list("tool_id").annotate(Max("pk")))
    retire = sorted((written - earlier.keys()) | (set(row.returned_ids) & written))
    touched = sorted(written | set(row.retired_ids))
    impact = impact_of("tools", touched)
    if row.undone_at is not None:
        reasons = [UndoObstacle(f"It was undone on {row.undone_at:%-d %B %Y} at {row.undone_at:%H:%M} UTC.")]
    elif "returned" not in row.counts:
        why = "It was applied before imports kept what undoing needs. Import the earlier file again."
        reasons = [UndoObstacle(why)]
    else:
        blocked = impact if retire == touched else impact_of("tools", retire)
        reasons = _later_imports(row, set(touched))
        reasons += [UndoObstacle(line.blocks, line.url) for line in blocked if line.blocks and line.count]
    plan = {"retire": retire, "changed": sorted(earlier.keys() - set(retire)), "earlier": earlier}
    plan |= {"bring_back": sorted(row.retired_ids), "reasons": reasons}
    return {**plan, "impact": [line for line in impact if line.count]}


def import_undo(*, row: CatalogImport, actor: Any) -> CatalogImport:
    """Undo one import in one transaction. Raises TraceError: bad_state when it is undone already, conflict with
    the reasons in `extra` when later imports or rules stand on it."""
    with transaction.atomic():
        catalog_lock()
        row = CatalogImport.objects.select_for_update().get(pk=row.pk)
        # wait for whoever is just writing a rule that leads to one of the tools, and make later ones wait for us
        tools = Tool.objects.filter(pk__in=row.revisions.values("tool_id")).order_by("pk")
        list(tools.select_for_update().values_list("pk"))
        plan = undo_plan(row)
        if plan["reasons"]:
            told = [reason.sentence for reason in plan["reasons"]]
            raise TraceError(
                f"the import cannot be undone. {' '.join(told[:TOLD_REASONS])}",
                code="bad_state" if row.undone_at else "conflict",
                where=f"import {row.pk}",
                extra={"reasons": told},
            )
        retire, earlier, bring_back = plan["retire"], plan["earlier"], plan["bring_back"]
        retired = set(retire)
        contents = [
            ToolContent(revision.data, revision.content_hash, revision.tool_id not in retired)
            for some in chunks(sorted(earlier.values()))
            for revision in ToolRevision.objects.filter(pk__in=some).order_by("pk")
        ]
        contents_write(contents, undo_of=row)
        tools_set_active(retire, False)
        tools_set_active(bring_back, True)
        ledger_update()
        row.undone_at, row.undone_by = database_now(), actor
        row.save(update_fields=["undone_at", "undone_by"])
        counts = {"retired": len(retire), "restored": len(plan["changed"]), "returned": len(bring_back)}
        audit_models.record(actor=actor, action="catalog.import_undone", obj=row, detail=counts)
        tools_changed([*retire, *earlier, *bring_back])
        emit("catalog.import_undone", {**import_told(row), "undone": counts})
    return row


def _later_imports(row: CatalogImport, touched: set[int]) -> list[UndoObstacle]:
    """Imports since then, themselves not undone, that touched one of the same tools."""
    later = CatalogImport.objects.filter(pk__gt=row.pk, undone_at=None)
    same = Q(tool__in=row.revisions.values("tool_id")) | Q(tool__in=row.retired_ids)
    rewritten = ToolRevision.objects.filter(same, catalog_import__in=later)
    both: dict[int, set[int]] = defaultdict(set)
    for other, tool in rewritten.order_by().values_list("catalog_import_id", "tool_id"):
        both[other].add(tool)
    for other, retired in later.values_list("pk", "retired_ids"):
        both[other] |= touched.intersection(retired)
    named = later.filter(pk__in=[pk for pk, tools in both.items() if tools]).order_by("-pk")
    reasons = []
    for pk, name in named.values_list("pk", "filename"):
        said = f"The later import {pk} ({name}) touched {len(both[pk]):,} of the same tools. Undo that one first."
        reasons.append(UndoObstacle(said, reverse("catalog:import_detail", args=[pk])))
    return reasons
