"""The site's own part of the API: its description, the page to read it on, the audit list and webhooks."""

from django.urls import path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from trace_site.rest.throttles import OfDescription


class Docs(SpectacularSwaggerSplitView):
    """Swagger UI from our own files: one page, and one script so that no script stands in the page."""

    template_name = "api_docs.html"
    url_name = "api-schema"


urlpatterns = [
    path("schema", SpectacularAPIView.as_view(throttle_classes=[OfDescription]), name="api-schema"),
    path("docs", Docs.as_view(), name="api-docs"),
]
