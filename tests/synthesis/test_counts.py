"""Rollups equal a recount and items equal the Python truth after any statements, by anybody, in any order, at once."""

import random
import threading
from contextlib import closing
from io import StringIO
from json import loads
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import OperationalError, connection, transaction
from django.db.models import Sum

from rules.models import Rule, RuleVersion
from synthesis.models import ReviewCount, ReviewItem, Sample, SampleCount, SecondShare
from synthesis.review import services as review_services
from synthesis.review.queue import claim_next, repair_items, sweep_items, wrong_items
from synthesis.samples import counts
from synthesis.samples.counts import queue_totals, sample_counts, waiting_total
from tests.factories import make_domain, make_rule, make_sample, make_tool
from tests.synthesis.runs_made import make_started_run
from trace_site.lib.errors import TraceError

pytestmark = pytest.mark.django_db
MACHINE, HUMAN = Sample.Machine.values, Sample.Human.values


class World:
    """Two rules of two versions, six slots, a run under way and one that ended, three people, and statements drawn by
    lot over samples of them."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.tools = [make_tool(f"Payroll/Get{seed}x{n}") for n in range(3)]
        self.rules = [make_rule(*self.tools, code=f"RULE{seed}_{n}") for n in range(2)]
        for rule in self.rules:
            first = rule.published
            RuleVersion.objects.create(
                rule=rule, number=2, target=first.target, confusable_ids=first.confusable_ids, text="Another."
            )
        self.runs = [make_started_run(state) for state in ("running", "cancelled")]
        self.people = [User.objects.create_user(f"person {seed} {n}") for n in range(3)]
        SecondShare.objects.get_or_create(domain=None, style="", defaults={"share": 0.5})
        for _ in range(4):
            self.add()

    def some(self) -> Sample:
        return self.rng.choice(list(Sample.objects.order_by("pk")) or [make_sample(tools=self.tools)])

    def sample(self) -> dict[str, Any]:
        rule = self.rng.choice([*self.rules, None])
        version = self.rng.choice(list(rule.versions.order_by("pk"))) if rule else None
        return {
            "run": self.rng.choice(self.runs),
            "rule_version": version,
            "branch": "rule" if rule else "rrb",
            "domain": make_domain(self.rng.choice(["hr", "fi"])),
            "style": self.rng.choice(["explicit", "implicit"]) if rule else "",
            "slot": self.rng.choice(["", "a", "b", "c"]),
            "machine": self.rng.choice([*MACHINE, "ready", "ready"]),
            "human": self.rng.choice([*HUMAN, "pending", "pending", "pending"]),
            "writer": self.rng.choice(["offline", "llm:one", "llm:two"]),
        }

    def add(self) -> None:
        make_sample(tools=self.tools, **self.sample())

    def add_many(self) -> None:
        base = self.some()
        rows = []
        for _ in range(self.rng.randint(1, 5)):
            row = Sample.objects.get(pk=base.pk)
            row.pk, row.key = None, f"{self.rng.getrandbits(80)}"
            for name, value in self.sample().items():
                setattr(row, name, value)
            rows.append(row)
        Sample.objects.bulk_create(rows)

    def save(self) -> None:
        row = self.some()
        row.machine, row.human = self.rng.choice(MACHINE), self.rng.choice(HUMAN)
        row.approved_how = self.rng.choice(["", "read", "bulk"])
        row.save()

    def update_many(self) -> None:
        rows = Sample.objects.filter(pk__in=[self.some().pk for _ in range(4)])
        rows.update(
            **self.rng.choice([{"human": self.rng.choice(HUMAN)}, {"machine": self.rng.choice(MACHINE)}])
        )

    def raw(self) -> None:
        sql = self.rng.choice(
            [
                "UPDATE synthesis_sample SET slot = 'b' WHERE id %% 3 = %s",
                "UPDATE synthesis_sample SET machine = 'ready', human = 'pending' WHERE id %% 5 = %s",
                "UPDATE synthesis_reviewitem SET state = 'held' WHERE state = 'open' AND id %% 4 = %s",
                "UPDATE synthesis_sample SET style = 'exception' WHERE style = 'implicit' AND id %% 3 = %s",
            ]
        )
        with connection.cursor() as cursor:
            cursor.execute(sql, [self.rng.randrange(3)])

    def delete(self) -> None:
        pk = self.some().pk
        Sample.objects.filter(pk=pk, review_items=None, decisions=None).delete()

    def publish(self) -> None:
        rule = self.rng.choice(self.rules)
        versions = [*rule.versions.order_by("pk"), None]
        Rule.objects.filter(pk=rule.pk).update(published=self.rng.choice(versions))

    def decide(self) -> None:
        person = self.rng.choice(self.people)
        if item := claim_next(person):
            if self.rng.random() < 0.6:
                review_services.approve(sample=item.sample_id, reviewer=person)
            else:
                review_services.reject(sample=item.sample_id, reviewer=person, reason="leak")

    def take_back(self) -> None:
        review_services.undo(reviewer=self.rng.choice(self.people))

    def policy(self) -> None:
        review_services.policy_approve(count=1, seed=self.rng.randrange(9))

    def assign(self) -> None:
        person = self.rng.choice([*self.people, None])
        ReviewItem.objects.filter(pk__in=ReviewItem.objects.order_by("?").values("pk")[:3]).update(
            assigned_to=person
        )

    def fold(self) -> None:
        counts.fold(1)

    def step(self) -> None:
        """One statement or service; about a fifth of them are rolled back."""
        names = "add add_many save update_many raw delete publish decide decide take_back policy assign fold"
        try:
            with transaction.atomic():
                getattr(self, self.rng.choice(names.split()))()
                if self.rng.random() < 0.2:
                    raise TraceError("never mind", code="conflict")
        except TraceError:
            return


@pytest.mark.parametrize("seed", range(6))
def test_after_any_statements_rollups_equal_a_recount_and_items_the_python_truth(seed):
    world = World(seed)
    for step in range(50):
        world.step()
        if step % 5 == 0:
            assert counts.recount() == []
            assert wrong_items() == set()
    assert (counts.recount(), wrong_items()) == ([], set())
    assert Sample.objects.count() == sample_counts({}).total > 0


@pytest.mark.django_db(transaction=True)
def test_threads_that_write_and_roll_back_at_once_leave_the_rollups_right(transactional_db):
    worlds = [World(seed) for seed in range(4)]
    errors: list[Exception] = []

    def work(world: World) -> None:
        with closing(connection):
            for _ in range(25):
                try:
                    world.step()
                except Exception as error:  # noqa: BLE001 - clashes roll back; the rest is asserted on
                    if not any(clash in str(error) for clash in ("deadlock", "unique", "foreign key")):
                        errors.append(error)

    threads = [threading.Thread(target=work, args=(world,)) for world in worlds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert counts.recount() == []
    repair_items(wrong_items())  # what crossed
    assert (counts.recount(), wrong_items()) == ([], set())


@pytest.fixture
def other(transactional_db):
    """A second connection, which waits for no lock longer than a second."""
    copy = connection.copy()
    with copy.cursor() as cursor:
        cursor.execute("SET lock_timeout = '1s'")
    yield copy
    copy.close()


def run_on(other: Any, sql: str, *params: Any) -> None:
    with other.cursor() as cursor:
        cursor.execute(sql, params)


def sums() -> tuple[int, int]:
    return sample_counts({}).total, waiting_total()


def test_a_sibling_that_becomes_ready_while_a_newer_one_is_written_is_found_and_withdrawn(other):
    old = make_sample(slot="a", machine="pending")
    with transaction.atomic():
        make_sample(slot="a")
        run_on(other, "UPDATE synthesis_sample SET machine = 'ready' WHERE id = %s", old.pk)
    assert ReviewItem.objects.filter(sample=old, state="open").exists()  # neither saw the other
    assert wrong_items() == {old.pk}
    assert sweep_items() == 1
    assert (wrong_items(), counts.recount()) == (set(), [])
    assert ReviewItem.objects.get(sample=old).state == "withdrawn"


def test_a_sibling_that_becomes_ready_while_the_newer_one_is_rejected_is_found_and_opened(other):
    old = make_sample(slot="a", machine="pending")
    new = make_sample(slot="a")
    with transaction.atomic():
        Sample.objects.filter(pk=new.pk).update(human="rejected")
        run_on(other, "UPDATE synthesis_sample SET machine = 'ready' WHERE id = %s", old.pk)
    assert not ReviewItem.objects.filter(sample=old).exists()
    assert wrong_items() == {old.pk}
    assert sweep_items() == 1
    assert ReviewItem.objects.get(sample=old).state == "open"


def test_a_sample_that_leaves_its_slot_leaves_it_to_the_one_before_it():
    old, new = make_sample(slot="a"), make_sample(slot="a")
    assert ReviewItem.objects.get(sample=old).state == "withdrawn"
    Sample.objects.filter(pk=new.pk).update(slot="b")
    assert ReviewItem.objects.get(sample=old).state == "open"


def test_a_sample_that_becomes_ready_while_its_rule_moves_on_waits_for_the_rule(other):
    rule = make_rule(make_tool(), make_tool())
    sample = make_sample(rule=rule, tools=[make_tool(), make_tool()], machine="pending")
    becomes_ready = "UPDATE synthesis_sample SET machine = 'ready' WHERE id = %s"
    with transaction.atomic():
        Rule.objects.filter(pk=rule.pk).update(published=None)
        with pytest.raises(OperationalError, match="lock timeout"):
            run_on(other, becomes_ready, sample.pk)
    run_on(other, becomes_ready, sample.pk)
    assert (ReviewItem.objects.count(), wrong_items()) == (0, set())


def test_writers_wait_neither_for_each_other_nor_for_a_fold_and_readers_see_what_is_committed(other):
    rows = [make_sample() for _ in range(3)]
    with transaction.atomic():
        Sample.objects.filter(pk=rows[0].pk).update(human="approved")
        counts.fold(1)
        run_on(other, "UPDATE synthesis_sample SET human = 'approved' WHERE id = %s", rows[1].pk)
        run_on(other, "UPDATE synthesis_reviewitem SET style = 'x' WHERE sample_id = %s", rows[2].pk)
        assert sums() == (3, 1)
    assert (counts.recount(), sums()) == ([], (3, 1))


def test_two_folds_at_once_count_nothing_twice(other):
    for _ in range(4):
        make_sample()
    with transaction.atomic():
        assert counts.fold(1) > 0
        with other.cursor() as cursor:
            cursor.execute(
                "SELECT pg_try_advisory_xact_lock(hashtext(%s))", [counts.LOCK + counts.SAMPLES.table]
            )
            assert cursor.fetchone() == (False,)
    assert counts.fold(1) == 0
    assert (counts.recount(), sums()) == ([], (4, 4))


def test_emptying_the_table_empties_the_counts(transactional_db):
    make_sample()
    refusing = (
        "SELECT DISTINCT tgrelid::regclass FROM pg_trigger WHERE tgfoid = 'trace_refuse_change'::regproc"
    )
    with connection.cursor() as cursor:
        cursor.execute(refusing)
        frozen = [name for (name,) in cursor.fetchall()]
        for does in ("DISABLE", "ENABLE"):
            for name in frozen:
                cursor.execute(f"ALTER TABLE {name} {does} TRIGGER USER")
            if does == "DISABLE":
                cursor.execute("TRUNCATE synthesis_sample CASCADE")
    assert (SampleCount.objects.count(), ReviewCount.objects.count()) == (0, 0)


def test_recount_tells_what_differs_and_repairs_it():
    make_sample()
    SampleCount.objects.update(n=5)
    ReviewCount.objects.all().delete()
    missing = [(one["rollup"], one["level"], one["n"]) for one in counts.recount()]
    assert missing == [("synthesis_samplecount", 0, -4), ("synthesis_reviewcount", 0, 1)]
    counts.fold(1)
    SampleCount.objects.filter(level=2).update(n=9)
    assert [(one["level"], one["n"]) for one in counts.recount()][:2] == [(0, -4), (2, -4)]
    out = StringIO()
    call_command("review_recount", "--repair", "--json", stdout=out)
    assert loads(out.getvalue().splitlines()[-1])["repaired"] is True
    assert (counts.recount(), sums()) == ([], (1, 1))


def test_folding_keeps_one_row_of_a_kind_and_leaves_few_loose_rows_alone():
    for _ in range(5):
        make_sample()
    assert counts.fold() == 0
    assert counts.fold(1) > 0
    assert list(SampleCount.objects.order_by("level").values_list("n", "level")) == [(5, 1), (5, 2)]
    Sample.objects.update(machine="dropped")
    counts.fold(1)
    assert set(SampleCount.objects.values_list("machine", "n")) == {("dropped", 5)}
    assert ReviewCount.objects.aggregate(sum=Sum("n"))["sum"] is None


def test_a_claim_writes_no_count(user_with):
    make_sample()
    before = list(ReviewCount.objects.values_list("pk", flat=True))
    claim_next(user_with("reviewer"))
    assert list(ReviewCount.objects.values_list("pk", flat=True)) == before


def test_each_filter_says_how_many_it_would_leave():
    rule = make_rule(make_tool(), make_tool(), code="SLIP_YEAR")
    make_sample(rule=rule, tools=[make_tool(), make_tool()], style="implicit")
    make_sample(rule=rule, tools=[make_tool(), make_tool()], human="approved", approved_how="read")
    make_sample(tier="hard", writer="llm:some")
    tally = sample_counts({"branch": "rule", "human": "pending"})
    assert tally.total == 1
    assert tally.options["branch"] == {"rule": 1, "rrb": 1}
    assert tally.options["human"] == {"pending": 1, "approved": 1}
    assert tally.options["writer"] == {"offline": 1}
    assert sample_counts({"rule": "SLIP_YEAR"}).total == 2
    assert sample_counts({"writer": "llm"}).total == 1


def test_what_one_has_read_or_others_were_given_is_not_counted_as_ones_own(user_with):
    me, you = user_with("reviewer", username="me"), user_with("reviewer", username="you")
    SecondShare.objects.create(share=1)
    for _ in range(3):
        make_sample()
    ReviewItem.objects.filter(pk=ReviewItem.objects.last().pk).update(assigned_to=you)
    review_services.approve(sample=ReviewItem.objects.first().sample_id, reviewer=me)
    assert queue_totals(me, {}) == {
        "left": 3,
        "held": 0,
        "assigned_to_others": 1,
        "read_by_you": 1,
        "elsewhere": 0,
    }
    assert (waiting_total(), waiting_total(me), waiting_total(you)) == (3, 1, 3)
    assert queue_totals(me, {"round": 2})["elsewhere"] == 2
