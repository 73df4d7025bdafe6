"""Pages of the prompts: the files with their versions, and what a run would send for any rule or tool."""

import json
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_GET

from catalog.search import ToolFilter, find_tools
from synthesis.core.queries import TIERS
from synthesis.llm.prompts import prompt_hash
from synthesis.prompts.selectors import (
    MOST_CRITIQUE,
    PURPOSE,
    STYLES,
    Chosen,
    earlier_versions,
    example_of,
    few_shot_counts,
    prompt_named,
    prompt_preview,
    prompts,
    samples_by_prompt,
)
from trace_site.lib.errors import TraceError
from trace_site.paging import number_of, numbers_of

SUGGESTED = 20
MOST_QUERIES = 200


@require_GET
def prompt_list(request: HttpRequest) -> HttpResponse:
    return render(request, "synthesis/prompts.html", {"prompts": prompts()})


@require_GET
def prompt_detail(request: HttpRequest, name: str) -> HttpResponse:
    """The file as it is, its earlier texts, and a preview that follows the form."""
    prompt = prompt_named(name)
    chosen = _chosen(name, request.GET) if request.GET else example_of(name)
    context = {
        "prompt": prompt,
        "chosen": chosen,
        "styles": STYLES,
        "tiers": list(TIERS),
        "versions": earlier_versions(name),
        **_previewed(chosen),
    }
    return render(request, "synthesis/prompt_detail.html", context)


@require_GET
def preview(request: HttpRequest, name: str) -> HttpResponse:
    """Fragment: the prompt filled in. A refusal is one sentence."""
    if name not in PURPOSE:
        raise Http404
    return render(request, "synthesis/_prompt_preview.html", _previewed(_chosen(name, request.GET)))


@require_GET
def prompt_counts(request: HttpRequest) -> HttpResponse:
    """Fragment, swapped into place: the samples made with today's prompts, or with each text of ?name=."""
    rows = []
    for name in (name for name in PURPOSE if request.GET.get("name") in (None, name)):
        earlier = earlier_versions(name) if "name" in request.GET else []
        made = samples_by_prompt(name)
        rows += [
            (digest, made.get(digest, 0)) for digest in (prompt_hash(name), *(one.hash for one in earlier))
        ]
    return render(request, "synthesis/_prompt_counts.html", {"rows": rows})


@require_GET
def prompt_tools(request: HttpRequest) -> HttpResponse:
    """Fragment: tools whose names begin with what is typed."""
    typed = request.GET.get("tool", "").replace("\0", "").strip()[:200]
    found = find_tools(ToolFilter(search=typed), size=SUGGESTED)
    return render(request, "synthesis/_codes.html", {"codes": [tool.name for tool in found.page.rows]})


@require_GET
def query_counts(request: HttpRequest) -> HttpResponse:
    """Fragment of the real queries' page: how many samples were shown each of ?queries=1,2."""
    pks = numbers_of(request.GET.get("queries", "").split(",")[:MOST_QUERIES])
    return render(request, "synthesis/_few_shot_counts.html", {"counts": few_shot_counts(pks)})


def _previewed(chosen: Chosen) -> dict[str, Any]:
    if not chosen.rule and not chosen.tool:
        return {"nothing": True}
    try:
        found = prompt_preview(chosen)
    except TraceError as error:
        return {"problem": error}
    return {"found": found, "schema": json.dumps(found.call.schema, indent=2)}


def _chosen(name: str, given: QueryDict) -> Chosen:
    """A form's fields; a rule goes before a tool where a prompt takes either."""
    rule, tool, style, tier = (
        given.get(field, "").replace("\0", "").strip()[:700] for field in ("rule", "tool", "style", "tier")
    )
    if name == "query_rule" or (rule and name != "query_rrb"):
        tool = ""
    else:
        rule = ""
    return Chosen(
        prompt=name,
        rule=rule,
        tool=tool,
        kind=(style or "explicit") if rule else (tier or "easy"),
        index=_number(given.get("number", ""), 1, 10_000) - 1,
        seed=_number(given.get("seed", ""), 0, 2**53),
        permissions="permissions" in given,
        critique=given.get("critique", "").replace("\0", "").strip()[:MOST_CRITIQUE],
    )


def _number(text: str, least: int, most: int) -> int:
    """The number typed, brought into range; the least one for what is none."""
    return min(max(number_of(text), least), most)
