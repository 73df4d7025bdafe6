"""The three writers over a language model: endpoints, what is sent, and answers checked against a JSON schema."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from django.conf import settings

from synthesis.core.queries import (
    AXES,
    TIERS,
    JudgeRequest,
    QueryDraft,
    QueryRequest,
    TraceDraft,
    TraceRequest,
    Verdict,
    Writers,
    by_name,
)
from synthesis.core.recipe import JudgeStage, QueryStage, Recipe, TraceStage
from synthesis.llm.prompts import prompt_hash, render
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash
from trace_site.lib.llm.client import Client, check_url
from trace_site.lib.llm.exchange import FATAL, Endpoint, Ledger, Reply
from trace_site.lib.llm.limiter import Budget

# What the language-model writers send: prompt, schema and parameters of one call, made from a request alone.
#
# The preview page shows exactly these, a run sends exactly these.


TEXT = {"type": "string"}
SCORE = {"type": "integer", "minimum": 1, "maximum": 5}


def closed_object(**properties: Any) -> dict[str, Any]:
    """The schema of an object with these properties and no others."""
    required = {"required": list(properties), "additionalProperties": False}
    return {"type": "object", "properties": properties, **required}


RULE_QUERY_SCHEMA = closed_object(
    queries={
        "type": "array",
        "minItems": 1,
        "items": closed_object(number={"type": "integer"}, query=TEXT, target_tool=TEXT, explanation=TEXT),
    }
)
RRB_QUERY_SCHEMA = closed_object(
    query=TEXT, tools={"type": "array", "items": TEXT, "minItems": 1}, explanation=TEXT
)
REASONING = closed_object(reasoning=TEXT)
TRACE_SCHEMA = closed_object(semantic_reasoning=REASONING)
PERMISSION_TRACE_SCHEMA = closed_object(permission_filtering=REASONING, semantic_reasoning=REASONING)
JUDGE_SCHEMA = closed_object(id=TEXT, critique=TEXT, **dict.fromkeys(AXES, SCORE))


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
    # which queries of the series the call asks for, counted from 1
    numbers, seed = [request.index + 1], request.seed + request.attempt
    if request.batch_seed is not None and request.attempt == 1:
        first = request.index // recipe.per_call * recipe.per_call + 1
        numbers, seed = list(range(first, first + recipe.per_call)), request.batch_seed
    text = render(
        "query_rule",
        tool_name=rule.target,
        rule_name=rule.code,
        rule_text=rule.text,
        tool_description=pool[rule.target].description,
        tools=[pool[name] for name in rule.tools if name in pool],
        category=request.style,
        few_shot=request.few_shot,
        n_queries=len(numbers),
        numbers=numbers,
        critique=request.critique,
    )
    return Call("query_rule", text, RULE_QUERY_SCHEMA, recipe.temperature, recipe.max_tokens, seed)


def _anchor_call(request: QueryRequest, recipe: QueryStage) -> Call:
    low, high = TIERS[request.tier or "easy"]
    text = render(
        "query_rrb",
        anchor=request.anchor,
        tools=request.pool,
        tier=request.tier or "easy",
        few_shot=request.few_shot,
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
        user_query_permission_targets=request.permissions,
        candidate_pool=request.pool,
        selected_tools=request.answer,
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
        answer=request.answer,
        trace=request.trace,
        tools=request.pool,
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


# The endpoints of the three roles, alike or different, from settings.

ROLES = ("generator", "teacher", "judge")


def configured() -> bool:
    """Whether every role has an endpoint: the common one, or its own."""
    return all(settings.LLM_BASE_URL or getattr(settings, f"LLM_{role.upper()}_BASE_URL") for role in ROLES)


def endpoints(models: Mapping[str, str] | None = None) -> dict[str, Endpoint]:
    """{role: its endpoint}; `models` names those that a run was started with, in place of the settings'.

    Raises TraceError naming the setting that is missing or wrong.
    """
    found = {role: _endpoint(role, (models or {}).get(role, "")) for role in ROLES}
    for role, endpoint in found.items():
        if endpoint.base_url and not endpoint.model:
            raise TraceError(
                "no model is named.",
                code="llm_not_configured",
                where=f"LLM_{role.upper()}_MODEL",
                hint="Set it, or use --writer offline.",
            )
    return found


def _endpoint(role: str, model: str) -> Endpoint:
    def own(part: str) -> Any:
        return getattr(settings, f"LLM_{role.upper()}_{part}")

    base_url = own("BASE_URL") or settings.LLM_BASE_URL
    for url in filter(None, (base_url, settings.LLM_BASE_URL)):
        check_url(url, settings.LLM_ALLOWED_HOSTS)
    # the common key is for the common host: an endpoint elsewhere must not learn it
    common_key = settings.LLM_API_KEY if urlsplit(base_url)[:2] == urlsplit(settings.LLM_BASE_URL)[:2] else ""
    return Endpoint(
        base_url=base_url,
        model=model or own("MODEL"),
        api_key=own("API_KEY") or common_key,
        timeout=settings.LLM_TIMEOUT_SECONDS,
        attempt_timeout=min(settings.LLM_ATTEMPT_SECONDS, settings.LLM_TIMEOUT_SECONDS),
        concurrency=settings.LLM_CONCURRENCY,
        price_in=own("PRICE_IN"),
        price_out=own("PRICE_OUT"),
        answers_as=tuple(own("ANSWERS_AS")),
        allowed_hosts=tuple(settings.LLM_ALLOWED_HOSTS),
        options=_options(role),
    )


def _options(role: str) -> str:
    name = f"LLM_{role.upper()}_OPTIONS"
    text: str = getattr(settings, name)
    try:
        if not text or isinstance(json.loads(text), dict):
            return text
    except ValueError:
        pass
    hint = 'Write a JSON object, such as {"temperature": 1, "seed": null}.'
    raise TraceError("it is no JSON object.", code="bad_setting", where=name, hint=hint)


def recorded(found: Mapping[str, Endpoint]) -> list[dict[str, str]]:
    """What a run puts down about its endpoints: role, host and model; no key."""
    return [
        {"role": role, "host": urlsplit(one.base_url).netloc, "model": one.model}
        for role, one in found.items()
    ]


def clients(found: Mapping[str, Endpoint], ledger: Ledger, budget: Budget | None = None) -> dict[str, Client]:
    """{role: a client}; roles of one endpoint share one, all share the budget."""
    made = {endpoint: Client(endpoint, ledger=ledger, budget=budget) for endpoint in set(found.values())}
    return {role: made[endpoint] for role, endpoint in found.items()}


# The writers themselves.


def llm_writers(clients: Mapping[str, Client], recipe: Recipe) -> Writers:
    """The writers over the endpoints of the three roles; one client may serve them all."""
    return Writers(
        f"llm:{clients['generator'].endpoint.model}"[:120],
        LlmQueryWriter(clients["generator"], recipe),
        LlmTraceWriter(clients["teacher"], recipe),
        LlmJudge(clients["judge"], recipe),
    )


ALIKE = 20  # first answers of a role that all fail with one code end the run
# these are no answers, or have their own ways to be waited for
NO_ANSWER = FATAL | {"llm_rate_limited", "llm_timeout", "llm_server_error", "llm_broken"}
T = TypeVar("T")


class _Asking:
    """What the three share: whom they ask, and the part of the recipe that makes their answers."""

    role: str

    def __init__(self, client: Client, recipe: Recipe) -> None:
        self.client, self.recipe = client, recipe
        self._failed: list[TraceError] | None = []  # the first answers, as long as all fail alike

    async def _ask(self, call: Call, read: Callable[[Reply], T]) -> T:
        """What `read` makes of the answer. Raises `llm_all_alike` when the first ALIKE answers all fail in one way."""
        own = True
        try:
            reply = await self.client.ask(**call.arguments())
            own = not reply.shared
            found = read(reply)
        except TraceError as error:
            self._count(error, own)
            raise
        self._failed = None
        return found

    def _count(self, error: TraceError, own: bool) -> None:
        failed = self._failed
        if failed is None or not own or error.code in NO_ANSWER or any(error is one for one in failed):
            return  # one answer for many samples counts once
        if failed and error.code != failed[0].code:
            self._failed = None
            return
        failed.append(error)
        if len(failed) >= ALIKE:
            raise TraceError(
                f"the first {len(failed)} answers of the {self.role} all fail in the same way ({error.code}).",
                code="llm_all_alike",
                hint=f"The last: {error.message} {error.hint}".strip(),
            ) from error

    def _made_with(self, prompt: str, stage: QueryStage | TraceStage | JudgeStage) -> dict[str, Any]:
        named = {"model": self.client.endpoint.model, "prompt": prompt, "prompt_hash": prompt_hash(prompt)}
        return {**named, **asdict(stage)}


class LlmQueryWriter(_Asking):
    role = "generator"

    def made_with(self, branch: str) -> dict[str, Any]:
        return self._made_with("query_rrb" if branch == "rrb" else "query_rule", self.recipe.query)

    async def write(self, request: QueryRequest) -> QueryDraft:
        return await self._ask(query_call(request, self.recipe.query), partial(self._read, request))

    def _read(self, request: QueryRequest, reply: Reply) -> QueryDraft:
        if request.rule is None:
            said, tools = reply.data, reply.data["tools"]
        else:  # the one query of the batch that carries the number; a place in the list says nothing
            number = request.index + 1
            own = [one for one in reply.data["queries"] if one["number"] == number]
            if len(own) != 1:
                raise _bad_answer(f"holds query number {number} {'twice' if own else 'not at all'}")
            said, tools = own[0], [own[0]["target_tool"]]
        answer = tuple(name.strip() for name in tools)
        return QueryDraft(_said(said["query"], "query"), answer, said["explanation"].strip(), _paid(reply))


class LlmTraceWriter(_Asking):
    role = "teacher"

    def made_with(self, branch: str) -> dict[str, Any]:
        return self._made_with("trace", self.recipe.trace)

    async def write(self, request: TraceRequest) -> TraceDraft:
        return await self._ask(trace_call(request, self.recipe.trace), partial(self._read, request))

    def _read(self, request: TraceRequest, reply: Reply) -> TraceDraft:
        steps = [reply.data["semantic_reasoning"]["reasoning"]]
        if request.permissions:
            steps.insert(0, reply.data["permission_filtering"]["reasoning"])
        return TraceDraft(" ".join(_said(step, "reasoning") for step in steps), _paid(reply))


class LlmJudge(_Asking):
    role = "judge"

    def made_with(self, branch: str) -> dict[str, Any]:
        return self._made_with("judge", self.recipe.judge)

    async def judge(self, request: JudgeRequest) -> Verdict:
        call = judge_call(request, self.recipe.judge)
        reply = await self._ask(call, lambda reply: reply)
        # the id of what was judged, unless the answer repeats another: that verdict is none
        judged = request.id if reply.data["id"] == call.id else f"not {request.id}"
        scores = {axis: reply.data[axis] for axis in AXES}
        thresholds = dict(self.recipe.judge.thresholds)
        return Verdict(judged, scores, reply.data["critique"], _paid(reply), thresholds).of(request.id)


def _paid(reply: Reply) -> int:
    """Calls: an answer kept from before, or shared with another sample, was counted where it was paid."""
    return 0 if reply.cached or reply.shared else 1


def _said(text: str, what: str) -> str:
    if not text.strip():
        raise _bad_answer(f"has an empty {what}")
    return text.strip()


def _bad_answer(problem: str) -> TraceError:
    return TraceError(f"the answer of the language model {problem}.", code="llm_bad_answer")
