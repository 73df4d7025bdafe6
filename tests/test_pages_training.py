"""Pages of runs and models: launching a cell, watching its curves, promoting a model."""

from dataclasses import asdict

import pytest
import yaml

from tests.factories import make_gate_report, make_model, make_run
from trace_site.jobs import Job
from training.core import recipe as recipes
from training.models import AliasMove, Run, RunMetric, TrainedStage
from training.registry import selectors
from training.runs.curves import BUCKETS, buckets
from training.runs.stages import default_recipe, stage_folder

pytestmark = pytest.mark.django_db


@pytest.fixture
def run():
    job = Job.objects.create(kind="training", queue="gpu", title="train", state="running", done=5, total=10)
    run = make_run(job=job, log_tail="stage 1 begins")
    for stage, step, loss in (("stage1", 1, 8.0), ("stage1", 2, 6.5), ("stage2", 1, 7.25)):
        RunMetric.objects.create(run=run, stage=stage, step=step, data={"loss": loss, "lr": 0.001})
    return run


def test_live_fragment_says_how_far_each_stage_is_and_asks_again(client_as, run):
    run.stages = [{"stage": "stage1", "key": "k1"}, {"stage": "stage2", "key": "k2"}]
    run.save()
    page = client_as("product_manager").get(f"/training/{run.pk}/live/")
    assert [(one.stage, one.state) for one in page.context["stages"]] == [
        ("stage1", "done"),
        ("stage2", "running"),
    ]
    assert b"every 2s" in page.content and b"7.25" in page.content and b"stage 1 begins" in page.content


def test_a_stage_that_another_run_trained_is_linked(client_as, run):
    other = make_run()
    TrainedStage.objects.create(key="k1", stage="stage1", run=other, store_key="x", store_digest="0")
    run.metrics.filter(stage="stage1").delete()
    run.stages = [{"stage": "stage1", "key": "k1"}, {"stage": "stage2", "key": "k2"}]
    run.save()
    page = client_as("expert").get(f"/training/{run.pk}/")
    assert page.context["stages"][0].reused_from == other.pk
    assert f'href="/training/{other.pk}/">run {other.pk}' in page.content.decode()


def test_a_stage_that_its_time_limit_stopped_is_told_apart_also_where_it_is_reused(client_as, run):
    told = "11 % of its steps (time limit 45 s)"
    run.stages = [{"stage": "stage1", "key": "k1"}]
    run.summary = {"stage1": {"training": {"Steps": 2, "Stopped at": told}}}
    run.save()
    TrainedStage.objects.create(key="k1", stage="stage1", run=run, store_key="x", store_digest="0")
    other = make_run(stages=run.stages, summary={"stage1": {"reused_from_run": run.pk}})
    client = client_as("expert")
    for pk in (run.pk, other.pk):
        page = client.get(f"/training/{pk}/")
        assert page.context["stages"][0].stopped_at == told
        assert "not finished" in page.content.decode() and f"stopped at {told}" in page.content.decode()
    for address in ("/training/", f"/training/compare/?run={run.pk}&run={other.pk}"):
        assert client.get(address).content.decode().count("not finished") == 1


def test_curves_have_one_line_a_stage_and_a_table(client_as, run):
    loss, rate = client_as("expert").get(f"/training/{run.pk}/").context["charts"]
    assert [curve.name for curve in loss.curves] == ["Stage 1", "Stage 2"]
    assert [point for point in loss.table if point[0] == "Stage 1"] == [
        ("Stage 1", 1.0, 8.0),
        ("Stage 1", 2.0, 6.5),
    ]
    assert rate.y_label == "learning rate"


def long_run(points: int = 10_000) -> Run:
    """A running run with `points` points of each curve in each stage, one of them a spike."""
    job = Job.objects.create(kind="training", queue="gpu", title="train", state="running", done=1, total=9)
    run = make_run(job=job, log_tail="a line of the log\n" * 300)
    for stage in ("stage1", "stage2"):
        RunMetric.objects.bulk_create(
            RunMetric(
                run=run,
                stage=stage,
                step=step,
                data={
                    "loss": 99.0 if step == 4321 else 8 / (1 + step / 1000),
                    **dict.fromkeys(("lr", "grad_norm", "tokens_per_second", "memory_mb"), 1.0 + step % 7),
                    "computed_ratio": 1.03,
                    "tokens": step * 50,
                    "seconds": step * 1.0,
                },
            )
            for step in range(1, points + 1)
        )
    return run


def test_ten_thousand_points_stay_a_small_page_and_keep_their_spike(client_as):
    run = long_run()
    client = client_as("expert")
    page = client.get(f"/training/{run.pk}/")
    charts = page.context["charts"]
    assert len(charts) == 6
    drawn = sum(curve.path.count(" ") + 1 for chart in charts for curve in chart.curves)
    assert drawn <= 6 * 2 * BUCKETS and len(page.content) < 130_000
    spike = buckets([run.pk], ["loss"])[run.pk, "stage1"]
    assert max(one.values["loss"][2] for one in spike) == 99.0
    assert charts[0].curves[0].band and "20,000 points in all" in charts[0].note
    live = client.get(f"/training/{run.pk}/live/")
    assert len(live.content) < 6_000 and b"<path" not in live.content.replace(b"<use", b"")


def test_curves_are_sent_again_only_when_there_is_a_new_point(client_as, run, django_assert_max_num_queries):
    client = client_as("expert")
    seen = client.get(f"/training/{run.pk}/curves/").context["seen"]
    with django_assert_max_num_queries(5):
        assert client.get(f"/training/{run.pk}/curves/", {"seen": seen}).status_code == 204
    RunMetric.objects.create(run=run, stage="stage2", step=2, data={"loss": 6.0})
    again = client.get(f"/training/{run.pk}/curves/", {"seen": seen})
    assert again.status_code == 200 and again.context["seen"] != seen and b"every 10s" in again.content


def test_a_logarithmic_scale_is_offered_where_it_is_honest(client_as, run):
    page = client_as("expert").get(f"/training/{run.pk}/curves/", {"scale": "log"})
    loss, rate = page.context["charts"]
    assert loss.y_ticks[0] == "10" and loss.curves[0].last == "6.5" and rate.y_ticks[-1] == "0"


def test_the_log_is_shown_by_its_last_lines_and_sent_whole(client_as, run, settings, tmp_path):
    settings.TRACE_HOME = tmp_path
    run.log_tail = "\n".join(f"line {number}" for number in range(100))
    run.stages = [{"stage": "stage1", "key": "abcdef"}]
    run.save()
    client = client_as("admin")
    page = client.get(f"/training/{run.pk}/")
    assert b"line 99" in page.content and b"line 50" not in page.content
    kept = client.get(f"/training/{run.pk}/log/")
    assert kept.content.decode() == run.log_tail and "run-" in kept["Content-Disposition"]
    folder = stage_folder("abcdef")
    folder.mkdir(parents=True)
    (folder / "log.txt").write_text("from the file <b>\n")
    whole = b"".join(client.get(f"/training/{run.pk}/log/").streaming_content)
    assert whole.startswith(b"== stage1/log.txt\nfrom the file <b>")


def test_a_run_says_what_differs_from_the_paper(client_as):
    recipe = asdict(default_recipe("pocket"))
    run = make_run(recipe=recipe)
    page = client_as("expert").get(f"/training/{run.pk}/")
    used = {row.field.name: row for group in page.context["fields"] for row in group.rows}
    assert used["stage2.lr"].differs and used["stage2.lr"].paper == "0.0001"
    assert not used["stage2.min_lr_ratio"].differs and used["pocket.encoder"].paper == ""
    text = client_as("reviewer").get(f"/training/{run.pk}/recipe.yaml").content.decode()
    assert recipes.from_dict(yaml.safe_load(text)) == default_recipe("pocket")


def test_live_fragment_stops_asking_when_the_run_has_ended_and_says_why(client_as, run):
    Job.objects.update(state="failed", error="The disk is full. Free some space and resume.")
    page = client_as("admin").get(f"/training/{run.pk}/").content
    assert b"every 2s" not in page and b"The disk is full." in page and b"Resume" in page


def test_run_page_lists_the_other_runs_on_its_snapshot(client_as, run):
    other = make_run(snapshot=run.snapshot, retrieval="n")
    AliasMove.objects.create(alias="champion", model=make_model(run=other))
    page = client_as("expert").get(f"/training/{run.pk}/")
    assert [one.pk for one in page.context["runs"]] == [other.pk]
    assert b"champion" in page.content


def test_cancel_and_resume_reach_the_job(client_as, run):
    client = client_as("admin")
    client.post(f"/training/{run.pk}/cancel/")
    assert Job.objects.get(pk=run.job_id).cancel_requested
    Job.objects.update(state="cancelled")
    client.post(f"/training/{run.pk}/resume/")
    assert Job.objects.get(pk=run.job_id).state == "queued"


def test_cancel_from_the_queue_goes_back_to_it(client_as, run):
    answer = client_as("admin").post(f"/training/{run.pk}/cancel/", {"next": "queue"})
    assert answer.url == "/training/queue/" and Job.objects.get(pk=run.job_id).cancel_requested


@pytest.mark.parametrize("verb", ["cancel", "resume"])
def test_others_neither_cancel_nor_resume(client_as, run, verb):
    assert client_as("expert").post(f"/training/{run.pk}/{verb}/").status_code == 403
    assert not Job.objects.get(pk=run.job_id).cancel_requested


def test_list_shows_the_newest_loss_in_the_same_number_of_queries(
    client_as, run, django_assert_max_num_queries
):
    RunMetric.objects.create(run=run, stage="plain", step=9, data={"loss": 5.0})
    for _ in range(10):
        make_run(snapshot=run.snapshot)
    client = client_as("reviewer")
    with django_assert_max_num_queries(9):
        rows = client.get("/training/").context["page"].rows
    assert rows[-1].loss == 7.25


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("format=c", ["c"]),
        ("memo=mr", ["c"]),
        ("retrieval=n", ["c"]),
        ("base=qwen", ["c"]),
        ("state=running", ["a"]),
        ("why=policy", ["c"]),
        ("by=admin", ["c"]),
        ("snapshot=abc", []),
        ("snapshot=99999999999", []),
        ("", ["c", "a"]),
    ],
)
def test_the_list_is_narrowed_by_each_filter(client_as, run, user_with, query, found):
    client = client_as("admin")
    cell = {"format": "c", "memo": "mr", "retrieval": "n", "base": "qwen", "why": "policy"}
    make_run(**cell, created_by=type(run).created_by.get_queryset().get(username="admin"))
    page = client.get(f"/training/?{query}")
    assert [one.format for one in page.context["page"].rows] == found
    assert found or b"No run like that" in page.content


def test_promotion_is_an_admins_and_says_what_it_does(client_as):
    old, new = make_model(), make_model()
    AliasMove.objects.create(alias="champion", model=old)
    make_gate_report(new, old)
    client = client_as("admin")
    assert (
        f'href="/training/models/{new.pk}/promote/"'
        in client.get(f"/training/models/{new.pk}/").content.decode()
    )
    page = client.get(f"/training/models/{new.pk}/promote/").content.decode()
    assert f'<a href="/training/models/{old.pk}/">{old.pk}</a> <b>previous</b>' in page
    client.post(f"/training/models/{new.pk}/promote/", {"note": "better where rules are"})
    moves = list(AliasMove.objects.order_by("pk").values_list("alias", "model"))
    assert moves == [("champion", old.pk), ("previous", old.pk), ("champion", new.pk)]
    history = client.get("/training/models/").content.decode()
    assert "better where rules are" in history


def test_others_do_not_promote(client_as):
    assert client_as("expert").post(f"/training/models/{make_model().pk}/promote/").status_code == 403
    assert not AliasMove.objects.exists()


def test_snapshot_fragment_lists_its_runs(client_as, run):
    make_run()
    page = client_as("expert").get(f"/training/of-snapshot/{run.snapshot_id}/")
    assert [one.pk for one in page.context["runs"]] == [run.pk]


def test_model_card_is_read_as_tables_and_text_without_markup():
    card = "# Card\n\nRead <b>this</b>.\n\n| fact | value |\n|---|---|\n| Base | pocket |\n"
    assert selectors.card_parts(card) == [
        ("heading", "Card"),
        ("text", "Read <b>this</b>."),
        ("table", [("Base", "pocket")]),
    ]


def test_what_is_no_number_is_left_out_of_the_curves(client_as, run):
    RunMetric.objects.create(
        run=run, stage="stage2", step=2, data={"loss": "nan", "lr": None, "grad_norm": []}
    )
    loss, _ = client_as("expert").get(f"/training/{run.pk}/").context["charts"]
    assert [point for point in loss.table if point[0] == "Stage 2"] == [("Stage 2", 1.0, 7.25)]


def test_a_run_whose_recipe_is_of_another_version_is_still_shown(client_as):
    run = make_run(recipe={"warp": 9})
    page = client_as("admin").get(f"/training/{run.pk}/")
    assert page.status_code == 200 and b"this version does not know" in page.content
    assert b">Clone<" not in page.content
