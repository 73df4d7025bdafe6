"""Reads of the registry's real queries."""

from django.db.models import Count, QuerySet
from django.shortcuts import get_object_or_404

from catalog.models import LabelledQuery


def real_queries(search: str = "", collection: str = "") -> QuerySet[LabelledQuery]:
    """Few-shot queries whose text holds every word of `search`."""
    rows = LabelledQuery.objects.filter(use=LabelledQuery.Use.FEW_SHOT)
    for word in search.split():
        rows = rows.filter(text__icontains=word)
    return rows.filter(collection=collection) if collection else rows


def collections() -> list[tuple[str, int]]:
    """(name, how many queries) of every collection of real queries."""
    counted = real_queries().order_by().values_list("collection").annotate(n=Count("pk"))
    return sorted(counted)


def real_query(pk: int) -> LabelledQuery:
    return get_object_or_404(real_queries(), pk=pk)
