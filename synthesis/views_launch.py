"""Starting a run: the form, and what it would do as it stands."""

from typing import Any
from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from rules.models import Rule
from synthesis import services
from synthesis.endpoints import endpoints
from synthesis.estimates import Estimate, estimate
from synthesis.forms_launch import SynthesisForm
from trace_site.lib.errors import TraceError

MOST_SKIPPED = 20  # shown beside the form
PREFILLED = ("branch", "writer", "domain", "rule", "per_rule", "anchors")


@require_http_methods(["GET", "POST"])
def run_create(request: HttpRequest) -> HttpResponse:
    """What was typed is never lost: a refusal shows the form as it was sent, with the reason beside the field."""
    sent = request.method == "POST"
    given = {name: request.GET[name] for name in PREFILLED if name in request.GET}
    form = SynthesisForm(request.POST) if sent else SynthesisForm(initial=given)
    if sent and form.is_valid():
        try:
            run = services.synthesis_start(**form.options(), actor=request.user)
        except TraceError as error:
            form.refuse(error)
        else:
            return redirect("synthesis:detail", run.pk)
    context = {"form": form, "roles_of_models": configured()}
    return render(request, "synthesis/run_form.html", context, status=422 if form.errors else 200)


def configured() -> dict[str, Any]:
    """{"roles": {role: {"model", "host"}}} of the language models, or the refusal that says why there are none."""
    try:
        found = endpoints()
    except TraceError as error:
        return {"refusal": str(error)}
    if not all(one.base_url for one in found.values()):
        return {}
    return {
        "roles": {
            role: {"model": one.model, "host": urlsplit(one.base_url).netloc} for role, one in found.items()
        }
    }


@require_GET
def run_estimate(request: HttpRequest) -> HttpResponse:
    """What the form as it stands would write, call and cost; starts nothing."""
    form = SynthesisForm(request.GET)
    form.is_valid()
    context: dict[str, Any] = {"branch": form.data.get("branch", "rule")}
    try:
        context |= shown_estimate(estimate(**form.options()))
    except TraceError as error:
        context["refusal"] = error
    return render(request, "synthesis/_estimate.html", context)


def shown_estimate(found: Estimate) -> dict[str, Any]:
    """The figures with what each rests on, and the first of the skipped styles."""
    skipped = [row for row in found.plan.get("rows", ()) if row.get("skipped")]
    figures = [
        ("Model calls", found.calls, ""),
        ("Tokens", found.tokens, ""),
        ("Cost", found.money, "money"),
        ("Time", found.seconds, "time"),
    ]
    return {"estimate": found, "figures": figures, "skipped": skipped[:MOST_SKIPPED]}


@require_GET
def run_rules(request: HttpRequest) -> HttpResponse:
    """Fragment: the published rules that one may write for, suggested while somebody types."""
    typed = request.GET.get("rule", "").rpartition("/")[2][:100]
    rules = Rule.objects.filter(published__isnull=False, code__icontains=typed)
    if domain := request.GET.get("domain", ""):
        rules = rules.filter(domain=domain)
    names = [f"{rule.domain_id}/{rule.code}" for rule in rules.order_by("code", "domain_id")[:50]]
    return render(request, "synthesis/_codes.html", {"codes": names})
