"""Any order of claims, decisions, undos, ended leases and publications leaves a queue that is true to its decisions."""

from collections import Counter
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rules.models import RuleVersion
from synthesis.models import Decision, ReviewItem, Sample, SecondShare
from synthesis.review import queue as review_queue
from synthesis.review import services as review_services
from tests.factories import make_rule, make_sample, make_tool
from trace_site.audit.models import AuditChange, AuditEntry
from trace_site.lib.errors import TraceError

PEOPLE = 3
person = st.integers(0, PEOPLE - 1)
STEPS = st.one_of(
    st.tuples(st.sampled_from(["claim", "skip", "undo", "release", "heartbeat", "again"]), person),
    st.tuples(st.sampled_from(["approve", "edit", "reject"]), person),
    st.tuples(st.sampled_from(["claim_and_approve", "claim_and_edit", "claim_and_reject"]), person),
    st.tuples(st.sampled_from(["claim_and_approve", "claim_and_reject"]), person),
    st.tuples(
        st.sampled_from(["expire", "sweep", "publish", "republish", "drop", "share", "write"]), st.just(0)
    ),
)
DISPUTED = [("claim_and_approve", 0), ("claim_and_reject", 1)]
TO_THE_END = [
    *DISPUTED,
    ("claim_and_edit", 2),
    ("undo", 2),
    ("undo", 1),
    ("publish", 0),
    ("undo", 0),
    ("republish", 0),
]
HUMAN_OF_ROUND = {1: "pending", 2: "second", 3: "disputed"}


class World:
    """Three people before samples of one rule; what they do is what a page would send."""

    def __init__(self) -> None:
        group = Group.objects.get_or_create(name="reviewer")[0]
        self.people = [User.objects.create_user(f"person-{number}") for number in range(PEOPLE)]
        for one in self.people:
            one.groups.add(group)
        self.tools = [make_tool("New/GetSlip"), make_tool("Old/GetSlip")]
        self.rule = make_rule(*self.tools, code="SLIP_YEAR")
        self.first = self.rule.published
        self.samples = [make_sample(rule=self.rule, tools=self.tools)]
        SecondShare.objects.create(share=1.0)
        self.shown: list[ReviewItem | None] = [None] * PEOPLE
        self.sent: list[tuple[str, ReviewItem] | None] = [None] * PEOPLE

    def step(self, name: str, number: int) -> None:
        try:
            with transaction.atomic():
                getattr(self, name)(number)
        except TraceError as error:
            assert error.code in {"conflict", "nothing_to_undo", "filtered"}, error

    def claim(self, number: int) -> None:
        self.shown[number] = review_queue.claim_next(self.people[number])

    def skip(self, number: int) -> None:
        if item := self.shown[number]:
            review_queue.skip(self.people[number], item.pk)

    def release(self, number: int) -> None:
        review_queue.release(self.people[number])

    def heartbeat(self, number: int) -> None:
        if item := self.shown[number]:
            review_queue.heartbeat(self.people[number], item.pk, item.claim)

    def undo(self, number: int) -> None:
        review_services.undo(reviewer=self.people[number])

    def approve(self, number: int) -> None:
        self.decide("approve", number)

    def edit(self, number: int) -> None:
        self.decide("edit", number)

    def reject(self, number: int) -> None:
        self.decide("reject", number)

    def claim_and_approve(self, number: int) -> None:
        self.claim(number)
        self.decide("approve", number)

    def claim_and_edit(self, number: int) -> None:
        self.claim(number)
        self.decide("edit", number)

    def claim_and_reject(self, number: int) -> None:
        self.claim(number)
        self.decide("reject", number)

    def decide(self, verdict: str, number: int) -> None:
        if item := self.shown[number]:
            self.sent[number] = (verdict, item)
            self.send(verdict, item, number)

    def again(self, number: int) -> None:
        """The last submission once more."""
        if sent := self.sent[number]:
            self.send(*sent, number)

    def send(self, verdict: str, item: ReviewItem, number: int) -> None:
        given = {"sample": item.sample_id, "reviewer": self.people[number], "claim": item.claim}
        if verdict == "approve":
            review_services.approve(**given)
        elif verdict == "reject":
            review_services.reject(reason="leak", **given)
        else:
            own = next(one for one in self.samples if one.pk == item.sample_id)
            review_services.edit(query=f"{own.query} please", trace=own.trace, **given)

    def expire(self, _: int) -> None:
        ReviewItem.objects.filter(state="claimed").update(claimed_until=Now() - timedelta(seconds=1))

    def sweep(self, _: int) -> None:
        review_queue.sweep()

    def publish(self, _: int) -> None:
        number = self.rule.versions.count() + 1
        version = RuleVersion.objects.create(
            rule=self.rule,
            number=number,
            target=self.first.target,
            confusable_ids=self.first.confusable_ids,
            text=f"{self.first.text} {number}",
            content_hash=f"{number}",
        )
        self.rule.published = version
        self.rule.save()

    def republish(self, _: int) -> None:
        self.rule.published = self.first
        self.rule.save()

    def drop(self, _: int) -> None:
        """The machine takes the last sample back, or gives it again."""
        row = Sample.objects.get(pk=self.samples[-1].pk)
        row.machine = "dropped" if row.machine == "ready" else "ready"
        row.save(update_fields=["machine"])

    def write(self, _: int) -> None:
        """A run brings one more sample."""
        if self.rule.published_id == self.first.pk and len(self.samples) < 4:
            self.samples.append(make_sample(rule=self.rule, tools=self.tools))

    def share(self, _: int) -> None:
        row = SecondShare.objects.get()
        SecondShare.objects.update(share=1.0 - row.share)


def standing(sample: Sample) -> dict[int, Decision]:
    rows = Decision.objects.filter(sample=sample, item__state="decided", take=F("item__takes"))
    found = list(rows.exclude(verdict="undo").select_related("item"))
    assert max(Counter(row.round for row in found).values(), default=1) == 1, (
        "two decisions of one reading stand"
    )
    assert all(row.reviewer_id == row.item.decided_by_id for row in found)
    return {row.round: row for row in found}


def check(world: World) -> None:
    published = world.rule.published_id == world.first.pk
    decided = ReviewItem.objects.filter(state="decided").count()
    for sample in Sample.objects.all():
        made = standing(sample)
        decided -= len(made)
        readers = [row.reviewer_id for row in made.values()]
        assert len(readers) == len(set(readers)), "one person decided two rounds"
        assert sample.human == _follows(made), (sample.human, made)
        waits = list(sample.review_items.filter(state__in=("open", "claimed")))
        wanted = published and sample.machine == "ready" and sample.human in HUMAN_OF_ROUND.values()
        assert [HUMAN_OF_ROUND[item.round] for item in waits] == ([sample.human] if wanted else [])
    assert decided == 0, "an item is decided and no decision stands"
    rows = Decision.objects.count()
    assert AuditChange.objects.filter(table_name="synthesis_decision").count() == rows
    assert AuditEntry.objects.filter(action__startswith="sample.").count() == rows


def _follows(made: dict[int, Decision]) -> str:
    """The human status that the standing decisions mean."""
    first, second, third = (made.get(number) for number in (1, 2, 3))
    if first is None:
        return "pending"
    final = "rejected" if first.verdict == "reject" else "approved"
    if third is not None:
        return "rejected" if third.verdict == "reject" else "approved"
    if second is None:
        return "second" if first.after["human"] == "second" else final
    agree = review_services.outcome(first.verdict, first.after) == review_services.outcome(
        second.verdict, second.after
    )
    return final if agree else "disputed"


@pytest.mark.django_db
@pytest.mark.parametrize("examples", [8, pytest.param(80, marks=pytest.mark.long)])
def test_any_order_leaves_items_and_samples_true_to_the_standing_decisions(db, examples):
    @settings(max_examples=examples)
    @given(st.sampled_from([[], DISPUTED, TO_THE_END]), st.lists(STEPS, min_size=8, max_size=30))
    @example(TO_THE_END, [("claim_and_approve", number % PEOPLE) for number in range(9)])
    def follow(before, steps):
        with transaction.atomic():
            world = World()
            for name, number in before:
                world.step(name, number)
                check(world)
            world.write(0)
            for name, number in steps:
                world.step(name, number)
                check(world)
            transaction.set_rollback(True)

    follow()
