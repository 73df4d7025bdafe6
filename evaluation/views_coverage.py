"""The coverage pages: the home page, the gaps of a domain as CSV, clusters."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET


@require_GET
def home(request: HttpRequest) -> HttpResponse:
    return render(request, "coverage/home.html", {})


@require_GET
def gaps_csv(request: HttpRequest, domain: str) -> HttpResponse:
    return HttpResponse("", content_type="text/csv")
