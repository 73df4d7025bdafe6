"""Who may open and send what, for every page of the site: one table, and a new route that breaks its rule fails.

A route that is in no row is read by everybody who is signed in and takes no POST. The API has its own table.
"""

import re
from collections.abc import Iterator

import pytest
from django.test import Client
from django.urls import URLResolver, get_resolver

from trace_site.access import ROLES

pytestmark = pytest.mark.django_db

RESTRICTED = {
    "expert admin": """
        cluster-dismiss cluster-restore catalog:import catalog:apply catalog:refresh rules:create rules:update
        rules:propose rules:withdraw rules:change rules:change_save rules:import rules:import_request
        synthesis:create synthesis:estimate synthesis:editor_preview synthesis:cancel synthesis:resume
        synthesis:snapshot_create
        synthesis:snapshot_preview synthesis:snapshot_rebuild synthesis:regenerate catalog:queries_import
        catalog:queries_apply catalog:query_remove evaluation:run_rule_tests evaluation:start_rule_tests""",
    "reviewer admin": """
        synthesis:team synthesis:assign synthesis:assignable synthesis:take_back
        synthesis:review synthesis:undo synthesis:review_item synthesis:approve synthesis:reject synthesis:edit
        synthesis:check synthesis:skip synthesis:review_next synthesis:review_heartbeat synthesis:review_release
        synthesis:batch_create synthesis:batch_preview synthesis:batch_withdraw synthesis:review_bulk
        synthesis:bulk_take synthesis:bulk_approve synthesis:bulk_keep synthesis:bulk_release synthesis:bulk_open
        synthesis:quality synthesis:quality_judge synthesis:quality_reviewers synthesis:quality_csv
        synthesis:calibration_draw""",
    "admin": """
        synthesis:reassign synthesis:team_release synthesis:guideline_edit synthesis:guideline_example
        synthesis:second_shares synthesis:calibration_withdraw
        webhooks:list webhooks:detail webhooks:test webhooks:pause webhooks:resume webhooks:rotate webhooks:delete
        webhooks:delivery webhooks:again training:create training:recipe training:cancel training:resume
        training:estimate training:recipe_download
        training:grid_create training:grid_preview training:grid_cancel training:grid_resume
        training:imports training:import_adopt
        training:promote training:rollback
        training:challenger training:keep training:retention training:policy_create training:policy_edit
        training:policy_switch training:policy_start catalog:block
        people:list people:person people:reset people:deactivate people:activate people:token people:token_rotate
        people:token_revoke""",
}
# one's own token and session, what only computes, and what the object decides; each has tests of its own
ANYBODY_SENDS = [
    *(
        "account-token",
        "account-token-revoke",
        "account-password",
        "account-session-end",
        "account-sessions-end",
    ),
    *("logout", "notices:read", "notices:mail"),
    *("rules:fields", "rules:sentence_fix", "rules:check", "rules:confusables", "rules:affected"),
    *("synthesis:sample_comments", "synthesis:saved_views", "synthesis:saved_view_change"),
    *(
        "synthesis:saved_view_delete",
        "jobs:cancel",
        "jobs:retry",
        "catalog:import_undo",
        "rules:request_action",
    ),
]
PUBLIC = ["login", "logout", "healthz", "password-set"]
FILLED = {"int": "999999", "path": "a/b"}


def routes(patterns: list, names: str = "", before: str = "") -> Iterator[tuple[str, str]]:
    for pattern in patterns:
        if not isinstance(pattern, URLResolver):
            yield f"{names}{pattern.name}", f"/{before}{pattern.pattern}"
        elif not str(pattern.pattern).startswith(("admin/", "api/")):
            inside = f"{pattern.namespace}:" if pattern.namespace else ""
            yield from routes(pattern.url_patterns, names + inside, before + str(pattern.pattern))


ROUTES = {
    name: re.sub(r"<(?:(\w+):)?\w+>", lambda found: FILLED.get(found[1] or "", "x"), path)
    for name, path in routes(get_resolver().url_patterns)
}
ALLOWED = {name: roles.split() for roles, names in RESTRICTED.items() for name in names.split()}


@pytest.fixture
def people(user_with) -> dict[str, Client]:
    found = {}
    for role in ("", *ROLES):
        found[role] = Client(raise_request_exception=False)
        found[role].force_login(user_with(*[role] if role else []))
    return found


def test_every_page_is_open_to_whom_the_table_says(people):
    wrong = []
    for name, path in ROUTES.items():
        allowed = ALLOWED.get(name, ["", *ROLES])
        sends = name in ALLOWED or name in ANYBODY_SENDS
        for role, client in people.items() if name not in PUBLIC else ():
            for method in ("get", "post"):
                status = getattr(client, method)(path).status_code
                is_open = status == 405 or (status != 403) == (role in allowed)
                if status >= 500 or not is_open or (method == "post" and not sends and status != 405):
                    wrong.append(f"{method} {name} as {role or 'nobody'}: {status}; is its row in the table?")
    assert wrong == []


def test_a_stranger_reads_nothing_and_sends_nothing():
    stranger = Client()
    for name, path in ROUTES.items():
        if name not in PUBLIC:
            assert stranger.get(path)["Location"].startswith("/login/?next=/"), name
            assert stranger.post(path).status_code == 401, name


def test_the_table_names_only_routes_that_exist():
    assert {*ALLOWED, *ANYBODY_SENDS, *PUBLIC} <= set(ROUTES)
