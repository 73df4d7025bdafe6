"""Edits reach exactly their samples: real rows, real services, the offline writers."""

from dataclasses import replace

import pytest
from django.contrib.auth.models import User

from catalog.models import LabelledQuery, NeighbourList, TokenUnit, Tool
from evaluation.coverage.selectors import read_samples, stamps
from rules.models import Rule, RuleVersion
from synthesis.core.recipe import default_recipe
from synthesis.datasets.build import snapshot_start
from synthesis.generate.planning import plan, plan_counts
from synthesis.generate.services import synthesis_start
from synthesis.generate.yields import rule_yields
from synthesis.llm import prompts
from synthesis.models import Attempt, ModelCall, ReviewItem, Sample, Snapshot
from synthesis.offline.writer import offline_writers
from synthesis.review import services as review_services
from synthesis.review.queue import sweep_items, wrong_items
from synthesis.samples.impact import of_rules, of_tools
from synthesis.samples.sources import load_catalog
from synthesis.samples.staleness import replacement, stale_filter, stale_map
from tests.factories import make_domain, make_sample, make_tool
from tests.synthesis.rows import make_book, publish, run_job
from tests.synthesis.test_runs import NO_PERMISSIONS
from trace_site import jobs
from trace_site.jobs import Job

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("every_draft_passes")]

THINGS = (
    "payslip",
    "leave request",
    "expense report",
    "contract",
    "company car",
    "training",
    "badge",
    "bonus",
)


def waiting_items():
    return ReviewItem.objects.filter(state__in=["open", "claimed"])


def why(sample):
    return list(stale_map(Sample.objects.filter(pk=sample.pk))[sample.pk].reasons)


NEW, OLD = "period is in 2024 or later", "period is before 2024"
YEARS_NEW = ("March 2024", "Q1 2025", "summer 2025", "June 2024")
YEARS_OLD = ("November 2022", "back in 2020", "spring 2021", "May 2019")


def make_catalog(rules: int = 8) -> None:
    """`rules` rules over three tools each; a tool's look-alikes are the other two of its rule."""
    for number in range(rules):
        thing = THINGS[number % 8]
        api = f"{thing.title().replace(' ', '')}{number}"
        tools = [
            make_tool(
                f"{api}V{version}/Get{api}",
                description=f"Returns the {age} {thing} of a worker of team {number}.",
                permissions=[f"{thing}.read"],
            )
            for version, age in ((2, "current"), (1, "former"), (3, "planned"))
        ]
        for tool in tools:
            near(tool, *(other for other in tools if other != tool))
        rule = Rule.objects.create(code=f"RULE_{number}", domain=make_domain("hr"))
        rule.published = new_version(rule, tools, 1)
        rule.save()
    for slot, tool in enumerate(Tool.objects.order_by("name")):
        TokenUnit.objects.create(family="flat", slot=slot, string=f"<<{tool.name.replace('/', '&&')}>>")


def near(tool: Tool, *others: Tool) -> None:
    ids = [other.pk for other in others]
    NeighbourList.objects.update_or_create(
        tool=tool, defaults={"neighbour_ids": ids, "scores": [0.5] * len(ids)}
    )


def new_version(rule: Rule, tools: list[Tool], number: int, text: str = "") -> RuleVersion:
    target, old, _ = tools
    return RuleVersion.objects.create(
        rule=rule,
        number=number,
        target=target,
        confusable_ids=[tool.pk for tool in tools[1:]],
        text=text or f"Periods of 2024 or later are read with {target.name}, older ones with {old.name}.",
        clauses=[
            {"when": f"the {NEW}", "route_to": target.name, "exception": False, "signals": list(YEARS_NEW)},
            {"when": f"the {OLD}", "route_to": old.name, "exception": True, "signals": list(YEARS_OLD)},
        ],
        content_hash=f"{rule.code}-{number}",
    )


def edit_rule(code: str) -> None:
    rule = Rule.objects.get(code=code)
    old = rule.published
    assert old is not None
    tools = [Tool.objects.get(pk=pk) for pk in old.tool_ids]
    rule.published = new_version(rule, tools, old.number + 1, f"{old.text} Nobody else decides this.")
    rule.save()


def run(branch: str = "rule", **options) -> dict:
    asked = {"per_rule": 6, "anchors": 30, "seed": 1, "wake": False, **options}
    return run_job(synthesis_start(branch=branch, **asked).job)


def slots(**filters) -> set[str]:
    return set(Sample.objects.filter(**filters).values_list("slot", flat=True))


def newest() -> int:
    return Sample.objects.order_by("-pk").values_list("pk", flat=True).first() or 0


def freeze(**options) -> dict:
    asked = {"strategy": "append", "per_rule": 6, "branches": ["rule", "rrb"], "seed": 1, "wake": False}
    return run_job(snapshot_start(**{**asked, **options}))


def counted(**options) -> dict:
    params = {"per_rule": 6, "anchors": 30, "domain": "", **options.pop("params", {})}
    asked = {"branch": "rule", "writer": "offline", "recipe": default_recipe(), "seed": 1, **options}
    found = plan_counts(params=params, **asked)
    return {name: found[name] for name in ("new", "content_stale", "outdated", "kept")}


def test_editing_one_rule_writes_again_exactly_its_slots_beside_the_old_rows():
    make_catalog()
    run()
    before, last = Sample.objects.count(), newest()
    ready = slots(machine="ready", rule_version__rule__code="RULE_3")
    assert len(ready) == 6
    edit_rule("RULE_3")
    assert counted() == {"new": 0, "content_stale": 6, "outdated": 0, "kept": 42}
    run()
    assert slots(pk__gt=last) == ready
    assert Sample.objects.filter(pk__lte=last).count() == before
    assert {sample.rule_version.number for sample in Sample.objects.filter(pk__gt=last)} == {2}
    assert counted() == {"new": 0, "content_stale": 0, "outdated": 0, "kept": 48}


def test_editing_one_tool_reaches_the_samples_whose_pools_hold_it_and_no_other():
    make_catalog()
    run()
    run("rrb")
    last = newest()
    tool = Tool.objects.get(name="Contract3V1/GetContract3")
    lent = Tool.objects.get(name="Badge6V2/GetBadge6")
    tool.description = "Returns the contract of a worker for periods long ago."
    tool.save()
    # with its new words it becomes a look-alike of another rule's target
    near(lent, *Tool.objects.filter(name__startswith="Badge6V").exclude(pk=lent.pk), tool)
    near(tool, lent, *Tool.objects.filter(name__startswith="Contract3V").exclude(pk=tool.pk))
    touched = slots(pk__lte=last, rule_version__rule__code__in=["RULE_3", "RULE_6"])
    run()
    assert slots(pk__gt=last) == touched
    last = newest()
    pools = ("Contract3V1/", "Contract3V2/", "Contract3V3/", "Badge6V2/")
    asked = {s.slot for s in Sample.objects.filter(branch="rrb") if s.anchor.name.startswith(pools)}
    run("rrb")
    assert slots(pk__gt=last) == asked != set()


def test_planning_twice_plans_nothing_whatever_the_seed():
    make_catalog()
    run()
    run("rrb", anchors=20)
    last = newest()
    for seed in (1, 2):
        assert run(seed=seed)["written"] == run("rrb", anchors=20, seed=seed)["written"] == 0
    assert newest() == last


def test_rejected_samples_block_their_slot_under_their_key_only():
    make_catalog(1)
    run()
    bad = Sample.objects.filter(style="explicit").latest("pk")
    Sample.objects.filter(pk=bad.pk).update(human="rejected")
    run()
    again = Sample.objects.filter(style="explicit").latest("pk")
    assert again.slot == "rule:hr:RULE_0:explicit:2"
    edit_rule("RULE_0")
    run()
    assert slots(style="explicit", rule_version__number=2) == {
        f"rule:hr:RULE_0:explicit:{index}" for index in (0, 2)
    }


def test_keep_writes_only_what_is_stale_or_missing_and_rewrite_what_is_outdated_too():
    make_catalog(3)
    run()
    strict = replace(
        default_recipe(),
        judge=replace(default_recipe().judge, thresholds={**default_recipe().judge.thresholds, "label": 5}),
    )
    assert counted(recipe=strict) == {"new": 0, "content_stale": 0, "outdated": 18, "kept": 0}
    keep = {"params": {"outdated": "keep"}}
    assert counted(recipe=strict, **keep) == {"new": 0, "content_stale": 0, "outdated": 0, "kept": 18}
    edit_rule("RULE_1")
    assert counted(recipe=strict, **keep) == {"new": 0, "content_stale": 6, "outdated": 0, "kept": 12}


def test_retired_anchors_and_withdrawn_rules_leave_the_plan():
    make_catalog(4)
    run()
    run("rrb", anchors=12)
    Rule.objects.filter(code="RULE_2").update(published=None)
    gone = Tool.objects.get(name="ExpenseReport2V1/GetExpenseReport2")
    gone.status = "retired"
    gone.save()
    NeighbourList.objects.filter(tool=gone).delete()
    last = newest()
    assert run()["written"] == 0
    run("rrb", anchors=12)
    written = Sample.objects.filter(pk__gt=last)
    assert gone.pk not in {sample.anchor_id for sample in written} and written.exists()
    reasons = why(Sample.objects.filter(rule_version__rule__code="RULE_2").first())
    assert [str(reason) for reason in reasons] == ["the rule is withdrawn"]
    assert str(why(Sample.objects.filter(anchor=gone).first())[0]) == f"{gone.name} is retired"


def test_why_names_what_changed():
    make_catalog(2)
    run()
    sample = Sample.objects.filter(rule_version__rule__code="RULE_1").first()
    other = Sample.objects.filter(rule_version__rule__code="RULE_0").first()
    assert why(sample) == []
    edit_rule("RULE_1")
    tool = Tool.objects.get(name="LeaveRequest1V3/GetLeaveRequest1")
    tool.description = "Something else."
    tool.save()
    new = make_tool("LeaveRequest1V4/GetLeaveRequest1")
    near(new)
    near(tool, new)
    assert [str(reason) for reason in why(sample)] == [
        "rule RULE_1 went from v1 to v2",
        f"{tool.name} says something else",
        f"{new.name} is new in the pool",
    ]
    assert all(reason.content for reason in why(sample))
    assert why(other) == []
    levels = {name: set(stale_filter(Sample.objects.all(), name)) for name in ("content", "current")}
    assert sample in levels["content"] and other in levels["current"]
    assert levels["content"] | levels["current"] == set(Sample.objects.all())
    assert not stale_filter(Sample.objects.all(), "outdated").exists()


def test_other_permissions_reach_only_the_samples_that_carry_some():
    make_catalog(1)
    run(per_rule=30)
    tool = Tool.objects.get(name="Payslip0V1/GetPayslip0")
    tool.permissions = ["payslip.read.all"]
    tool.save()
    carrying = {sample.pk for sample in Sample.objects.all() if sample.made_from["granted"]}
    found = stale_map(Sample.objects.all())
    assert {pk for pk, one in found.items() if one.level == "content"} == carrying != set()
    assert {str(one.reasons[0]) for one in found.values() if one.reasons} == {
        f"{tool.name} asks for other permissions"
    }


def test_another_share_of_permissions_is_a_parameter_and_no_news_of_a_tool():
    make_catalog(1)
    run()
    Sample.objects.update(human="approved")
    more = replace(default_recipe(), trace=replace(default_recipe().trace, permission_share=1.0))
    run(recipe=more)
    old = Sample.objects.filter(human="approved").first()
    assert [str(reason) for reason in why(old)] == ["trace permission_share went from 0.1 to 1.0"]
    assert freeze()["counts"]["rule"] == 6


def test_samples_from_before_keys_say_so_and_are_written_again_in_their_slot():
    make_catalog(1)
    run()
    last, before = newest(), slots()
    for sample in Sample.objects.all():
        sample.made_from = {"index": sample.made_from["index"], "tools": {}}
        sample.slot, sample.key = "", f"old-{sample.pk}"
        sample.save()
    assert {str(r) for s in Sample.objects.all() for r in why(s)} == {
        "written before keys were kept per stage"
    }
    assert counted(params={"outdated": "keep"})["kept"] == 6
    run()
    assert slots(pk__gt=last) == before
    edit_rule("RULE_0")
    assert str(why(Sample.objects.first())[0]) == "rule RULE_0 went from v1 to v2"


def test_an_imported_query_is_stale_once_its_answer_is_retired():
    make_catalog(1)
    tool = Tool.objects.get(name="Payslip0V1/GetPayslip0")
    sample = make_sample(
        branch="imported", answer=[tool.name], tools=[tool] * 2, made_from={"branch": "imported"}, style=""
    )
    assert why(sample) == []
    tool.status = "retired"
    tool.save()
    assert [str(reason) for reason in why(sample)] == [f"{tool.name} is retired"]
    assert list(stale_filter(Sample.objects.all(), "content")) == [sample]


def test_staleness_of_a_page_takes_the_same_queries_for_few_samples_and_many(django_assert_max_num_queries):
    make_catalog(6)
    run()
    with django_assert_max_num_queries(12):
        few = stale_map(Sample.objects.filter(pk__in=Sample.objects.values("pk")[:2]))
    with django_assert_max_num_queries(12):
        many = stale_map(Sample.objects.all())
    assert (len(few), len(many)) == (2, 36)


def test_a_run_and_a_snapshot_over_nothing_new_make_the_same_snapshot():
    make_catalog(3)
    run()
    run("rrb", anchors=9)
    Sample.objects.filter(machine="ready").update(human="approved")
    first = freeze()
    assert run()["calls"] == run()["written"] == run("rrb", anchors=9)["written"] == 0
    assert freeze()["hash"] == first["hash"]
    assert Snapshot.objects.count() == 1


def test_a_snapshot_takes_the_newest_of_a_slot_and_nothing_content_stale():
    make_catalog(3)
    run()
    Sample.objects.update(human="approved")
    edit_rule("RULE_1")
    stale = freeze()["counts"]
    assert (stale["rule"], stale["stale"], stale["replaced"]) == (12, {"rule changed": 6}, 0)
    strict = replace(
        default_recipe(),
        judge=replace(default_recipe().judge, thresholds={**default_recipe().judge.thresholds, "label": 5}),
    )
    run(recipe=strict)
    assert freeze()["counts"]["rule"] == 12  # outdated but approved, until the new ones are
    Sample.objects.filter(human="pending").update(human="approved")
    counts = freeze()["counts"]
    assert (counts["rule"], counts["stale"], counts["replaced"]) == (18, {"rule changed": 6}, 12)


def test_what_is_stale_or_written_again_is_not_taught_twice_nor_waits_for_review():
    make_catalog(3)
    run()
    version = Rule.objects.get(code="RULE_1").published_id
    Sample.objects.filter(style="explicit").update(human="approved")
    assert (read_samples(stamps().samples)[version], waiting_items().count()) == (2, 12)
    tool = Tool.objects.get(name="LeaveRequest1V3/GetLeaveRequest1")
    tool.description = "Something else."
    tool.save()
    assert version not in read_samples(stamps().samples)
    assert [line.count for line in of_rules([Rule.objects.get(code="RULE_1").pk])] == []
    run()
    assert waiting_items().filter(rule_version=version).count() == 6  # the new ones alone
    Sample.objects.filter(rule_version=version).update(human="approved")
    assert read_samples(stamps().samples)[version] == 6
    assert of_rules([Rule.objects.get(code="RULE_1").pk])[0].count == 6
    edit_rule("RULE_1")
    assert waiting_items().filter(rule_version=version).count() == 0
    assert of_tools([tool.pk]) == []  # stale by their rule already


def plan_only(begun) -> None:
    """As a worker that is killed once it has planned."""
    context = jobs.claim(begun.job.pk)
    plan(context, begun, offline_writers(default_recipe()), load_catalog())
    context.close()
    Job.objects.filter(pk=begun.job.pk).update(state="failed")


def test_a_plan_overtaken_while_its_run_was_down_is_made_again():
    make_catalog(2)
    begun = synthesis_start(branch="rule", per_rule=6, seed=1, wake=False)
    plan_only(begun)
    edit_rule("RULE_0")
    assert jobs.retry(Job.objects.get(pk=begun.job.pk))
    assert run_job(begun.job)["written"] == 12
    assert {s.rule_version.number for s in Sample.objects.filter(rule_version__rule__code="RULE_0")} == {2}


def test_plans_of_ended_runs_count_for_nothing_and_those_of_live_ones_do():
    make_catalog(2)
    plan_only(synthesis_start(branch="rule", per_rule=6, seed=1, wake=False))
    assert counted() == {"new": 12, "content_stale": 0, "outdated": 0, "kept": 0}
    Job.objects.update(state="running")
    assert counted() == {"new": 0, "content_stale": 0, "outdated": 0, "kept": 12}


def test_what_an_ended_run_planned_and_never_wrote_replaces_nothing():
    make_catalog(1)
    run()
    rule = Rule.objects.get(code="RULE_0")
    written = set(Sample.objects.values_list("pk", flat=True))
    edit_rule("RULE_0")
    begun = synthesis_start(branch="rule", per_rule=6, seed=1, wake=False)
    plan_only(begun)
    rule.save()  # the edit is taken back

    def stand() -> list[int]:
        sweep_items()
        assert wrong_items() == set()
        told = [line.count for line in of_rules([rule.pk]) if line.name == "samples"]
        (row,) = rule_yields()
        return [waiting_items().count(), sum(told), row.ready]

    one = Sample.objects.get(pk=min(written))
    assert (stand(), replacement(one)) == ([6, 6, 6], None)
    Job.objects.filter(pk=begun.job.pk).update(state="running")
    assert wrong_items() == written  # the sweep finds them
    assert (stand(), replacement(one)) == ([0, 0, 0], Sample.objects.get(slot=one.slot, run=begun))
    Job.objects.filter(pk=begun.job.pk).update(state="cancelled")
    assert stand() == [6, 6, 6]
    review_services.approve(sample=one.pk, reviewer=User.objects.create(username="rita"))
    assert Sample.objects.get(pk=one.pk).human == "approved"


def test_language_models_are_asked_nothing_when_nothing_changed_and_the_snapshot_is_the_same(llm):
    make_book()
    asked = {"writer": "llm", "recipe": NO_PERMISSIONS}
    assert run(**asked)["ready"] == 6
    Sample.objects.update(human="approved")
    first, calls = freeze(), ModelCall.objects.count()
    assert (run(**asked)["written"], ModelCall.objects.count()) == (0, calls)
    assert freeze()["hash"] == first["hash"]
    assert {found.level for found in stale_map(Sample.objects.all()).values()} == {"current"}


def test_a_changed_prompt_outdates_and_tells_and_another_judge_leaves_queries_unpaid(
    llm, monkeypatch, settings
):
    make_book()
    asked = {"writer": "llm", "recipe": NO_PERMISSIONS}
    run(**asked)
    settings.LLM_JUDGE_MODEL = "stricter"
    found = stale_map(Sample.objects.all())
    assert {str(reason) for one in found.values() for reason in one.reasons} == {
        "model of the judge went from tester to stricter"
    }
    assert {one.level for one in found.values()} == {"outdated"}
    before = ModelCall.objects.count()
    assert run(**asked)["ready"] == 6
    purposes = ModelCall.objects.order_by("pk")[before:].values_list("purpose", flat=True)
    assert set(purposes) == {"judge"}  # queries and traces come from the replies that are kept
    shown = {name: prompts.source(name) for name in ("query_rule", "trace", "judge")}
    shown["trace"] += "\nThink twice."
    monkeypatch.setattr(prompts, "source", lambda name: shown[name])
    newest_of = Sample.objects.order_by("-pk").first()
    assert [str(reason) for reason in why(newest_of)] == ["prompt trace.jinja changed"]


def test_one_more_few_shot_query_outdates_only_the_batches_it_enters(llm):
    make_book()
    for number in range(12):
        LabelledQuery.objects.create(
            collection="tone", use="few_shot", text=f"how do i see {number}", text_key=str(number), tools=[]
        )
    run(writer="llm", recipe=NO_PERMISSIONS)
    assert Attempt.objects.exists()
    batches = {sample.made_from["batch_seed"] for sample in Sample.objects.all()}
    assert len(batches) == 3
    LabelledQuery.objects.create(collection="tone", use="few_shot", text="and this?", text_key="x", tools=[])
    found = stale_map(Sample.objects.all())
    outdated = {pk for pk, one in found.items() if one.level == "outdated"}
    entered = {s.made_from["batch_seed"] for s in Sample.objects.filter(pk__in=outdated)}
    assert {s.pk for s in Sample.objects.all() if s.made_from["batch_seed"] in entered} == outdated
    assert all(
        str(one.reasons[0]) == "other few-shot queries are shown"
        for pk, one in found.items()
        if pk in outdated
    )


def test_the_fragment_of_the_sample_page_says_whether_it_is_current_and_shows_both_texts(client_as):
    make_book()
    run()
    sample = Sample.objects.first()
    client = client_as("reviewer")
    page = client.get(f"/synthesis/samples/{sample.pk}/stale/").content.decode()
    assert "written the same today" in page
    publish(2)
    page = client.get(f"/synthesis/samples/{sample.pk}/stale/").content.decode()
    assert "stale" in page and "Rule PAYSLIP_PERIOD went from v1 to v2" in page and "compare/1/2/" in page
    run()
    page = client.get(f"/synthesis/samples/{sample.pk}/stale/").content.decode()
    assert "A newer sample stands in its place" in page and "writes it again" not in page
    Sample.objects.filter(pk=sample.pk).update(human="rejected")
    assert client.get(f"/synthesis/samples/{sample.pk}/stale/").content == b""
