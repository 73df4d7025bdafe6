"""Inspection only: benchmarks are frozen, evaluations come from jobs."""

from django.contrib import admin

from catalog.admin import ReadOnly
from evaluation.models import Benchmark, BenchmarkItem, Calibration, Evaluation, Prediction


@admin.register(Benchmark)
class BenchmarkAdmin(ReadOnly):
    list_display = ["name", "version", "kind", "count", "random_baseline", "source", "created_at"]


@admin.register(BenchmarkItem)
class BenchmarkItemAdmin(ReadOnly):
    list_display = ["id", "benchmark", "position", "domain"]
    list_select_related = ["benchmark"]


@admin.register(Evaluation)
class EvaluationAdmin(ReadOnly):
    list_display = ["id", "model", "benchmark", "decode", "created_at"]
    list_select_related = ["model__run", "benchmark"]
    list_filter = ["decode"]


@admin.register(Calibration)
class CalibrationAdmin(ReadOnly):
    list_display = ["id", "model", "decode", "threshold", "n", "n_outside", "created_at"]
    list_select_related = ["model__run"]


@admin.register(Prediction)
class PredictionAdmin(ReadOnly):
    list_display = ["id", "evaluation", "item"]
    list_select_related = ["evaluation", "item__benchmark"]
