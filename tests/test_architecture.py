"""The house: who may import whom, and that the web process never loads torch."""

import ast
import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
APPS = ["catalog", "rules", "synthesis", "training", "evaluation"]
# the rooms of an app, each importing only itself and those before it; "" is what lies in the app's own folder
ROOMS = {
    "trace_site": ["lib", "", "audit", "rest", "notices", "webhooks", "dev", "people"],
    "catalog": ["core", "ml", "", "imports", "queries"],
    "rules": ["core", "", "changes", "editor", "exchange"],
    "synthesis": [
        "core",
        "offline",
        "models",
        "",
        "llm",
        "samples",
        "generate",
        "prompts",
        "quality",
        "datasets",
    ]
    + ["batches", "review", "team"],
    "training": ["core", "ml", "", "registry", "runs", "grids", "retraining"],
    "evaluation": ["core", "ml", "", "benchmarks", "retrieval", "coverage", "results", "taught"],
}
# what puts the rooms together comes after all of them
LAST = {"admin", "api", "apps", "figures", "management", "urls", "views"}
LAST |= {"asgi", "commands", "jobs", "middleware", "settings", "templatetags", "worker"}  # of trace_site
# inside a room nothing imports a module of a higher rank; what is not named ranks with services
RANK = {"models": 0, "services": 1, "tasks": 2, "views": 3, "api": 3, "urls": 3}
HEAVY = {"torch", "transformers", "peft", "sentence_transformers", "safetensors", "accelerate", "vllm"}
PURE_BANNED = HEAVY | {"django", "rest_framework", "celery"}
COMPOSITION = {"trace_site/urls.py", "trace_site/views.py", "trace_site/settings.py"}


def modules() -> list[Path]:
    found = [path for app in [*APPS, "trace_site"] for path in (ROOT / app).rglob("*.py")]
    return [path for path in found if "migrations" not in path.parts]


@functools.cache
def imports_of(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", modules(), ids=relative)
def test_module_imports_only_to_its_left(path):
    app = path.relative_to(ROOT).parts[0]
    if app == "trace_site":
        if "management" in path.parts or relative(path) in COMPOSITION:
            return
        banned = set(APPS)
    else:
        banned = set(APPS[APPS.index(app) + 1 :])
    wrong = {name for name in imports_of(path) if name.split(".")[0] in banned}
    assert not wrong, f"{relative(path)} imports to its right: {sorted(wrong)}"


PURE = [path for path in modules() if {"core", "lib"} & set(path.relative_to(ROOT).parts)]


@pytest.mark.parametrize("path", PURE, ids=relative)
def test_core_and_lib_are_pure_python(path):
    names = imports_of(path)
    wrong = {
        name for name in names if name.split(".")[0] in PURE_BANNED or name.split(".")[1:2] == ["models"]
    }
    assert not wrong, f"{relative(path)} is not pure: {sorted(wrong)}"


@pytest.mark.parametrize("path", modules(), ids=relative)
def test_torch_lives_only_under_ml_and_ml_knows_no_django(path):
    names = imports_of(path)
    if "ml" in path.relative_to(ROOT).parts:
        wrong = {name for name in names if name.split(".")[0] in {"django", "rest_framework", "celery"}}
        wrong |= {
            name for name in names if name.split(".")[0] in APPS and name.split(".")[1] not in {"core", "ml"}
        }
    else:
        wrong = {name for name in names if name.split(".")[0] in HEAVY or name.split(".")[1:2] == ["ml"]}
    assert not wrong, f"{relative(path)}: {sorted(wrong)}"


def place(name: str) -> tuple[str, int, int] | None:
    """(app, number of the room, rank inside it) of a module's dotted name, which may end in one of its names."""
    app, *parts = name.split(".")
    if app not in ROOMS or not parts:
        return None
    rooms = ROOMS[app]
    if parts[0] not in rooms:
        last = parts[0] in LAST or (app, parts[0]) == ("trace_site", "models")
        return app, len(rooms) if last else rooms.index(""), 0
    layer = parts[1].split("_")[0] if len(parts) > 1 else ""
    pure = parts[0] in {"core", "ml", "lib"}
    return app, rooms.index(parts[0]), 0 if pure else RANK.get(layer, RANK["services"])


@pytest.mark.parametrize("path", modules(), ids=relative)
def test_rooms_and_layers_of_an_app_import_downwards(path):
    mine = place(".".join(path.relative_to(ROOT).with_suffix("").parts))
    if mine is None or path.name == "__init__.py":
        return
    theirs = {name: found for name in imports_of(path) if (found := place(name)) and found[0] == mine[0]}
    wrong = sorted(name for name, found in theirs.items() if found > mine)
    assert not wrong, f"{relative(path)} imports upwards: {wrong}"


@pytest.mark.parametrize("path", [p for p in modules() if p.stem == "selectors"], ids=relative)
def test_reads_import_no_writes(path):
    wrong = {name for name in imports_of(path) if {"services", "tasks"} & set(name.split(".")[1:])}
    assert not wrong, f"{relative(path)} imports {sorted(wrong)}"


def test_every_room_has_its_place_in_the_order():
    folders = {path.parent.relative_to(ROOT).parts[:2] for path in modules()}
    rooms = {parts for parts in folders if len(parts) == 2 and parts[1] not in {"management", "templatetags"}}
    assert rooms == {
        (app, room) for app, known in ROOMS.items() for room in known if (ROOT / app / room).is_dir() and room
    }


def test_importing_every_url_view_task_and_admin_leaves_torch_unimported():
    program = """
import sys, django
django.setup()
from importlib import import_module
from django.conf import settings
from django.contrib import admin
from django.urls import get_resolver
admin.autodiscover()
def walk(patterns):
    for p in patterns:
        if hasattr(p, "url_patterns"): walk(p.url_patterns)
        else: assert p.callback
walk(get_resolver().url_patterns)
for handler, _ in settings.JOB_HANDLERS.values(): import_module(handler.rpartition(".")[0])
import trace_site.worker, trace_site.asgi, trace_site.celery
heavy = {"torch", "transformers", "peft", "sentence_transformers"}
print("HEAVY", sorted({m.split(".")[0] for m in sys.modules} & heavy))
"""
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "trace_site.settings"},
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "HEAVY []"


@pytest.mark.parametrize("name", ["utils", "helpers", "common"])
def test_no_drawer_for_odds_and_ends(name):
    assert [relative(path) for path in modules() if path.stem == name] == []
