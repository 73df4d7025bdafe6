"""One's own account: password, sessions, API token, how notices come; and the link that sets a password."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.contrib.auth.views import PasswordChangeView, PasswordResetConfirmView
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse_lazy
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from trace_site.audit import models as audit_models
from trace_site.lib.errors import TraceError
from trace_site.notices.services import KINDS, MailChoice
from trace_site.people.sessions import mark_of, session_end, sessions_end, sessions_of
from trace_site.people.signins import forget_failures
from trace_site.rest.throttles import client_of, refuse_beyond, seconds_to_wait
from trace_site.rest.tokens import ApiToken, personal_token_make, personal_token_revoke, token_of


@require_GET
def account(request: HttpRequest) -> HttpResponse:
    return render(request, "account.html", _context(request))


@require_POST
def account_token(request: HttpRequest) -> HttpResponse:
    """Make or replace the caller's API token; it is shown on this one answer only."""
    refuse_beyond("token", request.user.pk, most=10, seconds=3600)
    _, secret = personal_token_make(user=request.user)
    return render(request, "account.html", {"shown": secret, **_context(request)})


@require_POST
def account_token_revoke(request: HttpRequest) -> HttpResponse:
    """End the caller's API token without making another."""
    if personal_token_revoke(user=request.user):
        messages.success(request, "The token is revoked; programs that send it are refused from now on.")
    return redirect("account")


@require_POST
def account_session_end(request: HttpRequest, mark: str) -> HttpResponse:
    """End one of the caller's other sessions."""
    own = mark_of(request.session.session_key or "")
    if mark != own and session_end(user=request.user, mark=mark):
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
        personal_token_revoke(user=self.request.user)
        audit_models.record(actor=self.request.user, action="password.changed", obj=form.user)
        messages.success(
            self.request, "Your password is changed. Other sessions and your API token have ended."
        )
        return response


@method_decorator(require_http_methods(["GET", "POST"]), name="dispatch")
class SetPassword(PasswordResetConfirmView):
    """Where an admin's link leads: Django's own, for people who are active; it signs nobody in."""

    template_name = "registration/password_set.html"
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


def _context(request: HttpRequest) -> dict[str, Any]:
    choice = MailChoice.objects.filter(user=request.user.pk).first()
    return {
        "sessions": sessions_of(request.user, request.session.session_key),
        "token": token_of(request.user),
        "token_days": settings.TOKEN_DAYS,
        "service_tokens": ApiToken.objects.filter(owner=request.user.pk, kind=ApiToken.Kind.SERVICE),
        "mail_host": settings.EMAIL_HOST,
        "mail_kinds": KINDS,
        "mail_chosen": choice.kinds if choice else [],
    }
