"""Addresses of the evaluation pages."""

from django.urls import path

from evaluation import views

app_name = "evaluation"
urlpatterns = [
    path("", views.results, name="list"),
    path("<int:pk>/", views.evaluation_detail, name="detail"),
    path("compare/", views.compare, name="compare"),
    path("benchmarks/<int:pk>/", views.benchmark_detail, name="benchmark"),
    path("of-model/<int:pk>/", views.model_scores, name="model_scores"),
    path("of-tool/<int:tool_id>/", views.tool_benchmark, name="tool_benchmark"),
    path("of-rule/<int:rule_id>/", views.rule_citation, name="rule_citation"),
    path("playground/", views.playground_page, name="playground"),
    path("playground/answer/", views.playground_answer, name="answer"),
]
