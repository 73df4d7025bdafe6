"""Rollups equal an independent recomputation after every event, are written by row, and say when they are behind."""

import json
import random
from datetime import timedelta
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from catalog.core.words import text_key
from catalog.lookalikes import cluster_dismiss
from catalog.models import Clustering, Tool
from evaluation.core import report
from evaluation.coverage import gaps
from evaluation.coverage.counted import counted, figures_by_domain, one_count, read_count
from evaluation.models import (
    Answer,
    Count,
    DomainPoint,
    Evaluation,
    LabelledRequest,
    RetrievalRequest,
)
from evaluation.results import rollups, tasks
from evaluation.results.unanswered import Unanswered
from evaluation.what_if.selectors import Choice, plan_of
from rules.models import Rule
from synthesis.models import Sample, SnapshotSample
from tests.evaluation.conftest import FAKE
from tests.evaluation.recomputed import assert_equal_to_recomputed
from tests.evaluation.test_services import model_with
from tests.factories import (
    crown,
    make_cluster,
    make_domain,
    make_evaluation,
    make_model,
    make_rule,
    make_run,
    make_sample,
    make_snapshot,
    make_tool,
    thawed,
)
from trace_site import jobs
from trace_site.access import may
from trace_site.jobs import Job

pytestmark = pytest.mark.django_db


def count_again():
    """What the sweeper does, the pause between two counts left out."""
    Count.objects.update(at=timezone.now() - timedelta(hours=1))
    rollups.sweep()


@pytest.fixture(autouse=True)
def home(settings, tmp_path, monkeypatch):
    few_draws(monkeypatch)
    settings.TRACE_HOME = tmp_path
    settings.STORE_URL = (tmp_path / "store").as_uri()
    settings.JOB_LEASE_SECONDS = 3600


def few_draws(monkeypatch):
    """Evaluations are counted with their intervals, which nothing here is about."""
    sampled = report.bootstrap_table
    monkeypatch.setattr(
        report, "bootstrap_table", lambda *table, **more: sampled(*table, **more | {"draws": 20})
    )


@pytest.fixture
def owner(db):
    return User.objects.create(username="copilot")


class World:
    """Two domains of clusters, rules over some of their pairs, a champion with answers from all three sources."""

    def __init__(self, owner, seed=3):
        self.chance = random.Random(seed)
        self.owner = owner
        self.tools, self.clusters = {}, {}
        for slug in ("hr", "finance"):
            make_domain(slug)
            tools = [make_tool(f"{slug.title()}{n}/Do", domain=make_domain(slug)) for n in range(14)]
            clustering = Clustering.objects.create(domain_id=slug, version=1, tau=0.8, algorithm="test")
            parts = [tools[:5], tools[5:8], tools[8:10]]  # four tools lie outside
            self.clusters[slug] = [make_cluster(*part, clustering=clustering) for part in parts]
            self.tools[slug] = tools
        self.every = [tool for tools in self.tools.values() for tool in tools]
        hr = self.tools["hr"]
        self.rule = make_rule(hr[0], hr[1], hr[2], code="FIRST")
        make_rule(self.tools["finance"][5], self.tools["finance"][6], code="SECOND")
        self.snapshot = make_snapshot()
        self.models = [self.model(), self.model()]
        self.jobs = {model: Job.objects.create(kind="rule_tests", state="done") for model in self.models}
        self.benchmark = None
        for model in (None, *self.models):
            self.measure(model)
        crown(self.models[0])
        self.samples()
        self.requests(60)

    def model(self):
        return make_model(run=make_run(snapshot=self.snapshot, retrieval="r+R"))

    def guess(self, gold):
        """Right, a neighbour by number, anything, or no tool."""
        near = self.every[(self.every.index(gold) + 1) % len(self.every)]
        return self.chance.choice([gold, gold, near, near, self.chance.choice(self.every), None])

    def measure(self, model):
        answers = []
        chance = random.Random(5)
        for gold in [chance.choice(self.every) for _ in range(40)]:
            first = self.guess(gold)
            side = {"side": "exception"} if len(answers) % 3 == 0 else {}
            answers.append((gold, [first.name] if first else [], {}, side))
        more = {"benchmark": self.benchmark} if self.benchmark else {}
        decode = "fast" if model else "embedding"
        made = make_evaluation(*answers, model=model, decode=decode, **more)
        self.benchmark = made.benchmark

    def samples(self):
        for place in range(12):
            gold = self.chance.choice(self.every)
            sample = make_sample(tools=[gold, self.every[0]], human="approved")
            if place < 4:
                SnapshotSample.objects.create(
                    snapshot=self.snapshot, sample=sample, position=sample.pk, sample_key=sample.key
                )
            for model in self.models if place > 2 else ():
                first, near = self.guess(gold), self.guess(gold)
                item, _ = LabelledRequest.objects.get_or_create(
                    origin="sample",
                    sample=sample,
                    text_key=text_key(sample.query) if place != 5 else "edited since",
                )
                of = {"item": item, "job": self.jobs[model]}
                for by, tool in ((model, first), (None, near)):
                    Answer.objects.create(model=by, output={"tools": [tool.name] if tool else []}, **of)

    def requests(self, many):
        for number in range(many):
            gold = self.chance.choice(self.every[:20])
            first, verdict = self.guess(gold), self.chance.choice(["", "", "right", "wrong"])
            expected = [gold.name] if verdict == "wrong" and number % 3 else []
            RetrievalRequest.objects.create(
                key=uuid4(),
                at=timezone.now() - timedelta(days=self.chance.randrange(40)),
                owner=self.owner,
                via=self.chance.choice(["single", "batch", "report"]),
                outcome=self.chance.choice(["answered", "answered", "model_away"]),
                query=f"asked {number}" if number % 5 else "",
                model=self.chance.choice([None, *self.models]),
                tools=[first.name] if first else [],
                verdict=verdict,
                expected=expected,
                reported_at=timezone.now() if verdict else None,
            )


@pytest.fixture
def world(owner):
    return World(owner)


def applied(world):
    make_rule(*world.tools["finance"][:4], code="THIRD")


def rolled_back(world):
    """What is published tells less apart."""
    fresh = make_rule(
        world.tools["hr"][0], world.tools["hr"][1], code="AGAIN", published=False
    ).versions.get()
    Rule.objects.filter(pk=world.rule.pk).update(published=None)
    Rule.objects.filter(pk=fresh.rule_id).update(published=fresh)


def retired(world):
    """A tool goes; clusters are found anew among those that are left."""
    gone = world.tools["hr"][1]
    Tool.objects.filter(pk=gone.pk).update(status=Tool.Status.RETIRED)
    make_cluster(world.tools["hr"][0], *world.tools["hr"][2:5])


def reclustered(world):
    clustering = Clustering.objects.create(domain_id="finance", version=2, tau=0.7, algorithm="other")
    tools = world.tools["finance"]
    make_cluster(*tools[:3], clustering=clustering)
    make_cluster(*tools[4:9], clustering=clustering)


def promoted(world):
    crown(world.models[1])


EVENTS = [applied, rolled_back, retired, reclustered, promoted]


@pytest.mark.parametrize("seed", [3, 4])
def test_rollups_equal_a_recomputation_after_each_event(owner, seed):
    world = World(owner, seed)
    count_again()
    truth = assert_equal_to_recomputed()
    found = truth["domains"]["hr"]["groups"]["all"]
    assert 0 < found["wrong"] < found["n"] and truth["domains"]["hr"]["score"] > 0
    assert all(count["n"] for count in truth["domains"]["hr"]["sources"].values())
    for event in EVENTS:
        event(world)
        count_again()
        after = assert_equal_to_recomputed()
        assert after != truth, event.__name__
        truth = after
        assert rollups.refresh() == {"outcomes": 0, "tools": 0, "clusters": 0, "domains": 0}


def test_each_event_adds_a_point_that_says_why(world):
    count_again()
    version = world.rule.published_id
    for event in EVENTS:
        event(world)
        count_again()
        count_again()
    why = {slug: [point.why for point in gaps.trend(slug)] for slug in ("hr", "finance")}
    added = Rule.objects.get(code="AGAIN").published_id
    third = Rule.objects.get(code="THIRD").published_id
    first, second = (model.pk for model in world.models)
    assert why["hr"] == [
        {},
        {"rules": {"added": [added], "gone": [version]}},
        {"clustering": [1, 2]},
        {"model": [first, second]},
    ]
    assert why["finance"] == [
        {},
        {"rules": {"added": [third], "gone": []}},
        {"clustering": [1, 2]},
        {"model": [first, second]},
    ]
    with pytest.raises(IntegrityError, match="frozen"), transaction.atomic():
        DomainPoint.objects.update(covered=0)


def test_a_dismissed_cluster_leaves_gaps_and_score_and_is_a_point_of_the_trend(world):
    count_again()
    before = counted().domains["hr"]
    cluster_dismiss(cluster=world.clusters["hr"][0], reason="they differ", actor=None)
    count_again()
    assert_equal_to_recomputed()
    after = counted().domains["hr"]
    assert (after.gaps, after.clusters) == (before.gaps - 1, before.clusters - 1)
    row = gaps.cluster_count("hr", world.clusters["hr"][0].pk)
    assert (row.state, row.open_tools, row.score) == ("dismissed", [], None) and row.rank > after.gaps
    assert row.pk not in [gap.pk for gap in gaps.clusters("hr")]
    every = gaps.clusters("hr", gaps.ClusterFilter())
    assert [one.rank for one in every] == [1, 2, 3] and gaps.clusters(
        "hr", gaps.ClusterFilter(), after=2
    ) == every[2:]
    assert DomainPoint.objects.filter(domain="hr").last().why == {"counted": True}


def test_what_rules_and_clusters_change_is_counted_at_once_and_the_rest_after_a_pause(world):
    count_again()
    applied(world)
    assert rollups.sweep() > 0 and rollups.sweep() == 0
    make_sample(human="approved")
    assert rollups.is_behind(rollups.Now.read()) and rollups.sweep() == 0


def test_a_domain_without_evaluations_has_rollups_too_and_says_not_measured(db):
    make_cluster(*(make_tool(f"Pay{n}/Do") for n in range(3)))
    count_again()
    row = counted().domains["hr"]
    assert (row.pairs, row.covered, row.gaps, row.score, row.model) == (2, 0, 1, None, None)
    assert gaps.confusion_by_group(row)["all"].ours is None
    (gap,) = gaps.clusters("hr")
    assert (gap.rank, gap.score, gap.measured) == (1, None, 0) and gap.expected_rules > 0


def test_without_a_model_the_embedding_answers(world):
    with thawed():
        Evaluation.objects.filter(model__isnull=False).delete()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("DELETE FROM training_aliasmove")
        cursor.execute("SET LOCAL session_replication_role = DEFAULT")
    count_again()
    row = counted().domains["hr"]
    assert row.model is None and gaps.side_of(row) == "embedding"
    assert row.groups["all"]["n"] == row.groups["all"]["n_embedding"] > 0
    assert row.groups["all"]["wrong"] == row.groups["all"]["wrong_embedding"]
    assert_equal_to_recomputed()


def test_what_did_not_move_is_not_counted_and_a_count_says_how_many_rows_differ(world):
    count_again()
    before = Count.objects.get()
    Count.objects.update(at=timezone.now() - timedelta(hours=1))
    assert rollups.sweep() == 0 and Count.objects.get().pk == before.pk
    hr = counted().clusters["hr"]
    applied(world)
    differ = rollups.refresh()
    assert differ["clusters"] > 0 and counted().clusters["hr"] == hr
    assert counted().clusters["finance"][0].state != before.counted["clusters"]["finance"][0][1]
    assert Count.objects.count() == 1


def test_rows_of_another_edition_are_not_read_and_counted_anew(world):
    count_again()
    points = DomainPoint.objects.count()
    Count.objects.update(edition=0)
    assert counted().outcomes == ()
    count_again()
    assert counted().outcomes and DomainPoint.objects.count() == points


def test_a_request_reads_one_count_and_the_next_the_one_stored_meanwhile(world):
    count_again()
    seen = []

    @one_count
    def answered(request):
        seen.append(counted())
        if request == "first":
            applied(world)
            rollups.refresh()
        seen.append(counted())

    answered("first")
    answered("second")
    assert seen[0] is seen[1] and seen[2] is seen[3]
    assert seen[2].domains["hr"].at > seen[0].domains["hr"].at


def test_a_count_that_is_replaced_before_it_is_read_is_read_from_its_successor(world):
    count_again()
    old = Count.objects.get().pk
    applied(world)
    rollups.refresh()
    read_count.cache_clear()
    assert counted(old).domains["hr"].at == Count.objects.get().at


def test_the_sweeper_waits_between_two_counts_but_not_for_another_champion(world):
    count_again()
    Count.objects.update(at=timezone.now())
    make_sample(rule=world.rule, tools=world.tools["hr"][:2], human="approved")
    assert rollups.sweep() == 0
    assert rollups.is_behind(rollups.Now.read())
    promoted(world)
    assert rollups.sweep() > 0
    assert not rollups.is_behind(rollups.Now.read())


def test_erased_requests_leave_the_numbers(world):
    count_again()
    before = counted().domains["hr"].sources["production"]["n"]
    assert before > 0
    RetrievalRequest.objects.all().delete()
    count_again()
    assert counted().domains["hr"].sources["production"]["n"] == 0
    assert not gaps.outcomes(source="production")
    assert_equal_to_recomputed()


def test_what_the_snapshot_holds_word_for_word_does_not_count(world):
    count_again()
    before = counted().domains["hr"].groups["all"]["n"]
    one = LabelledRequest.objects.get(pk=gaps.outcomes(source="benchmark", domain="hr")[0].of)
    same = make_sample(tools=world.tools["hr"][:2], query=one.data["query"].upper() + "!", human="approved")
    other = make_snapshot()
    SnapshotSample.objects.create(snapshot=other, sample=same, position=1, sample_key=same.key)
    model = make_model(run=make_run(snapshot=other, retrieval="r+R"))
    world.measure(model)
    crown(model)
    count_again()
    found = counted().domains["hr"]
    assert (
        one.pk not in [row.of for row in gaps.outcomes(source="benchmark")]
        and found.groups["all"]["n"] < before
    )
    assert_equal_to_recomputed()


def test_every_number_opens_exactly_its_list(world):
    count_again()
    for domain, row in counted().domains.items():
        for group, counts in row.groups.items():
            found = gaps.outcomes(domain=domain, group=group)
            assert len(found) == counts["n"]
            assert sum(bool(one.model_wrong) for one in found) == counts["wrong"]
            assert sum(bool(one.embedding_wrong) for one in found) == counts["wrong_embedding"]
        for source, counts in row.sources.items():
            assert len(gaps.outcomes(domain=domain, source=source)) == counts["n"]
        for cluster in counted().clusters[domain]:
            found = gaps.outcomes(cluster=cluster.pk)
            assert (len(found), sum(bool(one.model_wrong) for one in found)) == (cluster.n, cluster.wrong)
            for at in ("uncovered", "covered"):
                listed = gaps.outcomes(cluster=cluster.pk, wrong="model", at=at)
                assert len(listed) == getattr(cluster, f"wrong_{at}")
    for tool, row in counted().tools.items():
        assert len(gaps.outcomes(tools=[tool])) == row.n


def test_pairs_say_right_tool_chosen_tool_and_share(world):
    count_again()
    for cluster in (row for rows in counted().clusters.values() for row in rows if row.wrong):
        found = gaps.pair_confusion(gaps.outcomes(cluster=cluster.pk))
        assert sum(pair.wrong for pair in found) == cluster.wrong
        for pair in found:
            assert pair.share.value == pair.wrong / pair.n and 0 <= pair.share.low <= pair.share.value


def test_texts_are_told_to_those_who_may_read_them(world, user_with):
    count_again()
    found = gaps.outcomes(domain="hr")
    told = {}
    for role in ("product_manager", "expert", "admin"):
        shown = gaps.shown_outcomes(found, user_with(role))
        assert [(row.source, row.id) for row in shown] == [(row.source, row.of) for row in found]
        told[role] = {row.source for row in shown if row.text}
        assert all(row.url for row in shown if row.text)
    assert told == {
        "product_manager": {"benchmark", "production"},
        "expert": {"benchmark", "sample"},
        "admin": {"benchmark", "sample", "production"},
    }


def test_production_misses_are_those_about_the_domain_and_hide_texts_from_others(world, user_with):
    pm, expert = user_with("product_manager"), user_with("expert")
    names = set(Tool.objects.filter(domain="hr").values_list("name", flat=True))
    found, every = gaps.production_misses("hr", pm)
    since = timezone.now() - timedelta(days=30)
    wanted = [
        row.pk
        for row in RetrievalRequest.objects.filter(verdict="wrong", at__gte=since).order_by("-pk")
        if {*row.tools[:1], *row.expected} & names
    ]
    assert wanted and [miss.id for miss in found] == wanted and every == len(wanted)
    assert any(miss.text for miss in found)
    hidden, _ = gaps.production_misses("hr", expert)
    assert [miss.id for miss in hidden] == wanted and not any(miss.text or miss.url for miss in hidden)
    assert gaps.production_misses("hr", pm, 1) == (found[:1], every)
    others, _ = gaps.production_misses("finance", pm)
    assert {miss.id for miss in others} - {*wanted}, "those of another domain are not counted"


def test_what_if_reads_rollups_and_says_samples_and_cost(world):
    count_again()
    chosen = [gap.pk for gap in gaps.clusters("hr") if gap.score is not None and gap.open_tools]
    row = figures_by_domain()["hr"]
    plan = plan_of(Choice("hr", (*chosen, world.clusters["finance"][0].pk)), row)
    assert plan.rules == len(chosen) and plan.samples == 12 * len(chosen) and plan.left_out == 1
    score = sum(gap.score for gap in gaps.clusters("hr") if gap.pk in chosen)
    assert plan.found.misses.value == pytest.approx(score, abs=1e-5)
    requests = sum(term.requests for pick in plan.picks for term in pick.terms if term.n)
    assert plan.found.left.value == pytest.approx(requests * row.covered_wrong / row.covered_n)
    assert plan.found.gain.low < plan.found.gain.value < plan.found.gain.high
    nothing = plan_of(Choice("hr"), row)
    assert (nothing.rules, nothing.found.gain, nothing.samples) == (0, None, 0)


def test_selectors_need_the_same_queries_for_little_and_much(world, user_with):
    reader = user_with("admin")
    may(reader, "evaluation:request")  # roles are read once a request

    def look():
        with CaptureQueriesContext(connection) as made:
            figures_by_domain()
            gaps.trend("hr")
            shown = gaps.clusters("hr", size=25)
            gaps.pair_confusion(gaps.outcomes(domain="hr"))
            gaps.shown_outcomes(gaps.outcomes(domain="hr"), reader)
            gaps.production_misses("hr", reader)
            plan_of(Choice("hr", tuple(row.pk for row in shown)), figures_by_domain()["hr"])
        return len(made)

    count_again()
    few = look()
    clustering = world.clusters["hr"][0].clustering
    for _ in range(12):
        make_cluster(*(make_tool() for _ in range(4)), clustering=clustering, position=50)
    world.requests(80)
    count_again()
    assert look() == few


def test_a_recount_needs_the_same_queries_for_few_clusters_and_for_many(world):
    count_again()

    def queries():
        with CaptureQueriesContext(connection) as made:
            rollups.count()
        return len(made)

    few = queries()
    clustering = world.clusters["hr"][0].clustering
    for _ in range(12):
        tools = [make_tool() for _ in range(4)]
        make_cluster(*tools, clustering=clustering, position=50)
        make_rule(*tools[:2])
    world.requests(50)
    queries()  # what changed is read once
    assert queries() <= few


def test_command_counts_rollups_anew_and_says_how_many_differed(world, capsys):
    count_again()
    row = Count.objects.get()
    row.counted["clusters"]["hr"][0][10] = 99  # wrong answers
    Count.objects.update(counted=row.counted)
    read_count.cache_clear()
    call_command("coverage", recount=True, json=True)
    assert '"clusters": 1' in capsys.readouterr().out.splitlines()[-1]
    assert_equal_to_recomputed()


# The champion is asked what it did not learn from.


@pytest.fixture
def asked_engine(monkeypatch, tmp_path):
    monkeypatch.setattr(tasks, "ENGINE", FAKE)
    monkeypatch.setattr(tasks, "ENCODER", FAKE)
    monkeypatch.delenv("FAKE_ENGINE", raising=False)


def test_the_champion_is_asked_kept_out_samples_and_reports_once(asked_engine, owner, tmp_path, monkeypatch):
    import numpy as np

    from evaluation.loop.services import ask_champion

    names = ["Pay/GetPayslip", "Pay/GetPaystub", "Leave/Book"]
    tools = [make_tool(name, embedding=row.tolist()) for name, row in zip(names, np.eye(3), strict=True)]
    make_cluster(*tools)
    model = model_with(tools, tmp_path)
    learned, kept, edited = (
        make_sample(tools=tools[:2], query=f"my GetPayslip of {month}", human="approved")
        for month in ("May", "June", "July")
    )
    make_sample(tools=tools[:2], query="GetPaystub that nobody approved")
    SnapshotSample.objects.create(
        snapshot=model.run.snapshot, sample=learned, position=1, sample_key=learned.key
    )
    told = {"owner": owner, "via": "single", "outcome": "answered", "at": timezone.now(), "verdict": "wrong"}
    report = RetrievalRequest.objects.create(
        **told, key=uuid4(), query="Book a day", tools=[names[0]], expected=[names[2]]
    )
    RetrievalRequest.objects.create(**told, key=uuid4(), query="", tools=[names[0]], expected=[names[2]])
    erased = RetrievalRequest.objects.create(
        **told, key=uuid4(), query="Book a week", tools=[names[0]], expected=[names[2]]
    )
    real = Unanswered.publish

    def erased_meanwhile(*args):
        RetrievalRequest.objects.filter(pk=erased.pk).delete()
        real(*args)

    monkeypatch.setattr(Unanswered, "publish", erased_meanwhile)
    crown(model)
    assert (ask_champion(), ask_champion()) == (1, 0)
    job = jobs.run(Job.objects.get(kind="rule_tests").pk)
    assert job.state == "done", job.error
    assert job.result == {"rules_tested": 0, "rules_passed": 0, "kept_out": 3}
    of_model, of_embedding = (
        {
            one.item.sample_id or one.item.request_id: one.output["tools"]
            for one in Answer.objects.filter(model=by)
        }
        for by in (model, None)
    )
    assert set(of_model) == set(of_embedding) == {kept.pk, edited.pk, report.pk}
    assert of_model[kept.pk][0] == names[0] and of_model[report.pk][0] == names[2]
    assert len(of_embedding[kept.pk]) == 3
    texts = json.dumps(list(LabelledRequest.objects.values("data")) + list(Answer.objects.values("output")))
    assert "June" not in texts and "a day" not in texts
    assert ask_champion() == 0
    count_again()
    sources = counted().domains["hr"].sources
    assert {name: counts["n"] for name, counts in sources.items()} == {
        "benchmark": 0,
        "sample": 2,
        "production": 1,
    }
    Sample.objects.filter(pk=edited.pk).update(query="my GetPaystub of July", human="approved")
    count_again()
    assert counted().domains["hr"].sources["sample"]["n"] == 1
    assert_equal_to_recomputed()
    assert [text for _, text in Unanswered.kept_out(model).requests] == ["my GetPaystub of July"]
    Sample.objects.filter(pk=edited.pk).update(query="my GetPayslip of July", human="approved")
    assert Unanswered.kept_out(model).count == 0
    report.delete()
    assert set(Answer.objects.values_list("item__origin", flat=True)) == {"sample"}


def test_a_request_that_is_erased_while_rollups_are_counted_fails_nothing(world):
    count_again()
    before = Count.objects.get().pk
    now, found = rollups.count()
    RetrievalRequest.objects.filter(pk=gaps.outcomes(source="production")[0].of).delete()
    with transaction.atomic():
        rollups.store(now, found)
    assert Count.objects.get().pk > before and rollups.is_behind(rollups.Now.read())
    count_again()
    assert_equal_to_recomputed()
