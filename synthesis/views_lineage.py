"""The lineage page of a sample: a path down from its rule to the models that learned from it."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from synthesis.lineage import lineage


@require_GET
def sample_lineage(request: HttpRequest, pk: int) -> HttpResponse:
    found = lineage(pk, request.user)
    return render(request, "synthesis/sample_lineage.html", {"line": found, "sample": found.sample})
