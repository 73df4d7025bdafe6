"""The recorded teacher: what a language model answered once, kept as data and given out slot by slot.

A recording is made for a rule version and its tools, or for an anchor and the tools it names. It stands under these
with style or tier, index and attempt, never under a prompt. Its answers go through ledger, filter V, thresholds and
retries as those of a live endpoint do. Once the rule or a tool was edited they are void, and the sample says so.

The file: one JSON object a line. The first is {"model", "about"}; each other one {"rule" or "anchor", "style" or
"tier", "index", "tools", "for": `made_for` these tools, "attempts": [{"query", "answer", "why", "permission", "trace",
"scores", "critique"}]}.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from synthesis.core.keys import tool_mark
from synthesis.core.queries import (
    JudgeRequest,
    QueryDraft,
    QueryRequest,
    RuleText,
    ToolText,
    TraceDraft,
    TraceRequest,
    Verdict,
    Writers,
    by_name,
)
from synthesis.core.recipe import Recipe
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash, read_jsonl
from trace_site.lib.llm.exchange import Exchange, Ledger, Reply

NAME = "recorded"
FILE = Path(__file__).parents[2] / "trace_site" / "demo" / "recorded.jsonl"

Row = dict[str, Any]
Answer = dict[str, Any]


def made_for(tools: Sequence[ToolText], rule: RuleText | None) -> str:
    """What a recording stands under: what its tools are said to be, and the rule's words."""
    told = (
        [rule.text, rule.target, [[one.when, one.route_to, one.exception] for one in rule.clauses]]
        if rule
        else []
    )
    return content_hash([told, sorted(tool_mark(tool) for tool in tools)])


class Recordings:
    """The answers of one file."""

    def __init__(self, path: Path) -> None:
        (_, self.about), *rows = read_jsonl(path)
        self.digest = content_hash([row for _, row in rows])
        self._slots: dict[tuple[str, str, int], Row] = {}
        self._by_query: defaultdict[str, list[tuple[int, Row, Answer]]] = defaultdict(list)
        for _, row in rows:
            kind = row.get("style") or row["tier"]
            self._slots[row.get("rule") or row["anchor"], kind, row["index"]] = row
            for number, answer in enumerate(row["attempts"], start=1):
                self._by_query[answer["query"]].append((number, row, answer))

    def for_slot(self, request: QueryRequest) -> Answer:
        """Raises TraceError when no answer is recorded, or only for another version of the rule or its tools."""
        of, kind = request.rule.code if request.rule else request.anchor, request.style or request.tier
        row = self._slots.get((of, kind, request.index))
        if row is not None and not _holds(row, request.pool, request.rule):
            raise TraceError(
                "the recorded answers were given for other words of the rule or its tools, so they are void.",
                code="recording_void",
                where=of,
                hint="Use --writer llm or offline.",
                permanent=True,
            )
        if row is None or request.attempt > len(row["attempts"]):
            raise _not_recorded(f"{kind} request {request.index + 1}, attempt {request.attempt}", of)
        answer: Answer = row["attempts"][request.attempt - 1]
        return answer

    def for_query(self, request: TraceRequest) -> Answer:
        """The answer that has this query at this attempt; where only the trace was refused, two have it."""
        for number, row, answer in self._by_query.get(request.query, ()):
            if number == request.attempt and _holds(row, request.pool, request.rule):
                return answer
        raise _not_recorded(f"trace, attempt {request.attempt}", request.query[:80])

    def for_trace(self, request: JudgeRequest) -> Answer:
        """The answer whose verdict is on this query and trace; what stands before a trace are permissions."""
        for _, row, answer in self._by_query.get(request.query, ()):
            said = (answer["trace"], f"{answer['permission']} {answer['trace']}")
            if request.trace in said and _holds(row, request.pool, request.rule):
                return answer
        raise _not_recorded("verdict", request.query[:80])


def _holds(row: Row, pool: Sequence[ToolText], rule: RuleText | None) -> bool:
    """Whether rule and tools still say what they said when the row was recorded; a tool that left the pool is gone."""
    known = by_name(pool)
    tools = [known[name] for name in row["tools"] if name in known]
    return len(tools) == len(row["tools"]) and row["for"] == made_for(tools, rule)


def _not_recorded(what: str, where: str) -> TraceError:
    return TraceError(
        f"no answer is recorded for this {what}.",
        code="not_recorded",
        where=where,
        hint="Use --writer llm or offline.",
        permanent=True,
    )


@lru_cache(maxsize=2)
def _read(path: Path, changed: int) -> Recordings:
    return Recordings(path)


def recordings(path: Path = FILE) -> Recordings:
    """Read again only when the file has changed."""
    return _read(path, path.stat().st_mtime_ns)


class _Recorded:
    """What the three writers share: each answer is one exchange in the ledger, without a price."""

    def __init__(self, recorded: Recordings, ledger: Ledger) -> None:
        self.recorded, self.ledger = recorded, ledger

    def made_with(self, branch: str) -> dict[str, Any]:
        return {"writer": NAME, "model": self.recorded.about["model"], "recordings": self.recorded.digest}

    async def booked(self, purpose: str, said: Answer) -> None:
        model = str(self.recorded.about["model"])
        exchange = Exchange(content_hash([self.recorded.digest, purpose, said]), purpose, NAME, model, "")
        await self.ledger.sent(exchange)
        await self.ledger.ended(exchange, Reply(said))


class RecordedQueryWriter(_Recorded):
    async def write(self, request: QueryRequest) -> QueryDraft:
        found = self.recorded.for_slot(request)
        await self.booked("query", {name: found[name] for name in ("query", "answer", "why")})
        return QueryDraft(found["query"], tuple(found["answer"]), found["why"], 1)


class RecordedTraceWriter(_Recorded):
    async def write(self, request: TraceRequest) -> TraceDraft:
        found = self.recorded.for_query(request)
        steps = [found["permission"]] if request.permissions else []
        trace = " ".join([*steps, found["trace"]])
        await self.booked("trace", {"query": request.query, "trace": trace})
        return TraceDraft(trace, 1)


class RecordedJudge(_Recorded):
    def __init__(self, recorded: Recordings, ledger: Ledger, thresholds: Mapping[str, int]) -> None:
        super().__init__(recorded, ledger)
        self.thresholds = dict(thresholds)

    def made_with(self, branch: str) -> dict[str, Any]:
        return {**super().made_with(branch), "thresholds": self.thresholds}

    async def judge(self, request: JudgeRequest) -> Verdict:
        found = self.recorded.for_trace(request)
        said = {"scores": found["scores"], "critique": found["critique"]}
        await self.booked("judge", {"query": request.query, "trace": request.trace, **said})
        return Verdict(request.id, dict(found["scores"]), found["critique"], 1, self.thresholds)


def recorded_writers(recipe: Recipe, ledger: Ledger | None = None, path: Path = FILE) -> Writers:
    books, found = ledger or Ledger(), recordings(path)
    judge = RecordedJudge(found, books, recipe.judge.thresholds)
    return Writers(NAME, RecordedQueryWriter(found, books), RecordedTraceWriter(found, books), judge)
