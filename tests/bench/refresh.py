"""Processor time of finding look-alikes over the public catalog: from scratch, again, and after one edited tool.

    TRACE_HOME=/some/empty/folder python -m tests.bench.refresh [--cache DIR]

The first run fills the home. Encoding runs in a process of its own and is told apart: from scratch it is not measured
(`--cache` keeps the embeddings, as in tests.bench.lookalikes). After every edit the lists and clusters are found from
scratch too and compared. One line a step: processor seconds of this process, of its Postgres backend and of the
encoder; lists and clusterings written.
"""

import argparse
import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path)
    asked = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trace_site.settings")
    from trace_site.dev.services import ensure_services

    ensure_services()
    import django

    django.setup()
    fill(asked.cache)
    measure()
    return 0


def fill(cache: Path | None) -> None:
    from django.conf import settings
    from django.core.management import call_command

    from catalog.lookalikes import _store_embeddings, embedding_key
    from catalog.models import Tool
    from tests.bench.lookalikes import embeddings, read_public

    call_command("migrate", verbosity=0)
    if Tool.objects.exists():
        return
    folder = Path(settings.TRACE_PUBLIC_DATA)
    for path in sorted((folder / "catalog").glob("*.jsonl")):
        call_command("catalog_import", str(path), domain=path.stem, verbosity=0)
    tools = read_public(folder).tools
    known = {name: (pk, text) for pk, name, text in Tool.objects.values_list("pk", "name", "description")}
    rows = zip(sorted(tools), embeddings(tools, cache), strict=True)
    _store_embeddings([(known[name][0], embedding_key(name, known[name][1]), row) for name, row in rows])


def measure() -> None:
    from catalog.lookalikes import clusters_update, neighbours_update
    from catalog.models import Cluster, Clustering, NeighbourList, Tool

    def found() -> list[Any]:
        newest = Clustering.objects.order_by("domain_id", "-version").distinct("domain_id").values("pk")
        lists = NeighbourList.objects.order_by("tool").values_list(
            "tool", "neighbour_ids", "scores", "other_ids"
        )
        columns = ("position", "label", "tool_ids", "edges")
        clusters = Cluster.objects.filter(clustering__in=newest).order_by("clustering__domain", "position")
        return [*lists, *clusters.values_list(*columns)]

    def refresh() -> dict[str, Any]:
        lists = neighbours_update()
        versions = sum(domain["new"] for domain in clusters_update().values())
        return {
            "encoded": lists["encoded"],
            "lists_written": lists["changed"],
            "clusterings_written": versions,
        }

    NeighbourList.objects.all().delete()
    timed("from scratch", refresh)
    timed("nothing moved", refresh)
    # the third from the middle of the names whose words no other tool repeats
    edited = Tool.objects.filter(domain="finance", deprecated=False).order_by("name")[3000]
    before = edited.description
    for title, words in (
        ("one description edited", "Lists the accounts of a holder with their balances and limits."),
        ("and back", before),
    ):
        Tool.objects.filter(pk=edited.pk).update(description=words)
        timed(title, refresh)
        brought_up = found()
        NeighbourList.objects.all().delete()
        timed("  the same from scratch", refresh)
        print(json.dumps({"equal": brought_up == found()}), flush=True)


def timed(title: str, work: Callable[[], dict[str, Any]]) -> None:
    from django.db import connection

    from tests.bench.scale import processor_seconds

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        backend = cursor.fetchone()[0]

    def clocks() -> tuple[float, float]:
        child = resource.getrusage(resource.RUSAGE_CHILDREN)
        return processor_seconds(backend), child.ru_utime + child.ru_stime

    here, children = clocks()
    result = work()
    here_after, children_after = clocks()
    print(
        f"{title:<26}{here_after - here:>7.2f} s   encoder {children_after - children:.2f} s   {json.dumps(result)}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
