"""Which samples stand: not gone, not replaced by a newer one of their slot, of a published rule version.

What is read from rows alone; whether a tool of the pool has changed since is told by `staleness`. The queue's triggers
say the same of what is replaced (migration 0003), and a test holds the two together.
"""

from django.db.models import Exists, OuterRef, Q

from rules.models import Rule
from synthesis.models import Regeneration, Sample, SynthesisRun
from trace_site.jobs import Job

APPROVED = Q(human=Sample.Human.APPROVED)
READY = Q(machine=Sample.Machine.READY)
DROPPED = Q(machine=Sample.Machine.DROPPED)
GONE = DROPPED | Q(human=Sample.Human.REJECTED)
ENDED = [Job.State.DONE, Job.State.FAILED, Job.State.CANCELLED, Job.State.QUARANTINED]
# planned, and nobody is writing it: its run may be resumed, or never. The ended runs are looked up once a query
ABANDONED = Q(
    machine=Sample.Machine.PENDING, run__in=SynthesisRun.objects.filter(job__state__in=ENDED).order_by()
)
_newer = Sample.objects.filter(branch=OuterRef("branch"), slot=OuterRef("slot"), pk__gt=OuterRef("pk"))
REPLACED = ~Q(slot="") & Exists(_newer.exclude(GONE | ABANDONED))
# the version a rule sample was written for is no longer the published one
_published = Rule.objects.filter(published=OuterRef("rule_version"))
OVERTAKEN = Q(rule_version__isnull=False) & ~Exists(_published)
# of one slot the newest approved sample counts: snapshots, what is taught
OUTDONE = ~Q(slot="") & Exists(_newer.filter(human=Sample.Human.APPROVED, machine=Sample.Machine.READY))
# a newer one of the slot is written and stands, so that it need not be written any more
FILLED = ~Q(slot="") & Exists(_newer.filter(machine=Sample.Machine.READY).exclude(GONE))
STANDING = ~GONE & ~REPLACED & ~OVERTAKEN

WRITTEN_AGAIN = (Regeneration.State.WAITING, Regeneration.State.WRITING)


def written_again(branch: str) -> set[int]:
    """Rejected samples that are to be written again."""
    rows = Regeneration.objects.filter(state__in=WRITTEN_AGAIN, sample__branch=branch)
    return set(rows.values_list("sample", flat=True))


def replacement(sample: Sample) -> Sample | None:
    """The newest sample that stands in the same slot and is younger."""
    if not sample.slot:
        return None
    rows = Sample.objects.filter(branch=sample.branch, slot=sample.slot, pk__gt=sample.pk)
    return rows.exclude(GONE | ABANDONED).order_by("-pk").first()
