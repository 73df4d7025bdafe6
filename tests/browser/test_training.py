"""From the launch form to a comparison, in a browser, with the real trainer on the smallest recipe."""

import re
import threading

import pytest
from django.db import connection

pytest.importorskip("torch")

from tests.browser.reviewing import widths
from tests.factories import make_run, make_snapshot  # noqa: E402
from tests.training.small_encoder import quick_recipe  # noqa: E402
from tests.training.small_snapshot import write_snapshot  # noqa: E402
from trace_site import jobs  # noqa: E402
from trace_site.artefacts import store  # noqa: E402
from trace_site.worker import Worker  # noqa: E402
from training.models import Run, RunMetric  # noqa: E402
from training.runs.stages import default_recipe

pytestmark = [pytest.mark.browser]
RUN_PAGE = re.compile(r"/training/\d+/$")


@pytest.fixture
def snapshot(transactional_db, tmp_path, settings):
    settings.ML_THREADS = 1
    folder = write_snapshot(tmp_path / "snapshot")
    key = "snapshots/of-the-browser-test"
    counts = {"tools": 5, "rrb": 5, "rule": 5, "imported": 0}
    return make_snapshot(store_key=key, store_digest=store().put_dir(folder, key), counts=counts)


@pytest.fixture
def worker():
    """worker(run) works the run's job off in a thread of its own, and joins it at the end."""
    threads = []

    def work(run: Run) -> threading.Thread:
        def job() -> None:
            try:
                jobs.run(run.job_id)
            finally:
                connection.close()

        threads.append(threading.Thread(target=job))
        threads[-1].start()
        return threads[-1]

    yield work
    for thread in threads:
        thread.join(60)


def drawn(run: Run) -> Run:
    for step in range(1, 40):
        data = {
            "loss": 5 / step,
            "lr": 0.1,
            "tokens": 90 * step,
            "seconds": step / 2,
            "steps": 40,
            "epoch": 1,
        }
        RunMetric.objects.create(run=run, stage="stage2", step=step, data=data)
    return run


def test_an_admin_launches_a_run_with_the_keyboard_watches_compares_and_clones_it(
    open_page, snapshot, worker
):
    other = drawn(make_run(snapshot=snapshot, recipe={"seed": 9}))
    open_page.expected.append("htmx:")  # a page that reloads itself drops what its fragments still ask for
    page = open_page("admin")
    page.goto("/training/new/")
    page.wait_for_selector("#estimate .estimate")
    page.get_by_text("Paste or download the recipe").click()
    page.fill("#id_yaml", quick_recipe(format="a", memo="none").to_yaml())
    page.get_by_role("button", name="Fill in").press("Enter")
    page.wait_for_selector("text=● 7 changed")
    page.locator("#estimate .stage-list").get_by_text("Stage 2").wait_for()
    page.locator("input[name=retrieval]:checked").focus()
    page.keyboard.press("ArrowDown")  # to r: the radio group is walked by arrows
    assert page.locator("input[name=retrieval]:checked").get_attribute("value") == "r"
    page.locator("#id_seed").fill("3")
    page.keyboard.press("Enter")
    page.wait_for_url(RUN_PAGE)
    run = Run.objects.exclude(pk=other.pk).get()
    assert (run.cell, run.seed) == ("(a, none, r)", 3)
    assert page.locator(".job h2").inner_text() == "Waiting"
    worker(run)
    page.wait_for_selector("#curves svg.plot", timeout=60_000)  # by itself: nobody reloads the page
    page.wait_for_selector(".job h2:has-text('Trained')", timeout=60_000)
    page.goto("/training/")
    for one in (run, other):
        page.get_by_role("checkbox", name=f"Compare run {one.pk}").press("Space")
    page.get_by_role("button", name="Compare the chosen runs").press("Enter")
    page.wait_for_url("**/compare/?run=*&run=*")
    assert page.locator("figure.chart .legend li").first.inner_text().startswith("run ")
    page.goto(f"/training/{run.pk}/")
    page.get_by_role("link", name="Clone").press("Enter")
    page.wait_for_url("**/new/?from=*")
    assert page.input_value("#id_seed") == "3"
    page.fill("#id_seed", "4")
    page.keyboard.press("Enter")
    page.wait_for_url(RUN_PAGE)
    assert page.get_by_role("heading", name=f"Changed since run {run.pk}").is_visible()
    assert Run.objects.get(cloned_from=run).seed == 4


@widths
def test_another_base_brings_its_recipe_and_keeps_what_was_edited(open_page, snapshot, settings, width):
    settings.BASE_MODEL, settings.BASE_MODELS = (
        "google/gemma-4-E4B-it",
        ["org/a-base-with-a-rather-long-name-8B"],
    )
    hardware = {"gpu": "NVIDIA H200", "gpu_memory_gb": 140, "gpus": 1, "memory_gb": 128, "threads": 2}
    Worker.objects.create(name="box:1", queues=["gpu"], hardware=hardware)
    open_page.expected.append("htmx:")  # leaving a page drops what its fragments still ask for
    page = open_page("admin", width=width)
    page.goto("/training/new/")
    assert page.input_value("#id_base") == "google/gemma-4-E4B-it"
    page.get_by_text("stay frozen in bf16").wait_for()
    page.locator("#recipe summary", has_text=re.compile(r"Stage 2 \d")).click()
    page.fill("[id='r-stage2.epochs']", "9")
    page.select_option("#id_base", "pocket")
    page.locator("summary", has_text="The pocket model").wait_for()
    assert page.input_value("[id='r-stage2.epochs']") == "9"
    assert float(page.input_value("[id='r-stage2.lr']")) == default_recipe("pocket").stage2.lr
    page.locator("#estimate").get_by_text("all but the word rows of the encoder").wait_for()
    assert page.locator("#estimate summary").inner_text() == "1 field changed from the default"
    page.select_option("#id_base", "google/gemma-4-E4B-it")
    page.locator("#estimate").get_by_text("stay frozen in bf16").wait_for()
    page.locator("summary", has_text="The pocket model").wait_for(state="detached")
    assert page.input_value("[id='r-stage2.lr']") == "0.0001"
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@widths
def test_no_page_of_runs_scrolls_sideways(open_page, snapshot, width):
    runs = [drawn(make_run(snapshot=snapshot, recipe={"seed": seed, "base": "x" * 60})) for seed in (1, 2)]
    page = open_page("admin", width=width)
    wide = []
    compared = f"compare/?run={runs[0].pk}&run={runs[1].pk}"
    for path in ("", "new/", f"{runs[0].pk}/", f"{runs[0].pk}/?scale=log", compared, "queue/"):
        page.goto(f"/training/{path}")
        page.wait_for_load_state("networkidle")
        page.evaluate("document.querySelectorAll('main details').forEach((one) => { one.open = true; })")
        if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
            wide.append(path)
    assert wide == []
