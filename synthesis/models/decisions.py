"""What was decided, and what is to be written again because of it."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from synthesis.models.queue import ReviewItem
from synthesis.models.samples import Sample, SynthesisRun

USER = settings.AUTH_USER_MODEL


class Decision(models.Model):
    """What a person (or a named policy) decided about a sample; append-only.

    `after` holds what the decision asks for. A first reading of two changes only `human`: texts wait for the second.
    """

    class Verdict(models.TextChoices):
        APPROVE = "approve"
        EDIT = "edit", "edit and approve"
        REJECT = "reject"
        UNDO = "undo"

    class FollowUp(models.TextChoices):
        REGENERATE = "regenerate", "write it again"
        DROP = "drop"

    sample = models.ForeignKey(Sample, on_delete=models.PROTECT, related_name="decisions")
    item = models.ForeignKey(
        ReviewItem, null=True, on_delete=models.PROTECT, related_name="decisions", db_index=False
    )
    round = models.PositiveSmallIntegerField(choices=ReviewItem.Round, default=1, db_default=1)
    take = models.PositiveSmallIntegerField(
        default=0, db_default=0, help_text="how many decisions of this round were taken back before"
    )
    reviewer = models.ForeignKey(USER, null=True, on_delete=models.PROTECT, related_name="+")
    policy = models.CharField(max_length=200, blank=True)
    verdict = models.CharField(max_length=7, choices=Verdict)
    reason = models.CharField(max_length=40, blank=True)
    note = models.TextField(blank=True)
    follow_up = models.CharField(max_length=10, choices=FollowUp, blank=True)
    seconds = models.FloatField(null=True, help_text="from the item on screen to the decision")
    before = models.JSONField(default=dict)
    after = models.JSONField(default=dict)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["sample", "round", "take"], condition=~Q(verdict="undo"), name="one_decision_a_round"
            )
        ]
        indexes = [
            models.Index(fields=["reviewer", "at", "id"], name="decisions_of_reviewer"),
            models.Index(  # what stands is counted without reading the texts
                fields=["item", "take"], include=["verdict", "reviewer"], name="decisions_that_stand"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.verdict} of sample {self.sample_id}"


class Regeneration(models.Model):
    """A rejected sample that is to be written again, with the reason as critique."""

    class State(models.TextChoices):
        WAITING = "waiting"
        WRITING = "writing", "being written"
        WRITTEN = "written"
        ENDED = "ended", "not written"

    sample = models.OneToOneField(Sample, on_delete=models.PROTECT, related_name="regeneration")
    decision = models.ForeignKey(Decision, on_delete=models.PROTECT, related_name="+")
    critique = models.TextField(help_text="what the writer is told")
    state = models.CharField(max_length=8, choices=State, default=State.WAITING)
    why = models.CharField(max_length=300, blank=True, help_text="why it was not written")
    run = models.ForeignKey(SynthesisRun, null=True, on_delete=models.PROTECT, related_name="+")
    replacement = models.ForeignKey(
        Sample, null=True, on_delete=models.PROTECT, related_name="regenerated_from"
    )
    at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["id"], condition=Q(state="waiting"), name="regenerations_waiting")]

    def __str__(self) -> str:
        return f"regeneration of sample {self.sample_id}"
