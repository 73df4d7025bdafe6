"""The playground: what may be chosen, and one model's answer as a page shows it.

In: the address's parameters. Out: the choice, and an answer with its trace in spans, or why there is none.
"""

from dataclasses import dataclass
from math import exp
from typing import Any

from django.http import QueryDict

from catalog.models import Tool
from evaluation.models import Benchmark, Prediction, RuleTestResult
from evaluation.retrieval import retriever
from evaluation.retrieval.calibration import NO_TOOL_FITS
from rules.models import Rule, RuleVersion
from synthesis.samples.checks import trace_spans
from trace_site.lib.errors import TraceError
from training.models import Model, Run
from training.registry.registry import current_aliases, newer_tools
from training.registry.selectors import alias_names, models

PATIENCE = 20.0  # seconds a page waits for a model that is loading
SHOWN = 10
EXAMPLES = 8
NEWER = 3  # names of tools the model does not have


@dataclass(frozen=True, slots=True)
class Choice:
    query: str
    mode: str
    model: str  # an id, or empty
    other: str


def choice(given: QueryDict) -> Choice:
    mode = given.get("mode", "both")
    return Choice(
        given.get("q", "").strip()[: retriever.LONGEST_QUERY],
        mode if mode in retriever.MODES else "both",
        given.get("model", "").strip(),
        given.get("other", "").strip(),
    )


def page_facts(chosen: Choice) -> dict[str, Any]:
    """Models to choose from, the two taken when none is, examples, and whether the engine is there."""
    known = list(models().filter(removed_at=None)[:200])
    aliases = current_aliases()
    first = chosen.model or default_model(known, aliases)
    asked = next((one for one in known if str(one.pk) == first), None)
    return {
        "models": known,
        "aliases": alias_names(aliases),
        "first": first,
        "second": chosen.other or ("" if chosen.model else default_other(known, aliases, first)),
        "examples": [*examples(asked), *refusal_example(asked)],
        "newer": newer_than(asked),
        "engine_error": engine_error(),
    }


def default_model(known: list[Model], aliases: dict[str, Model]) -> str:
    """The champion, else the newest model."""
    if "champion" in aliases:
        return str(aliases["champion"].pk)
    return str(known[0].pk) if known else ""


def default_other(known: list[Model], aliases: dict[str, Model], first: str) -> str:
    """To see what rules change: the newest model trained without them, else the previous champion."""
    plain = [one for one in known if one.run.retrieval == Run.Retrieval.REASONED and str(one.pk) != first]
    previous = aliases.get("previous")
    other = plain[0] if plain else previous
    return str(other.pk) if other is not None and str(other.pk) != first else ""


def newer_than(model: Model | None) -> dict[str, Any] | None:
    """The tools the chosen model has no token for; None without any."""
    tools = newer_tools(model) if model else None
    count = tools.count() if tools is not None else 0
    return {"model": model, "count": count, "first": tools[:NEWER]} if tools is not None and count else None


def examples(model: Model | None) -> list[dict[str, str]]:
    """One test query of some published rules, spread over the domains; what the model fails at is left out once its
    tests have been asked."""
    found = RuleVersion.objects.filter(pk__in=Rule.objects.values("published")).exclude(tests=[])
    rows = (
        found.select_related("rule")
        .only("tests", "rule__code", "rule__domain")
        .order_by("rule__domain", "rule__code")
    )
    failed = failed_tests(model)
    known = [
        {"query": test["query"], "code": version.rule.code}
        for version in rows
        if (test := next((one for one in version.tests if one["query"] not in failed), None))
    ]
    return known[:: max(1, len(known) // EXAMPLES)][:EXAMPLES]


def failed_tests(model: Model | None) -> set[str]:
    results = RuleTestResult.objects.filter(model=model).values_list("results", flat=True)
    return {one["query"] for rows in results for one in rows if not set(one["found"][:1]) & set(one["tools"])}


def refusal_example(model: Model | None) -> list[dict[str, str]]:
    """A request that the model says no tool fits."""
    refused = Prediction.objects.filter(
        evaluation__model=model,
        evaluation__benchmark__kind=Benchmark.Kind.OUTSIDE,
        evaluation__benchmark__is_development=True,
        scores__refused=1,
    ).order_by("-evaluation", "item__position")
    return [{"query": text, "code": ""} for text in refused.values_list("item__data__query", flat=True)[:1]]


def engine_error() -> str:
    try:
        retriever.running_engine()
    except TraceError as error:
        return str(error)
    return ""


def answered(chosen: Choice) -> dict[str, Any]:
    """One model's answer; a refusal is part of the page."""
    try:
        answer = retriever.retrieve(
            query=chosen.query, model=chosen.model, mode=chosen.mode, k=SHOWN, patience=PATIENCE
        )
    except TraceError as error:
        return {"error": error}
    rule = answer["cited_rule"]
    names = [row["name"] for row in answer["tools"]]
    known = Tool.objects.filter(name__in=names) | Tool.objects.filter(
        api__in={name.split("/")[0] for name in names}
    )
    spans = trace_spans(
        answer["trace"], known.values_list("name", flat=True), names, [rule["code"]] if rule else []
    )
    tables = [
        (title, with_chance(rows))
        for title, rows in (
            (list_title(answer["mode"]), answer["tools"]),
            ("Ranked, fast mode", answer["ranked"]),
        )
        if rows
    ]
    return {
        "answer": answer,
        "notes": [
            note for note in answer["notes"] if note != NO_TOOL_FITS
        ],  # the page says it above the list
        "chance": 100 * (answer["confidence"] or 0),
        "spans": spans,
        "tables": tables,
    }


def list_title(mode: str) -> str:
    return "Ranked, fast mode" if mode == "fast" else "Committed to"


def with_chance(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Scores are log-probabilities; people read per cent."""
    return [{**row, "chance": 100 * exp(row["score"]) if row["score"] is not None else None} for row in rows]
