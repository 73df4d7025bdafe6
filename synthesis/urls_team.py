"""Addresses of the pages about people who review: team, assignments, comments, saved views, guidelines."""

from django.urls import path

from synthesis import views_comments, views_guidelines, views_saved, views_team

urlpatterns = [
    path("team/", views_team.team, name="team"),
    path("team/<int:pk>/release/", views_team.team_release, name="team_release"),
    path("assignments/", views_team.assign, name="assign"),
    path("assignments/free/", views_team.assignable, name="assignable"),
    path("assignments/<int:pk>/take-back/", views_team.take_back, name="take_back"),
    path("assignments/<int:pk>/reassign/", views_team.reassign, name="reassign"),
    path("comments/", views_comments.comment_list, name="comments"),
    path("samples/<int:pk>/comments/", views_comments.sample_comments, name="sample_comments"),
    path("views/", views_saved.views, name="saved_views"),
    path("views/<int:pk>/change/", views_saved.change, name="saved_view_change"),
    path("views/<int:pk>/delete/", views_saved.delete, name="saved_view_delete"),
    path("guidelines/", views_guidelines.guideline_list, name="guidelines"),
    path("guidelines/pane/", views_guidelines.guideline_pane, name="guideline_pane"),
    path("guidelines/edit/", views_guidelines.guideline_edit, name="guideline_edit"),
    path("guidelines/<int:pk>/", views_guidelines.guideline_detail, name="guideline"),
    path("samples/<int:pk>/example/", views_guidelines.guideline_example, name="guideline_example"),
]
