"""What the rules taught: home and evaluation, before and after, and what a rule's author is told."""

import pytest

from evaluation.models import Benchmark, LabelledRequest
from evaluation.taught.selectors import taught
from evaluation.taught.views import draw
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
        page = client.get(path).content.decode()
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
    said = "Worse than plain embedding search on requests outside every cluster: 0.00 against 1.00 (n 8"
    assert said in page and "hard tier, trace." in page
    assert "where a rule covers the look-alikes:" not in page and "plain tier, trace." not in page


def test_same_seed_draws_the_same_ten_and_the_next_one_others(measured):
    first, again, other = (draw(seed=seed) for seed in (0, 0, 1))
    ids = [[(pair.part.short, pair.item.pk) for pair in drawing.pairs] for drawing in (first, again, other)]
    assert ids[0] == ids[1] != ids[2] and len(ids[0]) == 10


def test_outcomes_are_counted_a_tier_at_a_time(measured):
    counts = {part.short: outcomes for part, outcomes in draw(seed=0).counts}
    assert counts == {
        "Hard tier": {"fixed": 8, "broken": 8, "right": 0, "wrong": 0},
        "Plain tier": {"fixed": 0, "broken": 0, "right": 8, "wrong": 8},
    }


@pytest.mark.parametrize(
    ("show", "outcomes"),
    [("fixed", {"fixed"}), ("broken", {"broken"}), ("same", {"right", "wrong"}), ("right", {"right"})],
)
def test_before_and_after_filters_by_what_the_rules_did(client_as, measured, show, outcomes):
    drawing = client_as("expert").get("/evaluation/before-after/", {"show": show}).context["drawing"]
    assert {pair.outcome for pair in drawing.pairs} <= outcomes and len(drawing.pairs) >= 8


def test_before_and_after_filters_by_tier_and_domain(measured):
    assert {pair.part.short for pair in draw(seed=0, tier="plain").pairs} == {"Plain tier"}
    assert draw(seed=0, domain="finance").pairs == []


def test_before_and_after_shows_both_answers_traces_and_the_rule(client_as, measured, models, rule):
    page = client_as("expert").get("/evaluation/before-after/", {"show": "fixed"})
    (pair, *_) = page.context["drawing"].pairs
    assert (pair.before["tools"], pair.after["tools"]) == ([("Old/GetSlip", False)], [("New/GetSlip", True)])
    assert (pair.rule, pair.before["cited"], pair.after["cited"]) == (rule, [], ["SLIP_YEAR"])
    text = page.content.decode()
    assert "fixed by the rules" in text and "It is that one." in text and "show=fixed&amp;seed=1" not in text
    assert f"/rules/{rule.pk}/" in text and f"/training/models/{models[1].pk}/" in text


def test_before_and_after_before_anything_was_evaluated_says_what_it_is(client_as):
    assert b"No model has been evaluated yet" in client_as("expert").get("/evaluation/before-after/").content


@pytest.mark.parametrize("seed", ["-1", "²", "x", "9" * 30])
def test_seed_that_is_no_number_draws_the_first_ten(client_as, measured, seed):
    assert client_as("expert").get("/evaluation/before-after/", {"seed": seed}).context["seed"] == 0


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
