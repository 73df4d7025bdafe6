"""Uploaded catalog files between preview and apply: kept under their digest, named by a signed ticket."""

import time
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from django.conf import settings
from django.core import signing
from django.core.files.base import File

from catalog.imports import ImportResult, catalog_import
from trace_site.lib.errors import TraceError

SALT = "catalog.upload"
HOURS = 24


@dataclass(frozen=True, slots=True)
class Upload:
    digest: str
    filename: str
    domain: str
    format: str
    licence: str = ""

    @property
    def path(self) -> Path:
        return (
            Path(settings.TRACE_HOME) / "uploads" / f"{self.digest}{Path(self.filename).suffix.lower()[:8]}"
        )

    def ticket(self, plan: str) -> str:
        """What the preview showed, signed, so that apply does exactly that."""
        return signing.dumps({"upload": asdict(self), "plan": plan}, salt=SALT)


def upload_keep(file: "File[Any]", *, domain: str, fmt: str, licence: str = "") -> Upload:
    """Store the file under its digest; a second upload of the same bytes is the same file."""
    folder = Path(settings.TRACE_HOME) / "uploads"
    folder.mkdir(parents=True, exist_ok=True)
    digest = sha256()
    _forget_old(folder)
    with NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as out:
        for chunk in file.chunks():
            digest.update(chunk)
            out.write(chunk)
    upload = Upload(digest.hexdigest(), Path(file.name or "upload").name[:200], domain, fmt, licence)
    Path(out.name).replace(upload.path)
    return upload


def _forget_old(folder: Path) -> None:
    """Files whose ticket has run out, and parts of uploads that broke off."""
    oldest = time.time() - HOURS * 3600
    for path in folder.iterdir():
        if path.stat().st_mtime < oldest:
            path.unlink(missing_ok=True)


def file_import(file: "File[Any]", **options: Any) -> ImportResult:
    """Import bytes that came in one request, without a ticket; `options` are those of catalog_import."""
    folder = Path(settings.TRACE_HOME) / "uploads"
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
    upload, plan = _open(ticket)
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
    upload.path.unlink(missing_ok=True)
    return result


def upload_discard(ticket: str) -> Upload:
    """The file is refused: forget it."""
    upload, _ = _open(ticket)
    upload.path.unlink(missing_ok=True)
    return upload


def _open(ticket: str) -> tuple[Upload, str]:
    try:
        data = signing.loads(ticket, salt=SALT, max_age=HOURS * 3600)
    except signing.BadSignature as error:
        raise TraceError(
            "the preview is too old.", code="stale_preview", hint="Preview the file again."
        ) from error
    upload = Upload(**data["upload"])
    if not upload.path.is_file():
        raise TraceError(
            "this file was already applied or refused.", code="stale_preview", hint="See the list of imports."
        )
    return upload, data["plan"]
