"""Answering queries with a trained model: the one way of the playground, the API and the command line.

Models run in the engine process, never here. The engine's raw answer is joined with what the catalog knows now:
descriptions, deprecation, permission targets, and the rules that a trace cites as the model's snapshot has them.

Permission targets are looked at here, after decoding, whatever the engine did: a tool that needs some and is granted
none of them stands in no list, and its name in no text, of any answer in any mode. `withheld` names it.
"""

import secrets
import time
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from django.conf import settings

from evaluation.core.asking import Query, Stored, check
from evaluation.core.confidence import AnswerVerdict
from evaluation.core.metrics import NO_TRACE, trace_notes
from evaluation.core.withholding import WITHHELD, Granted, is_withheld
from evaluation.retrieval.calibration import (
    NEWER_FIRST,
    NO_MODEL,
    NO_TOOL_FITS,
    UNKNOWN,
    UNLEARNED_FIRST,
    UNREAD,
    WITHHELD_FIRST,
    judged,
)
from evaluation.retrieval.engine import RETRY_AFTER, Engine, Question, running_engine
from evaluation.retrieval.lookups import NOTHING_IN_FORCE, KnownTool, Lookups, lookups
from trace_site.artefacts import engine_store
from trace_site.lib.child import Event, run_child
from trace_site.lib.departure import Departure
from trace_site.lib.errors import TraceError, declared
from training.core.scripts import request_words
from training.models import AliasMove, Model, Run
from training.runs.stages import child_env

EVENTS = "text/event-stream"
Answer = dict[str, Any]


class Session:
    """What questions asked together share: what is known as of now, the model, the engine, and when they came in."""

    def __init__(
        self,
        queries: Sequence[Query],
        model: str | int | Model,
        known: Lookups | None = None,
        engine: Engine | None = None,
    ) -> None:
        """Raises TraceError `bad_request`, `no_such_domain`, and what looking up the model does."""
        self.started = time.perf_counter()
        self.known = known or lookups()
        for query in queries:
            check_query(query, self.known)
        self.wanted = model if isinstance(model, Model) else self.known.serving.model(model)
        serves = model == AliasMove.Alias.CHAMPION
        self.is_damaged = False
        if self.wanted is not None:
            try:
                self.known.serving.check_files(self.wanted)
            except TraceError:
                if not serves or self.wanted.removed_at is not None:
                    raise
                self.is_damaged = True
        self.models: dict[Stored | None, Model | None] = {stored(self.wanted): self.wanted}
        if self.wanted and serves:  # while a new champion loads, the one before it answers
            for earlier in self.known.serving.earlier_champions:
                with suppress(TraceError):  # its files are gone or damaged
                    self.known.serving.check_files(earlier)
                    self.models.setdefault(stored(earlier), earlier)
        self.engine = engine or running_engine()
        self.newer = self.known.catalog.newer(self.models.values())
        # asked by its number, a model without rules answers as it is measured: to compare with
        is_control = (
            self.wanted is not None and self.wanted.run.retrieval != Run.Retrieval.RULES and not serves
        )
        self.force = NOTHING_IN_FORCE if is_control else self.known.rules.force
        # the name of all that came after the models; where no rule is in force, that is held too
        self.held = f"{self.newer.name}/{self.force.name}"

    def question(
        self, path: str, asked: Answer, departure: Departure | None, patience: float = 0.0
    ) -> Question:
        """What the engine is asked of these models."""
        wanted, *fallback = [one and one._asdict() for one in self.models]
        models = [model for model in self.models.values() if model]
        without = [name for model in models for name in self.known.catalog.without(model)]
        of_models = {"model": wanted, "fallback": fallback, "held": self.held, "damaged": self.is_damaged}
        request = {**of_models, "without": list(dict.fromkeys(without)), **asked}
        return Question(self.engine, path, request, patience, departure, self.to_hold)

    def to_hold(self) -> Answer:
        tools, clauses = list(self.newer.held.values()), list(self.force.clauses.values())
        return {"held": self.held, "tools": tools, "clauses": clauses}

    def answer(self, query: Query, raw: Answer, asked_at: float) -> Answer:
        """What is told of the engine's raw answer."""
        model = self.answering(raw)
        fast, trace = (raw["fast"], raw["trace"]) if query.mode == "both" else (raw, raw)
        parts = (fast, trace) if query.mode == "both" else (raw,)
        answer = fast if query.mode == "fast" else trace
        known = self.known.catalog.tools(
            {name for part in parts for key in ("tools", "withheld") for name in part.get(key) or ()}
        )
        withheld = withheld_of(parts, known, query.permissions)
        newer = self.newer.of[model.pk if model else None]
        shown = described(answer, known, withheld, newer)[: query.k]
        newer_first = [tool["name"] for tool in shown[:1] if tool["newer"]]
        unread, cut = fast.get("unread"), bool(fast.get("cut_request"))
        is_withheld = answer.get("withheld_first") or not withheld.keys().isdisjoint(answer["tools"][:1])
        verdict, calibration = self.sureness(query, model, answer, is_withheld, bool(newer_first), unread)
        fitting = [NO_TOOL_FITS] if verdict.fits is False else [WITHHELD_FIRST] if is_withheld else []
        text = str(trace.get("trace") or "") if query.mode != "fast" else ""
        said = {name: trace.get(name, default) if text else default for name, default in NO_TRACE.items()}
        computed = max(float(part.get("seconds", 0)) for part in parts)
        now = time.perf_counter()
        found = {
            "model": about(model),
            "mode": query.mode,
            "tools": shown,
            "ranked": described(fast, known, withheld, newer)[: query.k] if query.mode == "both" else [],
            "confidence": verdict.confidence,
            "fits": verdict.fits,
            "calibration": calibration,
            "trace": text,
            "written_out": bool(text) and ("clauses" in answer or "wrote" in trace),
            "wrote": str(trace.get("wrote") or "") if text else "",
            "clauses": self.clauses(answer),
            **said,
            "cited_rules": self.cited(model, trace, text, known),
            "withheld": told(withheld),
            "exact": fast.get("exact"),
            "unread": unread,
            "cut_request": cut,
            "notes": [
                *fitting,
                *newer_notes(newer_first, self.newer.lost[model.pk if model else None]),
                *reading_notes(query.query, unread, cut),
                *trace_notes(**said),
                *model_notes(model, self.wanted, self.known.serving.outdated, self.is_damaged),
            ],
            "seconds": round(computed, 4),
            "latency": {
                "model": round(computed, 4),
                "engine": round(now - asked_at, 4),
                "total": round(now - self.started, 4),
            },
        }
        return found if query.permissions is None else self.redacted(found, query.permissions)

    def sureness(
        self,
        query: Query,
        model: Model | None,
        answer: Answer,
        is_withheld: bool,
        is_newer: bool,
        unread: Sequence[str] | None,
    ) -> tuple[AnswerVerdict, str]:
        """How far the answer can be relied on, and why a part of that is not known. The confidence of a tool that is
        not shown is nobody's, and of one that the model does not know nothing is known."""
        decode = "fast" if query.mode == "fast" else "trace"
        verdict, calibration = judged(self.known.serving.fits(model), decode, answer.get("features") or {})
        if is_withheld:
            verdict = replace(verdict, confidence=None)
        if is_newer:
            verdict, calibration = UNKNOWN, NEWER_FIRST
        elif answer.get("clause") and not answer.get("features"):
            verdict, calibration = UNKNOWN, UNLEARNED_FIRST
        if unread and (verdict.fits or len(unread) >= len(request_words(query.query))):
            verdict, calibration = UNKNOWN, UNREAD
        return verdict, NO_MODEL if model is None else calibration

    def clauses(self, answer: Answer) -> list[Answer]:
        """The clauses that spoke loudest, in the words of their rules; `decided`: the one that the answer follows."""
        found = []
        for one in answer.get("clauses") or ():
            if said := self.force.clauses.get(one["token"]):
                kept = {name: said[name] for name in ("token", "rule", "domain", "version", "text", "tools")}
                decided = one["token"] == answer.get("clause")
                found.append({**kept, "share": one["share"], "trained": one["trained"], "decided": decided})
        return found

    def cited(
        self, model: Model | None, trace: Answer, text: str, known: Mapping[str, KnownTool | None]
    ) -> list[dict[str, Any]]:
        """The rules that a trace rests on: that of the clause which decided, or those that a model named in writing."""
        if not text:
            return []
        if "clause" in trace:
            said = self.force.clauses.get(trace["clause"] or "")
            return self.known.rules.of_clause(said, text) if said else []
        if model is None:
            return []
        return self.known.rules.cited(
            text, model.run.snapshot_id, [known.get(name) for name in trace["tools"]]
        )

    def answering(self, raw: Answer) -> Model | None:
        named = raw.get("model")
        return self.models.get(Stored(**named) if named else None, self.wanted)

    def first_part(self, query: Query, raw: Answer) -> Answer:
        """The ranked list of mode both, before the trace is written."""
        model = self.answering(raw)
        tools = self.known.catalog.tools([*raw["tools"], *(raw.get("withheld") or ())])
        withheld = withheld_of([raw], tools, query.permissions)
        ranked = described(raw, tools, withheld, self.newer.of[model.pk if model else None])[: query.k]
        return {"model": about(model), "ranked": ranked, "withheld": told(withheld)}

    def redacted(self, found: Answer, holds: frozenset[str]) -> Answer:
        """The answer without the names of withheld tools in its texts."""
        names = self.known.catalog.redaction(holds)
        trace = names.whole(found["trace"])
        known = self.known.catalog.tools(
            [
                *found["trace_tools"],
                *(rule["target"] for rule in found["cited_rules"]),
                *(name for one in found["clauses"] for name in one["tools"]),
            ]
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
        clauses = [
            {**one, "text": names.anew().whole(one["text"]), "tools": [shown(name) for name in one["tools"]]}
            for one in found["clauses"]
        ]
        trace_tools = [shown(name) for name in found["trace_tools"]]
        texts = {"trace": trace, "wrote": names.anew().whole(found["wrote"])}
        return {**found, **texts, "trace_tools": trace_tools, "cited_rules": rules, "clauses": clauses}


def retrieve(
    query: Query,
    model: str | int | Model = "champion",
    known: Lookups | None = None,
    *,
    engine: Engine | None = None,
    patience: float = 0.0,
    departure: Departure | None = None,
) -> Answer:
    """{"model", "mode", "tools", "ranked", "confidence", "fits", "calibration", "trace", "written_out", "wrote",
    "clauses", "follows_trace", "trace_tools", "cited_rules", "withheld", "exact", "unread", "cut_request", "notes",
    "seconds", "latency"}.

    fast: `tools` is the ranked list. trace: the list the model committed to. both: that list, with the ranked one in
    `ranked`. Retired and blocked tools are left out of every list. While a new champion loads, the one before it
    answers, and `model` says so. `known`: what was looked up for this call already. `patience`: seconds to wait for a
    model that is loading where none can. `departure`: of whoever asked; the engine is told.
    """
    session = Session([query], model, known, engine)
    sent = time.perf_counter()
    asked = query.as_asked() | {"stream": False}
    return session.answer(query, session.question("/retrieve", asked, departure, patience).answer(), sent)


def check_query(query: Query, known: Lookups) -> None:
    check(query.as_asked())
    if query.domain and not known.catalog.has_domain(query.domain):
        raise TraceError(f"there is no domain {query.domain!r}.", code="no_such_domain", where="domain")


def _checked(query: Query | TraceError, known: Lookups) -> Query | TraceError:
    try:
        if isinstance(query, Query):
            check_query(query, known)
    except TraceError as error:
        return error
    return query


def retrieve_many(
    queries: Sequence[Query | TraceError], model: str, known: Lookups, *, departure: Departure
) -> list[Answer | TraceError]:
    """An answer per query, all of one model; for a query that is refused here, or was before, why. Raises as `retrieve`
    does."""
    checked = [_checked(query, known) for query in queries]
    good = [query for query in checked if isinstance(query, Query)]
    session = Session((), model, known)
    sent = time.perf_counter()
    asked = {"requests": [query.as_asked() for query in good]}
    raw = session.question("/batch", asked, departure).answer() if good else {"answers": []}
    found = iter(
        _refused(one["error"])
        if one.get("error")
        else session.answer(query, {**one, "model": raw["model"]}, sent)
        for query, one in zip(good, raw["answers"], strict=True)
    )
    return [next(found) if isinstance(query, Query) else query for query in checked]


def retrieve_in_parts(
    query: Query,
    model: str | int | Model = "champion",
    known: Lookups | None = None,
    *,
    patience: float = 0.0,
    departure: Departure | None = None,
) -> Generator[tuple[str, Answer], None, None]:
    """The answer as it is made: ("fast", {model, ranked, withheld}) in mode both, ("text", {text}) as the trace is
    written, and ("done", the whole answer). Raises as `retrieve` does, before the first part or in between.
    """
    session = Session([query], model, known)
    names = None if query.permissions is None else session.known.catalog.redaction(query.permissions)
    sent = time.perf_counter()
    asked = query.as_asked() | {"stream": True}
    for part in session.question("/retrieve", asked, departure, patience).lines():
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
    again = {"retry_after": RETRY_AFTER}
    raise TraceError(
        "the engine ended within its answer.", code="unavailable", hint="Ask again.", extra=again
    )


def event(name: str, text: str) -> str:
    """A server-sent event; its text may have several lines."""
    lines = "".join(f"data: {line}\n" for line in text.split("\n"))
    return f"event: {name}\n{lines}\n"


def _refused(said: Mapping[str, Any]) -> TraceError:
    """A refusal that stands inside an answer of the engine."""
    code = declared(str(said.get("code")), "engine_failed")
    return TraceError(str(said.get("message") or "the engine failed."), code=code, where="engine")


def stored(model: Model | None) -> Stored | None:
    return Stored(model.store_key, model.store_digest) if model else None


def about(model: Model | None) -> Answer:
    if model is None:
        return {"id": None, "cell": "", "base": "", "snapshot": None}
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
    answer: Answer, tools: Mapping[str, KnownTool | None], withheld: Collection[str], newer: Collection[str]
) -> list[dict[str, Any]]:
    """The tools of an answer with what the catalog knows of them now; one that has left it is shown as retired.
    `newer`: those that the model was not trained on."""
    scores = [*answer.get("scores", ()), *[None] * len(answer["tools"])]
    return [
        {
            "name": name,
            "score": score,
            "description": tool.description if (tool := tools.get(name)) else "",
            "deprecated": bool(tool and tool.deprecated),
            "retired": tool is None or tool.retired,
            "newer": name in newer,
        }
        for name, score in zip(answer["tools"], scores, strict=False)
        if name not in withheld
    ]


def model_notes(
    model: Model | None, wanted: Model | None, outdated: Model | None, is_damaged: bool
) -> list[str]:
    if wanted is None:
        old = f"Model {outdated.pk} is of an earlier version and must be trained again" if outdated else ""
        return [
            f"{old or 'No model answered'}: this is a search over descriptions and the clauses of published rules."
        ]
    state = (
        f"The files of model {wanted.pk} are damaged" if is_damaged else f"Model {wanted.pk} is still loading"
    )
    if model == wanted and is_damaged:
        return [f"{state}; it answered from memory, and cannot once its engine ends."]
    if model is not None and model != wanted:
        return [f"{state}; model {model.pk}, a champion before it, answered."]
    return []


def newer_notes(first: Sequence[str], lost: int) -> list[str]:
    """What an answer lacks for want of training. `first`: its first tool, where that is newer than the model; `lost`:
    how many tools the model cannot answer with."""
    notes = [
        f"{name} is newer than the model: its description and the clauses of rules speak for it, no training."
        for name in first
    ]
    if lost:
        tools = "1 tool is" if lost == 1 else f"{lost:,} tools are"
        notes.append(
            f"{tools} newer than this model, which cannot answer with {'it' if lost == 1 else 'them'}."
        )
    return notes


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


def retrieve_once(query: Query, model: str | int | Model = "champion") -> Answer:
    """`retrieve` with an engine on a free port that lives no longer than the call."""
    token, log = secrets.token_urlsafe(32), settings.TRACE_HOME / "logs" / "engine-once.log"
    log.unlink(missing_ok=True)
    deadline = time.monotonic() + START_SECONDS
    failed: dict[str, Any] = {"code": "engine_failed", "where": ENGINE, "hint": f"See {log}."}

    def on_event(event: Event) -> None:
        if event.get("event") == "serving":
            started = Engine(f"http://127.0.0.1:{event['port']}", token)
            raise Answered(retrieve(query, model, engine=started, patience=LOAD_SECONDS))

    def tick() -> None:
        if time.monotonic() > deadline:
            raise TraceError("the engine did not start.", **failed)

    try:
        run_child(
            ENGINE,
            ["serve", "--port", "0", *engine_store()],
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
