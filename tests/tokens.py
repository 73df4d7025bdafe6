"""A personal token as a program of that person would send it."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.utils import timezone

from trace_site.rest.tokens import ApiToken, digest_of


def token_of(user: Any, *, holds: Iterable[str] | None = None) -> str:
    """The text of the user's token, the same at every call; without a line in the audit. It holds all permissions
    unless `holds` names them."""
    secret = f"token-of-user-{user.pk}"
    ApiToken.objects.get_or_create(
        digest=digest_of(secret),
        defaults={
            "kind": ApiToken.Kind.PERSONAL,
            "owner": user,
            "holds_all": holds is None,
            "permissions": list(holds or ()),
            "password_mark": user.get_session_auth_hash(),
            "expires_at": timezone.now() + timedelta(days=1),
            "last_used_at": timezone.now(),  # so that a request writes nothing of its own
        },
    )
    return secret
