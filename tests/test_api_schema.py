"""What the API says of itself is whole and true, and who may do what is one table."""

import json
import logging
from functools import cache
from typing import Any

import pytest
from django.urls import URLPattern, URLResolver, get_resolver
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.validation import validate_schema
from jsonschema import Draft202012Validator
from rest_framework.test import APIClient

from tests.api_description import Operation, description, json_schema, operations
from tests.tokens import token_of

ALL = ("none", "expert", "reviewer", "admin", "product_manager")
WRITERS = ("expert", "admin")
ADMINS = ("admin",)
REVIEWERS = ("reviewer", "admin")
HOLDERS = ("expert", "reviewer", "admin", "product_manager")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def test_the_schema_is_valid_and_made_without_warnings() -> None:
    GENERATOR_STATS.reset()
    validate_schema(description())
    assert not GENERATOR_STATS


@pytest.mark.parametrize("operation", operations(), ids=str)
def test_every_operation_has_a_summary_a_tag_and_its_refusals(operation: Operation) -> None:
    said, answers = operation.said, operation.said["responses"]
    assert said["summary"].strip() and not said["summary"].endswith(".")
    assert set(said["tags"]) <= {tag["name"] for tag in description()["tags"]}
    assert {"400", "401", "403"} <= set(answers)
    assert "{" not in operation.path or "404" in answers
    if operation.method == "POST":
        assert {"409", "422"} <= set(answers)
    if any(parameter["name"] == "If-Match" for parameter in said.get("parameters", [])):
        assert {"412", "428"} <= set(answers)
    for status, _, content in operation.answers():
        assert status < "400" or content["schema"] == {"$ref": "#/components/schemas/Error"}


@pytest.mark.parametrize("operation", operations(), ids=str)
def test_every_operation_shows_examples_that_are_true_to_its_schema(operation: Operation) -> None:
    if body := operation.bodies().get("application/json"):
        assert operation.examples(body), "no example of the body"
    for status, media, content in operation.answers():
        if status < "300" and media == "application/json":
            assert operation.examples(content), f"no example of the answer {status}"
    contents = [*operation.bodies().values(), *(content for _, _, content in operation.answers())]
    for content in contents:
        validator = Draft202012Validator(json_schema(content["schema"]))
        for value in operation.examples(content):
            plain = json.loads(json.dumps(value))
            assert [f"{error.json_path}: {error.message}" for error in validator.iter_errors(plain)] == []


# (route, method): (who may, what an allowed person gets for ids that do not exist and an empty JSON object);
# whoever is not named gets 403, nobody signed in 401, and a method without a row 405
TABLE: dict[tuple[str, str], tuple[tuple[str, ...], int]] = {
    ("rules", "GET"): (ALL, 200),
    ("rules/check", "POST"): (ALL, 400),
    ("rules/export", "GET"): (ALL, 200),
    ("rules/import", "POST"): (WRITERS, 400),
    ("rules/{}", "GET"): (ALL, 404),
    ("rules/{}/versions", "GET"): (ALL, 404),
    ("rules/{}/versions/{}", "GET"): (ALL, 404),
    ("rules/{}/diff", "GET"): (ALL, 400),
    ("change-requests", "GET"): (ALL, 200),
    ("change-requests", "POST"): (WRITERS, 201),
    ("change-requests/{}", "GET"): (ALL, 404),
    ("change-requests/{}", "PATCH"): (WRITERS, 404),
    ("change-requests/{}/changes", "POST"): (WRITERS, 404),
    ("change-requests/{}/impact", "GET"): (ALL, 404),
    ("change-requests/{}/submit", "POST"): (WRITERS, 400),
    ("change-requests/{}/approve", "POST"): (WRITERS, 400),
    ("change-requests/{}/reject", "POST"): (WRITERS, 400),
    ("change-requests/{}/schedule", "POST"): (WRITERS, 400),
    ("change-requests/{}/unschedule", "POST"): (WRITERS, 404),
    ("change-requests/{}/cancel", "POST"): (WRITERS, 404),
    ("change-requests/{}/reopen", "POST"): (WRITERS, 404),
    ("change-requests/{}/apply", "POST"): (WRITERS, 404),
    ("change-requests/{}/bypass", "POST"): (WRITERS, 404),
    ("change-requests/{}/comments", "POST"): (WRITERS, 404),
    ("changes/{}", "GET"): (ALL, 404),
    ("changes/{}", "PUT"): (WRITERS, 404),
    ("changes/{}", "DELETE"): (WRITERS, 404),
    ("changes/{}/rebase", "POST"): (WRITERS, 404),
    ("retrieve", "POST"): (ALL, 400),
    ("tools", "GET"): (ALL, 200),
    ("tools/{}", "GET"): (ALL, 404),
    ("tools/named/{}", "GET"): (ALL, 404),
    ("tools/{}/block", "POST"): (ADMINS, 404),
    ("tools/{}/block", "DELETE"): (ADMINS, 404),
    ("tools/{}/neighbours", "GET"): (ALL, 404),
    ("tools/{}/twins", "GET"): (ALL, 404),
    ("tools/{}/revisions", "GET"): (ALL, 404),
    ("domains", "GET"): (ALL, 200),
    ("clusters", "GET"): (ALL, 200),
    ("clusters/{}", "GET"): (ALL, 404),
    ("imports", "GET"): (ALL, 200),
    ("imports", "POST"): (WRITERS, 400),
    ("imports/{}", "GET"): (ALL, 404),
    ("imports/{}/undo", "GET"): (ALL, 404),
    ("imports/{}/undo", "POST"): (WRITERS, 404),
    ("queries", "GET"): (ALL, 200),
    ("queries", "POST"): (WRITERS, 400),
    ("queries/{}", "GET"): (ALL, 404),
    ("queries/{}", "DELETE"): (WRITERS, 404),
    ("synthesis/prompts", "GET"): (ALL, 200),
    ("synthesis/prompts/{}", "GET"): (ALL, 404),
    ("synthesis/prompts/{}/preview", "GET"): (ALL, 404),
    ("synthesis/estimate", "POST"): (WRITERS, 400),
    ("synthesis/runs", "GET"): (ALL, 200),
    ("synthesis/runs", "POST"): (WRITERS, 400),
    ("synthesis/runs/{}", "GET"): (ALL, 404),
    ("synthesis/runs/{}/cancel", "POST"): (WRITERS, 404),
    ("synthesis/runs/{}/resume", "POST"): (WRITERS, 404),
    ("synthesis/runs/{}/books", "GET"): (ALL, 404),
    ("synthesis/runs/{}/calls", "GET"): (ALL, 404),
    ("synthesis/samples", "GET"): (ALL, 200),
    ("synthesis/samples/{}", "GET"): (ALL, 404),
    ("synthesis/samples/{}/lineage", "GET"): (ALL, 404),
    ("synthesis/rejections", "GET"): (ALL, 200),
    ("synthesis/yield", "GET"): (ALL, 200),
    ("review/claims", "POST"): (REVIEWERS, 200),
    ("review/claims/{}", "DELETE"): (REVIEWERS, 404),
    ("review/claims/{}/heartbeat", "POST"): (REVIEWERS, 404),
    ("review/decisions", "POST"): (REVIEWERS, 400),
    ("review/undo", "POST"): (REVIEWERS, 409),
    ("review/assignments", "GET"): (REVIEWERS, 200),
    ("review/assignments", "POST"): (REVIEWERS, 400),
    ("review/assignments/{}", "GET"): (REVIEWERS, 404),
    ("review/assignments/{}", "DELETE"): (REVIEWERS, 404),
    ("synthesis/samples/{}/comments", "GET"): (ALL, 404),
    ("synthesis/samples/{}/comments", "POST"): (HOLDERS, 404),
    ("snapshots", "GET"): (ALL, 200),
    ("snapshots/diff", "GET"): (ALL, 400),
    ("snapshots/{}", "GET"): (ALL, 404),
    ("snapshots/{}/card", "GET"): (ALL, 404),
    ("snapshots/{}/files/{}", "GET"): (ALL, 404),
    ("training/estimate", "POST"): (ALL, 400),
    ("training/bases", "GET"): (ALL, 200),
    ("training/runs", "GET"): (ALL, 200),
    ("training/runs", "POST"): (ADMINS, 400),
    ("training/runs/{}", "GET"): (ALL, 404),
    ("training/runs/{}/metrics", "GET"): (ALL, 404),
    ("training/runs/{}/cancel", "POST"): (ADMINS, 404),
    ("training/runs/{}/resume", "POST"): (ADMINS, 404),
    ("training/models", "GET"): (ALL, 200),
    ("training/models/{}", "GET"): (ALL, 404),
    ("training/models/{}/promote", "POST"): (ADMINS, 404),
    ("training/models/{}/rollback", "POST"): (ADMINS, 404),
    ("training/aliases", "GET"): (ALL, 200),
    ("review/quality", "GET"): (("reviewer", "admin"), 200),
    ("audit", "GET"): (HOLDERS, 200),
    ("webhooks", "GET"): (ADMINS, 200),
    ("webhooks", "POST"): (ADMINS, 400),
    ("webhooks/{}", "GET"): (ADMINS, 404),
    ("webhooks/{}", "PATCH"): (ADMINS, 404),
    ("webhooks/{}", "DELETE"): (ADMINS, 404),
    ("webhooks/{}/test", "POST"): (ADMINS, 404),
    ("webhooks/{}/secret", "POST"): (ADMINS, 404),
    ("webhooks/{}/deliveries", "GET"): (ADMINS, 404),
    ("webhooks/{}/deliveries/{}/send", "POST"): (ADMINS, 404),
}
PUBLIC = {"schema", "docs"}  # the description itself; signed-out people may read it


@cache
def routes() -> dict[str, str]:
    """Every address under /api/v1/ with {} for its parts, and the same with values that name nothing."""
    found: dict[str, str] = {}

    def walk(patterns: list[Any], prefix: str) -> None:
        for pattern in patterns:
            route = prefix + str(pattern.pattern)
            if isinstance(pattern, URLResolver):
                walk(pattern.url_patterns, route)
            elif isinstance(pattern, URLPattern) and route.startswith("api/v1/"):
                parts = route.removeprefix("api/v1/").split("/")
                ids = ["0" if part.startswith("<int:") else "none" if "<" in part else part for part in parts]
                blank = "/".join("{}" if "<" in part else part for part in parts)
                found[blank] = "/api/v1/" + "/".join(ids)

    walk(get_resolver().url_patterns, "")
    return found


def test_the_table_names_every_route_and_nothing_else() -> None:
    assert set(routes()) - PUBLIC == {route for route, _ in TABLE}
    described = {(operation.method, operation.path.removeprefix("/api/v1/")) for operation in operations()}
    blanked = {
        ("/".join("{}" if "{" in part else part for part in path.split("/")), method)
        for method, path in described
    }
    assert blanked == set(TABLE)


@pytest.mark.django_db
@pytest.mark.parametrize("route", sorted(routes()))
def test_who_may_do_what_is_what_the_table_says(route: str, user_with, caplog) -> None:
    caplog.set_level(logging.CRITICAL, "django.request")
    people: dict[str, APIClient] = {"anonymous": APIClient()}
    for role in ALL:
        token = token_of(user_with(*([] if role == "none" else [role])))
        people[role] = APIClient()
        people[role].credentials(HTTP_AUTHORIZATION=f"Token {token}")
    got, wanted = {}, {}
    for method in METHODS:
        for who, client in people.items():
            answer = client.generic(method, routes()[route], "{}", "application/json")
            got[method, who] = answer.status_code
            wanted[method, who] = expected(route, method, who)
            if answer.status_code >= 400 and route not in PUBLIC:
                assert set(answer.json()) == {"message", "code", "extra"}
    assert got == wanted


def expected(route: str, method: str, who: str) -> int:
    if route in PUBLIC:
        return 200 if method == "GET" else 405
    if who == "anonymous":
        return 401
    if (route, method) not in TABLE:
        return 405
    allowed, status = TABLE[route, method]
    return status if who in allowed else 403
