"""A grid from the form to its matrix, in a browser: what would train, live cells, cancel, compare; wide and narrow."""

import os
from pathlib import Path

import pytest

from tests.browser.reviewing import widths
from tests.factories import make_model, make_snapshot
from tests.training.deliveries import chain, small_snapshot
from trace_site.jobs import Job
from training.models import Grid, Run
from training.registry import registry

pytestmark = pytest.mark.browser


def fits(page) -> bool:
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def shot(page, name: str) -> None:
    """A picture to look at, where TRACE_SHOTS says."""
    if folder := os.environ.get("TRACE_SHOTS"):
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


@pytest.mark.parametrize(
    ("width", "scheme"), [(390, "dark"), pytest.param(1280, "light", marks=pytest.mark.long)]
)
def test_grid_is_planned_queued_watched_and_compared(open_page, transactional_db, monkeypatch, width, scheme):
    snapshot = make_snapshot(counts={"samples": 120}, per_rule=3)
    page = open_page("admin", width=width, scheme=scheme)
    open_page.expected.append("htmx:")
    page.goto("/training/grids/")
    assert page.get_by_text("No grid yet").is_visible() and fits(page)
    shot(page, f"grids-empty-{width}")
    page.goto(f"/training/grids/new/?snapshot={snapshot.pk}")
    page.wait_for_selector("#preview b:has-text('18')")
    page.fill("#id_sweep", "add:1")
    page.wait_for_selector("#preview .note:has-text('neither')")
    page.fill("#id_sweep", "")
    page.locator("input[name=retrievals][value='n>r']").check()
    page.locator("input[name=retrievals][value='none']").check()
    page.wait_for_selector("#preview b:has-text('30')")
    assert fits(page)
    shot(page, f"grid-form-{width}")
    page.get_by_role("button", name="Start the grid").click()
    page.wait_for_url("**/training/grids/*/")
    grid = Grid.objects.get()
    assert page.locator("#grid h2").inner_text() == "30 cells to go"
    trained = list(Run.objects.order_by("pk")[:3])
    for run in trained:
        make_model(run=run)
        Job.objects.filter(pk=run.job_id).update(state="done")
    Run.objects.filter(pk=trained[1].pk).update(summary={"stage1": {"reused_from_run": trained[0].pk}})
    Job.objects.filter(pk=Run.objects.order_by("-pk").first().job_id).update(
        state="failed", error="the loss is nan at step 12."
    )
    Job.objects.filter(pk=Run.objects.order_by("pk")[4].job_id).update(state="running", done=30, total=100)

    def told(models):
        return {
            pk: registry.Score(0.8125, 0.75, 0.86, 120, "hit@1, trace, PRB 1", "/evaluation/")
            for pk in models
        }

    monkeypatch.setattr("training.grids.selectors.scores_of", told)
    page.wait_for_selector("#grid h2:has-text('26 cells to go')")  # by itself
    assert fits(page)
    shot(page, f"grid-{width}")
    for run in trained[:2]:
        page.locator(f"input[name=run][value='{run.pk}']").check()
    page.get_by_role("button", name="Compare the chosen runs").click()
    page.wait_for_url(f"**/compare/?run={trained[0].pk}&run={trained[1].pk}")
    page.goto(f"/training/grids/{grid.pk}/")
    page.get_by_role("button", name="Cancel all").click()
    page.wait_for_selector("button:has-text('Resume all')")
    page.goto("/training/grids/")
    shot(page, f"grids-{width}")
    assert fits(page)


@widths
def test_folder_of_the_inbox_is_adopted_from_the_page(open_page, transactional_db, settings, tmp_path, width):
    settings.TRACE_HOME = tmp_path
    settings.STORE_URL = (tmp_path / "store").as_uri()
    chain(tmp_path / "imports" / "e4b-run", small_snapshot())
    page = open_page("admin", width=width)
    page.goto("/training/elsewhere/")
    shot(page, f"elsewhere-{width}")
    assert fits(page)
    page.get_by_role("button", name="Adopt").click()
    page.wait_for_selector("h3:has-text('Adopt e4b-run')")
    assert Job.objects.get(kind="import").params == {"folder": "e4b-run"}
