"""A benchmark is checked line by line, frozen, hashed, and versioned by its content."""

import json

import pytest
from django.core.management import CommandError, call_command

from catalog.core.words import text_key
from catalog.models import LabelledQuery, NeighbourList
from evaluation.benchmarks.services import benchmark_import, probe_benchmarks_build
from evaluation.core.items import parse
from evaluation.models import Benchmark
from tests.factories import make_domain, make_tool
from trace_site.lib.errors import TraceError

MCQ = {
    "tool": "Payroll/GetPayslip",
    "question": "What does it do?",
    "correct": "Reads",
    "wrong": ["Deletes", "Writes"],
}


def write(tmp_path, *rows):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def parsed(kind, *rows, **options):
    return parse(kind, ((f"f.jsonl:{number}", row) for number, row in enumerate(rows, start=1)), **options)


def test_only_the_test_split_is_frozen():
    rows = [{"query": f"q{n}", "tools": ["A/B"], "split": split} for n, split in enumerate(["train", "test"])]
    assert [item.data["query"] for item in parsed("prb", *rows)] == ["q1"]
    with pytest.raises(TraceError, match="no row to evaluate on"):
        parsed("prb", rows[0])


def test_options_are_shuffled_by_seed_and_the_letter_follows_the_correct_one():
    rows = [{**MCQ, "id": str(number)} for number in range(30)]
    items = parsed("mcq", *rows, seed=3)
    assert {item.data["answer"] for item in items} == {"A", "B", "C"}
    for item in items:
        assert item.data["choices"]["ABC".index(item.data["answer"])] == "Reads"
    assert [item.data for item in parsed("mcq", *rows, seed=3)] == [item.data for item in items]
    assert [item.data for item in parsed("mcq", *rows, seed=4)] != [item.data for item in items]


@pytest.mark.parametrize(
    ("kind", "row", "message"),
    [
        ("prb", {"tools": ["A/B"]}, "f.jsonl:1: 'query' must be a text"),
        ("prb", {"query": "q", "tools": []}, "'tools' must be a list of at least 1 text"),
        ("mcq", {**MCQ, "wrong": ["Reads"]}, "none equal to 'correct'"),
        ("qa", {"tool": "A/B", "question": "q", "answer": "Maybe"}, "must be Yes or No, found 'Maybe'"),
        (
            "mcq_expert",
            {"question": "q", "choices": ["a", "b"], "answer": "C"},
            "f.jsonl:1: answer 'C' is not a letter",
        ),
        ("mcq_expert", {"question": "q", "choices": ["a"], "answer": "A"}, "at least 2 texts"),
    ],
)
def test_bad_row_is_refused_with_file_and_line(kind, row, message):
    with pytest.raises(TraceError) as caught:
        parsed(kind, row)
    assert message in str(caught.value)


@pytest.mark.django_db
def test_same_content_is_the_same_version_and_other_content_the_next(tmp_path):
    make_tool("Payroll/GetPayslip")
    rows = [{"query": "my payslip", "tools": ["Payroll/GetPayslip"], "rule": "PAYSLIP_PERIOD"}]
    path = write(tmp_path, *rows)
    first, created = benchmark_import(path=path, kind="prb", name="prb")
    assert created and (first.version, first.count, first.random_baseline) == (1, 1, None)
    assert benchmark_import(path=path, kind="prb", name="prb") == (first, False)
    second, _ = benchmark_import(
        path=write(tmp_path, *rows, {**rows[0], "query": "other"}), kind="prb", name="prb"
    )
    assert (second.version, second.count) == (2, 2)
    item = first.items.get()
    assert item.domain == "hr" and item.data["rule"] == "PAYSLIP_PERIOD"


@pytest.mark.django_db
def test_benchmark_queries_are_registered_so_that_nothing_trains_on_them(tmp_path):
    make_tool("Payroll/GetPayslip")
    row = {"query": "My  payslip!", "tools": ["Payroll/GetPayslip"]}
    benchmark, _ = benchmark_import(
        path=write(tmp_path, row, {**row, "query": "my payslip"}), kind="prb", name="prb"
    )
    entry = LabelledQuery.objects.get(use="benchmark")
    assert entry.text_key == text_key("my payslip") and entry.collection == "prb v1"
    assert set(benchmark.items.values_list("query", flat=True)) == {entry.pk} and benchmark.count == 2


@pytest.mark.django_db
def test_tool_the_catalog_lacks_is_refused_and_nothing_is_written(tmp_path):
    path = write(tmp_path, {"query": "q", "tools": ["Nowhere/Tool"]})
    with pytest.raises(TraceError, match=r"rows.jsonl:1: 'Nowhere/Tool' is not in the catalog"):
        benchmark_import(path=path, kind="prb", name="prb")
    assert not Benchmark.objects.exists() and not LabelledQuery.objects.exists()


@pytest.mark.django_db
def test_name_of_another_kind_is_refused(tmp_path):
    make_tool("Payroll/GetPayslip")
    benchmark_import(
        path=write(tmp_path, {"query": "q", "tools": ["Payroll/GetPayslip"]}), kind="prb", name="x"
    )
    expert = write(tmp_path, {"question": "q", "choices": ["a", "b"], "answer": "B"})
    with pytest.raises(TraceError, match="'x' is a PRB benchmark"):
        benchmark_import(path=expert, kind="mcq_expert", name="x")


@pytest.mark.django_db
def test_expert_questions_keep_their_domain_and_their_chance(tmp_path):
    rows = [
        {"question": "q", "choices": ["a", "b"], "answer": "B", "domain": "HR"},
        {"question": "r", "choices": ["a", "b", "c", "d"], "answer": "A"},
    ]
    benchmark, _ = benchmark_import(path=write(tmp_path, *rows), kind="mcq_expert", name="expert")
    assert benchmark.random_baseline == pytest.approx(0.375)
    assert list(benchmark.items.values_list("domain", flat=True)) == ["hr", "general"]


@pytest.mark.django_db
def test_probes_are_built_from_the_catalog_and_say_so():
    make_domain()
    words = ["bonuses", "leave days", "payslips", "shifts", "goals", "contracts", "reviews", "teams", "tasks"]
    tools = [
        make_tool(f"Hr/Get{n}", description=f"Returns the {word} of one employee.")
        for n, word in enumerate(words, start=1)
    ]
    for tool in tools:
        others = [other.pk for other in tools if other != tool]
        NeighbourList.objects.create(tool=tool, neighbour_ids=others, scores=[0.9] * 8)
    mcq, qa = probe_benchmarks_build(name="demo", count=6)
    assert (mcq.name, mcq.kind, mcq.count, mcq.random_baseline) == ("mcq-ts-demo", "mcq", 6, 0.25)
    assert (qa.name, qa.kind, qa.source) == ("qa-ts-demo", "qa", "built offline from the catalog")
    asked = {item.data["tool"] for item in mcq.items.all()}
    assert len(asked) == 6 and asked < {tool.name for tool in tools}
    assert {item.data["built"] for item in mcq.items.all()} == {"offline"}
    assert probe_benchmarks_build(name="demo", count=6) == [mcq, qa]


@pytest.mark.django_db
def test_import_command_prints_one_object(tmp_path, capsys):
    make_tool("Payroll/GetPayslip")
    path = write(tmp_path, {"query": "q", "tools": ["Payroll/GetPayslip"]})
    call_command("benchmark_import", str(path), kind="prb", name="prb", json=True)
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (result["version"], result["count"], result["created"]) == (1, 1, True)
    with pytest.raises(CommandError, match="does not exist"):
        call_command("benchmark_import", str(tmp_path / "none.jsonl"), kind="prb", name="prb")


def test_the_two_halves_of_a_file_share_no_row_and_only_one_is_for_development(db, tmp_path):
    make_tool(name="Payroll/GetPayslip")
    path = write(
        tmp_path, *({"query": f"my payslip {n}", "tools": ["Payroll/GetPayslip"]} for n in range(40))
    )
    shown, _ = benchmark_import(path=path, kind="prb", name="golden", tier="hard", part="shown")
    development, _ = benchmark_import(
        path=path, kind="prb", name="golden-development", tier="hard", part="development"
    )
    queries = [{item.data["query"] for item in one.items.all()} for one in (shown, development)]
    assert (len(queries[0] | queries[1]), queries[0] & queries[1]) == (40, set())
    assert all(queries)
    assert (shown.is_development, development.is_development) == (False, True)
    with pytest.raises(TraceError, match="is a development hard PRB benchmark"):
        benchmark_import(path=path, kind="prb", name="golden-development", part="shown")


def test_a_request_outside_every_tool_names_none(db, tmp_path):
    frozen, _ = benchmark_import(path=write(tmp_path, {"query": "a taxi"}), kind="outside", name="outside")
    assert [item.data["tools"] for item in frozen.items.all()] == [[]]
    assert LabelledQuery.objects.get().text == "a taxi"
    with pytest.raises(TraceError, match="no tool answers"):
        parsed("outside", {"query": "a taxi", "tools": ["Payroll/GetPayslip"]})
