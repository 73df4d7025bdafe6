from django.urls import path

from training import urls_grids, urls_models, views, views_compare, views_launch, views_queue

app_name = "training"
urlpatterns = [
    path("", views.run_list, name="list"),
    path("new/", views_launch.run_create, name="create"),
    path("new/estimate/", views_launch.run_estimate, name="estimate"),
    path("new/recipe.yaml", views_launch.recipe_download, name="recipe_download"),
    path("recipe/", views_launch.recipe_fields, name="recipe"),
    path("compare/", views_compare.run_compare, name="compare"),
    path("queue/", views_queue.queue_page, name="queue"),
    path("queue/live/", views_queue.queue_live, name="queue_live"),
    path("<int:pk>/", views.run_detail, name="detail"),
    path("<int:pk>/live/", views.run_live, name="live"),
    path("<int:pk>/curves/", views.run_curves, name="curves"),
    path("<int:pk>/log/", views.run_log, name="log"),
    path("<int:pk>/recipe.yaml", views.run_yaml, name="yaml"),
    path("<int:pk>/cancel/", views.run_cancel, name="cancel"),
    path("<int:pk>/resume/", views.run_resume, name="resume"),
    path("of-snapshot/<int:snapshot_id>/", views.runs_of_snapshot, name="of_snapshot"),
    *urls_grids.urlpatterns,
    *urls_models.urlpatterns,
]
