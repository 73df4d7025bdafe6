"""Who signs in and who fails to: wrong passwords are counted, and each sign-in stands in the audit.

django-axes counts for each pair of name and address, so that nobody locks an admin out from elsewhere; here the names
tried from one address are counted together as well. Both counts lie in the database. What is refused for having been
tried too often is not tried, not counted and not recorded: an anonymous flood leaves AXES_FAILURE_LIMIT lines a pair
and SIGN_IN_FAILURES lines an address in each AXES_COOLOFF_TIME.
"""

from collections.abc import Mapping
from typing import Any

from axes.attempts import get_cool_off_threshold
from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from trace_site.audit.models import AuditEntry
from trace_site.people.sessions import note_sign_in
from trace_site.rest.throttles import address_of

NOBODY = "a name that nobody has"  # what was typed there may be a password


class SignIns(AxesDatabaseHandler):  # type: ignore[misc]
    """AXES_HANDLER."""

    def is_locked(self, request: Any, credentials: Any = None) -> bool:
        if super().is_locked(request, credentials):
            return True
        recent = AccessAttempt.objects.filter(
            ip_address=request.axes_ip_address, attempt_time__gte=get_cool_off_threshold(request)
        )
        failed = recent.aggregate(failed=Sum("failures_since_start"))["failed"]
        return (failed or 0) >= settings.SIGN_IN_FAILURES

    def user_login_failed(self, sender: Any, credentials: Any, request: Any = None, **kwargs: Any) -> None:
        super().user_login_failed(sender, credentials, request, **kwargs)
        if request is None or request.axes_failures_since_start is None:
            return
        user = User.objects.filter(username=name_tried(request, credentials)).first()
        _record("login.failed", request, user, actor=None)
        if request.axes_locked_out:
            _record("login.locked", request, user, actor=None)

    def user_logged_in(self, sender: Any, request: Any, user: Any, **kwargs: Any) -> None:
        super().user_logged_in(sender, request, user, **kwargs)
        note_sign_in(request, address_of(request))
        _record("login.ok", request, user, actor=user)

    def user_logged_out(self, sender: Any, request: Any, user: Any, **kwargs: Any) -> None:
        super().user_logged_out(sender, request, user, **kwargs)
        if user is not None:
            _record("logout", request, user, actor=user)


def name_tried(request: HttpRequest, credentials: Mapping[str, Any] | None) -> str:
    """AXES_USERNAME_CALLABLE: no name is longer than what a user can have."""
    given = (credentials or {}).get("username") or request.POST.get("username") or ""
    return str(given)[:150]


def locked_out(request: HttpRequest, response: Any, credentials: Any) -> HttpResponse:
    """AXES_LOCKOUT_CALLABLE: the sign-in page with the reason."""
    seconds = int(settings.AXES_COOLOFF_TIME.total_seconds())
    context = {"locked_minutes": seconds // 60, "next": request.POST.get("next", "")}
    refusal = render(request, "registration/login.html", context, status=429)
    refusal["Retry-After"] = str(seconds)
    return refusal


def forget_failures(user: User) -> None:
    """Somebody whom an admin gave a link need not wait."""
    AccessAttempt.objects.filter(username=user.get_username()).delete()


def forget_old() -> int:
    """Delete the attempts that count no more, for what was typed there may be a password; returns how many."""
    over = timezone.now() - settings.AXES_COOLOFF_TIME
    return int(AccessAttempt.objects.filter(attempt_time__lt=over).delete()[0])


def _record(action: str, request: HttpRequest, user: User | None, *, actor: User | None) -> None:
    AuditEntry.objects.create(
        actor=actor,
        action=action,
        object_type="user",
        object_id=str(user.pk) if user else "",
        object_label=user.get_username() if user else NOBODY,
        detail={"address": address_of(request), "agent": request.META.get("HTTP_USER_AGENT", "")[:200]},
    )
