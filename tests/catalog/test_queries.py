"""The near-duplicate index and the firewall around benchmark queries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.core.near_duplicates import THRESHOLD, DuplicateIndex, jaccard, word_set
from catalog.models import LabelledQuery
from catalog.queries.registry import Repeat, benchmark_firewall

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


@pytest.mark.django_db
def test_firewall_sees_exact_and_near_repetitions_of_benchmarks_only() -> None:
    texts = {"benchmark": "send the march invoice to acme again", "import": "cancel the order of acme today"}
    for use, text in texts.items():
        LabelledQuery.objects.create(collection="prb", use=use, text=text, text_key=text, tools=[])
    firewall = benchmark_firewall()
    exact = firewall.check("Send the March invoice to ACME again!")
    assert exact == Repeat("exact", 1.0, "benchmark", "prb", "send the march invoice to acme again")
    near = firewall.check("please send march invoice to acme again")
    assert near is not None and near.kind == "near"
    assert firewall.check("cancel the order of acme today") is None


@pytest.mark.django_db
def test_firewall_is_indexed_again_only_when_the_benchmarks_changed() -> None:
    first = LabelledQuery.objects.create(
        collection="a", use="benchmark", text="one", text_key="one", tools=[]
    )
    before = benchmark_firewall()
    assert benchmark_firewall() is before
    LabelledQuery.objects.create(collection="a", use="benchmark", text="two", text_key="two", tools=[])
    assert benchmark_firewall().check("two")
    first.delete()
    assert benchmark_firewall().check("one") is None
