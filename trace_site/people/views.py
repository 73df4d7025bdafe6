"""People for admins: who may sign in, with which roles, and the tokens of programs that act as somebody."""

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.views.decorators.http import require_http_methods, require_POST

from trace_site.access import ROLE_LABELS, ROLES
from trace_site.lib.errors import TraceError, status_of
from trace_site.paging import keyset, number_of
from trace_site.people import services
from trace_site.rest.tokens import (
    MOST_DAYS,
    SCOPES,
    ApiToken,
    service_token_make,
    service_token_revoke,
    service_token_rotate,
)


@require_http_methods(["GET", "POST"])
def people_list(request: HttpRequest) -> HttpResponse:
    problem = None
    if request.method == "POST":
        try:
            person = services.person_invite(
                username=request.POST.get("username", ""),
                email=request.POST.get("email", ""),
                roles=request.POST.getlist("roles"),
                actor=request.user,
            )
            return _person_page(request, person, **_handed_over(request, person))
        except TraceError as error:
            problem = error
    page = keyset(User.objects.prefetch_related("groups"), request.GET.get("after", ""), by="username")
    context = {
        "page": page,
        "people": [(person, ", ".join(ROLE_LABELS[role] for role in _roles(person))) for person in page.rows],
        "given": request.POST,
        "roles_to_choose": _choices(request.POST.getlist("roles")),
        "problem": problem,
    }
    return render(request, "people/people_list.html", context, status=422 if problem else 200)


@require_http_methods(["GET", "POST"])
def person_detail(request: HttpRequest, pk: int) -> HttpResponse:
    person = get_object_or_404(User, pk=pk)
    if request.method == "POST":
        roles, email = request.POST.getlist("roles"), request.POST.get("email", "")
        try:
            services.person_change(person=person, email=email, roles=roles, actor=request.user)
        except TraceError as error:
            return _person_page(request, person, problem=error)
        messages.success(request, "Saved. The roles hold from the next page on.")
        return redirect("people:person", pk)
    return _person_page(request, person)


@require_POST
def person_reset(request: HttpRequest, pk: int) -> HttpResponse:
    """The new link is shown on this one answer only."""
    person = services.person_reset(person=get_object_or_404(User, pk=pk), actor=request.user)
    return _person_page(request, person, **_handed_over(request, person))


@require_POST
def person_switch(request: HttpRequest, pk: int, change: Callable[..., None]) -> HttpResponse:
    """Deactivate or activate."""
    change(person=get_object_or_404(User, pk=pk), actor=request.user)
    return redirect("people:person", pk)


@require_POST
def token_make(request: HttpRequest, pk: int) -> HttpResponse:
    """A service token of this person; it is shown on this one answer only."""
    person = get_object_or_404(User, pk=pk)
    try:
        token, secret = service_token_make(
            owner=person,
            name=request.POST.get("name", ""),
            scopes=request.POST.getlist("scopes"),
            days=number_of(request.POST.get("days", ""), digits=4),
            actor=request.user,
        )
    except TraceError as error:
        return _person_page(request, person, token_problem=error)
    return _person_page(request, person, token=token, secret=secret)


@require_POST
def token_rotate(request: HttpRequest, pk: int, token: int) -> HttpResponse:
    """The new text is shown on this one answer only."""
    replaced, secret = service_token_rotate(token=_service_token(pk, token), actor=request.user)
    return _person_page(request, replaced.owner, token=replaced, secret=secret)


@require_POST
def token_revoke(request: HttpRequest, pk: int, token: int) -> HttpResponse:
    row = _service_token(pk, token)
    service_token_revoke(token=row, actor=request.user)
    messages.success(request, f"The token {row.name} is revoked; programs that send it are refused.")
    return redirect("people:person", pk)


def _service_token(pk: int, token: int) -> ApiToken:
    return get_object_or_404(ApiToken, pk=token, owner=pk, kind=ApiToken.Kind.SERVICE)


def _handed_over(request: HttpRequest, person: User) -> dict[str, str]:
    link = services.link_of(person)
    address = f"{settings.SITE_URL}{link}" if settings.SITE_URL else request.build_absolute_uri(link)
    return {"link": address, "mailed": services.mail_link(person, address)}


def _choices(chosen: list[str]) -> list[tuple[str, str, bool]]:
    return [(role, label, role in chosen) for role, label in ROLE_LABELS.items()]


def _person_page(request: HttpRequest, person: User, **more: Any) -> HttpResponse:
    problem = more.get("problem") or more.get("token_problem")
    chosen = request.POST.getlist("roles") if more.get("problem") else _roles(person)
    wanted = request.POST.getlist("scopes") if more.get("token_problem") else []
    context = {
        "person": person,
        "roles_to_choose": _choices(chosen),
        "email": request.POST.get("email", "") if more.get("problem") else person.email,
        "tokens": ApiToken.objects.filter(owner=person, kind=ApiToken.Kind.SERVICE),
        "scopes": [(scope, words, scope in wanted) for scope, words in SCOPES.items()],
        "token_name": request.POST.get("name", "") if more.get("token_problem") else "",
        "token_days": request.POST.get("days", "") if more.get("token_problem") else 90,
        "most_days": MOST_DAYS,
        "link_days": settings.PASSWORD_RESET_TIMEOUT // 86_400,
        "is_oneself": person.pk == request.user.pk,
        **more,
    }
    status = 200
    if problem:
        status = status_of(problem.code) if problem.code == "not_allowed" else 422
    return render(request, "people/person_detail.html", context, status=status)


def _roles(person: User) -> list[str]:
    held = {group.name for group in person.groups.all()}
    return [role for role in ROLES if role in held]


app_name = "people"
urlpatterns = [
    path("", people_list, name="list"),
    path("<int:pk>/", person_detail, name="person"),
    path("<int:pk>/reset/", person_reset, name="reset"),
    path("<int:pk>/deactivate/", person_switch, {"change": services.person_deactivate}, name="deactivate"),
    path("<int:pk>/activate/", person_switch, {"change": services.person_activate}, name="activate"),
    path("<int:pk>/tokens/", token_make, name="token"),
    path("<int:pk>/tokens/<int:token>/rotate/", token_rotate, name="token_rotate"),
    path("<int:pk>/tokens/<int:token>/revoke/", token_revoke, name="token_revoke"),
]
