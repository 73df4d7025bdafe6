"""A prompt filled in as a run would fill it: any rule or tool, any style or tier, any place in the series.

In: what is chosen. Out: the call that a run with this seed sends for that slot, byte by byte. Trace and judge stand on
a query: the newest sample of the rule or tool, or, where there is none, one of the offline writers'.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import F

from catalog.models import Tool
from rules.models import RuleVersion
from synthesis.core.clauses import reasons_unsupported
from synthesis.core.plan import shuffled_pool
from synthesis.core.queries import (
    RULE_STYLES,
    TIERS,
    JudgeRequest,
    QueryRequest,
    RuleText,
    ToolText,
    TraceRequest,
    by_name,
    permission_targets,
)
from synthesis.core.recipe import Recipe, default_recipe
from synthesis.llm.endpoints import endpoints
from synthesis.llm.prompts import FIELDS, prompt_hash
from synthesis.llm.writers import Call, judge_call, query_call, trace_call
from synthesis.models import Sample
from synthesis.offline.writer import offline_writers
from synthesis.samples.inputs import Inputs, telling_writers
from synthesis.samples.sources import catalog_around, rule_texts
from synthesis.samples.standing import GONE
from trace_site.lib.errors import TraceError

STYLES = (*RULE_STYLES, "underspecified")
ROLE = {"query_rule": "generator", "query_rrb": "generator", "trace": "teacher", "judge": "judge"}
MOST_CRITIQUE = 2000


@dataclass(frozen=True, slots=True)
class Chosen:
    """What to fill in: `rule` as DOMAIN/CODE or `tool` by name; `kind` is a style or a tier."""

    prompt: str
    rule: str = ""
    tool: str = ""
    kind: str = ""
    index: int = 0
    seed: int = 0
    permissions: bool = False
    critique: str = ""


@dataclass(frozen=True, slots=True)
class PromptPreview:
    """`stands_on` says where query, answer and trace come from; empty for prompts that write the query."""

    prompt: str
    hash: str
    role: str
    model: str
    call: Call
    stands_on: str = ""
    sample: int | None = None

    @property
    def characters(self) -> int:
        return len(self.call.text)

    @property
    def words(self) -> int:
        return len(self.call.text.split())


@dataclass(frozen=True, slots=True)
class _Written:
    query: str
    answer: tuple[str, ...]
    explanation: str
    trace: str
    permissions: tuple[str, ...]
    stands_on: str
    sample: int | None = None


def prompt_preview(chosen: Chosen) -> PromptPreview:
    """Raises TraceError for what cannot be filled in."""
    recipe = default_recipe()
    request, version = _request(chosen, recipe)
    call, written = _call(chosen, request, version, recipe)
    return PromptPreview(
        prompt=chosen.prompt,
        hash=prompt_hash(chosen.prompt),
        role=ROLE[chosen.prompt],
        model=endpoints()[ROLE[chosen.prompt]].model,
        call=call,
        stands_on=written.stands_on if written else "",
        sample=written.sample if written else None,
    )


def _call(
    chosen: Chosen, request: QueryRequest, version: int | None, recipe: Recipe
) -> tuple[Call, _Written | None]:
    if chosen.prompt.startswith("query"):
        return query_call(request, recipe.query), None
    written = _written(request, version, chosen, recipe)
    if chosen.prompt == "trace":
        trace = TraceRequest(
            query=written.query,
            answer=written.answer,
            pool=request.pool,
            seed=request.seed,
            rule=request.rule,
            permissions=written.permissions,
            explanation=written.explanation,
            attempt=request.attempt,
            critique=request.critique,
        )
        return trace_call(trace, recipe.trace), written
    judged = JudgeRequest(
        id="",
        branch=request.branch,
        query=written.query,
        trace=written.trace,
        answer=written.answer,
        pool=request.pool,
        style=request.style,
        tier=request.tier,
        rule=request.rule,
    )
    return judge_call(judged, recipe.judge), written


def _request(chosen: Chosen, recipe: Recipe) -> tuple[QueryRequest, int | None]:
    """As the plan and the run make it for this slot; the rule version's id beside it."""
    _check(chosen)
    of_rule = bool(chosen.rule)
    rule, version = _rule(chosen.rule) if of_rule else (None, None)
    catalog = catalog_around(rule.tools if rule else [chosen.tool])
    named = [name for name in (rule.tools if rule else [chosen.tool]) if name in catalog.tools]
    branch = "rule" if of_rule else "rrb"
    writers = telling_writers("llm", recipe)
    rules = {version: rule} if version and rule else {}
    inputs = Inputs.today(catalog, rules, branch, writers, recipe.trace.permission_share)
    made = inputs.of_rule(rule) if rule else inputs.of_anchor(chosen.tool)
    if made is None or (rule and rule.target not in catalog.tools):
        name = rule.target if rule else chosen.tool
        raise TraceError(f"'{name[:200]}' is no active tool.", code="unknown_tool", where="tool")
    own, batch = inputs.seeds(made, chosen.kind, chosen.index, chosen.seed)
    pool = catalog.pool(shuffled_pool(named, catalog.neighbours, own))
    _check_kind(rule, chosen.kind, pool)
    request = QueryRequest(
        branch=branch,
        domain=made.domain,
        pool=pool,
        seed=own,
        index=chosen.index,
        style=chosen.kind if of_rule else "",
        tier="" if of_rule else chosen.kind,
        rule=rule,
        anchor="" if of_rule else chosen.tool,
        few_shot=inputs.shots.chosen(own if batch is None else batch),
        batch_seed=batch,
        attempt=2 if chosen.critique else 1,
        critique=chosen.critique,
    )
    return request, version


def _check(chosen: Chosen) -> None:
    if chosen.prompt not in FIELDS:
        raise TraceError(f"there is no prompt '{chosen.prompt[:40]}'.", code="not_found", where="prompt")
    if bool(chosen.rule) == bool(chosen.tool):
        raise TraceError("choose a rule or a tool.", code="bad_input", where="rule")
    if chosen.prompt == "query_rule" and chosen.tool:
        raise TraceError("this prompt is about a rule.", code="bad_input", where="rule")
    if chosen.prompt == "query_rrb" and chosen.rule:
        raise TraceError("this prompt is about a tool.", code="bad_input", where="tool")
    kinds = STYLES if chosen.rule else tuple(TIERS)
    if chosen.kind not in kinds:
        raise TraceError(f"choose one of {', '.join(kinds)}.", code="bad_input", where="kind")


def _check_kind(rule: RuleText | None, kind: str, pool: Sequence[ToolText]) -> None:
    """Refuse a style that the rule does not support, and a tier for which too few tools live."""
    reason = ""
    if rule:
        reason = reasons_unsupported(rule, by_name(pool)).get(kind, "")
    elif sum(not tool.deprecated for tool in pool) < TIERS[kind][0]:
        reason = f"a {kind} query needs {TIERS[kind][0]} live tools in the pool."
    if reason:
        raise TraceError(f"no run writes this: {reason}", code="bad_input", where="kind")


def _rule(name: str) -> tuple[RuleText, int]:
    """The published version of DOMAIN/CODE, or of CODE where one domain has it."""
    domain, _, code = name.rpartition("/")
    rows = RuleVersion.objects.filter(rule__published_id=F("pk"), rule__code=code)
    found = list((rows.filter(rule__domain=domain) if domain else rows).select_related("rule")[:2])
    if len(found) != 1:
        what = "several domains have" if found else "no published rule has"
        raise TraceError(f"{what} the code '{code[:60]}'.", code="unknown_rule", where="rule")
    return rule_texts(found)[0], found[0].pk


def _written(request: QueryRequest, version: int | None, chosen: Chosen, recipe: Recipe) -> _Written:
    """A query with its trace to show: the newest sample's, or the offline writers'."""
    rows = Sample.objects.exclude(GONE).exclude(trace="").filter(branch=request.branch)
    if version is not None:
        rows = rows.filter(rule_version=version, style=request.style)
    else:
        rows = rows.filter(anchor__name=request.anchor, tier=request.tier)
    names = {tool.name for tool in request.pool}
    sample = rows.order_by("-pk").first()
    if sample is not None and names.issuperset(sample.answer):
        query, answer, said = sample.query, tuple(sample.answer), sample.explanation
        trace, stands_on = sample.trace, f"sample {sample.pk}"
    else:
        sample = None
        query, answer, said, trace = asyncio.run(_offline(request, recipe))
        stands_on = "the offline writers"
    share = 1.0 if chosen.permissions else 0.0
    permissions = permission_targets(answer, request.pool, share, request.seed)
    if chosen.permissions and not permissions:
        raise TraceError("none of these tools asks for a permission.", code="bad_input", where="permissions")
    return _Written(query, answer, said, trace, permissions, stands_on, sample.pk if sample else None)


async def _offline(request: QueryRequest, recipe: Recipe) -> tuple[str, tuple[str, ...], str, str]:
    writers = offline_writers(recipe)
    draft = await writers.query.write(request)
    trace = TraceRequest(draft.query, draft.answer, request.pool, request.seed, request.rule)
    return draft.query, draft.answer, draft.explanation, (await writers.trace.write(trace)).trace


def example_of(prompt: str) -> Chosen:
    """What a page shows first: the first published rule, or else the first tool."""
    if prompt != "query_rrb":
        rows = RuleVersion.objects.filter(rule__published_id=F("pk")).select_related("rule")
        if version := rows.order_by("rule__domain_id", "rule__code").first():
            return Chosen(prompt, rule=f"{version.rule.domain_id}/{version.rule.code}", kind="explicit")
    tools = Tool.objects.filter(status=Tool.Status.ACTIVE, deprecated=False).order_by("name")
    tool = tools.values_list("name", flat=True).first() if prompt != "query_rule" else None
    return Chosen(prompt, tool=tool or "", kind="easy" if tool else "")
