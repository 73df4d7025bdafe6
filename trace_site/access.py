"""Who may do what: four roles, held as Django groups. Superusers may do everything."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

EXPERT, REVIEWER, ADMIN, PRODUCT_MANAGER = ROLES = ("expert", "reviewer", "admin", "product_manager")
ROLE_LABELS = {
    EXPERT: "domain expert",
    REVIEWER: "reviewer",
    ADMIN: "admin",
    PRODUCT_MANAGER: "product manager",
}

View = Callable[..., HttpResponse]


def roles_of(user: Any) -> frozenset[str]:
    """The user's roles; one query a request, kept on the user object."""
    if not user.is_authenticated:
        return frozenset()
    if user.is_superuser:
        return frozenset(ROLES)
    if not hasattr(user, "_trace_roles"):
        user._trace_roles = frozenset(user.groups.values_list("name", flat=True)) & frozenset(ROLES)
    roles: frozenset[str] = user._trace_roles
    return roles


def role_required(*roles: str) -> Callable[[View], View]:
    """Refuse everybody else with a page that says which role is needed and who one is now."""

    def decorate(view: View) -> View:
        @wraps(view)
        def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if roles_of(request.user) & frozenset(roles):
                return view(request, *args, **kwargs)
            needed = " or ".join(ROLE_LABELS[role] for role in roles)
            return render(request, "forbidden.html", {"needed": needed}, status=403)

        return checked

    return decorate


def role_context(request: HttpRequest) -> dict[str, Any]:
    """Template context: the user's roles, for showing only what one may do."""
    user = getattr(request, "user", None)
    roles = roles_of(user) if user is not None else frozenset()
    return {"roles": roles, "role_names": [ROLE_LABELS[role] for role in ROLES if role in roles]}
