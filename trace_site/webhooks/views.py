"""Webhooks for admins: who is told of what, what was sent, what came back."""

from typing import Any

from django.contrib import messages
from django.db.models import OuterRef, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from trace_site.audit import models as audit_models
from trace_site.deliveries import Delivery, deliver_now
from trace_site.lib.errors import TraceError
from trace_site.paging import keyset
from trace_site.webhooks import services
from trace_site.webhooks.services import EVENTS, Webhook, body_of, headers_of, ping

SHOWN = "webhook_secret_to_show"  # in the session: which webhook's secret the next page shows, not the secret


def _form(request: HttpRequest, hook: Webhook | None, problem: TraceError | None) -> dict[str, Any]:
    """What the fields hold: what was typed when it was refused, else what is stored."""
    chosen = request.POST.getlist("events") if problem else (hook.events if hook else [])
    url = request.POST.get("url", "") if problem else (hook.url if hook else "")
    return {"url": url, "events": [(name, text, name in chosen) for name, text in EVENTS.items()]}


@require_http_methods(["GET", "POST"])
def webhook_list(request: HttpRequest) -> HttpResponse:
    problem = None
    if request.method == "POST":
        try:
            hook = services.webhook_create(
                url=request.POST.get("url", "").strip(),
                events=request.POST.getlist("events"),
                actor=request.user,
            )
            request.session[SHOWN] = hook.pk
            return redirect("webhooks:detail", hook.pk)
        except TraceError as error:
            problem = error
    last = Delivery.objects.filter(webhook=OuterRef("pk")).order_by("-id")
    hooks = Webhook.objects.select_related("created_by").annotate(
        last_state=Subquery(last.values("state")[:1]), last_at=Subquery(last.values("created_at")[:1])
    )
    context = {"hooks": hooks, "form": _form(request, None, problem), "problem": problem}
    return render(request, "webhooks/webhook_list.html", context, status=422 if problem else 200)


@require_http_methods(["GET", "POST"])
def webhook_detail(request: HttpRequest, pk: int) -> HttpResponse:
    hook = get_object_or_404(Webhook.objects.select_related("created_by"), pk=pk)
    problem = None
    if request.method == "POST":
        try:
            url, events = request.POST.get("url", "").strip(), request.POST.getlist("events")
            services.webhook_update(webhook=hook, actor=request.user, url=url, events=events)
            messages.success(request, "Saved. What happens from now on is sent as it says here.")
            return redirect("webhooks:detail", pk)
        except TraceError as error:
            problem = error
    shown = request.session.pop(SHOWN, None) == pk
    context = {
        "hook": hook,
        "secret": hook.secret if shown else "",
        "page": keyset(hook.deliveries.all(), request.GET.get("after", ""), newest=True),
        "form": _form(request, hook, problem),
        "problem": problem,
    }
    return render(request, "webhooks/webhook_detail.html", context, status=422 if problem else 200)


@require_POST
def webhook_action(request: HttpRequest, pk: int, verb: str) -> HttpResponse:
    hook = get_object_or_404(Webhook, pk=pk)
    if verb == "test":
        return _told(request, ping(webhook=hook, actor=request.user))
    if verb == "delete":
        services.webhook_delete(webhook=hook, actor=request.user)
        messages.success(request, f"Removed {hook.url} with its log.")
        return redirect("webhooks:list")
    if verb == "rotate":
        services.webhook_rotate(webhook=hook, actor=request.user)
        request.session[SHOWN] = hook.pk
    else:
        services.webhook_pause(webhook=hook, actor=request.user, active=verb == "resume")
    return redirect("webhooks:detail", pk)


@require_GET
def delivery_detail(request: HttpRequest, pk: int) -> HttpResponse:
    delivery = get_object_or_404(Delivery.objects.select_related("webhook"), pk=pk)
    body = body_of(delivery)
    headers = headers_of(delivery, body, 0) | {"X-Trace-Signature": "t=<unix time>,v1=<hex>"}
    context = {"delivery": delivery, "hook": delivery.webhook, "body": body.decode(), "headers": headers}
    return render(request, "webhooks/delivery_detail.html", context)


@require_POST
def delivery_again(request: HttpRequest, pk: int) -> HttpResponse:
    """Send it once more now, with the same id and body."""
    delivery = get_object_or_404(Delivery, pk=pk)
    audit_models.record(actor=request.user, action="webhook.sent_again", obj=delivery)
    return _told(request, deliver_now(delivery))


def _told(request: HttpRequest, delivery: Delivery) -> HttpResponse:
    last = delivery.log[-1] if delivery.log else {"error": "Nothing was sent."}
    if last["error"]:
        messages.error(request, last["error"])
    else:
        messages.success(request, f"Received: it answered {delivery.status} in {last['seconds']} s.")
    return redirect("webhooks:delivery", delivery.pk)


app_name = "webhooks"
urlpatterns = [
    path("", webhook_list, name="list"),
    path("<int:pk>/", webhook_detail, name="detail"),
    *[
        path(f"<int:pk>/{verb}/", webhook_action, {"verb": verb}, name=verb)
        for verb in ("test", "pause", "resume", "rotate", "delete")
    ],
    path("deliveries/<int:pk>/", delivery_detail, name="delivery"),
    path("deliveries/<int:pk>/again/", delivery_again, name="again"),
]
