from django.urls import path

from training.grids import views as grids_views
from training.registry import views as registry_views
from training.retraining import views as retraining_views
from training.runs import imports as runs_imports
from training.runs import views as runs_views

app_name = "training"
urlpatterns = [
    path("", runs_views.run_list, name="list"),
    path("new/", runs_views.run_create, name="create"),
    path("new/estimate/", runs_views.run_estimate, name="estimate"),
    path("new/recipe.yaml", runs_views.recipe_download, name="recipe_download"),
    path("recipe/", runs_views.recipe_fields, name="recipe"),
    path("compare/", runs_views.run_compare, name="compare"),
    path("queue/", runs_views.queue_page, name="queue"),
    path("queue/live/", runs_views.queue_page, {"template": "training/_queue.html"}, name="queue_live"),
    path("<int:pk>/", runs_views.run_detail, name="detail"),
    path("<int:pk>/live/", runs_views.run_live, name="live"),
    path("<int:pk>/curves/", runs_views.run_curves, name="curves"),
    path("<int:pk>/log/", runs_views.run_log, name="log"),
    path("<int:pk>/recipe.yaml", runs_views.run_yaml, name="yaml"),
    path("<int:pk>/cancel/", runs_views.run_steer, {"verb": "cancel"}, name="cancel"),
    path("<int:pk>/resume/", runs_views.run_steer, {"verb": "resume"}, name="resume"),
    path("of-snapshot/<int:snapshot_id>/", runs_views.runs_of_snapshot, name="of_snapshot"),
    path("grids/", grids_views.grid_list, name="grids"),
    path("grids/new/", grids_views.grid_create, name="grid_create"),
    path("grids/new/preview/", grids_views.grid_preview, name="grid_preview"),
    path("grids/<int:pk>/", grids_views.grid_page, name="grid"),
    path("grids/<int:pk>/live/", grids_views.grid_page, {"live": True}, name="grid_live"),
    path("grids/<int:pk>/cancel/", grids_views.grid_steer, {"verb": "cancel"}, name="grid_cancel"),
    path("grids/<int:pk>/resume/", grids_views.grid_steer, {"verb": "resume"}, name="grid_resume"),
    path("elsewhere/", runs_imports.import_list, name="imports"),
    path("elsewhere/adopt/", runs_imports.import_adopt, name="import_adopt"),
    path("models/", registry_views.model_list, name="models"),
    path("models/retention/", registry_views.model_retention, name="retention"),
    path("models/<int:pk>/", registry_views.model_detail, name="model"),
    path("models/<int:pk>/newer/", registry_views.model_newer, name="newer"),
    path("models/<int:pk>/promote/", registry_views.model_promote, name="promote"),
    path("models/<int:pk>/rollback/", registry_views.model_rollback, name="rollback"),
    path("models/<int:pk>/challenger/", registry_views.model_challenger, name="challenger"),
    path("models/<int:pk>/keep/", registry_views.model_keep, name="keep"),
    path("retraining/", retraining_views.policy_list, name="policies"),
    path("retraining/new/", retraining_views.policy_edit, name="policy_create"),
    path("retraining/<int:pk>/", retraining_views.policy_edit, name="policy_edit"),
    path("retraining/<int:pk>/preview/", retraining_views.policy_preview, name="policy_preview"),
    path("retraining/<int:pk>/samples/", retraining_views.policy_samples, name="policy_samples"),
    path("retraining/<int:pk>/switch/", retraining_views.policy_switch, name="policy_switch"),
    path("retraining/<int:pk>/start/", retraining_views.policy_start, name="policy_start"),
]
