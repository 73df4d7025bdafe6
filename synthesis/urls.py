"""Addresses of the synthesis, review and snapshot pages."""

from django.urls import path

from synthesis import (
    views,
    views_impact,
    views_launch,
    views_preview,
    views_review,
    views_samples,
    views_snapshots,
    views_yield,
)

app_name = "synthesis"
urlpatterns = [
    path("", views.run_list, name="list"),
    path("new/", views_launch.run_create, name="create"),
    path("estimate/", views_launch.run_estimate, name="estimate"),
    path("new/rules/", views_launch.run_rules, name="launch_rules"),
    path("preview/", views_preview.editor_preview, name="editor_preview"),
    path("<int:pk>/", views.run_detail, name="detail"),
    path("<int:pk>/live/", views.run_live, name="live"),
    path("<int:pk>/books/", views.run_books, name="books"),
    path("<int:pk>/groups/", views.run_groups, name="groups"),
    path("<int:pk>/cancel/", views.run_cancel, name="cancel"),
    path("<int:pk>/resume/", views.run_resume, name="resume"),
    path("yield/", views_yield.yields, name="yield"),
    path("yield/yield.csv", views_yield.yields_csv, name="yield_csv"),
    path("samples/", views_samples.sample_list, name="samples"),
    path("samples/rules/", views_samples.sample_rules, name="sample_rules"),
    path("samples/<int:pk>/", views_samples.sample_detail, name="sample"),
    path("samples/of-rule/<int:rule_id>/", views.rule_samples, name="rule_samples"),
    path("samples/counts/", views_impact.rule_counts, name="rule_counts"),
    path("samples/impact/<int:rule_id>/", views_impact.rule_impact, name="rule_impact"),
    path("samples/of-tool/<int:tool_id>/", views.tool_samples, name="tool_samples"),
    path("review/", views_review.queue, name="review"),
    path("review/count/", views_review.count, name="review_count"),
    path("review/undo/", views_review.undo, name="undo"),
    path("review/<int:pk>/", views_review.item, name="review_item"),
    path("review/<int:pk>/approve/", views_review.approve, name="approve"),
    path("review/<int:pk>/reject/", views_review.reject, name="reject"),
    path("review/<int:pk>/edit/", views_review.edit, name="edit"),
    path("review/<int:pk>/check/", views_review.check, name="check"),
    path("snapshots/", views_snapshots.snapshot_list, name="snapshots"),
    path("snapshots/new/", views_snapshots.snapshot_create, name="snapshot_create"),
    path("snapshots/preview/", views_snapshots.snapshot_preview, name="snapshot_preview"),
    path("snapshots/<int:pk>/", views_snapshots.snapshot_detail, name="snapshot"),
    path("snapshots/<int:pk>/samples.jsonl", views_snapshots.snapshot_download, name="snapshot_download"),
]
