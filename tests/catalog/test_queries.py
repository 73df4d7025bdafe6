"""The registry of labelled queries and the near-duplicate index."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.core.near_duplicates import THRESHOLD, DuplicateIndex, jaccard, word_set
from catalog.models import LabelledQuery
from catalog.queries import BenchmarkFirewall, few_shot_queries, queries_register, unknown_tools
from tests.factories import make_tool
from trace_site.lib.errors import TraceError

WORDS = ["pay", "slip", "march", "leave", "net", "gross", "old", "new", "tax"]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=9))


@given(TEXTS, TEXTS)
def test_index_finds_what_comparing_all_pairs_finds(left: list[list[str]], right: list[list[str]]) -> None:
    indexed, asked = [" ".join(row) for row in left], [" ".join(row) for row in right]
    index = DuplicateIndex(indexed)
    for text in asked:
        expected = {
            place
            for place, other in enumerate(indexed)
            if other == text or jaccard(word_set(other), word_set(text)) >= THRESHOLD
        }
        assert {duplicate.position for duplicate in index.find(text)} == expected


def test_politeness_does_not_hide_a_duplicate_but_a_month_does() -> None:
    index = DuplicateIndex(["show me my payslip from march"])
    assert [hit.kind for hit in index.find("Show my payslip from March, please")] == ["near"]
    assert [hit.kind for hit in index.find("Show me my payslip from March!")] == ["exact"]
    assert index.find("show me my payslip from april") == []


def rows(*texts: str):
    return [(f"f:{number}", {"query": text, "tools": ["A/x"]}) for number, text in enumerate(texts, start=1)]


@pytest.mark.django_db
def test_registering_twice_adds_nothing() -> None:
    assert queries_register(collection="prb", use="benchmark", rows=rows("one", "two")).added == 2
    again = queries_register(collection="prb", use="benchmark", rows=rows("One!", "two", "three"))
    assert (again.added, again.unchanged) == (1, 2)


@pytest.mark.django_db
def test_one_text_in_two_uses_is_refused_or_left_out() -> None:
    queries_register(collection="prb", use="benchmark", rows=rows("my payslip"))
    with pytest.raises(TraceError, match="f:2: .*already a benchmark query of prb") as caught:
        queries_register(collection="seeds", use="few_shot", rows=rows("other", "My payslip"))
    assert caught.value.code == "overlap"
    assert not few_shot_queries()
    done = queries_register(
        collection="seeds", use="few_shot", rows=rows("other", "My payslip"), skip_overlaps=True
    )
    assert (done.added, [overlap.where for overlap in done.overlaps]) == (1, ["f:2"])


@pytest.mark.django_db
def test_firewall_sees_exact_and_near_repetitions_of_benchmarks_only() -> None:
    queries_register(collection="prb", use="benchmark", rows=rows("send the march invoice to acme again"))
    queries_register(collection="logs", use="import", rows=rows("cancel the order of acme today"))
    firewall = BenchmarkFirewall()
    assert len(firewall) == 1
    assert firewall.check("Send the March invoice to ACME again!").kind == "exact"
    assert firewall.check("please send march invoice to acme again").kind == "near"
    assert firewall.check("cancel the order of acme today") is None


@pytest.mark.django_db
def test_bad_rows_name_their_place() -> None:
    with pytest.raises(TraceError, match="f:1: 'query' must be text"):
        queries_register(collection="c", use="import", rows=[("f:1", {"query": " ", "tools": []})])
    make_tool("A/x")
    assert unknown_tools([("f:1", {"tools": ["A/x"]}), ("f:2", {"tools": ["A/y"]})]) == [
        "f:2: 'A/y' is not in the catalog."
    ]
    assert not LabelledQuery.objects.exists()
