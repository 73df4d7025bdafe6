"""Who may read and write what: the one table, for pages and API alike. What stands in no area is refused to all.

Four roles, held as Django groups; superusers hold all four. What a single object decides besides (whose comment, whose
job, which state) is decided where the object is.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

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
ANYBODY, ACCOUNT = "anybody", "account"  # signed in or not; signed in, with or without a role
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

WRITERS = (EXPERT, ADMIN)
READERS = (EXPERT, REVIEWER, ADMIN)
REVIEWERS = (REVIEWER, ADMIN)
ADMINS = (ADMIN,)


@dataclass(frozen=True, slots=True)
class Area:
    """`routes`: names of addresses, as {% url %} takes them; one that ends with a colon stands for its whole namespace.

    `reads` may use safe methods on them, `sends` the others. Which methods an address has, it says itself.
    """

    reads: tuple[str, ...]
    sends: tuple[str, ...]
    routes: str


AREAS = {
    "public": Area((ANYBODY,), (ANYBODY,), "login logout healthz password-set api-schema api-docs"),
    "own": Area(
        (ACCOUNT,),
        (ACCOUNT,),
        "account account-token account-token-revoke account-password account-session-end account-sessions-end",
    ),
    "site": Area(
        ROLES,
        ROLES,
        """jobs:list jobs:detail jobs:card jobs:cancel jobs:retry
        notices:list notices:unread notices:read notices:mail notices:open""",
    ),
    "catalog": Area(
        ROLES,
        WRITERS,
        """catalog:list catalog:apis catalog:detail catalog:named catalog:refresh
        catalog:imports catalog:import_detail catalog:import_undo
        api-tools api-tool api-tool-named api-tool-neighbours api-tool-twins api-tool-revisions api-domains
        api-clusters api-cluster api-imports api-import api-import-undo""",
    ),
    "import": Area(
        WRITERS, WRITERS, "catalog:import catalog:apply catalog:queries_import catalog:queries_apply"
    ),
    "blocking": Area(ADMINS, ADMINS, "catalog:block api-tool-block"),
    "coverage": Area(
        ROLES,
        WRITERS,
        """home coverage-csv rule-coverage clusters clusters-map clusters-map-data clusters-map-tools
        clusters-map-search cluster cluster-panel cluster-dismiss cluster-restore""",
    ),
    # what is sent here is checked and answered; nothing is kept
    "rules": Area(
        ROLES,
        ROLES,
        """rules:list rules:detail rules:version rules:compare_chosen rules:compare rules:impact rules:of_tool
        rules:tool-search rules:export rules:export_csv
        rules:sentence_fix rules:check rules:confusables rules:affected
        api-rules api-rules-check api-rule api-rule-versions api-rule-version api-rule-diff api-rules-export""",
    ),
    "rule editor": Area(
        WRITERS,
        WRITERS,
        """rules:create rules:update rules:fields rules:propose rules:withdraw rules:change rules:change_save
        rules:import rules:import_request api-rules-import""",
    ),
    "drafts": Area(
        READERS,
        WRITERS,
        """rules:requests rules:request_count rules:request rules:request_impact rules:request_action
        api-change-requests api-change-request api-change-request-impact api-change-request-submit
        api-change-request-approve api-change-request-reject api-change-request-schedule
        api-change-request-unschedule api-change-request-cancel api-change-request-reopen
        api-change-request-apply api-change-request-bypass api-change-request-comments
        api-change-request-changes api-change api-change-rebase""",
    ),
    "synthesis": Area(
        READERS,
        WRITERS,
        """synthesis:list synthesis:detail synthesis:live synthesis:books synthesis:groups synthesis:cancel
        synthesis:resume synthesis:again synthesis:regenerate synthesis:yield synthesis:yield_csv
        api-synthesis-runs api-synthesis-run api-synthesis-run-cancel api-synthesis-run-resume
        api-synthesis-run-books api-synthesis-run-calls api-yield""",
    ),
    "synthesis start": Area(
        WRITERS,
        WRITERS,
        """synthesis:create synthesis:estimate synthesis:launch_rules synthesis:editor_preview
        api-synthesis-estimate""",
    ),
    # what is sent here is a comment, or a search kept for oneself
    "samples": Area(
        READERS,
        READERS,
        """synthesis:samples synthesis:sample_rules synthesis:sample synthesis:lineage synthesis:stale
        synthesis:rule_samples synthesis:rule_rejections synthesis:rule_counts synthesis:rule_impact
        synthesis:tool_samples synthesis:comments synthesis:sample_comments
        synthesis:saved_views synthesis:saved_view_change synthesis:saved_view_delete
        synthesis:guidelines synthesis:guideline synthesis:guideline_pane synthesis:batches synthesis:batch
        training:policy_samples api-samples api-sample api-lineage api-rejections api-sample-comments""",
    ),
    "review": Area(
        REVIEWERS,
        REVIEWERS,
        """synthesis:review synthesis:review_count synthesis:review_next synthesis:review_heartbeat
        synthesis:review_release synthesis:review_item synthesis:undo synthesis:approve synthesis:reject
        synthesis:edit synthesis:check synthesis:skip
        synthesis:review_bulk synthesis:bulk_take synthesis:bulk_approve synthesis:bulk_keep
        synthesis:bulk_release synthesis:bulk_open
        synthesis:batch_create synthesis:batch_preview synthesis:batch_withdraw
        synthesis:quality synthesis:quality_judge synthesis:quality_reviewers synthesis:quality_csv
        synthesis:calibration_draw synthesis:team synthesis:assign synthesis:assignable synthesis:take_back
        api-review-claims api-review-claim api-review-heartbeat api-review-decisions api-review-undo
        api-review-quality api-assignments api-assignment""",
    ),
    "review rules": Area(
        ADMINS,
        ADMINS,
        """synthesis:reassign synthesis:team_release synthesis:second_shares synthesis:calibration_withdraw
        synthesis:guideline_edit synthesis:guideline_example""",
    ),
    "snapshots": Area(
        READERS,
        WRITERS,
        """synthesis:snapshots synthesis:snapshot synthesis:snapshot_diff synthesis:snapshot_members
        synthesis:snapshot_card synthesis:snapshot_rebuild
        api-snapshots api-snapshot api-snapshot-diff api-snapshot-card""",
    ),
    "snapshot start": Area(WRITERS, WRITERS, "synthesis:snapshot_create synthesis:snapshot_preview"),
    "exports": Area(
        ADMINS,
        ADMINS,
        """synthesis:snapshot_download synthesis:snapshot_file synthesis:snapshot_zip training:log
        api-snapshot-file""",
    ),
    "prompts": Area(
        ADMINS,
        ADMINS,
        """synthesis:prompts synthesis:prompt synthesis:prompt_counts synthesis:prompt_tools
        synthesis:prompt_preview synthesis:few_shot_counts api-prompts api-prompt api-prompt-preview""",
    ),
    "requests": Area(ADMINS, ADMINS, "catalog:queries catalog:query_remove api-query"),
    "requests import": Area(ADMINS, WRITERS, "api-queries"),
    "training": Area(
        ROLES,
        ADMINS,
        """training:list training:detail training:live training:curves training:yaml training:compare
        training:queue training:queue_live training:of_snapshot training:cancel training:resume
        training:grids training:grid training:grid_live training:grid_cancel training:grid_resume
        training:models training:model training:newer training:promote training:rollback training:challenger
        training:keep training:policies training:policy_preview training:policy_switch training:policy_start
        api-training-bases api-training-estimate api-training-runs api-training-run api-training-run-metrics
        api-training-run-cancel api-training-run-resume api-training-models api-training-model
        api-training-promote api-training-rollback api-training-aliases""",
    ),
    "training start": Area(
        ADMINS,
        ADMINS,
        """training:create training:estimate training:recipe training:recipe_download training:grid_create
        training:grid_preview training:imports training:import_adopt training:retention training:policy_create
        training:policy_edit""",
    ),
    "evaluation": Area(
        ROLES,
        WRITERS,
        """evaluation:list evaluation:detail evaluation:compare evaluation:benchmark evaluation:model_scores
        evaluation:reliability evaluation:reliability_of_champion evaluation:beside evaluation:beside_of_run
        evaluation:tool_benchmark evaluation:rule_help evaluation:before_after evaluation:rule_test_counts
        evaluation:of_rule_tests evaluation:run_rule_tests evaluation:start_rule_tests""",
    ),
    "retrieval": Area(ROLES, ROLES, "evaluation:playground evaluation:answer api-retrieve"),
    "audit": Area(ADMINS, ADMINS, "audit audit-csv audit-event audit-change api-audit"),
    "webhooks": Area(
        ADMINS,
        ADMINS,
        """webhooks:list webhooks:detail webhooks:test webhooks:pause webhooks:resume webhooks:rotate
        webhooks:delete webhooks:delivery webhooks:again
        api-webhooks api-webhook api-webhook-test api-webhook-secret api-webhook-deliveries
        api-webhook-send""",
    ),
    "people": Area(
        ADMINS,
        ADMINS,
        """people:list people:person people:reset people:deactivate people:activate people:token
        people:token_rotate people:token_revoke""",
    ),
    "admin": Area(ADMINS, ADMINS, "admin:"),  # Django's own pages ask besides whether one is staff
}
AREA_OF = {route: name for name, area in AREAS.items() for route in area.routes.split()}


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


def area_of(route: str) -> str:
    """The area that the name of an address belongs to; empty: none, so nobody may."""
    return AREA_OF.get(route) or AREA_OF.get(route.partition(":")[0] + ":", "")


def allowed(route: str, method: str = "GET") -> tuple[str, ...]:
    """Roles (or `anybody`, `account`) that may use the method on the address of this name."""
    area = AREAS.get(area_of(route))
    return () if area is None else area.reads if method in SAFE else area.sends


def may(user: Any, route: str, method: str = "GET") -> bool:
    return not _standing(user).isdisjoint(allowed(route, method))


def needed(route: str, method: str = "GET") -> str:
    """Who may, in words: "domain expert or admin"."""
    return (
        " or ".join(ROLE_LABELS[role] for role in allowed(route, method) if role in ROLE_LABELS) or "nobody"
    )


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
        "opens": SimpleLazyObject(lambda: opens(user)),
    }


def opens(user: Any) -> frozenset[str]:
    """Names of the addresses that this user may read."""
    return _open_to(_standing(user)) if user is not None else frozenset()


def _standing(user: Any) -> frozenset[str]:
    return roles_of(user) | ({ANYBODY, ACCOUNT} if user.is_authenticated else {ANYBODY})


@lru_cache(maxsize=64)  # sixteen sets of roles, and two without
def _open_to(standing: frozenset[str]) -> frozenset[str]:
    return frozenset(route for route in AREA_OF if not standing.isdisjoint(allowed(route)))
