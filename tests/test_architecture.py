"""The house: who may import whom, and that the web process never loads torch."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
APPS = ["catalog", "rules", "synthesis", "training", "evaluation"]
# inside an app a module imports only modules of its own rank or a lower one; what is not named ranks with services
RANK = {"core": 0, "ml": 1, "models": 2, "selectors": 3, "services": 4, "tasks": 5}
RANK |= dict.fromkeys(["book", "coverage", "recall", "registry"], 3)  # reads with a name of their own
RANK |= dict.fromkeys(["forms", "editing", "views", "api", "admin", "management", "urls"], 6)
HEAVY = {"torch", "transformers", "peft", "sentence_transformers", "safetensors", "accelerate", "vllm"}
PURE_BANNED = HEAVY | {"django", "rest_framework", "celery"}
COMPOSITION = {"trace_site/urls.py", "trace_site/views.py", "trace_site/settings.py"}


def modules() -> list[Path]:
    found = [path for app in [*APPS, "trace_site"] for path in (ROOT / app).rglob("*.py")]
    return [path for path in found if "migrations" not in path.parts]


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


@pytest.mark.parametrize("path", [p for p in modules() if {"core", "lib"} & set(p.parts)], ids=relative)
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


def box(name: str, app: str) -> int | None:
    """The rank of a module inside its app; stage modules (imports.py, review.py, ...) rank with services."""
    parts = name.split(".")
    if parts[0] != app or len(parts) < 2:
        return None
    return RANK.get(parts[1].split("_")[0], RANK["services"])


@pytest.mark.parametrize("path", [p for p in modules() if p.relative_to(ROOT).parts[0] in APPS], ids=relative)
def test_boxes_of_an_app_import_downwards(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    if len(parts) < 2 or parts[1] in {"__init__", "apps", "templatetags"}:
        return
    mine = box(".".join(parts), parts[0])
    wrong = sorted(
        name for name in imports_of(path) if (rank := box(name, parts[0])) is not None and rank > mine
    )
    assert not wrong, f"{relative(path)} imports upwards: {wrong}"


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
import trace_site.tasks, trace_site.asgi, trace_site.celery
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
