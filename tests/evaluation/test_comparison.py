"""A model beside the champion: what is compared, what is said not to be, and that it is computed once."""

import json

import pytest
from django.contrib.auth.models import User

from evaluation.benchmarks.services import benchmark_import, evaluation_request
from evaluation.models import (
    Answer,
    Benchmark,
    Evaluation,
    GateReport,
    LabelledRequest,
)
from evaluation.results import comparison
from tests.evaluation import test_services
from tests.evaluation.test_services import evaluate, model_with
from tests.factories import (
    answer_tests,
    crown,
    make_model,
    make_rule,
    make_run,
    make_snapshot,
    make_tool,
    thawed,
)
from trace_site import jobs
from trace_site.lib.errors import TraceError
from trace_site.notices.services import Notice

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fake_engine")]
tools, prb = test_services.tools, test_services.prb  # fixtures


@pytest.fixture
def two():
    snapshot = make_snapshot()
    old, new = (make_model(run=make_run(snapshot=snapshot)) for _ in range(2))
    crown(model=old, actor=None)
    return old, new


def benchmark(name="prb", version=1, kind="prb", domains=("hr", "tax"), n=24):
    found = Benchmark.objects.create(name=name, version=version, kind=kind, hash=f"{name}{version}", count=n)
    LabelledRequest.objects.bulk_create(
        LabelledRequest(
            benchmark=found,
            position=place,
            domain=domains[place % len(domains)],
            data={"query": f"{name} {place}", "tools": ["Gone/Tool"]},
        )
        for place in range(n)
    )
    return found


def measured(model, of, value, decode="fast"):
    made = Evaluation.objects.create(
        key=f"{model.pk}-{of.pk}-{decode}", model=model, benchmark=of, decode=decode, metrics={}
    )
    if decode == "letters":
        scores = {"accuracy": value}
    elif decode == "fast":
        scores = {"hit@1": value, "recall@5": value}
    else:
        scores = {"hit@1": value, "recall@gen": value, "precision@gen": value, "set_size": 2 + value}
    Answer.objects.bulk_create(
        Answer(evaluation=made, item=item, output={}, scores=scores) for item in of.items.all()
    )
    return made


def test_every_benchmark_probe_and_decoding_both_have_is_compared(two):
    old, new = two
    for of, decode in ((benchmark(), "fast"), (benchmark("mcq", kind="mcq"), "letters")):
        measured(old, of, 0.0, decode)
        measured(new, of, 1.0, decode)
    found = comparison.compare_with_champion(new)
    assert found.other == old and [(pair.title, pair.decode) for pair in found.pairs] == [
        ("prb v1", "fast"),
        ("mcq v1", "letters"),
    ]
    assert {(row.domain, row.answer, row.n) for row in found.pairs[0].rows} == {
        ("all", "better", 24),
        ("hr", "better", 12),
        ("tax", "better", 12),
    }
    assert [note for note in found.notes if "mcq" in note] == []


def test_what_only_one_was_measured_with_is_not_compared_and_said(two):
    old, new = two
    first, second = benchmark(), benchmark(version=2)
    measured(old, first, 0.0)
    measured(new, second, 1.0)
    found = comparison.compare_with_champion(new)
    assert found.pairs == []
    assert "prb v2, fast: the champion was not measured so." in found.notes


def test_development_halves_are_no_part_of_a_comparison(two):
    old, new = two
    half = benchmark()
    with thawed():
        Benchmark.objects.update(is_development=True)
    for model in (old, new):
        for decode in ("fast", "trace"):
            measured(model, half, 1.0, decode)
    found = comparison.compare_with_champion(new)
    assert (found.pairs, found.notes, found.missing) == ([], [], [])


def test_tests_of_rules_are_paired_test_by_test(two):
    old, new = two
    tool, other = make_tool("Pay/A"), make_tool("Pay/B")
    for number in range(8):
        version = make_rule(tool, other, code=f"R{number}").published
        answer_tests(old, version, False)
        answer_tests(new, version, True)
    (pair,) = comparison.compare_with_champion(new).pairs
    assert (pair.title, pair.rows[0].answer, pair.rows[0].n) == ("tests of unchanged rules", "better", 8)


def test_comparison_is_computed_once_by_a_process(two, django_assert_max_num_queries):
    old, new = two
    for number in range(3):
        of = benchmark(f"prb{number}")
        measured(old, of, 0.0)
        measured(new, of, 1.0)
    rows = [pair.rows for pair in comparison.compare_with_champion(new).pairs]
    with django_assert_max_num_queries(13):
        assert [pair.rows for pair in comparison.compare_with_champion(new).pairs] == rows


def test_the_champion_is_compared_with_the_model_it_replaced(two):
    old, new = two
    of = benchmark()
    measured(old, of, 0.0)
    measured(new, of, 1.0)
    crown(model=new, actor=None)
    found = comparison.compare_with_champion(new)
    assert found.champion and found.other == old and found.pairs[0].rows[0].answer == "better"


def test_first_model_has_nothing_to_be_compared_with(client_as):
    model = make_model()
    page = client_as("expert").get(f"/evaluation/of-model/{model.pk}/beside/").content.decode()
    assert "No model is champion yet" in page
    crown(model=model, actor=None)
    assert comparison.compare_with_champion(model).other is None


def test_fragment_shows_interval_n_verdict_and_lengths_of_a_model_beside_the_champion(two, client_as):
    old, new = two
    of = benchmark()
    measured(old, of, 0.0, "trace")
    measured(new, of, 1.0, "trace")
    client = client_as("product_manager")
    page = client.get(f"/evaluation/of-model/{new.pk}/beside/").content.decode()
    for words in ("+1.000", "to +1.000", "better", "precision@gen", "sign-flip"):
        assert words in page


def gated(model):
    """Work off the gate that the model's evaluation asked for."""
    job = jobs.run(jobs.Job.objects.get(kind="gate", state="queued", params__model=model.pk).pk)
    assert job.state == "done", job.error
    return GateReport.objects.get(pk=job.result["report"])


def test_a_new_model_is_gated_after_its_evaluation_and_people_are_told_once(
    tools,
    prb,
    tmp_path,
    user_with,
):
    admin, manager, expert = user_with("admin"), user_with("product_manager"), user_with("expert")
    champion, model = model_with(tools, tmp_path), model_with(tools, tmp_path)
    crown(model=champion, actor=None)
    evaluate(champion)
    assert not jobs.Job.objects.filter(kind="gate").exists()
    evaluate(model)
    evaluate(model)  # asks for no second gate
    report = gated(model)
    assert (report.candidate, report.champion) == (model, champion)
    notice = Notice.objects.get(recipient=admin)
    assert notice.text.startswith(f"Gate: {report.verdict}. Model {model.pk} ")
    assert notice.text.endswith("A person promotes it.") and notice.link == f"/evaluation/gate/{report.pk}/"
    assert set(Notice.objects.values_list("recipient", flat=True)) == {admin.pk, manager.pk} and expert.pk
    evaluate(model)
    assert gated(model) == report  # equal evidence is the same report
    assert Notice.objects.count() == 2 and User.objects.count() == 3


def test_the_gate_measures_the_champion_on_benchmarks_that_came_after_it(tools, prb, tmp_path):
    champion = model_with(tools, tmp_path)
    crown(model=champion, actor=None)
    evaluate(champion)
    rows = [{"tool": tools[1].name, "question": "Does it read?", "answer": "No"}]
    (tmp_path / "qa.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    benchmark_import(path=tmp_path / "qa.jsonl", kind="qa", name="qa")
    model = model_with(tools, tmp_path)
    evaluate(model)
    assert [one.name for one in comparison.compare_with_champion(model).missing] == ["qa"]
    report = gated(model)
    found = comparison.compare_with_champion(model)
    assert found.missing == [] and "qa v1" in [pair.title for pair in found.pairs]
    assert "qa v1" in {row["name"] for row in report.report["rows"]}


def test_evaluation_of_one_benchmark_alone_tells_nobody(tools, prb, tmp_path, user_with):
    user_with("admin")
    model = model_with(tools, tmp_path)
    jobs.run(evaluation_request(model=model, benchmark=prb, decodes=["fast"]).pk)
    assert not Notice.objects.exists()


def test_probe_answers_are_right_by_their_accuracy_on_every_page(two, client_as):
    old, new = two
    of = benchmark("mcq", kind="mcq", n=2)
    with thawed():
        of.items.update(data={"question": "which?", "choices": ["x", "y"], "answer": "A"})
    a, b = measured(new, of, 1.0, "letters"), measured(old, of, 0.0, "letters")
    client = client_as("expert")
    compared = client.get(f"/evaluation/compare/?a={a.pk}&b={b.pk}").context
    assert [(row.metric, row.a, row.b) for row in compared["rows"]] == [("accuracy", 1.0, 0.0)]
    slices = {"all": {"n": 2, "accuracy": {"mean": 1.0, "low": 1.0, "high": 1.0, "n": 2}, "random": 0.5}}
    Evaluation.objects.filter(pk=a.pk).update(metrics={"slices": slices})
    shown = client.get(f"/evaluation/{a.pk}/", {"only": "right"}).context["shown"]
    assert [row.right for row in shown] == [True, True]


def test_model_without_files_is_not_evaluated_nor_offered(two, client_as):
    from django.utils import timezone

    _, gone = two
    type(gone).objects.filter(pk=gone.pk).update(removed_at=timezone.now())
    with pytest.raises(TraceError, match="has no files any more"):
        evaluation_request(model=gone)
    context = client_as("expert").get("/evaluation/playground/").context
    assert gone.pk not in [model.pk for model in context["models"]]
