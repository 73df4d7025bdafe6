"""Labelled queries of a team's own become samples, once, apart from every benchmark."""

import json

import pytest

from catalog.models import LabelledQuery
from synthesis.generate import runs
from synthesis.generate.imports import samples_import
from synthesis.generate.services import synthesis_resume, synthesis_start
from synthesis.models import Attempt, Sample
from synthesis.review import services as review_services
from tests.synthesis.rows import make_benchmark_query, make_book, run_job
from trace_site import jobs
from trace_site.lib.errors import TraceError
from trace_site.lib.files import write_jsonl

pytestmark = pytest.mark.django_db

ROWS = [
    {"query": "what did i get paid in may", "tools": ["PayNova/GetPayslip"], "split": "train"},
    {"query": "book the blue car for friday", "tools": ["CarPool/BookCar"]},
    {"query": "held-out question about leave", "tools": ["TimeDesk/SubmitLeave"], "split": "test"},
    {"query": "something for a tool nobody has", "tools": ["Nowhere/Nothing"]},
    {"query": "", "tools": ["CarPool/BookCar"]},
    {"query": "no tools at all", "tools": []},
    {"query": "where is my pay document please now", "tools": ["PayOne/GetPayslip"]},
]

TYPED = (
    "The person wants a car of the company for one day, and CarPool/BookCar is described as booking one for a trip. "
    "Nothing else is asked for. So CarPool/BookCar."
)


@pytest.fixture
def logs(tmp_path):
    make_book()
    make_benchmark_query("Where is my pay document, please, now?")
    write_jsonl(tmp_path / "logs.jsonl", ROWS)
    return tmp_path / "logs.jsonl"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_rows_are_read_however_they_were_saved(logs, encoding):
    first, *_ = rows = [json.loads(line) for line in logs.read_text().splitlines()]
    for text in (
        "\r".join(map(json.dumps, rows)),
        json.dumps(rows, indent=1),
        json.dumps({"rows": rows}).replace("}, {", "},\n{").removeprefix('{"rows": ').removesuffix("}"),
    ):
        logs.write_bytes(text.encode(encoding))
        assert samples_import(path=logs).rows == len(rows)
    for broken in (f"[{json.dumps(first)},", '[{"query": "\\ud800"}]', "[[1]]", "[" * 100_000):
        logs.write_text(broken)
        with pytest.raises(TraceError, match="logs.jsonl"):
            samples_import(path=logs)


def test_good_rows_come_in_and_the_rest_is_counted_with_its_line(logs):
    counts = samples_import(path=logs, approve=True)
    assert (counts.imported, counts.skipped, counts.other_split, counts.contaminated) == (2, 3, 1, 1)
    every = (counts.imported, counts.unchanged, counts.repeated, counts.skipped, counts.other_split)
    assert counts.rows == sum(every) + counts.contaminated == len(ROWS)
    assert counts.errors[0] == "logs.jsonl:4: 'Nowhere/Nothing' is not in the catalog"
    assert set(Sample.objects.values_list("branch", "human", "machine")) == {
        ("imported", "approved", "ready")
    }
    assert LabelledQuery.objects.filter(use="import").count() == 2
    assert "import --approve" in Sample.objects.first().approved_by


def test_importing_again_changes_nothing(logs):
    samples_import(path=logs)
    counts = samples_import(path=logs)
    assert (counts.imported, counts.unchanged) == (0, 2)
    assert Sample.objects.count() == 2
    assert samples_import(path=logs, split="all").imported == 1


def test_a_file_without_a_usable_row_says_so(logs, tmp_path):
    write_jsonl(tmp_path / "bad.jsonl", ROWS[3:4])
    with pytest.raises(TraceError, match="nothing to import .*Nowhere/Nothing"):
        samples_import(path=tmp_path / "bad.jsonl")


def test_what_a_person_typed_while_the_trace_was_written_stands(logs, monkeypatch, user_with):
    samples_import(path=logs)
    reader = user_with("reviewer")
    commit = runs._commit

    def read_meanwhile(ctx, run, writers, outcomes):
        for outcome in outcomes:
            if "car" in outcome.draft.query:
                text = {"query": "book me the blue car for friday", "trace": TYPED}
                review_services.edit(sample=outcome.sample_id, reviewer=reader, **text)
        commit(ctx, run, writers, outcomes)

    monkeypatch.setattr(runs, "_commit", read_meanwhile)
    run_job(synthesis_start(branch="imported", wake=False).job)
    row = Sample.objects.get(query__contains="car")
    assert (row.query, row.human) == ("book me the blue car for friday", "approved")
    assert row.approved_by == str(reader)
    assert Sample.objects.get(query__contains="paid").trace


def stopped(run):
    """Planned and cancelled before anything was written."""

    def stops(*written):
        raise jobs.JobCancelled

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "_commit", stops)
        assert jobs.run(run.job.pk).state == "cancelled"
    return run


def test_a_run_leaves_queries_alone_that_one_under_way_has_planned(logs):
    samples_import(path=logs)
    first = stopped(synthesis_start(branch="imported", wake=False))
    synthesis_resume(first)
    assert run_job(synthesis_start(branch="imported", seed=2, wake=False).job)["planned"] == 0
    assert run_job(first.job)["ready"] == 2


def test_of_two_runs_over_the_same_queries_the_first_to_commit_has_them(logs, monkeypatch):
    samples_import(path=logs)
    first = stopped(synthesis_start(branch="imported", wake=False))
    second = stopped(synthesis_start(branch="imported", seed=2, wake=False))
    commit, resumed = runs._commit, []

    def overtaken(*written):
        if not resumed:
            resumed.append(synthesis_resume(second))
            run_job(second.job)
        commit(*written)

    monkeypatch.setattr(runs, "_commit", overtaken)
    synthesis_resume(first)
    counts = run_job(first.job)
    assert (counts["planned"], counts["ready"], counts["missing"]) == (2, 2, 0)
    assert set(Sample.objects.values_list("run", flat=True)) == {second.pk}
    assert set(Attempt.objects.values_list("sample", "number")) == {
        (pk, 1) for pk in Sample.objects.values_list("pk", flat=True)
    }


def test_traces_are_written_for_imported_queries_which_stay_as_they_are(logs):
    samples_import(path=logs, approve=True)
    before = set(Sample.objects.values_list("query", flat=True))
    counts = run_job(synthesis_start(branch="imported", wake=False).job)
    assert (counts["written"], counts["ready"]) == (2, 2)
    assert set(Sample.objects.values_list("query", flat=True)) == before
    row = Sample.objects.get(query__contains="car")
    assert row.trace.rstrip(".").endswith(("CarPool/BookCar", "CarPool/BookCar it is"))
    assert row.approved_by.endswith("trace by offline, not read")
    assert len(row.pool) > 1 and "CarPool/BookCar" in row.pool
    assert run_job(synthesis_start(branch="imported", wake=False).job)["written"] == 0
