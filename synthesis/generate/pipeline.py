"""The pipeline of one sample: query -> filter -> trace -> filter -> judge, again with the critique until it passes.

In: a Unit (what to write). Out: an Outcome with every attempt. No database: many units are under way in one event
loop, and a killed run loses only those. The first try and `retries` more; then the sample is dropped.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from synthesis.core.filters import Candidate, Failure, FilterContext, query_failures, trace_failures
from synthesis.core.queries import (
    QueryDraft,
    QueryRequest,
    Writers,
    judge_request,
    permission_targets,
    trace_request,
)
from trace_site.lib.errors import TraceError
from trace_site.lib.llm import FATAL

# going on with the next sample would fail the same way, or ask what no book knows of
STOPS = FATAL | {"ledger_down", "bad_prompt"}
# a verdict on these axes is about the query; the trace alone cannot mend it
QUERY_AXES = frozenset({"naturalness", "compliance", "label"})
REFUSED = "A reviewer rejected this very query."


@dataclass(frozen=True, slots=True)
class Unit:
    """One planned sample. With `given`, query and answer are fixed and only the trace is written.

    `refused`: queries that people rejected in its place. A critique in the request is told at every attempt.
    """

    sample_id: int
    request: QueryRequest
    permission_share: float = 0.0
    given: QueryDraft | None = None
    refused: frozenset[str] = frozenset()


@dataclass(slots=True)
class Tried:
    number: int
    outcome: str = "error"
    query: str = ""
    trace: str = ""
    answer: tuple[str, ...] = ()
    failures: list[Failure] = field(default_factory=list)
    judge: dict[str, Any] = field(default_factory=dict)
    critique: str = ""
    error: str = ""
    error_code: str = ""
    calls: int = 0
    passed: QueryDraft | None = None  # the query, once filter V let it through


@dataclass(slots=True)
class Outcome:
    """`pool`: the tool names that the writers saw."""

    sample_id: int
    ready: bool
    draft: QueryDraft
    trace: str
    permissions: tuple[str, ...]
    attempts: list[Tried]
    pool: tuple[str, ...] = ()


class Pipeline:
    """Writers, filter and judge of one run."""

    def __init__(self, writers: Writers, context: FilterContext, retries: int = 5) -> None:
        self.writers = writers
        self.context = context
        self.retries = retries

    async def make(self, unit: Unit) -> Outcome:
        """All attempts at one sample. Raises TraceError only for what would fail every other sample too."""
        attempts: list[Tried] = []
        draft = unit.given
        critique = unit.request.critique
        permissions: tuple[str, ...] = ()
        pool = tuple(tool.name for tool in unit.request.pool)
        for number in range(1, self.retries + 2):
            tried = Tried(number)
            attempts.append(tried)
            try:
                draft, permissions = await self._attempt(unit, draft, tried, critique)
            except TraceError as error:
                if error.code in STOPS:
                    raise
                tried.error, tried.error_code = str(error), error.code
                draft = tried.passed  # not paid for again because its trace or verdict failed
                if error.permanent:
                    break
                continue
            if tried.outcome == "ready":
                return Outcome(unit.sample_id, True, draft, tried.trace, permissions, attempts, pool)
            critique = f"{unit.request.critique} {tried.critique}".strip()
            if unit.given is None and self._query_is_bad(tried):
                self._give_up(tried)
                draft = None
        if unit.given is None:
            self._give_up(tried)
        last = next((t for t in reversed(attempts) if t.query), attempts[-1])
        kept = QueryDraft(last.query, last.answer, "")
        return Outcome(unit.sample_id, False, kept, last.trace, permissions, attempts, pool)

    def _give_up(self, tried: Tried) -> None:
        """A query that will not be used stands in the way of no better one."""
        if tried.passed is not None:
            self.context.seen.discard(tried.passed.query)
            tried.passed = None

    def _query_is_bad(self, tried: Tried) -> bool:
        return not tried.trace or bool(QUERY_AXES & set(tried.judge.get("failed", ())))

    async def _attempt(
        self, unit: Unit, draft: QueryDraft | None, tried: Tried, critique: str
    ) -> tuple[QueryDraft, tuple[str, ...]]:
        """One pass; fills `tried`. A draft that passed the filter is kept while only its trace fails."""
        request = replace(unit.request, attempt=tried.number, critique=critique)
        fresh = draft is None
        if draft is None:
            draft = await self.writers.query.write(request)
            tried.calls += draft.calls
        tried.query, tried.answer = draft.query, draft.answer
        candidate = candidate_of(request, draft)
        if (fresh or unit.given) and not self._query_passes(candidate, tried, fresh, unit.refused):
            return draft, ()
        tried.passed = draft
        permissions = permission_targets(draft.answer, request.pool, unit.permission_share, request.seed)
        await self._trace(request, draft, permissions, tried)
        tried.failures = trace_failures(replace(candidate, trace=tried.trace), self.context)
        if tried.failures:
            tried.outcome, tried.critique = "filtered", _told(tried.failures)
        else:
            await self._judged(unit, request, draft, tried)
        return draft, permissions

    def _query_passes(self, candidate: Candidate, tried: Tried, fresh: bool, refused: frozenset[str]) -> bool:
        """Filter the query; one that passes is remembered at once, so that no other unit writes its twin."""
        tried.failures = query_failures(candidate, self.context)
        if fresh and candidate.query in refused:
            tried.failures.append(Failure("near_duplicate", REFUSED, candidate.query))
        if not tried.failures and fresh:
            self.context.seen.add(candidate.query)
        if tried.failures:
            tried.outcome, tried.critique = "filtered", _told(tried.failures)
        return not tried.failures

    async def _trace(
        self, request: QueryRequest, draft: QueryDraft, permissions: tuple[str, ...], tried: Tried
    ) -> None:
        written = await self.writers.trace.write(trace_request(request, draft, permissions))
        tried.trace = written.trace
        tried.calls += written.calls

    async def _judged(self, unit: Unit, request: QueryRequest, draft: QueryDraft, tried: Tried) -> None:
        asked = judge_request(request, draft, tried.trace, str(unit.sample_id))
        found = await self.writers.judge.judge(asked)
        verdict = found.of(str(unit.sample_id))
        tried.calls += verdict.calls
        tried.judge = {**verdict.scores, "critique": verdict.critique, "failed": list(verdict.failed_axes)}
        tried.outcome = "ready" if verdict.passed else "judged_out"
        tried.critique = "" if verdict.passed else verdict.critique or "Scored too low."


def candidate_of(request: QueryRequest, draft: QueryDraft) -> Candidate:
    rule = request.rule
    return Candidate(
        branch=request.branch,
        query=draft.query,
        answer=draft.answer,
        pool=frozenset(tool.name for tool in request.pool),
        style=request.style,
        tier=request.tier,
        rule_code=rule.code if rule else "",
        rule_tools=rule.tools if rule else (),
        permission_tags=frozenset(tag for tool in request.pool for tag in tool.permissions),
    )


def _told(failures: list[Failure]) -> str:
    return " ".join(f"{failure.message} ({failure.evidence})" for failure in failures)
