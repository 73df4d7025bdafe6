"""The one domain error: what went wrong, where, and how to fix it."""

from typing import Any


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
