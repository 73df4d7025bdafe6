import numpy as np
import pytest

from evaluation.core import embedding, metrics, report
from trace_site.lib.errors import TraceError

ITEMS = [
    {"id": "1", "tools": ["A/x"], "domain": "hr", "rule": "R_ONE"},
    {"id": "2", "tools": ["A/y", "B/y"], "domain": "hr", "rule": None},
    {"id": "3", "tools": ["B/z"], "domain": "finance", "rule": "R_TWO"},
    {"id": "4", "tools": ["C/z"], "domain": "finance", "rule": "R_TWO"},
]


def prediction(key, tools, trace="", off=0):
    return {"id": key, "tools": tools, "trace": trace, "off_vocabulary": off}


def test_recall_at_k_counts_gold_found_within_k():
    ranked = ["A/x", "B/y", "C/z"]
    assert metrics.recall(ranked, ["B/y", "D/d"], 1) == 0
    assert metrics.recall(ranked, ["B/y", "D/d"], 2) == 0.5
    assert metrics.recall(ranked, ["B/y", "C/z"], 3) == 1


def test_hit_at_k_asks_for_any_gold():
    assert metrics.hit(["A/x", "B/y"], {"B/y", "D/d"}, 1) == 0
    assert metrics.hit(["A/x", "B/y"], {"B/y", "D/d"}, 2) == 1


def test_generated_list_scores_by_hand():
    scores = metrics.query_scores(["A/x", "A/y", "C/z"], ["A/y", "B/y"], ranked=False)
    assert scores == {
        "hit@1": 0,
        "recall@1": 0,
        "hit@gen": 1,
        "recall@gen": 0.5,
        "precision@gen": pytest.approx(1 / 3),
        "f1": pytest.approx(0.4),
        "exact_set": 0,
        "set_size": 3,
    }
    assert set(scores) == set(metrics.LIST_METRICS)


def test_ranked_list_scores_by_hand():
    ranked = [f"T/{n}" for n in range(10)]
    scores = metrics.query_scores(ranked, ["T/0", "T/4", "T/9", "T/x"], ranked=True)
    assert scores == {"hit@1": 1, "recall@1": 0.25, "recall@5": 0.5, "recall@10": 0.75, "hit@10": 1}
    assert set(scores) == set(metrics.RANKED_METRICS)


def test_empty_answer_has_no_precision_and_is_not_the_gold_set():
    scores = metrics.query_scores([], ["A/x"], ranked=False)
    assert (scores["precision@gen"], scores["f1"], scores["exact_set"]) == (0, 0, 0)


def test_exact_set_ignores_order_and_repeats():
    scores = metrics.query_scores(["B/y", "A/y", "A/y"], ["A/y", "B/y"], ranked=False)
    assert scores["exact_set"] == 1


def test_item_without_gold_is_refused():
    with pytest.raises(TraceError, match="no gold tool"):
        metrics.query_scores(["A/x"], [], ranked=False)


def test_off_vocabulary_rate_is_over_all_entries_of_all_lists():
    rows = [
        prediction("1", ["A/x", "B/y"], off=1),
        prediction("2", [], off=0),
        prediction("3", ["A/x"], off=0),
    ]
    assert report.off_vocabulary(rows) == {"off": 1, "entries": 4, "rate": 0.25}


def test_rule_code_is_cited_only_as_a_whole_word():
    codes = ["PAY", "PAY_V2"]
    assert metrics.cited_codes("Rule PAY_V2 says so; see PAY_V2.", codes) == ["PAY_V2"]
    assert metrics.cited_codes("PAYROLL and pay are words", codes) == []


def test_citation_by_hand():
    rows = [
        prediction("1", ["A/x"], "R_ONE applies"),  # cited, right rule, recall 1
        prediction("2", ["A/y"], "R_ONE applies"),  # cited, item has no rule, recall 0.5
        prediction("3", [], "R_ONE applies"),  # cited, wrong rule, recall 0
        prediction("4", ["C/z"], "plain"),  # not cited, recall 1
    ]
    result = report.citation(report.answers(rows, ITEMS, "trace", {"R_ONE", "R_TWO"}))
    assert result["n"] == 4 and result["rate"] == 0.75
    found = {name: (one["mean"], one["n"]) for name, one in result.items() if isinstance(one, dict)}
    assert found == {
        "cited": (0.75, 4),
        "recall_when_cited": (0.5, 3),
        "recall_when_not_cited": (1, 1),
        "correct_rule": (pytest.approx(1 / 3), 3),
        "correct_rule_when_cited": (0.5, 2),
    }
    assert result["cited"]["low"] < 0.75 < result["cited"]["high"] and result["cited"]["draws"] == 1000


def test_citation_of_answers_that_all_cite_says_nothing_of_the_others():
    result = report.citation(report.answers([prediction("1", [], "R_ONE")], ITEMS[:1], "trace", ["R_ONE"]))
    assert result["recall_when_not_cited"] == {"mean": None, "n": 0}


def test_a_language_model_cites_what_it_wrote_unless_a_clause_beside_it_decided():
    row = prediction("1", [], "R_ONE decides.") | {"wrote": "R_TWO says so."}
    told = [
        report.answers([one], ITEMS[:1], "trace", {"R_ONE", "R_TWO"})[0]
        for one in (row, row | {"clause": "x"})
    ]
    assert [one.cited for one in told] == [["R_TWO"], ["R_ONE"]]


def test_following_is_counted_per_slice_of_answers_that_have_a_trace():
    fields = [(True, ["A/x"]), (False, ["B/y"]), (False, []), (None, [])]
    rows = [
        {**prediction(item["id"], item["tools"]), "follows_trace": kept, "trace_tools": ends}
        for item, (kept, ends) in zip(ITEMS, fields, strict=True)
    ]
    summary = report.summarise(report.answers(rows, ITEMS, "trace"), {})
    assert summary["all"]["all"]["following"] == {
        "n": 3,
        "follows": 1,
        "differs": 1,
        "names_no_tool": 1,
        "not_measured": 0,
        "rate": pytest.approx(1 / 3),
    }
    assert summary["finance"]["all"]["following"]["n"] == 1
    assert "following" not in report.summarise(report.answers(rows, ITEMS, "fast"), {})["all"]["all"]


def test_answers_stored_before_following_was_measured_count_as_not_measured():
    rows = [prediction(item["id"], item["tools"]) for item in ITEMS]
    found = report.summarise(report.answers(rows, ITEMS, "trace"), {})["all"]["all"]["following"]
    assert (found["n"], found["not_measured"], found["rate"]) == (0, 4, None)


def test_summary_is_nested_by_domain_and_group_and_always_shows_n():
    rows = [prediction(item["id"], [item["tools"][0]]) for item in ITEMS]
    groups = {"1": "covered", "3": "uncovered", "4": "uncovered"}
    summary = report.summarise(report.answers(rows, ITEMS, "trace", ["R_ONE"]), groups)
    assert set(summary) == {"all", "hr", "finance"}
    assert {group: part["n"] for group, part in summary["all"].items()} == {
        "all": 4,
        "covered": 1,
        "uncovered": 2,
    }
    assert set(summary["hr"]) == {"all", "covered"}
    recall = summary["hr"]["all"]["metrics"]["recall@gen"]
    assert (recall["mean"], recall["n"], recall["draws"]) == (0.75, 2, 1000)
    assert summary["finance"]["all"]["citation"]["n"] == 2


def test_ranked_summary_has_no_metric_of_generated_lists():
    rows = [prediction(item["id"], item["tools"]) for item in ITEMS]
    part = report.summarise(report.answers(rows, ITEMS, "fast"), {})["all"]["all"]
    assert tuple(part["metrics"]) == metrics.RANKED_METRICS and "citation" not in part


def test_missing_prediction_is_an_error_not_a_zero():
    with pytest.raises(TraceError, match="3 of 4 queries have no prediction"):
        report.summarise(report.answers([prediction("1", ["A/x"])], ITEMS, "fast"), {})


def test_means_of_a_run_by_hand():
    ranked = [["A/x"], ["B/y", "A/q"], ["A/q", "A/r", "A/s", "A/t", "A/u", "B/z"], ["A/q"]]
    given = [prediction(item["id"], tools) for item, tools in zip(ITEMS, ranked, strict=True)]
    found = report.summarise(report.answers(given, ITEMS, "fast"), {})["all"]["all"]["metrics"]
    means = {name: one["mean"] for name, one in found.items()}
    # one gold tool first; one of two first; the gold tool sixth; none
    assert means == {"hit@1": 0.5, "recall@1": 0.375, "recall@5": 0.375, "recall@10": 0.625, "hit@10": 0.75}
    written = report.summarise(report.answers(given, ITEMS, "trace"), {})["all"]["all"]["metrics"]
    means = {name: pytest.approx(one["mean"]) for name, one in written.items()}
    precision, f1 = (1 + 1 / 2 + 1 / 6) / 4, (1 + 1 / 2 + 2 / 7) / 4
    assert means == {
        "recall@gen": 0.625,
        "hit@1": 0.5,
        "recall@1": 0.375,
        "precision@gen": precision,
        "f1": f1,
        "exact_set": 0.25,
        "hit@gen": 0.75,
        "set_size": 2.5,
    }


def test_requests_are_also_counted_by_tier_and_style():
    items = [{**ITEMS[0], "style": "explicit"}, ITEMS[1], {**ITEMS[2], "tier": "hard"}, ITEMS[3]]
    given = [prediction(item["id"], item["tools"][:1]) for item in items]
    found = report.facets(report.answers(given, items, "trace"))
    counts = {facet: {value: one["n"] for value, one in values.items()} for facet, values in found.items()}
    assert counts == {"tier": {"easy": 2, "hard": 1, "medium": 1}, "style": {"explicit": 1}}
    assert found["tier"]["medium"]["metrics"]["recall@gen"]["mean"] == 0.5


def test_nothing_is_like_a_query_in_an_empty_catalog():
    rows = np.ones((2, 3), dtype=np.float32)
    assert embedding.ranked(rows, rows[:0], [], 5) == [[], []]
    assert embedding.ranked(rows, rows[:1], ["A/x"], 5) == [[("A/x", 3.0)]] * 2
