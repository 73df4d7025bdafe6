"""The definitions of groups, one after another: what each changed, and how many queries fall into which group now."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from evaluation.benchmarks.selectors import RESULTS, slices
from evaluation.core.coverage import EXCEPTIONS, GROUPS, LINES
from evaluation.core.metrics import ALL
from evaluation.coverage.one_count import one_count
from evaluation.models import Evaluation, GroupDefinition
from evaluation.results.groups import groups_standing
from trace_site.paging import keyset


@require_GET
@one_count
def groups(request: HttpRequest) -> HttpResponse:
    """Five queries, and one more while a recount is due."""
    now = groups_standing()
    page = keyset(GroupDefinition.objects.all(), request.GET.get("after", ""), newest=True)
    older = GroupDefinition.objects.filter(pk__lt=page.rows[-1].pk).first() if page.rows else None
    before = [*page.rows[1:], older]
    context = {
        "groups_standing": now,
        "page": page,
        "rows": [(row, change(row, old)) for row, old in zip(page.rows, before, strict=True)]
        if page.rows
        else [],
        "lines": [f"{part.rstrip('.')}.".split(": ", 1) for part in now.definition.words.split(". ")]
        if now.definition
        else [],
        "groups": LINES,
        "counts": counts(),
    }
    return render(request, "evaluation/groups.html", context)


def counts() -> list[tuple[Evaluation, list[tuple[str, int]], int]]:
    """Of each shown benchmark an evaluation, its queries of each group, and how many there are; one query."""
    rows = Evaluation.objects.filter(RESULTS, definition__isnull=False).select_related("benchmark")
    newest = rows.order_by("benchmark__name", "-benchmark__version", "-pk").distinct("benchmark__name")
    found = []
    for row in newest:
        of: dict[str, int] = (row.metrics or {}).get("groups", {}).get("counts", {})
        exceptions = slices(row)[ALL].get(EXCEPTIONS, {}).get("n", 0)
        cells = [(group, exceptions if group == EXCEPTIONS else of.get(group, 0)) for group in LINES]
        found.append((row, cells, sum(of.get(group, 0) for group in GROUPS)))
    return found


def change(row: GroupDefinition, old: GroupDefinition | None) -> str:
    """What became different, in words."""
    if old is None:
        return "the first one"

    def ids(of: GroupDefinition) -> set[Any]:
        return {pk for versions in of.rules.values() for pk in versions}

    came, went = len(ids(row) - ids(old)), len(ids(old) - ids(row))
    said = []
    if came or went:
        said.append(f"{came} rule version{'s' if came != 1 else ''} in, {went} out")
    elif set(row.readings) != set(old.readings):
        said.append("pairs of rules read or corrected otherwise")
    moved = [domain for domain, version in row.clusterings.items() if old.clusterings.get(domain) != version]
    said += [f"other clusters of {domain}" for domain in moved]
    if set(row.dismissed) != set(old.dismissed):
        said.append("other clusters dismissed")
    if row.words != old.words:
        said.append("the groups are defined otherwise")
    return "; ".join(said) or "nothing"
