"""The queue of the worker that trains."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from training.queue import Queue, queue


def context_of(found: Queue) -> dict[str, Any]:
    return {"queue": found, "active": bool(found.running or found.waiting)}


@require_GET
def queue_page(request: HttpRequest) -> HttpResponse:
    return render(request, "training/queue.html", context_of(queue()))


@require_GET
def queue_live(request: HttpRequest) -> HttpResponse:
    """The part that moves, every five seconds."""
    return render(request, "training/_queue.html", context_of(queue()))
