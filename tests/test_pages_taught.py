"""What the rules taught: home and evaluation, before and after, and what a rule's author is told."""

import pytest

from evaluation.models import Benchmark, LabelledRequest
from evaluation.taught.selectors import taught
from synthesis.models import SnapshotSample
from tests.factories import (
    answer_tests,
    make_evaluation,
    make_model,
    make_rule,
    make_run,
    make_sample,
    make_snapshot,
    make_tool,
    sort_requests,
    thawed,
)
from training.models import AliasMove

pytestmark = pytest.mark.django_db
RIGHT, WRONG = ["New/GetSlip"], ["Old/GetSlip"]
ASKED = 16  # covered requests first, then as many outside


def benchmark(name, tier, version=1, **overrides):
    fields = {"name": name, "tier": tier, "version": version, "kind": "prb", "hash": f"{name}{version}"}
    return Benchmark.objects.create(count=ASKED, **{**fields, **overrides})


@pytest.fixture
def tools(monkeypatch):
    sort_requests(monkeypatch, {place: "covered" if place < 8 else "outside" for place in range(ASKED)})
    return make_tool("New/GetSlip"), make_tool("Old/GetSlip")


@pytest.fixture
def rule(tools):
    return make_rule(*tools, code="SLIP_YEAR", tests=[{"query": "my slip", "tools": ["New/GetSlip"]}])


@pytest.fixture
def models():
    """The champion, and its control of the same snapshot."""
    snapshot = make_snapshot()
    champion, control = (
        make_model(
            run=make_run(snapshot=snapshot, retrieval=retrieval, recipe={"lr": 1, "retrieval": retrieval})
        )
        for retrieval in ("r+R", "r")
    )
    AliasMove.objects.create(alias="champion", model=champion)
    return champion, control


def answered(tool, of, model, found, decode="trace", code=""):
    """Right on `found` of the 8 covered requests and on `8 - found` of the 8 outside."""
    right = [place < found for place in range(8)] + [place < 8 - found for place in range(8)]
    trace = {"trace": f"By {code}, it is the new one." if code else "It is that one."}
    made = make_evaluation(
        *((tool, RIGHT if ok else WRONG, trace if decode == "trace" else {}) for ok in right),
        model=model,
        benchmark=of,
        decode=decode,
    )
    with thawed():
        for item in LabelledRequest.objects.filter(benchmark=of, position__lt=8):
            item.data["rule"] = "SLIP_YEAR"
            item.save()
    return made


@pytest.fixture
def measured(tools, rule, models):
    """On the hard tier the rules taught what is covered and what is outside was forgotten; on the plain one nothing."""
    champion, control = models
    hard, plain = benchmark("hard", "hard"), benchmark("plain", "plain")
    for of, found in ((hard, 8), (plain, 4)):
        answered(tools[0], of, None, 0 if of is hard else 4, "embedding")
        answered(tools[0], of, control, 0 if of is hard else 4)
        answered(tools[0], of, champion, found, code="SLIP_YEAR" if of is hard else "")
    return hard, plain


def test_tiers_stand_apart_the_hard_one_first(measured):
    parts = taught().parts
    assert [part.title for part in parts] == [
        "Hard tier: as people hint at it",
        "Plain tier: the deciding fact is stated",
    ]
    hard, plain = ({key[1]: cell for key, cell in part.cells.items() if key[0] == "all"} for part in parts)
    assert [(cell.n, cell.champion.value) for cell in hard.values()] == [(16, 0.5), (8, 1.0), (8, 0.0)]
    assert (hard["covered"].over_control.answer, hard["outside"].over_embedding.answer) == (
        "better",
        "worse",
    )
    assert {cell.over_embedding.answer for cell in plain.values()} == {"cannot tell"}


def test_control_differs_in_nothing_but_the_rule_samples(models):
    champion, control = models
    same = {"snapshot": champion.run.snapshot, "retrieval": "r", "recipe": {"lr": 1, "threads": 8}}
    for other in (
        {"seed": 1},
        {"memo": "m"},
        {"format": "b"},
        {"recipe": {"lr": 2}},
        {"snapshot": make_snapshot()},
    ):
        make_model(run=make_run(**same | other))
    assert taught().control == control
    newer = make_model(run=make_run(**same))
    assert taught().control == newer


def test_without_a_control_pages_say_how_to_make_one(client_as, tools, models, rule):
    champion, control = models
    type(control).objects.filter(pk=control.pk).delete()
    answered(tools[0], benchmark("hard", "hard"), champion, 8)
    client = client_as("admin")
    for path in ("/evaluation/", "/evaluation/before-after/"):
        page = client.get(path, follow=True).content.decode()
        assert "It has no control yet" in page and f"/training/new/?from={champion.run_id}" in page
        assert "(a, none, r)" in page


def test_control_that_was_not_measured_is_said_with_the_command(client_as, tools, models, rule):
    answered(tools[0], benchmark("hard", "hard"), models[0], 8)
    page = client_as("admin").get("/evaluation/").content.decode()
    assert f"manage.py evaluate --model {models[1].pk} --benchmark hard" in page


def test_only_the_newest_version_of_a_benchmark_is_shown(measured, tools, models):
    newer = benchmark("hard", "hard", version=2)
    answered(tools[0], newer, models[0], 8)
    assert [str(part.benchmark) for part in taught().parts] == ["hard v2", "plain v1"]


def test_results_say_in_a_plain_sentence_where_the_champion_is_worse(client_as, measured):
    page = client_as("product_manager").get("/evaluation/").content.decode()
    said = "Worse than plain embedding search outside every cluster: 0.00 against 1.00 (n 8"
    assert said in page and "hard tier, trace." in page
    assert "where a rule tells look-alikes apart:" not in page and "plain tier, trace." not in page


def test_before_and_after_is_the_champion_beside_its_control(client_as, measured, models, rule):
    page = client_as("expert").get("/evaluation/before-after/", follow=True)
    (ours, theirs), *_ = page.context["flips"]
    assert (page.context["a"].model, page.context["b"].model) == models
    assert (ours.given, theirs.given) == ([("New/GetSlip", True)], [("Old/GetSlip", False)])
    assert (ours.decides, ours.cited, theirs.cited) == (("SLIP_YEAR", rule.pk), [("SLIP_YEAR", rule.pk)], [])
    assert b"It is that one." in page.content


@pytest.mark.parametrize(
    ("tier", "counts"),
    [
        ("hard", {"": 16, "a": 8, "b": 8, "both": 0, "none": 0}),
        ("plain", {"": 0, "a": 0, "b": 0, "both": 8, "none": 8}),
    ],
)
def test_what_both_or_neither_answer_right_is_listed_too(client_as, measured, tier, counts):
    (part,) = [part for part in taught().parts if part.benchmark.tier == tier]
    client = client_as("expert")
    for way, count in counts.items():
        asked = {"a": part.champion.pk, "b": part.control.pk, "flip": way}
        page = client.get("/evaluation/compare/", asked).context
        right = {"a": {(True, False)}, "b": {(False, True)}, "both": {(True, True)}, "none": {(False, False)}}
        assert page["total"] == count
        assert {(a.right, b.right) for a, b in page["flips"]} <= right.get(way, right["a"] | right["b"])


def test_before_and_after_before_anything_was_evaluated_says_what_comes(client_as):
    page = client_as("expert").get("/evaluation/before-after/", follow=True)
    assert b"Nothing is evaluated yet" in page.content


@pytest.fixture
def expert(client_as):
    return client_as("expert")


def helped(expert, rule):
    return expert.get(f"/evaluation/of-rule/{rule.pk}/")


def test_rule_page_counts_its_requests_beside_control_and_embedding(expert, measured, rule):
    page = helped(expert, rule)
    hard, plain = page.context["help"]["tiers"]
    assert [(who, right) for who, right, _ in hard["sides"]] == [
        ("champion", 8),
        ("control", 0),
        ("embedding", 0),
    ]
    assert (hard["n"], hard["verdict"], hard["cited"], hard["needless"], hard["others"]) == (
        8,
        "better",
        8,
        8,
        8,
    )
    assert ([right for _, right, _ in plain["sides"]], plain["cited"], plain["needless"]) == ([4, 4, 4], 0, 0)
    listed = expert.get(hard["sides"][0][2]).context["shown"]
    assert len(listed) == 8 and all(row.cited == [("SLIP_YEAR", rule.pk)] for row in listed)
    assert all(row.cites_right for row in listed)
    (part,) = [part for part in taught().parts if part.benchmark.tier == "hard"]
    beside = f"/evaluation/compare/?a={part.champion.pk}&b={part.control.pk}&rule=SLIP_YEAR"
    assert f'href="{beside}#flips"'.replace("&", "&amp;") in page.content.decode()
    beside = expert.get(beside).context
    assert (beside["n"], beside["total"], beside["answer"]) == (8, 8, "")
    elsewhere = expert.get(hard["needless_url"]).context["shown"]
    assert [row.answer.item.position for row in elsewhere] == list(range(8, 16))


def test_rule_page_counts_its_tests_with_champion_and_control(expert, measured, rule, models):
    answer_tests(models[0], rule.published, True)
    champion, control = helped(expert, rule).context["help"]["tests"]
    assert (champion[2].passed, control[2]) == (1, None)


def test_rule_says_what_the_champion_learned_from_it(expert, measured, rule, models, tools):
    assert "not trained yet" in helped(expert, rule).content.decode()
    sample = make_sample(rule=rule, tools=list(tools))
    SnapshotSample.objects.create(
        snapshot=models[0].run.snapshot, sample=sample, position=0, sample_key=sample.key
    )
    page = helped(expert, rule).content.decode()
    assert "not trained yet" not in page and "<b>1</b> sample</a> of v1" in page


def test_rule_written_after_the_snapshot_is_not_trained_yet(expert, measured, tools):
    late = make_rule(*tools, code="LATE")
    page = " ".join(helped(expert, late).content.decode().split())
    assert "not trained yet" in page and "v1 was written after the snapshot" in page


def test_rule_without_requests_says_how_to_get_one(expert, measured, tools):
    page = helped(expert, make_rule(*tools, code="ALONE")).content.decode()
    assert "Add tests to the rule" in page and "benchmark_import FILE --kind prb" in page


def test_rule_that_nobody_published_is_trained_by_nobody(expert, measured, tools):
    page = helped(expert, make_rule(*tools, code="DRAFT", published=False)).content.decode()
    assert "No version is published" in page


def test_rule_code_is_cited_as_a_whole_word_only(expert, measured, tools):
    make_rule(*tools, code="SLIP")
    (part,) = [part for part in taught().parts if part.benchmark.tier == "hard"]
    shown = expert.get(f"/evaluation/{part.champion.pk}/", {"needless": "SLIP"})
    assert shown.context["shown"] == [] and "which does not decide" in shown.content.decode()
