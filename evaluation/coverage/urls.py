"""Addresses of coverage and clusters; their names have no namespace."""

from django.urls import path

from evaluation.coverage import map, views

urlpatterns = [
    path("coverage/<slug:domain>.csv", views.gaps_csv, name="coverage-csv"),
    path("coverage/rules/<int:pk>/", views.rule_coverage, name="rule-coverage"),
    path("clusters/", views.cluster_list, name="clusters"),
    path("clusters/map/", map.map_page, name="clusters-map"),
    path("clusters/map/<slug:domain>.json", map.map_clusters, name="clusters-map-data"),
    path("clusters/map/<slug:domain>/tools.json", map.map_tools, name="clusters-map-tools"),
    path("clusters/map/<slug:domain>/search.json", map.map_search, name="clusters-map-search"),
    path("clusters/<int:pk>/", views.cluster_detail, name="cluster"),
    path("clusters/<int:pk>/panel/", map.cluster_panel, name="cluster-panel"),
    path("clusters/<int:pk>/dismiss/", views.cluster_dismiss, name="cluster-dismiss"),
    path("clusters/<int:pk>/restore/", views.cluster_restore, name="cluster-restore"),
]
