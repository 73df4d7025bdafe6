"""The three writers over a language model: prompts as files, answers checked against a JSON schema."""

from collections.abc import Sequence
from typing import Any, Protocol

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
from synthesis.writers.prompts import prompt_hash, render
from trace_site.lib.errors import TraceError
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


class Models(Protocol):
    """Which model does what; settings fit."""

    LLM_GENERATOR_MODEL: str
    LLM_TEACHER_MODEL: str
    LLM_JUDGE_MODEL: str


def llm_writers(client: Client, models: Models) -> Writers:
    """The writers over one endpoint; three models, or one for all."""
    missing = [
        name
        for name in ("LLM_GENERATOR_MODEL", "LLM_TEACHER_MODEL", "LLM_JUDGE_MODEL")
        if not getattr(models, name)
    ]
    if missing:
        raise TraceError(
            "no model is named.",
            code="llm_not_configured",
            where=missing[0],
            hint="Set it, or use --writer offline.",
        )
    return Writers(
        f"llm:{models.LLM_GENERATOR_MODEL}"[:120],
        LlmQueryWriter(client, models.LLM_GENERATOR_MODEL),
        LlmTraceWriter(client, models.LLM_TEACHER_MODEL),
        LlmJudge(client, models.LLM_JUDGE_MODEL),
    )


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
    def __init__(self, client: Client, model: str) -> None:
        self.client = client
        self.model = model
        self.version = f"{model} {prompt_hash('query_rule')} {prompt_hash('query_rrb')}"

    def write(self, request: QueryRequest) -> QueryDraft:
        if request.rule is None:
            return self._for_anchor(request)
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
        data = self._ask(prompt, "query_rule", RULE_QUERY_SCHEMA, request)
        written = data["queries"][0]
        return QueryDraft(
            written["query"].strip(), (written["target_tool"].strip(),), written["explanation"], 1
        )

    def _for_anchor(self, request: QueryRequest) -> QueryDraft:
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
        data = self._ask(prompt, "query_rrb", RRB_QUERY_SCHEMA, request)
        answer = tuple(name.strip() for name in data["tools"])
        return QueryDraft(data["query"].strip(), answer, data["explanation"], 1)

    def _ask(self, prompt: str, name: str, schema: dict[str, Any], request: QueryRequest) -> dict[str, Any]:
        # the seed differs per attempt: the same prompt asked again must not get the refused answer
        return self.client.ask(
            [{"role": "user", "content": prompt}],
            model=self.model,
            schema=schema,
            purpose=name,
            temperature=0.9,
            seed=request.seed + request.attempt,
            prompt_hash=prompt_hash(name),
        ).data


class LlmTraceWriter:
    def __init__(self, client: Client, model: str, verbatim: bool = False) -> None:
        self.client = client
        self.model = model
        self.verbatim = verbatim
        self.version = f"{model} {prompt_hash('trace')}{' verbatim' if verbatim else ''}"

    def write(self, request: TraceRequest) -> TraceDraft:
        prompt = render(
            "trace",
            user_query=request.query,
            user_query_permission_targets=list(request.permissions),
            candidate_pool=_tools(request.pool),
            selected_tools=list(request.answer),
            business_rule=request.rule.text if request.rule else "",
            rule_code=request.rule.code if request.rule else "",
            verbatim=self.verbatim,
            critique=request.critique,
        )
        data = self.client.ask(
            [{"role": "user", "content": prompt}],
            model=self.model,
            schema=TRACE_SCHEMA,
            purpose="trace",
            temperature=0.7,
            seed=request.seed + request.attempt,
            prompt_hash=prompt_hash("trace"),
        ).data
        permission = data["permission_filtering"]["reasoning"].strip() if request.permissions else ""
        return TraceDraft(f"{permission} {data['semantic_reasoning']['reasoning'].strip()}".strip(), 1)


class LlmJudge:
    def __init__(self, client: Client, model: str) -> None:
        self.client = client
        self.model = model
        self.version = f"{model} {prompt_hash('judge')}"

    def judge(self, request: JudgeRequest) -> Verdict:
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
        data = self.client.ask(
            [{"role": "user", "content": prompt}],
            model=self.model,
            schema=JUDGE_SCHEMA,
            purpose="judge",
            temperature=0.0,
            prompt_hash=prompt_hash("judge"),
        ).data
        if data["id"] != request.id:
            # fail closed: a verdict about another sample is no verdict
            return Verdict(request.id, {}, "The judge answered for another sample.", 1)
        return Verdict(request.id, {axis: data[axis] for axis in AXES}, data["critique"], 1)
