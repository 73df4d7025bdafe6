"""What an import would do, or did, for people and programs: fields before and after, impact, bad rows.

Uploaded files wait between preview and apply in the folder of who sent them, named by a signed ticket. What is refused
is removed at once; of what waits, the oldest gives way when a person has sent too much.
"""

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

from catalog.imports.services import ImportResult, catalog_import
from catalog.models import CatalogImport, Tool, ToolRevision
from trace_site.impact import impact_of
from trace_site.lib.errors import TraceError

SHOWN = 200  # rows of each kind that are written out; the counts name all
COMPARED = ("description", "permissions", "deprecated", "version")
SALT = "catalog.upload.2"
HOURS = 24
PART = ".part-"  # begins the name of what is still being written
MOST_FILES = 5  # of one person that wait
MOST_BYTES = 250_000_000  # of them together


def preview_of(result: ImportResult) -> dict[str, Any]:
    """The first SHOWN rows of every kind; `counts` has the whole numbers. Three queries and what the apps to the right
    ask for their part of the impact.
    """
    diff, known = result.diff, result.known
    changed, removed = diff.changed[:SHOWN], diff.removed[:SHOWN]
    tools = _tools([known[name] for name in [*(record.name for record in changed), *removed]])
    stale = sorted(known[name] for name in [*(record.name for record in diff.changed), *diff.removed])
    rows = []
    for record in changed:
        tool = tools[known[record.name]]
        before = {name: getattr(tool, name) for name in COMPARED}
        rows.append({"tool": tool, "changes": _changes(before, record.content(result.domain))})
    return {
        "result": result,
        "counts": {**result.counts, "returned": len(diff.returning)},
        "added": [record for record in diff.added if record.name not in diff.returning][:SHOWN],
        "changed": rows,
        "returning": sorted(diff.returning)[:SHOWN],
        "removed": [tools[known[name]] for name in removed],
        "deprecated": diff.deprecated[:SHOWN],
        "skipped": result.errors[:SHOWN],
        "notes": result.notes[:SHOWN],
        "impact": [line for line in impact_of("tools", stale) if line.count],
    }


def _tools(ids: Iterable[int]) -> dict[int, Tool]:
    return Tool.objects.defer("embedding", "search", "words").in_bulk(list(ids))


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    pairs = ((name, before.get(name), after.get(name)) for name in COMPARED)
    return [{"field": name, "before": old, "after": new} for name, old, new in pairs if old != new]


def applied_import(row: CatalogImport) -> dict[str, list[Any]]:
    """What an applied import did, told by its revisions; at most SHOWN tools of each kind, in the file's order. Six
    queries, however many tools it touched.
    """
    own = row.revisions.exclude(tool__in=row.returned_ids).order_by("pk")
    earlier = Exists(ToolRevision.objects.filter(tool=OuterRef("tool"), pk__lt=OuterRef("pk")))
    added = list(own.exclude(earlier).values_list("tool_id", flat=True)[:SHOWN])
    after = list(own.filter(earlier)[:SHOWN]) if row.counts.get("changed") else []
    ids = [revision.tool_id for revision in after]
    older = ToolRevision.objects.filter(tool__in=ids, pk__lt=after[0].pk if after else 0)
    before = {found.tool_id: found.data for found in older.order_by("tool_id", "-pk").distinct("tool_id")}
    kinds = {"added": added, "returned": row.returned_ids[:SHOWN], "retired": row.retired_ids[:SHOWN]}
    tools = _tools([*ids, *(pk for pks in kinds.values() for pk in pks)])
    pairs = ((tools[new.tool_id], _changes(before[new.tool_id], new.data)) for new in after)
    changed = [{"tool": tool, "changes": changes} for tool, changes in pairs]
    return {"changed": changed, **{kind: [tools[pk] for pk in pks] for kind, pks in kinds.items()}}


def revision_changes(revisions: Sequence[ToolRevision]) -> list[tuple[ToolRevision, list[dict[str, Any]]]]:
    """A tool's history, newest first, each with what it changed against the one before it."""
    pairs = zip_longest(revisions, revisions[1:])
    return [(new, _changes(old.data, new.data) if old else []) for new, old in pairs]


@dataclass(frozen=True, slots=True)
class Upload:
    user: int
    digest: str
    filename: str
    domain: str
    format: str
    licence: str = ""
    api_name: str = ""

    @property
    def path(self) -> Path:
        return _uploads() / str(self.user) / f"{self.digest}{Path(self.filename).suffix.lower()[:8]}"

    def ticket(self, plan: str) -> str:
        """What the preview showed, signed, so that apply does exactly that."""
        return signing.dumps({"upload": asdict(self), "plan": plan}, salt=SALT)

    def read(self, **options: Any) -> ImportResult:
        """The import of this file; `options` are those of `catalog_import`."""
        options |= {"filename": self.filename, "licence": self.licence, "api_name": self.api_name}
        return catalog_import(path=self.path, domain=self.domain, fmt=self.format, **options)


@contextmanager
def upload_kept(
    file: "File[Any]", *, user: Any, domain: str, fmt: str, licence: str = "", api_name: str = ""
) -> Iterator[Upload]:
    """The stored file, for whoever looks into it: what that refuses is not kept. A second upload of the same bytes is
    the same file, and waits as before when it is refused in another way.
    """
    digest = sha256()
    for chunk in file.chunks():
        digest.update(chunk)
    name = Path(file.name or "upload").name[:200]
    upload = Upload(user.pk, digest.hexdigest(), name, domain, fmt, licence, api_name)
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
    # The oldest uploads of a person give way to the new one. It stands already, so that of several which come at once
    # the last counts them all; what is still being written is left to its request.
    whole = [found for found in _files(path.parent) if not found[0].name.startswith(PART)]
    size = 0
    for number, (other, _, used) in enumerate(sorted(whole, key=lambda one: (one[0] != path, -one[1])), 1):
        size += used
        if other != path and (number > MOST_FILES or size > MOST_BYTES):
            other.unlink(missing_ok=True)


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


def file_import(file: "File[Any]", **options: Any) -> ImportResult:
    """Import bytes that came in one request, without a ticket; `options` are those of catalog_import."""
    _uploads().mkdir(parents=True, exist_ok=True)
    name = Path(file.name or "upload").name[:200]
    with NamedTemporaryFile(dir=_uploads(), suffix=Path(name).suffix.lower()[:8]) as out:
        for chunk in file.chunks():
            out.write(chunk)
        out.flush()
        return catalog_import(path=Path(out.name), filename=name, **options)


def upload_apply(ticket: str, *, skip_bad_rows: bool, actor: Any) -> ImportResult:
    """Apply what was previewed; refused when the catalog has changed since and the file would do something else."""
    data = read_ticket(ticket, SALT, actor)
    upload = Upload(**data["upload"])
    try:
        result = upload.read(skip_bad_rows=skip_bad_rows, plan=data["plan"], actor=actor)
    except TraceError as error:
        if error.code == "stale_preview":
            upload.path.unlink(missing_ok=True)
        raise
    upload.path.unlink(missing_ok=True)
    return result


def upload_discard(ticket: str, *, actor: Any) -> Upload:
    """The file is refused: forget it."""
    upload = Upload(**read_ticket(ticket, SALT, actor)["upload"])
    upload.path.unlink(missing_ok=True)
    return upload


def read_ticket(ticket: str, salt: str, actor: Any) -> dict[str, Any]:
    """What a preview signed. Raises TraceError `stale_preview` for who else, later, or without its file."""
    problem, hint = "", ""
    try:
        data: dict[str, Any] = signing.loads(ticket, salt=salt, max_age=HOURS * 3600)
        upload = Upload(**data["upload"])
    except signing.BadSignature:
        problem, hint = "the preview is too old.", "Preview the file again."
    else:
        if upload.user != actor.pk:
            problem, hint = "somebody else chose this file.", "Choose it again under your name."
        elif not upload.path.is_file():
            problem = "this file is no longer kept: it was taken, refused, or gave way to later ones."
            hint = "See what was imported, or choose the file again."
    if problem:
        raise TraceError(problem, code="stale_preview", hint=hint)
    return data
