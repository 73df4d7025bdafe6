"""The prompts: each as its file says now and said before, what was made with it, and filled in as a run would fill it.

A preview takes any rule or tool, any style or tier, any place in the series. It is the call that a run with this seed
sends for that slot, byte by byte. Trace and judge stand on a query: the newest sample of the rule or tool, or, where
there is none, one of the offline writers'.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import Count, F
from django.http import Http404

from catalog.models import LabelledQuery, Tool
from rules.models import RuleVersion
from rules.suggestions.selectors import proposed
from synthesis.core.clauses import reasons_unsupported
from synthesis.core.plan import shuffled
from synthesis.core.queries import (
    RULE_STYLES,
    TIERS,
    QueryDraft,
    QueryRequest,
    RuleText,
    by_name,
    judge_request,
    permission_targets,
    trace_request,
)
from synthesis.core.recipe import Recipe, default_recipe
from synthesis.llm.prompts import prompt_hash, source
from synthesis.llm.suggested import PROMPT as SUGGESTS
from synthesis.llm.suggested import suggestion_call
from synthesis.llm.writers import Call, endpoints, judge_call, query_call, trace_call
from synthesis.models import PromptVersion, Sample
from synthesis.offline.writer import offline_writers
from synthesis.samples.inputs import Inputs, telling_writers
from synthesis.samples.sources import catalog_around, rule_texts
from synthesis.samples.staleness import GONE
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash
from trace_site.lib.letters import count_words

PURPOSE = {
    "query_rule": "Writes the queries of a rule, one batch per call.",
    "query_rrb": "Writes a query for a tool of the catalog.",
    "trace": "Writes the reasoning from a query to its tools.",
    "judge": "Scores a sample on four axes.",
    "suggest_rule": "Words a suggested rule anew, or says that none is needed.",
}
STAGE = {"query_rule": "query", "query_rrb": "query", "trace": "trace", "judge": "judge"}
SHOWN_VERSIONS = 20


def prompts() -> list[dict[str, Any]]:
    """Each prompt's file today. `first_used` is None before a run used it; `versions` counts the texts before it."""
    rows = list(PromptVersion.objects.values_list("name", "hash", "first_used"))
    used = {digest: at for _, digest, at in rows}
    return [
        {
            "name": name,
            "hash": prompt_hash(name),
            "source": source(name),
            "purpose": purpose,
            "first_used": used.get(prompt_hash(name)),
            "versions": sum(name == of and digest != prompt_hash(name) for of, digest, _ in rows),
        }
        for name, purpose in PURPOSE.items()
    ]


def prompt_named(name: str) -> dict[str, Any]:
    """Raises Http404."""
    if found := next((one for one in prompts() if one["name"] == name), None):
        return found
    raise Http404


def earlier_versions(name: str) -> list[PromptVersion]:
    """The texts this prompt had before, the newest first."""
    rows = PromptVersion.objects.filter(name=name).exclude(hash=prompt_hash(name))
    return list(rows.order_by("-first_used")[:SHOWN_VERSIONS])


def samples_by_prompt(name: str) -> dict[str, int]:
    """{hash of the prompt: samples written with it}."""
    if name not in STAGE:  # no sample is written with it
        return {}
    path = f"made_from__stages__{STAGE[name]}"
    rows = Sample.objects.exclude(machine=Sample.Machine.PENDING).filter(**{f"{path}__prompt": name})
    counted = rows.order_by().values_list(f"{path}__prompt_hash").annotate(n=Count("pk"))
    return {str(digest): count for digest, count in counted}


SHOWN_TO = """
SELECT shot, count(*) FROM synthesis_sample, jsonb_array_elements_text(made_from #> '{stages,query,few_shot}') AS shot
WHERE machine <> 'pending' AND jsonb_typeof(made_from #> '{stages,query,few_shot}') = 'array' AND shot = ANY(%s)
GROUP BY shot"""


def few_shot_counts(pks: Sequence[int]) -> dict[int, int]:
    """{few-shot query: samples whose writer was shown it}."""
    rows = LabelledQuery.objects.filter(pk__in=pks, use=LabelledQuery.Use.FEW_SHOT)
    marks = {pk: content_hash(text)[:12] for pk, text in rows.values_list("pk", "text")}
    with connection.cursor() as cursor:
        cursor.execute(SHOWN_TO, [list(marks.values())])
        counts: dict[str, int] = dict(cursor.fetchall())
    return {pk: counts.get(mark, 0) for pk, mark in marks.items()}


# A preview: the call that a run with this seed sends for a slot.

STYLES = (*RULE_STYLES, "underspecified")
ROLE = {**dict.fromkeys(PURPOSE, "generator"), "trace": "teacher", "judge": "judge"}
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
        return count_words(self.call.text)


def prompt_preview(chosen: Chosen) -> PromptPreview:
    """Raises TraceError for what cannot be filled in."""
    role = ROLE[chosen.prompt]
    shown = (chosen.prompt, prompt_hash(chosen.prompt), role, endpoints()[role].model)
    if chosen.prompt == SUGGESTS:
        row = proposed().filter(content__target=chosen.tool).order_by("-score", "pk").first()
        if row is None:
            raise TraceError("no suggested rule leads to this tool.", code="bad_input", where="tool")
        return PromptPreview(*shown, suggestion_call(row))
    recipe = default_recipe()
    request, version = _request(chosen, recipe)
    if chosen.prompt.startswith("query"):
        return PromptPreview(*shown, query_call(request, recipe.query))
    # a query with its trace to show: the newest sample's, or the offline writers'
    rows = Sample.objects.exclude(GONE).exclude(trace="").filter(branch=request.branch)
    if version is not None:
        rows = rows.filter(rule_version=version, style=request.style)
    else:
        rows = rows.filter(anchor__name=request.anchor, tier=request.tier)
    sample = rows.order_by("-pk").first()
    if sample is not None and {tool.name for tool in request.pool}.issuperset(sample.answer):
        draft, written = QueryDraft(sample.query, tuple(sample.answer), sample.explanation), sample.trace
        stands_on, pk = f"sample {sample.pk}", sample.pk
    else:
        draft, written = asyncio.run(_offline(request, recipe))
        stands_on, pk = "the offline writers", None
    share = 1.0 if chosen.permissions else 0.0
    permissions = permission_targets(draft.answer, request.pool, share, request.seed)
    if chosen.permissions and not permissions:
        raise TraceError("none of these tools asks for a permission.", code="bad_input", where="permissions")
    if chosen.prompt == "trace":
        call = trace_call(trace_request(request, draft, permissions), recipe.trace)
    else:
        call = judge_call(judge_request(request, draft, written), recipe.judge)
    return PromptPreview(*shown, call, stands_on, pk)


def _request(chosen: Chosen, recipe: Recipe) -> tuple[QueryRequest, int | None]:
    """As the plan and the run make it for this slot; the rule version's id beside it."""
    _check(chosen)
    of_rule = bool(chosen.rule)
    rule, version = _rule(chosen.rule) if of_rule else (None, None)
    catalog = catalog_around(rule.tools if rule else [chosen.tool])
    branch = "rule" if of_rule else "rrb"
    writers = telling_writers("llm", recipe)
    rules = {version: rule} if version and rule else {}
    inputs = Inputs.today(catalog, rules, branch, writers, recipe.trace.permission_share)
    made = inputs.of_rule(rule) if rule else inputs.of_anchor(chosen.tool)
    if made is None or (rule and rule.target not in catalog.tools):
        name = rule.target if rule else chosen.tool
        raise TraceError(f"'{name[:200]}' is no active tool.", code="unknown_tool", where="tool")
    own, batch = inputs.seeds(made, chosen.kind, chosen.index, chosen.seed)
    pool = catalog.pool(shuffled(made.tools, own))
    reason = ""
    if rule:
        reason = reasons_unsupported(rule, by_name(pool)).get(chosen.kind, "")
    elif sum(not tool.deprecated for tool in pool) < TIERS[chosen.kind][0]:
        reason = f"a {chosen.kind} query needs {TIERS[chosen.kind][0]} live tools in the pool."
    if reason:
        raise TraceError(f"no run writes this: {reason}", code="bad_input", where="kind")
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
        few_shot=inputs.shots.chosen(own, batch),
        batch_seed=batch,
        attempt=2 if chosen.critique else 1,
        critique=chosen.critique,
    )
    return request, version


def _check(chosen: Chosen) -> None:
    if bool(chosen.rule) == bool(chosen.tool):
        raise TraceError("choose a rule or a tool.", code="bad_input", where="rule")
    if chosen.prompt == "query_rule" and chosen.tool:
        raise TraceError("this prompt is about a rule.", code="bad_input", where="rule")
    if chosen.prompt == "query_rrb" and chosen.rule:
        raise TraceError("this prompt is about a tool.", code="bad_input", where="tool")
    kinds = STYLES if chosen.rule else tuple(TIERS)
    if chosen.kind not in kinds:
        raise TraceError(f"choose one of {', '.join(kinds)}.", code="bad_input", where="kind")


def _rule(name: str) -> tuple[RuleText, int]:
    """The published version of DOMAIN/CODE, or of CODE where one domain has it."""
    domain, _, code = name.rpartition("/")
    rows = RuleVersion.objects.filter(rule__published_id=F("pk"), rule__code=code)
    found = list((rows.filter(rule__domain=domain) if domain else rows).select_related("rule")[:2])
    if len(found) != 1:
        what = "several domains have" if found else "no published rule has"
        raise TraceError(f"{what} the code '{code[:60]}'.", code="unknown_rule", where="rule")
    return rule_texts(found)[0], found[0].pk


async def _offline(request: QueryRequest, recipe: Recipe) -> tuple[QueryDraft, str]:
    writers = offline_writers(recipe)
    draft = await writers.query.write(request)
    return draft, (await writers.trace.write(trace_request(request, draft))).trace


def example_of(prompt: str) -> Chosen:
    """What a page shows first: the first published rule, or else the first tool; the strongest suggestion's."""
    if prompt == SUGGESTS:
        row = proposed().order_by("-score", "pk").first()
        return Chosen(prompt, tool=row.content["target"] if row else "", kind="easy" if row else "")
    if prompt != "query_rrb":
        rows = RuleVersion.objects.filter(rule__published_id=F("pk")).select_related("rule")
        if version := rows.order_by("rule__domain_id", "rule__code").first():
            return Chosen(prompt, rule=f"{version.rule.domain_id}/{version.rule.code}", kind="explicit")
    tools = Tool.objects.filter(status=Tool.Status.ACTIVE, deprecated=False).order_by("name")
    tool = tools.values_list("name", flat=True).first() if prompt != "query_rule" else None
    return Chosen(prompt, tool=tool or "", kind="easy" if tool else "")
