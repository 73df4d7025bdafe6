"""The product's own code, parsed once for the tests that read it."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
APPS = ["catalog", "rules", "synthesis", "training", "evaluation"]


@cache
def modules() -> dict[Path, ast.Module]:
    """Path from the root -> its tree; migrations apart."""
    paths = [path for app in ["trace_site", *APPS] for path in sorted((ROOT / app).rglob("*.py"))]
    return {
        path.relative_to(ROOT): ast.parse(path.read_text())
        for path in paths
        if "migrations" not in path.parts
    }


@cache
def imports_of(path: Path) -> set[str]:
    """Dotted names that a module of the product imports, each with what it takes from there."""
    names: set[str] = set()
    for node in ast.walk(modules()[path]):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names
