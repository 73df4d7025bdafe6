"""Every address of the site; each app keeps its own list."""

from django.contrib import admin
from django.urls import include, path

from evaluation import views_coverage
from trace_site import views, views_account, views_audit

job_urls = [
    path("", views.job_list, name="list"),
    path("<int:pk>/", views.job_detail, name="detail"),
    path("<int:pk>/card/", views.job_card, name="card"),
    path("<int:pk>/cancel/", views.job_cancel, name="cancel"),
    path("<int:pk>/retry/", views.job_retry, name="retry"),
]

handler404 = "trace_site.views.not_found"
handler500 = "trace_site.views.crashed"

urlpatterns = [
    path("", views_coverage.home, name="home"),
    path("", include("evaluation.urls_coverage")),
    path("login/", views.Login.as_view(), name="login"),
    path("logout/", views.Logout.as_view(), name="logout"),
    path("account/", views_account.account, name="account"),
    path("account/token/", views_account.account_token, name="account-token"),
    path("account/token/revoke/", views_account.account_token_revoke, name="account-token-revoke"),
    path("account/password/", views_account.ChangePassword.as_view(), name="account-password"),
    path("account/sessions/end/", views_account.account_sessions_end, name="account-sessions-end"),
    path("account/sessions/<slug:mark>/end/", views_account.account_session_end, name="account-session-end"),
    path("password/<uidb64>/<token>/", views_account.SetPassword.as_view(), name="password-set"),
    path("people/", include("trace_site.views_people")),
    path("healthz", views.healthz, name="healthz"),
    path("jobs/", include((job_urls, "jobs"))),
    path("audit/", views_audit.audit_list, name="audit"),
    path("audit/audit.csv", views_audit.audit_csv, name="audit-csv"),
    path("audit/events/<int:pk>/", views_audit.audit_event, name="audit-event"),
    path("audit/changes/<int:pk>/", views_audit.audit_change, name="audit-change"),
    path("notices/", include("trace_site.views_notices")),
    path("webhooks/", include("trace_site.views_webhooks")),
    path("catalog/", include("catalog.urls")),
    path("rules/", include("rules.urls")),
    path("synthesis/", include("synthesis.urls")),
    path("training/", include("training.urls")),
    path("evaluation/", include("evaluation.urls")),
    path("api/v1/", include("trace_site.api_site")),
    path("api/v1/", include("catalog.api")),
    path("api/v1/", include("rules.api")),
    path("api/v1/", include("synthesis.api")),
    path("api/v1/", include("training.api")),
    path("api/v1/", include("training.api_models")),
    path("api/v1/", include("evaluation.api")),
    path("admin/", admin.site.urls),
]
