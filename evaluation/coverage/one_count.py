"""Pages whose numbers are all of one count, though they are read in several queries."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.db import connection
from django.http import HttpRequest, HttpResponse

View = Callable[..., HttpResponse]
TRIES = 3
NEWEST = (
    "SELECT (SELECT max(id) FROM evaluation_groupdefinition), (SELECT max(at) FROM evaluation_domainrollup)"
)


def newest_count() -> tuple[Any, ...]:
    """The definition of groups in force, and when rollups were stored last; one query."""
    with connection.cursor() as cursor:
        cursor.execute(NEWEST)
        newest: tuple[Any, ...] = cursor.fetchone()
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
