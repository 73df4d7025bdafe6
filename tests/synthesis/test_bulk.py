"""Bulk approval: only what was opened, by whom it was opened, as it was shown."""

import pytest
from django.core import signing
from django.urls import reverse

from synthesis.batches.services import batch_create
from synthesis.models import Decision, ReviewItem, Sample, SecondShare
from synthesis.review import queue as review_queue
from synthesis.review import services as review_services
from synthesis.review import views_batches as bulk
from synthesis.review.views_batches import MOST, SALT, bulk_approve, bulk_open, bulk_take, held_items
from tests.synthesis.rows import make_benchmark_query, make_book, make_sample, publish
from trace_site.audit.models import AuditEntry
from trace_site.lib.errors import TraceError

pytestmark = pytest.mark.django_db


@pytest.fixture
def version():
    return make_book()


def opened(reviewer, version, count=3):
    """Samples of the rule, taken and opened; (samples, their tokens)."""
    samples = [make_sample(version) for _ in range(count)]
    bulk_take(reviewer=reviewer, version=version)
    rows = {sample.pk: ReviewItem.objects.get(sample=sample).pk for sample in samples}
    return samples, [bulk_open(reviewer=reviewer, item=rows[sample.pk])[2] for sample in samples]


def test_what_was_opened_is_approved_one_decision_each(ada, version):
    samples, tokens = opened(ada, version)
    outcomes = bulk_approve(reviewer=ada, tokens=tokens[:2])
    assert [(one["sample"], one["approved"], one["why"]) for one in outcomes] == [
        (samples[0].pk, True, ""),
        (samples[1].pk, True, ""),
    ]
    rows = Sample.objects.filter(human="approved")
    assert set(rows.values_list("approved_how", "approved_by")) == {("bulk", "ada")}
    assert Decision.objects.filter(reviewer=ada, verdict="approve", policy="").count() == 2
    assert AuditEntry.objects.filter(action="sample.approve", actor=ada).count() == 2
    assert Sample.objects.get(pk=samples[2].pk).human == "pending"


def test_at_most_twenty_are_held_at_once_and_others_get_none_of_them(ada, bob, version):
    for _ in range(MOST + 5):
        make_sample(version)
    assert bulk_take(reviewer=ada, version=version) == MOST
    assert bulk_take(reviewer=ada, version=version) == MOST
    assert bulk_take(reviewer=bob, version=version) == 5
    ours = {item.pk for item in held_items(ada, version)}
    assert not ours & {item.pk for item in held_items(bob, version)}


def test_a_token_is_no_good_forged_another_readers_or_old(ada, bob, version, monkeypatch):
    _, tokens = opened(ada, version)
    forged = signing.dumps({"item": 1, "claim": "x", "seen": "", "user": bob.pk}, key="other", salt=SALT)
    for token, who in ((tokens[0] + "x", ada), (forged, bob), ("", ada), (tokens[0], bob)):
        with pytest.raises(TraceError) as caught:
            bulk_approve(reviewer=who, tokens=[token])
        assert caught.value.code == "not_opened"
    monkeypatch.setattr(bulk, "TOKEN_SECONDS", -1)
    with pytest.raises(TraceError, match="too long ago"):
        bulk_approve(reviewer=ada, tokens=[tokens[0]])
    assert not Decision.objects.exists()


def test_an_item_that_was_not_opened_has_nothing_to_post(ada, version):
    opened(ada, version)
    with pytest.raises(TraceError, match="nothing was ticked"):
        bulk_approve(reviewer=ada, tokens=[])


def test_each_item_stands_for_itself_and_says_what_stood_in_the_way(ada, bob, version):
    samples, tokens = opened(ada, version, 5)
    changed, repeated, lost, decided, good = samples
    Sample.objects.filter(pk=changed.pk).update(query="i need my pay document from December 2022")
    make_benchmark_query(repeated.query)
    item = ReviewItem.objects.get(sample=lost)
    review_queue.release(ada, [item.pk])
    review_queue.claim_item(bob, item.pk)
    review_services.reject(sample=decided, reviewer=ada, reason="leak")
    why = {one["sample"]: one for one in bulk_approve(reviewer=ada, tokens=tokens)}
    assert why[good.pk]["approved"]
    assert not any(why[sample.pk]["approved"] for sample in samples[:4])
    assert "changed" in why[changed.pk]["why"]
    assert "near_duplicate" in why[repeated.pk]["why"]
    assert "bob has it now" in why[lost.pk]["why"]
    assert "otherwise" in why[decided.pk]["why"]
    assert list(Sample.objects.filter(human="approved").values_list("pk", flat=True)) == [good.pk]


def test_the_same_tokens_sent_twice_are_one_decision_each(ada, version):
    _, tokens = opened(ada, version, 2)
    bulk_approve(reviewer=ada, tokens=tokens)
    again = bulk_approve(reviewer=ada, tokens=[*tokens, *tokens])
    assert [one["approved"] for one in again] == [True, True]
    assert Decision.objects.count() == 2


def test_samples_of_two_rule_versions_are_refused_together(ada, version):
    _, tokens = opened(ada, version, 1)
    later = publish(2)
    _, more = opened(ada, later, 1)
    with pytest.raises(TraceError) as caught:
        bulk_approve(reviewer=ada, tokens=tokens + more)
    assert caught.value.code == "mixed_rules"


def test_a_rule_published_anew_meanwhile_stops_it(ada, version):
    _, tokens = opened(ada, version, 1)
    publish(2)
    (outcome,) = bulk_approve(reviewer=ada, tokens=tokens)
    assert not outcome["approved"]
    assert "published anew" in outcome["why"]


def test_a_sample_drawn_for_a_second_reading_goes_there(ada, version):
    SecondShare.objects.create(share=1.0)
    samples, tokens = opened(ada, version, 1)
    (outcome,) = bulk_approve(reviewer=ada, tokens=tokens)
    assert (outcome["approved"], outcome["second"]) == (False, True)
    assert ReviewItem.objects.get(sample=samples[0], round=2).state == "open"


def test_what_filter_v_refuses_by_now_opens_without_a_token(ada, version):
    sample = make_sample(version)
    make_benchmark_query(sample.query)
    bulk_take(reviewer=ada, version=version)
    _, failures, token = bulk_open(reviewer=ada, item=ReviewItem.objects.get().pk)
    assert (token, failures[0].check) == ("", "near_duplicate")


def test_batches_second_readings_and_calibration_are_not_for_bulk(ada, version):
    for _ in range(20):
        make_sample(version)
    batch_create(rule=version.rule.code, actor=ada, seed=1)
    assert bulk_take(reviewer=ada, version=version) == 0
    with pytest.raises(TraceError) as caught:
        bulk_open(reviewer=ada, item=ReviewItem.objects.filter(state="open")[0].pk)
    assert caught.value.code == "not_bulk"


class TestPages:
    def test_a_row_shows_its_texts_closed_and_hands_out_a_token_only_when_opened(self, client, ada, version):
        samples = [make_sample(version) for _ in range(3)]
        client.force_login(ada)
        client.post(reverse("synthesis:bulk_take"), {"rule": version.rule.code})
        page = client.get(reverse("synthesis:review_bulk"), {"rule": version.rule.code})
        text = page.content.decode()
        assert all(sample.query in text for sample in samples)
        assert 'name="token"' not in text
        item = ReviewItem.objects.get(sample=samples[0])
        fragment = client.get(reverse("synthesis:bulk_open", args=[item.pk]))
        assert 'name="token"' in fragment.content.decode()
        assert "span-tool" in fragment.content.decode()
        assert fragment.context["token"]

    def test_posting_tokens_tells_what_became_of_each(self, client, ada, version):
        samples, tokens = opened(ada, version, 2)
        client.force_login(ada)
        Sample.objects.filter(pk=samples[1].pk).update(query="i need my pay document from December 2022")
        answer = client.post(reverse("synthesis:bulk_approve"), {"rule": version.rule.code, "token": tokens})
        assert answer.status_code == 200
        assert [one["approved"] for one in answer.context["outcomes"]] == [True, False]
        assert "it was changed" in answer.content.decode()

    def test_nothing_ticked_is_refused_on_the_page(self, client, ada, version):
        client.force_login(ada)
        answer = client.post(reverse("synthesis:bulk_approve"), {"rule": version.rule.code})
        assert answer.status_code == 422
        assert "nothing was ticked" in answer.content.decode()

    def test_leaving_gives_the_rest_back(self, client, ada, version):
        opened(ada, version, 2)
        client.force_login(ada)
        client.post(reverse("synthesis:bulk_keep"), {"rule": version.rule.code})
        assert held_items(ada, version).count() == 2
        client.post(reverse("synthesis:bulk_release"), {"rule": version.rule.code})
        assert held_items(ada, version).count() == 0

    def test_the_page_needs_few_queries_for_twenty_rows_and_reads_no_trace(
        self, client, ada, version, django_assert_max_num_queries
    ):
        for _ in range(20):
            make_sample(version)
        client.force_login(ada)
        client.post(reverse("synthesis:bulk_take"), {"rule": version.rule.code})
        with django_assert_max_num_queries(12) as seen:
            client.get(reverse("synthesis:review_bulk"), {"rule": version.rule.code})
        assert '"trace"' not in " ".join(query["sql"] for query in seen.captured_queries)
