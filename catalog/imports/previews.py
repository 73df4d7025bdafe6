"""What an import would do, or did, in a form for people and programs: fields before and after, impact, bad rows."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from django.conf import settings
from django.core import signing
from django.core.files.base import File
from django.db.models import Exists, OuterRef

from catalog.core.tool import RowError, ToolRecord
from catalog.imports.services import ImportResult, catalog_import
from catalog.models import CatalogImport, Tool, ToolRevision
from trace_site.impact import Impact, impact_of
from trace_site.lib.errors import TraceError

SHOWN = 200  # rows of each kind that are written out; the counts name all
COMPARED = ("description", "permissions", "deprecated", "version")


@dataclass(frozen=True, slots=True)
class FieldChange:
    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class ChangedTool:
    tool: Tool
    changes: list[FieldChange]


@dataclass(frozen=True, slots=True)
class Preview:
    """The first SHOWN rows of every kind; `result.counts` has the whole numbers."""

    result: ImportResult
    added: list[ToolRecord]
    changed: list[ChangedTool]
    returning: list[str]
    removed: list[Tool]
    deprecated: list[str]
    skipped: list[RowError]
    notes: list[RowError]
    impact: list[Impact]

    @property
    def counts(self) -> dict[str, Any]:
        return {**self.result.counts, "returned": len(self.result.diff.returning)}


def preview_of(result: ImportResult) -> Preview:
    """Three queries and what the apps to the right ask for their part of the impact."""
    diff, known = result.diff, result.known
    changed = diff.changed[:SHOWN]
    tools = _tools([known[name] for name in [*(r.name for r in changed), *diff.removed[:SHOWN]]])
    returning = sorted(diff.returning)
    stale = sorted(known[name] for name in [*(r.name for r in diff.changed), *diff.removed])
    return Preview(
        result=result,
        added=[record for record in diff.added if record.name not in diff.returning][:SHOWN],
        changed=[
            ChangedTool(tools[known[r.name]], _changes(_said(tools[known[r.name]]), r.content(result.domain)))
            for r in changed
        ],
        returning=returning[:SHOWN],
        removed=[tools[known[name]] for name in diff.removed[:SHOWN]],
        deprecated=diff.deprecated[:SHOWN],
        skipped=result.errors[:SHOWN],
        notes=result.notes[:SHOWN],
        impact=[line for line in impact_of("tools", stale) if line.count],
    )


def _tools(ids: Iterable[int]) -> dict[int, Tool]:
    return Tool.objects.defer("embedding", "search", "words").in_bulk(list(ids))


def _said(tool: Tool) -> dict[str, Any]:
    return {name: getattr(tool, name) for name in COMPARED}


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldChange]:
    return [
        FieldChange(name, before.get(name), after.get(name))
        for name in COMPARED
        if before.get(name) != after.get(name)
    ]


@dataclass(frozen=True, slots=True)
class AppliedImport:
    """What an applied import did, told by its revisions; at most SHOWN tools of each kind, in the file's order."""

    added: list[Tool]
    changed: list[ChangedTool]
    returned: list[Tool]
    retired: list[Tool]


def applied_import(row: CatalogImport) -> AppliedImport:
    """Six queries, however many tools it touched."""
    own = row.revisions.exclude(tool__in=row.returned_ids).order_by("pk")
    earlier = Exists(ToolRevision.objects.filter(tool=OuterRef("tool"), pk__lt=OuterRef("pk")))
    added = list(own.exclude(earlier).values_list("tool_id", flat=True)[:SHOWN])
    after = list(own.filter(earlier)[:SHOWN]) if row.counts.get("changed") else []
    ids = [revision.tool_id for revision in after]
    older = ToolRevision.objects.filter(tool__in=ids, pk__lt=after[0].pk if after else 0)
    before = {found.tool_id: found for found in older.order_by("tool_id", "-pk").distinct("tool_id")}
    returned, retired = row.returned_ids[:SHOWN], row.retired_ids[:SHOWN]
    tools = _tools([*added, *ids, *returned, *retired])
    return AppliedImport(
        added=[tools[pk] for pk in added],
        changed=[
            ChangedTool(tools[new.tool_id], _changes(before[new.tool_id].data, new.data)) for new in after
        ],
        returned=[tools[pk] for pk in returned],
        retired=[tools[pk] for pk in retired],
    )


def revision_changes(revisions: Sequence[ToolRevision]) -> list[tuple[ToolRevision, list[FieldChange]]]:
    """A tool's history, newest first, each with what it changed against the one before it."""
    return [
        (new, _changes(old.data, new.data) if old else [])
        for new, old in zip_longest(revisions, revisions[1:])
    ]


# Uploaded files between preview and apply: kept in the folder of who sent them, named by a signed ticket.
#
# What is refused is removed at once; of what waits, the oldest gives way when a person has sent too much.


SALT = "catalog.upload.2"
HOURS = 24
PART = ".part-"  # begins the name of what is still being written
MOST_FILES = 5  # of one person that wait
MOST_BYTES = 250_000_000  # of them together


@dataclass(frozen=True, slots=True)
class Upload:
    user: int
    digest: str
    filename: str
    domain: str
    format: str
    licence: str = ""

    @property
    def path(self) -> Path:
        return _folder(self.user) / f"{self.digest}{Path(self.filename).suffix.lower()[:8]}"

    def ticket(self, plan: str) -> str:
        """What the preview showed, signed, so that apply does exactly that."""
        return signing.dumps({"upload": asdict(self), "plan": plan}, salt=SALT)


@contextmanager
def upload_kept(
    file: "File[Any]", *, user: Any, domain: str, fmt: str, licence: str = ""
) -> Iterator[Upload]:
    """The stored file, for whoever looks into it: what that refuses is not kept.

    A second upload of the same bytes is the same file, and waits as before when it is refused in another way.
    """
    name = Path(file.name or "upload").name[:200]
    upload = Upload(user.pk, sha256_of(file), name, domain, fmt, licence)
    waited = upload.path.is_file()
    if waited:
        upload.path.touch()
    else:
        _store(file, upload.path)
    try:
        yield upload
    except BaseException:
        if not waited:
            upload.path.unlink(missing_ok=True)
        raise


def sha256_of(file: "File[Any]") -> str:
    digest = sha256()
    for chunk in file.chunks():
        digest.update(chunk)
    return digest.hexdigest()


def _store(file: "File[Any]", path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, prefix=PART, delete=False) as out:
        part = Path(out.name)
        try:
            for chunk in file.chunks():
                out.write(chunk)
            out.flush()
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    _make_room(path)


def _make_room(kept: Path) -> None:
    """The oldest uploads of a person give way to a new one. It stands already, so that of several which come at once
    the last counts them all; what is still being written is left to its request.
    """
    whole = [found for found in _files(kept.parent) if not found[0].name.startswith(PART)]
    newest = sorted(whole, key=lambda found: (found[0] != kept, -found[1]))
    size = 0
    for number, (path, _, used) in enumerate(newest, start=1):
        size += used
        if path != kept and (number > MOST_FILES or size > MOST_BYTES):
            path.unlink(missing_ok=True)


def _files(folder: Path) -> Iterator[tuple[Path, float, int]]:
    """(file, time of its last change, bytes); one that goes meanwhile is left out."""
    for path in folder.rglob("*"):
        try:
            found = path.stat()
        except FileNotFoundError:
            continue
        if path.is_file():
            yield path, found.st_mtime, found.st_size


def forget_old() -> int:
    """Remove files whose ticket has run out, and parts of uploads that broke off; returns how many."""
    oldest = time.time() - HOURS * 3600
    old = [path for path, changed, _ in _files(_uploads()) if changed < oldest]
    for path in old:
        path.unlink(missing_ok=True)
    return len(old)


def _uploads() -> Path:
    return Path(settings.TRACE_HOME) / "uploads"


def _folder(user: int) -> Path:
    return _uploads() / str(user)


def file_import(file: "File[Any]", **options: Any) -> ImportResult:
    """Import bytes that came in one request, without a ticket; `options` are those of catalog_import."""
    folder = _uploads()
    folder.mkdir(parents=True, exist_ok=True)
    name = Path(file.name or "upload").name[:200]
    with NamedTemporaryFile(dir=folder, suffix=Path(name).suffix.lower()[:8]) as out:
        for chunk in file.chunks():
            out.write(chunk)
        out.flush()
        return catalog_import(path=Path(out.name), filename=name, **options)


def upload_preview(upload: Upload) -> ImportResult:
    return catalog_import(
        path=upload.path,
        domain=upload.domain,
        fmt=upload.format,
        dry_run=True,
        skip_bad_rows=True,
        filename=upload.filename,
        licence=upload.licence,
    )


def upload_apply(ticket: str, *, skip_bad_rows: bool, actor: Any) -> ImportResult:
    """Apply what was previewed; refused when the catalog has changed since and the file would do something else."""
    upload, plan = _open(ticket, actor)
    try:
        result = catalog_import(
            path=upload.path,
            domain=upload.domain,
            fmt=upload.format,
            skip_bad_rows=skip_bad_rows,
            filename=upload.filename,
            plan=plan,
            licence=upload.licence,
            actor=actor,
        )
    except TraceError as error:
        if error.code == "stale_preview":
            upload.path.unlink(missing_ok=True)
        raise
    upload.path.unlink(missing_ok=True)
    return result


def upload_discard(ticket: str, *, actor: Any) -> Upload:
    """The file is refused: forget it."""
    upload, _ = _open(ticket, actor)
    upload.path.unlink(missing_ok=True)
    return upload


def _open(ticket: str, actor: Any) -> tuple[Upload, str]:
    data = read_ticket(ticket, SALT, actor)
    return Upload(**data["upload"]), data["plan"]


def read_ticket(ticket: str, salt: str, actor: Any) -> dict[str, Any]:
    """What a preview signed. Raises TraceError `stale_preview` for who else, later, or without its file."""
    try:
        data: dict[str, Any] = signing.loads(ticket, salt=salt, max_age=HOURS * 3600)
    except signing.BadSignature as error:
        raise TraceError(
            "the preview is too old.", code="stale_preview", hint="Preview the file again."
        ) from error
    upload = Upload(**data["upload"])
    if upload.user != actor.pk:
        raise TraceError(
            "somebody else chose this file.", code="stale_preview", hint="Choose it again under your name."
        )
    if not upload.path.is_file():
        raise TraceError(
            "this file is no longer kept: it was taken, refused, or gave way to later ones.",
            code="stale_preview",
            hint="See what was imported, or choose the file again.",
        )
    return data
