"""What a frozen table's trigger says, for people: a change of what is frozen is refused, not a crash."""

from django.db import IntegrityError

from trace_site.lib.errors import TraceError

RAISED = "23000"  # integrity_constraint_violation: our triggers raise it, Postgres itself only its subcodes


def frozen_error(error: Exception) -> TraceError | None:
    """The refusal of a trigger as the error that pages, API and commands show; None for any other error."""
    cause = error.__cause__
    if not isinstance(error, IntegrityError) or getattr(cause, "sqlstate", None) != RAISED:
        return None
    said = getattr(getattr(cause, "diag", None), "message_primary", None) or str(error)
    return TraceError(
        f"{said}.",
        code="frozen",
        hint="What is frozen stays as it is: make a new one instead.",
        permanent=True,
    )
