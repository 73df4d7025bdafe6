"""The one domain error: what went wrong, where, and how to fix it; and what each code means in HTTP."""

from collections.abc import Iterable
from typing import Any

# Every code that an error may have, by its HTTP status; a code that is not here is a mistake of the program.
CODES = {
    # the caller's input: it is malformed, incomplete or names what it cannot; then what was asked for needs something
    # that is not there yet, and the hint says how to make it
    400: """ambiguous_rule bad_aql bad_base bad_count bad_csv bad_decode bad_delivery bad_domain
        bad_encoding bad_follow_up bad_format bad_grid bad_input bad_item bad_items bad_json bad_k
        bad_level bad_licence bad_option bad_reason bad_recipe bad_request bad_row bad_rows
        bad_rule bad_rules bad_sample bad_shares bad_stage bad_template bad_text
        bad_time bad_tool bad_tool_name bad_xml bad_yaml bulk_count empty mixed_rules
        no_note no_reason no_such_domain no_such_file no_such_rule no_such_sample no_such_user no_tokens
        not_bulk nothing_changes reason_missing short_override small_lot style_unsupported team_differs texts
        token_collision too_long too_many unknown_head unknown_rule unknown_table
        unknown_tool webhook_unreachable

        bad_prompt batch_closed contaminated empty_benchmark empty_catalog empty_snapshot incomplete
        incomplete_predictions no_base no_gold no_init no_neighbours no_parts no_plain_token no_records
        no_revision no_rules no_samples no_snapshot no_token no_tools not_opened not_recorded nothing_to_draw
        other_run prompt_too_large recording_void scattered_rows small_table stale_init
        wrong_init""",
    # who asks is not known
    401: "authentication_failed not_authenticated",
    # who asks is known, and may not
    403: "not_allowed",
    # there is no such thing
    404: "no_export not_found",
    # the method or the wanted form of the answer
    405: "method_not_allowed",
    406: "not_acceptable",
    # the body came too slowly
    408: "too_slow",
    # it clashes with what is stored, or with the state of it
    409: """api_taken bad_state conflict duplicate_code edited_meanwhile findings frozen gate_failed in_snapshot
        job_ended job_state key_in_use no_gate not_confirmed nothing_imported nothing_to_undo removed
        run_locked stale_preview stale_revision unknown_catalog""",
    # the revision that an edit was made from
    412: "precondition_failed",
    428: "precondition_required",
    # the size or the kind of what was sent
    413: "too_large",
    415: "unsupported_media_type",
    # understood, and cannot be done with these contents
    422: "filtered key_reused",
    # asked too often
    429: "rate_limited",
    # our fault: a setting, the installation, a program of ours or a part of the machine that failed
    500: """already_up bad_ledger bad_setting cells_failed child_failed crash diverged encoder
        home_unwritable interrupted job_failed missing_package no_encoder no_port old_home postgres_root
        postgres_setup postgres_start reader_failed redis_start round_trip site_start write_failed""",
    # an answer of the language model, or of a receiver of webhooks, that is of no use
    502: """llm_all_alike llm_bad_answer llm_bad_json llm_bad_request llm_bad_schema llm_broken llm_content_filter
        llm_empty llm_host_refused llm_key_repeated llm_not_json llm_prompt_refused llm_refused llm_server_error
        llm_too_large llm_too_long llm_truncated llm_unauthorized llm_unreachable llm_wrong_model""",
    # a service or a store that is away, full, damaged or not set up; it may work later
    503: """bad_digest bad_export disk_full engine_failed ledger_down llm_budget llm_not_configured llm_quota
        llm_rate_limited store_corrupt store_missing store_write_failed unavailable""",
    # the language model did not answer in time
    504: "llm_timeout",
}
STATUS_OF = {code: status for status, codes in CODES.items() for code in codes.split()}

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


def printable(text: str) -> str:
    """A text that can be stored and shown: NUL and halves of surrogate pairs are written as escapes."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


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
        self.message, self.hint, self.where = (
            printable(cut(text, LONGEST)) for text in (message, hint, where)
        )
        super().__init__(self.message)
        self.code = code
        self.extra = extra or {}
        self.permanent = permanent

    def __str__(self) -> str:
        head = f"{self.where}: {self.message}" if self.where else self.message
        return f"{head} {self.hint}".strip()

    def as_dict(self) -> dict[str, Any]:
        return {"message": str(self), "code": self.code, "extra": self.extra}


def not_found(what: str, kind: str, known: Iterable[object]) -> TraceError:
    """There is no `what`, but `known` ones of its kind."""
    hint = f"The {kind} are: {', '.join(map(str, known)) or 'none yet'}."
    return TraceError(f"there is no {what}.", code="not_found", hint=hint)
