"""What became of a rejected sample, on a desk and on a phone: its lineage, its rule's page, the button."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from catalog.models import Tool
from synthesis.core.queries import AXES, Verdict
from synthesis.generate import pipeline, regeneration
from synthesis.models import Regeneration, Sample
from synthesis.offline.judge import OfflineJudge
from synthesis.review import services as review_services
from tests.browser.reviewing import widths
from tests.synthesis.rows import run_job
from tests.synthesis.test_incremental_runs import edit_rule, freeze, make_catalog, run
from tests.synthesis.test_lineage import reader, revise

pytestmark = pytest.mark.browser
NOTE = "“about year” does not say which of the two years is meant"


@pytest.fixture
def replaced(transactional_db, monkeypatch) -> Sample:
    """A sample that was rejected, written again, approved and frozen before its rule and a tool changed."""

    async def passed(self, request):
        return Verdict(request.id, dict.fromkeys(AXES, 5), "Fine as it is.")

    monkeypatch.setattr(OfflineJudge, "judge", passed)
    for name in ("query_failures", "trace_failures"):
        monkeypatch.setattr(pipeline, name, lambda *given: [])
    with ThreadPoolExecutor(1) as beside:  # a browser's event loop lives in this thread
        return beside.submit(_replaced).result()


def _replaced() -> Sample:
    try:
        make_catalog(1)
        run()
        first, second, third = Sample.objects.order_by("pk")[:3]
        refuse(first, "rule_unclear", NOTE)
        (made,) = regeneration.start(wake=False)
        run_job(made.job)
        refuse(second, "unclear", "both years fit")
        refuse(third, "bad_trace")
        new = Sample.objects.get(run=made)
        for sample in Sample.objects.filter(human="pending"):
            review_services.approve(sample=sample.pk, reviewer=reader("rita", "reviewer"))
        freeze(branches=["rule"])
        return new
    finally:
        connection.close()


def refuse(sample: Sample, reason: str, note: str = "") -> None:
    rita = reader("rita", "reviewer")
    review_services.reject(sample=sample.pk, reviewer=rita, reason=reason, note=note, follow_up="regenerate")


def fits(page, width: int, name: str) -> bool:
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=f"{folder}/{name}-{width}.png", full_page=True)
    return page.evaluate("document.documentElement.scrollWidth") <= width


@widths
def test_the_path_is_read_from_rule_to_snapshot_without_scrolling_sideways(replaced, open_page, width):
    page = open_page("reviewer", width=width)
    page.goto(f"/rules/{replaced.rule_version.rule_id}/#rejections")
    assert NOTE in page.locator("#rejections .rejections").first.inner_text()
    assert fits(page, width, "rule")
    author = open_page("expert", width=width)
    author.goto(f"/rules/{replaced.rule_version.rule_id}/edit/")
    author.get_by_text(NOTE).wait_for()
    assert fits(author, width, "editor")
    revise(
        Tool.objects.get(name=replaced.answer[0]),
        "Returns the payslip of a worker, as of 2025 for all periods.",
    )
    edit_rule("RULE_0")
    page.goto(f"/synthesis/samples/{replaced.pk}/lineage/")
    for part in ("rule", "tools", "writers", "attempts", "sample", "decisions", "onward"):
        assert page.locator(f"#{part}").is_visible(), part
    assert page.locator("#rule .diff").is_visible() and page.locator("#tools .diff").is_visible()
    assert "Rule text ambiguous" in page.locator("#sample").inner_text()
    assert fits(page, width, "lineage")
    page.goto(f"/synthesis/samples/{replaced.pk}/")
    assert fits(page, width, "sample")


@widths
def test_an_admin_has_what_waits_written_again_from_the_runs_page(replaced, open_page, width):
    page = open_page("admin", width=width)
    page.goto("/synthesis/yield/")
    assert fits(page, width, "yield")
    page.goto("/synthesis/")
    button = page.get_by_role("button", name="Write the 2 rejected ones again")
    button.wait_for()
    assert fits(page, width, "runs")
    button.click()
    page.get_by_text("2 rejected samples written again").first.wait_for()
    assert fits(page, width, "run")
    assert Regeneration.objects.filter(state="writing").count() == 2
