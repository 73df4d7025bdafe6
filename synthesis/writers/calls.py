"""What the language-model writers send: prompt, schema and parameters of one call, made from a request alone.

The preview page shows exactly these, a run sends exactly these.
"""

from dataclasses import dataclass
from typing import Any

from synthesis.core.queries import (
    AXES,
    TIERS,
    JudgeRequest,
    QueryRequest,
    TraceRequest,
    batch_of,
    by_name,
)
from synthesis.core.recipe import JudgeStage, QueryStage, TraceStage
from synthesis.writers.prompts import prompt_hash, prompt_tool, render
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash

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
        "items": _object(number={"type": "integer"}, query=TEXT, target_tool=TEXT, explanation=TEXT),
    }
)
RRB_QUERY_SCHEMA = _object(
    query=TEXT, tools={"type": "array", "items": TEXT, "minItems": 1}, explanation=TEXT
)
REASONING = _object(reasoning=TEXT)
TRACE_SCHEMA = _object(semantic_reasoning=REASONING)
PERMISSION_TRACE_SCHEMA = _object(permission_filtering=REASONING, semantic_reasoning=REASONING)
JUDGE_SCHEMA = _object(id=TEXT, critique=TEXT, **dict.fromkeys(AXES, SCORE))


@dataclass(frozen=True, slots=True)
class Call:
    """One call as a client is asked for it; `id` is what the answer must repeat, if anything."""

    prompt: str
    text: str
    schema: dict[str, Any]
    temperature: float
    max_tokens: int
    seed: int | None = None
    id: str = ""

    def arguments(self) -> dict[str, Any]:
        """For `Client.ask`."""
        return {
            "messages": [{"role": "user", "content": self.text}],
            "schema": self.schema,
            "purpose": self.prompt,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "seed": self.seed,
            "prompt_hash": prompt_hash(self.prompt),
        }


def query_call(request: QueryRequest, recipe: QueryStage) -> Call:
    """The call for a query. A first attempt at a rule query asks for its whole batch, later ones for it alone."""
    if request.rule is None:
        return _anchor_call(request, recipe)
    rule, pool = request.rule, by_name(request.pool)
    if rule.target not in pool:
        raise TraceError(f"the rule's tool {rule.target} is retired.", code="unknown_tool", where=rule.code)
    numbers, seed = _numbers(request, recipe)
    text = render(
        "query_rule",
        tool_name=rule.target,
        rule_name=rule.code,
        rule_text=rule.text,
        tool_description=pool[rule.target].description,
        tools=[prompt_tool(pool[name]) for name in rule.tools if name in pool],
        category=request.style,
        few_shot=list(request.few_shot),
        n_queries=len(numbers),
        numbers=numbers,
        critique=request.critique,
    )
    return Call("query_rule", text, RULE_QUERY_SCHEMA, recipe.temperature, recipe.max_tokens, seed)


def _numbers(request: QueryRequest, recipe: QueryStage) -> tuple[list[int], int]:
    """Which queries of the series the call asks for, counted from 1, and its seed."""
    if request.batch_seed is None or request.attempt > 1:
        return [request.index + 1], request.seed + request.attempt
    first = batch_of(request.index, recipe.per_call) * recipe.per_call + 1
    return list(range(first, first + recipe.per_call)), request.batch_seed


def _anchor_call(request: QueryRequest, recipe: QueryStage) -> Call:
    low, high = TIERS[request.tier or "easy"]
    text = render(
        "query_rrb",
        anchor=request.anchor,
        tools=[prompt_tool(tool) for tool in request.pool],
        tier=request.tier or "easy",
        few_shot=list(request.few_shot),
        number=request.index + 1,
        low=low,
        high=high,
        critique=request.critique,
    )
    # the seed differs per attempt: the same prompt asked again must not get the refused answer
    seed = request.seed + request.attempt
    return Call("query_rrb", text, RRB_QUERY_SCHEMA, recipe.temperature, recipe.max_tokens, seed)


def trace_call(request: TraceRequest, recipe: TraceStage) -> Call:
    """The call for a trace; it has a permission step only when the request carries permission targets."""
    text = render(
        "trace",
        user_query=request.query,
        user_query_permission_targets=list(request.permissions),
        candidate_pool=[prompt_tool(tool) for tool in request.pool],
        selected_tools=list(request.answer),
        business_rule=request.rule.text if request.rule else "",
        rule_code=request.rule.code if request.rule else "",
        verbatim=recipe.verbatim,
        critique=request.critique,
    )
    schema = PERMISSION_TRACE_SCHEMA if request.permissions else TRACE_SCHEMA
    seed = request.seed + request.attempt
    return Call("trace", text, schema, recipe.temperature, recipe.max_tokens, seed)


def judge_call(request: JudgeRequest, recipe: JudgeStage) -> Call:
    """The call for a verdict. The id to repeat is made from what is judged: the same sample is never paid twice."""
    rule = request.rule
    judged = [request.query, request.trace, sorted(request.answer), request.style, request.tier]
    shown = content_hash([*judged, rule.hash if rule else ""])[:12]
    text = render(
        "judge",
        id=shown,
        query=request.query,
        answer=list(request.answer),
        trace=request.trace,
        tools=[prompt_tool(tool) for tool in request.pool],
        rule_code=rule.code if rule else "",
        rule_target=rule.target if rule else "",
        rule_text=rule.text if rule else "",
        style=request.style,
        tier=request.tier or "easy",
        # in one order: a recipe that a run stored comes back with its keys sorted
        thresholds={axis: recipe.thresholds[axis] for axis in AXES},
        rubric={axis: recipe.rubric[axis] for axis in AXES},
    )
    return Call("judge", text, JUDGE_SCHEMA, recipe.temperature, recipe.max_tokens, id=shown)
