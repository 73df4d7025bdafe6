"""Real queries on their way into the registry: scrubbed, refused with a reason, apart from every benchmark."""

import json
import threading

import pytest
from django.db import connection, connections, transaction

from catalog.models import LabelledQuery
from catalog.queries.imports import (
    GivenQuery,
    import_counts,
    queries_import,
    queries_preview,
    query_remove,
    read_queries,
)
from catalog.queries.registry import few_shots_withdraw, registry_lock
from evaluation.benchmarks.services import benchmark_import
from tests.factories import make_tool
from tests.synthesis.rows import make_benchmark_query
from trace_site.audit.models import AuditChange, AuditEntry
from trace_site.lib.errors import TraceError

pytestmark = pytest.mark.django_db


def rows(*texts: str) -> list[GivenQuery]:
    return [GivenQuery(number, text) for number, text in enumerate(texts, start=1)]


def take(*texts: str, **options):
    return queries_import(given=rows(*texts), collection="desk", actor=None, **options)


def test_only_scrubbed_texts_reach_the_database_and_its_audit():
    done = take("please change the iban of Dana Ruiz to DE89 3704 0044 0532 0130 00")
    row = LabelledQuery.objects.get()
    assert (row.use, row.collection, row.text) == (
        "few_shot",
        "desk",
        "please change the iban of [name] to [IBAN]",
    )
    assert row.extra == {"replaced": ["name", "IBAN"]}
    assert import_counts(done) == {
        "added": 1,
        "refused": 0,
        "reasons": {},
        "replaced": {"name": 1, "IBAN": 1},
    }
    kept = json.dumps(
        [*AuditEntry.objects.values("detail", "object_label"), *AuditChange.objects.values("before", "after")]
    )
    assert "[IBAN]" in kept and "Dana" not in kept and "3704" not in kept


def test_a_preview_shows_what_stood_where_and_stores_nothing():
    (one,) = queries_preview(rows("mail dana.r@example.com my payslip"))
    assert one.replaced == [("e-mail", "dana.r@example.com", "[e-mail]")]
    assert one.text == "mail [e-mail] my payslip" and not one.code
    assert not LabelledQuery.objects.exists()


def test_what_looks_like_a_name_may_be_none_and_other_findings_stay_out():
    take("book a table at Maria Gonzales cafe, mail x@example.com", no_person=[1])
    assert LabelledQuery.objects.get().text == "book a table at Maria Gonzales cafe, mail [e-mail]"


@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        ("payslip please", "too_short", "has 2 words of its own"),
        ("[name] [name] [IBAN] payslip", "too_short", "has 1 word of its own"),
        ("word " * 61, "too_long", "has 61 words"),
        ("x" * 5000, "too_long", "5,000 characters"),
        ("run PayNova/GetPayslip for march", "names_tool", "names the tool PayNova/GetPayslip"),
        ("call getpayslip for march now", "names_tool", "names the tool getpayslip"),
        ("what does <<PayNova&&GetPayslip>> do", "names_tool", "holds the token"),
        ("does PAYSLIP_PERIOD apply to me", "names_tool", "reads like a rule's code"),
        ("where is my badge for tower two", "benchmark", "is a query of the benchmark prb"),
        ("Where is my badge for the tower two?", "benchmark", "is nearly a query of the benchmark prb"),
        ("how many days off are left", "duplicate", "is another real query (old)"),
    ],
)
def test_what_may_not_enter_is_refused_with_its_reason(text, code, reason):
    make_tool("PayNova/GetPayslip")
    make_benchmark_query("where is my badge for tower two")
    queries_import(given=rows("how many days off are left"), collection="old", actor=None)
    (one,) = queries_preview(rows(text))
    assert one.code == code and reason in one.reason
    assert (
        import_counts(take(text))["refused"] == 1
        and LabelledQuery.objects.filter(use="few_shot").count() == 1
    )


def test_plain_words_of_a_tools_title_are_how_people_ask():
    make_tool("PayNova/GetPayslip")
    make_tool("Travel/Book hotel room")
    assert not any(
        one.code for one in queries_preview(rows("get payslip of march 2024", "book hotel room in ghent"))
    )


def test_the_second_of_two_equal_rows_is_refused_and_a_refused_row_blocks_nobody():
    done = take(
        "who approves my trip to ghent",
        "Who approves my trip to Ghent?",
        "trip",
        "lunch with the auditors on monday",
    )
    assert [one.number for one in done if one.code] == [2, 3]
    assert done[1].reason == "is row 1"
    assert [one.code for one in take("who approves my trip to ghent")] == ["duplicate"]
    shouted = queries_preview(
        rows("A_B who pays the trip to rome", "who pays the trip to rome A_B", "who pays the trip to rome")
    )
    assert [one.code for one in shouted] == ["names_tool", "names_tool", ""]


def test_a_benchmark_that_comes_later_takes_out_the_few_shots_it_repeats(tmp_path):
    make_tool("Payroll/GetPayslip")
    take("my payslip of march 2024 please", "who approves my trip to ghent")
    path = tmp_path / "prb.jsonl"
    path.write_text(
        json.dumps({"query": "please, my payslip of March 2024!", "tools": ["Payroll/GetPayslip"]})
    )
    benchmark_import(path=path, kind="prb", name="prb")
    assert list(LabelledQuery.objects.filter(use="few_shot").values_list("text", flat=True)) == [
        "who approves my trip to ghent"
    ]
    assert AuditEntry.objects.get(action="query.removed").detail == {
        "collection": "desk",
        "because": "repeats prb v1",
    }
    assert queries_preview(rows("my payslip of march 2024 please"))[0].code == "benchmark"


@pytest.mark.django_db(transaction=True)
def test_a_benchmark_and_a_few_shot_that_arrive_together_cannot_pass_each_other():
    started, done = threading.Event(), threading.Event()

    def few_shot() -> None:
        started.set()
        try:
            take("my payslip of march 2024 please")
        finally:
            connections.close_all()
            done.set()

    with transaction.atomic():
        registry_lock()
        other = threading.Thread(target=few_shot)
        other.start()
        started.wait(5)
        assert not done.wait(0.3), "it waits for the lock"
        few_shots_withdraw(texts=["my payslip of march 2024 please"], because="prb v1", actor=None)
        make_benchmark_query("my payslip of march 2024 please")
    other.join(10)
    assert not LabelledQuery.objects.filter(use="few_shot").exists()
    connection.close()


def test_removing_is_noted_and_other_uses_stay():
    take("who approves my trip to ghent")
    row = LabelledQuery.objects.get()
    query_remove(row=row, actor=None)
    assert not LabelledQuery.objects.exists()
    assert AuditEntry.objects.get(action="query.removed").object_label == "who approves my trip to ghent"
    with pytest.raises(TraceError, match="only real queries"):
        query_remove(row=make_benchmark_query("x y z"), actor=None)


@pytest.mark.parametrize(
    ("content", "name", "texts"),
    [
        ("one a b\n\n two c d \r\n", "q.txt", ["one a b", "two c d"]),
        (b"\xef\xbb\xbfone a b", "", ["one a b"]),
        ('{"query": "one a b"}\n"two c d"\n{"text": "three"}', "q.jsonl", ["one a b", "two c d", "three"]),
        ('{"query": "one a b"}', "", ["one a b"]),
        ('id,query\n1,"one, a b"\n2,two\n', "q.csv", ["one, a b", "two"]),
        ("one a b\ntwo c d", "q.csv", ["one a b", "two c d"]),
        ("query;id\none a, b;1", "q.csv", ["one a, b"]),
        ("id\tquestion\n1\tone", "q.tsv", ["one"]),
    ],
)
def test_files_are_read_by_what_they_are(content, name, texts):
    assert [row.text for row in read_queries(content, name)] == texts


@pytest.mark.parametrize(
    ("content", "name", "said"),
    [
        (b"\xff\xfe\x00", "q.txt", "q.txt:1:1: not UTF-16"),
        ("a\0b", "q.txt", "NUL"),
        (" \n ", "q.txt", "holds no query"),
        ("x y z\n" * 2001, "q.txt", "2,001 queries"),
        ("x" * 1_000_001, "q.txt", "the limit is 1,000,000"),
        ('{"query": "secret"}\n{"query": ', "q.jsonl", "q.jsonl:2: not valid JSON"),
        ('{"question_id": 7}', "q.jsonl", 'q.jsonl:1: has no text under "query"'),
        ("a,b\n1,2", "q.csv", "names no column"),
        ('query\n"open', "q.csv", "q.csv:2: not valid CSV: a quotation mark is opened here"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_by_row_without_its_text(content, name, said):
    with pytest.raises(TraceError) as caught:
        read_queries(content, name)
    assert said in str(caught.value) and "secret" not in str(caught.value)


def test_the_demos_requests_all_enter_beside_its_benchmark(settings):
    folder = settings.BASE_DIR / "trace_site" / "demo"
    LabelledQuery.objects.bulk_create(
        LabelledQuery(collection="prb", use="benchmark", text=row["query"], text_key=row["id"], tools=[])
        for row in map(json.loads, (folder / "prb.jsonl").read_text("utf-8").splitlines())
    )
    for line in [*(folder / "hr_tools.jsonl").open(), *(folder / "finance_tools.jsonl").open()]:
        make_tool(json.loads(line)["name"])
    given = read_queries((folder / "real_queries.txt").read_bytes(), "real_queries.txt")
    done = queries_import(given=given, collection="demo", actor=None)
    assert import_counts(done)["added"] == len(given) >= 36 and import_counts(done)["replaced"]["name"] == 3
