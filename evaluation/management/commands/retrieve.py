"""manage.py retrieve: ask a model for tools."""

from typing import Any

from django.conf import settings
from django.core.management import CommandParser

from evaluation.core.asking import MODES, Query
from evaluation.retrieval.calibration import NO_TOOL_FITS
from evaluation.retrieval.retriever import retrieve, retrieve_once
from trace_site.commands import TraceCommand
from trace_site.lib.errors import TraceError
from training.registry.registry import model_named


class Command(TraceCommand):
    help = "Answer one query with a trained model; without a running engine one is started for this call."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("query")
        parser.add_argument("--model", default="champion", help="id or alias")
        parser.add_argument("--mode", choices=MODES, default="fast")
        parser.add_argument("--k", type=int, default=10)
        parser.add_argument("--permission", action="append", help="a permission target; may be repeated")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        model, permissions = model_named(options["model"]), options["permission"]
        granted = None if permissions is None else frozenset(permissions)
        query = Query(options["query"], options["mode"], options["k"], granted)
        try:
            result = retrieve(query, model, patience=120)
        except TraceError as error:
            if error.code != "unavailable" or settings.ENGINE_URL:
                raise
            result = retrieve_once(query, model)
        if result["fits"] is False:
            self.echo("No tool fits this request. The nearest:")
        for place, tool in enumerate(result["tools"], start=1):
            score = "" if tool["score"] is None else f"{tool['score']:9.3f}"
            self.echo(f"{place:3} {score} {tool['name']}{'  (deprecated)' if tool['deprecated'] else ''}")
        notes = [note for note in result["notes"] if note != NO_TOOL_FITS]
        for line in filter(None, (result["trace"], *notes, result["calibration"])):
            self.echo(line)
        said = f"model {result['model']['id']} {result['mode']} in {result['seconds']:.3f} s"
        if result["confidence"] is not None:
            said += f", {result['confidence']:.0%} sure of the first tool"
        if result["cited_rules"]:
            said += f", cites {', '.join(rule['code'] for rule in result['cited_rules'])}"
        return result, said
