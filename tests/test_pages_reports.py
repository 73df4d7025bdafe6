"""Reports over many evaluations: the grid, samples a rule, latency, and two runs beside each other."""

import re

import pytest

from evaluation.models import Answer, Benchmark, Evaluation
from evaluation.taught.control import control_of
from synthesis.models import SnapshotSample
from tests.factories import (
    make_evaluation,
    make_model,
    make_rule,
    make_run,
    make_sample,
    make_snapshot,
    sort_requests,
    thawed,
)
from tests.test_pages_taught import RIGHT, WRONG, tools

__all__ = ["tools"]
pytestmark = pytest.mark.django_db


@pytest.fixture
def client(client_as):
    return client_as("product_manager")


def prb(name="prb", **fields):
    return Benchmark.objects.create(**{"name": name, "kind": "prb", "hash": name, "count": 4, **fields})


def asked(tool, of, model, right, decode="trace", **more):
    """Four requests, of which the first `right` are answered right."""
    trace = {"trace": "By SLIP_YEAR, it is the new one."} if decode == "trace" else {}
    answers = [(tool, RIGHT if place < right else WRONG, trace) for place in range(4)]
    return make_evaluation(*answers, model=model, benchmark=of, decode=decode, **more)


def expert(model, accuracy, of=None):
    of = of or Benchmark.objects.create(
        name=f"mcq{Benchmark.objects.count()}", kind="mcq_expert", hash="m", count=9, random_baseline=0.25
    )
    cell = {"mean": accuracy, "low": accuracy - 0.1, "high": accuracy + 0.1, "n": 9}
    metrics = {"slices": {"all": {"n": 9, "accuracy": cell, "random": 0.25}}}
    key = f"expert{model.pk}-{of.pk}"
    Evaluation.objects.create(key=key, model=model, benchmark=of, decode="letters", metrics=metrics)
    return of


# The grid.


def test_grid_is_laid_out_by_stage_2_and_stage_1_with_the_baseline_and_every_missing_cell_said(client, tools):
    of, new = prb(), tools[0]
    plain = make_model(run=make_run(memo="m", retrieval="n", base="some/base"))
    rules = make_model(
        run=make_run(memo="m", retrieval="r+R", base="some/base", snapshot=make_snapshot(per_rule=12))
    )
    untold = make_model(run=make_run(memo="mr", retrieval="r", base="some/base"))
    asked(new, of, plain, 1, "fast")
    asked(new, of, rules, 3, "fast")
    asked(new, of, None, 2, "embedding")
    page = client.get("/evaluation/grid/", {"table": "ranked"})
    sections = page.context["sections"]
    assert [section.title for section in sections] == [
        "Non-reasoning retrieval (M = m, R = n)",
        "Reasoning retrieval, no rules (M = mr, R = r)",
        "Rule-grounded reasoning retrieval (M = m, R = r+R)",
    ]
    cells = {row.model: row.cells[0] for section in sections for row in section.rows}
    assert (cells[plain].value["mean"], cells[rules].value["mean"]) == (0.25, 0.75)
    assert (cells[untold].value, cells[untold].why) == ({}, "not measured")
    assert sections[-1].rows[0].retrieval == "r+R (12, append)"
    assert page.context["baseline"][0].value["mean"] == 0.5
    assert [column.title for column in page.context["columns"]] == ["R@1", "R@5", "R@10"]
    missing = {(form, memo): counts for form, memo, counts in page.context["cells"]}
    assert len(missing) == 9 and sum(many for counts in missing.values() for many, _ in counts) == 3
    assert missing["a", "m"] == [(0, 0), (1, 1), (0, 0), (0, 0), (1, 1)]
    assert missing["a", "mr"][3] == (1, 0) and page.content.decode().count("not trained") == 42


def test_one_set_of_weights_is_one_row_and_one_cell_whoever_made_it(client, tools):
    same = {"memo": "m", "stages": [{"stage": "stage2", "key": "weights"}]}
    later, last, first = (make_model(run=make_run(retrieval=name, **same)) for name in ("r", "r", "r"))
    other = make_model(
        run=make_run(retrieval="r", **same | {"stages": [{"stage": "stage2", "key": "others"}]})
    )
    asked(tools[0], prb(), later, 3)
    page = client.get("/evaluation/grid/")
    (section,) = page.context["sections"]
    assert [[model for model, _ in row.models] for row in section.rows] == [[later, last, first], [other]]
    assert section.rows[0].cells[0].value["mean"] == 0.75 and section.rows[0].retrieval == "r"
    of_r = page.context["retrievals"].index("r")
    assert {(f, m): counts for f, m, counts in page.context["cells"]}["a", "m"][of_r] == (2, 1)
    assert page.content.decode().count("the same weights") == 2


def test_grid_shows_every_metric_one_selects_and_links_to_what_it_counts(client, tools):
    of = prb()
    model = make_model(run=make_run(retrieval="r+R"))
    made = asked(tools[0], of, model, 3)
    page = client.get("/evaluation/grid/", {"metric": ["f1", "exact_set", "off_vocabulary", "nonsense"]})
    (row,) = page.context["sections"][0].rows
    assert [cell.value["mean"] for cell in row.cells] == [0.75, 0.75, 0.0]
    assert row.cells[0].href == f"/evaluation/{made.pk}/?#predictions"
    every = client.get("/evaluation/grid/", {"metric": list(page.context["choice"].of.metrics)})
    assert len(every.context["columns"]) == 9


def test_a_model_that_writes_no_list_is_not_said_to_be_unmeasured(client, tools):
    make_model(run=make_run(memo="m", retrieval="none"))
    make_model(run=make_run(memo="m", retrieval="n"))
    asked(tools[0], prb(), make_model(), 1)
    sections = client.get("/evaluation/grid/").context["sections"]
    assert [section.rows[0].cells[0].why for section in sections] == ["writes no list", "writes no trace", ""]


def test_grid_of_probes_stands_beside_guessing(client):
    model = make_model()
    expert(model, 0.5)
    page = client.get("/evaluation/grid/", {"table": "probes"})
    assert page.context["sections"][0].rows[0].cells[0].value["mean"] == 0.5
    assert page.context["guessing"] == [{"mean": 0.25, "n": 9}]


def test_reports_need_the_same_queries_for_two_models_and_for_ten(
    client, tools, django_assert_max_num_queries
):
    of, snapshot = prb(), make_snapshot()
    for number in range(10):
        model = make_model(run=make_run(snapshot=snapshot, seed=number))
        asked(tools[0], of, model, 2)
    for path, most in (("grid", 14), ("samples-a-rule", 12), ("latency", 12)):
        with django_assert_max_num_queries(most):
            assert client.get(f"/evaluation/{path}/").status_code == 200


@pytest.mark.parametrize("path", ["grid", "samples-a-rule", "latency", "compare"])
def test_reports_before_anything_was_trained_say_what_to_do(client, path):
    page = client.get(f"/evaluation/{path}/")
    assert page.status_code == 200 and 'class="empty"' in page.content.decode()


@pytest.mark.parametrize(
    "query", ["table=x&decode=y&group=z", "snapshot=-1", "snapshot=²", "metric=", "benchmark=no"]
)
def test_a_grid_that_an_address_does_not_know_is_the_usual_one(client, tools, query):
    asked(tools[0], prb(), make_model(), 1)
    choice = client.get(f"/evaluation/grid/?{query}").context["choice"]
    assert (choice.kind, choice.decode, choice.group, choice.snapshot) == ("lists", "trace", "", 0)


# Samples per rule.


def test_samples_a_rule_are_drawn_against_recall_and_expert_accuracy(client, tools):
    of, test = prb(), None
    for k, right, accuracy in ((0, 1, 0.6), (3, 2, 0.5), (12, 3, 0.4), (6, 1, 0.3)):
        retrieval = "r+R" if k else "r"
        run = make_run(retrieval=retrieval, snapshot=make_snapshot(per_rule=k or 2, catalog_hash="same"))
        model = make_model(run=run)
        asked(tools[0], of, model, right)
        test = expert(model, accuracy, test)
    context = client.get("/evaluation/samples-a-rule/").context
    points = context["points"]
    assert [(one.k, one.recall.value["mean"], one.accuracy.value["mean"]) for one in points] == [
        (0, 0.25, 0.6),
        (3, 0.5, 0.5),
        (6, 0.25, 0.3),
        (12, 0.75, 0.4),
    ]
    assert [one.best for one in points] == [True, True, False, True]
    recall, cost = context["charts"]
    assert [(x, y) for _, x, y in recall.table] == [(0, 0.25), (3, 0.5), (6, 0.25), (12, 0.75)]
    assert cost.note == "guessing 0.25" and len(cost.curves) == 1


def test_models_of_other_recipes_or_catalogs_are_no_points_of_one_curve(client, tools):
    of = prb()
    for k, recipe in ((0, {"lr": 1}), (6, {"lr": 2})):
        run = make_run(
            retrieval="r+R" if k else "r", recipe=recipe, snapshot=make_snapshot(per_rule=6, catalog_hash="c")
        )
        asked(tools[0], of, make_model(run=run), 2)
    context = client.get("/evaluation/samples-a-rule/").context
    assert context["charts"] == [None, None] and len(context["points"]) == 2


# Latency.


def test_latency_states_engine_decoding_lengths_and_hardware_and_what_was_not_measured(client, tools):
    of, model = prb(), make_model()
    facts = {"cpu": "Some CPU", "cores": 4, "threads": 2, "memory_gb": 8, "gpu": "", "at_once": 32}
    timed = {"seconds": 0.5, "tokens": 10}
    answers = [(tools[0], RIGHT, timed), (tools[0], [*RIGHT, *WRONG], timed)]
    make_evaluation(*answers, model=model, benchmark=of, hardware=facts)
    served = {"backend": "vllm 0.1 at h"}
    make_evaluation(
        (tools[0], RIGHT, timed), model=make_model(), benchmark=of, decode="trace-free", hardware=served
    )
    page = client.get("/evaluation/latency/")
    by = {row["of"].decode: row for row in page.context["rows"]}
    own = by["trace"]
    assert (own["ms"], own["rate"], own["tokens"], own["size"]) == (500.0, 2.0, 10.0, 1.5)
    assert (own["at_once"], by["trace-free"]["at_once"]) == (32, None)
    assert (own["engine"], own["machine"]) == ("own engine", "Some CPU, 2 of 4 cores, 8 GB")
    assert by["trace-free"]["engine"] == "vllm 0.1 at h" and by["trace-free"]["machine"] == "not stored"
    text = page.content.decode()
    assert "measured on 2 machines" in text and "One request alone" in text
    assert page.context["words"] == 2.0  # "query 0"


def test_figures_of_two_backends_beside_each_other_say_so(client, tools):
    of, served = prb(), {"backend": "vllm 0.1 at h"}
    pair = [
        asked(tools[0], of, make_model(run=make_run(memo=memo)), 2, hardware=hardware)
        for memo, hardware in (("m", {}), ("mr", served))
    ]
    a, b = pair
    told = f"by our own engine model {a.model_id}; through vllm 0.1 at h model {b.model_id}."
    for path in ("/evaluation/", "/evaluation/grid/", "/evaluation/samples-a-rule/"):
        assert told in client.get(path).content.decode(), path
    page = client.get("/evaluation/compare/", {"a": a.pk, "b": b.pk}).content.decode()
    assert "<b>two engines</b>: A answered by our own engine, B through vllm 0.1 at h" in page
    page = client.get(
        "/evaluation/compare/", {"a": f"model-{a.model_id}", "b": f"model-{b.model_id}"}
    ).content.decode()
    assert "the candidate answered by our own engine, the champion through vllm 0.1 at h" in page


# One run.


@pytest.fixture
def cited(tools):
    """Four requests of one rule: cited and right, cited and wrong, cited another, cited nothing."""
    rule, other = make_rule(*tools, code="SLIP_YEAR"), make_rule(*tools, code="OTHER")
    told = [(RIGHT, ["SLIP_YEAR"]), (WRONG, ["SLIP_YEAR"]), (RIGHT, ["OTHER"]), (RIGHT, [])]
    made = make_evaluation(
        *((tools[0], given, {"trace": f"By {' '.join(codes)}, so it is."}) for given, codes in told),
        model=make_model(),
    )
    styles = ("explicit", "exception", "explicit", "exception")
    rows = Answer.objects.filter(evaluation=made).select_related("item").order_by("item")
    for row, (_, codes), style in zip(rows, told, styles, strict=True):
        row.item.data |= {"rule": "SLIP_YEAR", "style": style}
        with thawed():
            row.item.save()
        row.scores |= {"cited": codes}
        row.save()
    return made, rule, other


@pytest.mark.parametrize(
    ("filters", "positions"),
    [
        ({"cited": "yes"}, [0, 1, 2]),
        ({"cited": "no"}, [3]),
        ({"cited": "right"}, [0, 1]),
        ({"cited": "wrong"}, [2, 3]),
        ({"cited": "right", "only": "wrong"}, [1]),
        ({"style": "exception"}, [1, 3]),
        ({"tier": "easy"}, [0, 1, 2, 3]),
        ({"tier": "medium"}, []),
        ({"tier": "made up"}, []),
        ({"side": "target"}, []),
    ],
    ids=str,
)
def test_answers_are_found_by_what_they_cite_and_what_their_request_is(client, cited, filters, positions):
    shown = client.get(f"/evaluation/{cited[0].pk}/", filters).context["shown"]
    assert [row.answer.item.position for row in shown] == positions


def test_an_answer_shows_its_trace_and_whether_it_cites_the_rule_that_decides(client, cited):
    made, rule, other = cited
    page = client.get(f"/evaluation/{made.pk}/")
    rows = page.context["shown"]
    assert [row.cites_right for row in rows] == [True, True, False, False]
    assert rows[2].cited == [("OTHER", other.pk)] and rows[2].decides == ("SLIP_YEAR", rule.pk)
    text = page.content.decode()
    assert "read it" in text and "the right one" in text and f"/rules/{rule.pk}/" in text


def test_run_report_shows_citation_with_interval_and_n_and_each_tier_and_style(client, tools):
    from evaluation.core import report

    rows = [
        {"id": "1", "tools": ["A/x"], "domain": "hr", "rule": "R", "style": "explicit"},
        {"id": "2", "tools": ["A/x", "A/y"], "domain": "hr", "rule": "R", "style": "exception"},
    ]
    given = [
        {"id": "1", "tools": ["A/x"], "trace": "By R."},
        {"id": "2", "tools": ["A/x"], "trace": "Plain."},
    ]
    metrics = report.retrieval_report(report.answers(given, rows, "trace", ["R"]))
    made = asked(tools[0], prb(), make_model(), 1)
    Evaluation.objects.filter(pk=made.pk).update(metrics=metrics)
    context = client.get(f"/evaluation/{made.pk}/").context
    facets = {
        (row["over"], row["name"]): dict(row["cells"])["recall@gen"]["mean"] for row in context["facets"]
    }
    assert facets == {
        ("style", "exception"): 0.5,
        ("style", "explicit"): 1.0,
        ("tier", "easy"): 1.0,
        ("tier", "medium"): 0.5,
    }
    whole = [(cell["mean"], cell["n"], address) for cell, address in context["citing"][0]["citations"]]
    assert whole == [
        (0.5, 2, "cited=yes"),
        (0.5, 2, "cited=right"),
        (1.0, 1, "cited=right"),
        (1.0, 1, "cited=yes"),
        (0.5, 1, "cited=no"),
    ]
    assert all("low" in cell for cell, _ in context["citing"][0]["citations"])


# Two runs.


@pytest.fixture
def two(tools, monkeypatch):
    """A is right on the first two requests, B on the second and third; nobody on the fourth."""
    sort_requests(monkeypatch, {0: "covered", 1: "covered", 2: "uncovered", 3: "uncovered"})
    of = prb()
    by = {"a": (RIGHT, RIGHT, WRONG, WRONG), "b": (WRONG, RIGHT, RIGHT, [*WRONG, *RIGHT])}
    return [
        make_evaluation(
            *((tools[0], given, {"trace": f"{side} says so."}) for given in answers),
            model=make_model(),
            benchmark=of,
        )
        for side, answers in by.items()
    ]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, [(0, True, False), (2, False, True)]),
        ({"flip": "a"}, [(0, True, False)]),
        ({"flip": "b"}, [(2, False, True)]),
        ({"by": "recall@gen"}, [(0, True, False), (2, False, True), (3, False, True)]),
        ({"by": "nonsense"}, [(0, True, False), (2, False, True)]),
        ({"group": "covered"}, [(0, True, False)]),
        ({"domain": "finance"}, []),
        ({"q": "query 2"}, [(2, False, True)]),
    ],
    ids=str,
)
def test_every_flip_is_listed_both_ways_and_filtered(client, two, filters, found):
    a, b = two
    page = client.get("/evaluation/compare/", {"a": a.pk, "b": b.pk, **filters})
    flips = page.context.get("flips", [])
    assert [(ours.answer.item.position, ours.right, theirs.right) for ours, theirs in flips] == found


def test_counts_of_flips_lead_to_their_lists_and_lengths_stand_beside(client, two):
    a, b = two
    page = client.get("/evaluation/compare/", {"a": a.pk, "b": b.pk})
    text, row = page.content.decode(), page.context["rows"][0]
    assert (row.won, row.lost) == (1, 2)
    assert f"?a={a.pk}&amp;b={b.pk}&amp;by=recall%40gen&amp;flip=b#flips" in text
    assert (page.context["length_a"], page.context["length_b"]) == (1.0, 1.25)
    assert "a says so." in text and "b says so." in text


def test_a_few_queries_show_neither_to_be_better_whichever_page_compares_them(client, two, tools):
    """Of one query the interval has no width: only a number of queries that differ can tell."""
    a, b = two
    page = client.get("/evaluation/compare/", {"a": a.pk, "b": b.pk, "group": "covered"})
    one = make_evaluation((tools[0], RIGHT), model=make_model())
    other = make_evaluation((tools[0], WRONG), model=make_model(), benchmark=one.benchmark)
    single = client.get("/evaluation/compare/", {"a": one.pk, "b": other.pk})
    for shown, n in ((page, 2), (single, 1)):
        text = shown.content.decode()
        assert shown.context["n"] == n and not re.search(r"Model \d+ is better than", text)
    assert "Nobody can tell" in single.content.decode()
    many = [(tools[0], RIGHT)] * 8
    sure = make_evaluation(*many, model=make_model())
    never = make_evaluation(*[(tools[0], WRONG)] * 8, model=make_model(), benchmark=sure.benchmark)
    told = client.get("/evaluation/compare/", {"a": sure.pk, "b": never.pk}).content.decode()
    assert f"Model {sure.model_id} is better than" in told


def test_any_two_models_are_compared_on_all_they_share(client, two):
    a, b = (one.model for one in two)
    page = client.get("/evaluation/compare/", {"a": f"model-{a.pk}", "b": f"model-{b.pk}"})
    (pair,) = page.context["beside"].pairs
    assert (
        pair.ids == tuple(one.pk for one in two)
        and f"?a={two[0].pk}&amp;b={two[1].pk}" in page.content.decode()
    )
    for other, told in ((f"model-{a.pk}", "are the same"), (two[0].pk, "Choose two models")):
        page = client.get("/evaluation/compare/", {"a": f"model-{a.pk}", "b": other}).content.decode()
        assert told in page


# Rules against no rules.


def run_of(snapshot, retrieval, recipe=None, stage1="s1", **fields):
    stages = [{"stage": "stage1", "key": stage1}, {"stage": "stage2", "key": f"{retrieval}{snapshot.pk}"}]
    recipe = {"lr": 1, "retrieval": retrieval, **(recipe or {})}
    return make_model(
        run=make_run(snapshot=snapshot, retrieval=retrieval, recipe=recipe, stages=stages, **fields)
    )


def holding(*samples, **fields):
    snapshot = make_snapshot(catalog_hash="c", **fields)
    for position, sample in enumerate(samples):
        SnapshotSample.objects.create(
            snapshot=snapshot, sample=sample, position=position, sample_key=sample.key
        )
    return snapshot


def test_a_control_may_come_from_another_snapshot_with_the_same_other_samples(tools):
    plain, other = make_sample(), make_sample()
    ruled = make_sample(rule=make_rule(*tools), tools=list(tools))
    champion = run_of(holding(plain, ruled), "r+R")
    run_of(holding(plain, other), "r")
    same = run_of(holding(plain), "r")
    assert control_of(champion).model == same


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"seed": 1}, "another seed"),
        ({"stage1": "other"}, "another Stage 1"),
        ({"recipe": {"lr": 2}}, "another recipe (lr)"),
        ({"format": "b"}, "another token format"),
    ],
    ids=str,
)
def test_a_run_that_differs_in_more_than_rules_is_no_control_and_says_in_what(client, tools, fields, said):
    snapshot = holding(make_sample())
    champion, near = run_of(snapshot, "r+R"), run_of(snapshot, "r", **fields)
    found = control_of(champion)
    assert (found.model, found.near, found.differs) == (None, near, said)
    asked(tools[0], prb(), champion, 1)
    page = client.get("/evaluation/").content.decode()
    assert "It has no control yet (the nearest" in page and said in page


def test_threads_do_not_make_another_recipe_and_the_newest_control_counts(tools):
    snapshot = holding(make_sample())
    champion = run_of(snapshot, "r+R", {"threads": 1})
    run_of(snapshot, "r")
    newest = run_of(snapshot, "r", {"threads": 8})
    assert control_of(champion).model == newest and control_of(newest).model is None
