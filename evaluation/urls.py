"""Addresses of the evaluation pages."""

from django.urls import path

from evaluation import views, views_reliability, views_taught, views_tests, views_versus

app_name = "evaluation"
urlpatterns = [
    path("", views.results, name="list"),
    path("<int:pk>/", views.evaluation_detail, name="detail"),
    path("compare/", views.compare, name="compare"),
    path("benchmarks/<int:pk>/", views.benchmark_detail, name="benchmark"),
    path("of-model/<int:pk>/", views.model_scores, name="model_scores"),
    path("of-model/<int:pk>/reliability/", views_reliability.reliability, name="reliability"),
    path("reliability/", views_reliability.reliability_of_champion, name="reliability_of_champion"),
    path("of-model/<int:pk>/beside/", views_versus.beside, name="beside"),
    path("of-run/<int:run_id>/beside/", views_versus.beside_of_run, name="beside_of_run"),
    path("of-tool/<int:tool_id>/", views.tool_benchmark, name="tool_benchmark"),
    path("of-rule/<int:rule_id>/", views_taught.did_rule_help, name="rule_help"),
    path("before-after/", views_taught.before_after, name="before_after"),
    path("rule-tests/", views_tests.run_rule_tests, name="run_rule_tests"),
    path("rule-tests/counts/", views_tests.rule_test_counts, name="rule_test_counts"),
    path("of-rule-tests/<int:rule_id>/", views_tests.of_rule_tests, name="of_rule_tests"),
    path("of-rule-tests/<int:rule_id>/start/", views_tests.start_rule_tests, name="start_rule_tests"),
    path("playground/", views.playground_page, name="playground"),
    path("playground/answer/", views.playground_answer, name="answer"),
]
