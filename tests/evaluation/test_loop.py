"""From a published rule to the model: every step is told from the rows, and each hand-over can be stopped at."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from catalog.models import Tool
from evaluation.loop.selectors import DONE, OFF, RUNNING, STOPPED, TITLES, WAITING, courses, under_way
from evaluation.loop.services import ask_champion, sweep, tell_authors
from evaluation.models import GateReport
from rules.models import Rule, RuleVersion
from synthesis.generate.automatic import loop_save
from synthesis.generate.planning import AUTOMATIC
from synthesis.models import LoopSettings, Sample, SnapshotSample, SynthesisRun
from tests.factories import (
    answer_tests,
    make_model,
    make_rule,
    make_run,
    make_sample,
    make_snapshot,
    make_tool,
)
from trace_site import jobs
from trace_site.audit import models as audit_models
from trace_site.jobs import Job
from trace_site.notices.services import Notice
from training.models import AliasMove, RetrainPolicy

pytestmark = pytest.mark.django_db
TESTS = [{"query": "my pay in May", "tools": ["Pay/Get"]}, {"query": "my pay in June", "tools": ["Pay/Get"]}]
PUBLISHED, WRITTEN, APPROVED, TRAINED, GATED, PROMOTED = range(6)


@pytest.fixture
def author(user_with):
    return user_with("expert", username="erin")


@pytest.fixture
def rule(author):
    tools = [make_tool("Pay/Get"), make_tool("Old/Get")]
    return make_rule(*tools, code="PAY_PERIOD", tests=TESTS, author=author)


@pytest.fixture
def policy():
    snapshot = {"strategy": "append", "per_rule": 2, "branches": ["rrb", "rule"], "domain": ""}
    cell = {"base": "pocket", "format": "a", "memo": "m", "retrieval": "r+R"}
    limits = {"approved_samples": 0, "changed_rules": 1, "quiet_minutes": 0}
    return RetrainPolicy.objects.create(name="line", active=True, snapshot=snapshot, **cell, **limits)


def course(rule):
    version = RuleVersion.objects.select_related("rule__domain", "author").get(pk=rule.published_id)
    return courses([version])[0]


def step(rule, place):
    return course(rule).steps[place]


def tools_of(rule):
    return [Tool.objects.get(pk=pk) for pk in rule.published.tool_ids]


def automatic_run(rule, state="done", **fields):
    job = jobs.enqueue("synthesis", {}, title="samples for PAY_PERIOD", wake=False)
    Job.objects.filter(pk=job.pk).update(state=state, **fields)
    params = {AUTOMATIC: [rule.published_id]}
    return SynthesisRun.objects.create(branch="rule", writer="offline", params=params, job=job)


def written(rule, count=2, **fields):
    run = automatic_run(rule)
    return [make_sample(rule=rule, tools=tools_of(rule), run=run, **fields) for _ in range(count)]


def learned(rule, samples, *, model=True, **fields):
    """A run of r+R, and its model, on a snapshot that holds the samples."""
    snapshot = make_snapshot()
    for position, sample in enumerate(samples):
        SnapshotSample.objects.create(
            snapshot=snapshot, sample=sample, position=position, sample_key=sample.key
        )
    run = make_run(snapshot=snapshot, **fields)
    return make_model(run=run) if model else run


def crown(model):
    return AliasMove.objects.create(alias="champion", model=model)


def gated(candidate, champion, verdict="pass"):
    key = f"report-{candidate.pk}-{GateReport.objects.count()}"
    return GateReport.objects.create(
        key=key, candidate=candidate, champion=champion, verdict=verdict, report={}
    )


def asked(model, rule, passed):
    answer_tests(model, rule.published, *[place < passed for place in range(2)])


def test_published_rule_waits_to_be_written_for_and_says_what_for(rule, author):
    audit_models.record(
        actor=author, action="rule.published", obj=rule, detail={"version_id": rule.published_id}
    )
    loop_save(actor=None, write=True)
    found = course(rule)
    assert [one.title for one in found.steps] == list(TITLES) and found.done == 1
    assert found.steps[PUBLISHED].said == "version 1, published by erin"
    assert found.at.title == "Samples written" and found.at.state == WAITING
    assert found.at.waits == ("It starts by itself within a minute.",)


def test_each_reason_why_nothing_is_written_is_told(rule, settings):
    assert (step(rule, WRITTEN).state, step(rule, WRITTEN).waits) == (
        OFF,
        ("Writing by itself is switched off.",),
    )
    loop_save(actor=None, write=True)
    settings.LLM_BASE_URL = "https://models.example.com/v1"
    settings.LLM_GENERATOR_MODEL = settings.LLM_TEACHER_MODEL = settings.LLM_JUDGE_MODEL = "large"
    assert "no admin has said what automatic runs may spend" in step(rule, WRITTEN).waits[0]


def test_run_under_way_failed_and_one_that_wrote_nothing(rule):
    run = automatic_run(rule, "running")
    assert step(rule, WRITTEN).state == RUNNING and f"run {run.pk}" in str(step(rule, WRITTEN).links)
    Job.objects.update(state="failed", error="the endpoint is away", error_code="llm_unreachable")
    found = step(rule, WRITTEN)
    assert found.state == STOPPED and "the endpoint is away" in found.waits[0]
    assert found.waits[1].startswith("Have the endpoint's address checked")
    Job.objects.update(state="done", error="")
    SynthesisRun.objects.update(
        skipped=[{"rule": "PAY_PERIOD", "style": "implicit", "reason": "the rule says no condition"}]
    )
    found = step(rule, WRITTEN)
    assert found.state == STOPPED and found.waits == ("No implicit sample: the rule says no condition",)


def test_samples_wait_for_reviewers_until_all_are_read(rule):
    first, second = written(rule)
    assert (
        step(rule, WRITTEN).state == DONE and step(rule, WRITTEN).said == "2 written, by the offline writers"
    )
    assert (step(rule, APPROVED).state, step(rule, APPROVED).who) == (WAITING, "a reviewer")
    assert step(rule, APPROVED).waits == ("2 wait for a reviewer.",)
    Sample.objects.filter(pk=first.pk).update(human="approved")
    assert step(rule, APPROVED).waits == ("1 waits for a reviewer.",)
    Sample.objects.filter(pk=second.pk).update(human="rejected")
    assert (step(rule, APPROVED).state, step(rule, APPROVED).said) == (DONE, "1 approved, 1 rejected")


def test_training_waits_for_what_its_policy_waits_for(rule, policy):
    written(rule, human="approved")
    assert course(rule).at.title == "Trained"
    assert step(rule, TRAINED).waits == ("It starts by itself within a minute.",)
    loop_save(actor=None, train=False)
    assert (step(rule, TRAINED).state, step(rule, TRAINED).waits) == (
        OFF,
        ("Training by itself is switched off: a person starts it.",),
    )
    RetrainPolicy.objects.update(active=False)
    assert step(rule, TRAINED).waits[0] == "The policy line is off."
    RetrainPolicy.objects.update(snapshot={**policy.snapshot, "domain": "elsewhere"})
    assert step(rule, TRAINED).waits == ("No policy trains the rules of this domain.",)


def test_run_that_trains_and_one_that_failed_are_shown(rule, policy):
    samples = written(rule, human="approved")
    job = jobs.enqueue("training", {}, title="train (a, m, r+R) on snapshot 1", wake=False)
    run = learned(rule, samples, model=False, memo="m", job=job)
    assert step(rule, TRAINED).state == RUNNING and "waits for its worker" in step(rule, TRAINED).said
    policy.retrainings.create(run=run, reasons={})
    Job.objects.filter(pk=job.pk).update(
        state="failed", error="out of memory", finished_at="2100-01-01T00:00Z"
    )
    found = step(rule, TRAINED)
    assert found.state == STOPPED
    assert found.waits == ("Train (a, m, r+R) on snapshot 1 is failed: out of memory",)


def test_model_is_evaluated_gated_and_promoted(rule):
    old = make_model()
    crown(old)
    model = learned(rule, written(rule, human="approved"))
    found = course(rule)
    assert (found.done, found.model, found.at.state) == (4, model, OFF)
    job = jobs.enqueue("evaluation", {"model": model.pk}, title="evaluate it", wake=False)
    assert step(rule, GATED).state == RUNNING
    Job.objects.filter(pk=job.pk).update(state="failed", error="no disk")
    assert step(rule, GATED).waits == ("Evaluate it is failed: no disk",)
    Job.objects.filter(pk=job.pk).update(state="done")
    gated(model, old, "fail")
    assert step(rule, GATED).said == f"the gate says fail against champion {old.pk}"
    assert "only an admin's written reason" in step(rule, PROMOTED).waits[0]
    gated(model, old, "cannot tell")
    assert step(rule, PROMOTED).waits == ("The gate cannot tell: a person decides.",)
    crown(make_model())
    assert "must be asked again" in step(rule, PROMOTED).waits[0]  # the report is against another champion
    crown(model)
    found = course(rule)
    assert found.done == 6 and found.at is None and not under_way().exists()


def test_cell_that_learns_no_rules_has_not_learned_the_rule(rule):
    learned(rule, written(rule, human="approved"), retrieval="r")
    assert course(rule).model is None and course(rule).done == 3


def test_superseded_and_withdrawn_versions_have_ended(rule):
    version = rule.published
    Rule.objects.filter(pk=rule.pk).update(published=None)
    version = RuleVersion.objects.select_related("rule", "author").get(pk=version.pk)
    (found,) = courses([version])
    assert found.superseded == "the rule was withdrawn" and not found.under_way
    assert not under_way().exists()


def test_queries_do_not_grow_with_the_rules(rule, author, policy, django_assert_num_queries):
    crown(make_model())
    learned(rule, written(rule, human="approved"))
    chosen = RuleVersion.objects.select_related("rule__domain", "author")
    with CaptureQueriesContext(connection) as one:
        courses(list(chosen.all()))
    for number in range(4):
        other = make_rule(*tools_of(rule), code=f"RULE_{number}", tests=TESTS, author=author)
        learned(other, written(other, human="approved"))
    with django_assert_num_queries(len(one)):
        assert len(courses(list(chosen.all()))) == 5


# The champion is asked new rules' tests, and authors are told.


def test_champion_is_asked_the_tests_of_new_rules_once(rule):
    crown(make_model())
    assert (ask_champion(), ask_champion()) == (1, 0)
    job = Job.objects.get(kind="rule_tests")
    Job.objects.filter(pk=job.pk).update(state="failed", finished_at="2100-01-01T00:00Z")
    assert ask_champion() == 0
    Job.objects.filter(pk=job.pk).update(finished_at="2000-01-01T00:00Z")
    assert ask_champion() == 0  # the rule was published before that, or nobody knows when
    audit_models.record(
        actor=None, action="rule.published", obj=rule, detail={"version_id": rule.published_id}
    )
    assert ask_champion() == 1  # published since, whenever it was written


def test_nobody_is_asked_with_evaluation_switched_off_or_without_a_champion(rule):
    assert ask_champion() == 0
    crown(make_model())
    loop_save(actor=None, evaluate=False)
    assert ask_champion() == 0


def test_author_is_told_once_whether_the_rule_helped(rule, author):
    old = make_model()
    crown(old)
    model = learned(rule, written(rule, human="approved"))
    asked(old, rule, 0)
    asked(model, rule, 2)
    assert tell_authors() == 0
    gated(model, old)
    assert (sweep(), sweep()) == (2, 0)  # the champion is asked the sample too, which nobody waits for
    notice = Notice.objects.get(recipient=author)
    assert notice.text == (
        f"Your rule PAY_PERIOD v1 helped: 2 of 2 tests right on model {model.pk}, 0 on champion {old.pk}. "
        "The gate says of the whole model: pass."
    )
    assert notice.link == reverse("evaluation:loop_version", args=[rule.published_id])
    Notice.objects.update(read_at="2026-01-01T00:00Z")
    gated(model, old, "fail")  # gated again: nobody is told a second time
    assert tell_authors() == 0 and Notice.objects.count() == 1


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (2, 1, "made it worse: 1 of 2 tests right"),
        (1, 1, "changed nothing: 1 of 2 tests right"),
        (None, 2, "taught model {model}: 2 of 2 tests right; champion {old} was not asked them"),
    ],
)
def test_author_is_told_as_it_is(rule, author, before, after, words):
    old, model = make_model(), learned(rule, written(rule, human="approved"))
    asked(model, rule, after)
    if before is not None:
        asked(old, rule, before)
    gated(model, old, "cannot tell")
    assert tell_authors() == 1
    assert f"Your rule PAY_PERIOD v1 {words.format(model=model.pk, old=old.pk)}" in Notice.objects.get().text


def test_author_of_rules_without_tests_or_with_tests_that_not_both_answered(rule, author):
    """What helped is counted over the tests that both were asked."""
    other = make_rule(*(make_tool() for _ in range(2)), code="OTHER", tests=TESTS, author=author)
    old, model = make_model(), learned(rule, [*written(rule), *written(other)])
    asked(old, rule, 1)
    asked(old, other, 2)
    asked(model, rule, 2)
    gated(model, old)
    assert tell_authors() == 1
    assert Notice.objects.get().text.startswith(
        f"2 of your rules helped: 2 of 2 tests right on model {model.pk}, 1 on champion {old.pk}."
    )
    bare = make_rule(*(make_tool() for _ in range(2)), code="BARE", author=author)
    later = learned(bare, written(bare))
    gated(later, old)
    assert tell_authors() == 1
    assert Notice.objects.latest("pk").text.startswith(
        f"Your rule BARE v1 taught model {later.pk}, and no test tells whether that helped."
    )


def test_author_is_not_told_before_the_champion_has_answered(rule):
    old = make_model()
    crown(old)
    model = learned(rule, written(rule, human="approved"))
    asked(model, rule, 2)
    ask_champion()
    gated(model, old)
    assert tell_authors() == 0
    Job.objects.filter(kind="rule_tests").update(state="done")
    assert tell_authors() == 1


def test_rules_that_the_champion_knew_already_are_no_news(rule):
    samples = written(rule, human="approved")
    old, model = learned(rule, samples), learned(rule, samples)
    gated(model, old)
    assert tell_authors() == 0 and not Notice.objects.exists()


# Pages.


def page_of(client, rule):
    return client.get(reverse("evaluation:loop_version", args=[rule.published_id])).content.decode()


def test_page_shows_the_step_it_stands_at_and_what_may_be_done(rule, client_as):
    written(rule)
    page = (
        client_as("reviewer")
        .get(reverse("evaluation:loop_version", args=[rule.published_id]))
        .content.decode()
    )
    assert "2 of 6 steps" in page and "2 wait for a reviewer." in page
    assert f"{reverse('synthesis:review')}?rule=PAY_PERIOD" in page and page.count('aria-current="step"') == 1


def test_product_manager_sees_no_link_that_is_closed(rule, client_as):
    written(rule)
    page = (
        client_as("product_manager")
        .get(reverse("evaluation:loop_version", args=[rule.published_id]))
        .content.decode()
    )
    assert reverse("synthesis:review") not in page and "2 of 6 steps" in page


def test_rule_and_request_pages_say_how_far_it_is(rule, client_as):
    client = client_as("expert")
    page = client.get(reverse("rules:detail", args=[rule.pk])).content.decode()
    address = reverse("evaluation:loop_of_rule", args=[rule.pk])
    assert address in page and "1 of 6 steps" in client.get(address).content.decode()


def test_list_is_for_admins_and_product_managers_and_names_what_each_waits_for(rule, client_as):
    loop_save(actor=None, write=True)
    page = client_as("product_manager").get(reverse("evaluation:loop")).content.decode()
    assert "PAY_PERIOD" in page and "It starts by itself within a minute." in page
    assert "Change what goes on by itself" not in page


def test_admin_changes_what_goes_on_by_itself(client_as):
    client = client_as("admin")
    data = {"write": "on", "per_rule": 8, "calls": 100, "most_load": "0.5"}
    answer = client.post(reverse("evaluation:loop_settings"), data, follow=True)
    assert "as it was set up" not in answer.content.decode()
    now = LoopSettings.now()
    assert (now.write, now.train, now.evaluate, now.per_rule) == (True, False, False, 8)
    assert (now.budget, now.most_load) == ({"calls": 100}, 0.5)
    wrong = client.post(reverse("evaluation:loop_settings"), {**data, "most_load": "-1"})
    assert wrong.status_code == 422 and LoopSettings.now().most_load == 0.5


def test_admin_evaluates_a_model_that_nothing_evaluated_by_itself(rule, client_as):
    model = learned(rule, written(rule, human="approved"))
    client = client_as("admin")
    page = page_of(client, rule)
    address = reverse("evaluation:loop_evaluate", args=[model.pk])
    assert address in page
    client.post(address)
    assert Job.objects.get(kind="evaluation").params == {"model": model.pk}
