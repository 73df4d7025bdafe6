"""The one domain error: what went wrong, where, and how to fix it; and what each code means in HTTP."""

from typing import Any

# The stable table of the API and the pages: every code that is not a plain mistake in the input (400).
STATUSES: dict[int, tuple[str, ...]] = {
    401: ("not_authenticated", "authentication_failed"),
    403: ("not_allowed", "forbidden"),
    404: ("not_found",),
    409: (
        "conflict",
        "stale_revision",
        "edited_meanwhile",
        "frozen",
        "bad_state",
        "findings",
        "stale_preview",
        "duplicate_code",
        "key_in_use",
        "job_ended",
        "job_state",
        "nothing_to_undo",
        "in_snapshot",
        "nothing_imported",
        "removed",
    ),
    412: ("precondition_failed",),
    413: ("too_large",),
    415: ("unsupported_media_type",),
    422: ("key_reused", "filtered"),
    428: ("precondition_required",),
    429: ("rate_limited",),
    503: ("unavailable",),
}
STATUS_OF = {code: status for status, codes in STATUSES.items() for code in codes}


def status_of(code: str) -> int:
    """The HTTP status of an error code; 400 for one that is not in the table."""
    return STATUS_OF.get(code, 400)


class TraceError(Exception):
    """A mistake or failure the user can act on.

    message: what is wrong, one sentence. where: file:line, JSON pointer or object. hint: how to fix it.
    code: stable machine name. extra: facts for the API. permanent: retrying cannot help.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        hint: str = "",
        where: str = "",
        extra: dict[str, Any] | None = None,
        permanent: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint
        self.where = where
        self.extra = extra or {}
        self.permanent = permanent

    def __str__(self) -> str:
        head = f"{self.where}: {self.message}" if self.where else self.message
        return f"{head} {self.hint}".strip()

    def as_dict(self) -> dict[str, Any]:
        return {"message": str(self), "code": self.code, "extra": self.extra}
