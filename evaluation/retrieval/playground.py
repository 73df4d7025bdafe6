"""The playground: a query, one or two models, a mode; the answers load one by one beside each other."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models.fields.json import KT
from django.http import HttpRequest, HttpResponse, QueryDict, StreamingHttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.html import escape
from django.views.decorators.http import require_GET

from evaluation.benchmarks.selectors import rule_answers
from evaluation.core.asking import LONGEST_QUERY, MODES, Query
from evaluation.models import Answer, Benchmark
from evaluation.retrieval import retriever
from evaluation.retrieval.calibration import NO_TOOL_FITS
from evaluation.retrieval.engine import running_engine
from evaluation.retrieval.lookups import PLAIN_SEARCH, ServingPart
from evaluation.retrieval.retriever import EVENTS, event
from rules.models import Rule, RuleVersion
from synthesis.samples.checks import tools_near, trace_spans
from trace_site.lib.errors import TraceError
from training.models import AliasMove, Model, Run
from training.registry.registry import current_aliases, holds_newer, newer_tools
from training.registry.selectors import alias_names, models

PATIENCE = 20.0  # seconds a page waits for a model that is loading
SHOWN = 10
RANKED = "Ranked, fast mode"
EXAMPLES = 8
NEWER = 3  # names of tools the model does not have


@dataclass(frozen=True, slots=True)
class Choice:
    query: str
    mode: str
    model: str  # an id, or empty
    other: str

    @classmethod
    def of(cls, given: QueryDict) -> "Choice":
        mode = given.get("mode", "both")
        return cls(
            given.get("q", "").strip()[:LONGEST_QUERY],
            mode if mode in MODES else "both",
            given.get("model", "").strip(),
            given.get("other", "").strip(),
        )

    @property
    def asked(self) -> Query:
        return Query(self.query, self.mode, SHOWN)


@require_GET
def playground_page(request: HttpRequest) -> HttpResponse:
    """Models to choose from, the two taken when none is, examples, and whether the engine is there."""
    choice = Choice.of(request.GET)
    known, aliases = list(models().filter(removed_at=None)[:200]), current_aliases()
    default = ServingPart().model(AliasMove.Alias.CHAMPION)
    first = choice.model or (str(default.pk) if default else PLAIN_SEARCH)
    asked = next((one for one in known if str(one.pk) == first), None)
    second = choice.other
    if not choice.other and not choice.model:
        # to see what rules change: the newest model trained without them, else the previous champion
        plain = [one for one in known if one.run.retrieval == Run.Retrieval.REASONED and str(one.pk) != first]
        beside = plain[0] if plain else aliases.get("previous")
        second = str(beside.pk) if beside and str(beside.pk) != first else PLAIN_SEARCH if default else ""
    tools = newer_tools(asked) if asked else None
    count, first_newer = (0, []) if tools is None else (tools.count(), list(tools.order_by("-pk")[:NEWER]))
    engine_error = ""
    try:
        running_engine()
    except TraceError as error:
        engine_error = str(error)
    context = {
        "choice": choice,
        "models": known,
        "aliases": alias_names(aliases),
        "first": first,
        "second": second,
        "examples": examples(asked),
        # the tools the chosen model was not trained on
        "newer": {"model": asked, "count": count, "first": first_newer, "held": holds_newer(asked)}
        if asked and first_newer
        else None,
        "engine_error": engine_error,
    }
    return render(request, "evaluation/playground.html", context)


def examples(model: Model | None) -> list[dict[str, str]]:
    """One test query of some published rules, spread over the domains; what the model fails at is left out once its
    tests have been asked. And a request that the model says no tool fits."""
    found = RuleVersion.objects.filter(pk__in=Rule.objects.values("published")).exclude(tests=[])
    rows = found.select_related("rule").only("tests", "rule__code", "rule__domain")
    asked = rule_answers().filter(model=model).values_list("item__data", KT("output__tools__0"))
    failed = {test["query"] for test, first in asked if first not in test["tools"]}
    known = [
        {"query": test["query"], "code": version.rule.code}
        for version in rows.order_by("rule__domain", "rule__code")
        if (test := next((one for one in version.tests if one["query"] not in failed), None))
    ]
    refused = Answer.objects.filter(
        evaluation__model=model,
        evaluation__benchmark__kind=Benchmark.Kind.OUTSIDE,
        evaluation__benchmark__is_development=True,
        scores__refused=1,
    ).order_by("-evaluation", "item__position")
    outside = refused.values_list("item__data__query", flat=True)[:1]
    spread = known[:: max(1, len(known) // EXAMPLES)][:EXAMPLES]
    return [*spread, *({"query": text, "code": ""} for text in outside)]


@require_GET
def playground_answer(request: HttpRequest) -> HttpResponse:
    """Fragment: one model's answer to the query; a refusal is part of the page."""
    choice = Choice.of(request.GET)
    context = answered(choice) if choice.query and choice.model else {}
    return render(request, "evaluation/_answer.html", {"choice": choice, **context})


def answered(choice: Choice) -> dict[str, Any]:
    try:
        return shown(retriever.retrieve(choice.asked, choice.model, patience=PATIENCE))
    except TraceError as error:
        return {"error": error}


@require_GET
def playground_stream(request: HttpRequest) -> StreamingHttpResponse:
    """The same answer as it is made: events `fast` (the ranked list), `text` (the trace as it is written) and `done`
    (the fragment that takes the place of both), HTML each. What is refused is shown by `done`."""
    choice = Choice.of(request.GET)
    return StreamingHttpResponse(_parts(request, choice), content_type=EVENTS)


def _parts(request: HttpRequest, choice: Choice) -> Iterator[str]:
    context: dict[str, Any] = {}
    parts = retriever.retrieve_in_parts(
        choice.asked, choice.model, patience=PATIENCE, departure=getattr(request, "departure", None)
    )
    try:
        for name, part in parts if choice.query and choice.model else ():
            if name == "text":
                yield event("text", escape(part["text"]))
            elif name == "fast":
                rows = {"answer": part, "tables": [(RANKED, part["ranked"])], "is_first": True}
                yield event("fast", render_to_string("evaluation/_answer_first.html", rows))
            else:
                context = shown(part)
    except TraceError as error:
        context = {"error": error}
    yield event("done", render_to_string("evaluation/_answer.html", {"choice": choice, **context}, request))


def shown(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer as its fragment shows it."""
    names = [row["name"] for row in answer["tools"]]
    near = tools_near(names, [answer["trace"] or ""])
    codes = [rule["code"] for rule in answer["cited_rules"][:1]]
    lists = (
        (RANKED if answer["mode"] == "fast" else "Committed to", answer["tools"]),
        (RANKED, answer["ranked"]),
    )
    spoken = [{**one, "percent": round(100 * one["share"])} for one in answer["clauses"]]
    return {
        "answer": {**answer, "clauses": spoken},
        # the page says above the list that no tool fits
        "notes": [note for note in answer["notes"] if note != NO_TOOL_FITS],
        "chance": 100 * (answer["confidence"] or 0),
        "spans": trace_spans(answer["trace"], near, names, codes),
        "tables": [(title, rows) for title, rows in lists if rows],
    }
