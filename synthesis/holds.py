"""Rules kept as they are while what follows from them is decided.

The order of locks is rule, items of the queue (newest sample first, highest round first), sample. Whoever publishes a
rule takes its row first as well, so that a decision falls wholly before or wholly after it.
"""

from collections.abc import Iterable

from django.db import connection

HOLD = """
SELECT 1 FROM rules_rule WHERE id IN (SELECT rule_id FROM rules_ruleversion WHERE id = ANY(%s)) ORDER BY id FOR SHARE
"""


def hold_rules(versions: Iterable[int | None]) -> None:
    """Until the end of the transaction nobody publishes or withdraws a rule of these versions."""
    wanted = [version for version in versions if version is not None]
    if wanted:
        with connection.cursor() as cursor:
            cursor.execute(HOLD, [wanted])
