"""The files of a snapshot's folder: tools, neighbours, rules, tokens and the chosen samples, in orders of their own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.db.models import F, QuerySet

from catalog.models import NeighbourList, TokenUnit, Tool
from synthesis.core.snapshot import Composition
from synthesis.models import Sample
from synthesis.sources import published_rules
from trace_site.jobs import JobContext
from trace_site.lib.errors import TraceError
from trace_site.lib.files import sha256_file, write_jsonl

STEPS = 4


def write_files(folder: Path, composition: Composition, ctx: JobContext) -> dict[str, dict[str, Any]]:
    writers = {
        "tools.jsonl": _tools(),
        "neighbours.jsonl": _neighbours(),
        "rules.jsonl": _rules(),
        "tokens.jsonl": _tokens(),
        "samples.jsonl": _samples(composition),
    }
    files: dict[str, dict[str, Any]] = {}
    for name, rows in writers.items():
        ctx.check()
        path = folder / name
        count = write_jsonl(path, rows)
        files[name] = {"sha256": sha256_file(path), "bytes": path.stat().st_size, "rows": count}
    ctx.progress(3, STEPS, "files written")
    return files


def _active() -> QuerySet[Tool]:
    return Tool.objects.filter(status=Tool.Status.ACTIVE).order_by("name")


def _tools() -> Iterator[dict[str, Any]]:
    columns = ("name", "description", "domain_id", "permissions", "deprecated", "version", "content_hash")
    keys = ("name", "description", "domain", "permissions", "deprecated", "version", "hash")
    for row in sorted(_active().values_list(*columns)):
        yield dict(zip(keys, row, strict=True))


def _neighbours() -> Iterator[dict[str, Any]]:
    names = dict(_active().values_list("pk", "name"))
    lists = dict(NeighbourList.objects.values_list("tool_id", "neighbour_ids"))
    for pk, name in sorted(names.items(), key=lambda item: item[1]):
        yield {"name": name, "neighbours": [names[other] for other in lists.get(pk, []) if other in names]}


def _rules() -> Iterator[dict[str, Any]]:
    for version, rule in published_rules():
        yield {
            "code": rule.code,
            "version": rule.version,
            "domain": rule.domain,
            "target": rule.target,
            "confusables": list(rule.confusables),
            "text": rule.text,
            "clauses": version.clauses,
        }


def _tokens() -> Iterator[dict[str, Any]]:
    keys = ("family", "slot", "string", "state")
    rows = TokenUnit.objects.order_by("family", "slot").values_list(*keys)
    if not rows.exists():
        raise TraceError(
            "the token ledger is empty.",
            code="no_tokens",
            hint="Import the catalog: manage.py catalog_import.",
        )
    for row in rows:
        yield dict(zip(keys, row, strict=True))


def _samples(composition: Composition) -> Iterator[dict[str, Any]]:
    columns = (
        "id",
        "key",
        "branch",
        "tier",
        "style",
        "domain",
        "query",
        "trace",
        "answer",
        "permissions",
        "writer",
    )
    rows = Sample.objects.filter(pk__in=[entry.id for entry in composition.chosen]).order_by("id")
    for row in rows.annotate(code=F("rule_version__rule__code")).values(*columns, "code"):
        rule = row.pop("code")
        yield {**row, "rule": rule}
