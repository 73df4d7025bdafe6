"""A database is made by SQL that is written out here and stands still, or it is refused."""

import ast
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from evaluation.benchmarks.selectors import kept_out_answers, rule_results
from evaluation.models import Answer
from synthesis.datasets.build import snapshot_params
from tests.factories import make_model, make_rule, make_run, make_sample, make_tool
from trace_site.deliveries import Delivery
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from trace_site.notices.services import Notice
from training.retraining.services import policy_recipe

APPS = ("trace_site", "catalog", "rules", "synthesis", "training", "evaluation")
FILES = [path for app in APPS for path in sorted(Path(settings.BASE_DIR, app, "migrations").glob("0*.py"))]


def test_a_home_of_an_earlier_version_is_refused_with_what_to_do(db):
    MigrationRecorder(connection).record_applied("rules", "0007_health_words")
    with pytest.raises(TraceError, match="made by an earlier version") as refused:
        call_command("migrate", verbosity=0)
    assert refused.value.code == "old_home" and "TRACE_HOME" in refused.value.hint


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_a_migration_imports_no_code_of_the_product(path):
    tree = ast.parse(path.read_text())
    named = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    named |= {node.module or "." for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in named if name.partition(".")[0] in (*APPS, "importlib", "")} == set()


def test_models_and_migrations_say_the_same(db):
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


def made_by(app: str, name: str, model: str, make: str) -> Any:
    """What a migration's function makes of the database as it stands; the newest row of the model."""
    module = import_module(f"{app}.migrations.{name}")
    getattr(module, make)(apps, None)
    return apps.get_model(app, model).objects.order_by("-pk").first()


def test_new_installation_writes_by_itself_and_has_a_policy_that_is_on(db, settings):
    row = made_by("synthesis", "0005_loop", "LoopSettings", "make_row")
    assert (row.write, row.train, row.evaluate, row.budget, row.most_load) == (True, True, True, {}, 0.75)
    policy = made_by("training", "0004_loop", "RetrainPolicy", "make_policy")
    assert policy.active and (policy.base, policy.format, policy.memo, policy.retrieval) == (
        "pocket",
        "a",
        "m",
        "r+R",
    )
    assert (policy.changed_rules, policy.quiet_minutes) == (1, 1)
    kept = {name: value for name, value in snapshot_params(**policy.snapshot).items() if name != "actor"}
    assert kept == policy.snapshot and policy_recipe(policy).retrieval == "r+R"


def test_new_installation_on_another_base_waits_longer(db, settings):
    settings.BASE_MODEL = "google/gemma-4-E4B-it"
    policy = made_by("training", "0004_loop", "RetrainPolicy", "make_policy")
    assert (policy.base, policy.quiet_minutes) == ("google/gemma-4-E4B-it", 30)


def test_installation_that_has_written_and_trained_keeps_deciding_for_itself(db):
    make_sample()
    make_run()
    assert not made_by("synthesis", "0005_loop", "LoopSettings", "make_row").write
    assert made_by("training", "0004_loop", "RetrainPolicy", "make_policy") is None


def test_mail_that_waited_was_sent_or_given_up_is_a_delivery_now(db, user_with):
    sql = import_module("trace_site.migrations.0010_one_delivery").FROM_NOTICES
    rita = user_with("reviewer", username="rita")
    Notice.objects.bulk_create(
        Notice(recipient=rita, kind="comment", text=text, link="/x/")
        for text in ("waits", "sent", "failed", "never")
    )
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(
            "ALTER TABLE trace_site_notice ADD mail_due_at timestamptz, ADD mailed_at timestamptz, "
            "ADD mail_tries smallint DEFAULT 0, ADD mail_error varchar(300) DEFAULT ''"
        )
        cursor.execute("UPDATE trace_site_notice SET mail_due_at = now() WHERE text = 'waits'")
        cursor.execute("UPDATE trace_site_notice SET mailed_at = now(), mail_tries = 1 WHERE text = 'sent'")
        cursor.execute("UPDATE trace_site_notice SET mail_error = 'no', mail_tries = 5 WHERE text = 'failed'")
        cursor.execute(sql)
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    rows = {row.notice.text: row for row in Delivery.objects.select_related("notice")}
    assert {text: row.state for text, row in rows.items()} == {
        "waits": "pending",
        "sent": "delivered",
        "failed": "failed",
    }
    assert {row.channel for row in rows.values()} == {"mail"} and rows["failed"].last_error == "no"


BEFORE_ANSWERS = """
CREATE TABLE evaluation_ruletestresult (id serial, model_id bigint, version_id bigint, backend text, results jsonb,
  job_id bigint, created_at timestamptz DEFAULT now());
CREATE TABLE evaluation_keptoutanswer (id serial, model_id bigint, sample_id bigint, request_id bigint, text_key text,
  tools jsonb, embedding jsonb, job_id bigint, at timestamptz DEFAULT now());
"""
TESTS = [
    {"query": "one", "tools": ["Pay/A", "Pay/B", "Pay/A"], "found": ["Pay/B", "Pay/A", "Pay/C"]},
    {"query": "two", "tools": ["Pay/A"], "found": ["Pay/B", "Pay/A"]},
    {"query": "three", "tools": ["Pay/A"], "found": []},
]


def test_what_was_answered_to_tests_of_rules_and_to_kept_out_samples_are_answers_now(db):
    sql = import_module("evaluation.migrations.0016_answers").MOVE
    version, sample = make_rule(make_tool(), make_tool()).published, make_sample()
    models = [make_model(), make_model()]
    with connection.cursor() as cursor:
        cursor.execute(BEFORE_ANSWERS)
        for model in models:
            job = Job.objects.create(kind="rule_tests", state="done")
            cursor.execute(
                "INSERT INTO evaluation_ruletestresult (model_id, version_id, backend, results, job_id) "
                "VALUES (%s, %s, '', %s, %s)",
                [model.pk, version.pk, json.dumps(TESTS), job.pk],
            )
            cursor.execute(
                "INSERT INTO evaluation_keptoutanswer (model_id, sample_id, text_key, tools, embedding, job_id) "
                "VALUES (%s, %s, 'key', %s, %s, %s)",
                [model.pk, sample.pk, json.dumps(["Pay/A"]), json.dumps([f"Pay/{model.pk}"]), job.pk],
            )
        cursor.execute(sql)
    assert [(row.model, row.version, row.passed, row.total) for row in rule_results()] == [
        (model.pk, version.pk, 1, 3) for model in models
    ]
    tested = Answer.objects.filter(model=models[0], item__version=version).order_by("item__position")
    assert [{**row.item.data, "found": row.output["tools"]} for row in tested] == TESTS
    for model in models:
        kept = kept_out_answers(model).get()
        beside = Answer.objects.get(model=None, job=kept.job)
        assert kept.item == beside.item and (kept.item.sample, kept.item.text_key) == (sample, "key")
        assert [kept.output["tools"], beside.output["tools"]] == [["Pay/A"], [f"Pay/{model.pk}"]]
