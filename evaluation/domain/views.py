"""The page of a domain, which is the start page; its rules beside each other; and the same on one sheet of paper."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_GET

from catalog.models import Domain
from evaluation.coverage.counted import figures_by_domain
from evaluation.coverage.gaps import production_misses
from evaluation.coverage.pages import gap_lines, state_parts
from evaluation.coverage.views import acting, figures_of
from evaluation.domain import rules, selectors
from evaluation.domain.selectors import DomainPage
from training.registry.selectors import standing

SHOWN_MISSES = 5
SHOWN_RULES = 5


@require_GET
def home(request: HttpRequest) -> HttpResponse:
    """One domain; without `?domain=` the one where the most wrong answers are expected."""
    domains = list(Domain.objects.all())
    counted = figures_by_domain(domains)
    wanted = request.GET.get("domain", "")
    if wanted and wanted not in {domain.slug for domain in domains}:
        raise Http404
    figures = selectors.shown_domain(counted, wanted)
    shown = next((domain for domain in domains if domain.slug == wanted), figures.domain if figures else None)
    context: dict[str, Any] = {
        "tabs": [(domain, counted.get(domain.slug)) for domain in domains],
        "domain": shown or (domains[0] if domains else None),
        "standing": standing(),
    }
    if figures is not None:
        page = selectors.domain_page(figures)
        context |= domain_context(page, request)
        context |= {"trend": selectors.domain_trend(figures), "map": selectors.small_map(figures)}
    return render(request, "coverage/home.html", context)


def domain_context(page: DomainPage, request: HttpRequest) -> dict[str, Any]:
    """What the page and the report share."""
    misses, missed = production_misses(page.domain, request.user, SHOWN_MISSES)
    figures = page.figures
    return {
        "page": page,
        "figures": figures,
        "headline": selectors.headline(page),
        "warnings": selectors.warnings(page),
        "gaps": gap_lines(page.domain, selectors.this_week(page, request.user), page.side),
        "parts": state_parts(page.domain, figures.states),
        "recall": selectors.recall_figure(page),
        "causes": selectors.causes(page),
        "misses": misses,
        "missed": missed,
        "not_measured": figures.gaps - figures.gaps_measured,
        "here": request.get_full_path(),
        **acting(request.user),
    }


@require_GET
def rule_table(request: HttpRequest, domain: str) -> HttpResponse:
    """All published rules; as a fragment of the domain's page the weakest few."""
    page = selectors.domain_page(figures_of(domain))
    rows = rules.rule_rows(page)
    show, band = request.GET.get("show", ""), rules.band_of(request.GET.get("samples", ""))
    context = {
        "page": page,
        "figures": page.figures,
        "density": rules.density_figure(rows, reverse("coverage-rules", args=[domain])),
        "next": rules.next_training(page, rows),
        "weak": sum(bool(row.weak) for row in rows),
        "every": len(rows),
        "fewest": rules.FEWEST,
    }
    if request.headers.get("HX-Request"):
        weak = [row for row in rows if row.weak]
        return render(request, "coverage/_rules.html", {**context, "rows": weak[:SHOWN_RULES]})
    shown = [row for row in rows if row.shown_by(show, band)]
    whole = {
        "rows": shown,
        "show": show,
        "band": request.GET.get("samples", "") if band else "",
        "shows": rules.SHOWS,
    }
    return render(request, "coverage/rules.html", {**context, **whole})


@require_GET
def report(request: HttpRequest, domain: str) -> HttpResponse:
    """The domain on one sheet of A4, to print."""
    page = selectors.domain_page(figures_of(domain))
    rows = rules.rule_rows(page)
    context = {
        **domain_context(page, request),
        "rows": [row for row in rows if row.weak][:SHOWN_RULES],
        "weak": sum(bool(row.weak) for row in rows),
        "every": len(rows),
        "next": rules.next_training(page, rows),
        "trend": selectors.domain_trend(page.figures, size=5),
    }
    return render(request, "coverage/report.html", context)


# Their names have no namespace, as those of clusters.
urlpatterns = [
    path("", home, name="home"),
    path("coverage/<slug:domain>/rules/", rule_table, name="coverage-rules"),
    path("coverage/<slug:domain>/report/", report, name="coverage-report"),
]
