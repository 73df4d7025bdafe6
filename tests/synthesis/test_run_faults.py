"""Every fault of an endpoint through a whole run: it ends, errors are typed, nothing invalid is ready."""

import threading
import time
from dataclasses import replace
from functools import partial
from itertools import groupby
from types import SimpleNamespace

import pytest
from django.db import connection

from synthesis.core.filters import query_failures, trace_failures
from synthesis.core.queries import QueryDraft
from synthesis.core.recipe import default_recipe
from synthesis.generate.imports import samples_import
from synthesis.generate.pipeline import candidate_of
from synthesis.generate.runs import _units
from synthesis.generate.services import synthesis_resume, synthesis_start
from synthesis.llm.ledger import job_books, patiently, spent
from synthesis.models import Attempt, ModelCall, Sample
from synthesis.samples.sources import load_catalog
from tests.lib.test_llm_faults import FINAL, PASSING
from tests.llm_server import LlmServer
from tests.synthesis.model import answers
from tests.synthesis.rows import make_book, run_job
from tests.synthesis.test_runs import NO_PERMISSIONS
from trace_site import jobs
from trace_site.jobs import Job
from trace_site.lib.files import write_jsonl
from trace_site.lib.llm import client, limiter
from trace_site.lib.llm.exchange import FATAL

pytestmark = pytest.mark.django_db(transaction=True)
EVERY = 2  # one request in two meets a fault
CALLS = 150
KEY = "sk-canary-0123456789"
EXPECTED = {**FINAL, **PASSING}


def groups():
    """Faults by the error they must end as; those that stop a run get a run each."""
    mild = sorted((fault for fault in EXPECTED if EXPECTED[fault] not in FATAL), key=EXPECTED.get)
    return [[fault] for fault in EXPECTED if EXPECTED[fault] in FATAL] + [
        list(same) for _, same in groupby(mild, EXPECTED.get)
    ]


GROUPS = groups()


@pytest.fixture
def llm(settings, monkeypatch):
    for module in (client, limiter):  # pauses as long as their law says are tested there
        monkeypatch.setattr(module, "backed_off", partial(limiter.backed_off, base=0.02))
    server = LlmServer(answers)
    settings.LLM_BASE_URL, settings.LLM_API_KEY = server.url, KEY
    settings.LLM_GENERATOR_MODEL = settings.LLM_TEACHER_MODEL = settings.LLM_JUDGE_MODEL = "tester"
    settings.LLM_CONCURRENCY = 8
    settings.LLM_TIMEOUT_SECONDS, settings.LLM_ATTEMPT_SECONDS = 10, 5
    make_book()
    yield server
    server.close()


def start(**options):
    chosen = {"branch": "rule", "per_rule": 6, "writer": "llm", "recipe": NO_PERMISSIONS, "wake": False}
    return synthesis_start(**{**chosen, **options})


def invalid(run):
    """Ready samples that filter V refuses when it looks at them anew."""
    catalog = load_catalog()
    context = catalog.filter_context(default_recipe())
    rows = Sample.objects.filter(run=run, machine="ready")
    found = []
    for row, unit in zip(rows, _units(default_recipe(), rows, catalog), strict=True):
        draft = QueryDraft(row.query, tuple(row.answer), row.explanation)
        candidate = replace(candidate_of(unit.request, draft), trace=row.trace)
        found += query_failures(candidate, context) + trace_failures(candidate, context)
    return found


@pytest.mark.parametrize("faults", GROUPS, ids=lambda faults: faults[0])
def test_run_ends_with_typed_errors_and_no_invalid_sample(llm, faults, settings):
    if EXPECTED[faults[0]] == "llm_timeout":
        settings.LLM_ATTEMPT_SECONDS = 0.5
    run = start(per_rule=12, budget={"calls": CALLS})
    expected = EXPECTED[faults[0]]
    if expected in FATAL:  # some are met twice in a row before they are believed
        llm.faults = [*["ok"] * 6, *faults * CALLS]
    else:
        llm.faults = [faults[turn // EVERY % len(faults)] if turn % EVERY else "ok" for turn in range(CALLS)]
    began = time.monotonic()
    job = jobs.run(run.job.pk)
    assert time.monotonic() - began < 60
    if expected in FATAL:
        assert job.state == "failed" and job.error_code == expected and job.error
    else:
        assert job.state == "done", job.error
        assert not Sample.objects.filter(machine="pending").exists()
        assert len(llm.requests) > EVERY * len(faults)  # each of them was met
    assert not invalid(run)
    codes = set(Attempt.objects.filter(outcome="error").values_list("error_code", flat=True))
    assert codes <= {expected}
    calls = ModelCall.objects.filter(job=job)
    assert set(calls.filter(state="failed").values_list("error_code", flat=True)) - {"llm_cancelled"} == {
        expected
    }
    assert not calls.filter(state="sent").exists()
    assert not calls.filter(state="answered").exclude(error_code="").exists()
    assert spent(job).calls <= CALLS
    perhaps_never_left = calls.filter(error_code__in=("llm_cancelled", "llm_timeout")).count()
    assert calls.count() - perhaps_never_left <= len(llm.requests) - 1 <= calls.count()  # one probe


def test_wait_that_one_call_was_told_does_not_hold_up_the_others(llm, settings):
    settings.LLM_TIMEOUT_SECONDS = 30
    run = start(per_rule=30)
    llm.faults = ["ok"] * 6 + ["429:3"]
    began = time.monotonic()
    run_job(run.job)
    ends = sorted(ModelCall.objects.filter(job=run.job, state="answered").values_list("ended_at", flat=True))
    assert time.monotonic() - began >= 3
    assert (ends[-1] - ends[len(ends) // 2]).total_seconds() > 2


def test_cancelled_run_ends_soon_while_an_endpoint_hangs_and_its_books_are_closed(llm, settings):
    settings.LLM_TIMEOUT_SECONDS = settings.LLM_ATTEMPT_SECONDS = 60
    run = start()
    llm.faults = ["ok", "ok", *["hang"] * 50]

    def cancel():
        while len(llm.requests) < 5:
            time.sleep(0.05)
        jobs.cancel(Job.objects.get(pk=run.job.pk))
        connection.close()

    threading.Thread(target=cancel).start()
    began = time.monotonic()
    assert jobs.run(run.job.pk).state == "cancelled"
    assert time.monotonic() - began < 40
    books = job_books(run.job)
    total = books["total"]
    assert books["errors"]["llm_cancelled"] == total["failed"] > 0
    assert total["under_way"] == 0 and total["calls"] == len(llm.requests) - 1
    llm.faults.clear()
    synthesis_resume(run)
    assert run_job(run.job)["ready"] == 6


def test_books_tell_calls_tokens_seconds_and_errors_by_purpose(llm, django_assert_num_queries):
    run = start()
    llm.faults = ["ok", "refusal", "ok", "500"]
    run_job(run.job)
    with django_assert_num_queries(3):
        books = job_books(run.job)
    assert books["errors"] == {"llm_refused": 1, "llm_server_error": 1}
    total = books["total"]
    assert [line["purpose"] for line in books["lines"]] == ["judge", "query_rule", "trace"]
    assert sum(line["calls"] for line in books["lines"]) == total["calls"] == len(llm.requests) - 1
    assert total["calls"] == total["answered"] + total["failed"]
    assert total["completion_tokens"] == 7 * (total["answered"] + 1)  # the refusal is billed
    assert 0 < total["p50"] <= total["p95"] < 10


def test_run_goes_on_over_a_database_that_ends_its_connections_all_the_time(llm):
    run = start(per_rule=60)
    llm.faults = ["ok"]
    over = threading.Event()

    def cut():
        last = 0
        while not over.wait(0.02):
            # not while nothing goes on, and of 136 no late one: with nothing left to do nobody would try again
            if last + 10 < (seen := len(llm.requests)) < 120:
                last = seen
                with connection.cursor() as cursor:
                    cursor.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                    )
        connection.close()

    cutter = threading.Thread(target=cut)
    cutter.start()
    try:
        job = jobs.run(run.job.pk)
    finally:
        over.set()
        cutter.join()
        connection.close()  # cut or not, the next test gets a whole one
    assert len(llm.requests) == 136
    assert (job.state, job.error) == ("done", "")
    calls = ModelCall.objects.filter(job=job)
    assert Sample.objects.filter(machine="ready").count() == Sample.objects.count() == 60
    assert calls.filter(state="answered").count() == calls.count() == len(llm.requests) - 1


def test_traces_of_imported_queries_are_written_by_a_model(llm, tmp_path):
    rows = [
        {"query": "book the blue car for friday", "tools": ["CarPool/BookCar"]},
        {"query": "three days off in august please", "tools": ["TimeDesk/SubmitLeave"]},
    ]
    write_jsonl(tmp_path / "logs.jsonl", rows)
    samples_import(path=tmp_path / "logs.jsonl", approve=True)
    counts = run_job(start(branch="imported").job)
    assert (counts["written"], counts["ready"], counts["calls"]) == (2, 2, 4)
    row = Sample.objects.get(query__contains="car")
    assert row.trace.endswith("CarPool/BookCar.") and row.approved_by.endswith(
        "trace by llm:tester, not read"
    )
    shown = [request["messages"][0]["content"] for request in llm.requests if "CarPool" in str(request)]
    assert all("TimeDesk/SubmitLeave" in prompt for prompt in shown)  # the pool holds more than the answer
    assert run_job(start(branch="imported").job)["written"] == 0


def test_a_transaction_whose_connection_vanishes_as_it_ends_is_repeated(db, monkeypatch):
    """Django then asks None for its autocommit."""
    tried = []

    def work():
        tried.append(None)
        if len(tried) == 1:
            raise AttributeError("'NoneType' object has no attribute 'autocommit'")
        return "written"

    gone = SimpleNamespace(connection=None, in_atomic_block=False, close=lambda: None)
    monkeypatch.setattr("synthesis.llm.ledger.connection", gone)
    assert patiently(work) == "written" and len(tried) == 2
    gone.connection = object()
    tried.clear()
    with pytest.raises(AttributeError):  # a mistake of ours
        patiently(work)
