"""Every address of the site; each app keeps its own list."""

from django.urls import include, path

from trace_site import views
from trace_site.audit import views as audit_views
from trace_site.people import views as people_views

job_urls = [
    path("", views.job_list, name="list"),
    path("<int:pk>/", views.job_detail, name="detail"),
    path("<int:pk>/card/", views.job_card, name="card"),
    path("<int:pk>/cancel/", views.job_steer, {"verb": "cancel"}, name="cancel"),
    path("<int:pk>/retry/", views.job_steer, {"verb": "retry"}, name="retry"),
]

API = [
    "evaluation.retrieval.api",  # first: a request for tools shall not look through all the others
    "evaluation.requests.api",
    "trace_site.rest.api",
    "trace_site.webhooks.api",
    "catalog.api",
    "catalog.imports.api",
    "catalog.queries.api",
    "rules.api",
    "rules.changes.api",
    "rules.suggestions.api",
    "rules.exchange.api",
    "synthesis.generate.api",
    "synthesis.prompts.api",
    "synthesis.samples.api",
    "synthesis.review.api",
    "synthesis.team.api",
    "synthesis.quality.api",
    "synthesis.datasets.api",
    "training.runs.api",
    "training.registry.api",
    "evaluation.gate.api",
    "evaluation.domain.api",
    "evaluation.what_if.api",
]

handler400 = "trace_site.views.bad_request"
handler404 = "trace_site.views.not_found"
handler500 = "trace_site.views.crashed"

urlpatterns = [
    *(path("api/v1/", include(part)) for part in API),
    path("", include("evaluation.domain.views")),
    path("", include("evaluation.coverage.views")),
    path("login/", views.Login.as_view(), name="login"),
    path("logout/", views.Logout.as_view(), name="logout"),
    path("account/", people_views.account, name="account"),
    path("account/token/", people_views.account_token, name="account-token"),
    path("account/token/revoke/", people_views.account_token_revoke, name="account-token-revoke"),
    path(
        "account/tokens/<int:token>/revoke/",
        people_views.token_revoke,
        name="account-service-token-revoke",
    ),
    path("account/password/", people_views.ChangePassword.as_view(), name="account-password"),
    path("account/sessions/end/", people_views.account_sessions_end, name="account-sessions-end"),
    path("account/sessions/<slug:mark>/end/", people_views.account_session_end, name="account-session-end"),
    path("password/<uidb64>/<token>/", people_views.SetPassword.as_view(), name="password-set"),
    path("people/", include("trace_site.people.views")),
    path("healthz", views.healthz, name="healthz"),
    path("jobs/", include((job_urls, "jobs"))),
    path("audit/", audit_views.audit_list, name="audit"),
    path("audit/audit.csv", audit_views.audit_csv, name="audit-csv"),
    path("audit/events/<int:pk>/", audit_views.audit_event, name="audit-event"),
    path("audit/changes/<int:pk>/", audit_views.audit_change, name="audit-change"),
    path("notices/", include("trace_site.notices.views")),
    path("webhooks/", include("trace_site.webhooks.views")),
    path("catalog/", include("catalog.urls")),
    path("rules/", include("rules.urls")),
    path("synthesis/", include("synthesis.urls")),
    path("training/", include("training.urls")),
    path("evaluation/", include("evaluation.urls")),
]
