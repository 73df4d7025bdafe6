from django.urls import path

from training import views

app_name = "training"
urlpatterns = [
    path("", views.run_list, name="list"),
    path("new/", views.run_create, name="create"),
    path("recipe/", views.recipe_fields, name="recipe"),
    path("<int:pk>/", views.run_detail, name="detail"),
    path("<int:pk>/live/", views.run_live, name="live"),
    path("<int:pk>/cancel/", views.run_cancel, name="cancel"),
    path("<int:pk>/resume/", views.run_resume, name="resume"),
    path("of-snapshot/<int:snapshot_id>/", views.runs_of_snapshot, name="of_snapshot"),
    path("models/", views.model_list, name="models"),
    path("models/<int:pk>/", views.model_detail, name="model"),
    path("models/<int:pk>/promote/", views.model_promote, name="promote"),
]
