"""Batches: what is drawn decides about the whole lot, exactly once, and every sample says so."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.core.management import call_command
from django.db import connection, transaction

from synthesis.batches import services as batches_services
from synthesis.batches.selectors import progress
from synthesis.batches.services import batch_create
from synthesis.core.acceptance import draw
from synthesis.models import Batch, Decision, ReviewItem, Sample, SecondShare
from synthesis.review import queue as review_queue
from synthesis.review import services as review_services
from tests.synthesis.rows import make_benchmark_query, make_book, make_sample, publish
from tests.synthesis.texts import TRACE
from trace_site.audit.models import AuditChange, AuditEntry
from trace_site.deliveries import Delivery
from trace_site.lib.errors import TraceError
from trace_site.notices.services import Notice
from trace_site.webhooks.services import Webhook

CODE = "PAYSLIP_PERIOD"
EDITED = "where is my November 2022 pay document"


def make_lot(count: int = 30):
    version = make_book()
    return version, [make_sample(version) for _ in range(count)]


def make_batch(actor, version=None, **options) -> Batch:
    if version is None:
        version, _ = make_lot()
    return batch_create(rule=version.rule.code, actor=actor, **{"seed": 1, **options}).batch


def drawn(batch) -> list[int]:
    return list(batch.items.exclude(state="held").order_by("pk").values_list("sample", flat=True))


def humans(batch) -> dict[str, int]:
    rows = list(Sample.objects.filter(review_items__batch=batch).values_list("human", flat=True))
    return {human: rows.count(human) for human in set(rows)}


@pytest.mark.django_db
class TestMaking:
    def test_what_the_seed_draws_stays_open_and_the_rest_is_held(self, ada):
        version, samples = make_lot()
        batch = make_batch(ada, version, seed=7)
        assert (batch.lot_size, batch.letter, batch.sample_size, batch.accept) == (30, "E", 13, 0)
        keys = {sample.key: sample.pk for sample in samples}
        assert sorted(drawn(batch)) == sorted(keys[key] for key in draw(keys, 13, 7))
        assert batch.items.filter(state="held").count() == 17
        assert AuditEntry.objects.get(action="batch.created").detail["n"] == 13

    def test_nobody_meets_what_is_held(self, ada, bob):
        batch = make_batch(ada)
        met = set()
        while item := review_queue.claim_next(bob, {}, besides=list(met)):
            met.add(item.pk)
            review_services.approve(sample=item.sample_id, reviewer=bob, claim=item.claim)
            if len(met) == 12:
                break
        assert met <= set(batch.items.exclude(state="held").values_list("pk", flat=True))

    def test_claimed_assigned_and_batched_samples_and_other_styles_stay_out(self, ada, bob):
        version, samples = make_lot(6)
        Sample.objects.filter(pk=samples[0].pk).update(style="explicit")
        ReviewItem.objects.filter(sample=samples[0]).update(style="explicit")
        review_queue.claim_item(bob, ReviewItem.objects.get(sample=samples[1]).pk)
        ReviewItem.objects.filter(sample=samples[2]).update(assigned_to=bob)
        batch = make_batch(ada, version, style="exception")
        assert set(batch.items.values_list("sample", flat=True)) == {sample.pk for sample in samples[3:]}
        with pytest.raises(TraceError, match="A lot has two or more"):
            make_batch(ada, version, style="exception")

    def test_what_filter_v_refuses_by_now_is_left_out_and_named(self, ada):
        version, samples = make_lot(8)
        make_benchmark_query(samples[3].query)
        Sample.objects.filter(pk=samples[5].pk).update(answer=["No/SuchTool"])
        made = batch_create(rule=version.rule.code, actor=ada)
        assert {row["sample"]: row["why"] for row in made.failing} == {
            samples[3].pk: "near_duplicate",
            samples[5].pk: "grounding, target, consistency",
        }
        assert made.batch.lot_size == 6
        assert ReviewItem.objects.get(sample=samples[3]).batch is None
        assert AuditEntry.objects.get(action="batch.created").detail["left_out"] == 2

    @pytest.mark.parametrize(
        "options, code",
        [({"aql": 3.0}, "bad_aql"), ({"level": "IV"}, "bad_level"), ({"rule": "NO"}, "no_such_rule")],
    )
    def test_what_cannot_be_is_refused_before_anything_is_held(self, ada, options, code):
        version, _ = make_lot(4)
        with pytest.raises(TraceError) as caught:
            batch_create(**{"rule": version.rule.code, "actor": ada, **options})
        assert caught.value.code == code
        assert not ReviewItem.objects.filter(state="held").exists()

    def test_a_lot_that_is_all_read_holds_nothing(self, ada):
        version, _ = make_lot(5)
        batch = make_batch(ada, version)
        assert (batch.sample_size, batch.items.filter(state="held").count()) == (5, 0)
        for pk in drawn(batch):
            review_services.approve(sample=pk, reviewer=ada)
        batch.refresh_from_db()
        assert batch.state == "accepted"
        assert set(Sample.objects.values_list("approved_how", flat=True)) == {"read"}

    def test_the_command_makes_one_and_says_what_it_promises(self, ada, capsys):
        version, _ = make_lot(30)
        call_command("review_batch", "--rule", version.rule.code, "--by", "ada", "--seed", "3", "--json")
        out = capsys.readouterr().out
        assert "reads 13 of 30" in out
        assert Batch.objects.get().seed == 3


@pytest.mark.django_db
class TestAccepting:
    def test_with_few_enough_defects_the_rest_is_approved_and_says_how(self, ada, bob):
        hook = Webhook.objects.create(
            url="https://example.org", salt="s", events=["sample.approved"], created_by=ada
        )
        batch = make_batch(ada)
        for pk in drawn(batch)[:12]:
            review_services.approve(sample=pk, reviewer=bob)
        assert humans(batch) == {"approved": 12, "pending": 18}
        review_services.approve(sample=drawn(batch)[12], reviewer=ada)
        batch.refresh_from_db()
        assert (batch.state, batch.defects, batch.closed_at is None) == ("accepted", 0, False)
        assert humans(batch) == {"approved": 30}
        unread = Sample.objects.filter(approved_how="batch")
        by = f"batch {batch.pk}: 13 of 30 read, 0 defects, AQL 1.0, c 0"
        assert set(unread.values_list("approved_by", flat=True)) == {by}
        policies = Decision.objects.filter(policy=by, verdict="approve", reviewer=None)
        assert policies.count() == unread.count() == 17
        assert {row.after["approved_how"] for row in policies} == {"batch"}
        assert AuditEntry.objects.get(action="batch.accepted").detail["approved"] == 17
        assert not ReviewItem.objects.exclude(state="decided").exists()
        with pytest.raises(TraceError, match="it is approved by now, unread"):
            review_services.approve(sample=unread[0], reviewer=ada)
        counts = [row.payload["count"] for row in Delivery.objects.filter(webhook=hook)]
        assert sorted(counts) == [1] * 13 + [17]

    def test_what_breaks_while_a_batch_closes_undoes_the_last_decision_too(self, ada, monkeypatch):
        batch = make_batch(ada)
        *early, last = drawn(batch)
        for pk in early:
            review_services.approve(sample=pk, reviewer=ada)

        def broken(batch, state):
            raise RuntimeError("killed")

        with monkeypatch.context() as patch, pytest.raises(RuntimeError):
            patch.setattr(batches_services, "_close", broken)
            review_services.approve(sample=last, reviewer=ada)
        batch.refresh_from_db()
        assert (batch.state, humans(batch)) == ("sampling", {"approved": 12, "pending": 18})
        review_services.approve(sample=last, reviewer=ada)
        assert humans(batch) == {"approved": 30}

    def test_a_rejected_sample_of_an_accepted_batch_stays_rejected(self, ada):
        version, _ = make_lot(30)
        batch = make_batch(ada, version, aql=4.0)
        assert (batch.sample_size, batch.accept) == (13, 1)
        first, *others = drawn(batch)
        review_services.reject(sample=first, reviewer=ada, reason="leak")
        for pk in others:
            review_services.approve(sample=pk, reviewer=ada)
        assert humans(batch) == {"approved": 29, "rejected": 1}
        assert "1 defect, AQL 4.0, c 1" in Sample.objects.filter(approved_how="batch")[0].approved_by

    def test_sampled_ones_get_no_second_reading(self, ada):
        SecondShare.objects.create(share=1.0)
        batch = make_batch(ada)
        review_services.approve(sample=drawn(batch)[0], reviewer=ada)
        assert Sample.objects.filter(human="second").count() == 0

    def test_a_batch_is_told_in_the_ledger_row_by_row(self, ada):
        batch = make_batch(ada)
        for pk in drawn(batch):
            review_services.approve(sample=pk, reviewer=ada)
        rows = AuditChange.objects.filter(table_name="synthesis_sample", after__approved_how="batch")
        assert rows.count() == 17
        assert AuditChange.objects.filter(table_name="synthesis_batch", operation="INSERT").count() == 1


@pytest.mark.django_db
class TestFailing:
    @pytest.mark.parametrize("how", ["reject", "edit"])
    def test_one_defect_too_many_opens_the_whole_lot(self, ada, bob, how):
        version, _ = make_lot()
        batch = make_batch(bob, version)
        pk = drawn(batch)[0]
        if how == "reject":
            review_services.reject(sample=pk, reviewer=ada, reason="leak")
        else:
            review_services.edit(sample=pk, reviewer=ada, query=EDITED, trace=TRACE)
        batch.refresh_from_db()
        assert (batch.state, batch.defects) == ("failed", 1)
        assert not batch.items.filter(state="held").exists()
        assert batch.items.filter(state="open").count() == 29
        assert not Sample.objects.filter(approved_how="batch").exists()
        notice = Notice.objects.get()
        assert (notice.recipient, notice.kind) == (bob, "batch_failed")
        assert f"Batch {batch.pk} of rule {version.rule.code} failed: 1 defect, 0 allowed." in notice.text

    def test_what_is_read_after_it_failed_changes_nothing_about_it(self, ada):
        batch = make_batch(ada)
        first, second, third = drawn(batch)[:3]
        review_services.reject(sample=first, reviewer=ada, reason="leak")
        review_services.reject(sample=second, reviewer=ada, reason="leak")
        review_services.undo(reviewer=ada)
        batch.refresh_from_db()
        assert (batch.state, batch.defects) == ("failed", 1)
        assert Notice.objects.count() == 1
        SecondShare.objects.create(share=1.0)
        review_services.approve(sample=third, reviewer=ada)
        assert Sample.objects.get(pk=third).human == "second"  # read like any other now

    def test_samples_of_a_failed_batch_enter_no_other(self, ada):
        version, _ = make_lot()
        batch = make_batch(ada, version)
        review_services.reject(sample=drawn(batch)[0], reviewer=ada, reason="leak")
        with pytest.raises(TraceError, match="0 of its samples can be in a batch"):
            make_batch(ada, version)


@pytest.mark.django_db
class TestUndo:
    def test_while_sampling_it_lowers_the_count(self, ada):
        batch = make_batch(ada, aql=4.0)
        pk = drawn(batch)[0]
        review_services.reject(sample=pk, reviewer=ada, reason="leak")
        batch.refresh_from_db()
        assert batch.defects == 1
        review_services.undo(reviewer=ada)
        batch.refresh_from_db()
        assert (batch.state, batch.defects) == ("sampling", 0)
        assert progress([batch.pk])[batch.pk].read == 0
        review_services.approve(sample=pk, reviewer=ada)
        assert progress([batch.pk])[batch.pk].read == 1

    def test_of_a_closed_batch_it_is_refused_with_the_reason(self, ada):
        batch = make_batch(ada)
        for pk in drawn(batch):
            review_services.approve(sample=pk, reviewer=ada)
        with pytest.raises(
            TraceError, match=f"batch {batch.pk} has counted your decision and is closed: accepted"
        ) as caught:
            review_services.undo(reviewer=ada)
        assert caught.value.code == "batch_closed"
        assert humans(batch) == {"approved": 30}
        assert not Decision.objects.filter(verdict="undo").exists()

    def test_of_the_decision_that_failed_it_is_refused(self, ada):
        batch = make_batch(ada)
        review_services.reject(sample=drawn(batch)[0], reviewer=ada, reason="leak")
        with pytest.raises(TraceError, match="closed: failed"):
            review_services.undo(reviewer=ada)


@pytest.mark.django_db
class TestWithdrawing:
    def test_a_newer_rule_version_ends_it_and_nothing_is_approved(self, ada):
        version, _ = make_lot()
        batch = make_batch(ada, version)
        review_services.approve(sample=drawn(batch)[0], reviewer=ada)
        publish(2)
        assert batches_services.sweep() == 1
        batch.refresh_from_db()
        assert (batch.state, batch.closed_at is None) == ("withdrawn", False)
        assert not Sample.objects.filter(approved_how="batch").exists()
        assert set(batch.items.values_list("state", flat=True)) == {"decided", "withdrawn"}
        assert batches_services.sweep() == 0

    def test_a_drawn_sample_that_is_replaced_ends_it_and_frees_the_rest(self, ada):
        version, samples = make_lot()
        batch = make_batch(ada, version)
        gone, other = drawn(batch)[:2]
        Sample.objects.filter(pk=gone).update(machine="dropped")
        review_services.approve(sample=other, reviewer=ada)
        batch.refresh_from_db()
        assert batch.state == "withdrawn"
        assert ReviewItem.objects.filter(state="open", batch=None).count() == 28
        assert make_batch(ada, version).lot_size == 28

    def test_a_held_sample_that_is_replaced_just_leaves_the_lot(self, ada):
        batch = make_batch(ada)
        gone = batch.items.filter(state="held").values_list("sample", flat=True)[0]
        Sample.objects.filter(pk=gone).update(machine="dropped")
        for pk in drawn(batch):
            if pk != gone:
                review_services.approve(sample=pk, reviewer=ada)
        batch.refresh_from_db()
        assert batch.state == "accepted"
        assert Sample.objects.filter(approved_how="batch").count() == 16
        assert Sample.objects.get(pk=gone).human == "pending"

    def test_people_may_give_it_up_only_before_anything_was_read(self, ada):
        batch = make_batch(ada)
        batches_services.batch_withdraw(batch=batch.pk, actor=ada)
        batch.refresh_from_db()
        assert batch.state == "withdrawn"
        other = make_batch(ada, batch.rule_version)
        review_services.approve(sample=drawn(other)[0], reviewer=ada)
        with pytest.raises(TraceError, match="1 of its samples are read already"):
            batches_services.batch_withdraw(batch=other.pk, actor=ada)


def at_once(*calls):
    """Every call in its own thread and connection, begun together; results, or the codes of refusals."""
    start = threading.Barrier(len(calls))

    def run(call):
        try:
            start.wait(10)
            return call()
        except TraceError as error:
            return error.code
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


@pytest.mark.django_db(transaction=True)
class TestAtOnce:
    def test_the_last_decisions_at_the_same_time_close_it_once(self, ada, bob):
        for _ in range(4):
            batch = make_batch(ada, None if not Sample.objects.exists() else more_lot())
            *early, last, other = drawn(batch)
            for pk in early:
                review_services.approve(sample=pk, reviewer=ada)
            answers = at_once(
                lambda last=last: review_services.approve(sample=last, reviewer=ada),
                lambda other=other: review_services.approve(sample=other, reviewer=bob),
            )
            assert {answer.human for answer in answers} == {"approved"}
            batch.refresh_from_db()
            assert batch.state == "accepted"
            assert humans(batch) == {"approved": batch.lot_size}
        assert AuditEntry.objects.filter(action="batch.accepted").count() == 4
        unread = Decision.objects.filter(policy__startswith="batch")
        assert unread.count() == unread.values("sample").distinct().count() == 4 * 17

    def test_many_defects_at_once_fail_it_once(self, ada, user_with):
        batch = make_batch(ada)
        people = [user_with("reviewer", username=f"reader{number}") for number in range(6)]
        pairs = list(zip(people, drawn(batch), strict=False))
        answers = at_once(
            *(
                lambda who=who, pk=pk: review_services.reject(sample=pk, reviewer=who, reason="leak")
                for who, pk in pairs
            )
        )
        assert {answer.human for answer in answers} == {"rejected"}
        batch.refresh_from_db()
        assert (batch.state, batch.defects) == ("failed", 1)
        assert Notice.objects.count() == AuditEntry.objects.filter(action="batch.failed").count() == 1
        assert Sample.objects.filter(human="rejected").count() == 6

    def test_a_rule_published_at_the_same_time_neither_hangs_nor_approves_by_halves(self, ada):
        version, _ = make_lot()
        batch = make_batch(ada, version)
        *early, last = drawn(batch)
        for pk in early:
            review_services.approve(sample=pk, reviewer=ada)
        answers = at_once(lambda: review_services.approve(sample=last, reviewer=ada), lambda: publish(2))
        assert isinstance(answers[0], Sample) or answers[0] == "conflict"
        batches_services.sweep()
        batch.refresh_from_db()
        unread = Sample.objects.filter(approved_how="batch").count()
        assert (batch.state, unread) in {("accepted", 17), ("withdrawn", 0)}
        assert batch.closed_at is not None

    def test_two_batches_made_at_once_share_no_sample(self, ada, bob):
        version, _ = make_lot()
        code = version.rule.code
        answers = at_once(*(lambda who=who: batch_create(rule=code, actor=who) for who in (ada, bob)))
        assert answers.count("small_lot") <= 1
        held = ReviewItem.objects.filter(batch__isnull=False)
        assert sum(Batch.objects.values_list("lot_size", flat=True)) == held.count()

    def test_a_row_somebody_locks_is_not_waited_for_and_opens_later(self, ada):
        batch = make_batch(ada)
        held = batch.items.filter(state="held").values_list("pk", flat=True)[0]
        locked, done = threading.Event(), threading.Event()

        def hold():
            with transaction.atomic():
                ReviewItem.objects.select_for_update().get(pk=held)
                locked.set()
                done.wait(30)
            connection.close()

        thread = threading.Thread(target=hold)
        thread.start()
        locked.wait(10)
        for pk in drawn(batch):
            review_services.approve(sample=pk, reviewer=ada)
        batch.refresh_from_db()
        assert (batch.state, batch.closed_at) == ("accepted", None)
        assert Sample.objects.filter(approved_how="batch").count() == 16
        done.set()
        thread.join()
        assert batches_services.sweep() == 1
        batch.refresh_from_db()
        assert batch.closed_at is not None
        assert ReviewItem.objects.get(pk=held).state == "open"  # a person reads it


def more_lot():
    version = Sample.objects.latest("pk").rule_version
    for _ in range(30):
        make_sample(version)
    return version
