"""Claims: one holder at a time, an order that is fair, leases that end, and nothing that is shut in for ever."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.db.models.functions import Now

from synthesis.models import ReviewItem, Sample, SecondShare, SynthesisRun
from synthesis.review import queue as review_queue
from synthesis.review import services as review_services
from synthesis.review.selectors import queue_state
from tests.factories import make_domain, make_rule, make_sample, make_tool
from trace_site.lib.errors import TraceError

pytestmark = pytest.mark.django_db


@pytest.fixture
def samples():
    tools = [make_tool("New/GetSlip"), make_tool("Old/GetSlip")]
    rule = make_rule(*tools, code="SLIP_YEAR")
    return [make_sample(rule=rule, tools=tools) for _ in range(4)]


def item_of(sample, round=1):
    return ReviewItem.objects.get(sample=sample, round=round)


def end_leases(**which):
    rows = ReviewItem.objects.filter(state="claimed", **which)
    return rows.update(claimed_until=Now() - timedelta(seconds=1))


def next_sample(reviewer, filters=None, **options):
    item = review_queue.claim_next(reviewer, filters, **options)
    return item and item.sample_id


def test_what_one_holds_comes_back_under_the_same_claim(ada, samples):
    first, again = review_queue.claim_next(ada), review_queue.claim_next(ada)
    assert (first.pk, first.claim) == (again.pk, again.claim)
    ahead = review_queue.claim_next(ada, besides=[first.pk])
    assert ahead.sample_id == samples[1].pk
    assert review_queue.claim_next(ada, besides=[first.pk]).claim == ahead.claim


def test_two_reviewers_never_hold_the_same_item(ada, bob, samples):
    held = [next_sample(who, besides=besides) for who, besides in ((ada, []), (bob, []))]
    assert held == [samples[0].pk, samples[1].pk]
    with pytest.raises(TraceError, match="ada has it now, for 5 min") as caught:
        review_queue.claim_item(bob, item_of(samples[0]).pk)
    assert caught.value.code == "conflict"


def test_one_claim_names_one_item(ada, samples):
    item = review_queue.claim_next(ada)
    with pytest.raises(IntegrityError, match="one_item_a_claim"), transaction.atomic():
        ReviewItem.objects.filter(sample=samples[1]).update(claim=item.claim)


def test_assigned_items_are_met_first_and_by_nobody_else(ada, bob, samples):
    ReviewItem.objects.filter(sample=samples[2]).update(assigned_to=ada)
    assert next_sample(ada) == samples[2].pk
    review_queue.release(ada)
    with pytest.raises(TraceError, match="assigned to ada"):
        review_queue.claim_item(bob, item_of(samples[2]).pk)
    taken = [
        next_sample(bob, besides=list(ReviewItem.objects.filter(claimed_by=bob).values_list("pk", flat=True)))
        for _ in range(4)
    ]
    assert taken == [samples[0].pk, samples[1].pk, samples[3].pk, None]


def test_adjudications_come_before_first_readings(ada, samples):
    Sample.objects.filter(pk=samples[3].pk).update(human="disputed")
    assert next_sample(ada) == samples[3].pk


def test_what_one_skipped_comes_last_the_longest_ago_first_and_is_free_for_others(ada, bob, samples):
    for sample in (samples[1], samples[0]):
        review_queue.skip(ada, review_queue.claim_item(ada, item_of(sample).pk).pk)
    ReviewItem.objects.filter(sample__in=samples[3:]).update(state="held")
    met = []
    for _ in range(3):
        item = review_queue.claim_next(ada)
        met.append(item.sample_id)
        review_services.approve(sample=item.sample_id, reviewer=ada, claim=item.claim)
        if len(met) == 1:
            assert next_sample(bob) == samples[0].pk
            review_queue.release(bob)
    assert met == [samples[2].pk, samples[1].pk, samples[0].pk]


def test_filters_narrow_what_is_claimed(ada, samples):
    other = make_sample(tier="hard")
    assert next_sample(ada, {"tier": "hard"}) == other.pk
    review_queue.release(ada)
    assert next_sample(ada, {"branch": "rrb", "domain": "hr"}) == other.pk
    review_queue.release(ada)
    assert next_sample(ada, {"rule": "SLIP_YEAR", "style": "explicit", "round": 1}) == samples[0].pk
    assert next_sample(ada, {"rule": "NO_SUCH"}) is None


def test_a_lease_ends_by_the_databases_clock_and_one_sweep_brings_all_back(ada, bob, samples):
    items = [review_queue.claim_item(ada, item_of(sample).pk) for sample in samples[:3]]
    assert review_queue.sweep() == 0
    end_leases(pk__in=[item.pk for item in items])
    assert review_queue.sweep() == 3
    assert ReviewItem.objects.filter(state="open", claimed_by=None, claimed_until=None).count() == 4
    assert review_queue.sweep() == 0


def test_an_empty_queue_sweeps_before_it_says_so(ada, bob, samples):
    for sample in samples:
        review_queue.claim_item(ada, item_of(sample).pk)
    assert review_queue.claim_next(bob) is None
    end_leases(sample=samples[2])
    assert next_sample(bob) == samples[2].pk


def test_a_heartbeat_renews_a_lease_also_one_that_was_swept_and_nobody_took(ada, bob, samples):
    item = review_queue.claim_next(ada)
    end_leases()
    review_queue.heartbeat(ada, item.pk, item.claim)
    assert review_queue.sweep() == 0
    end_leases()
    review_queue.sweep()
    review_queue.heartbeat(ada, item.pk, item.claim)
    assert (item_of(samples[0]).claimed_by, item_of(samples[0]).claim) == (ada, item.claim)
    end_leases()
    review_queue.sweep()
    review_queue.claim_item(bob, item.pk)
    with pytest.raises(TraceError, match="bob has it now"):
        review_queue.heartbeat(ada, item.pk, item.claim)


def test_who_came_back_late_may_decide_until_somebody_else_has_taken_the_item(ada, bob, samples):
    kept, lost = (review_queue.claim_item(ada, item_of(sample).pk) for sample in samples[:2])
    end_leases()
    review_queue.sweep()
    review_services.approve(sample=samples[0].pk, reviewer=ada, claim=kept.claim)
    review_queue.claim_item(bob, lost.pk)
    with pytest.raises(TraceError, match="bob has it now"):
        review_services.approve(sample=samples[1].pk, reviewer=ada, claim=lost.claim)
    assert Sample.objects.get(pk=samples[1].pk).human == "pending"


@pytest.mark.parametrize("gone", ["deactivated", "without a role"])
def test_claims_of_who_may_no_longer_review_come_back_at_once(gone, ada, bob, samples):
    review_queue.claim_next(ada)
    boss = User.objects.create_superuser("boss")
    review_queue.claim_next(boss)
    if gone == "deactivated":
        User.objects.filter(pk=ada.pk).update(is_active=False)
    else:
        ada.groups.clear()
    assert review_queue.sweep() == 1
    assert item_of(samples[1]).claimed_by == boss
    assert next_sample(bob) == samples[0].pk


def test_what_is_given_back_is_not_decided_by_a_page_left_open(ada, samples):
    item = review_queue.claim_next(ada)
    assert review_queue.release(ada) == 1
    with pytest.raises(TraceError, match="opened anew"):
        review_services.approve(sample=item.sample_id, reviewer=ada, claim=item.claim)


def test_a_batch_holds_what_it_does_not_read(ada, samples):
    ReviewItem.objects.update(state="held")
    assert review_queue.claim_next(ada) is None
    with pytest.raises(TraceError, match="its batch holds it"):
        review_queue.claim_item(ada, item_of(samples[0]).pk)
    assert queue_state(ada, {})["held"] == 4


def test_an_empty_queue_says_why_in_numbers(ada, bob, user_with, samples):
    cid, dan = user_with("reviewer", username="cid"), user_with("reviewer", username="dan")
    SecondShare.objects.create(share=1.0)
    for who, verdict in ((ada, "unnatural"), (bob, "leak")):
        review_services.reject(sample=samples[0].pk, reviewer=who, reason=verdict)
    review_services.approve(sample=samples[1].pk, reviewer=bob)
    review_services.reject(sample=samples[1].pk, reviewer=ada, reason="leak")
    ReviewItem.objects.filter(sample=samples[2]).update(assigned_to=cid)
    other = make_sample(tier="hard")
    ReviewItem.objects.filter(sample=other).update(state="held")
    review_queue.claim_item(dan, item_of(samples[3]).pk)
    assert Sample.objects.get(pk=samples[0].pk).human == "rejected"  # both refused it
    assert review_queue.claim_next(ada) is None
    state = queue_state(ada, {})
    assert state.pop("frees_at") == item_of(samples[3]).claimed_until
    assert state == {
        "left": 3,
        "claimed_by_others": 1,
        "assigned_to_others": 1,
        "read_by_you": 1,
        "adjudications_read_by_you": 1,
        "held": 1,
        "elsewhere": 0,
    }
    assert queue_state(ada, {"tier": "hard"})["elsewhere"] == 3


def test_why_a_queue_is_empty_takes_the_same_queries_however_much_waits(
    ada, samples, django_assert_num_queries
):
    with django_assert_num_queries(4):
        queue_state(ada, {"domain": "hr"})
    for sample in samples:
        make_sample(rule=sample.rule_version.rule, tools=[make_tool(), make_tool()])
    with django_assert_num_queries(4):
        queue_state(ada, {"domain": "hr"})


def test_the_next_item_takes_one_query_and_reads_no_sample(ada, samples, django_assert_num_queries):
    with django_assert_num_queries(1) as caught:
        review_queue.claim_next(ada, {"domain": "hr"})
    assert '"synthesis_sample"' not in caught[0]["sql"]


@pytest.mark.django_db(transaction=True)
def test_threads_claim_each_item_once_and_one_sweep_frees_them_all(user_with):
    run, domain = SynthesisRun.objects.create(branch="rrb", writer="offline"), make_domain()
    Sample.objects.bulk_create(  # the trigger makes their items
        Sample(run=run, key=f"claimed-{number}", branch="rrb", domain=domain, seed=number, machine="ready")
        for number in range(150)
    )
    reviewers = [user_with("reviewer", username=f"claimer-{number}") for number in range(6)]
    with ThreadPoolExecutor(len(reviewers)) as pool:
        found = sorted(pk for claimed in pool.map(claim_until_empty, reviewers) for pk in claimed)
    assert found == sorted(ReviewItem.objects.values_list("pk", flat=True)) and len(found) == 150
    late = {"state": "claimed", "claimed_by": reviewers[0], "claimed_until": Now() - timedelta(seconds=1)}
    ReviewItem.objects.update(decided_by=None, **late)
    assert review_queue.sweep() == 150
    assert not ReviewItem.objects.exclude(state="open").exists()


def claim_until_empty(reviewer):
    """Ids of what one thread claimed; ten at a time are put away as decided."""
    found, held = [], []
    try:
        while (item := review_queue.claim_next(reviewer, besides=held)) is not None:
            held.append(item.pk)
            found.append(item.pk)
            if len(held) == 10:
                put_away(reviewer, held)
                held = []
        put_away(reviewer, held)
    finally:
        connection.close()
    return found


def put_away(reviewer, held):
    mine = ReviewItem.objects.filter(pk__in=held, claimed_by=reviewer)
    mine.update(state="decided", decided_by=reviewer, claimed_by=None, claimed_until=None)
