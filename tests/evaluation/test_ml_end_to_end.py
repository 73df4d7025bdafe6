"""One pocket model through the real trainer and the real engine, both as children of their jobs."""

import json

import pytest

from catalog.models import Tool
from evaluation.benchmarks.services import benchmark_import
from evaluation.core.asking import Query
from evaluation.models import Answer, Evaluation
from evaluation.retrieval.retriever import retrieve_once
from tests.factories import make_rule, make_snapshot, make_tool
from tests.training.small_snapshot import NAMES, write_snapshot
from trace_site import jobs
from trace_site.artefacts import store
from trace_site.lib.small_yaml import read_small_yaml
from training.core.recipe import from_dict
from training.registry.registry import export_dir
from training.runs.services import run_create

RECIPE = """
max_seq_len: 256
max_prompt_tokens: 64
max_new_tokens: 24
replay: 0.5
pocket: {encoder: ENCODER}
stage1: {lr: 1.0e-3, encoder_lr: 1.0e-4, rows_lr: 1.0e-4, batch_size: 8, epochs: 2}
stage2: {lr: 1.0e-3, encoder_lr: 1.0e-4, rows_lr: 1.0e-4, batch_size: 8, epochs: 2}
"""


@pytest.mark.ml
@pytest.mark.django_db
def test_a_run_becomes_a_model_with_a_curve_an_evaluation_and_answers(settings, tmp_path):
    from tests.training.small_encoder import small_encoder

    settings.TRACE_HOME, settings.STORE_URL = tmp_path, (tmp_path / "store").as_uri()
    settings.JOB_LEASE_SECONDS = 3600  # the heartbeat's own connection does not see this test's transaction
    folder = write_snapshot(tmp_path / "snapshot")
    snapshot = make_snapshot(
        store_key="snapshots/small", store_digest=store().put_dir(folder, "snapshots/small")
    )
    tools = [make_tool(name) for name in NAMES]
    make_rule(*tools[:2], tests=[{"query": "request 0", "tools": [NAMES[0]]}])
    rows = [{"query": f"request {number}", "tools": [name]} for number, name in enumerate(NAMES[:4])]
    (tmp_path / "prb.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    benchmark_import(path=tmp_path / "prb.jsonl", kind="prb", name="prb")
    question = {"tool": NAMES[0], "question": "Does it read?", "answer": "No"}
    (tmp_path / "qa.jsonl").write_text(json.dumps(question) + "\n")
    benchmark_import(path=tmp_path / "qa.jsonl", kind="qa", name="qa")

    recipe = from_dict(read_small_yaml(RECIPE.replace("ENCODER", small_encoder()), "recipe"))
    cell = {"base": "pocket", "format": "a", "memo": "m", "retrieval": "r+R"}
    run = run_create(snapshot=snapshot, recipe=recipe.with_cell(**cell))
    trained = jobs.run(run.job_id)
    assert trained.state == "done", trained.error
    assert {stage for stage, _ in run.metrics.values_list("stage", "step")} == {"stage1", "stage2"}
    assert json.loads((export_dir(run.model) / "trace.json").read_text())["memo"] == "m"

    evaluated = jobs.run(trained.result["evaluation_job"])
    assert evaluated.state == "done", evaluated.error
    assert set(Evaluation.objects.values_list("decode", flat=True)) == {
        "fast",
        "trace",
        "trace-free",
        "letters",
    }
    assert Evaluation.objects.filter(metrics__isnull=True).count() == 0
    assert Answer.objects.exclude(evaluation=None).count() == 13
    fast = Answer.objects.filter(evaluation__decode="fast")
    assert all(set(row.output["tools"]) <= set(NAMES) for row in fast)

    tested = Answer.objects.get(model=run.model, item__origin="rule_test")
    assert set(tested.output["tools"]) <= set(NAMES)

    answer = retrieve_once(Query("request 1", k=3), model=run.model)
    known = set(Tool.objects.values_list("name", flat=True))
    assert len(answer["tools"]) == 3 and {row["name"] for row in answer["tools"]} <= known
