"""People for admins: who may sign in, with which roles; programs, which may not, and their tokens.

Then one's own account: password, sessions, API token, how notices come; and the link that sets a password.
"""

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.contrib.auth.views import PasswordChangeView, PasswordResetConfirmView
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path, reverse_lazy
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from trace_site.access import PROGRAM, ROLE_LABELS, ROLES, is_program
from trace_site.audit import models as audit_models
from trace_site.lib.errors import TraceError
from trace_site.notices.services import KINDS, NoticeChoice, channels
from trace_site.paging import keyset, number_of
from trace_site.people import services
from trace_site.people.sessions import forget_failures, session_end, sessions_end, sessions_of
from trace_site.rest import tokens
from trace_site.rest.throttles import client_of, refuse_beyond, seconds_to_wait
from trace_site.rest.tokens import ApiToken


@require_http_methods(["GET", "POST"])
def people_list(request: HttpRequest) -> HttpResponse:
    problem = None
    if request.method == "POST":
        try:
            person = services.person_invite(
                username=request.POST.get("username", ""),
                email=request.POST.get("email", ""),
                roles=request.POST.getlist("roles"),
                program=request.POST.get("kind") == "program",
                actor=request.user,
            )
            if is_program(person):
                messages.success(request, f"{person.username} is a program's account. Make its token here.")
                return redirect("people:person", person.pk)
            return _person_page(request, person, **_handed_over(request, person))
        except TraceError as error:
            problem = error
    chosen = request.POST.getlist("roles")
    page = keyset(User.objects.prefetch_related("groups"), request.GET.get("after", ""), by="username")
    context = {
        "page": page,
        "people": [(person, ", ".join(ROLE_LABELS[role] for role in _roles(person))) for person in page.rows],
        "programs": {
            person.pk for person in page.rows if any(g.name == PROGRAM for g in person.groups.all())
        },
        "given": request.POST,
        "roles_to_choose": [(role, label, role in chosen) for role, label in ROLE_LABELS.items()],
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
    change(person=get_object_or_404(User, pk=pk), actor=request.user)
    return redirect("people:person", pk)


@require_POST
def token_make(request: HttpRequest, pk: int) -> HttpResponse:
    """A service token of a program's account or of one's own; it is shown on this one answer only."""
    person = get_object_or_404(User, pk=pk)
    try:
        _require_password(request)
        token, secret = tokens.service_token_make(
            owner=person,
            name=request.POST.get("name", ""),
            scopes=request.POST.getlist("scopes"),
            days=number_of(request.POST.get("days", ""), digits=4),
            actor=request.user,
            **_held(request),
        )
    except TraceError as error:
        return _person_page(request, person, token_problem=error)
    return _person_page(request, person, token=token, secret=secret)


@require_POST
def token_rotate(request: HttpRequest, pk: int, token: int) -> HttpResponse:
    """The new text is shown on this one answer only."""
    row = _service_token(pk, token)
    try:
        _require_password(request)
        replaced, secret = tokens.service_token_rotate(token=row, actor=request.user)
    except TraceError as error:
        return _person_page(request, row.owner, problem_of=row.pk, permit_problem=error)
    return _person_page(request, replaced.owner, token=replaced, secret=secret)


@require_POST
def token_permit(request: HttpRequest, pk: int, token: int) -> HttpResponse:
    """Which permission targets the token holds from now on."""
    row = _service_token(pk, token)
    try:
        tokens.service_token_permit(token=row, actor=request.user, **_held(request))
    except TraceError as error:
        return _person_page(request, row.owner, problem_of=row.pk, permit_problem=error)
    messages.success(request, f"Saved. The token {row.name} holds them from its next request on.")
    return redirect("people:person", pk)


@require_POST
def token_revoke(request: HttpRequest, token: int, pk: int | None = None) -> HttpResponse:
    """Of a person, or one's own: that may always be ended by oneself, whoever made it."""
    row = _service_token((request.user.pk or 0) if pk is None else pk, token)
    tokens.service_token_revoke(token=row, actor=request.user)
    messages.success(request, f"The token {row.name} is revoked; programs that send it are refused.")
    return redirect("account") if pk is None else redirect("people:person", pk)


def _require_password(request: HttpRequest) -> None:
    """A browser that was left open makes no tokens. Raises TraceError `bad_input`, `rate_limited`."""
    refuse_beyond("token-password", request.user.pk, most=30, seconds=900)
    if not request.user.check_password(request.POST.get("password", "")):
        hint = "Type the password that you sign in with."
        raise TraceError("that is not your password.", code="bad_input", where="password", hint=hint)


def _held(request: HttpRequest) -> dict[str, Any]:
    """Which permission targets a form gives a token. Raises TraceError `bad_input` where nobody chose."""
    if (chosen := request.POST.get("holds")) not in ("all", "these"):
        raise TraceError("choose which permission targets it holds.", code="bad_input", where="holds")
    return {"holds_all": chosen == "all", "permissions": request.POST.get("permissions", "").splitlines()}


def _service_token(pk: int, token: int) -> ApiToken:
    return get_object_or_404(ApiToken, pk=token, owner=pk, kind=ApiToken.Kind.SERVICE)


def _handed_over(request: HttpRequest, person: User) -> dict[str, str]:
    link = services.link_of(person)
    address = f"{settings.SITE_URL}{link}" if settings.SITE_URL else request.build_absolute_uri(link)
    return {"link": address, "mailed": services.mail_link(person, address)}


def _person_page(request: HttpRequest, person: User, **more: Any) -> HttpResponse:
    problem = more.get("problem") or more.get("token_problem") or more.get("permit_problem")
    chosen = request.POST.getlist("roles") if more.get("problem") else _roles(person)
    wanted = request.POST.getlist("scopes") if "token_problem" in more else []
    service = ApiToken.objects.filter(kind=ApiToken.Kind.SERVICE).select_related("created_by")
    context = {
        "person": person,
        "roles_to_choose": [(role, label, role in chosen) for role, label in ROLE_LABELS.items()],
        "email": request.POST.get("email", "") if more.get("problem") else person.email,
        "tokens": tokens.service_tokens_of(person),
        "made": service.filter(created_by=person).exclude(owner=person).select_related("owner"),
        "is_program": is_program(person),
        "scopes": [(scope, words, scope in wanted) for scope, words in tokens.SCOPES.items()],
        "given": request.POST if "token_problem" in more else {"days": 90},
        "most_days": tokens.MOST_DAYS,
        "link_days": settings.PASSWORD_RESET_TIMEOUT // 86_400,
        "is_oneself": person.pk == request.user.pk,
        "may_make": person.pk == request.user.pk or is_program(person),
        **more,
    }
    status = _status(problem) if problem else 200
    return render(request, "people/person_detail.html", context, status=status)


def _status(problem: TraceError) -> int:
    return {"not_allowed": 403, "rate_limited": 429}.get(problem.code, 422)


def _roles(person: User) -> list[str]:
    held = {group.name for group in person.groups.all()}
    return [role for role in ROLES if role in held]


@require_GET
def account(request: HttpRequest) -> HttpResponse:
    return render(request, "account.html", _account_context(request))


@require_POST
def account_token(request: HttpRequest) -> HttpResponse:
    """Make or replace the caller's API token; it is shown on this one answer only."""
    refuse_beyond("token", request.user.pk, most=10, seconds=3600)
    try:
        _require_password(request)
        _, secret = tokens.personal_token_make(user=request.user, **_held(request))
    except TraceError as error:
        context = {"problem": error, **_account_context(request)}
        return render(request, "account.html", context, status=_status(error))
    return render(request, "account.html", {"shown": secret, **_account_context(request)})


@require_POST
def account_token_revoke(request: HttpRequest) -> HttpResponse:
    if tokens.personal_token_revoke(user=request.user):
        messages.success(request, "The token is revoked; programs that send it are refused from now on.")
    return redirect("account")


@require_POST
def account_session_end(request: HttpRequest, mark: str) -> HttpResponse:
    if session_end(user=request.user, mark=mark, keep=request.session.session_key):
        messages.success(request, "That browser is signed out.")
    return redirect("account")


@require_POST
def account_sessions_end(request: HttpRequest) -> HttpResponse:
    ended = sessions_end(user=request.user, keep=request.session.session_key)
    messages.success(request, f"{ended} other session{'' if ended == 1 else 's'} ended.")
    return redirect("account")


@method_decorator(require_http_methods(["GET", "POST"]), name="dispatch")
class ChangePassword(PasswordChangeView):
    """Django's own; other sessions and the personal token end, and the old password is not to be guessed here."""

    template_name = "registration/password_change.html"
    success_url = reverse_lazy("account")

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        refuse_beyond("password", request.user.pk, most=10, seconds=900)
        return super().post(request, *args, **kwargs)

    @transaction.atomic
    def form_valid(self, form: Any) -> HttpResponse:
        if not _is_unchanged(form.user):
            raise TraceError("your account was changed meanwhile.", code="conflict", hint="Sign in again.")
        response = super().form_valid(form)
        sessions_end(user=self.request.user, keep=self.request.session.session_key)
        tokens.personal_token_revoke(user=self.request.user)
        audit_models.record(actor=self.request.user, action="password.changed", obj=form.user)
        messages.success(
            self.request, "Your password is changed. Other sessions and your personal token have ended."
        )
        return response


@method_decorator(require_http_methods(["GET", "POST"]), name="dispatch")
class SetPassword(PasswordResetConfirmView):
    """Where an admin's link leads: Django's own, for people who are active; it signs nobody in."""

    template_name = "registration/password_set.html"
    token_generator = services.LINKS
    success_url = reverse_lazy("login")

    def dispatch(self, *args: Any, **kwargs: Any) -> HttpResponseBase:
        waiting = seconds_to_wait("password-link", client_of(self.request), most=60, seconds=900)
        if waiting:
            context = {"waiting_minutes": -(-waiting // 60)}
            refusal = render(self.request, self.template_name, context, status=429)
            refusal["Retry-After"] = str(waiting)
            return refusal
        return super().dispatch(*args, **kwargs)

    def get_user(self, uidb64: str) -> User | None:
        user: User | None = super().get_user(uidb64)
        return user if user is not None and user.is_active else None

    @transaction.atomic
    def form_valid(self, form: Any) -> HttpResponse:
        if not _is_unchanged(form.user):
            self.validlink = False
            return self.render_to_response(self.get_context_data())
        response = super().form_valid(form)
        sessions_end(user=form.user)
        forget_failures(form.user)
        audit_models.record(actor=form.user, action="password.set", obj=form.user)
        messages.success(self.request, "Your password is set. Sign in with it.")
        return response


def _is_unchanged(user: Any) -> bool:
    """Whether an admin left the account alone while the form was checked. From here on its row is held, and what is
    saved of it is what it holds now."""
    checked = user.password
    user.refresh_from_db(from_queryset=User.objects.select_for_update(no_key=True))
    return bool(user.is_active and user.password == checked)


def _account_context(request: HttpRequest) -> dict[str, Any]:
    chosen = dict(NoticeChoice.objects.filter(user=request.user.pk).values_list("channel", "kinds"))
    return {
        "sessions": sessions_of(request.user, request.session.session_key),
        "token": tokens.token_of(request.user),
        "token_days": settings.TOKEN_DAYS,
        "service_tokens": tokens.service_tokens_of(request.user),
        "notice_kinds": KINDS,
        "channels": [(name, called, chosen.get(name, [])) for name, called in channels().items()],
    }


app_name = "people"
urlpatterns = [
    path("", people_list, name="list"),
    path("<int:pk>/", person_detail, name="person"),
    path("<int:pk>/reset/", person_reset, name="reset"),
    path("<int:pk>/deactivate/", person_switch, {"change": services.person_deactivate}, name="deactivate"),
    path("<int:pk>/activate/", person_switch, {"change": services.person_activate}, name="activate"),
    path("<int:pk>/tokens/", token_make, name="token"),
    path("<int:pk>/tokens/<int:token>/rotate/", token_rotate, name="token_rotate"),
    path("<int:pk>/tokens/<int:token>/permissions/", token_permit, name="token_permit"),
    path("<int:pk>/tokens/<int:token>/revoke/", token_revoke, name="token_revoke"),
]
