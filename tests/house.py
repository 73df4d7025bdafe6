"""How large the house is, and the most that it may be.

`python -m tests.house` lowers what became less and prints the page. A figure that grew is refused by
tests/test_docs.py; who has a reason raises it in tests/house.json by hand.
"""

import ast
import json
import re
from collections import Counter
from pathlib import Path

from tests.sources import ROOT, imports_of, modules

LIMITS = Path(__file__).with_suffix(".json")
PAGE = ROOT / "docs" / "architecture.md"
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


def measured() -> dict[str, int]:
    """Product code in Python, without migrations, tests and empty files; the README in bytes."""
    sizes = {path: len((ROOT / path).read_text().splitlines()) for path in modules()}
    short = [
        node.end_lineno - node.lineno < 4  # from its name's line: decorators are not counted
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, FUNCTIONS) and node.end_lineno
    ]
    return {
        "lines": sum(sizes.values()),
        "files": sum(1 for lines in sizes.values() if lines),
        "files in the fullest folder": max(Counter(path.parent for path in sizes if sizes[path]).values()),
        "functions of at most 4 lines, %": round(100 * sum(short) / len(short)),
        "circles of imports": len(circles()),
        "bytes of the README": (ROOT / "README.md").stat().st_size,
    }


def circles() -> set[frozenset[str]]:
    """Modules of which each leads to each other one, over imports at any place of a file, also those for types."""
    names = {".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in modules()}
    leads = {
        name: {of for taken in imports_of(path) for of in (taken, taken.rpartition(".")[0]) if of in names}
        for name, path in names.items()
    }
    reached: dict[str, set[str]] = {}
    for name in names:
        found, waiting = set(), set(leads[name])
        while waiting:
            found |= waiting
            waiting = {far for near in waiting for far in leads[near]} - found
        reached[name] = found
    rings = {frozenset(far for far in reached[name] if name in reached[far]) for name in names}
    return {ring for ring in rings if len(ring) > 1}


def limits() -> dict[str, int]:
    return dict(json.loads(LIMITS.read_text()))


def printed(figures: dict[str, int]) -> str:
    """The page with the figures in the column of today."""
    page = PAGE.read_text()
    for name, value in figures.items():
        page = re.sub(
            rf"^(\| {re.escape(name)} \| [^|]* \| )[\d,]+", rf"\g<1>{value:,}", page, flags=re.MULTILINE
        )
    return page


if __name__ == "__main__":
    now, most = measured(), limits()
    lowered = {name: min(value, most.get(name, value)) for name, value in now.items()}
    LIMITS.write_text(json.dumps(lowered, indent=1) + "\n")
    PAGE.write_text(printed(lowered))
    for name, value in now.items():
        print(
            f"{value:>8,}  {name}{f', {value - lowered[name]:,} too many' if value > lowered[name] else ''}"
        )
