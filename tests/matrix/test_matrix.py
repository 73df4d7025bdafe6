"""Every address and API operation x method x six people: what each gets is what the table says.

A method that an address does not have is asked by the admin, who may do the most. A new address has no row, so it
fails here until somebody decides who may use it. All of it is asked with objects that exist and bodies that mean
something, each request in a transaction that is rolled back.
"""

import json
import logging
import re
from collections.abc import Iterator
from functools import cache
from html import unescape
from http.cookies import SimpleCookie
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlencode

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.contrib.messages import get_messages
from django.db import models, transaction
from django.http import HttpResponse
from django.test import Client
from django.urls import Resolver404, resolve, reverse

from evaluation.requests import services
from evaluation.retrieval.engine import Question
from tests.api_description import operations
from tests.factories import known_models
from tests.matrix.bodies import bodies, headers, own, queries
from tests.matrix.routes import Route, routes
from tests.matrix.table import TABLE
from tests.matrix.world import LETTERS, NO_ROLE, NOBODY, PEOPLE, make_world
from tests.tokens import token_of
from trace_site import access
from trace_site.webhooks import services as webhooks

pytestmark = pytest.mark.django_db
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
NAMES = {NOBODY: "nobody", NO_ROLE: "an account without a role", **LETTERS}
DESCRIPTION = ("api-schema", "api-docs")  # of the API: YAML and a page
FORM = re.compile(r'<form\b(?=[^>]*\smethod="post")(?![^>]*\shx-post)(?:[^>]*?\saction="(/[^"?#]*))?')
PLACE = re.compile(r'\s(href|formaction|hx-get|hx-post|data-[a-z-]+)="(/[^"?#]*)')
ROUTES = routes()


@pytest.fixture
def world(settings, tmp_path, monkeypatch, caplog) -> SimpleNamespace:
    caplog.set_level(logging.CRITICAL, "django.request")
    settings.API_RATE = settings.API_ADDRESS_RATE = 1_000_000
    settings.RETRIEVE_RATE = settings.RETRIEVE_ADDRESS_RATE = 1_000_000
    settings.TRACE_HOME, settings.STORE_URL = tmp_path, (tmp_path / "store").as_uri()

    def received(*args: Any, **kwargs: Any) -> tuple[int, str]:
        return 200, "thanks"

    def answered(question: Question) -> dict[str, Any]:
        request, one = question.request, {"tools": ["Loose/One"], "scores": [0.5], "trace": ""}
        if question.path == "/batch":
            return {"model": request["model"], "answers": [one for _ in request["requests"]]}
        return {"fast": one, "trace": one} if request["mode"] == "both" else one

    def written(question: Question) -> Iterator[dict[str, Any]]:
        yield {"event": "done", **answered(question)}

    monkeypatch.setattr(webhooks, "post", received)
    settings.ENGINE_URL = "http://engine.invalid"
    monkeypatch.setattr(services, "WRITE_SECONDS", 0)
    monkeypatch.setattr(Question, "answer", answered)
    monkeypatch.setattr(Question, "lines", written)
    known_models(monkeypatch)
    w = make_world(tmp_path)
    w.clients = {who: Client(raise_request_exception=False) for who in PEOPLE}
    for who, user in w.people.items():
        w.clients[who].force_login(user)
    return w


def address(w: SimpleNamespace, route: Route, who: str) -> str:
    return reverse(route.name, kwargs={part: _value(w, route, part, who) for part in route.parts})


def _value(w: SimpleNamespace, route: Route, part: str, who: str) -> Any:
    assert part in TABLE[route.name].parts, f"{route.name}: say in its row what stands for <{part}>"
    name = TABLE[route.name].parts[part]
    value = own(getattr(w, name, name), who)
    return value.pk if isinstance(value, models.Model) else value


def ask(w: SimpleNamespace, route: Route, method: str, who: str) -> HttpResponse:
    """The answer; whatever it changed is taken back."""
    client = w.clients[who]
    cookies = client.cookies.output(header="", sep=";")
    path = address(w, route, who)
    if given := queries(w).get(route.name, {}) if method in ("GET", "HEAD") else {}:
        path += "?" + urlencode(given, doseq=True)
    more = {"headers": headers(w, route.name, who)}
    with transaction.atomic():
        if method in ("GET", "HEAD", "OPTIONS") or method not in TABLE[route.name].methods:
            answer = client.generic(method, path, **more)
        else:
            sent = bodies(w, who)
            key = f"{method} {route.name}"
            assert key in sent or route.name in sent, f"{key} takes something: say what in bodies.py"
            body = sent.get(key, sent.get(route.name))
            body = body() if callable(body) else body
            if route.name.startswith("api-"):
                answer = client.generic(method, path, json.dumps(body), "application/json", **more)
            else:
                answer = client.post(path, body, **more)
        if answer.streaming:
            b"".join(answer.streaming_content)
        transaction.set_rollback(True)
    client.cookies = SimpleCookie(cookies)
    for user in w.people.values():
        user.__dict__.pop("_trace_roles", None)
    return answer


def wanted(route: Route, method: str, who: str) -> set[int]:
    """The statuses that are right. Where no row has the method, everybody is refused one way or the other."""
    row = TABLE[route.name]
    if (method, who) in row.answers:
        return {row.answers[method, who]}
    if who == NOBODY and NOBODY not in {letter for _, letter in row.answers}:
        return {401} if route.name.startswith("api-") or method not in ("GET", "HEAD", "OPTIONS") else {302}
    return {403} if method in row.methods else {403, 405}


def told(w: SimpleNamespace, route: Route, method: str, who: str) -> Iterator[str]:
    """What is wrong with the answer, in a line each."""
    answer = ask(w, route, method, who)
    line = f"{method} {route.name} as {NAMES[who]}"
    right = wanted(route, method, who)
    if answer.status_code not in right:
        yield f"{line}: {answer.status_code}, the table says {sorted(right)}; {_said(answer)}"
    elif answer.status_code < 400 and (refused := _told_in_passing(answer)):
        yield f"{line}: {answer.status_code}, and yet {refused}"
    if "no-store" not in answer.get("Cache-Control", "") and route.name != "clusters-map-data":
        yield f"{line}: browsers may keep the answer ({answer.get('Cache-Control')})"
    speaks_json = route.name.startswith("api-") and route.name not in DESCRIPTION
    if speaks_json and answer.status_code >= 400 and not _is_error(answer):
        yield f"{line}: the error has another shape, {answer.get('Content-Type')}: {_said(answer)}"
    if who in LETTERS and answer.get("Content-Type", "").startswith("text/html") and not answer.streaming:
        for name in refused_behind(answer.content.decode(), answer.wsgi_request.path, w.people[who]):
            yield f"{line}: leads to {name}, which they are refused"


def refused_behind(page: str, own_path: str, user: User) -> set[str]:
    """ "GET name" of each link, button, tab, fragment and form of a page that would answer this person 403.

    A script asks what stands in data-…; by which method only the script knows, so one that is open will do.
    """
    asked = [("POST", path or own_path) for path in FORM.findall(page)]
    for name, path in PLACE.findall(page):
        asked.append(("POST" if name in ("hx-post", "formaction") else name, path))
    refused = set()
    for method, path in asked:
        if not (name := name_of(path)):
            continue  # a static file
        methods = (
            ("GET", "POST") if method.startswith("data-") else ("POST",) if method == "POST" else ("GET",)
        )
        if not any(access.may(user, name, one) for one in methods):
            refused.add(f"{methods[0]} {name}")
    return refused


@cache
def name_of(path: str) -> str:
    try:
        return resolve(unquote(unescape(path))).view_name
    except Resolver404:
        return ""


def _said(answer: Any) -> str:
    if getattr(answer, "exc_info", None):
        return repr(answer.exc_info[1])
    return "a stream" if answer.streaming else repr(answer.content[:300])


def _told_in_passing(answer: Any) -> list[str]:
    """What a page that answers well says went wrong."""
    said = get_messages(answer.wsgi_request)
    return [str(message) for message in getattr(said, "_queued_messages", ()) if message.level_tag == "error"]


def _is_error(answer: Any) -> bool:
    if answer.get("Content-Type") != "application/json":
        return False
    return set(json.loads(answer.content)) == {"message", "code", "extra"}


def test_every_address_has_a_row_and_every_row_an_address():
    assert {route.name for route in ROUTES} == set(TABLE)
    assert len({route.name for route in ROUTES}) == len(ROUTES), "two addresses share a name"


def test_every_address_stands_in_one_area_of_the_site():
    known = [
        name
        for app in apps.get_app_configs()
        for area in getattr(app, "areas", ())
        for name in area.routes.split()
    ]
    assert len(known) == len(set(known))
    assert [route.name for route in ROUTES if not access.allowed(route.name)] == []
    assert set(known) <= {route.name for route in ROUTES}


def test_the_table_has_every_operation_of_the_api():
    def blank(path: str) -> str:
        return "/".join("{}" if "{" in part or "<" in part else part for part in path.strip("/").split("/"))

    described = {(operation.method, blank(operation.path)) for operation in operations()}
    rows = {
        (method, blank(route.pattern))
        for route in ROUTES
        if route.name.startswith("api-") and route.name not in DESCRIPTION
        for method in TABLE[route.name].methods
    }
    assert rows == described


@pytest.mark.parametrize("kind", ["api", "pages one", "pages two"])
def test_each_person_gets_what_the_table_says(world, kind):
    pages = [route for route in ROUTES if not route.name.startswith("api-")]
    asked = {"api": [route for route in ROUTES if route not in pages], "pages one": pages[::2]}
    wrong = []
    for route in asked.get(kind, pages[1::2]):
        for method in METHODS:
            if method in TABLE[route.name].methods:
                for who in PEOPLE:
                    wrong += told(world, route, method, who)
            else:  # the API's fuzzing asks without a token
                wrong += told(world, route, method, "A")
    assert not wrong, "\n".join(wrong)


def test_a_page_that_may_be_read_may_be_asked_for_its_headers(world):
    wrong = []
    for route in ROUTES:
        if "GET" in TABLE[route.name].methods:
            right, head = wanted(route, "GET", "A"), ask(world, route, "HEAD", "A")
            if head.status_code not in right or head.content:
                wrong.append(f"HEAD {route.name}: {head.status_code}, GET {sorted(right)}")
    assert not wrong, "\n".join(wrong)


# what people decide, by the names of its operations; whoever adds an operation that writes says here if it is one
DECISIONS = """
    api-change-request-approve api-change-request-reject api-change-request-schedule api-change-request-unschedule
    api-change-request-apply api-change-request-bypass api-rule-suggestion-dismiss api-rule-suggestion-restore
    api-review-claims api-review-decisions api-review-undo api-training-promote api-training-rollback
"""


def test_what_people_decide_is_refused_to_service_tokens_and_to_nobody_else(world):
    """The admin, who may do the most, in a browser, with a personal token, and with a service token of every scope."""
    by_browser = world.clients["A"]
    ways = {
        name: Client(raise_request_exception=False, headers={"Authorization": f"Token {secret}"})
        for name, secret in (("personal", token_of(world.people["A"])), ("service", world.own_secrets["A"]))
    }
    wrong, decided = [], []
    for route in (route for route in ROUTES if route.name.startswith("api-")):
        for method in sorted(TABLE[route.name].methods - {"GET"}):
            answers = {}
            for way, client in {"browser": by_browser, **ways}.items():
                world.clients["A"] = client
                answers[way] = ask(world, route, method, "A")
            if answers["personal"].status_code != answers["browser"].status_code or not (
                200 <= answers["personal"].status_code < 300
            ):
                wrong.append(f"{method} {route.name}: a person may not, {_said(answers['personal'])}")
            refused = answers["service"].status_code == 403 and "people decide this" in _said(
                answers["service"]
            )
            if refused:
                decided.append(route.name)
            elif answers["service"].status_code != answers["personal"].status_code:
                wrong.append(f"{method} {route.name}: a service token gets {_said(answers['service'])}")
    assert not wrong, "\n".join(wrong)
    assert sorted(decided) == sorted(DECISIONS.split())
