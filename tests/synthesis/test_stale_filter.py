"""The quick filter by staleness says what comparing every sample says, after any edit; queries do not grow."""

import random

import pytest

from catalog.models import Tool
from rules.models import Rule
from synthesis.models import Sample
from synthesis.samples.staleness import LEVELS, content_stale, stale_filter, states
from tests.factories import make_domain, make_sample, make_tool
from tests.synthesis.test_incremental_runs import edit_rule, make_catalog, near, run

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("every_draft_passes")]


def by_level(samples) -> dict[str, set[int]]:
    """The slow form: every sample by its keys."""
    found = states(samples)
    return {name: {pk for pk, one in found.items() if one == state} for name, state in LEVELS.items()}


def filtered(samples) -> dict[str, set[int]]:
    return {name: set(stale_filter(samples, name).values_list("pk", flat=True)) for name in LEVELS}


def the_others(samples) -> set[int]:
    return set(samples.exclude(content_stale(samples)).values_list("pk", flat=True))


def some_tool(rng: random.Random) -> Tool:
    return rng.choice(list(Tool.objects.order_by("pk")))


def describe(rng: random.Random) -> None:
    tool = some_tool(rng)
    tool.description, tool.content_hash = f"Something else, {rng.random()}.", f"{rng.getrandbits(60):064x}"
    tool.save()


def permit(rng: random.Random) -> None:
    Tool.objects.filter(pk=some_tool(rng).pk).update(permissions=[f"read.{rng.random()}"])


def deprecate(rng: random.Random) -> None:
    tool = some_tool(rng)
    Tool.objects.filter(pk=tool.pk).update(deprecated=not tool.deprecated)


def retire(rng: random.Random) -> None:
    tool = some_tool(rng)
    Tool.objects.filter(pk=tool.pk).update(status="active" if tool.status == "retired" else "retired")


def look_alike(rng: random.Random) -> None:
    near(some_tool(rng), some_tool(rng), some_tool(rng))


def new_rule_version(rng: random.Random) -> None:
    edit_rule(rng.choice(list(Rule.objects.exclude(published=None).order_by("code"))).code)


def withdraw(rng: random.Random) -> None:
    Rule.objects.filter(code=f"RULE_{rng.randrange(6)}").update(published=None)


def forget_keys(rng: random.Random) -> None:
    """As samples were before keys were kept: some with the tools they were made with, some without."""
    for sample in rng.sample(list(Sample.objects.order_by("pk")), 3):
        tools = {name: Tool.objects.get(name=name).content_hash[:12] for name in sample.answer}
        sample.made_from = {"index": 0, "tools": rng.choice([tools, {}, dict.fromkeys(tools, "other")])}
        sample.save()


EDITS = (describe, permit, deprecate, retire, look_alike, new_rule_version, withdraw, forget_keys)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(n, marks=pytest.mark.long) for n in range(2, 12))])
def test_filter_agrees_with_comparing_every_sample_after_random_edits(seed):
    rng = random.Random(seed)
    make_catalog(6)
    run()
    run("rrb", anchors=12)
    for tool in rng.sample(list(Tool.objects.order_by("pk")), 4):
        marks = {tool.name: tool.content_hash[:12]} if rng.random() < 0.5 else {}
        make_sample(branch="imported", style="", tier="", answer=[tool.name], tools=[tool] * 2,
                    made_from={"branch": "imported", "tools": marks})  # fmt: skip
    every, some = Sample.objects.all(), Sample.objects.filter(branch="rule", style="explicit")
    assert filtered(every) == by_level(every)
    for _ in range(12):
        edit = rng.choice(EDITS if Rule.objects.exclude(published=None).exists() else EDITS[:5])
        edit(rng)
        told = by_level(every)
        assert filtered(every) == told, edit.__name__
        assert the_others(every) == told["current"] | told["outdated"], edit.__name__
        assert filtered(some) == by_level(some), edit.__name__


def test_rules_of_two_domains_that_say_the_same_are_told_apart():
    """Their samples have one content; withdrawing one rule leaves the other's samples as they were."""
    make_catalog(1)
    rule = Rule.objects.get(code="RULE_0")
    twin = Rule.objects.create(code="RULE_0", domain=make_domain("it"))
    version = rule.published
    version.pk, version.rule = None, twin
    version.save()
    twin.published = version
    twin.save()
    run(domain="hr")
    run(domain="it")
    contents = set(Sample.objects.values_list("content", flat=True))
    rule.published = None
    Rule.objects.filter(pk=rule.pk).update(published=None)
    assert len(contents) < Sample.objects.count() and len(contents) <= 2
    assert filtered(Sample.objects.all()) == by_level(Sample.objects.all())
    stale = stale_filter(Sample.objects.all(), "content")
    assert {sample.domain_id for sample in stale} == {"hr"}


def test_content_filter_takes_three_queries_when_nothing_moved_and_eleven_at_most(
    django_assert_num_queries, django_assert_max_num_queries
):
    make_catalog(6)
    run()
    for more in (0, 6):
        for number in range(more):
            make_tool(f"More{number}V1/Get")
        with django_assert_max_num_queries(11):
            stale_filter(Sample.objects.all(), "content").count()
        with django_assert_num_queries(3):  # distinct contents, counters, the count
            stale_filter(Sample.objects.all(), "content").count()
