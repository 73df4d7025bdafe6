"""Catalog imports: a file in; tools added, changed, retired or brought back, in one transaction."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import DataError, transaction
from django.utils import timezone
from django.utils.text import slugify

from catalog.core.importers.read import LISTED_ERRORS, CatalogFile, read_catalog
from catalog.core.tool import CatalogDiff, RowError, StoredTool, ToolRecord, diff_catalog, search_words
from catalog.ledger import catalog_lock, ledger_update
from catalog.models import CatalogImport, Domain, Tool, ToolRevision
from trace_site import audit
from trace_site.lib.errors import TraceError
from trace_site.lib.files import sha256_file

BATCH = 1000
KEPT_ERRORS = 1000
AUDITED_NAMES = 200
CONTENT_FIELDS = [
    "description",
    "permissions",
    "deprecated",
    "version",
    "source",
    "status",
    "content_hash",
    "words",
    "updated_at",
]


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What an import did, or, for a dry run, would do. `catalog_import` is None when nothing was written."""

    counts: dict[str, Any]
    diff: CatalogDiff
    format: str
    catalog_import: CatalogImport | None


def catalog_import(
    *,
    path: Path,
    domain: str,
    fmt: str = "auto",
    dry_run: bool = False,
    skip_bad_rows: bool = False,
    filename: str = "",
    actor: Any = None,
) -> ImportResult:
    """Import a catalog file into one domain.

    Tools of the file's APIs that the file no longer holds are retired; a tool that returns is active again.
    Bad rows refuse the whole file unless `skip_bad_rows`. `filename` is the name people know the file by.
    """
    slug = domain_slug(domain)
    shown = filename or str(path)
    read = read_catalog(path, shown=shown, fmt=fmt, keep_going=skip_bad_rows)
    if not skip_bad_rows:
        _refuse(read.errors)
    if not read.records:
        raise TraceError("the file holds no tools.", code="empty", where=shown, extra=_extra(read.errors))
    with transaction.atomic():
        catalog_lock()
        diff = _diff(read, slug)
        if not skip_bad_rows:
            _refuse(diff.errors)
        counts = _counts(read, diff)
        row = None
        if not dry_run:
            row = _apply(diff, counts, slug, shown, read.format, sha256_file(path), actor)
    return ImportResult(counts, diff, read.format, row)


def domain_slug(value: str) -> str:
    """`HR` -> `hr`; raises TraceError when nothing usable is left."""
    slug = slugify(value)[:60]
    if not slug:
        raise TraceError(
            f"'{value}' is not a domain.", code="bad_domain", hint="Use letters, digits and dashes."
        )
    return slug


def domain_get_or_create(slug: str) -> Domain:
    """A domain whose title is its slug: short ones are acronyms (HR), long ones are words (Finance)."""
    title = slug.upper() if len(slug) <= 3 else slug.replace("-", " ").capitalize()
    return Domain.objects.get_or_create(slug=slug, defaults={"title": title})[0]


def _extra(errors: list[RowError]) -> dict[str, Any]:
    return {"errors": [str(error) for error in errors[:KEPT_ERRORS]]}


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
        hint=f"({count}; nothing was imported. Correct the file, or use --skip-bad-rows.)",
        extra=_extra(errors),
    )


def _diff(read: CatalogFile, domain: str) -> CatalogDiff:
    stored = {
        tool.name: tool
        for tool in (
            StoredTool(name, api, tool_domain, content_hash, deprecated, status == Tool.Status.ACTIVE)
            for name, api, tool_domain, content_hash, deprecated, status in Tool.objects.values_list(
                "name", "api", "domain_id", "content_hash", "deprecated", "status"
            )
        )
    }
    diff = diff_catalog(read.records, stored, domain, keep={error.name for error in read.errors})
    if any(not error.name for error in read.errors):
        diff.removed = []  # a row whose name could not be read may be any of them
    return diff


def _counts(read: CatalogFile, diff: CatalogDiff) -> dict[str, Any]:
    errors = read.errors + diff.errors
    return {
        "added": len(diff.added),
        "changed": len(diff.changed),
        "unchanged": diff.unchanged,
        "removed": len(diff.removed),
        "deprecated": len(diff.deprecated),
        "skipped": len(errors),
        "errors": [str(error) for error in errors[:KEPT_ERRORS]],
    }


def _apply(
    diff: CatalogDiff,
    counts: dict[str, Any],
    slug: str,
    shown: str,
    fmt: str,
    digest: str,
    actor: Any,
) -> CatalogImport:
    domain = domain_get_or_create(slug)
    row = CatalogImport.objects.create(
        filename=shown[-300:], format=fmt, domain=domain, digest=digest, counts=counts, actor=actor
    )
    _write_tools([*diff.added, *diff.changed], domain, row)
    _retire(diff.removed)
    if diff.added or diff.removed:
        ledger_update()
    detail = {**counts, "errors": len(counts["errors"]), "import": row.pk}
    detail["retired"] = diff.removed[:AUDITED_NAMES]
    detail["returned"] = sorted(diff.returning)[:AUDITED_NAMES]
    audit.record(actor=actor, action="catalog.imported", obj=row, detail=detail)
    return row


def _write_tools(records: Iterable[ToolRecord], domain: Domain, row: CatalogImport) -> None:
    tools = [_tool(record, domain) for record in records]
    try:
        Tool.objects.bulk_create(
            tools,
            batch_size=BATCH,
            update_conflicts=True,
            unique_fields=["name"],
            update_fields=CONTENT_FIELDS,
        )
    except DataError as error:
        raise TraceError(f"a row cannot be stored ({error}).", code="bad_rows", where=row.filename) from error
    ids = dict(Tool.objects.filter(domain=domain).values_list("name", "pk"))
    records_by_name = {tool.name: tool for tool in tools}
    ToolRevision.objects.bulk_create(
        [
            ToolRevision(
                tool_id=ids[name], content_hash=tool.content_hash, data=_content(tool), catalog_import=row
            )
            for name, tool in records_by_name.items()
        ],
        batch_size=BATCH,
    )


def _tool(record: ToolRecord, domain: Domain) -> Tool:
    api, _, endpoint = record.name.partition("/")
    return Tool(
        name=record.name,
        api=api,
        endpoint=endpoint,
        description=record.description,
        domain=domain,
        permissions=list(record.permissions),
        deprecated=record.deprecated,
        version=record.version,
        source=record.source,
        status=Tool.Status.ACTIVE,
        content_hash=record.content_hash(domain.pk),
        words=search_words(record.name),
    )


def _content(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "domain": tool.domain_id,
        "permissions": tool.permissions,
        "deprecated": tool.deprecated,
        "version": tool.version,
    }


def _retire(names: list[str]) -> None:
    for start in range(0, len(names), 5000):
        Tool.objects.filter(name__in=names[start : start + 5000]).update(
            status=Tool.Status.RETIRED, updated_at=timezone.now()
        )
