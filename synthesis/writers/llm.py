"""The three writers over a language model: what they send is in `calls`, answers are checked against a JSON schema."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from synthesis.core.queries import (
    AXES,
    JudgeRequest,
    QueryDraft,
    QueryRequest,
    TraceDraft,
    TraceRequest,
    Verdict,
    Writers,
)
from synthesis.core.recipe import Recipe
from synthesis.writers.calls import judge_call, query_call, trace_call
from synthesis.writers.prompts import prompt_hash
from trace_site.lib.errors import TraceError
from trace_site.lib.llm import Client, Reply

ROLES = ("generator", "teacher", "judge")


def llm_writers(clients: Mapping[str, Client], recipe: Recipe) -> Writers:
    """The writers over the endpoints of the three roles; one client may serve them all."""
    return Writers(
        f"llm:{clients['generator'].endpoint.model}"[:120],
        LlmQueryWriter(clients["generator"], recipe),
        LlmTraceWriter(clients["teacher"], recipe),
        LlmJudge(clients["judge"], recipe),
    )


def _made_with(client: Client, prompt: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {
        "model": client.endpoint.model,
        "prompt": prompt,
        "prompt_hash": prompt_hash(prompt),
        **parameters,
    }


class LlmQueryWriter:
    def __init__(self, client: Client, recipe: Recipe) -> None:
        self.client = client
        self.recipe = recipe.query

    def made_with(self, branch: str) -> dict[str, Any]:
        name = "query_rrb" if branch == "rrb" else "query_rule"
        return _made_with(self.client, name, asdict(self.recipe))

    async def write(self, request: QueryRequest) -> QueryDraft:
        reply = await self.client.ask(**query_call(request, self.recipe).arguments())
        if request.rule is None:
            said, tools = reply.data, reply.data["tools"]
        else:
            said = _numbered(reply.data["queries"], request.index + 1)
            tools = [said["target_tool"]]
        query = _said(said["query"], "query")
        return QueryDraft(
            query, tuple(name.strip() for name in tools), said["explanation"].strip(), _paid(reply)
        )


class LlmTraceWriter:
    def __init__(self, client: Client, recipe: Recipe) -> None:
        self.client = client
        self.recipe = recipe.trace

    def made_with(self, branch: str) -> dict[str, Any]:
        return _made_with(self.client, "trace", asdict(self.recipe))

    async def write(self, request: TraceRequest) -> TraceDraft:
        reply = await self.client.ask(**trace_call(request, self.recipe).arguments())
        steps = [reply.data["semantic_reasoning"]["reasoning"]]
        if request.permissions:
            steps.insert(0, reply.data["permission_filtering"]["reasoning"])
        return TraceDraft(" ".join(_said(step, "reasoning") for step in steps), _paid(reply))


class LlmJudge:
    def __init__(self, client: Client, recipe: Recipe) -> None:
        self.client = client
        self.recipe = recipe.judge

    def made_with(self, branch: str) -> dict[str, Any]:
        return _made_with(self.client, "judge", asdict(self.recipe))

    async def judge(self, request: JudgeRequest) -> Verdict:
        call = judge_call(request, self.recipe)
        reply = await self.client.ask(**call.arguments())
        thresholds = dict(self.recipe.thresholds)
        if reply.data["id"] != call.id:
            # fail closed: a verdict about another sample is no verdict
            told = "The judge answered for another sample."
            return Verdict(request.id, {}, told, _paid(reply), thresholds)
        scores = {axis: reply.data[axis] for axis in AXES}
        return Verdict(request.id, scores, reply.data["critique"], _paid(reply), thresholds)


def _paid(reply: Reply) -> int:
    """Calls: an answer kept from before, or shared with another sample, was counted where it was paid."""
    return 0 if reply.cached or reply.shared else 1


def _numbered(queries: list[dict[str, Any]], number: int) -> dict[str, Any]:
    """The one query of a batch that carries the number; a place in the list says nothing."""
    own = [one for one in queries if one["number"] == number]
    if len(own) != 1:
        found = "twice" if own else "not at all"
        raise _bad_answer(f"holds query number {number} {found}")
    return own[0]


def _said(text: str, what: str) -> str:
    if not text.strip():
        raise _bad_answer(f"has an empty {what}")
    return text.strip()


def _bad_answer(problem: str) -> TraceError:
    return TraceError(f"the answer of the language model {problem}.", code="llm_bad_answer")
