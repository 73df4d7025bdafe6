"""The API's own addresses: its description and the pages to read it on."""

from django.urls import path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView


class Docs(SpectacularSwaggerSplitView):
    """Swagger UI from our own files: one page, and one script so that no script stands in the page."""

    template_name = "api_docs.html"
    url_name = "api-schema"


urlpatterns = [
    path("schema", SpectacularAPIView.as_view(), name="api-schema"),
    path("docs", Docs.as_view(), name="api-docs"),
]
