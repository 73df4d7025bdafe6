"""Addresses of models and of retraining."""

from django.urls import path

from training import views_models, views_policies

urlpatterns = [
    path("models/", views_models.model_list, name="models"),
    path("models/retention/", views_models.model_retention, name="retention"),
    path("models/<int:pk>/", views_models.model_detail, name="model"),
    path("models/<int:pk>/newer/", views_models.model_newer, name="newer"),
    path("models/<int:pk>/promote/", views_models.model_promote, name="promote"),
    path("models/<int:pk>/rollback/", views_models.model_rollback, name="rollback"),
    path("models/<int:pk>/challenger/", views_models.model_challenger, name="challenger"),
    path("models/<int:pk>/keep/", views_models.model_keep, name="keep"),
    path("retraining/", views_policies.policy_list, name="policies"),
    path("retraining/new/", views_policies.policy_edit, name="policy_create"),
    path("retraining/<int:pk>/", views_policies.policy_edit, name="policy_edit"),
    path("retraining/<int:pk>/preview/", views_policies.policy_preview, name="policy_preview"),
    path("retraining/<int:pk>/samples/", views_policies.policy_samples, name="policy_samples"),
    path("retraining/<int:pk>/switch/", views_policies.policy_switch, name="policy_switch"),
    path("retraining/<int:pk>/start/", views_policies.policy_start, name="policy_start"),
]
