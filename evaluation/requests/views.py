"""Pages of the request log: what programs asked, what they say of the answers, how much is kept, and erasing."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_POST

from evaluation.core.asking import MODES
from evaluation.models import RetrievalRequest
from evaluation.requests import selectors, services
from evaluation.requests.log import policy
from evaluation.requests.selectors import Wanted
from trace_site.lib.errors import TraceError
from trace_site.paging import keyset, number_of


@require_GET
def request_list(request: HttpRequest) -> HttpResponse:
    return _page(request)


def _page(request: HttpRequest, **more: Any) -> HttpResponse:
    wanted, kept = Wanted.of(request.GET), policy()
    context = {
        "wanted": wanted,
        "any": any(getattr(wanted, name) for name in Wanted.__slots__),
        "page": keyset(wanted.rows, request.GET.get("after", ""), newest=True),
        "figures": selectors.figures(),
        "days": selectors.DAYS,
        "policy": kept,
        "share": f"{100 * kept.share:g}",
        "verdicts": selectors.VERDICTS,
        "outcomes": selectors.OUTCOMES,
        "modes": MODES,
        **more,
    }
    refused = more.get("policy_problem") or more.get("erase_problem")
    return render(request, "evaluation/requests.html", context, status=422 if refused else 200)


@require_GET
def request_detail(request: HttpRequest, pk: int) -> HttpResponse:
    rows = RetrievalRequest.objects.select_related("owner", "model__run")
    return render(request, "evaluation/request_detail.html", {"row": get_object_or_404(rows, pk=pk)})


@require_POST
def policy_change(request: HttpRequest) -> HttpResponse:
    given = request.POST
    try:
        services.policy_change(
            share=_share(given.get("share", "")),
            keeps_texts=given.get("keeps_texts") == "on",
            days=number_of(given.get("days", ""), digits=5),
            actor=request.user,
        )
    except TraceError as error:
        return _page(request, policy_problem=error, given=given)
    messages.success(request, "Saved. It holds from the next request on.")
    return redirect("evaluation:requests")


def _share(text: str) -> float:
    """Per cent, as a page asks for it. Raises TraceError `bad_input`."""
    try:
        return round(float(text.replace(",", ".")) / 100, 6)
    except ValueError as error:
        raise TraceError(f"{text[:40]!r} is no number.", code="bad_input", where="share") from error


@require_POST
def requests_erase(request: HttpRequest) -> HttpResponse:
    owner, caller = request.POST.get("owner", "").strip(), request.POST.get("caller", "").strip()
    try:
        gone = services.requests_erase(actor=request.user, owner=owner, caller=caller)
    except TraceError as error:
        return _page(request, erase_problem=error, given=request.POST)
    messages.success(request, f"{gone:,} request{'' if gone == 1 else 's'} erased.")
    return redirect("evaluation:requests")
