"""The pages that belong to no stage: login, jobs, health."""

import sys
from ipaddress import ip_address
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.views import LoginView, LogoutView
from django.core.exceptions import TooManyFieldsSent
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.request import split_domain_port
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from django.views.defaults import bad_request as bad_request_page
from django.views.defaults import page_not_found, server_error

from trace_site import jobs
from trace_site.access import ADMIN, SAFE, refusal, roles_of
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError, status_of
from trace_site.outages import AWAY, RETRY_AFTER, outage
from trace_site.paging import keyset
from trace_site.people.services import demo_logins, let_go
from trace_site.rest.throttles import address_of

FORWARDING = ("X-Forwarded-For", "Forwarded", "X-Forwarded-Host", "X-Real-IP")


@method_decorator(require_http_methods(["GET", "POST"]), name="dispatch")
class Login(LoginView):
    """Django's own, with the demo logins where `make demo` serves it to the same machine and through no proxy."""

    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        host, here = split_domain_port(self.request.get_host())[0], address_of(self.request)
        local = host in {"localhost", "127.0.0.1", "[::1]"} and here and ip_address(here).is_loopback
        passed_on = any(name in self.request.headers for name in FORWARDING)
        shown = settings.DEMO and not settings.HTTPS and local and not passed_on
        logins = demo_logins() if shown else []
        return {**super().get_context_data(**kwargs), "demo_logins": logins}


class Logout(LogoutView):
    """Django's own; an address typed by hand gets a page with the button rather than an empty answer."""

    http_method_names = ["get", "post", "options"]

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not request.user.is_authenticated:
            return redirect("login")
        return render(request, "registration/sign_out.html")

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.user.is_authenticated:
            let_go(request.user)
        return super().post(request, *args, **kwargs)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler404: the API speaks JSON, pages look like the site."""
    if not request.path.startswith("/api/"):
        return page_not_found(request, exception)
    return JsonResponse(TraceError("There is no such address.", code="not_found").as_dict(), status=404)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler400: what Django refuses before a view sees it, such as more parameters than it counts."""
    if not request.path.startswith("/api/"):
        return bad_request_page(request, exception)
    error = TraceError(str(exception), code="bad_request")
    if isinstance(exception, TooManyFieldsSent):
        most = f"there are more than {settings.DATA_UPLOAD_MAX_NUMBER_FIELDS:,} parameters."
        error = TraceError(most, code="too_many", hint="Send fewer at once.")
    return JsonResponse(error.as_dict(), status=400)


def crashed(request: HttpRequest) -> HttpResponse:
    """handler500: what is not our error is logged by Django; nothing of it is shown. What the platform failed in may
    work in a moment, wherever in the request it was."""
    away, is_for_programs = outage(sys.exception()), request.path.startswith("/api/")
    if away is None and not is_for_programs:
        return server_error(request)
    error = away or TraceError("The server failed; the failure is logged.", code="crash")
    later = {"Retry-After": str(error.extra.get("retry_after", RETRY_AFTER))} if away else {}
    if is_for_programs:
        return JsonResponse(error.as_dict(), status=status_of(error.code), headers=later)
    page = render_to_string("503.html", {"error": away, "sent": request.method not in SAFE})
    return HttpResponse(page, status=503, headers=later)


@require_GET
def healthz(request: HttpRequest) -> JsonResponse:
    """For load balancers and health checks: 200 when the database answers."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except AWAY:
        told = {"ok": False, "database": "unreachable"}
        return JsonResponse(told, status=503, headers={"Retry-After": str(RETRY_AFTER)})
    return JsonResponse({"ok": True})


@require_GET
def job_list(request: HttpRequest) -> HttpResponse:
    chosen = {name: request.GET[name] for name in ("kind", "state") if request.GET.get(name)}
    rows = Job.objects.select_related("created_by").filter(**chosen)
    page = keyset(rows, request.GET.get("after", ""), newest=True)
    context = {
        "page": page,
        "active": [job for job in page.rows if job.is_active],
        "kinds": list(Job.objects.order_by("kind").values_list("kind", flat=True).distinct()),
        "states": Job.State.values,
    }
    return render(request, "jobs/job_list.html", context)


@require_GET
def job_detail(request: HttpRequest, pk: int) -> HttpResponse:
    job = get_object_or_404(Job.objects.select_related("created_by"), pk=pk)
    return render(request, "jobs/job_detail.html", {"job": job})


@require_GET
def job_card(request: HttpRequest, pk: int) -> HttpResponse:
    """The polled fragment; 286 tells htmx to stop asking once the job has ended."""
    job = get_object_or_404(Job, pk=pk)
    return render(request, "jobs/_card.html", {"job": job}, status=200 if job.is_active else 286)


@require_POST
def job_steer(request: HttpRequest, pk: int, verb: str) -> HttpResponse:
    job = get_object_or_404(Job, pk=pk)
    if ADMIN not in roles_of(request.user) and job.created_by_id != request.user.pk:
        return refusal(request, "admin, or the person who started it,")
    if verb == "cancel":
        if not jobs.cancel(job, actor=request.user):
            raise TraceError(f"{job.title} has already ended.", code="job_ended")
        said = "cancelling. What was finished is kept; Resume goes on from there."
    else:
        if not jobs.retry(job, actor=request.user):
            raise TraceError(
                f"{job.title} is {job.state}.", code="job_state", hint="Only ended jobs are resumed."
            )
        said = "queued again; it goes on where it stopped."
    messages.success(request, f"{job.title}: {said}")
    return redirect("jobs:detail", pk)


def refresh_at_end(response: HttpResponse, job: Job | None) -> HttpResponse:
    """Only a page whose job was active polls, so an ended job means that its buttons and links changed as well."""
    if job is None or not job.is_active:
        response["HX-Refresh"] = "true"
    return response
