"""From any sample to everything behind it and everything made of it; what is not kept is said to be not recorded."""

import pytest
from django.contrib.auth.models import Group, User

from catalog.models import Tool, ToolRevision
from synthesis.core.queries import AXES
from synthesis.models import ModelCall, PromptVersion, Sample, SecondShare, Snapshot, SnapshotSample
from synthesis.review import services as review_services
from synthesis.review.services import policy_approve
from synthesis.samples import lineage as lines
from synthesis.samples.lineage import stages_then, tools_then
from tests.factories import make_evaluation, make_model, make_run, make_sample, make_snapshot, make_tool
from tests.llm_server import LlmServer
from tests.synthesis.rows import make_book
from tests.synthesis.test_incremental_runs import edit_rule, freeze, make_catalog, run
from tests.synthesis.test_runs import NO_PERMISSIONS, answers
from training.models import AliasMove

pytestmark = pytest.mark.django_db
PROMPTS = {"trace": "known", "query": "lost"}


def reader(name: str, *roles: str) -> User:
    user = User.objects.get_or_create(username=name)[0]
    user.groups.set(Group.objects.get_or_create(name=role)[0] for role in roles)
    return User.objects.get(pk=user.pk)


def nobody() -> User:
    return reader("nobody")


def revise(tool: Tool, words: str) -> None:
    """As an import does: the old content stays as a revision."""
    if not tool.revisions.exists():
        keep(tool)
    tool.description = words
    tool.save()
    keep(tool)


def keep(tool: Tool) -> None:
    names = ("name", "description", "permissions", "deprecated")
    data = {name: getattr(tool, name) for name in names}
    ToolRevision.objects.create(tool=tool, content_hash=tool.content_hash, data=data)


def resolves(sample: Sample) -> list[str]:
    """What of a snapshot's sample cannot be told."""
    line = lines.Lineage(sample.pk, nobody())
    told = {
        "rule version or anchor": line.sample.rule_version or line.sample.anchor,
        "tool contents": line.tools and all(tool.then is not None for tool in line.tools),
        "writers": [stage.stage for stage in line.stages] == ["query", "trace", "judge"]
        and all(stage.by and (stage.kept or not stage.prompt) for stage in line.stages),
        "seed": line.sample.seed is not None,
        "attempts": line.attempts and line.attempts[-1].outcome == "ready",
        "judge": set(AXES) <= set(line.attempts[-1].judge),
        "decisions": line.decisions and line.sample.approved_how,
        "snapshot": line.memberships,
    }
    return [what for what, known in told.items() if not known]


def test_every_sample_of_a_snapshot_resolves_after_rules_and_tools_moved_on(every_draft_passes):
    make_catalog(3)
    run()
    run("rrb", anchors=4)
    policy_approve(count=None)
    freeze()
    for tool in Tool.objects.all():
        revise(tool, f"{tool.description} Changed since.")
    edit_rule("RULE_1")
    snapshot = Snapshot.objects.get()
    members = [one.sample for one in snapshot.members.select_related("sample")]
    assert len(members) == 22
    assert {sample.pk: gaps for sample in members if (gaps := resolves(sample))} == {}


@pytest.fixture
def llm(transactional_db, settings):
    server = LlmServer(answers)
    settings.LLM_BASE_URL = server.url
    settings.LLM_GENERATOR_MODEL = settings.LLM_TEACHER_MODEL = settings.LLM_JUDGE_MODEL = "tester"
    settings.LLM_CONCURRENCY, settings.LLM_TIMEOUT_SECONDS = 1, 5
    yield server
    server.close()


def test_every_sample_of_a_snapshot_that_models_wrote_resolves_to_prompt_model_and_calls(llm):
    make_book()
    run(writer="llm", recipe=NO_PERMISSIONS)
    policy_approve(count=None)
    freeze(branches=["rule"])
    members = list(Sample.objects.filter(memberships__isnull=False))
    assert len(members) == 6 and [gaps for sample in members if (gaps := resolves(sample))] == []
    line = lines.Lineage(members[0].pk, nobody())
    assert [(stage.by, stage.prompt) for stage in line.stages] == [
        ("tester", "query_rule"),
        ("tester", "trace"),
        ("tester", "judge"),
    ]
    assert line.calls["run"] == ModelCall.objects.count() > line.calls["own"] > 0


def test_a_prompt_whose_text_was_not_kept_is_said_to_be_so():
    PromptVersion.objects.create(hash="known", name="trace", source="text")
    made = {name: {"model": "m", "prompt": name, "prompt_hash": digest} for name, digest in PROMPTS.items()}
    found = stages_then(make_sample(made_from={"stages": made}))
    assert [(stage.stage, stage.kept) for stage in found] == [("query", False), ("trace", True)]


def test_tools_are_shown_as_they_were(every_draft_passes):
    make_catalog(1)
    run()
    sample = Sample.objects.earliest("pk")
    answer = Tool.objects.get(name=sample.answer[0])
    before = answer.description
    revise(answer, "Says something else.")
    found = {tool.name: tool for tool in tools_then(sample)}
    changed = found[answer.name]
    assert (changed.state, changed.role, changed.then, changed.now) == (
        "changed",
        "answer",
        before,
        "Says something else.",
    )
    assert changed.since is not None
    assert {tool.state for name, tool in found.items() if name != answer.name} == {"same"}


def test_contents_that_nobody_kept_are_not_guessed(every_draft_passes):
    make_catalog(1)
    run()
    sample = Sample.objects.earliest("pk")
    Tool.objects.filter(name=sample.answer[0]).update(description="Silently changed.")
    found = {tool.name: tool for tool in tools_then(sample)}[sample.answer[0]]
    assert (found.state, found.then, found.now) == ("not recorded", None, "Silently changed.")
    bare = make_sample()
    assert {tool.state for tool in tools_then(bare)} == {"not recorded"}


def test_a_retired_tool_is_named_as_such(every_draft_passes):
    make_catalog(1)
    run()
    sample = Sample.objects.earliest("pk")
    Tool.objects.filter(name=sample.answer[0]).update(status="retired")
    found = {tool.name: tool for tool in tools_then(sample)}[sample.answer[0]]
    assert found.state == "retired" and found.then == found.now


def test_decisions_are_hidden_while_somebody_may_still_read_the_sample():
    sample = make_sample()
    SecondShare.objects.create(share=1.0)
    ann, bob, erin = reader("ann", "reviewer"), reader("bob", "reviewer"), reader("erin", "expert")
    review_services.reject(sample=sample.pk, reviewer=ann, reason="leak", note="secret", follow_up="drop")

    def seen(person: User) -> tuple[int, int]:
        line = lines.Lineage(sample.pk, person)
        return len(line.decisions), line.hidden

    assert (seen(ann), seen(bob), seen(erin)) == ((1, 0), (0, 1), (0, 1))
    review_services.reject(sample=sample.pk, reviewer=bob, reason="leak", follow_up="drop")
    assert seen(bob) == seen(reader("cora", "admin")) == (2, 0)


def used() -> Sample:
    """A sample in a snapshot, with a run, a model with an alias and an evaluation."""
    sample = make_sample(human="approved")
    snapshot = make_snapshot()
    SnapshotSample.objects.create(snapshot=snapshot, sample=sample, position=0, sample_key=sample.key)
    model = make_model(run=make_run(snapshot=snapshot))
    AliasMove.objects.create(alias="champion", model=model)
    tool = make_tool()
    make_evaluation((tool, [tool.name]), model=model)
    return sample


def test_it_goes_on_to_runs_models_aliases_and_evaluations():
    line = lines.Lineage(used().pk, nobody())
    (member,), (made,), (model,), (evaluation,) = line.memberships, *line.of_kind.values()
    assert (made.of, model.of, evaluation.of) == (member.snapshot_id, made.id, model.id)
    assert model.aliases == ["champion"] and "R@gen" in evaluation.about


def test_a_sample_in_no_snapshot_has_nothing_to_its_right():
    line = lines.Lineage(make_sample().pk, nobody())
    assert (line.memberships, line.made) == ([], [])


def test_the_same_queries_whatever_was_made_of_it(django_assert_max_num_queries):
    sample, person = used(), nobody()
    with django_assert_max_num_queries(17):
        lines.Lineage(sample.pk, person)
