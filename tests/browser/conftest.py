"""A real Chromium, the four roles, and a small catalog with one open cluster."""

import os
import shutil
from collections.abc import Iterator

import pytest
from django.contrib.staticfiles.testing import StaticLiveServerTestCase
from django.core.servers.basehttp import ThreadedWSGIServer

from catalog.core.tool import search_words
from catalog.models import NeighbourList
from tests.browser.reviewing import PATIENCE_MS, session_cookie
from tests.factories import make_cluster, make_tool

os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")  # playwright's loop lives in this thread


@pytest.fixture(scope="package")  # its event loop ends with it: none else may start in its thread
def browser() -> Iterator[object]:
    sync_api = pytest.importorskip("playwright.sync_api")
    # the shell is the same engine without windows, at two thirds of the processor's time
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("no Chromium on PATH")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield chromium
        chromium.close()


@pytest.fixture
def site(browser, transactional_db, monkeypatch) -> Iterator[str]:
    # what a closing page still sent is answered before the tables are emptied
    monkeypatch.setattr(ThreadedWSGIServer, "daemon_threads", False)
    # nor does it look for its own end only twice a second
    monkeypatch.setattr(ThreadedWSGIServer.serve_forever, "__defaults__", (0.02,))
    StaticLiveServerTestCase.setUpClass()
    yield StaticLiveServerTestCase.live_server_url
    for context in browser.contexts:  # an open connection would keep its thread of the server
        context.close()
    StaticLiveServerTestCase.tearDownClass()
    StaticLiveServerTestCase.doClassCleanups()  # ends the server
    assert StaticLiveServerTestCase.tearDown_exceptions == []


@pytest.fixture
def open_page(browser, site, user_with):
    """open_page("expert", width=390, scheme="dark") -> a signed-in page that fails on script errors.

    The browser reports refused and failed requests as errors too; a test that wants some names them in
    `open_page.expected`, such as "409" or "ERR_INTERNET_DISCONNECTED".
    """
    contexts, errors = [], []

    def open_one(role: str, width: int = 1280, scheme: str = "light", scripts: bool = True):
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            base_url=site,
            java_script_enabled=scripts,
        )
        contexts.append(context)
        user = user_with(role, username=f"{role}-{len(contexts)}")
        context.add_cookies([session_cookie(user, site)])
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
        return page

    # htmx logs a request that a page leaves behind; one that failed has a line of its own besides
    open_one.expected = ["htmx:sendAbort", "htmx:afterRequest"]
    yield open_one
    for context in contexts:
        context.close()
    assert [error for error in errors if not any(part in error for part in open_one.expected)] == []


@pytest.fixture
def look_alikes(transactional_db):
    """Four look-alikes in one cluster that no rule tells apart."""
    tools = [
        make_tool(
            f"PayrollNova/Get{part}",
            description=f"Returns the payslip of a worker as {part}.",
            words=search_words(f"PayrollNova/Get{part}"),
            version="v3",
        )
        for part in ("Payslip", "PayslipLines", "Statement", "YearEndTaxFormForEmployeesAbroad")
    ]
    for tool in tools:
        others = [other.pk for other in tools if other.pk != tool.pk]
        NeighbourList.objects.create(tool=tool, neighbour_ids=others, scores=[0.9, 0.8, 0.7])
    make_cluster(*tools, label="payslip access")
    return tools
