"""Inspection only: benchmarks are frozen, evaluations and answers come from jobs."""

from django.contrib import admin

from catalog.admin import ReadOnly
from evaluation.models import Answer, Benchmark, Calibration, Evaluation, GateReport, LabelledRequest

benchmarks = ["name", "version", "kind", "count", "random_baseline", "source", "created_at"]
admin.site.register(Benchmark, ReadOnly, list_display=benchmarks)
requests = {
    "list_display": ["id", "origin", "benchmark", "version", "sample", "request", "position", "domain"],
    "list_select_related": ["benchmark", "version__rule", "sample", "request"],
    "list_filter": ["origin"],
}
admin.site.register(LabelledRequest, ReadOnly, **requests)
evaluations = {
    "list_display": ["id", "model", "benchmark", "decode", "created_at"],
    "list_select_related": ["model__run", "benchmark"],
    "list_filter": ["decode"],
}
admin.site.register(Evaluation, ReadOnly, **evaluations)
calibrations = ["id", "model", "decode", "threshold", "n", "n_outside", "created_at"]
admin.site.register(Calibration, ReadOnly, list_display=calibrations, list_select_related=["model__run"])
gates = ["id", "candidate", "champion", "verdict", "created_at"]
models = ["candidate__run", "champion__run"]
admin.site.register(GateReport, ReadOnly, list_display=gates, list_select_related=models)
answers = ["id", "evaluation", "model", "item", "created_at"]
related = ["evaluation", "model__run", "item"]
admin.site.register(Answer, ReadOnly, list_display=answers, list_select_related=related)
