"""Two transactions at once: whoever comes second sees the first, and the queue says what samples and rules say."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection, transaction

from rules.models import Rule, RuleVersion
from synthesis.models import Decision, ReviewItem, Sample, SecondShare
from synthesis.review import queue as review_queue
from synthesis.review import services as review_services
from synthesis.review.queue import wrong_items
from tests.factories import make_rule, make_sample, make_tool
from trace_site.lib.errors import TraceError

pytestmark = pytest.mark.django_db(transaction=True)
TIMES = 8


@pytest.fixture
def people():
    group = Group.objects.get_or_create(name="reviewer")[0]
    made = [User.objects.create_user(name) for name in ("ada", "bob", "cid")]
    for one in made:
        one.groups.add(group)
    return made


@pytest.fixture
def rule():
    return make_rule(make_tool("New/GetSlip"), make_tool("Old/GetSlip"), code="SLIP_YEAR")


def sample_of(rule, **more):
    tools = [rule.published.target, make_tool()]
    return make_sample(rule=rule, tools=tools, **more)


def at_once(*work):
    """What each gave: "done", or the code of its TraceError."""
    ready = threading.Barrier(len(work))

    def run(one):
        try:
            ready.wait(10)
            one()
            return "done"
        except TraceError as error:
            return error.code
        finally:
            connection.close()

    with ThreadPoolExecutor(len(work)) as pool:
        return list(pool.map(run, work))


def publish(rule, version):
    with transaction.atomic():
        row = Rule.objects.select_for_update(no_key=True).get(pk=rule.pk)
        row.published = version
        row.save(update_fields=["published"])


def next_version(rule):
    old = rule.published
    return RuleVersion.objects.create(
        rule=rule,
        number=2,
        target=old.target,
        confusable_ids=old.confusable_ids,
        text="new",
        content_hash="2",
    )


def test_equal_submissions_are_one_decision_and_others_have_one_winner(people, rule):
    ada, *_ = people
    for _ in range(TIMES):
        sample = sample_of(rule)
        claim = review_queue.claim_next(ada).claim
        given = {"sample": sample.pk, "reviewer": ada, "claim": claim}
        codes = at_once(
            partial(review_services.approve, **given),
            partial(review_services.approve, **given),
            partial(review_services.reject, reason="leak", **given),
            partial(review_services.reject, reason="leak", **given),
        )
        assert sorted(codes) == ["conflict", "conflict", "done", "done"]
    assert Decision.objects.count() == TIMES


def test_an_undo_and_the_next_reading_exclude_each_other(people, rule):
    ada, bob, _ = people
    SecondShare.objects.create(share=1.0)
    for _ in range(TIMES):
        sample = sample_of(rule)
        review_services.approve(sample=sample.pk, reviewer=ada)
        claim = review_queue.claim_next(bob).claim
        codes = at_once(
            partial(review_services.undo, reviewer=ada),
            partial(review_services.approve, sample=sample.pk, reviewer=bob, claim=claim),
        )
        assert sorted(codes) == ["conflict", "done"]
        human = Sample.objects.get(pk=sample.pk).human
        assert human == ("pending" if codes[0] == "done" else "approved")
        review_queue.release(ada)
        Sample.objects.filter(pk=sample.pk).update(machine="dropped")


def test_a_publication_and_a_reading_leave_no_item_of_an_overtaken_rule(people, rule):
    ada, *_ = people
    SecondShare.objects.create(share=1.0)
    first, second = rule.published, next_version(rule)
    for _ in range(TIMES):
        publish(rule, first)
        sample = sample_of(rule)
        claim = review_queue.claim_item(ada, ReviewItem.objects.get(sample=sample).pk).claim
        codes = at_once(
            partial(publish, rule, second),
            partial(review_services.approve, sample=sample.pk, reviewer=ada, claim=claim),
            review_queue.sweep,
        )
        assert codes[0] == "done" and codes[1] in {"done", "conflict"}
        assert not ReviewItem.objects.filter(state__in=("open", "claimed")).exists()
        assert wrong_items() == set()


def test_a_run_that_finishes_a_sample_and_a_publication_leave_no_item_of_an_overtaken_rule(rule):
    first, second = rule.published, next_version(rule)
    for _ in range(TIMES):
        publish(rule, first)
        sample = sample_of(rule, machine="pending")
        at_once(
            partial(publish, rule, second),
            partial(Sample.objects.filter(pk=sample.pk).update, machine="ready"),
        )
        assert wrong_items() == set()


def test_publications_releases_and_policies_do_not_lock_each_other_out(people, rule):
    ada, bob, _ = people
    first, second = rule.published, next_version(rule)
    samples = [sample_of(rule) for _ in range(12)]
    for turn in range(TIMES):
        for number, sample in enumerate(samples[:6]):
            item = ReviewItem.objects.get(sample=sample)
            if item.state == "open":
                review_queue.claim_item((ada, bob)[number % 2], item.pk)
        codes = at_once(
            partial(publish, rule, second if turn % 2 else first),
            partial(review_queue.release, ada),
            partial(review_queue.release, bob),
            partial(review_services.policy_approve, count=1, seed=turn),
        )
        assert codes == ["done"] * 4
    publish(rule, first)
    assert wrong_items() == set()
