"""The one domain error: what went wrong, where, and how to fix it; and what each code means in HTTP."""

from typing import Any

# The stable table of the API and the pages: every code that is not a plain mistake in the input (400).
STATUSES: dict[int, tuple[str, ...]] = {
    401: ("not_authenticated", "authentication_failed"),
    403: ("not_allowed", "forbidden"),
    404: ("not_found",),
    408: ("too_slow",),
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
    503: (
        "unavailable",
        "ledger_down",
        "store_missing",
        "store_corrupt",
        "store_write_failed",
        "engine_failed",
        "bad_export",
        "bad_digest",
    ),
}
STATUS_OF = {code: status for status, codes in STATUSES.items() for code in codes}


LONGEST = 1000  # characters of a message, a place or a hint: what somebody sent is not sent back whole
LONGEST_QUOTE = 80


def cut(text: str, most: int) -> str:
    """The text, or its beginning with an ellipsis."""
    return text if len(text) <= most else f"{text[:most]}…"


def quoted(value: Any) -> str:
    """What somebody gave, as a message repeats it: in quotes, and its beginning only.

    A list or mapping is named by its kind, for writing one out may cost more than reading it did.
    """
    if isinstance(value, int) and value.bit_length() > 300:
        return "a number of very many digits"
    if isinstance(value, (str, int, float)):
        return f"'{cut(str(value), LONGEST_QUOTE)}'"
    return "nothing" if value is None else f"a {type(value).__name__}"


def status_of(code: str) -> int:
    """The HTTP status of an error code; 400 for one that is not in the table."""
    return STATUS_OF.get(code, 400)


class TraceError(Exception):
    """A mistake or failure the user can act on.

    message: what is wrong, one sentence. where: file:line, JSON pointer or object. hint: how to fix it.
    code: stable machine name. extra: facts for the API. permanent: retrying cannot help.
    Texts of more than LONGEST characters are cut.
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
        self.message, self.hint, self.where = (cut(text, LONGEST) for text in (message, hint, where))
        super().__init__(self.message)
        self.code = code
        self.extra = extra or {}
        self.permanent = permanent

    def __str__(self) -> str:
        head = f"{self.where}: {self.message}" if self.where else self.message
        return f"{head} {self.hint}".strip()

    def as_dict(self) -> dict[str, Any]:
        return {"message": str(self), "code": self.code, "extra": self.extra}
