"""Keeps the token ledger in step with the active tools: slots are permanent, retired strings are tombstones."""

from django.db import connection

from catalog.core.ledger import LedgerRow, assign_slots
from catalog.models import TokenUnit, Tool

CATALOG_LOCK = 0x7472_6163  # one writer of the catalog at a time


def catalog_lock() -> None:
    """Hold the catalog for this transaction: two imports must not hand out the same slot."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [CATALOG_LOCK])


def ledger_update() -> int:
    """Give every active tool's tokens a slot and retire the rest; returns how many rows changed.

    Call it in the transaction that changed the tools, under `catalog_lock`.
    """
    ledger = [
        LedgerRow(*values) for values in TokenUnit.objects.values_list("family", "slot", "string", "state")
    ]
    names = Tool.objects.filter(status=Tool.Status.ACTIVE).values_list("name", flat=True)
    before = set(ledger)
    rows = [
        TokenUnit(family=row.family, slot=row.slot, string=row.string, state=row.state)
        for row in assign_slots(ledger, names.iterator(chunk_size=5000))
        if row not in before
    ]
    TokenUnit.objects.bulk_create(
        rows,
        batch_size=2000,
        update_conflicts=True,
        unique_fields=["family", "slot"],
        update_fields=["state"],
    )
    return len(rows)
