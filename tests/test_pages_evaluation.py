"""Result pages: the matrix, the figure, answers and paired comparisons."""

import pytest

from evaluation.core.metrics import METRICS
from evaluation.management.commands.evaluate import evaluation_lines
from evaluation.models import Benchmark, Evaluation
from evaluation.results import scoring, views
from tests.factories import make_evaluation, make_model, make_run, make_tool, sort_requests, thawed
from trace_site import jobs
from training.models import AliasMove

pytestmark = pytest.mark.django_db
SIDES = {0: "covered", 1: "covered", 2: "uncovered"}


@pytest.fixture
def tools(monkeypatch):
    sort_requests(monkeypatch, SIDES)
    return [make_tool("New/GetSlip"), make_tool("Old/GetSlip"), make_tool("Leave/GetBalance")]


@pytest.fixture
def results(tools):
    """r+R finds two of three, r one of three, on the same benchmark."""
    new, old, leave = tools
    with_rules = make_evaluation(
        (new, ["New/GetSlip"]),
        (old, ["Old/GetSlip"]),
        (leave, ["New/GetSlip"]),
        model=make_model(run=make_run(retrieval="r+R")),
    )
    without = make_evaluation(
        (new, ["New/GetSlip"]),
        (old, ["New/GetSlip"]),
        (leave, []),
        model=make_model(run=make_run(retrieval="r")),
        benchmark=with_rules.benchmark,
    )
    return with_rules, without


def test_a_model_has_a_row_per_evaluation_and_group(results):
    recall = {
        (of.pk, row["name"]): row["cells"][0]["mean"]
        for one in results
        for of, found in views.model_matrix(one.model)
        for row in found
    }
    with_rules, without = (one.pk for one in results)
    assert recall[with_rules, "covered"] == 1.0 and recall[without, "covered"] == 0.5
    assert recall[with_rules, "all"] == pytest.approx(2 / 3)
    assert recall[with_rules, "uncovered"] == recall[without, "uncovered"] == 0.0


def test_the_list_has_one_row_a_model_whose_name_leads_to_the_details(client_as, results, tools):
    of = results[0]
    make_evaluation((tools[0], ["New/GetSlip"]), model=of.model, benchmark=of.benchmark, decode="fast")
    make_evaluation((tools[0], ["New/GetSlip"]), benchmark=of.benchmark, decode="embedding")
    page = client_as("product_manager").get("/evaluation/")
    rows = page.context["rows"]
    assert [model for model, *_ in rows] == [results[1].model, of.model, None]
    titles = [title for title, _ in page.context["columns"]]
    shown = {title: one.value.get("mean") for title, one in zip(titles, rows[1][2], strict=False)}
    assert (shown["hit@1"], shown["R@gen"]) == (1.0, pytest.approx(2 / 3))
    assert {title: one.why for title, one in zip(titles, rows[2][2], strict=False)}["R@gen"] == "–"
    text = page.content.decode()
    assert text.count(f'href="/evaluation/models/{of.model_id}/"') == 1
    assert 'class="of">covered' not in text


def without(metric, part):
    """Stored figures or scores, as they were before the metric was added."""
    if not isinstance(part, dict):
        return part
    return {name: without(metric, value) for name, value in part.items() if name != metric}


@pytest.mark.parametrize(
    ("decode", "table", "newer"), [("fast", "ranked", "recall@5"), ("trace", "lists", "precision@gen")]
)
def test_what_was_stored_before_a_metric_was_added_shows_a_dash_for_it(
    client_as, tools, decode, table, newer
):
    new = make_evaluation((tools[0], ["New/GetSlip"]), model=make_model(), decode=decode)
    old = make_evaluation(
        (tools[0], ["New/GetSlip"]), model=make_model(), decode=decode, benchmark=new.benchmark
    )
    old.metrics = without(newer, old.metrics)
    (row,) = old.answers.all()
    row.scores = without(newer, row.scores)
    with thawed():
        old.save()
        row.save()
    client = client_as("product_manager")

    def cells(address, **query):
        page = client.get(address, query)
        assert page.status_code == 200 and METRICS[newer].title in page.content.decode()
        return page.context

    context = cells(f"/evaluation/{old.pk}/")
    assert [dict(row["cells"])[newer] for row in context["slices"]] == [{}] * len(context["slices"])
    assert [dict(row["cells"])[newer] for row in context["facets"]] == [{}]
    for of, mean in ((old, None), (new, 1.0)):
        context = cells(f"/evaluation/models/{of.model_id}/")
        at = [title for title, _ in context["columns"]].index(METRICS[newer].title)
        assert [row["cells"][at].get("mean") for _, rows in context["rows"] for row in rows] == [mean] * 2
    context = cells("/evaluation/")
    at = [title for title, _ in context["columns"]].index(METRICS[newer].title)
    assert [row[2][at].value.get("mean") for row in context["rows"]] == [None, 1.0]
    for group in ("", "covered"):
        (section,) = cells("/evaluation/grid/", table=table, metric=newer, group=group)["sections"]
        told = [(one.value.get("mean"), one.why) for row in section.rows for one in row.cells]
        assert told == [(1.0, ""), (None, "not measured")]
    rows = client.get("/evaluation/compare/", {"a": new.pk, "b": old.pk}).context["rows"]
    assert rows and newer not in [row.metric for row in rows]
    assert newer not in " ".join(evaluation_lines(old)) and newer in " ".join(evaluation_lines(new))


def test_scores_of_the_pocket_base_say_what_they_are_not(client_as, results):
    page = client_as("product_manager").get("/evaluation/").content.decode()
    assert "not comparable with published results" in page


def test_development_halves_are_named_and_their_figures_shown_nowhere(client_as, tools):
    half = Benchmark.objects.create(
        name="prb-dev", kind="prb", tier="hard", is_development=True, hash="d", count=1
    )
    model = make_model(run=make_run(retrieval="r+R"))
    shown = make_evaluation((tools[0], []), model=model)
    hidden = make_evaluation((tools[0], ["New/GetSlip"]), model=model, benchmark=half)
    AliasMove.objects.create(alias="champion", model=model)
    client = client_as("product_manager")
    page = client.get("/evaluation/", {"benchmark": "prb-dev"}).content.decode()
    assert "development half" in page and "Thresholds are chosen on the development halves" in page
    pages = ["/", f"/evaluation/models/{model.pk}/", f"/evaluation/of-model/{model.pk}/beside/"]
    pages += ["/evaluation/before-after/", "/evaluation/compare/", f"/evaluation/{shown.pk}/"]
    for text in (page, *(client.get(path).content.decode() for path in pages)):
        assert f"/evaluation/{hidden.pk}/" not in text and f'value="{hidden.pk}"' not in text
    assert client.get(f"/evaluation/{hidden.pk}/").status_code == 404
    compared = client.get("/evaluation/compare/", {"a": shown.pk, "b": hidden.pk})
    assert compared.context["b"] is None
    assert scoring.of_models([model.pk])[model.pk].value == 0.0


def test_one_number_of_a_model_is_of_the_hard_tier_and_says_so(tools):
    model = make_model()
    for number, (tier, given) in enumerate([("hard", []), ("plain", ["New/GetSlip"])]):
        of = Benchmark.objects.create(name=tier, kind="prb", tier=tier, hash=f"t{number}", count=1)
        make_evaluation((tools[0], given), model=model, benchmark=of)
    score = scoring.of_models([model.pk])[model.pk]
    assert (score.value, score.label) == (0.0, "hit@1, trace, hard v1, hard tier")


def test_results_page_needs_the_same_queries_for_two_models_and_for_ten(
    client_as, results, tools, django_assert_max_num_queries
):
    for _ in range(8):
        make_evaluation((tools[0], []), model=make_model(), benchmark=results[0].benchmark)
    client = client_as("reviewer")
    client.get("/evaluation/")  # what a process keeps of the newest model beside the embedding
    with django_assert_max_num_queries(23):
        client.get("/evaluation/")


def test_empty_results_say_what_to_do(client_as):
    assert b"Nothing is evaluated yet" in client_as("reviewer").get("/evaluation/").content


def test_probes_stand_beside_guessing(client_as):
    probe = Benchmark.objects.create(name="mcq", kind="mcq", hash="h", count=4, random_baseline=0.25)
    interval = {"mean": 0.5, "low": 0.0, "high": 1.0, "n": 4}
    metrics = {"slices": {"all": {"n": 4, "accuracy": interval, "random": 0.25}}}
    base = make_model(run=make_run(memo="none", retrieval="none"))
    Evaluation.objects.create(key="k", model=base, benchmark=probe, decode="letters", metrics=metrics)
    page = client_as("reviewer").get("/evaluation/").content.decode()
    assert "untrained base pocket" in page and "guessing" in page and "0.25" in page


def test_guessing_is_of_the_questions_that_the_numbers_beside_it_count(client_as):
    """Of a probe whose questions have different numbers of options, half of which an earlier evaluation left out."""
    probe = Benchmark.objects.create(name="mcq", kind="mcq", hash="h", count=8, random_baseline=0.4)
    interval = {"mean": 0.5, "low": 0.0, "high": 1.0}
    slices = {
        domain: {"n": n, "accuracy": {**interval, "n": n}, "random": chance}
        for domain, n, chance in (("all", 4, 0.375), ("hr", 2, 0.25), ("tax", 2, 0.5))
    }
    Evaluation.objects.create(
        key="k", model=make_model(), benchmark=probe, decode="letters", metrics={"slices": slices}
    )
    client = client_as("reviewer")
    chance = {
        domain: [(one["mean"], one["n"]) for one in client.get(address).context["guessing"]]
        for domain, address in (
            ("all", "/evaluation/"),
            ("tax", "/evaluation/?domain=tax"),
            ("grid", "/evaluation/grid/?table=probes"),
        )
    }
    assert chance == {"all": [(0.375, 4)], "tax": [(0.5, 2)], "grid": [(0.375, 4), (0.25, 2), (0.5, 2)]}


def test_results_show_what_is_being_measured(client_as):
    job = jobs.enqueue("evaluation", {}, title="evaluate model 7", wake=False)
    of = Benchmark.objects.create(name="prb", kind="prb", hash="h", count=4)
    Evaluation.objects.create(key="k", model=make_model(), benchmark=of, decode="fast", job=job)
    assert "valuate model 7" in client_as("reviewer").get("/evaluation/").content.decode()


def test_answers_are_filtered_and_lead_to_the_playground(client_as, results):
    url = f"/evaluation/{results[1].pk}/"
    client = client_as("expert")
    wrong = client.get(url, {"only": "wrong"})
    assert [row.right for row in wrong.context["shown"]] == [False, False]
    assert f"/evaluation/playground/?q=query%201&amp;model={results[1].model_id}" in wrong.content.decode()
    right = client.get(url, {"only": "right"}).context["shown"]
    assert [row.given for row in right] == [[("New/GetSlip", True)]]


def test_long_lists_are_folded_and_say_where_the_right_tool_stands(client_as, tools):
    ranked = make_evaluation((tools[0], [f"Far/Tool{n}" for n in range(6)] + ["New/GetSlip"]), decode="fast")
    page = client_as("expert").get(f"/evaluation/{ranked.pk}/").content.decode()
    assert "<summary>4 more; right at place 7</summary>" in page


@pytest.fixture
def traced(tools):
    """Four answers: two follow their trace, one does not, one has a trace that names no tool."""
    new, old, _ = tools

    def said(kept, *ends):
        return {"follows_trace": kept, "trace_tools": list(ends), "trace": "So it is."}

    return make_evaluation(
        (new, ["New/GetSlip"], said(True, "New/GetSlip")),
        (old, ["New/GetSlip"], said(True, "New/GetSlip")),
        (old, ["New/GetSlip"], said(False, "Old/GetSlip")),
        (new, ["New/GetSlip"], said(False)),
        model=make_model(),
    )


def test_answers_that_follow_their_trace_are_counted_and_lead_to_the_others(client_as, traced):
    client, url = client_as("expert"), f"/evaluation/{traced.pk}/"
    whole = client.get(f"/evaluation/models/{traced.model_id}/")
    for page, address in ((client.get(url), ""), (whole, url)):
        text = page.content.decode()
        assert f'<a href="{address}?trace=follows#predictions">2 of 4</a>' in text
        assert f'<a href="{address}?group=covered&amp;trace=follows#predictions">2 of 2</a>' in text
    for trace, count in (("follows", 2), ("differs", 1), ("silent", 1)):
        linked = f'<a class="num" href="?trace={trace}#predictions"><b>{count}</b> <span class="of">of 4</span></a>'
        assert linked in client.get(url).content.decode()
    for trace, positions in (("follows", [0, 1]), ("differs", [2]), ("silent", [3]), ("other", [0, 1, 2, 3])):
        shown = client.get(url, {"trace": trace}).context["shown"]
        assert [row.answer.item.position for row in shown] == positions
    page = client.get(url, {"trace": "differs"}).content.decode()
    assert "ends with" in page and "/catalog/tools/named/Old/GetSlip" in page


def test_answers_stored_before_traces_were_compared_read_as_not_measured(client_as, results):
    Evaluation.objects.update(metrics=without_following(results[0].metrics))
    client, url = client_as("expert"), f"/evaluation/{results[0].pk}/"
    for page in (client.get(url), client.get(f"/evaluation/models/{results[0].model_id}/")):
        assert "not measured" in page.content.decode()
    assert [row.trace for row in client.get(url).context["shown"]] == ["", "", ""]
    assert [row.answer for row in client.get(url, {"trace": "silent"}).context["shown"]] == []


def without_following(metrics):
    for groups in metrics["slices"].values():
        for numbers in groups.values():
            del numbers["following"]
    return metrics


def test_a_model_that_writes_no_trace_is_not_said_to_be_unmeasured(client_as, tools):
    client, none = client_as("expert"), {"follows_trace": None, "trace_tools": []}
    answer = (tools[0], ["New/GetSlip"], none)
    plain, ranked = (
        make_evaluation(answer, model=make_model(), decode=how) for how in ("trace-free", "fast")
    )
    page = client.get(f"/evaluation/{plain.pk}/").content.decode().partition("<main")[2]
    assert "no trace" in page and "not measured" not in page
    assert "its trace" not in client.get(f"/evaluation/{ranked.pk}/").content.decode()


def test_answers_are_filtered_by_group(client_as, results):
    shown = client_as("expert").get(f"/evaluation/{results[0].pk}/", {"group": "covered"}).context["shown"]
    assert [row.answer.item.position for row in shown] == [0, 1]


def test_comparison_is_paired_over_the_same_queries(client_as, results):
    page = client_as("expert").get("/evaluation/compare/", {"a": results[0].pk, "b": results[1].pk})
    recall = {row.metric: row for row in page.context["rows"]}["recall@gen"]
    assert recall.difference == pytest.approx(1 / 3)
    assert (recall.won, recall.lost, page.context["n"]) == (1, 0, 3)


def test_comparison_of_two_benchmarks_is_refused_with_the_reason(client_as, results, tools):
    other = make_evaluation((tools[0], []), model=make_model())
    page = client_as("expert").get("/evaluation/compare/", {"a": results[0].pk, "b": other.pk})
    assert b"needs the same queries" in page.content and "rows" not in page.context


def test_benchmark_page_shows_queries_with_their_gold_tools(client_as, results):
    page = client_as("expert").get(f"/evaluation/benchmarks/{results[0].benchmark_id}/").content.decode()
    assert "query 0" in page and "catalog/tools/named/New/GetSlip" in page


def test_tool_fragment_lists_the_queries_that_ask_for_it(client_as, results, tools):
    page = client_as("expert").get(f"/evaluation/of-tool/{tools[1].pk}/")
    assert [item.position for item, _ in page.context["rows"]] == [1]
