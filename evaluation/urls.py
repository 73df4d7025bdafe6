"""Addresses of the evaluation pages."""

from django.urls import path

from evaluation import views as evaluation_views
from evaluation.gate import views as gate_views
from evaluation.loop import views as loop_views
from evaluation.reports import grid, latency, pareto
from evaluation.requests import views as request_views
from evaluation.results import clauses, comparison, rule_tests, strip, views
from evaluation.retrieval import playground
from evaluation.taught import views as taught_views
from evaluation.what_if import views as what_if_views

app_name = "evaluation"
urlpatterns = [
    path("", evaluation_views.results, name="list"),
    path("strip/", strip.strip_live, name="strip"),
    path("<int:pk>/", views.evaluation_detail, name="detail"),
    path("compare/", views.compare, name="compare"),
    path("grid/", grid.grid, name="grid"),
    path("samples-a-rule/", pareto.pareto, name="pareto"),
    path("latency/", latency.latency, name="latency"),
    path("benchmarks/<int:pk>/", views.benchmark_detail, name="benchmark"),
    path("models/<int:pk>/", views.model_results, name="model"),
    path("of-model/<int:pk>/reliability/", views.model_reliability, name="reliability"),
    path("reliability/", views.champion_reliability, name="reliability_of_champion"),
    path("of-model/<int:pk>/beside/", comparison.beside, name="beside"),
    path("gate/<int:pk>/", gate_views.gate_report, name="gate"),
    path("of-model/<int:pk>/gate/start/", gate_views.gate_start, name="gate_start"),
    path("of-tool/<int:tool_id>/", views.tool_benchmark, name="tool_benchmark"),
    path("of-rule/<int:rule_id>/clauses/", clauses.clauses_of_rule, name="clauses_of_rule"),
    path("of-rule/<int:rule_id>/", taught_views.did_rule_help, name="rule_help"),
    path("before-after/", taught_views.before_after, name="before_after"),
    path("rule-tests/", rule_tests.run_rule_tests, name="run_rule_tests"),
    path("rule-tests/counts/", rule_tests.rule_test_counts, name="rule_test_counts"),
    path("of-rule-tests/<int:rule_id>/", rule_tests.of_rule_tests, name="of_rule_tests"),
    path("of-rule-tests/<int:rule_id>/start/", rule_tests.start_rule_tests, name="start_rule_tests"),
    path("loop/", loop_views.loop_list, name="loop"),
    path("loop/settings/", loop_views.loop_settings, name="loop_settings"),
    path("loop/rules/<int:pk>/", loop_views.loop_version, name="loop_version"),
    path("loop/rules/<int:pk>/live/", loop_views.loop_version_live, name="loop_version_live"),
    path("loop/of-rule/<int:rule_id>/", loop_views.loop_of_rule, name="loop_of_rule"),
    path("loop/of-request/<int:request_id>/", loop_views.loop_of_request, name="loop_of_request"),
    path("loop/evaluate/<int:model_id>/", loop_views.loop_evaluate, name="loop_evaluate"),
    path("what-if/", what_if_views.what_if, name="what_if"),
    path("what-if/choice.csv", what_if_views.what_if_csv, name="what_if_csv"),
    path("what-if/assign/", what_if_views.what_if_assign, name="what_if_assign"),
    path("what-if/draft/", what_if_views.what_if_draft, name="what_if_draft"),
    path("playground/", playground.playground_page, name="playground"),
    path("playground/answer/", playground.playground_answer, name="answer"),
    path("playground/answer/stream/", playground.playground_stream, name="answer_stream"),
    path("requests/", request_views.request_list, name="requests"),
    path("requests/policy/", request_views.policy_change, name="requests_policy"),
    path("requests/erase/", request_views.requests_erase, name="requests_erase"),
    path("requests/<int:pk>/", request_views.request_detail, name="request"),
]
