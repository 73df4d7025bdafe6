"""What people say about a sample: plain text, append-only. Who decided it, and who is mentioned, is told that
somebody wrote, never what: the text may name a verdict that a reader must not know yet.
"""

from typing import Any

from django.db import transaction
from django.urls import reverse

from synthesis.models import Decision, Sample, SampleComment
from synthesis.selectors_comments import mentioned
from trace_site import audit
from trace_site.access import roles_of
from trace_site.lib.errors import TraceError
from trace_site.notices import tell

LONGEST = 2000


@transaction.atomic
def comment_add(*, sample: Sample, author: Any, text: str) -> SampleComment:
    """Raises TraceError `bad_input` for an empty or too long text, `not_allowed` for somebody without a role."""
    text = text.replace("\r\n", "\n").strip()
    if not roles_of(author):
        raise TraceError("commenting needs a role.", code="not_allowed", hint="An admin gives you one.")
    if not text or len(text) > LONGEST:
        wrong = f"it has {len(text):,} characters." if text else "the comment is empty."
        raise TraceError(wrong, code="bad_input", where="text", hint=f"Write 1 to {LONGEST:,} characters.")
    row = SampleComment.objects.create(sample=sample, author=author, text=text)
    audit.record(actor=author, action="sample.commented", obj=row)
    _tell(row)
    return row


def _tell(row: SampleComment) -> None:
    link = f"{reverse('synthesis:sample', args=[row.sample_id])}#comments"
    named = set(mentioned(row.text).values_list("pk", flat=True)) - {row.author_id}
    decided = Decision.objects.filter(sample=row.sample_id, policy="", reviewer__is_active=True)
    readers = set(decided.values_list("reviewer", flat=True)) - named - {row.author_id, None}
    about = f"a comment on sample {row.sample_id}"
    tell(named, "comment", f"{row.author} mentioned you in {about}.", link=link)
    key = f"comment {row.sample_id} {row.author_id}"
    tell(readers, "comment", f"{row.author} wrote {about}, which you decided.", link=link, key=key)
