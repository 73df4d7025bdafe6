"""From the launch form to a dropped sample's attempts, in a browser, with the offline writers."""

import re
import threading

import pytest
from django.db import connection

from synthesis.models import Attempt, Sample, SynthesisRun
from tests.browser.reviewing import widths
from tests.synthesis.rows import make_book
from tests.synthesis.runs_made import LEAK
from trace_site import jobs

pytestmark = pytest.mark.browser
RUN_PAGE = re.compile(r"/synthesis/\d+/$")


def work_off(run: SynthesisRun) -> None:
    """Run the job as a worker would: in a thread of its own, since the browser's event loop lives in this one."""

    def work() -> None:
        jobs.run(run.job_id)
        connection.close()

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()


@pytest.fixture
def launched(open_page, transactional_db):
    """A signed-in page on the run that its form has just started."""
    make_book()
    open_page.expected.append("htmx:")  # a page that reloads itself drops what its fragments still ask for
    page = open_page("expert")
    page.goto("/synthesis/new/")
    page.wait_for_selector("#estimate b:has-text('12')")
    page.fill("#id_per_rule", "6")
    page.wait_for_selector("#estimate b:has-text('6')")
    page.get_by_role("button", name="Start synthesis").click()
    page.wait_for_url(RUN_PAGE)
    return page


def test_a_run_is_launched_followed_live_and_read_down_to_an_attempt(launched):
    page, run = launched, SynthesisRun.objects.get()
    assert page.locator(".job h2").inner_text() == "Waiting"
    work_off(run)
    page.wait_for_selector(".job h2:has-text('Done')")  # by itself: nobody reloads the page
    page.locator("#live").get_by_text("6 of 6 planned samples are ready").wait_for()
    dropped = Sample.objects.first()
    Sample.objects.filter(pk=dropped.pk).update(machine="dropped", query="show Old/GetSlip of March")
    Attempt.objects.create(
        sample=dropped,
        number=2,
        outcome="filtered",
        query="show Old/GetSlip of March",
        filter_failures=[LEAK],
    )
    page.wait_for_load_state("networkidle")
    page.reload()
    page.locator(".funnel a[href*='check=leakage']").click()
    page.wait_for_url("**check=leakage**")
    page.get_by_role("link", name="show Old/GetSlip of March").first.click()
    assert page.locator("mark.evidence").inner_text() == "Old/GetSlip"
    assert page.get_by_text("Dropped after 2 attempts.").is_visible()


def test_a_refused_launch_shows_the_reason_beside_what_was_typed(open_page, transactional_db):
    make_book()
    page = open_page("expert")
    page.goto("/synthesis/new/")
    page.fill("#id_rule", "NO_SUCH_RULE")
    page.fill("#id_seed", "77")
    open_page.expected += ["422", "htmx:"]
    page.get_by_role("button", name="Start synthesis").click()
    page.wait_for_selector(".has-error:has(#id_rule)")
    assert (page.input_value("#id_rule"), page.input_value("#id_seed")) == ("NO_SUCH_RULE", "77")


@widths
def test_no_page_of_synthesis_scrolls_sideways(launched, width):
    page, run = launched, SynthesisRun.objects.get()
    work_off(run)
    sample = Sample.objects.first()
    page.set_viewport_size({"width": width, "height": 900})
    wide = []
    for path in ("", "new/", f"{run.pk}/", "samples/", f"samples/{sample.pk}/", "yield/"):
        page.goto(f"/synthesis/{path}")
        page.wait_for_load_state("networkidle")
        root = "document.documentElement"
        if page.evaluate(f"{root}.scrollWidth > {root}.clientWidth"):
            wide.append(path)
    assert wide == []
