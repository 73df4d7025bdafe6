"""Lists and the queue read no trace, as many queries for one page as for another, and find their rows by an index."""

import re
from itertools import combinations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from synthesis.generate.selectors import tell_counts
from synthesis.models import Attempt, ReviewItem, Sample
from synthesis.review.queue import take_next
from synthesis.samples import selectors as samples_selectors
from synthesis.samples.counts import fold
from synthesis.samples.selectors import Search
from tests.factories import make_domain, make_rule, make_sample, make_tool

pytestmark = pytest.mark.django_db
LISTS = (
    "/synthesis/samples/",
    "/synthesis/samples/?human=pending",
    "/synthesis/samples/?q=pay",
    "/synthesis/samples/?check=leakage&domain=hr",
    "/synthesis/samples/?after=last",
    "/synthesis/samples/?rule=PAY&version=1&reason=leak",
    "/synthesis/samples/rules/",
    "/synthesis/",
    "/synthesis/review/count/",
    "/synthesis/yield/",
    "/api/v1/synthesis/samples",
    "/api/v1/synthesis/samples?style=explicit&human=pending",
)
READS = re.compile(r'"?synthesis_(sample|attempt)"?\."?trace"?')


@pytest.fixture
def many(db):
    """25,000 samples of three domains, most of them rejected, with an attempt each; planned as they are."""
    with connection.cursor() as cursor:  # rows that earlier tests took back would count for the planner
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("TRUNCATE synthesis_sample, synthesis_samplecount CASCADE")
        cursor.execute("SET LOCAL session_replication_role = origin")
    rule = make_rule(make_tool(), make_tool())
    one = make_sample(rule=rule, tools=[make_tool(), make_tool()])
    columns = [f.column for f in Sample._meta.concrete_fields if f.column not in ("id", "key", "content")]
    names = ", ".join(columns)
    for slug in ("hr", "fi", "it"):
        make_domain(slug)
    values = {
        "domain_id": "(ARRAY['hr', 'hr', 'hr', 'hr', 'fi', 'it'])[1 + n % 6]",
        "human": "CASE WHEN n % 50 = 0 THEN 'pending' ELSE 'rejected' END",
        "query": "CASE WHEN n % 5000 = 7 THEN 'an unusual zeppelin' ELSE 'the usual payslip' END",
    }
    picked = ", ".join(values.get(name, f"s.{name}") for name in columns)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO synthesis_sample (key, {names}) SELECT 'many ' || n, {picked} "
            f"FROM synthesis_sample s, generate_series(1, 25000) n WHERE s.id = {one.pk}"
        )
        cursor.execute(
            "INSERT INTO synthesis_attempt (sample_id, number, query, trace, answer, outcome, filter_failures, judge, "
            "critique, error, error_code, calls, at) SELECT id, 1, query, trace, '[]', "
            "CASE WHEN id % 4 = 0 THEN 'filtered' ELSE 'ready' END, "
            """CASE WHEN id % 4000 = 0 THEN '[{"check": "leakage"}]' ELSE '[{"check": "length"}]' END::jsonb, """
            "'{}', '', '', '', 1, now() FROM synthesis_sample"
        )
        cursor.execute(
            "ANALYZE synthesis_sample, synthesis_attempt, synthesis_reviewitem, synthesis_samplecount"
        )


def plans(queries: list[dict[str, str]]) -> list[str]:
    """The scans of every table of samples, attempts or items that these statements make, as Postgres plans them."""
    found = []
    with connection.cursor() as cursor:
        for query in queries:
            if query["sql"].lstrip().startswith(("SELECT", "WITH", "UPDATE")):
                cursor.execute("EXPLAIN " + query["sql"])
                found += [line for (line,) in cursor.fetchall() if "Scan" in line]
    return [line for line in found if re.search("synthesis_(sample|attempt|reviewitem)\\b", line)]


@pytest.mark.parametrize("address", LISTS)
def test_no_list_reads_a_trace(client_as, address):
    row = make_sample(machine="dropped")
    make_sample()
    Attempt.objects.create(sample=row, number=1, outcome="filtered", filter_failures=[{"check": "leakage"}])
    client = client_as("admin")
    client.get(address)
    with CaptureQueriesContext(connection) as queries:
        assert client.get(address).status_code == 200
    assert [one["sql"] for one in queries if READS.search(one["sql"])] == []


FILTERS = {
    "domain": "it",
    "human": "pending",
    "machine": "dropped",
    "approved_how": "bulk",
    "writer": "llm",
    "q": "zeppelin",
    "check": "leakage",
    "style": "explicit",
}


def test_no_combination_of_two_filters_reads_a_table_from_end_to_end(many):
    for names in combinations(FILTERS, 2):
        with CaptureQueriesContext(connection) as queries:
            samples_selectors.samples({name: FILTERS[name] for name in names})
        assert [(names, line) for line in plans(queries.captured_queries) if "Seq Scan" in line] == []


def test_a_list_finds_what_a_full_search_finds_on_its_first_and_last_pages(many):
    for names in [*combinations(FILTERS, 1), *combinations(FILTERS, 2)]:
        filters = {name: FILTERS[name] for name in names}
        expected = list(Search(filters).rows().order_by("-pk").values_list("pk", flat=True))
        page = samples_selectors.sample_page(Search(filters))
        found = [row.pk for row in page.rows]
        if page.next_key:
            found += [row.pk for row in samples_selectors.sample_page(Search(filters), page.next_key).rows]
        assert (names, found) == (names, expected[:100])
        last = samples_selectors.sample_page(Search(filters), samples_selectors.LAST)
        assert (names, [row.pk for row in last.rows]) == (names, expected[-50:])


def test_a_common_word_with_a_rare_status_is_counted_to_the_last(many):
    filters = {"q": "payslip", "human": "pending"}
    found = samples_selectors.samples(filters)
    assert (found.total, found.more) == (Search(filters).rows().count(), False)


def test_the_list_of_runs_counts_anew_only_when_a_sample_changed(db):
    sample = make_sample(machine="ready")
    run = sample.run

    def told() -> tuple[int, int]:
        tell_counts([run])
        return run.planned, run.approved

    assert told() == (1, 0)
    with CaptureQueriesContext(connection) as queries:
        assert told() == (1, 0)
    assert len(queries) == 1
    Sample.objects.filter(pk=sample.pk).update(human="approved")
    assert told() == (1, 1)
    fold(0)
    make_sample(run=run)
    assert told() == (2, 1)


def test_a_claim_of_what_the_counts_know_nothing_of_looks_through_no_item(many, user_with):
    reviewer = user_with("reviewer")
    with CaptureQueriesContext(connection) as queries:
        assert take_next(reviewer.pk, {"tier": "hard"}, ()) is None
    with connection.cursor() as cursor:
        for query in queries.captured_queries:
            cursor.execute("EXPLAIN ANALYZE " + query["sql"])
            assert "never executed" in (plan := "\n".join(line for (line,) in cursor.fetchall()))
            passed = [int(count) for count in re.findall(r"Rows Removed by Filter: (\d+)", plan)]
            assert max(passed, default=0) < 50  # of the counts' few rows, not of the items


def test_a_claim_finds_its_item_by_an_index(many, user_with):
    reviewer = user_with("reviewer")
    assert ReviewItem.objects.filter(state="open").count() > 400
    for filters in ({}, {"domain": "fi"}, {"round": 1, "style": "explicit"}):
        with CaptureQueriesContext(connection) as queries:
            assert take_next(reviewer.pk, filters, ()) is not None
        assert [line for line in plans(queries.captured_queries) if "Seq Scan" in line] == []
