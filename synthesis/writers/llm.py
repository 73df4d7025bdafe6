"""The three writers over a language model: prompts as files, answers checked against a JSON schema."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from synthesis.core.queries import (
    AXES,
    TIERS,
    JudgeRequest,
    QueryDraft,
    QueryRequest,
    ToolText,
    TraceDraft,
    TraceRequest,
    Verdict,
    Writers,
    by_name,
)
from synthesis.core.recipe import Recipe
from synthesis.writers.prompts import prompt_hash, render
from trace_site.lib.llm import Client

TEXT = {"type": "string"}
SCORE = {"type": "integer", "minimum": 1, "maximum": 5}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


RULE_QUERY_SCHEMA = _object(
    queries={
        "type": "array",
        "minItems": 1,
        "maxItems": 1,
        "items": _object(query=TEXT, target_tool=TEXT, explanation=TEXT),
    }
)
RRB_QUERY_SCHEMA = _object(
    query=TEXT, tools={"type": "array", "items": TEXT, "minItems": 1}, explanation=TEXT
)
TRACE_SCHEMA = _object(
    permission_filtering=_object(reasoning=TEXT), semantic_reasoning=_object(reasoning=TEXT)
)
JUDGE_SCHEMA = _object(id=TEXT, critique=TEXT, **dict.fromkeys(AXES, SCORE))


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


def _tools(pool: Sequence[ToolText]) -> list[dict[str, Any]]:
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "permissions": list(tool.permissions),
            "deprecated": tool.deprecated,
        }
        for tool in pool
    ]


class LlmQueryWriter:
    def __init__(self, client: Client, recipe: Recipe) -> None:
        self.client = client
        self.recipe = recipe.query

    def made_with(self, branch: str) -> dict[str, Any]:
        name = "query_rrb" if branch == "rrb" else "query_rule"
        return _made_with(self.client, name, asdict(self.recipe))

    async def write(self, request: QueryRequest) -> QueryDraft:
        if request.rule is None:
            return await self._for_anchor(request)
        rule, pool = request.rule, by_name(request.pool)
        prompt = render(
            "query_rule",
            tool_name=rule.target,
            rule_name=rule.code,
            rule_text=rule.text,
            tool_description=pool[rule.target].description,
            tools=_tools([pool[name] for name in rule.tools if name in pool]),
            category=request.style,
            few_shot=list(request.few_shot),
            n_queries=1,
            number=request.index + 1,
            critique=request.critique,
        )
        data = await self._ask(prompt, "query_rule", RULE_QUERY_SCHEMA, request)
        written = data["queries"][0]
        return QueryDraft(
            written["query"].strip(), (written["target_tool"].strip(),), written["explanation"], 1
        )

    async def _for_anchor(self, request: QueryRequest) -> QueryDraft:
        low, high = TIERS[request.tier or "easy"]
        prompt = render(
            "query_rrb",
            anchor=request.anchor,
            tools=_tools(request.pool),
            tier=request.tier,
            few_shot=list(request.few_shot),
            number=request.index + 1,
            low=low,
            high=high,
            critique=request.critique,
        )
        data = await self._ask(prompt, "query_rrb", RRB_QUERY_SCHEMA, request)
        answer = tuple(name.strip() for name in data["tools"])
        return QueryDraft(data["query"].strip(), answer, data["explanation"], 1)

    async def _ask(
        self, prompt: str, name: str, schema: dict[str, Any], request: QueryRequest
    ) -> dict[str, Any]:
        # the seed differs per attempt: the same prompt asked again must not get the refused answer
        reply = await self.client.ask(
            [{"role": "user", "content": prompt}],
            schema=schema,
            purpose=name,
            temperature=self.recipe.temperature,
            max_tokens=self.recipe.max_tokens,
            seed=request.seed + request.attempt,
            prompt_hash=prompt_hash(name),
        )
        return reply.data


class LlmTraceWriter:
    def __init__(self, client: Client, recipe: Recipe) -> None:
        self.client = client
        self.recipe = recipe.trace

    def made_with(self, branch: str) -> dict[str, Any]:
        return _made_with(self.client, "trace", asdict(self.recipe))

    async def write(self, request: TraceRequest) -> TraceDraft:
        prompt = render(
            "trace",
            user_query=request.query,
            user_query_permission_targets=list(request.permissions),
            candidate_pool=_tools(request.pool),
            selected_tools=list(request.answer),
            business_rule=request.rule.text if request.rule else "",
            rule_code=request.rule.code if request.rule else "",
            verbatim=self.recipe.verbatim,
            critique=request.critique,
        )
        reply = await self.client.ask(
            [{"role": "user", "content": prompt}],
            schema=TRACE_SCHEMA,
            purpose="trace",
            temperature=self.recipe.temperature,
            max_tokens=self.recipe.max_tokens,
            seed=request.seed + request.attempt,
            prompt_hash=prompt_hash("trace"),
        )
        data = reply.data
        permission = data["permission_filtering"]["reasoning"].strip() if request.permissions else ""
        return TraceDraft(f"{permission} {data['semantic_reasoning']['reasoning'].strip()}".strip(), 1)


class LlmJudge:
    def __init__(self, client: Client, recipe: Recipe) -> None:
        self.client = client
        self.recipe = recipe.judge

    def made_with(self, branch: str) -> dict[str, Any]:
        return _made_with(self.client, "judge", asdict(self.recipe))

    async def judge(self, request: JudgeRequest) -> Verdict:
        rule = request.rule
        prompt = render(
            "judge",
            id=request.id,
            query=request.query,
            answer=list(request.answer),
            trace=request.trace,
            tools=_tools(request.pool),
            rule_code=rule.code if rule else "",
            rule_target=rule.target if rule else "",
            rule_text=rule.text if rule else "",
            style=request.style,
            tier=request.tier or "easy",
        )
        reply = await self.client.ask(
            [{"role": "user", "content": prompt}],
            schema=JUDGE_SCHEMA,
            purpose="judge",
            temperature=self.recipe.temperature,
            max_tokens=self.recipe.max_tokens,
            prompt_hash=prompt_hash("judge"),
        )
        data = reply.data
        if data["id"] != request.id:
            # fail closed: a verdict about another sample is no verdict
            return Verdict(request.id, {}, "The judge answered for another sample.", 1)
        scores = {axis: data[axis] for axis in AXES}
        return Verdict(request.id, scores, data["critique"], 1, dict(self.recipe.thresholds))
