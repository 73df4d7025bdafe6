"""A copy of a home, made while it is served: the same data at the same moment, for a trial or a move.

It is asleep: served, it answers people and programs, but takes up no job and sends nothing, for the home it was made of
does. `manage.py up --work` wakes it. Passwords and ports are its own from its first start on (see services.py).
"""

import json
import os
import shutil
from pathlib import Path

from trace_site.dev import services
from trace_site.lib.errors import TraceError
from trace_site.lib.files import write_atomic

ASLEEP = "asleep"  # a file in a home; it names the home that this one is a copy of
OWN = shutil.ignore_patterns("postgres", "redis", "logs", "*.lock", "*.json", "beat-schedule*", ASLEEP)


def copy_home(target: Path) -> None:
    """The database first, for what it names has been stored by then. Raises TraceError; what is half made goes."""
    source, target = services.home(), target.resolve()
    if os.environ.get("DATABASE_URL"):
        raise TraceError(
            "its database lies elsewhere, so a copy of the home would share it.",
            code="bad_setting",
            where="DATABASE_URL",
            hint="Copy the database with pg_dump and the store with its own tools.",
        )
    if target.exists() or target.is_relative_to(source):
        raise TraceError(
            "must be a new folder outside the home.",
            code="bad_input",
            where=str(target),
            hint="Name another.",
        )
    services.ensure_services()
    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(parents=True)
        services.copy_postgres(part / "postgres")
        _copy_files(source, part)
        (part / ASLEEP).write_text(f"{source}\n")
        write_atomic(part / "services.json", json.dumps({"home": str(source)}), private=True)
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _copy_files(source: Path, target: Path) -> None:
    """What jobs write meanwhile may be gone again before it is its turn, and lies in no copy."""
    try:
        shutil.copytree(source, target, ignore=_own, dirs_exist_ok=True)
    except shutil.Error as error:
        if any(Path(name).exists() for name, *_ in error.args[0]):
            raise


def _own(folder: str, names: list[str]) -> set[str]:
    """What of a home is its servers' and processes', and none of its data."""
    return OWN(folder, names) if Path(folder) == services.home() else set()


def is_asleep() -> bool:
    return (services.home() / ASLEEP).exists()


def wake() -> None:
    (services.home() / ASLEEP).unlink(missing_ok=True)
