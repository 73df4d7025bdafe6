"""Decisions: one winner, a reason for every refusal, undo of one's own, a filter in front of every edit."""

import pytest

from synthesis.models import Decision, Sample
from synthesis.review import queue as review_queue
from synthesis.review import services as review_services
from synthesis.samples.checks import check
from tests.synthesis.rows import make_benchmark_query, make_book, make_sample
from tests.synthesis.texts import TRACE
from trace_site.audit.models import AuditEntry
from trace_site.lib.errors import TraceError

pytestmark = pytest.mark.django_db


def test_of_two_reviewers_one_wins(ada, bob):
    sample = make_sample(make_book())
    review_services.approve(sample=sample.pk, reviewer=ada)
    with pytest.raises(TraceError) as caught:
        review_services.reject(sample=sample, reviewer=bob, reason="leak")
    assert caught.value.code == "conflict"
    sample.refresh_from_db()
    assert (sample.human, sample.approved_by) == ("approved", "ada")
    assert Decision.objects.count() == 1


def test_a_text_changed_after_it_was_read_is_not_approved(ada):
    sample = make_sample(make_book())
    Sample.objects.filter(pk=sample.pk).update(query="something else entirely")
    with pytest.raises(TraceError) as caught:
        review_services.approve(sample=sample, reviewer=ada)
    assert caught.value.code == "conflict"


def test_a_refusal_needs_a_reason(ada):
    sample = make_sample(make_book())
    with pytest.raises(TraceError, match="choose a reason"):
        review_services.reject(sample=sample, reviewer=ada, reason="")
    review_services.reject(sample=sample, reviewer=ada, reason="unnatural", note="robotic")
    assert Decision.objects.get().reason == "unnatural"
    assert AuditEntry.objects.filter(action="sample.reject").exists()


def test_an_edit_adds_no_personal_data_and_leaves_what_stood_there(ada):
    sample = make_sample(make_book(), query="where is the slip of Anna Weber")
    asked = "where is the slip of Anna Weber, IBAN DE89 3704 0044 0532 0130 00"
    review_services.edit(sample=sample, reviewer=ada, query=asked, trace=TRACE)
    sample.refresh_from_db()
    assert sample.query == "where is the slip of Anna Weber, IBAN [IBAN]"


def test_an_edit_is_filtered_before_it_is_approved(ada):
    sample = make_sample(make_book())
    with pytest.raises(TraceError) as caught:
        review_services.edit(
            sample=sample.pk, reviewer=ada, query="run PayOne/GetPayslip for November 2022", trace=TRACE
        )
    assert caught.value.code == "filtered"
    assert caught.value.extra["failures"][0]["check"] == "leakage"
    assert Sample.objects.get().human == "pending"
    review_services.edit(
        sample=sample.pk, reviewer=ada, query="where is my November 2022 pay document", trace=TRACE
    )
    row = Sample.objects.get()
    assert (row.human, row.query) == ("approved", "where is my November 2022 pay document")


def test_an_edit_may_not_copy_a_benchmark(ada):
    sample = make_sample(make_book())
    make_benchmark_query("where is my November 2022 pay document")
    found = check(sample=sample, query="Where is my November 2022 pay document?", trace=TRACE)
    assert [failure.check for failure in found] == ["near_duplicate"]


def test_undo_takes_back_ones_own_last_decisions_one_by_one(ada, bob):
    version = make_book()
    first, second, others = make_sample(version), make_sample(version), make_sample(version)
    review_services.approve(sample=first.pk, reviewer=ada)
    review_services.edit(
        sample=second.pk, reviewer=ada, query="where is my November 2022 pay document", trace=TRACE
    )
    review_services.approve(sample=others.pk, reviewer=bob)
    assert review_services.undo(reviewer=ada).pk == second.pk
    assert Sample.objects.get(pk=second.pk).query == second.query
    assert review_services.undo(reviewer=ada).pk == first.pk
    assert set(Sample.objects.filter(pk__in=[first.pk, second.pk]).values_list("human", flat=True)) == {
        "pending"
    }
    with pytest.raises(TraceError, match="no decision to undo"):
        review_services.undo(reviewer=ada)
    assert Sample.objects.get(pk=others.pk).human == "approved"
    with pytest.raises(TraceError, match="ada has it now"):
        review_services.approve(sample=first.pk, reviewer=bob)
    review_queue.release(ada)
    review_services.approve(sample=first.pk, reviewer=bob)


def test_a_policy_says_on_every_sample_what_it_was():
    version = make_book()
    for _ in range(5):
        make_sample(version)
    make_sample(version, machine="dropped")
    assert review_services.policy_approve(count=2, seed=1) == {"approved": 2, "waiting": 3}
    assert review_services.policy_approve(count=None) == {"approved": 3, "waiting": 0}
    rows = Sample.objects.filter(human="approved")
    assert rows.count() == 5
    assert all(row.approved_by.startswith("policy auto-approve") for row in rows)
    assert Decision.objects.filter(policy__contains="none read").count() == 5
    assert AuditEntry.objects.filter(action="review.policy").count() == 2


def test_other_as_a_reason_needs_a_note(ada):
    sample = make_sample(make_book())
    with pytest.raises(TraceError, match="say in the note"):
        review_services.reject(sample=sample, reviewer=ada, reason="other", note="  ")
    assert (
        review_services.reject(sample=sample, reviewer=ada, reason="other", note="wrong year").human
        == "rejected"
    )


def test_texts_that_nobody_would_read_are_refused_before_the_filter_has_to(ada):
    sample = make_sample(make_book())
    with pytest.raises(TraceError, match="the trace has 20,001 characters; 20,000 fit"):
        review_services.edit(sample=sample, reviewer=ada, query="where is it", trace="x" * 20_001)
    with pytest.raises(TraceError, match="the note has 2,001"):
        review_services.reject(sample=sample, reviewer=ada, reason="leak", note="x" * 2_001)
    assert Decision.objects.count() == 0
