"""Who may read and write what, for pages and API alike. What stands in no area is refused to all.

Four roles, held as Django groups; superusers hold all four. What a single object decides besides (whose comment, whose
job, which state) is decided where the object is.
"""

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any, NamedTuple

from django.apps import apps
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.functional import SimpleLazyObject
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

EXPERT, REVIEWER, ADMIN, PRODUCT_MANAGER = ROLES = ("expert", "reviewer", "admin", "product_manager")
ROLE_LABELS = {
    EXPERT: "domain expert",
    REVIEWER: "reviewer",
    ADMIN: "admin",
    PRODUCT_MANAGER: "product manager",
}
PROGRAM = "program"  # the group of accounts that programs have; it opens nothing
ANYBODY, ACCOUNT = "anybody", "account"  # signed in or not; signed in, with or without a role
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

WRITERS = (EXPERT, ADMIN)
READERS = (EXPERT, REVIEWER, ADMIN)
REVIEWERS = (REVIEWER, ADMIN)
ADMINS = (ADMIN,)


class Area(NamedTuple):
    """Some pages of an app and who may open them; each AppConfig lists its own in `areas`.

    `reads` may use safe methods on them, `sends` the others; which methods an address has, it says itself. `routes`:
    names of addresses, as {% url %} takes them.
    """

    reads: tuple[str, ...]
    sends: tuple[str, ...]
    routes: str


@cache
def areas() -> dict[str, Area]:
    """{name of an address: its area}, of all apps."""
    found = [area for app in apps.get_app_configs() for area in getattr(app, "areas", ())]
    return {route: area for area in found for route in area.routes.split()}


def roles_of(user: Any) -> frozenset[str]:
    """The user's roles; one query a request, kept on the user object."""
    if not user.is_authenticated:
        return frozenset()
    if user.is_superuser:
        return frozenset(ROLES)
    if not hasattr(user, "_trace_roles"):
        remember_roles(user, user.groups.values_list("name", flat=True))
    roles: frozenset[str] = user._trace_roles
    return roles


def remember_roles(user: Any, names: Iterable[str]) -> None:
    """For `roles_of`: the groups of a user that were read along with something else."""
    user._trace_roles = frozenset(names) & frozenset(ROLES)


def is_program(user: Any) -> bool:
    """Whether this is the account of a program: nobody signs in to it."""
    found: bool = user.groups.filter(name=PROGRAM).exists()
    return found


def allowed(route: str, method: str = "GET") -> tuple[str, ...]:
    """Roles (or `anybody`, `account`) that may use the method on the address of this name."""
    area = areas().get(route)
    return () if area is None else area.reads if method in SAFE else area.sends


def may(user: Any, route: str, method: str = "GET") -> bool:
    return is_open(route, standing_of(user), method)


@lru_cache(maxsize=4096)
def is_open(route: str, standing: frozenset[str], method: str = "GET") -> bool:
    """Whether those who stand so (`standing_of`) may."""
    return not standing.isdisjoint(allowed(route, method))


def needed(route: str, method: str = "GET") -> str:
    """Who may, in words: "domain expert or admin"."""
    roles = [ROLE_LABELS[role] for role in allowed(route, method) if role in ROLE_LABELS]
    return " or ".join(roles) or "nobody"


def refusal(request: HttpRequest, who: str) -> HttpResponse:
    """The page that says which role is needed (`who`) and what one is now; plain JSON for a script of ours."""
    if wants_json(request):
        told = {"message": f"Only the role {who} may do this.", "code": "not_allowed", "extra": {}}
        return JsonResponse(told, status=403)
    return render(request, "forbidden.html", {"needed": who}, status=403)


def wants_json(request: HttpRequest) -> bool:
    """Whether a script of ours asks, rather than a browser for a page."""
    accepted = request.headers.get("Accept", "")
    return "application/json" in accepted and "text/html" not in accepted


class ApiPermission(BasePermission):
    """The same question for the API, once it knows whose token it is; REST framework's default."""

    def has_permission(self, request: Request, view: Any) -> bool:
        match, method = request._request.resolver_match, str(request.method)
        route = match.view_name if match else ""
        self.message = f"only the role {needed(route, method)} may do this."
        return may(request.user, route, method)


def role_context(request: HttpRequest) -> dict[str, Any]:
    """Template context: the user's roles, and `opens`: the names of the pages they may read, for links to leave out."""
    user = getattr(request, "user", None)
    roles = roles_of(user) if user is not None else frozenset()
    return {
        "roles": roles,
        "role_names": [ROLE_LABELS[role] for role in ROLES if role in roles],
        "opens": SimpleLazyObject(lambda: _open_to(standing_of(user)) if user is not None else frozenset()),
    }


def standing_of(user: Any) -> frozenset[str]:
    """The user's roles, and whether they are signed in."""
    return roles_of(user) | ({ANYBODY, ACCOUNT} if user.is_authenticated else {ANYBODY})


@lru_cache(maxsize=64)  # sixteen sets of roles, and two without
def _open_to(standing: frozenset[str]) -> frozenset[str]:
    return frozenset(route for route in areas() if not standing.isdisjoint(allowed(route)))
