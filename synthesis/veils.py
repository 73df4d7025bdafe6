"""What the audit list does not tell while a reading waits: how the readings before it ended, taken back or not, and
what was said about the sample.
"""

from django.db.models import QuerySet

from synthesis.models import ReviewItem
from trace_site.audit_veils import Veil

State = ReviewItem.State


def _waiting() -> QuerySet[ReviewItem]:
    return ReviewItem.objects.filter(state__in=(State.HELD, State.OPEN, State.CLAIMED)).order_by()


COMMENTS = Veil(
    object_type="sample",
    actions=frozenset(),
    told_as="",
    table="synthesis_samplecomment",
    column="sample_id",
    waiting=_waiting,
    key="sample_id",
)
READINGS = Veil(
    object_type="sample",
    actions=frozenset({"sample.approve", "sample.edit", "sample.reject", "sample.undo"}),
    told_as="sample.read",
    table="synthesis_decision",
    column="sample_id",
    waiting=_waiting,
    key="sample_id",
)
