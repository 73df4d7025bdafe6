"""Answering a query with a trained model: the one way of the playground, the API and the command line.

Models run in the engine process, never here. The engine's raw answer is joined with what the catalog knows now:
descriptions, deprecation, permission targets, and the published rule that a trace cites.
"""

import json
import secrets
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import httpx2 as httpx
from django.conf import settings

from catalog.models import Tool
from catalog.services import masked_names
from evaluation.core.metrics import NO_TRACE, cited_codes, trace_notes
from evaluation.retrieval.calibration import NO_TOOL_FITS, judged
from rules.models import Rule
from trace_site.artefacts import store
from trace_site.lib.child import Event, run_child
from trace_site.lib.errors import TraceError, declared
from training.core.scripts import request_words
from training.models import Model
from training.registry.registry import export_dir, model_named, tools_of
from training.runs.stages import child_env

MODES = ("fast", "trace", "both")
TIMEOUT_SECONDS = 60
LONGEST_QUERY = 4000  # characters, as the engine accepts
MOST_TOOLS = 100


@dataclass(frozen=True, slots=True)
class Engine:
    url: str
    token: str = field(repr=False)


def running_engine() -> Engine:
    """The engine behind ENGINE_URL, else the process `manage.py up` started here. Raises TraceError `unavailable`."""
    if settings.ENGINE_URL:
        return Engine(str(settings.ENGINE_URL).rstrip("/"), settings.ENGINE_TOKEN)
    try:
        told = json.loads((settings.TRACE_HOME / "engine.json").read_text())
        return Engine(str(told["url"]), str(told["token"]))
    except (OSError, ValueError, KeyError) as error:
        hint = "Start it with manage.py up, or set ENGINE_URL."
        raise TraceError("the engine is not running.", code="unavailable", hint=hint) from error


def retrieve(
    *,
    query: str,
    model: str | int | Model = "champion",
    mode: str = "fast",
    k: int = 10,
    permissions: Sequence[str] | None = None,
    engine: Engine | None = None,
    patience: float = 0.0,
) -> dict[str, Any]:
    """{"model", "mode", "tools", "ranked", "confidence", "fits", "calibration", "trace", "follows_trace",
    "trace_tools", "cited_rule", "withheld", "unread", "cut_request", "notes", "seconds"}.

    fast: `tools` is the ranked list. trace: the list the model committed to. both: that list, with the ranked one in
    `ranked`. With permission targets, a tool that needs some and is granted none of them is withheld; without
    targets nothing is. Retired and blocked tools are left out of every list. `patience`: seconds to wait for a model
    that is loading.
    """
    if not query.strip() or len(query) > LONGEST_QUERY:
        raise TraceError(f"a query has 1 to {LONGEST_QUERY} characters.", code="bad_request", where="query")
    if mode not in MODES:
        raise TraceError(f"{mode!r} is not one of {', '.join(MODES)}.", code="bad_request", where="mode")
    if not 1 <= k <= MOST_TOOLS:
        raise TraceError(f"must lie in 1..{MOST_TOOLS}.", code="bad_request", where="k")
    chosen = model if isinstance(model, Model) else model_named(model)
    folder, masked = export_dir(chosen), masked_names()
    without = sorted(masked & tools_of(folder, chosen.store_digest)) if masked else []
    request = {"model": str(folder), "query": query, "mode": mode, "k": k, "without": without}
    raw = ask(engine or running_engine(), {**request, "permissions": list(permissions or ())}, patience)
    fast, trace = (raw["fast"], raw["trace"]) if mode == "both" else (raw, raw)
    answer = fast if mode == "fast" else trace

    granted = set(permissions or ())
    names = {name for part in (fast, trace) for name in part["tools"]}
    tools = {tool.name: tool for tool in Tool.objects.filter(name__in=names).defer("embedding", "search")}
    needs = {name: set(tool.permissions) for name, tool in tools.items()}
    withheld = {name for name, need in needs.items() if granted and need and not granted & need}
    text = str(trace.get("trace") or "") if mode != "fast" else ""
    said = {name: trace.get(name, default) if text else default for name, default in NO_TRACE.items()}
    verdict, calibration = judged(chosen, "fast" if mode == "fast" else "trace", trace.get("features") or {})
    unread, cut = fast.get("unread"), bool(fast.get("cut_request"))
    run = chosen.run
    parts = (fast, trace) if mode == "both" else (raw,)
    return {
        "model": {"id": chosen.pk, "cell": run.cell, "base": run.base, "snapshot": run.snapshot_id},
        "mode": mode,
        "tools": described(answer, tools, withheld)[:k],
        "ranked": described(fast, tools, withheld)[:k] if mode == "both" else [],
        "confidence": verdict.confidence,
        "fits": verdict.fits,
        "calibration": calibration,
        "trace": text,
        **said,
        "cited_rule": cited_rule(text, trace["tools"]) if text else None,
        "withheld": len(withheld),
        "unread": unread,
        "cut_request": cut,
        "notes": [
            *([NO_TOOL_FITS] if verdict.fits is False else []),
            *reading_notes(query, unread, cut),
            *trace_notes(**said),
        ],
        "seconds": round(sum(float(part.get("seconds", 0)) for part in parts), 4),
    }


def described(
    answer: dict[str, Any], tools: Mapping[str, Tool], withheld: Container[str]
) -> list[dict[str, Any]]:
    """The tools of an answer with what the catalog knows of them now; one that has left it is shown as retired."""
    scores = [*answer.get("scores", ()), *[None] * len(answer["tools"])]
    return [
        {
            "name": name,
            "score": score,
            "description": tool.description if (tool := tools.get(name)) else "",
            "deprecated": bool(tool and tool.deprecated),
            "retired": tool is None or tool.status == Tool.Status.RETIRED,
        }
        for name, score in zip(answer["tools"], scores, strict=False)
        if name not in withheld
    ]


def reading_notes(query: str, unread: Sequence[str] | None, cut_request: bool) -> list[str]:
    """What a model did not take in of a request, in plain sentences. `unread`: the words its encoder cannot read;
    None: no encoder reads for it."""
    notes = []
    if unread:
        count = len(request_words(query))
        what = f"{len(unread)} of {count} words of this request" if len(unread) < count else "this request"
        notes.append(f"The model cannot read {what}: its encoder has no words in that script.")
    if cut_request:
        notes.append("This request is longer than the model reads; what goes beyond was left out.")
    return notes


def cited_rule(trace: str, answer: Sequence[str]) -> dict[str, Any] | None:
    """The first published rule whose code stands in the trace; of rules with equal codes the one about the answer."""
    rules = Rule.objects.filter(published__isnull=False)
    codes = cited_codes(trace, rules.values_list("code", flat=True))
    if not codes:
        return None
    ids = set(Tool.objects.filter(name__in=answer).values_list("pk", flat=True))
    rule = max(
        rules.filter(code=codes[0]).select_related("published__target"),
        key=lambda one: (len(ids & set(one.published.tool_ids)), -one.pk),  # type: ignore[union-attr]
    )
    assert rule.published is not None
    return {
        "id": rule.pk,
        "code": rule.code,
        "domain": rule.domain_id,
        "version": rule.published.number,
        "target": rule.published.target.name,
        "text": rule.published.text,
        "start": trace.find(rule.code),
    }


def ask(engine: Engine, request: dict[str, Any], patience: float = 0.0) -> dict[str, Any]:
    """The engine's answer; a model that is still loading after `patience` seconds reads as `unavailable`."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {engine.token}".rstrip()}
    deadline = time.monotonic() + patience
    while True:
        try:
            answer = _http().post(f"{engine.url}/retrieve", content=json.dumps(request), headers=headers)
            if answer.is_success:
                found: dict[str, Any] = answer.json()
                return found
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            hint = "It may be starting; try again in a moment. Its log is engine.log in TRACE_HOME/logs."
            raise TraceError("the engine does not answer.", code="unavailable", hint=hint) from error
        refusal = _refusal(answer)
        if refusal.extra.get("engine_code") != "loading" or time.monotonic() > deadline:
            raise refusal
        time.sleep(0.2)


@cache
def _http() -> httpx.Client:
    """Keeps no connection, since the engine may start anew between two calls. The token follows no redirect."""
    limits = httpx.Limits(max_keepalive_connections=0)
    return httpx.Client(timeout=TIMEOUT_SECONDS, limits=limits, trust_env=False)


def _refusal(answer: httpx.Response) -> TraceError:
    try:
        said = answer.json()
    except ValueError:
        said = {}
    message = str(said.get("message") or f"the engine answered {answer.status_code}.")
    if answer.status_code in (401, 403):
        # the site is not known there; whoever asks the site has done nothing wrong
        hint = (
            "Give the site the engine's ENGINE_TOKEN, and the engine the name in ENGINE_URL as ENGINE_HOSTS."
        )
        return TraceError(message, code="unavailable", where="engine", hint=hint)
    if answer.status_code in (502, 503, 504):
        extra = {"engine_code": said.get("code", "")}
        return TraceError(message, code="unavailable", hint="Try again in a moment.", extra=extra)
    return TraceError(message, code=declared(str(said.get("code")), "engine_failed"), where="engine")


# An engine process for the length of one call: how a command line answers without `manage.py up`.

ENGINE = "evaluation.ml"
START_SECONDS = 60.0
LOAD_SECONDS = 600.0  # a model of billions of parameters is read from disk first


class Answered(Exception):
    """Ends the engine that was started for one call; carries the answer."""


def retrieve_once(**call: Any) -> dict[str, Any]:
    """`retrieve` with an engine on a free port that lives no longer than the call."""
    token, log = secrets.token_urlsafe(32), settings.TRACE_HOME / "logs" / "engine-once.log"
    log.unlink(missing_ok=True)
    deadline = time.monotonic() + START_SECONDS
    failed: dict[str, Any] = {"code": "engine_failed", "where": ENGINE, "hint": f"See {log}."}

    def on_event(event: Event) -> None:
        if event.get("event") == "serving":
            started = Engine(f"http://127.0.0.1:{event['port']}", token)
            raise Answered(retrieve(**call, engine=started, patience=LOAD_SECONDS))

    def tick() -> None:
        if time.monotonic() > deadline:
            raise TraceError("the engine did not start.", **failed)

    try:
        run_child(
            ENGINE,
            ["serve", "--port", "0", "--root", str(store().on_this_machine)],
            cwd=settings.BASE_DIR,
            log=log,
            on_event=on_event,
            tick=tick,
            env={**child_env(), "ENGINE_TOKEN": token},
        )
    except Answered as done:
        answer: dict[str, Any] = done.args[0]
        return answer
    except TraceError as error:
        if error.code == "child_failed":
            raise TraceError(error.message, **failed) from error
        raise
    raise TraceError("the engine ended before it answered.", **failed)
