"""One's own account: the API token, and how notices come."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from trace_site.notices import KINDS, MailChoice
from trace_site.tokens import ApiToken, personal_token_make, personal_token_revoke, token_of


@require_GET
def account(request: HttpRequest) -> HttpResponse:
    return render(request, "account.html", _context(request))


@require_POST
def account_token(request: HttpRequest) -> HttpResponse:
    """Make or replace the caller's API token; it is shown on this one answer only."""
    _, secret = personal_token_make(user=request.user)
    return render(request, "account.html", {"shown": secret, **_context(request)})


@require_POST
def account_token_revoke(request: HttpRequest) -> HttpResponse:
    """End the caller's API token without making another."""
    if personal_token_revoke(user=request.user):
        messages.success(request, "The token is revoked; programs that send it are refused from now on.")
    return redirect("account")


def _context(request: HttpRequest) -> dict[str, Any]:
    choice = MailChoice.objects.filter(user=request.user.pk).first()
    return {
        "token": token_of(request.user),
        "token_days": settings.TOKEN_DAYS,
        "service_tokens": ApiToken.objects.filter(owner=request.user.pk, kind=ApiToken.Kind.SERVICE),
        "mail_host": settings.EMAIL_HOST,
        "mail_kinds": KINDS,
        "mail_chosen": choice.kinds if choice else [],
    }
