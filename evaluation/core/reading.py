"""What a model did not take in of a request, in plain sentences."""

from collections.abc import Sequence

from training.core.scripts import request_words


def reading_notes(query: str, unread: Sequence[str] | None, cut_request: bool) -> list[str]:
    """`unread`: the words the model's encoder cannot read; None: no encoder reads for it."""
    notes = []
    if unread:
        count = len(request_words(query))
        what = f"{len(unread)} of {count} words of this request" if len(unread) < count else "this request"
        notes.append(f"The model cannot read {what}: its encoder has no words in that script.")
    if cut_request:
        notes.append("This request is longer than the model reads; what goes beyond was left out.")
    return notes
