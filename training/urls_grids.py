"""Addresses of grids and of runs trained elsewhere."""

from django.urls import path

from training import views_grids, views_imports

urlpatterns = [
    path("grids/", views_grids.grid_list, name="grids"),
    path("grids/new/", views_grids.grid_create, name="grid_create"),
    path("grids/new/preview/", views_grids.grid_preview, name="grid_preview"),
    path("grids/<int:pk>/", views_grids.grid_detail, name="grid"),
    path("grids/<int:pk>/live/", views_grids.grid_live, name="grid_live"),
    path("grids/<int:pk>/cancel/", views_grids.grid_cancel, name="grid_cancel"),
    path("grids/<int:pk>/resume/", views_grids.grid_resume, name="grid_resume"),
    path("elsewhere/", views_imports.import_list, name="imports"),
    path("elsewhere/adopt/", views_imports.import_adopt, name="import_adopt"),
]
