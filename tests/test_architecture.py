"""The house: who may import whom, and that the web process never loads torch."""

import ast
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from django.core.management import get_commands, load_command_class

from bench import base_homes
from tests.sources import APPS, ROOT, imports_of, modules

# the rooms of an app, each importing only itself and those before it; "" is what lies in the app's own folder
ROOMS = {
    "trace_site": ["lib", "", "audit", "rest", "notices", "webhooks", "dev", "people"],
    "catalog": ["core", "ml", "", "imports", "queries"],
    "rules": ["core", "", "changes", "suggestions", "editor", "exchange"],
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
    "evaluation": ["core", "ml", "", "benchmarks", "requests", "retrieval", "coverage", "gate"]
    + ["results", "taught", "reports", "loop", "what_if", "domain"],
}
# what puts the rooms together comes after all of them
LAST = {"api", "apps", "figures", "management", "urls", "views"}
LAST |= {"asgi", "commands", "jobs", "middleware", "settings", "templatetags", "worker"}  # of trace_site
# inside a room nothing imports a module of a higher rank; what is not named ranks with services
RANK = {"models": 0, "services": 1, "tasks": 2, "views": 3, "api": 3, "urls": 3}
HEAVY = {"torch", "transformers", "peft", "sentence_transformers", "safetensors", "accelerate", "vllm"}
DJANGO = {"django", "rest_framework", "celery"}
PURE_BANNED = HEAVY | DJANGO
COMPOSITION = {"trace_site/urls.py", "trace_site/views.py", "trace_site/settings.py"}


def test_a_module_imports_only_to_its_left():
    wrong = {}
    for path in modules():
        app = path.parts[0]
        if app == "trace_site":
            banned = set() if "management" in path.parts or str(path) in COMPOSITION else set(APPS)
        else:
            banned = set(APPS[APPS.index(app) + 1 :])
        wrong[str(path)] = [name for name in imports_of(path) if name.split(".")[0] in banned]
    assert {path: names for path, names in wrong.items() if names} == {}


def test_core_and_lib_are_pure_python():
    pure = [path for path in modules() if {"core", "lib"} & set(path.parts)]
    assert len(pure) > 50
    wrong = [
        f"{path} imports {name}"
        for path in pure
        for name in imports_of(path)
        if name.split(".")[0] in PURE_BANNED or name.split(".")[1:2] == ["models"]
    ]
    assert wrong == []


def test_torch_lives_only_under_ml_and_ml_knows_no_django():
    wrong = []
    for path in modules():
        for name in imports_of(path):
            top, *rest = name.split(".")
            if "ml" in path.parts:
                foreign = top in DJANGO or (top in APPS and rest[0] not in {"core", "ml"})
            else:
                foreign = top in HEAVY or rest[:1] == ["ml"]
            wrong += [f"{path} imports {name}"] if foreign else []
    assert wrong == []


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


def test_rooms_and_layers_of_an_app_import_downwards():
    wrong = []
    for path in modules():
        mine = place(".".join(path.with_suffix("").parts))
        if mine is not None and path.name != "__init__.py":
            found = {name: place(name) for name in imports_of(path)}
            climbs = [name for name, at in found.items() if at and at[0] == mine[0] and at > mine]
            wrong += [f"{path} imports {name}" for name in climbs]
    assert wrong == []


def test_reads_import_no_writes():
    readers = [path for path in modules() if path.stem == "selectors"]
    assert len(readers) > 5
    wrong = [
        f"{path} imports {name}"
        for path in readers
        for name in imports_of(path)
        if {"services", "tasks"} & set(name.split(".")[1:])
    ]
    assert wrong == []


def test_every_room_has_its_place_in_the_order():
    folders = {path.parent.parts[:2] for path in modules()}
    rooms = {parts for parts in folders if len(parts) == 2 and parts[1] not in {"management", "templatetags"}}
    assert rooms == {
        (app, room) for app, known in ROOMS.items() for room in known if (ROOT / app / room).is_dir() and room
    }


def test_importing_every_url_view_and_task_leaves_torch_unimported():
    program = """
import sys, django
django.setup()
from importlib import import_module
from django.conf import settings
from django.urls import get_resolver
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


def test_there_is_no_drawer_for_odds_and_ends():
    assert [str(path) for path in modules() if path.stem in {"utils", "helpers", "common"}] == []


BENCHES = sorted((ROOT / "bench").glob("*.py"))


@cache
def names_in(module: str) -> frozenset[str] | None:
    """What a module of this repository binds, and the modules of a package; None: there is no such module."""
    place = ROOT.joinpath(*module.split("."))
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    names = {child.stem for child in place.iterdir()} if place.is_dir() else set()
    if not path.is_file():
        return frozenset(names) if place.is_dir() else None
    for node in ast.parse(path.read_text()).body:
        # a function binds its name, not what is in it
        inside = [node] if isinstance(node, ast.FunctionDef | ast.ClassDef) else ast.walk(node)
        for one in inside:
            if isinstance(one, ast.FunctionDef | ast.ClassDef):
                names.add(one.name)
            elif isinstance(one, ast.Import | ast.ImportFrom):
                names |= {alias.asname or alias.name.split(".")[0] for alias in one.names}
            elif isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                names.add(one.id)
    return frozenset(names)


def taken_by(path: Path) -> set[tuple[str, str]]:
    """(module of this repository, a name that the file takes from it), as an import or as an attribute."""
    found: set[tuple[str, str]] = set()
    known: dict[str, str] = {}  # a module by the name it has in the file
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] in {*ROOMS, "bench", "tests"}:
            found |= {(str(node.module), alias.name) for alias in node.names}
            known |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = known.get(node.value.id)
            if module and names_in(module) is not None:
                found.add((module, node.attr))
    return found


def test_every_name_that_a_benchmark_takes_from_the_product_or_another_benchmark_exists():
    taken = {(path.name, *one) for path in BENCHES for one in taken_by(path)}
    assert len(taken) > 200
    assert [one for one in sorted(taken) if one[2] not in (names_in(one[1]) or ())] == []


def test_every_command_that_a_benchmark_gives_exists_with_its_options():
    known = get_commands()
    for name, *given in base_homes.public(Path("data"), quick=True):
        command = load_command_class(known[name], name)
        assert command.create_parser("manage.py", name).parse_args(given), name
