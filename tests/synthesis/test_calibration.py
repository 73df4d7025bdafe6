"""The calibration draw and the counts behind the judge's matrix."""

import random

import pytest

from synthesis.batches.services import batch_create
from synthesis.models import Attempt, Batch, ReviewItem, Sample, SynthesisRun
from synthesis.quality.agreement import qualities
from synthesis.quality.calibration import (
    MOST,
    Stratum,
    calibration_draw,
    calibration_withdraw,
    calibrations,
    readings,
    unread_refusals,
)
from synthesis.review import queue as review_queue
from synthesis.review import services as review_services
from synthesis.review.queue import claim_next
from tests.factories import make_domain, make_rule, make_sample, make_tool
from tests.synthesis.readings import decide, read, read_by_two
from trace_site.audit.models import AuditEntry
from trace_site.lib.errors import TraceError

pytestmark = pytest.mark.django_db


@pytest.fixture
def texts():
    tools = [make_tool("New/GetSlip"), make_tool("Old/GetSlip")]
    rule = make_rule(*tools, code="SLIP_YEAR")
    return {"rule": rule, "tools": tools, "run": SynthesisRun.objects.create(branch="rule", writer="offline")}


def refused(*outcomes: str, **overrides) -> Sample:
    """A dropped sample whose attempts ended so."""
    sample = make_sample(machine="dropped", **overrides)
    for number, outcome in enumerate(outcomes or ("filtered", "judged_out"), start=1):
        Attempt.objects.create(
            sample=sample, number=number, outcome=outcome, query=sample.query, trace=sample.trace
        )
    return sample


def explicit(accepted: bool, judge: str = "offline") -> Stratum:
    return Stratum(judge, "hr", "explicit", accepted)


def test_only_what_the_judge_refused_in_the_end_can_be_drawn(texts):
    meant = refused(**texts)
    refused("judged_out", "filtered", **texts)
    refused("judged_out", "error", **texts)
    make_sample(**texts)
    assert unread_refusals() == [meant.pk]
    assert unread_refusals(domain="hr", kind="explicit", judge="offline") == [meant.pk]
    assert (
        unread_refusals(kind="implicit")
        == unread_refusals(judge="llm:m")
        == unread_refusals(domain="x")
        == []
    )


def test_a_draw_is_by_lot_and_the_same_for_the_same_seed(texts, ada):
    rows = [refused(**texts).pk for _ in range(12)]
    found = calibration_draw(count=5, actor=ada, seed=3)
    assert found == {"drawn": 5, "of": 12, "seed": 3}
    drawn = set(ReviewItem.objects.values_list("sample", flat=True))
    assert len(drawn) == 5 and drawn < set(rows)
    assert calibration_withdraw(actor=ada) == 5
    calibration_draw(count=5, actor=ada, seed=3)
    assert set(ReviewItem.objects.values_list("sample", flat=True)) == drawn
    calibration_withdraw(actor=ada)
    calibration_draw(count=5, actor=ada, seed=4)
    assert set(ReviewItem.objects.values_list("sample", flat=True)) != drawn
    entry = AuditEntry.objects.filter(action="review.calibration").first()
    assert entry.detail["seed"] == 4 and entry.detail["of"] == 12


def test_nothing_is_drawn_twice_and_an_empty_draw_says_why(texts, ada):
    refused(**texts), refused(**texts)
    assert calibration_draw(count=MOST, actor=ada)["drawn"] == 2
    with pytest.raises(TraceError, match="no refused sample left"):
        calibration_draw(count=1, actor=ada)
    for count in (0, MOST + 1):
        with pytest.raises(TraceError, match="draw 1 to"):
            calibration_draw(count=count, actor=ada)


def test_a_drawn_item_is_read_in_the_queue_with_the_judged_text_and_the_sample_stays_as_it_is(texts, ada):
    sample = refused(**texts)
    calibration_draw(count=1, actor=ada)
    item = claim_next(ada, {"domain": "hr"})
    assert item.sample_id == sample.pk
    last = sample.attempts.last()
    assert (item.sample.query, item.sample.trace) == (last.query, last.trace)
    review_services.approve(sample=sample.pk, reviewer=ada, claim=item.claim)
    after = Sample.objects.get(pk=sample.pk)
    assert (after.machine, after.human, after.approved_how) == ("dropped", "pending", "")
    review_services.undo(reviewer=ada)
    assert readings()[explicit(False)].n == 0
    decide(sample, ada, "reject")
    assert readings()[explicit(False)].counts == [0, 0, 1]


def test_drawn_items_come_by_lot_between_older_ones_and_not_as_a_block(texts, ada, monkeypatch):
    for _ in range(40):
        make_sample(**texts)
    for _ in range(4):
        refused(**texts)
    calibration_draw(count=4, actor=ada)
    monkeypatch.setattr(review_queue, "random", random.Random(1))
    taken: list[int] = []
    places = []
    for place in range(44):
        item = claim_next(ada, {}, besides=taken)
        taken.append(item.pk)
        places += [place] * item.calibration
    assert len(places) == 4 and places[0] < 20, "some come long before the older ones are read"
    assert places != list(range(places[0], places[0] + 4)), "and not one after the other"


def test_what_was_opened_or_decided_is_not_withdrawn(texts, ada):
    for _ in range(3):
        refused(**texts)
    calibration_draw(count=3, actor=ada)
    read_now = claim_next(ada, {})
    review_services.approve(sample=read_now.sample_id, reviewer=ada, claim=read_now.claim)
    claim_next(ada, {})
    assert calibration_withdraw(actor=ada) == 1
    assert calibration_withdraw(actor=ada) == 0
    assert ReviewItem.objects.count() == 2


def test_final_readings_of_what_the_judge_accepted_are_counted_by_outcome(texts, ada, bob, user_with):
    for verdict in ("approve", "approve", "edit", "reject"):
        read(None, (ada, verdict), **texts)
    read_by_two()
    read(None, (ada, "approve"), (bob, "approve"), **texts)
    read(None, (ada, "approve"), (bob, "reject"), (user_with("admin"), "reject"), **texts)
    read(None, (ada, "approve"), **texts)  # waits for its second reading: nothing is decided
    found = readings()[explicit(True)]
    assert found.counts == [3, 1, 2]
    assert found.population == 7


def test_what_was_approved_without_being_read_counts_in_the_population_alone(texts, ada):
    read(None, (ada, "approve"), **texts)
    make_sample(**texts), make_sample(**texts)
    review_services.policy_approve(count=None)
    found = readings()[explicit(True)]
    assert (found.counts, found.population) == ([1, 0, 0], 3)


def test_imported_samples_say_nothing_about_the_judge(ada):
    run = SynthesisRun.objects.create(branch="imported", writer="offline")
    read(make_sample(run=run, branch="imported"), (ada, "approve"))
    assert readings() == {}


def test_a_reading_of_a_batch_stands_for_the_unread_rest(texts, ada):
    sample = make_sample(**texts)
    batch = Batch.objects.create(
        rule_version=sample.rule_version,
        level="II",
        aql=1.0,
        letter="A",
        lot_size=90,
        sample_size=9,
        accept=0,
        seed=1,
        created_by=ada,
    )
    ReviewItem.objects.filter(sample=sample).update(batch=batch)
    read(sample, (ada, "approve"))
    read(None, (ada, "reject"), **texts)
    Batch.objects.update(state="accepted")
    found = readings()[explicit(True)]
    assert found.groups == (("approve", 1, 10.0), ("reject", 1, 1.0))
    Batch.objects.update(state="failed")
    found = readings()[explicit(True)]
    assert found.groups == (("approve", 1, 1.0), ("reject", 1, 1.0)), "a failed batch is read fully"


def test_what_a_batch_approves_unread_is_nobodys_reading(texts, ada):
    for _ in range(20):
        make_sample(**texts)
    batch = batch_create(rule="SLIP_YEAR", actor=ada, level="I", aql=4.0, seed=1).batch
    drawn = ReviewItem.objects.filter(batch=batch, state="open")
    assert drawn.count() == batch.sample_size
    for item in list(drawn):
        review_services.approve(sample=item.sample_id, reviewer=ada)
    batch.refresh_from_db()
    assert batch.state == "accepted" and Sample.objects.filter(human="approved").count() == 20
    found = readings()[explicit(True)]
    assert (found.counts, found.population) == ([batch.sample_size, 0, 0], 20)
    assert found.groups == (("approve", batch.sample_size, pytest.approx(20 / batch.sample_size)),)
    assert [(row["name"], row["readings"]) for row in qualities()] == [("ada", batch.sample_size)]


def test_every_judge_is_measured_by_itself_whoever_wrote(texts, ada):
    read(None, (ada, "approve"), **texts)
    models = [{"role": "generator", "model": "writer"}, {"role": "judge", "model": "stern"}]
    run = SynthesisRun.objects.create(branch="rule", writer="llm:writer", params={"endpoints": models})
    read(None, (ada, "reject"), **{**texts, "run": run})
    refused(**{**texts, "run": run})
    found = {one["judge"]: one["overall"] for one in calibrations()}
    assert set(found) == {"llm:stern", "offline"}
    assert found["offline"]["accepted"]["approved"] == found["offline"]["accepted"]["read"] == 1
    assert found["llm:stern"]["accepted"]["rejected"] == found["llm:stern"]["accepted"]["read"] == 1
    assert found["llm:stern"]["refused"]["samples"] == 1


def test_rows_are_per_domain_style_and_both(texts, ada):
    read(None, (ada, "approve"), **texts)
    read(None, (ada, "reject"), **texts, style="implicit")
    make_domain("it")
    other = make_tool("It/GetTicket", domain=make_domain("it"))
    read(None, (ada, "reject"), tools=[other, make_tool("It/Other", domain=make_domain("it"))])
    (found,) = calibrations(target=0.05)
    assert [(row["domain"], row["accepted"]["read"]) for row in found["domains"]] == [("hr", 2), ("it", 1)]
    assert [row["kind"] for row in found["kinds"]] == ["easy", "explicit", "implicit"]
    assert [(row["domain"], row["kind"]) for row in found["cells"]] == [
        ("hr", "explicit"),
        ("hr", "implicit"),
        ("it", "easy"),
    ]
    assert found["overall"]["false_accept"].value == pytest.approx(2 / 3)
    assert found["overall"]["proposal"]["why"].startswith("1 - 0.050 / ")


def test_all_counts_come_from_four_queries(texts, ada, django_assert_num_queries):
    read(None, (ada, "approve"), **texts)
    refused(**texts)
    with django_assert_num_queries(4):
        calibrations()
