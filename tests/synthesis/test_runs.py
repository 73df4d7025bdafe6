"""Synthesis runs on the database: complete, resumable, topped up, never twice."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from threading import Barrier

import pytest
from django.db import connection

from catalog.core.tokens import flat_token
from catalog.imports.services import catalog_import
from catalog.models import NeighbourList, TokenUnit, Tool
from rules.models import Rule, RuleVersion
from rules.services import clauses_publish
from synthesis.core.recipe import default_recipe
from synthesis.datasets.files import rebuild_start
from synthesis.generate import pipeline, runs, services
from synthesis.generate.services import synthesis_start
from synthesis.management.commands.synthesis_run import funnel_lines
from synthesis.models import Attempt, ModelReply, Sample
from synthesis.offline.writer import offline_writers
from tests.factories import make_snapshot
from tests.synthesis.model import answers
from tests.synthesis.rows import make_book, publish, run_job
from tests.token_lists import list_json
from trace_site import jobs
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError

pytestmark = pytest.mark.django_db


NO_PERMISSIONS = replace(default_recipe(), trace=replace(default_recipe().trace, permission_share=0.0))


def start(**options):
    return synthesis_start(**{"branch": "rule", "per_rule": 6, "seed": 1, "wake": False, **options})


def test_a_rule_run_fills_every_style_equally():
    make_book()
    counts = run_job(start().job)
    assert (counts["written"], counts["ready"], counts["dropped"]) == (6, 6, 0)
    styles = Sample.objects.filter(machine="ready").values_list("style", flat=True)
    assert sorted(styles) == ["exception"] * 2 + ["explicit"] * 2 + ["implicit"] * 2
    sample = Sample.objects.first()
    assert sample.explanation and sample.trace and sample.made_from["rule"]["hash"] == "rule-1"
    assert funnel_lines(counts)[-1].split() == ["ready", "6", "samples", "(100.0%)"]


def test_a_second_run_writes_nothing_and_a_higher_goal_only_the_rest():
    make_book()
    run_job(start().job)
    assert run_job(start().job)["written"] == 0
    assert run_job(start(per_rule=9).job)["written"] == 3
    assert Sample.objects.count() == 9


def test_rejected_samples_are_written_again_and_a_new_rule_version_starts_anew():
    make_book()
    run_job(start().job)
    Sample.objects.filter(style="implicit").update(human="rejected")
    assert run_job(start().job)["written"] == 2
    publish(2)
    assert run_job(start().job)["written"] == 6


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", ["run", "rebuild"])
def test_equal_starts_at_once_are_one(kind):
    make_book()
    snapshot = make_snapshot()
    begin = Barrier(6)

    def ask(_):
        with closing(connection):
            begin.wait()
            return start().job_id if kind == "run" else rebuild_start(snapshot=snapshot, wake=False).pk

    with ThreadPoolExecutor(6) as pool:
        started = list(pool.map(ask, range(6)))
    assert len(set(started)) == Job.objects.count() == 1


def test_the_same_seed_gives_the_same_keys_and_texts():
    make_book()
    run_job(start().job)
    first = list(Sample.objects.order_by("key").values_list("key", "query", "trace"))
    with connection.cursor() as cursor:  # attempts are append-only
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("DELETE FROM synthesis_attempt; DELETE FROM synthesis_reviewitem")
        cursor.execute("SET LOCAL session_replication_role = origin")
    Sample.objects.all().delete()
    run_job(start().job)
    assert list(Sample.objects.order_by("key").values_list("key", "query", "trace")) == first


def test_a_killed_run_goes_on_without_loss_or_double(monkeypatch):
    make_book()
    monkeypatch.setattr(pipeline, "BATCH", 2)
    run = start(per_rule=12)
    commit, committed = runs._commit, []

    def dies(ctx, run, writers, outcomes):
        if len(committed) >= 4:
            raise MemoryError("killed")
        commit(ctx, run, writers, outcomes)
        committed.extend(outcomes)

    monkeypatch.setattr(runs, "_commit", dies)
    with pytest.raises(MemoryError):
        jobs.run(run.job.pk)
    assert 4 <= Sample.objects.exclude(machine="pending").count() == len(committed) < 12
    monkeypatch.setattr(runs, "_commit", commit)
    assert jobs.retry(Job.objects.get(pk=run.job.pk))
    counts = run_job(run.job)
    assert counts["written"] == 12
    assert counts["ready"] + counts["dropped"] == 12
    assert Sample.objects.count() == Sample.objects.exclude(machine="pending").count() == 12
    assert Attempt.objects.values("sample").distinct().count() == 12
    assert Attempt.objects.filter(number=1).count() == 12


def test_starting_what_is_under_way_joins_it():
    make_book()
    first = start()
    assert start().pk == first.pk
    assert start(per_rule=9).pk != first.pk
    run_job(first.job)
    assert start().pk != first.pk


def test_plans_of_a_cancelled_run_are_planned_anew():
    make_book()
    run = start()
    context = jobs.claim(run.job.pk)
    runs.plan(context, run, offline_writers(default_recipe()), runs.load_catalog())
    context.close()
    Job.objects.filter(pk=run.job.pk).update(state="cancelled")
    assert Sample.objects.filter(machine="pending").count() == 6
    assert run_job(start().job)["ready"] == 6
    assert Sample.objects.count() == 6


def test_rrb_anchors_are_live_tools_in_all_tiers():
    make_book()
    counts = run_job(start(branch="rrb", anchors=9).job)
    assert counts["written"] == 9
    rows = Sample.objects.filter(branch="rrb")
    assert set(rows.values_list("tier", flat=True)) == {"easy", "medium"}
    assert not rows.filter(anchor__deprecated=True).exists()
    assert run_job(start(branch="rrb", anchors=9).job)["written"] <= 9 - counts["ready"]


def test_missing_parts_are_named():
    with pytest.raises(TraceError, match="no domain 'moon'"):
        start(domain="moon")
    with pytest.raises(TraceError, match="per-rule"):
        start(per_rule=0)
    job = jobs.run(start().job.pk)
    assert (job.state, job.error_code) == ("failed", "empty_catalog")


def test_an_endpoint_that_says_nothing_holds_whoever_starts_a_run_for_seconds_only(llm, monkeypatch):
    make_book()
    llm.faults = ["hang"] * 3
    monkeypatch.setattr(services, "PROBE_SECONDS", 0.2)
    with pytest.raises(TraceError) as refused:
        start(writer="llm")
    assert (refused.value.code, len(llm.requests)) == ("llm_timeout", 1)
    assert "nothing was started" in str(refused.value) and not Job.objects.exists()


def test_the_llm_writers_go_the_same_way(llm):
    make_book()
    run = start(writer="llm", recipe=NO_PERMISSIONS)
    assert run.writer == "llm:tester"
    counts = run_job(run.job)
    assert (counts["ready"], counts["calls"]) == (6, 15)  # one call writes the queries of a style
    assert len(llm.requests) == 16  # one probe
    assert ModelReply.objects.count() == 15
    judged = [
        request for request in llm.requests if request["response_format"]["json_schema"]["name"] == "judge"
    ]
    assert all(request["temperature"] == 0 for request in judged)


def test_refused_and_broken_answers_are_attempts_that_are_kept(llm):
    make_book()
    run = start(writer="llm", recipe=NO_PERMISSIONS)
    llm.faults = ["refusal", "prose", "empty"]
    counts = run_job(run.job)
    assert (counts["ready"], counts["errors"]) == (6, 4)
    codes = Attempt.objects.filter(outcome="error").values_list("error_code", flat=True)
    assert Counter(codes) == {
        "llm_refused": 2,
        "llm_bad_json": 1,
        "llm_empty": 1,
    }  # two shared the refused one


def test_a_judge_that_names_another_sample_passes_nothing(llm):
    make_book()
    llm.answers = lambda body: (
        {**answers(body), "id": "another"} if "critique" in answers(body) else answers(body)
    )
    counts = run_job(start(writer="llm", recipe=NO_PERMISSIONS).job)
    assert (counts["ready"], counts["dropped"]) == (0, 6)
    assert counts["judged_out"] + counts["filtered"] == 36


def test_an_endpoint_that_dies_stops_the_run_with_one_line_and_it_goes_on_later_paying_nothing_twice(llm):
    make_book()
    run = start(writer="llm", recipe=NO_PERMISSIONS)
    llm.faults = ["ok", "ok", "ok", "ok", *["401"] * 5]
    job = jobs.run(run.job.pk)
    assert (job.state, job.error_code) == ("failed", "llm_unauthorized")
    assert "LLM_API_KEY" in job.error
    llm.faults = []
    paid = ModelReply.objects.count()
    jobs.retry(job)
    assert run_job(run.job)["ready"] == 6
    assert ModelReply.objects.count() == 15
    assert len(llm.requests) == 1 + 4 + 1 + (15 - paid)


def test_a_dead_endpoint_is_named_before_anything_starts(llm):
    make_book()
    llm.close()
    with pytest.raises(TraceError, match="cannot be reached"):
        start(writer="llm")
    assert Job.objects.count() == 0


@pytest.mark.parametrize(
    "name",
    [
        "App\\Http\\Controllers\\EmployeeController::{}",
        '{} of "one"',
        "Page<Staff>.{}",
        "{}<<staff>>",
        "staff&&{}",
        "{{{}}}",
        "staff;{},#1|2",
        "[{}](x)",
        "{}?$filter='x'&y=%22",
        "</tid>{}",
        "\\{}\\",
        "показать {} №1",
    ],
)
def test_tools_with_any_marks_in_their_names_are_written_and_delivered(name, tmp_path):
    path = tmp_path / "staff.json"
    show, index = name.format("show"), name.format("index")
    paths = {
        "/employees": {"get": {"operationId": index, "summary": "Lists the employees of a company."}},
        "/employees/{id}": {"get": {"operationId": show, "summary": "Reads one employee of a company."}},
        "/notes": {"post": {"operationId": 'Add "quick" note', "summary": "Adds a note to a file."}},
    }
    info = {"title": "Staff Portal", "version": "1.0"}
    path.write_text(json.dumps({"openapi": "3.0.0", "info": info, "paths": paths}))
    catalog_import(path=path, domain="hr")
    for tool in Tool.objects.all():
        others = list(Tool.objects.exclude(pk=tool.pk).values_list("pk", flat=True))
        NeighbourList.objects.create(tool=tool, neighbour_ids=others, scores=[0.5] * len(others))
    target, other = (Tool.objects.get(endpoint=one) for one in (show, index))
    says = f"One employee by number is read with {target.name}; the whole list of a company comes from {other.name}."
    clauses = [
        {
            "when": "one employee is asked for",
            "route_to": target.name,
            "exception": False,
            "signals": ["number 4711"],
        },
        {
            "when": "the whole list of a company is asked for",
            "route_to": other.name,
            "exception": True,
            "signals": ["the whole list"],
        },
    ]
    names = {tool.name: tool for tool in Tool.objects.all()}
    rule = Rule.objects.create(code="STAFF_ONE", domain=target.domain)
    version = RuleVersion.objects.create(
        **{"rule": rule, "number": 1, "target": target, "confusable_ids": [other.pk], "text": says},
        **{"clauses": clauses, "content_hash": "rule-1"},
    )
    rule.published = version
    rule.save()
    clauses_publish([rule.pk])
    counts = run_job(start().job)
    assert (counts["written"], counts["filtered"], counts["ready"]) == (6, 0, 6)
    assert {name for sample in Sample.objects.all() for name in sample.answer} <= names.keys()
    strings = set(TokenUnit.objects.filter(family="flat").values_list("string", flat=True))
    assert strings == {flat_token(name) for name in names}
    assert [json.loads(list_json([name], "a")) for name in names]
