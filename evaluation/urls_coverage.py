"""Addresses of coverage and clusters; their names have no namespace."""

from django.urls import path

from evaluation import views_coverage, views_map

urlpatterns = [
    path("coverage/<slug:domain>.csv", views_coverage.gaps_csv, name="coverage-csv"),
    path("coverage/rules/<int:pk>/", views_coverage.rule_coverage, name="rule-coverage"),
    path("clusters/", views_coverage.cluster_list, name="clusters"),
    path("clusters/map/", views_map.map_page, name="clusters-map"),
    path("clusters/map/<slug:domain>.json", views_map.map_clusters, name="clusters-map-data"),
    path("clusters/map/<slug:domain>/tools.json", views_map.map_tools, name="clusters-map-tools"),
    path("clusters/map/<slug:domain>/search.json", views_map.map_search, name="clusters-map-search"),
    path("clusters/<int:pk>/", views_coverage.cluster_detail, name="cluster"),
    path("clusters/<int:pk>/panel/", views_map.cluster_panel, name="cluster-panel"),
    path("clusters/<int:pk>/dismiss/", views_coverage.cluster_dismiss, name="cluster-dismiss"),
    path("clusters/<int:pk>/restore/", views_coverage.cluster_restore, name="cluster-restore"),
]
