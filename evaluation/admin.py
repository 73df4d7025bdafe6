"""Inspection only: benchmarks are frozen, evaluations come from jobs."""

from django.contrib import admin

from catalog.admin import ReadOnly
from evaluation.models import Benchmark, BenchmarkItem, Calibration, Evaluation, GateReport, Prediction

benchmarks = ["name", "version", "kind", "count", "random_baseline", "source", "created_at"]
admin.site.register(Benchmark, ReadOnly, list_display=benchmarks)
items = ["id", "benchmark", "position", "domain"]
admin.site.register(BenchmarkItem, ReadOnly, list_display=items, list_select_related=["benchmark"])
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
related = ["evaluation", "item__benchmark"]
admin.site.register(
    Prediction, ReadOnly, list_display=["id", "evaluation", "item"], list_select_related=related
)
