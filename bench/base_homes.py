"""The snapshots that `bench.base` measures on, each made by the product's own commands in a home of its own.

    TRACE_HOME=DIR python -m bench.base_homes public|demo --data DIR --out FOLDER [--quick]

Out: FOLDER, a copy of the snapshot; for the demo with groups.json, which of its golden queries published rules cover.
A command that has ended is not run again. `--quick` works on the small part of the data that `cut` leaves.
"""

import argparse
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

from trace_site.lib.files import read_json, read_jsonl, write_atomic, write_jsonl

DEMO = Path(__file__).parents[1] / "trace_site" / "demo"
GOLDEN = DEMO / "prb.jsonl"
TIERS = {"hard": GOLDEN, "plain": DEMO / "prb_plain.jsonl"}
WRITTEN = ("--writer", "offline", "--seed", "1")
APPROVED = ("review_policy", "--auto-approve", "all")
QUICK_RULES, QUICK_TOOLS, QUICK_QUERIES = 8, 150, 6
Command = tuple[str, ...]
Row = dict[str, Any]


def rows_of(path: Path) -> list[Row]:
    return [row for _, row in read_jsonl(path)]


def public(data: Path, quick: bool) -> list[Command]:
    per_rule, anchors = ("2", "20") if quick else ("12", "500")
    queries = data / "benchmarks" / "prb_public" / "queries.jsonl"
    return [
        ("migrate", "--verbosity", "0"),
        ("catalog_import", f"{data}/catalog/hr.jsonl", "--domain", "hr"),
        ("catalog_import", f"{data}/catalog/finance.jsonl", "--domain", "finance"),
        ("catalog_neighbours",),
        ("catalog_clusters",),
        ("rules_import", f"{data}/rules/rules.json", "--publish"),
        # frozen before anything is written, so that no sample repeats one of its queries
        ("benchmark_import", str(queries), "--kind", "prb", "--name", "prb_public"),
        ("synthesis_run", "--branch", "rule", "--per-rule", per_rule, *WRITTEN),
        ("synthesis_run", "--branch", "rrb", "--anchors", anchors, *WRITTEN),
        APPROVED,
        ("snapshot_build", "--strategy", "append", "--per-rule", per_rule, "--seed", "1"),
    ]


def fill(commands: Iterable[Command], done: Path) -> None:
    """Run the commands that the file `done` does not hold."""
    from django.core.management import call_command

    known = done.read_text().splitlines() if done.is_file() else []
    for command in commands:
        if (line := " ".join(command)) not in known:
            print(line, flush=True)
            call_command(*command)
            known.append(line)
            write_atomic(done, "".join(f"{each}\n" for each in known))


def fill_demo(quick: bool) -> None:
    """The steps of `manage.py demo` up to the first training."""
    from django.core.management import call_command

    from trace_site.management.commands import demo
    from trace_site.people.services import ensure_demo_users

    if quick:
        demo.PER_RULE, demo.ANCHORS = 2, 20
    call_command("migrate", verbosity=0)
    ensure_demo_users()
    command: Any = demo.Command()
    command.voice = sys.stdout
    for title, is_done, work in takewhile(lambda step: not step[0].startswith("train "), command.steps()):
        if not is_done():
            print(title, flush=True)
            work()


def copy_snapshot(folder: Path, golden: bool) -> None:
    from evaluation.coverage.grouped import sorting_now
    from synthesis.datasets.files import snapshot_dir
    from synthesis.models import Snapshot

    partial = folder.with_name(f".{folder.name}")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(snapshot_dir(Snapshot.objects.latest("id")), partial)
    if golden:
        sorting = sorting_now()
        groups = {
            row["id"]: sorting.by.group(sorting.ids[name] for name in row["tools"] if name in sorting.ids)
            for path in TIERS.values()
            for row in rows_of(path)
        }
        (partial / "groups.json").write_text(json.dumps(groups))
    partial.rename(folder)


def cut(data: Path, folder: Path) -> None:
    """A part of the public data, in the same places: some rules, their queries and their tools among some others."""
    rules = read_json(data / "rules" / "rules.json")[:QUICK_RULES]
    queries = rows_of(data / "benchmarks" / "prb_public" / "queries.jsonl")
    ruled = [row for row in queries if row["rule"] is not None and row["rule"] < QUICK_RULES]
    free = [row for row in queries if row["rule"] is None]
    write_atomic(folder / "rules" / "rules.json", json.dumps(rules))
    asked = [*ruled, *free[:QUICK_QUERIES]]
    write_jsonl(folder / "benchmarks" / "prb_public" / "queries.jsonl", asked)
    needed = {name for rule in rules for name in (rule["tool_name"], *rule["confusables"])} | _gold(asked)
    for slug in ("hr", "finance"):
        path = Path("catalog") / f"{slug}.jsonl"
        write_jsonl(folder / path, _some(rows_of(data / path), needed))
    place = Path("benchmarks") / "metatool"
    catalog, found = rows_of(data / place / "catalog.jsonl"), rows_of(data / place / "queries.jsonl")
    found = found[:: max(1, len(found) // (QUICK_QUERIES * 10))]
    write_jsonl(folder / place / "queries.jsonl", found)
    write_jsonl(folder / place / "catalog.jsonl", _some(catalog, _gold(found)))


def _gold(queries: list[Row]) -> set[str]:
    return {name for row in queries for name in row["tools"]}


def _some(tools: list[Row], needed: set[str]) -> Iterator[Row]:
    return (row for place, row in enumerate(tools) if place < QUICK_TOOLS or row["name"] in needed)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("home", choices=("demo", "public"))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trace_site.settings")
    from trace_site.dev.services import ensure_services

    ensure_services()
    import django

    django.setup()
    from django.conf import settings

    if asked.home == "demo":
        fill_demo(asked.quick)
    else:
        fill(public(asked.data, asked.quick), settings.TRACE_HOME / "commands.txt")
    copy_snapshot(asked.out, golden=asked.home == "demo")


if __name__ == "__main__":
    main()
