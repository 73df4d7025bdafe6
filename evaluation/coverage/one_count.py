"""Pages whose numbers are all of one count, though they are read in several queries."""

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any

from django.db.models import Max
from django.http import HttpRequest, HttpResponse

from evaluation.models import DomainRollup

View = Callable[..., HttpResponse]
TRIES = 3


def newest_count() -> datetime | None:
    """When rollups were stored last; one query."""
    newest: datetime | None = DomainRollup.objects.aggregate(at=Max("at"))["at"]
    return newest


def one_count(view: View) -> View:
    """The page is made again when numbers were counted anew meanwhile: the count that is the newest before and after is
    all that the page can have seen."""

    @wraps(view)
    def shown(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        before = newest_count()
        for _ in range(TRIES):
            answer, after = view(request, *args, **kwargs), newest_count()
            if after == before:
                break
            before = after
        return answer

    return shown
