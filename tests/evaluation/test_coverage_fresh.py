"""What a process keeps of coverage is never older than the page: after every write, kept and recomputed agree."""

import random

import pytest
from django.contrib.auth.models import User
from django.db import connection

from catalog.lookalikes import cluster_dismiss, cluster_restore
from catalog.models import Cluster, Clustering, Tool
from evaluation.coverage import selectors as pages
from evaluation.coverage.grouped import sorting_now
from evaluation.coverage.selectors import coverage, definition_now, edition, stamps
from rules.models import ChangeRequest, Rule, RuleChange, RuleVersion
from synthesis.models import Sample, SnapshotSample
from tests.factories import (
    crown,
    make_cluster,
    make_domain,
    make_model,
    make_rule,
    make_run,
    make_sample,
    make_snapshot,
    make_tool,
)

pytestmark = pytest.mark.django_db


def told() -> list:
    """All that pages say, as plain values."""
    return [
        (
            (page.clustering, page.tools, page.rules, page.totals, page.outside),
            [
                (row.id, row.label, row.state, row.dismissed_reason, row.rules, row.drafts)
                for row in page.ranked
            ],
            [[tool.name for tool in row.tools] for row in page.ranked],
        )
        for page in coverage()
    ]


def told_anew() -> list:
    """The same with nothing kept."""
    for reader in (getattr(pages, name) for name in dir(pages)):
        if hasattr(reader, "cache_clear"):
            reader.cache_clear()
    return told()


@pytest.fixture
def three():
    """Three clusters of three tools each."""
    clustering = Clustering.objects.create(domain=make_domain(), version=1, tau=0.8, algorithm="test")
    return [make_cluster(*(make_tool(f"Pay{n}/{e}") for e in "ABC"), clustering=clustering) for n in range(3)]


def tools_of(cluster):
    return list(Tool.objects.filter(pk__in=cluster.tool_ids).order_by("pk"))


def state_of(cluster):
    return coverage("hr")[0].by_id[cluster.pk].state


def ask_for(tools, state="draft", action="save", **fields):
    user, _ = User.objects.get_or_create(username="author")
    request = ChangeRequest.objects.create(title="t", author=user, state=state)
    content = {"target": tools[0].name, "confusables": [tool.name for tool in tools[1:]]}
    return RuleChange.objects.create(
        request=request, action=action, edited_by=user, **{"content": content, **fields}
    )


def test_published_and_withdrawn_rules_count_at_once(three):
    assert state_of(three[0]) == "no_rule"
    rule = make_rule(*tools_of(three[0]))
    assert state_of(three[0]) == "resolved"
    Rule.objects.filter(pk=rule.pk).update(published=None)
    assert state_of(three[0]) == "draft"


@pytest.mark.parametrize("state", ["draft", "in_review", "approved", "scheduled"])
def test_open_request_that_holds_two_tools_makes_a_draft(three, state):
    tools = tools_of(three[0])
    change = ask_for([tools[0], tools[2]], state)  # no edge joins the first and the last
    row = coverage("hr")[0].by_id[three[0].pk]
    assert row.state == "draft" and row.drafts[0].request == change.request_id
    assert state_of(three[1]) == "no_rule"


@pytest.mark.parametrize("state", ["applied", "rejected", "cancelled"])
def test_closed_request_is_no_draft(three, state):
    change = ask_for(tools_of(three[0]))
    assert state_of(three[0]) == "draft"
    ChangeRequest.objects.filter(pk=change.request_id).update(state=state)
    assert state_of(three[0]) == "no_rule"


def test_withdrawal_and_half_typed_changes_are_no_draft(three):
    tools = tools_of(three[0])
    ask_for(tools, action="withdraw")
    for content in (
        {},
        {"target": "Pay0/A"},
        {"target": None, "confusables": None},
        {"confusables": [3, "?"]},
    ):
        ask_for(tools, content=content)
    assert state_of(three[0]) == "no_rule"


def test_samples_count_whoever_approves_them_and_how(three):
    rule = make_rule(*tools_of(three[0]))
    samples = [make_sample(rule=rule, tools=tools_of(three[0])) for _ in range(10)]
    assert state_of(three[0]) == "resolved"
    Sample.objects.filter(pk__in=[one.pk for one in samples]).update(human="approved")
    assert state_of(three[0]) == "taught"
    with connection.cursor() as cursor:
        cursor.execute("UPDATE synthesis_sample SET human = 'rejected' WHERE id = %s", [samples[0].pk])
    assert state_of(three[0]) == "resolved"


def test_unchanged_data_is_computed_once(three, django_assert_num_queries):
    first = coverage()
    with django_assert_num_queries(2):
        again = coverage()
    assert again[0].ranked is first[0].ranked


def test_stamp_of_a_rolled_back_write_never_comes_back(three):
    from django.db import transaction

    before = stamps()
    seen = []
    for _ in range(2):
        with transaction.atomic():
            Cluster.objects.filter(pk=three[0].pk).update(dismissed_reason="no")
            seen.append(stamps())
            transaction.set_rollback(True)
        assert stamps() == before
    assert len({before, *seen}) == 3


def test_writers_of_one_part_do_not_wait_for_each_other(transactional_db, three):
    """Two open transactions stamp rows of their own; both are seen when they commit."""
    import psycopg
    from django.db import connections

    parameters = connections["default"].get_connection_params()
    options = {
        key: parameters[key] for key in ("host", "port", "user", "password", "dbname") if parameters.get(key)
    }
    before = edition()
    with psycopg.connect(**options) as one, psycopg.connect(**options) as two:
        for link, cluster in ((one, three[0]), (two, three[1])):
            link.execute("SET lock_timeout = '2s'")
            link.execute("UPDATE catalog_cluster SET label = label WHERE id = %s", [cluster.pk])
        assert edition() == before
        two.commit()
        after_two = edition()
        one.commit()
        assert len({before, after_two, edition()}) == 3


def test_kept_and_recomputed_agree_after_any_write(three):
    chance = random.Random(7)
    tools = [tool for cluster in three for tool in tools_of(cluster)]
    rules, snapshot, actor = [], make_snapshot(), User.objects.create(username="expert")
    changes = [ask_for(tools[:2])]

    def publish():
        rules.append(make_rule(*chance.sample(tools, 3)))

    def withdraw():
        if rules:
            Rule.objects.filter(pk=chance.choice(rules).pk).update(published=None)

    def draft():
        rules.append(make_rule(*chance.sample(tools, 2), published=False))

    def next_version():
        if rules:
            old = RuleVersion.objects.filter(rule=chance.choice(rules)).latest("number")
            old.pk, old.number = None, old.number + 1
            old.confusable_ids = [tool.pk for tool in chance.sample(tools, 2)]
            old.save(force_insert=True)

    def approve():
        live = [rule for rule in rules if rule.published_id]
        if live:
            rule = chance.choice(live)
            for _ in range(chance.choice((1, 10))):
                sample = make_sample(rule=rule, tools=tools[:2], human="approved")
                SnapshotSample.objects.create(
                    snapshot=snapshot, sample=sample, position=sample.pk, sample_key=sample.key
                )

    def unapprove():
        Sample.objects.filter(pk__in=Sample.objects.values("pk")[:3]).update(human="rejected")

    def dismiss():
        cluster_dismiss(
            cluster=Cluster.objects.get(pk=chance.choice(three).pk), reason="they differ", actor=actor
        )

    def restore():
        cluster_restore(cluster=Cluster.objects.get(pk=chance.choice(three).pk), actor=actor)

    def rename():
        Tool.objects.filter(pk=chance.choice(tools).pk).update(deprecated=chance.random() < 0.5, version="v9")

    def ask():
        changes.append(ask_for(chance.sample(tools, 2)))

    def close():
        ChangeRequest.objects.filter(pk=chance.choice(changes).request_id).update(
            state=chance.choice(("applied", "draft", "cancelled"))
        )

    def type_on():
        RuleChange.objects.filter(pk=chance.choice(changes).pk).update(
            content={"target": chance.choice(tools).name, "confusables": [chance.choice(tools).name]}
        )

    def promote():
        crown(model=make_model(run=make_run(snapshot=make_snapshot(), retrieval="r+R")), actor=None)

    def new_domain():
        tools.append(make_tool(domain=make_domain(chance.choice(("law", "it", "sales")))))

    writes = [publish, withdraw, draft, next_version, approve, unapprove, dismiss, restore]
    writes += [rename, ask, close, type_on, promote, new_domain]
    for step in range(70):
        write = chance.choice(writes)
        write()
        assert told() == told_anew(), f"step {step}: {write.__name__}"


def test_groups_of_queries_follow_the_rules_and_clusters_of_now(three):
    first = three[0].tool_ids[0]
    assert sorting_now().by.group([first]) == "uncovered"
    before = definition_now()
    rule = make_rule(*tools_of(three[0]))
    assert definition_now().hash != before.hash and sorting_now().by.group([first]) == "covered"
    Rule.objects.filter(pk=rule.pk).update(published=None)
    assert sorting_now().by.group([first]) == "uncovered"
    cluster_dismiss(cluster=three[0], reason="they differ", actor=None)
    assert sorting_now().by.group([first]) == "outside"
    make_cluster(*tools_of(three[0])[:2])
    assert definition_now().clusterings == {"hr": 2} and sorting_now().by.group([first]) == "uncovered"
