"""Answering queries with a trained model: the one way of the playground, the API and the command line.

Models run in the engine process, never here. The engine's raw answer is joined with what the catalog knows now:
descriptions, deprecation, permission targets, and the rules that a trace cites as the model's snapshot has them.

Permission targets are looked at here, after decoding, whatever the engine did: a tool that needs some and is granted
none of them stands in no list, and its name in no text, of any answer in any mode. `withheld` names it.
"""

import secrets
import time
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from evaluation.core.metrics import NO_TRACE, trace_notes
from evaluation.core.withholding import WITHHELD, Granted, Redaction, is_withheld
from evaluation.retrieval.calibration import NO_TOOL_FITS, judged
from evaluation.retrieval.engine import Engine, ask, ask_in_lines, running_engine
from evaluation.retrieval.lookups import KnownTool, Lookups, lookups
from trace_site.artefacts import store
from trace_site.lib.child import Event, run_child
from trace_site.lib.departure import Departure
from trace_site.lib.errors import TraceError, declared
from training.core.scripts import request_words
from training.models import AliasMove, Model
from training.runs.stages import child_env

MODES = ("fast", "trace", "both")
LONGEST_QUERY = 4000  # characters, as the engine accepts
MOST_TOOLS = 100
MOST_QUERIES = 64  # of one batch
Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Query:
    """One question. `permissions`: the targets that are granted; None: all. `exact`: the ranking equals scoring every
    tool; without it a search of limited length may do."""

    query: str
    mode: str = "fast"
    k: int = 10
    permissions: Granted = None
    domain: str | None = None
    exact: bool = True

    def check(self, known: Lookups) -> None:
        """Raises TraceError `bad_request`, `no_such_domain`."""
        if not self.query.strip() or len(self.query) > LONGEST_QUERY:
            raise TraceError(
                f"a query has 1 to {LONGEST_QUERY} characters.", code="bad_request", where="query"
            )
        if self.mode not in MODES:
            raise TraceError(
                f"{self.mode!r} is not one of {', '.join(MODES)}.", code="bad_request", where="mode"
            )
        if not 1 <= self.k <= MOST_TOOLS:
            raise TraceError(f"must lie in 1..{MOST_TOOLS}.", code="bad_request", where="k")
        if self.domain and not known.catalog.has_domain(self.domain):
            raise TraceError(f"there is no domain {self.domain!r}.", code="no_such_domain", where="domain")

    def as_asked(self) -> Answer:
        """As the engine is asked."""
        granted = None if self.permissions is None else sorted(self.permissions)
        asked = {"query": self.query, "mode": self.mode, "k": self.k, "permissions": granted}
        return {**asked, "domain": self.domain, "exact": self.exact}


class Session:
    """What questions asked together share: what is known as of now, the model, the engine, and when they came in."""

    def __init__(
        self,
        queries: Sequence[Query],
        model: str | int | Model,
        known: Lookups | None = None,
        engine: Engine | None = None,
    ) -> None:
        self.started = time.perf_counter()
        self.known = known or lookups()
        for query in queries:
            query.check(self.known)
        self.wanted = model if isinstance(model, Model) else self.known.serving.model(model)
        self.models = {self.known.serving.folder(self.wanted): self.wanted}
        if model == AliasMove.Alias.CHAMPION:  # while a new champion loads, the one before it answers
            for earlier in self.known.serving.earlier_champions():
                try:
                    self.models.setdefault(self.known.serving.folder(earlier), earlier)
                except TraceError:
                    continue  # its files are gone or damaged
        self.engine = engine or running_engine()

    def request(self) -> Answer:
        """What the engine is told besides the questions."""
        wanted, *fallback = self.models
        without = [
            name
            for at, model in self.models.items()
            for name in self.known.catalog.without(at, model.store_digest)
        ]
        return {"model": wanted, "fallback": fallback, "without": list(dict.fromkeys(without))}

    def answer(self, query: Query, raw: Answer, asked_at: float) -> Answer:
        """What is told of the engine's raw answer."""
        model = self.answering(raw)
        fast, trace = (raw["fast"], raw["trace"]) if query.mode == "both" else (raw, raw)
        parts = (fast, trace) if query.mode == "both" else (raw,)
        answer = fast if query.mode == "fast" else trace
        tools = self.known.catalog.tools(
            {name for part in parts for key in ("tools", "withheld") for name in part.get(key) or ()}
        )
        withheld = withheld_of(parts, tools, query.permissions)
        text = str(trace.get("trace") or "") if query.mode != "fast" else ""
        said = {name: trace.get(name, default) if text else default for name, default in NO_TRACE.items()}
        cited = (
            self.known.rules.cited(text, model.run.snapshot_id, [tools.get(name) for name in trace["tools"]])
            if text
            else []
        )
        features = trace.get("features") or {}
        decode = "fast" if query.mode == "fast" else "trace"
        verdict, calibration = judged(self.known.serving.fits(model), decode, features)
        unread, cut = fast.get("unread"), bool(fast.get("cut_request"))
        now = time.perf_counter()
        computed = sum(float(part.get("seconds", 0)) for part in parts)
        notes = [
            *([NO_TOOL_FITS] if verdict.fits is False else []),
            *reading_notes(query.query, unread, cut),
            *trace_notes(**said),
        ]
        if model != self.wanted:
            notes.append(
                f"Model {self.wanted.pk} is still loading; model {model.pk}, a champion before it, answered."
            )
        found = {
            "model": about(model),
            "mode": query.mode,
            "tools": described(answer, tools, withheld)[: query.k],
            "ranked": described(fast, tools, withheld)[: query.k] if query.mode == "both" else [],
            "confidence": verdict.confidence,
            "fits": verdict.fits,
            "calibration": calibration,
            "trace": text,
            **said,
            "cited_rules": cited,
            "withheld": told(withheld),
            "exact": fast.get("exact"),
            "unread": unread,
            "cut_request": cut,
            "notes": notes,
            "seconds": round(computed, 4),
            "latency": {
                "model": round(computed, 4),
                "engine": round(now - asked_at, 4),
                "total": round(now - self.started, 4),
            },
        }
        return found if query.permissions is None or not text else self.redacted(found, query.permissions)

    def answering(self, raw: Answer) -> Model:
        return self.models.get(str(raw.get("model")), self.wanted)

    def first_part(self, query: Query, raw: Answer) -> Answer:
        """The ranked list of mode both, before the trace is written."""
        tools = self.known.catalog.tools([*raw["tools"], *(raw.get("withheld") or ())])
        withheld = withheld_of([raw], tools, query.permissions)
        ranked = described(raw, tools, withheld)[: query.k]
        return {"model": about(self.answering(raw)), "ranked": ranked, "withheld": told(withheld)}

    def redaction(self, query: Query) -> Redaction | None:
        """Of what this query's trace may not name; None where it may name everything."""
        return None if query.permissions is None else self.known.catalog.redaction(query.permissions)

    def redacted(self, found: Answer, holds: frozenset[str]) -> Answer:
        """The answer without the names of withheld tools in its texts."""
        names = self.known.catalog.redaction(holds)
        trace = names.whole(found["trace"])
        known = self.known.catalog.tools(
            [*found["trace_tools"], *(rule["target"] for rule in found["cited_rules"])]
        )

        def shown(name: str) -> str:
            tool = known.get(name)
            return WITHHELD if tool and is_withheld(tool.needs, holds) else name

        rules = [
            {
                **rule,
                "target": shown(rule["target"]),
                "text": names.anew().whole(rule["text"]),
                "start": trace.find(rule["code"]),
            }
            for rule in found["cited_rules"]
        ]
        trace_tools = [shown(name) for name in found["trace_tools"]]
        return {**found, "trace": trace, "trace_tools": trace_tools, "cited_rules": rules}


def retrieve(
    *,
    query: str,
    model: str | int | Model = "champion",
    mode: str = "fast",
    k: int = 10,
    permissions: Collection[str] | None = None,
    domain: str | None = None,
    exact: bool = True,
    engine: Engine | None = None,
    patience: float = 0.0,
) -> Answer:
    """{"model", "mode", "tools", "ranked", "confidence", "fits", "calibration", "trace", "follows_trace",
    "trace_tools", "cited_rules", "withheld", "exact", "unread", "cut_request", "notes", "seconds", "latency"}.

    fast: `tools` is the ranked list. trace: the list the model committed to. both: that list, with the ranked one in
    `ranked`. `permissions`: the targets that are granted, none where it is empty; None: all, for whoever may read the
    whole catalog. Retired and blocked tools are left out of every list. While a new champion loads, the one before
    it answers, and `model` says so. `patience`: seconds to wait for a model that is loading where none can.
    """
    granted = None if permissions is None else frozenset(permissions)
    query_asked = Query(query, mode, k, granted, domain, exact)
    return answer_of(query_asked, model, engine=engine, patience=patience)


def answer_of(
    query: Query,
    model: str | int | Model = "champion",
    known: Lookups | None = None,
    *,
    engine: Engine | None = None,
    patience: float = 0.0,
    departure: Departure | None = None,
) -> Answer:
    """As `retrieve`. `known`: what was looked up for this call already. `departure`: of whoever asked; the engine is
    told."""
    session = Session([query], model, known, engine)
    request = {**session.request(), **query.as_asked(), "stream": False}
    sent = time.perf_counter()
    raw = ask(session.engine, "/retrieve", request, patience, departure)
    return session.answer(query, raw, sent)


def retrieve_many(
    queries: Sequence[Query],
    model: str | int | Model = "champion",
    known: Lookups | None = None,
    *,
    departure: Departure | None = None,
) -> list[Answer | TraceError]:
    """An answer a query, all of one model; of a query that the engine refuses, why. Raises as `retrieve` does."""
    session = Session(queries, model, known)
    request = {**session.request(), "requests": [query.as_asked() for query in queries]}
    sent = time.perf_counter()
    raw = ask(session.engine, "/batch", request, departure=departure)
    return [
        _refused(one["error"])
        if one.get("error")
        else session.answer(query, {**one, "model": raw["model"]}, sent)
        for query, one in zip(queries, raw["answers"], strict=True)
    ]


def retrieve_in_parts(
    query: Query,
    model: str | int | Model = "champion",
    known: Lookups | None = None,
    *,
    departure: Departure | None = None,
) -> Generator[tuple[str, Answer], None, None]:
    """The answer as it is made: ("fast", {model, ranked, withheld}) in mode both, ("text", {text}) as the trace is
    written, and ("done", the whole answer). Raises as `retrieve` does, before the first part or in between.
    """
    session = Session([query], model, known)
    names = session.redaction(query)
    request = {**session.request(), **query.as_asked(), "stream": True}
    sent = time.perf_counter()
    for part in ask_in_lines(session.engine, "/retrieve", request, departure):
        match part.get("event", "done"):  # an engine that does not stream answers whole
            case "fast":
                yield "fast", session.first_part(query, part)
            case "text":
                text = names.feed(part["text"]) if names else part["text"]
                if text:
                    yield "text", {"text": text}
            case "done":
                if names and (text := names.rest()):
                    yield "text", {"text": text}
                yield "done", session.answer(query, part, sent)
                return
            case "error":
                raise _refused(part)
    raise TraceError(
        "the engine ended within its answer.", code="unavailable", hint="Ask again.", extra=AGAIN
    )


AGAIN = {"retry_after": 1}


def _refused(said: Mapping[str, Any]) -> TraceError:
    """A refusal that stands inside an answer of the engine."""
    code = declared(str(said.get("code")), "engine_failed")
    return TraceError(str(said.get("message") or "the engine failed."), code=code, where="engine")


def about(model: Model) -> Answer:
    run = model.run
    return {"id": model.pk, "cell": run.cell, "base": run.base, "snapshot": run.snapshot_id}


def told(withheld: Mapping[str, frozenset[str]]) -> list[Answer]:
    return [{"name": name, "needs": sorted(needs)} for name, needs in withheld.items()]


def withheld_of(
    parts: Sequence[Answer], tools: Mapping[str, KnownTool | None], holds: Granted
) -> dict[str, frozenset[str]]:
    """{tool: what it needs} of those that are left out: what the engine left out, and what it should have, since its
    permissions changed after the model was trained."""
    named = dict.fromkeys(name for part in parts for name in part.get("withheld") or ())
    for part in parts:
        for name in part["tools"]:
            if (tool := tools.get(name)) and is_withheld(tool.needs, holds):
                named[name] = None
    return {name: tool.needs if (tool := tools.get(name)) else frozenset() for name in named}


def described(
    answer: Answer, tools: Mapping[str, KnownTool | None], withheld: Collection[str]
) -> list[dict[str, Any]]:
    """The tools of an answer with what the catalog knows of them now; one that has left it is shown as retired."""
    scores = [*answer.get("scores", ()), *[None] * len(answer["tools"])]
    return [
        {
            "name": name,
            "score": score,
            "description": tool.description if (tool := tools.get(name)) else "",
            "deprecated": bool(tool and tool.deprecated),
            "retired": tool is None or tool.retired,
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
