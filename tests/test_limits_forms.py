"""The largest form that each page takes, and the largest file of each address that takes one, cost little."""

import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from http.cookies import SimpleCookie
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote_plus, urlencode

import pytest
from django.conf import settings
from django.db import transaction

from tests.api_description import operations
from tests.matrix.bodies import QUERIES, RULE, TEXT, TOOLS, bodies
from tests.matrix.routes import Route
from tests.matrix.table import TABLE
from tests.matrix.test_matrix import ROUTES, address, world  # noqa: F401
from tests.test_limits import MEMORY, SECONDS
from trace_site import limits
from trace_site.impact import declared_by_apps

pytestmark = pytest.mark.django_db
RULES = json.dumps([{**RULE, "code": "LOOSE", "domain": "hr"}])
FORM_MEMORY = 128_000_000  # Django takes some 19 bytes to read one that is escaped
BLANK = b" " * 999_000 + b"\n"  # holds no tool, rule or query in any format
# the file's name, what it holds, its most bytes, and what else stands in its form
FILES: dict[str, tuple[str, str, int, dict[str, str]]] = {
    "catalog:import": ("new.jsonl", TOOLS, limits.CATALOG_FILE, {"domain": "leave", "format": "auto"}),
    "catalog:queries_import": ("new.txt", QUERIES[0], limits.QUERIES_FILE, {"collection": "desk"}),
    "rules:import": ("rules.json", RULES, limits.RULES_FILE, {}),
    "api-imports": ("new.jsonl", TOOLS, limits.CATALOG_FILE, {"domain": "leave"}),
    "api-rules-import": ("rules.json", RULES, limits.RULES_FILE, {}),
}
BY_NAME = {route.name: route for route in ROUTES}


def sender(route: Route) -> str:
    """An admin, where admins may."""
    return next(who for who in "AERP-N" if ("POST", who) in TABLE[route.name].answers)


def sent(w: SimpleNamespace, route: Route, **request: Any) -> Any:
    """The answer; nothing of it is left behind."""
    who = sender(route)
    client, user = w.clients[who], w.people.get(who)
    cookies = client.cookies.output(header="", sep=";")
    with transaction.atomic():
        answer = client.generic("POST", address(w, route, who), **request)
        transaction.set_rollback(True)
    client.cookies = SimpleCookie(cookies)
    if user is not None:
        user.__dict__.pop("_trace_roles", None)
    return answer


def costs(ask: Callable[[], Any]) -> tuple[Any, float, int]:
    """(answer, seconds of this process, most bytes at once). Tracing slows: what seems slow is asked without."""
    tracemalloc.start()
    try:
        answer, seconds = timed(ask)
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return answer, seconds if seconds <= SECONDS else timed(ask)[1], held


def timed(ask: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    return ask(), time.process_time() - began


def takes_fields(w: SimpleNamespace, route: Route) -> bool:
    """Whether it is a page that takes a form without a file."""
    if route.name.startswith("api-") or "POST" not in TABLE[route.name].methods:
        return False
    fields = bodies(w, sender(route))[route.name]
    return callable(fields) or bool(fields and "file" not in fields)


def fields_of(w: SimpleNamespace, route: Route) -> dict[str, Any]:
    """Fields that a page takes; those of a preview are made anew, for its file is taken once."""
    fields = bodies(w, sender(route))[route.name]
    found: dict[str, Any] = fields() if callable(fields) else fields
    return found


def filled(fields: dict[str, Any], names: list[str], size: int) -> bytes:
    """A form of so many bytes, for the texts in these of its fields."""
    each = (size - len(urlencode(fields | dict.fromkeys(names, ""), doseq=True))) // len(names)
    text = f"{TEXT} " * (each // len(quote_plus(f"{TEXT} ")))
    body = urlencode(fields | dict.fromkeys(names, text), doseq=True)
    return f"{body}{'x' * (size - len(body))}".encode()


def told(w: SimpleNamespace, route: Route, traced: bool) -> Iterator[str]:
    """What is wrong with a page that is sent all it reads, in a line each. traced: its memory too, which is slow."""
    most = limits.most_bytes(address(w, route, sender(route)))

    def ask(body: bytes) -> Any:
        return sent(w, route, data=body, content_type="application/x-www-form-urlencoded")

    fields = fields_of(w, route)
    if traced:  # one parser reads the fields of all pages
        plain = ask(urlencode(fields, doseq=True).encode()).status_code
        answer, seconds = timed(lambda: ask(filled(fields_of(w, route), ["besides"], most)))
        if answer.status_code != plain or seconds > SECONDS:
            yield f"{route.name}: {answer.status_code}, without more {plain}; {seconds:.1f} s"
    if own := [name for name, value in fields.items() if isinstance(value, str)]:
        body = filled(fields, own, most)
        answer, seconds, held = costs(lambda: ask(body)) if traced else (*timed(lambda: ask(body)), 0)
        broken = answer.status_code >= 500 and answer.status_code != 503  # no engine in this test
        if broken or seconds > SECONDS or held > FORM_MEMORY:
            yield f"{route.name} {own}: {answer.status_code}, {seconds:.1f} s, {held:,} bytes"
    if ask(b"x" * (most + 1)).status_code != 413:
        yield f"{route.name}: takes more than {most:,} bytes"


@pytest.mark.parametrize("traced", [False, pytest.param(True, marks=pytest.mark.long)])
def test_the_largest_form_of_each_page_costs_little_and_one_beyond_is_refused(world, traced):  # noqa: F811
    asked = [route for route in ROUTES if takes_fields(world, route)]
    assert len(asked) > 50
    wrong = [line for route in asked[:: 1 if traced else 3] for line in told(world, route, traced)]
    assert not wrong, "\n".join(wrong)


def write_form(path: Path, route: str, size: int) -> None:
    """The form of an address with a file of so many bytes."""
    name, content, _, fields = FILES[route]
    with path.open("wb") as out:
        for field, value in fields.items():
            out.write(f'--edge\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'.encode())
        head = f'--edge\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
        out.write(f"{head}{content}".encode())
        left = size - len(content)
        while left:
            left -= out.write(BLANK[-left:])
        out.write(b"\r\n--edge--\r\n")


def sent_from(path: Path, w: SimpleNamespace, route: Route, said: int | None = None) -> Any:
    """The answer to a body on the disk that says how long it is; and whether it was read."""
    with path.open("rb") as body:
        request = {"wsgi.input": body, "CONTENT_LENGTH": str(said or path.stat().st_size)}
        answer = sent(w, route, CONTENT_TYPE="multipart/form-data; boundary=edge", **request)
        answer.was_read = body.tell() > 0
        return answer


def waiting() -> list[Path]:
    return sorted(path for path in Path(settings.TRACE_HOME, "uploads").rglob("*") if path.is_file())


@pytest.mark.parametrize("name", FILES)
def test_the_largest_file_costs_little_and_one_beyond_is_refused(world, tmp_path, name):  # noqa: F811
    route, path, most = BY_NAME[name], tmp_path / "body", FILES[name][2]
    who = sender(route)
    write_form(path, name, most)
    answer, seconds, held = costs(lambda: sent_from(path, world, route))
    assert answer.status_code == TABLE[name].answers["POST", who], answer.content
    assert (seconds <= SECONDS, held <= MEMORY) == (True, True), (seconds, held)
    before = waiting()
    answer = sent_from(path, world, route, limits.most_bytes(address(world, route, who)) + 1)
    assert (answer.status_code, answer.was_read) == (413, False)
    write_form(path, name, most + 1)
    answer = sent_from(path, world, route)
    assert 400 <= answer.status_code < 500 and answer.was_read and waiting() == before


def test_every_operation_that_takes_a_file_is_asked_with_the_largest():
    takes = {one.path for one in operations() if "multipart/form-data" in one.bodies()}
    asked = {f"/{BY_NAME[name].pattern}" for name in FILES if name.startswith("api-")}
    assert takes == asked
    assert set(FILES) == {
        name for name in declared_by_apps("larger_bodies") if name in BY_NAME and "import" in name
    }
