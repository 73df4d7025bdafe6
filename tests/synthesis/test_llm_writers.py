"""The language-model writers: each sample takes its own query of a batch, and is told alone what is wrong with it."""

import asyncio
from types import SimpleNamespace

import pytest

from synthesis.core.queries import Writers
from synthesis.core.recipe import default_recipe
from synthesis.generate.pipeline import STOPS, Pipeline, Unit
from synthesis.llm import prompts
from synthesis.llm.writers import LlmJudge, LlmQueryWriter, LlmTraceWriter
from tests.synthesis.test_prompts import judge_request, query_request, trace_request
from tests.synthesis.texts import context
from trace_site.lib.errors import TraceError
from trace_site.lib.llm.exchange import Reply

RECIPE = default_recipe()


class Model:
    """A client that gives one answer and keeps what it was asked."""

    endpoint = SimpleNamespace(model="tester")

    def __init__(self, answer, **reply):
        self.answer, self.reply, self.asked = answer, reply, []

    async def ask(self, messages, **options):
        self.asked.append({"prompt": messages[0]["content"], **options})
        return Reply(self.answer, **self.reply)


def batch(*numbers: int) -> dict:
    return {
        "queries": [
            {"number": n, "query": f" query {n} ", "target_tool": f"T/{n} ", "explanation": f"because {n}"}
            for n in numbers
        ]
    }


def written(model: Model, **changes):
    request = query_request(**{"attempt": 1, "critique": "", "batch_seed": 5, **changes})
    return asyncio.run(LlmQueryWriter(model, RECIPE).write(request))


def test_a_sample_takes_the_query_with_its_number_wherever_it_stands():
    model = Model(batch(4, 2, 1, 3))
    for index in range(4):
        draft = written(model, index=index)
        assert (draft.query, draft.answer) == (f"query {index + 1}", (f"T/{index + 1}",))
    assert len({str(asked) for asked in model.asked}) == 1, (
        "four equal requests are one exchange for a client"
    )


@pytest.mark.parametrize(
    ("numbers", "failing"),
    [((1, 2, 4), {3}), ((1, 2, 3, 3, 4), {3}), ((1, 2, 3, 4, 99), set()), ((5, 6, 7, 8), {1, 2, 3, 4})],
)
def test_only_the_sample_whose_number_is_missing_or_doubled_fails(numbers, failing):
    failed = set()
    for index in range(4):
        try:
            written(Model(batch(*numbers)), index=index)
        except TraceError as error:
            assert error.code == "llm_bad_answer"
            failed.add(index + 1)
    assert failed == failing


def test_an_answer_that_was_paid_before_or_by_another_sample_counts_no_call():
    assert written(Model(batch(2))).calls == 1
    assert written(Model(batch(2), cached=True)).calls == 0
    assert written(Model(batch(2), shared=True)).calls == 0


def test_empty_texts_are_failures_and_no_samples():
    empty = {"queries": [{"number": 2, "query": "  ", "target_tool": "T/2", "explanation": ""}]}
    with pytest.raises(TraceError, match="empty query"):
        written(Model(empty))
    with pytest.raises(TraceError, match="empty reasoning"):
        model = Model({"semantic_reasoning": {"reasoning": "\n"}})
        asyncio.run(LlmTraceWriter(model, RECIPE).write(trace_request(permissions=())))


def test_the_permission_step_comes_first_when_the_request_carries_targets():
    model = Model(
        {
            "permission_filtering": {"reasoning": "May read pay. "},
            "semantic_reasoning": {"reasoning": "So A/b."},
        }
    )
    writer = LlmTraceWriter(model, RECIPE)
    assert asyncio.run(writer.write(trace_request())).trace == "May read pay. So A/b."


def test_a_verdict_counts_only_with_the_id_that_was_asked():
    scores = {"naturalness": 5, "compliance": 5, "label": 5, "faithfulness": 5, "critique": ""}
    for answered in ("", "another", "17"):
        verdict = asyncio.run(
            LlmJudge(Model({**scores, "id": answered}), RECIPE).judge(judge_request(id="17"))
        )
        assert not verdict.passed and verdict.scores == {} and verdict.id == "17"
    model = Model({**scores, "id": ""})
    asyncio.run(LlmJudge(model, RECIPE).judge(judge_request()))
    model.answer["id"] = model.asked[0]["prompt"].split("Sample id: ")[1].split("\n")[0]
    assert asyncio.run(LlmJudge(model, RECIPE).judge(judge_request())).passed


def test_a_broken_prompt_stops_the_run_and_costs_no_attempts(monkeypatch):
    monkeypatch.setattr(prompts, "source", lambda name: "{% if %}")
    model = Model(batch(1))
    writers = Writers(
        "llm:tester", LlmQueryWriter(model, RECIPE), LlmTraceWriter(model, RECIPE), LlmJudge(model, RECIPE)
    )
    with pytest.raises(TraceError, match="query_rule.jinja:1"):
        asyncio.run(Pipeline(writers, context()).make(Unit(1, query_request(attempt=1, critique=""))))
    assert model.asked == []


def failing(answers):
    """The codes that a generator ends with, asked for one query after the other."""
    model = Model(None)
    writer = LlmQueryWriter(model, RECIPE)

    async def all_of():
        ends = []
        for answer in answers:
            model.answer = answer
            try:
                await writer.write(query_request(attempt=1, critique="", batch_seed=5))
                ends.append("")
            except TraceError as error:
                ends.append(error.code)
        return ends

    return asyncio.run(all_of())


def test_a_role_whose_first_answers_all_fail_alike_ends_the_run():
    assert failing([batch(7)] * 20) == ["llm_bad_answer"] * 19 + ["llm_all_alike"]
    assert "llm_all_alike" in STOPS


def test_one_right_answer_is_enough_to_go_on():
    number = query_request(attempt=1).index + 1
    assert failing([*[batch(99)] * 19, batch(number), *[batch(99)] * 30]).count("llm_bad_answer") == 49


def test_what_one_answer_costs_many_samples_counts_once():
    model = Model(batch(99), shared=True)
    writer = LlmQueryWriter(model, RECIPE)
    for _ in range(40):
        with pytest.raises(TraceError, match="not at all"):
            asyncio.run(writer.write(query_request(attempt=1, critique="", batch_seed=5)))
