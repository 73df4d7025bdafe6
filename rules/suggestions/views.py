"""Pages of the suggested rules: the ranked list, one with its evidence, dismissing, looking again."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from catalog.models import Domain
from rules.core.suggestions import STRONG
from rules.models import RuleSuggestion
from rules.suggestions import selectors, services
from rules.suggestions.selectors import SuggestionFilter
from trace_site.lib.errors import TraceError


@require_GET
def suggestion_list(request: HttpRequest) -> HttpResponse:
    chosen = SuggestionFilter.read(request.GET)
    page, counts = selectors.suggestion_list(chosen, request.GET.get("after", ""))
    context = {
        "page": page,
        "rows": page.rows,
        "chosen": chosen,
        "counts": [
            (label, counts[kind], kind) for kind, label in RuleSuggestion.Kind.choices if kind in counts
        ],
        "total": sum(counts.values()),
        "job": selectors.last_run(),
    }
    if request.headers.get("HX-Request"):
        return render(request, "rules/_suggestions.html", context)
    whole = {"domains": Domain.objects.all(), "kinds": RuleSuggestion.Kind.choices}
    return render(request, "rules/suggestion_list.html", {**context, **whole})


@require_GET
def suggestion_page(request: HttpRequest, pk: int) -> HttpResponse:
    return _page(request, pk)


def _page(request: HttpRequest, pk: int, problem: TraceError | None = None, reason: str = "") -> HttpResponse:
    row = selectors.suggestion(pk)
    context = {
        "one": selectors.suggested([row])[0],
        "row": row,
        "names": [row.content["target"], *row.content["confusables"]],
        "quotes": selectors.quotes(row),
        "open": selectors.proposed().filter(pk=pk).exists(),
        "strong": STRONG,
        "problem": problem,
        "reason": reason,
    }
    return render(request, "rules/suggestion.html", context, status=422 if problem else 200)


@require_POST
def suggestion_dismiss(request: HttpRequest, pk: int) -> HttpResponse:
    row, reason = selectors.suggestion(pk), request.POST.get("reason", "")[:500]
    try:
        services.suggestion_dismiss(suggestion=row, reason=reason, actor=request.user)
    except TraceError as problem:
        return _page(request, pk, problem, reason)
    messages.success(request, "Dismissed. It comes back only when the text of one of its tools changes.")
    return redirect("rules:suggestions")


@require_POST
def suggestion_restore(request: HttpRequest, pk: int) -> HttpResponse:
    services.suggestion_restore(suggestion=selectors.suggestion(pk), actor=request.user)
    messages.success(request, "It is proposed again.")
    return redirect("rules:suggestion", pk)


@require_POST
def suggestions_start(request: HttpRequest) -> HttpResponse:
    """Look again, by the words of the catalog alone: what a language model costs is started from the command line."""
    services.suggestions_start(actor=request.user)
    return redirect("rules:suggestions")
