"""Guidelines for reviewers: the list, one version with what changed, the editor, and the pane of the review screen."""

import re
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from synthesis import guidelines, selectors_guidelines
from synthesis.forms import domain_choices
from synthesis.models import Guideline, Sample
from trace_site.lib.errors import TraceError, status_of

EXAMPLE_FIELD = re.compile(r"example-(\d{1,4})-verdict")


@require_GET
def guideline_list(request: HttpRequest) -> HttpResponse:
    context = {"guidelines": selectors_guidelines.current(), **_choices()}
    return render(request, "synthesis/guidelines.html", context)


@require_GET
def guideline_detail(request: HttpRequest, pk: int) -> HttpResponse:
    """One version, and what it changed."""
    row = get_object_or_404(Guideline.objects.select_related("domain", "author"), pk=pk)
    versions = list(selectors_guidelines.versions_of(row.domain_id, row.style))
    before = next((other for other in versions if other.number < row.number), None)
    context = {
        "guideline": row,
        "versions": versions,
        "before": before,
        "is_current": versions[0].pk == row.pk,
    }
    return render(request, "synthesis/guideline.html", context)


@require_GET
def guideline_pane(request: HttpRequest) -> HttpResponse:
    """Fragment: what holds for a ?domain= and ?style=, the most specific first."""
    found = selectors_guidelines.applying_to(request.GET.get("domain", ""), request.GET.get("style", ""))
    return render(request, "synthesis/_guideline_pane.html", {"guidelines": found})


@require_http_methods(["GET", "POST"])
def guideline_edit(request: HttpRequest) -> HttpResponse:
    """The editor of ?domain= and ?style=; every save is a new version."""
    domain, style = request.GET.get("domain", ""), request.GET.get("style", "")
    last = selectors_guidelines.newest_of(domain, style)
    if request.method == "GET":
        typed: dict[str, Any] = {
            "text": last.text if last else "",
            "examples": last.examples if last else [],
            "base": last.number if last else 0,
        }
        return _form(request, domain, style, typed)
    base = request.POST.get("base", "")
    typed = {
        "text": request.POST.get("text", ""),
        "examples": _examples(request),
        "base": int(base) if base.isdecimal() and len(base) < 9 else 0,
    }
    try:
        row = guidelines.guideline_save(domain=domain, style=style, author=request.user, **typed)
    except TraceError as error:
        if "current" in error.extra:  # the next save is made knowing what the other one said
            typed["base"] = error.extra["current"]
        return _form(request, domain, style, typed, error, last)
    messages.success(request, f"Saved as version {row.number}.")
    return redirect("synthesis:guideline", row.pk)


def _form(
    request: HttpRequest,
    domain: str,
    style: str,
    typed: dict[str, Any],
    error: TraceError | None = None,
    other: Guideline | None = None,
) -> HttpResponse:
    context = {
        "domain": dict(domain_choices()).get(domain, domain) if domain else "",
        "style": style,
        **typed,
        "error": error,
        "other": other if error and error.code == "edited_meanwhile" else None,
    }
    status = status_of(error.code) if error else 200
    return render(request, "synthesis/guideline_form.html", context, status=status)


def _examples(request: HttpRequest) -> list[dict[str, Any]]:
    """The rows of the form in their order; a row of which nothing was filled in is none."""
    numbers = sorted(int(found[1]) for name in request.POST if (found := EXAMPLE_FIELD.fullmatch(name)))
    rows = []
    for number in numbers:
        row: dict[str, Any] = {
            name: request.POST.get(f"example-{number}-{name}", "")
            for name in ("verdict", "query", "trace", "why", "sample")
        }
        row["answer"] = request.POST.get(f"example-{number}-answer", "").split(";")
        row["sample"] = int(row["sample"]) if row["sample"].isdecimal() and len(row["sample"]) < 19 else None
        if any(row[name].strip() for name in ("query", "trace", "why")):
            rows.append(row)
    return rows


@require_POST
def guideline_example(request: HttpRequest, pk: int) -> HttpResponse:
    """Copy a decided sample into the guideline of its domain and style."""
    sample = get_object_or_404(Sample, pk=pk)
    row = guidelines.example_copy(sample=sample, actor=request.user)
    messages.success(request, f"Sample {pk} is an example in version {row.number} of this guideline.")
    return redirect("synthesis:guideline", row.pk)


def _choices() -> dict[str, Any]:
    return {"domains": domain_choices(), "styles": Sample.Style.choices}
