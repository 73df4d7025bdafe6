"""Counters that move with the data they name, so that a process knows when what it has cached is old.

A statement trigger raises the counter in the writer's own transaction: a reader sees the new number exactly when it
sees the new rows, whoever wrote them and how.
"""

from django.db import models
from django.db.models.expressions import RawSQL


class Generation(models.Model):
    name = models.CharField(primary_key=True, max_length=40)
    value = models.BigIntegerField(default=0)

    class Meta:
        app_label = "trace_site"

    def __str__(self) -> str:
        return f"{self.name} {self.value}"


def generation(*names: str) -> tuple[int, ...]:
    """The counters in the order of `names`; 0 for one that never moved. One query."""
    found: dict[str, int] = dict(Generation.objects.filter(name__in=names).values_list("name", "value"))
    return tuple(found.get(name, 0) for name in names)


def generation_key(*names: str) -> dict[str, tuple[int, str]]:
    """What a cache may be keyed by: each counter that ever moved, with the transaction that moved it last. One query.

    A number alone comes back when the transaction that raised it is rolled back; its transaction never does.
    """
    rows = Generation.objects.filter(name__in=names).values_list("name", "value", RawSQL("xmin::text", ()))
    return {name: (value, moved_by) for name, value, moved_by in rows}
