"""What a rule in the editor would teach: its pool P(r), and sample queries as the configured writer would write them.

No sample is stored. The queries come from seeds, so the same form shows the same ones; `page` 1 shows the next three
of each style. Only filter V's query checks are told: a run also writes traces, asks the judge, and tries again.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db.models import Max

from catalog.models import NeighbourList, Tool
from catalog.selectors import tools_by_id, tools_by_name
from rules.core.rule import RuleContent, make_content
from rules.core.rules_file import base_code
from rules.models import Rule
from synthesis.core.clauses import cases, reasons_unsupported
from synthesis.core.filters import Failure, FilterContext, query_failures
from synthesis.core.keys import sample_seed
from synthesis.core.names import ToolNames, rule_codes
from synthesis.core.plan import shuffled_pool
from synthesis.core.queries import RULE_STYLES, QueryDraft, QueryRequest, RuleText, Writers
from synthesis.core.recipe import default_recipe
from synthesis.core.words import NearDuplicates
from synthesis.generate.pipeline import candidate_of
from synthesis.llm.ledger import DatabaseLedger
from synthesis.llm.writers import clients, configured, endpoints, llm_writers
from synthesis.models import Sample, SynthesisRun
from synthesis.offline.writer import offline_writers
from synthesis.samples.inputs import FewShots, telling_writers
from synthesis.samples.sources import clause_of, few_shot_queries, published_codes, tool_text
from synthesis.samples.staleness import GONE
from trace_site.database import generation_key
from trace_site.lib.errors import TraceError

SECONDS = 20.0  # for all drafts together
CONCURRENCY = 12


def drafted(requests: Sequence[QueryRequest]) -> tuple[str, list[QueryDraft | TraceError]]:
    """The writer's name, and a draft or a refusal each. What fails alike for all is raised.

    The writer is the language model where an endpoint is configured, else the offline one. What a model is paid for
    stands in the ledger, and is not paid twice.
    """
    name, drafts = asyncio.run(_drafts(requests))
    refusals = [draft for draft in drafts if isinstance(draft, TraceError)]
    if configured() and len(refusals) == len(drafts) and len({one.code for one in refusals}) == 1:
        raise refusals[0]
    return name, drafts


async def _drafts(requests: Sequence[QueryRequest]) -> tuple[str, list[QueryDraft | TraceError]]:
    if not configured():
        writers = offline_writers(default_recipe())
        return writers.name, await asyncio.gather(*(_draft(writers, one) for one in requests))
    ledger = DatabaseLedger(None)
    seconds = min(SECONDS, settings.LLM_TIMEOUT_SECONDS)
    patient = {
        role: replace(one, retries=1, timeout=seconds, concurrency=CONCURRENCY)
        for role, one in endpoints().items()
    }
    made = clients(patient, ledger)
    try:
        writers = llm_writers(made, default_recipe())
        return writers.name, await asyncio.gather(*(_draft(writers, one) for one in requests))
    finally:
        for client in set(made.values()):
            await client.close()
        ledger.close()


async def _draft(writers: Writers, request: QueryRequest) -> QueryDraft | TraceError:
    try:
        async with asyncio.timeout(SECONDS):
            return await writers.query.write(request)
    except TraceError as error:
        return error
    except TimeoutError:
        return TraceError(f"the writer did not answer within {SECONDS:.0f} seconds.", code="llm_timeout")


PER_STYLE = 3


@dataclass(frozen=True, slots=True)
class PoolTool:
    tool: Tool
    role: str  # target, confusable or neighbour


@dataclass(slots=True)
class PreviewQuery:
    """One query with what filter V says of it, or why there is none."""

    draft: QueryDraft | None = None
    failures: list[Failure] = field(default_factory=list)
    error: str = ""


@dataclass(slots=True)
class PreviewStyle:
    """`reason`: why it cannot be written; `wants`: the cases for which typed example requests would help."""

    name: str
    reason: str = ""
    wants: list[dict[str, Any]] = field(default_factory=list)
    queries: list[PreviewQuery] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Preview:
    pool: list[PoolTool]
    styles: list[PreviewStyle]
    writer: str
    page: int
    first: int  # the number of the first query shown of each style
    last: int


def preview(
    *, content: dict[str, Any], rule: Rule | None, code: str, underspecified: bool = False, page: int = 0
) -> Preview:
    """Raises TraceError when the form holds too little, or the writer's endpoint cannot serve at all."""
    said = make_content(**content)
    if not said.target:
        raise TraceError("Choose a target first; the pool is built around it.", code="incomplete")
    if not said.text and not said.clauses:
        raise TraceError("Write the rule first; the queries follow what it says.", code="incomplete")
    tools, near = _tools_around(said)
    text = _rule_text(said, tools, rule, code)
    styles = _styles(text, tools, underspecified)
    shots = FewShots(few_shot_queries(), default_recipe().query.few_shots)
    places = range(PER_STYLE * page, PER_STYLE * (page + 1))
    asked = [(style, n) for style in styles if not style.reason for n in places]
    requests = [_request(text, tools, near, shots, style.name, n) for style, n in asked]
    context = _context(rule)
    writer, drafts = drafted(requests)
    for (style, _), request, draft in zip(asked, requests, drafts, strict=True):
        if isinstance(draft, TraceError):
            style.queries.append(PreviewQuery(error=str(draft)))
            continue
        found = query_failures(candidate_of(request, draft), context)
        if not found:
            context.seen.add(draft.query)
        style.queries.append(PreviewQuery(draft, found))
    roles = {**dict.fromkeys(said.confusables, "confusable"), said.target: "target"}
    pool = [PoolTool(tool, roles.get(name, "neighbour")) for name, tool in tools.items()]
    pool.sort(key=lambda row: row.role != "target")
    return Preview(pool, styles, writer, page, places[0] + 1, places[-1] + 1)


def _tools_around(said: RuleContent) -> tuple[dict[str, Tool], dict[str, list[str]]]:
    """The active tools of P(r) by name, T(r) first, and the neighbours of each tool of T(r)."""
    own = tools_by_name(list(said.tools))
    if said.target not in own:
        raise TraceError(f"'{said.target}' is not in the catalog.", code="unknown_tool")
    lists = NeighbourList.objects.filter(tool__in=own.values()).values_list("tool__name", "neighbour_ids")
    near = dict(lists)
    others = tools_by_id([pk for name in own for pk in near.get(name, ())])
    known = {tool.pk: tool for tool in (*own.values(), *others) if tool.status == Tool.Status.ACTIVE}
    names = {name: [known[pk].name for pk in near.get(name, ()) if pk in known] for name in own}
    return {tool.name: tool for tool in known.values()}, names


def _rule_text(said: RuleContent, tools: dict[str, Tool], rule: Rule | None, code: str) -> RuleText:
    target = tools.get(said.target)
    return RuleText(
        code=rule.code if rule else code or base_code(said.target),
        version=0,
        target=said.target,
        confusables=said.confusables,
        text=said.text,
        clauses=tuple(clause_of(row) for row in said.clauses if row["when"] and row["route_to"]),
        hash=said.content_hash(),
        domain=rule.domain_id if rule else target.domain_id if target else "",
    )


def _styles(text: RuleText, tools: dict[str, Tool], underspecified: bool) -> list[PreviewStyle]:
    known = {name: tool_text(tool) for name, tool in tools.items()}
    writers = telling_writers("llm" if configured() else "offline", default_recipe())
    wordless, never = writers.unsupported(text, known), reasons_unsupported(text, known)
    said = [one.clause for one in cases(text, known) if one.clause.route_to in text.text]
    wants = [] if never.get("implicit") else [asdict(clause) | {"signals": []} for clause in said]
    wanted = [*RULE_STYLES, *(["underspecified"] if underspecified else [])]
    return [
        PreviewStyle(name, never.get(name) or wordless.get(name, ""), wants if name in wordless else [])
        for name in wanted
    ]


def _request(
    text: RuleText,
    tools: dict[str, Tool],
    near: dict[str, list[str]],
    shots: FewShots,
    style: str,
    index: int,
) -> QueryRequest:
    seed = sample_seed(0, text.domain, text.code, "preview", style, index)
    # a model writes the batch that holds this query, and so the next ones, in one call
    place = index // default_recipe().query.per_call
    batch = sample_seed(0, text.domain, text.code, "preview", style, "batch", place)
    names = shuffled_pool([name for name in text.tools if name in tools], near, seed)
    return QueryRequest(
        branch=SynthesisRun.Branch.RULE,
        domain=text.domain,
        pool=tuple(tool_text(tools[name]) for name in names),
        seed=seed,
        index=index,
        style=style,
        rule=text,
        few_shot=shots.chosen(batch),
        batch_seed=batch,
    )


def _context(rule: Rule | None) -> FilterContext:
    """Names of the whole catalog; near-duplicates among these queries and the rule's own samples."""
    newest = Tool.objects.aggregate(pk=Max("pk"))["pk"] or 0
    names, deprecated = _catalog_names((*generation_key("catalog").values(), newest))
    seen = NearDuplicates()
    if rule is not None:
        made = Sample.objects.filter(rule_version__rule=rule).exclude(GONE).exclude(query="")
        for query in made.order_by("id").values_list("query", flat=True):
            seen.add(query)
    return FilterContext(names, deprecated, seen, rule_codes(published_codes()))


@lru_cache(maxsize=1)
def _catalog_names(stamp: tuple[object, ...]) -> tuple[ToolNames, frozenset[str]]:
    """The names of the active tools, and the deprecated ones among them; kept until the catalog's stamp moves."""
    active = Tool.objects.filter(status=Tool.Status.ACTIVE).values_list("name", "deprecated")
    names = dict(active)
    return ToolNames(names), frozenset(name for name, dead in names.items() if dead)
