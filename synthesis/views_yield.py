"""The yield page: every published rule, how far it is from its target, and why."""

import csv
from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from catalog.selectors import domains
from synthesis.core.queries import RULE_STYLES
from synthesis.rule_yields import ORDERS, SHOWS, TARGET, RuleYield, rule_book
from synthesis.selectors_rejections import rejections_of_published
from trace_site.lib.cells import guard
from trace_site.paging import Page

ROWS = 100
COLUMNS = (
    *(
        "domain",
        "code",
        "version",
        "target",
        "ready",
        "stale",
        "missing",
        "waiting",
        "approved",
        "dropped",
        "attempts",
    ),
    *("per_ready", "near", "last_run"),
)


@require_GET
def yields(request: HttpRequest) -> HttpResponse:
    chosen = chosen_from(request)
    book = rule_book(chosen["domain"], chosen["target"])
    rows = book.chosen(chosen["show"], chosen["order"])
    after = request.GET.get("after", "")
    start = int(after) if after.isdecimal() and len(after) < 7 else 0
    told = rejections_of_published(row.rule_id for row in rows[start : start + ROWS])
    for row in rows[start : start + ROWS]:
        one = told.get(row.rule_id)
        row.rejections = one.short if one and one.rejected else ""
    page = Page(rows[start : start + ROWS], after, str(start + ROWS) if len(rows) > start + ROWS else None)
    context = {"book": book, "page": page, "shown": len(rows), "chosen": chosen, "domains": domains()}
    return render(request, "synthesis/yield.html", {**context, "heads": heads(request, chosen["order"])})


def chosen_from(request: HttpRequest) -> dict[str, Any]:
    """What of the address narrows and orders; what it cannot be is ignored."""
    given = request.GET
    order, target = given.get("order", ""), given.get("target", "")
    return {
        "domain": given.get("domain", "")[:60],
        "show": given["show"] if given.get("show") in SHOWS else "all",
        "order": order if order.removeprefix("-") in ORDERS else ORDERS[0],
        "target": int(target)
        if target.isascii() and target.isdecimal() and 0 < int(target[:5]) <= 1000
        else TARGET,
    }


def heads(request: HttpRequest, order: str) -> dict[str, dict[str, str]]:
    """{column: {"query": the address that sorts by it, or turns it round, "sort": as it is now}}."""
    found = {}
    for name in ORDERS:
        query = request.GET.copy()
        query.pop("after", None)
        query["order"] = f"-{name}" if order == name else name
        ascending = not order.startswith("-")
        sort = ("ascending" if ascending else "descending") if order.removeprefix("-") == name else ""
        found[name] = {"query": query.urlencode(), "sort": sort}
    return found


@require_GET
def yields_csv(request: HttpRequest) -> StreamingHttpResponse:
    """The rows that match, for a spreadsheet; a cell that could be a formula begins with an apostrophe."""
    chosen = chosen_from(request)
    rows = rule_book(chosen["domain"], chosen["target"]).chosen(chosen["show"], chosen["order"])
    response = StreamingHttpResponse(_csv(rows), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="yield.csv"'
    return response


class _Echo:
    def write(self, text: str) -> str:
        return text


def _csv(rows: list[RuleYield]) -> Iterator[str]:
    writer = csv.writer(_Echo(), quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    yield "\ufeff" + writer.writerow([*COLUMNS, *(f"no_{style}" for style in RULE_STYLES)])
    for row in rows:
        values = [getattr(row, name) for name in COLUMNS]
        cells = [
            "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
            for value in values
        ]
        yield writer.writerow(
            [guard(cell) for cell in (*cells, *(row.reasons.get(style, "") for style in RULE_STYLES))]
        )
