"""Second readings, adjudication, undo: who may, what the sample becomes, and what stands in the way."""

import pytest

from rules.models import RuleVersion
from synthesis.models import Decision, ReviewItem, Sample, SecondShare, SnapshotSample
from synthesis.quality.second import drawn_for_second, share_of
from synthesis.review import queue as review_queue
from synthesis.review import services as review_services
from synthesis.samples.decisions import seen_key
from tests.factories import make_domain, make_rule, make_sample, make_snapshot, make_tool
from trace_site.audit.models import AuditChange
from trace_site.lib.errors import TraceError

pytestmark = pytest.mark.django_db


@pytest.fixture
def people(user_with):
    return [user_with("reviewer", username=name) for name in ("ada", "bob", "cid", "dan")]


@pytest.fixture
def rule():
    return make_rule(make_tool("New/GetSlip"), make_tool("Old/GetSlip"), code="SLIP_YEAR")


@pytest.fixture
def sample(rule):
    return make_sample(rule=rule, tools=[rule.published.target, make_tool()])


@pytest.fixture
def all_twice():
    SecondShare.objects.create(share=1.0)


def state(sample):
    row = Sample.objects.get(pk=sample.pk)
    return row.human, row.approved_by, row.approved_how


def items(sample):
    rows = ReviewItem.objects.filter(sample=sample).order_by("round")
    return [(row.round, row.state, row.decided_by and row.decided_by.username) for row in rows]


def publish(rule):
    old = rule.published
    version = RuleVersion.objects.create(
        rule=rule,
        number=rule.versions.count() + 1,
        target=old.target,
        confusable_ids=old.confusable_ids,
        text=f"{old.text} Since {rule.versions.count()}.",
        content_hash=f"{rule.versions.count()}",
    )
    rule.published = version
    rule.save()
    return old


def edited(sample, words="today"):
    return {"query": f"{sample.query} {words}", "trace": sample.trace}


def test_two_equal_readings_end_it(sample, people, all_twice):
    ada, bob, *_ = people
    review_services.approve(sample=sample.pk, reviewer=ada)
    assert state(sample) == ("second", "", "")
    review_services.approve(sample=sample.pk, reviewer=bob)
    assert state(sample) == ("approved", "ada and bob", "second")
    assert items(sample) == [(1, "decided", "ada"), (2, "decided", "bob")]


def test_what_a_policy_approved_was_read_by_nobody_so_a_second_reading_agrees_with_none(sample, people):
    review_services.policy_approve(count=1, seed=0)
    Sample.objects.filter(pk=sample.pk).update(human="second")  # as SQL may
    review_services.approve(sample=sample.pk, reviewer=people[0])
    assert state(sample)[0] == "disputed"


def test_a_second_reader_sees_the_machines_text_and_equal_edits_agree(sample, people, all_twice):
    ada, bob, *_ = people
    review_services.edit(sample=sample.pk, reviewer=ada, **edited(sample))
    assert Sample.objects.get(pk=sample.pk).query == sample.query
    review_services.edit(sample=sample.pk, reviewer=bob, **edited(sample))
    assert Sample.objects.get(pk=sample.pk).query == f"{sample.query} today"
    assert state(sample)[2] == "second"


def test_readings_that_differ_go_to_a_third_person_who_ends_it(sample, people, all_twice):
    ada, bob, cid, _ = people
    review_services.approve(sample=sample.pk, reviewer=ada)
    review_services.reject(sample=sample.pk, reviewer=bob, reason="leak")
    assert state(sample)[0] == "disputed"
    for reader in (ada, bob):
        with pytest.raises(TraceError, match="you have read it in another round"):
            review_services.approve(sample=sample.pk, reviewer=reader)
        assert review_queue.claim_next(reader) is None
    review_services.edit(sample=sample.pk, reviewer=cid, **edited(sample))
    assert state(sample) == ("approved", "cid", "adjudicated")
    assert Sample.objects.get(pk=sample.pk).query == f"{sample.query} today"


def test_the_second_reader_is_another_person(sample, people, all_twice):
    ada, *_ = people
    review_services.approve(sample=sample.pk, reviewer=ada)
    with pytest.raises(TraceError, match="you have read it in another round"):
        review_services.approve(sample=sample.pk, reviewer=ada)
    with pytest.raises(TraceError, match="you have read it in another round"):
        review_queue.claim_item(ada, ReviewItem.objects.get(sample=sample, round=2).pk)


def test_one_submission_sent_twice_is_one_decision(sample, people):
    ada, bob, *_ = people
    claim = review_queue.claim_next(ada).claim
    for _ in range(2):
        review_services.edit(
            sample=sample.pk,
            reviewer=ada,
            **edited(sample),
            claim=claim,
            seen=seen_key(sample),
        )
    assert (
        Decision.objects.count() == AuditChange.objects.filter(table_name="synthesis_decision").count() == 1
    )
    with pytest.raises(TraceError, match="you have decided it already, otherwise"):
        review_services.reject(sample=sample.pk, reviewer=ada, reason="leak", claim=claim)
    with pytest.raises(TraceError, match="ada has decided it meanwhile: approved"):
        review_services.approve(sample=sample.pk, reviewer=bob, claim=claim)


def test_a_submission_repeated_while_the_next_reading_waits_is_not_that_reading(sample, people, all_twice):
    ada, bob, *_ = people
    claim = review_queue.claim_next(ada).claim
    review_services.reject(sample=sample.pk, reviewer=ada, reason="leak", claim=claim)
    review_queue.claim_next(bob)
    review_services.reject(sample=sample.pk, reviewer=ada, reason="leak", claim=claim)
    assert state(sample)[0] == "second" and Decision.objects.count() == 1


def test_a_text_that_is_not_the_one_on_screen_is_not_decided(sample, people):
    with pytest.raises(TraceError, match="changed, replaced or withdrawn"):
        review_services.approve(sample=sample.pk, reviewer=people[0], seen="0" * 16)
    assert state(sample)[0] == "pending"


@pytest.mark.parametrize("machine", ["dropped", "pending"])
def test_what_the_machine_took_back_is_not_approved(machine, sample, people):
    claim = review_queue.claim_next(people[0]).claim
    Sample.objects.filter(pk=sample.pk).update(machine=machine)
    with pytest.raises(TraceError, match="no longer waits"):
        review_services.approve(sample=sample.pk, reviewer=people[0], claim=claim)


def test_a_sample_whose_rule_was_published_anew_is_not_decided(sample, people, rule):
    claim = review_queue.claim_next(people[0]).claim
    publish(rule)
    with pytest.raises(TraceError, match="SLIP_YEAR was published anew"):
        review_services.approve(sample=sample.pk, reviewer=people[0], claim=claim)
    assert review_queue.claim_next(people[0]) is None


def test_undo_of_a_first_reading_withdraws_the_second_that_somebody_has_claimed(sample, people, all_twice):
    ada, bob, *_ = people
    review_services.approve(sample=sample.pk, reviewer=ada)
    claim = review_queue.claim_next(bob).claim
    review_services.undo(reviewer=ada)
    assert items(sample) == [(1, "claimed", None), (2, "withdrawn", None)]
    with pytest.raises(TraceError, match="ada has it now"):
        review_services.approve(sample=sample.pk, reviewer=bob, claim=claim)
    review_services.reject(sample=sample.pk, reviewer=ada, reason="leak")
    review_services.reject(sample=sample.pk, reviewer=bob, reason="leak")
    assert state(sample)[0] == "rejected"


def test_undo_after_the_next_reading_was_made_is_refused(sample, people, all_twice):
    ada, bob, cid, _ = people
    review_services.approve(sample=sample.pk, reviewer=ada)
    review_services.reject(sample=sample.pk, reviewer=bob, reason="leak")
    with pytest.raises(TraceError, match="followed by another") as caught:
        review_services.undo(reviewer=ada)
    assert caught.value.code == "conflict"
    review_services.approve(sample=sample.pk, reviewer=cid)
    with pytest.raises(TraceError, match="followed by another"):
        review_services.undo(reviewer=bob)
    review_services.undo(reviewer=cid)
    review_services.undo(reviewer=bob)
    assert items(sample) == [(1, "decided", "ada"), (2, "claimed", None), (3, "withdrawn", None)]
    assert state(sample)[0] == "second"
    review_services.undo(reviewer=ada)
    assert state(sample)[0] == "pending"


def test_undo_of_an_edit_brings_the_words_back_and_a_new_claim(sample, people):
    ada, *_ = people
    claim = review_queue.claim_next(ada).claim
    review_services.edit(sample=sample.pk, reviewer=ada, **edited(sample), claim=claim)
    review_services.undo(reviewer=ada)
    assert Sample.objects.get(pk=sample.pk).query == sample.query and state(sample) == ("pending", "", "")
    item = ReviewItem.objects.get(sample=sample)
    assert (item.claimed_by, item.takes) == (ada, 1) and item.claim != claim
    with pytest.raises(TraceError, match="shown it anew"):  # the first page, sent once more
        review_services.edit(sample=sample.pk, reviewer=ada, **edited(sample), claim=claim)
    review_services.approve(sample=sample.pk, reviewer=ada, claim=item.claim)
    assert Decision.objects.filter(sample=sample).count() == 3


def test_undo_leaves_a_trace_that_was_written_since(sample, people):
    review_services.approve(sample=sample.pk, reviewer=people[0])
    Sample.objects.filter(pk=sample.pk).update(trace="written since")
    review_services.undo(reviewer=people[0])
    assert Sample.objects.get(pk=sample.pk).trace == "written since"


def test_undo_of_what_a_snapshot_holds_is_refused(sample, people):
    review_services.approve(sample=sample.pk, reviewer=people[0])
    snapshot = make_snapshot()
    SnapshotSample.objects.create(snapshot=snapshot, sample=sample, position=0, sample_key=sample.key)
    with pytest.raises(TraceError, match=f"part of snapshot {snapshot.pk}") as caught:
        review_services.undo(reviewer=people[0])
    assert caught.value.code == "in_snapshot" and state(sample)[0] == "approved"


def test_undo_under_an_overtaken_rule_takes_back_and_the_sample_waits_when_the_rule_returns(
    sample, people, rule
):
    ada, bob, *_ = people
    review_services.approve(sample=sample.pk, reviewer=ada)
    old = publish(rule)
    review_services.undo(reviewer=ada)
    assert state(sample)[0] == "pending" and items(sample) == [(1, "withdrawn", None)]
    rule.published = old
    rule.save()
    assert items(sample) == [(1, "open", None)]
    review_services.approve(sample=sample.pk, reviewer=bob)
    assert state(sample)[0] == "approved"


def test_a_calibration_reading_changes_no_sample_and_can_be_taken_back(people):
    ada, *_ = people
    sample = make_sample(machine="dropped")
    item = ReviewItem.objects.create(sample=sample, domain=sample.domain, branch="rrb", calibration=True)
    review_services.approve(sample=sample.pk, reviewer=ada)
    assert state(sample) == ("pending", "", "") and items(sample) == [(1, "decided", "ada")]
    review_services.undo(reviewer=ada)
    item.refresh_from_db()
    assert (item.state, item.claimed_by, item.takes, item.calibration) == ("claimed", ada, 1, True)
    review_services.reject(sample=sample.pk, reviewer=ada, reason="leak", claim=item.claim)
    Sample.objects.filter(pk=sample.pk).update(machine="ready")  # written again: now it waits like any other
    item.refresh_from_db()
    assert (item.state, item.calibration, item.takes) == ("open", False, 2)
    review_services.approve(sample=sample.pk, reviewer=ada)
    assert state(sample)[0] == "approved"


def test_a_calibration_item_nobody_read_becomes_an_ordinary_one_when_its_sample_waits(people):
    sample = make_sample(machine="dropped")
    ReviewItem.objects.create(sample=sample, domain=sample.domain, branch="rrb", calibration=True)
    review_queue.claim_next(people[0])
    Sample.objects.filter(pk=sample.pk).update(machine="ready")
    review_services.approve(sample=sample.pk, reviewer=people[1])
    assert state(sample)[0] == "approved"


def test_policy_approves_what_was_undone_before_and_leaves_claims_alone(people, rule):
    made = [make_sample(rule=rule, tools=[rule.published.target, make_tool()]) for _ in range(3)]
    review_services.approve(sample=made[0].pk, reviewer=people[0])
    review_services.undo(reviewer=people[0])
    review_queue.release(people[0])
    review_queue.claim_item(people[1], ReviewItem.objects.get(sample=made[1]).pk)
    assert review_services.policy_approve(count=None) == {"approved": 2, "waiting": 0}
    assert [state(sample)[2] for sample in made] == ["policy", "", "policy"]
    with pytest.raises(TraceError, match="it is approved by now"):
        review_services.approve(sample=made[2].pk, reviewer=people[0])


def test_what_a_policy_approved_and_somebody_opened_again_is_decided_anew(people, sample):
    assert review_services.policy_approve(count=None)["approved"] == 1
    Sample.objects.filter(pk=sample.pk).update(human="pending")
    assert review_services.policy_approve(count=None)["approved"] == 1
    takes = Decision.objects.filter(sample=sample).order_by("pk").values_list("take", flat=True)
    assert list(takes) == [0, 1]


def test_the_most_specific_share_counts_and_the_draw_is_the_same_whoever_asks(sample):
    make_domain("finance")
    SecondShare.objects.create(share=0.1)
    SecondShare.objects.create(style="implicit", share=0.2)
    SecondShare.objects.create(domain=sample.domain, share=0.3)
    SecondShare.objects.create(domain=sample.domain, style="implicit", share=0.4)
    asked = [("hr", "implicit"), ("hr", "explicit"), ("finance", "implicit"), ("finance", "explicit")]
    assert [share_of(*one) for one in asked] == [0.4, 0.3, 0.2, 0.1]
    SecondShare.objects.all().delete()
    SecondShare.objects.create(share=0.4)
    samples = [Sample(key=f"drawn-{number}", domain_id="hr") for number in range(400)]
    drawn = [drawn_for_second(one) for one in samples]
    assert drawn == [drawn_for_second(Sample(key=one.key, domain_id="hr")) for one in samples]
    assert 120 < sum(drawn) < 200
    SecondShare.objects.update(share=0.6)  # who was drawn stays drawn
    assert all(drawn_for_second(one) for one, was in zip(samples, drawn, strict=True) if was)


def test_a_share_changed_later_draws_nothing_again_that_is_decided(rule, people):
    made = [make_sample(rule=rule, tools=[rule.published.target, make_tool()]) for _ in range(2)]
    review_services.approve(sample=made[0].pk, reviewer=people[0])
    SecondShare.objects.create(share=1.0)
    review_services.approve(sample=made[1].pk, reviewer=people[0])
    SecondShare.objects.all().delete()
    assert [state(sample)[0] for sample in made] == ["approved", "second"]
    assert review_queue.claim_next(people[1]).round == 2
