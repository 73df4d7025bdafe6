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


def counted_sql(table: str, name: str, columns: str = "") -> str:
    """SQL for a migration: writes on `table` raise the counter `name`; with `columns`, updates of those only."""
    of = f" OF {columns}" if columns else ""
    return f"""
CREATE OR REPLACE FUNCTION trace_count_{name}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO trace_site_generation (name, value) VALUES ('{name}', 1)
    ON CONFLICT (name) DO UPDATE SET value = trace_site_generation.value + 1;
  RETURN NULL;
END $$;
CREATE TRIGGER {table}_counted AFTER INSERT OR DELETE OR UPDATE{of} ON {table}
  FOR EACH STATEMENT EXECUTE FUNCTION trace_count_{name}();
"""


def uncounted_sql(table: str) -> str:
    return f"DROP TRIGGER {table}_counted ON {table};"
