"""A database is made by SQL that is written out here and stands still, or it is refused."""

import ast
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from trace_site.lib.errors import TraceError

APPS = ("trace_site", "catalog", "rules", "synthesis", "training", "evaluation")
FILES = [path for app in APPS for path in sorted(Path(settings.BASE_DIR, app, "migrations").glob("0*.py"))]


def test_a_home_of_an_earlier_version_is_refused_with_what_to_do(db):
    MigrationRecorder(connection).record_applied("rules", "0007_health_words")
    with pytest.raises(TraceError, match="made by an earlier version") as refused:
        call_command("migrate", verbosity=0)
    assert refused.value.code == "old_home" and "TRACE_HOME" in refused.value.hint


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_a_migration_imports_no_code_of_the_product(path):
    tree = ast.parse(path.read_text())
    named = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    named |= {node.module or "." for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in named if name.partition(".")[0] in (*APPS, "importlib", "")} == set()


def test_models_and_migrations_say_the_same(db):
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)
