"""The one domain error: what went wrong, where, and how to fix it; and what each code means in HTTP."""

from typing import Any

# Every code that an error may have, and its HTTP status; a code that is not here is a mistake of the program.
STATUS_OF: dict[str, int] = {
    # the caller's input: it is malformed, incomplete or names what it cannot
    "ambiguous_rule": 400,
    "bad_aql": 400,
    "bad_base": 400,
    "bad_count": 400,
    "bad_csv": 400,
    "bad_decode": 400,
    "bad_delivery": 400,
    "bad_domain": 400,
    "bad_encoding": 400,
    "bad_follow_up": 400,
    "bad_format": 400,
    "bad_grid": 400,
    "bad_input": 400,
    "bad_item": 400,
    "bad_items": 400,
    "bad_json": 400,
    "bad_k": 400,
    "bad_level": 400,
    "bad_licence": 400,
    "bad_option": 400,
    "bad_probe": 400,
    "bad_reason": 400,
    "bad_recipe": 400,
    "bad_request": 400,
    "bad_row": 400,
    "bad_rows": 400,
    "bad_rule": 400,
    "bad_rules": 400,
    "bad_sample": 400,
    "bad_shares": 400,
    "bad_sheet": 400,
    "bad_stage": 400,
    "bad_tau": 400,
    "bad_template": 400,
    "bad_text": 400,
    "bad_time": 400,
    "bad_tool": 400,
    "bad_tool_name": 400,
    "bad_xml": 400,
    "bad_yaml": 400,
    "bulk_count": 400,
    "empty": 400,
    "line_too_long": 400,
    "mixed_rules": 400,
    "no_note": 400,
    "no_reason": 400,
    "no_such_domain": 400,
    "no_such_file": 400,
    "no_such_rule": 400,
    "no_such_sample": 400,
    "no_such_user": 400,
    "no_tokens": 400,
    "not_bulk": 400,
    "nothing_changes": 400,
    "reason_missing": 400,
    "small_lot": 400,
    "style_unsupported": 400,
    "team_differs": 400,
    "texts": 400,
    "token_collision": 400,
    "too_long": 400,
    "too_many": 400,
    "unknown_base": 400,
    "unknown_head": 400,
    "unknown_rule": 400,
    "unknown_table": 400,
    "unknown_tool": 400,
    "webhook_unreachable": 400,
    # what was asked for needs something that is not there yet: the hint says how to make it
    "bad_prompt": 400,
    "batch_closed": 400,
    "contaminated": 400,
    "empty_benchmark": 400,
    "empty_catalog": 400,
    "empty_snapshot": 400,
    "incomplete": 400,
    "incomplete_predictions": 400,
    "no_base": 400,
    "no_gold": 400,
    "no_init": 400,
    "no_neighbours": 400,
    "no_parts": 400,
    "no_plain_token": 400,
    "no_records": 400,
    "no_rules": 400,
    "no_samples": 400,
    "no_snapshot": 400,
    "no_token": 400,
    "no_tools": 400,
    "not_opened": 400,
    "not_recorded": 400,
    "nothing_to_draw": 400,
    "other_half": 400,
    "other_run": 400,
    "prompt_too_large": 400,
    "recording_void": 400,
    "scattered_rows": 400,
    "small_table": 400,
    "stale_init": 400,
    "wrong_init": 400,
    # who asks is not known
    "authentication_failed": 401,
    "not_authenticated": 401,
    # who asks is known, and may not
    "forbidden_model": 403,
    "not_allowed": 403,
    # there is no such thing
    "no_export": 404,
    "not_found": 404,
    # the method or the wanted form of the answer
    "method_not_allowed": 405,
    "not_acceptable": 406,
    # the body came too slowly
    "too_slow": 408,
    # it clashes with what is stored, or with the state of it
    "bad_state": 409,
    "conflict": 409,
    "duplicate_code": 409,
    "edited_meanwhile": 409,
    "findings": 409,
    "frozen": 409,
    "in_snapshot": 409,
    "job_ended": 409,
    "job_state": 409,
    "key_in_use": 409,
    "nothing_imported": 409,
    "nothing_to_undo": 409,
    "removed": 409,
    "run_locked": 409,
    "stale_preview": 409,
    "stale_revision": 409,
    # the revision that an edit was made from
    "precondition_failed": 412,
    "precondition_required": 428,
    # the size or the kind of what was sent
    "too_large": 413,
    "unsupported_media_type": 415,
    # understood, and cannot be done with these contents
    "filtered": 422,
    "key_reused": 422,
    # asked too often
    "rate_limited": 429,
    # our fault: a setting, the installation, a program of ours or a part of the machine that failed
    "already_up": 500,
    "bad_ledger": 500,
    "bad_setting": 500,
    "cells_failed": 500,
    "child_failed": 500,
    "command_failed": 500,
    "crash": 500,
    "disk_full": 500,
    "diverged": 500,
    "encoder": 500,
    "home_unwritable": 500,
    "interrupted": 500,
    "job_failed": 500,
    "missing_package": 500,
    "no_encoder": 500,
    "no_port": 500,
    "not_installed": 500,
    "old_home": 500,
    "postgres_root": 500,
    "postgres_setup": 500,
    "postgres_start": 500,
    "reader_failed": 500,
    "redis_start": 500,
    "round_trip": 500,
    "site_start": 500,
    "write_failed": 500,
    # an answer of the language model, or of a receiver of webhooks, that is of no use
    "llm_bad_answer": 502,
    "llm_bad_json": 502,
    "llm_bad_request": 502,
    "llm_bad_schema": 502,
    "llm_broken": 502,
    "llm_content_filter": 502,
    "llm_empty": 502,
    "llm_host_refused": 502,
    "llm_key_repeated": 502,
    "llm_not_json": 502,
    "llm_refused": 502,
    "llm_server_error": 502,
    "llm_too_large": 502,
    "llm_too_long": 502,
    "llm_truncated": 502,
    "llm_unauthorized": 502,
    "llm_unreachable": 502,
    "llm_wrong_model": 502,
    # a service or a store that is away, full, damaged or not set up; it may work later
    "bad_digest": 503,
    "bad_export": 503,
    "engine_failed": 503,
    "ledger_down": 503,
    "llm_budget": 503,
    "llm_not_configured": 503,
    "llm_quota": 503,
    "llm_rate_limited": 503,
    "store_corrupt": 503,
    "store_missing": 503,
    "store_write_failed": 503,
    "unavailable": 503,
    # the language model did not answer in time
    "llm_timeout": 504,
}


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
    """The HTTP status of a declared code."""
    return STATUS_OF[code]


def declared(code: str, otherwise: str) -> str:
    """A code that was stored, or that another program told; `otherwise` where this version does not know it."""
    return code if code in STATUS_OF else otherwise


class TraceError(Exception):
    """A mistake or failure the user can act on.

    message: what is wrong, one sentence. where: file:line, JSON pointer or object. hint: how to fix it.
    code: stable machine name, one of STATUS_OF. extra: facts for the API. permanent: retrying cannot help.
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
        if code not in STATUS_OF:
            raise ValueError(f"the error code {code!r} is not declared in STATUS_OF: {message}")
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
