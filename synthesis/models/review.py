"""The review queue: what waits for whom, in which lot, and what is read twice."""

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from catalog.models import Domain
from rules.models import Rule, RuleVersion
from synthesis.models.samples import USER, Sample, SynthesisRun
from trace_site.database import Changed


class Batch(models.Model):
    """A lot under acceptance sampling: `sample_size` of `lot_size` are read, `accept` defects are allowed."""

    class State(models.TextChoices):
        SAMPLING = "sampling", "being sampled"
        ACCEPTED = "accepted"
        FAILED = "failed", "failed: all of it is read"
        WITHDRAWN = "withdrawn"

    rule_version = models.ForeignKey(RuleVersion, on_delete=models.PROTECT, related_name="+")
    style = models.CharField(max_length=14, choices=Sample.Style, blank=True)
    state = models.CharField(max_length=9, choices=State, default=State.SAMPLING)
    level = models.CharField(max_length=3, help_text="inspection level of the standard: I, II or III")
    aql = models.FloatField(help_text="acceptable quality limit, percent")
    letter = models.CharField(max_length=1, help_text="code letter of the standard's table")
    lot_size = models.PositiveIntegerField()
    sample_size = models.PositiveIntegerField(help_text="n: how many are read")
    accept = models.PositiveIntegerField(help_text="c: how many defects are allowed")
    seed = models.BigIntegerField()
    defects = models.PositiveIntegerField(default=0)
    created_by = models.ForeignKey(USER, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(db_default=Now())
    closed_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"batch {self.pk}"


class Assignment(models.Model):
    """Items given to one person: they meet them first, and nobody else meets them."""

    assignee = models.ForeignKey(USER, on_delete=models.PROTECT, related_name="assignments")
    assigned_by = models.ForeignKey(USER, on_delete=models.PROTECT, related_name="+")
    filters = models.JSONField(default=dict, help_text="the part of the queue it was taken from")
    count = models.PositiveIntegerField(help_text="items given")
    note = models.CharField(max_length=300, blank=True)
    at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True, help_text="taken back; what was left is everybody's again")

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.count} to {self.assignee_id}"


class ReviewItem(models.Model):
    """One reading of one sample. Triggers on samples and rules open and withdraw items (migration `queue`);
    `review.queue` and `review.services` do the rest. Narrow on purpose: the queue never reads the samples' texts.
    """

    class Round(models.IntegerChoices):
        FIRST = 1, "first reading"
        SECOND = 2, "second reading"
        THIRD = 3, "adjudication"

    class State(models.TextChoices):
        HELD = "held", "held by its batch"
        OPEN = "open"
        CLAIMED = "claimed"
        DECIDED = "decided"
        WITHDRAWN = "withdrawn"

    sample = models.ForeignKey(Sample, on_delete=models.PROTECT, related_name="review_items")
    round = models.PositiveSmallIntegerField(choices=Round, default=Round.FIRST, db_default=1)
    rank = models.PositiveSmallIntegerField(
        default=1, db_default=1, help_text="0 comes before 1: adjudications first"
    )
    state = models.CharField(max_length=9, choices=State, default=State.OPEN, db_default="open")
    first_by = models.ForeignKey(
        USER,
        null=True,
        on_delete=models.PROTECT,
        related_name="+",
        db_index=False,
        help_text="of a later round: who decided the first (by trigger)",
    )
    domain = models.ForeignKey(Domain, on_delete=models.PROTECT, related_name="+", db_index=False)
    branch = models.CharField(max_length=8, choices=SynthesisRun.Branch)
    style = models.CharField(max_length=14, choices=Sample.Style, blank=True)
    tier = models.CharField(max_length=6, choices=Sample.Tier, blank=True)
    rule = models.ForeignKey(Rule, null=True, on_delete=models.PROTECT, related_name="+", db_index=False)
    rule_version = models.ForeignKey(
        RuleVersion, null=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    calibration = models.BooleanField(
        default=False,
        db_default=False,
        help_text="refused by the judge and read all the same, to measure the judge; never enters a snapshot",
    )
    batch = models.ForeignKey(
        Batch, null=True, on_delete=models.PROTECT, related_name="items", db_index=False
    )
    assignment = models.ForeignKey(
        Assignment, null=True, on_delete=models.PROTECT, related_name="items", db_index=False
    )
    assigned_to = models.ForeignKey(
        USER, null=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    claimed_by = models.ForeignKey(
        USER, null=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    claimed_until = models.DateTimeField(null=True, help_text="by the database's clock")
    claim = models.UUIDField(null=True, help_text="names this claim; a decision must bring it")
    decided_by = models.ForeignKey(
        USER, null=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    decided_at = models.DateTimeField(null=True)
    takes = models.PositiveSmallIntegerField(default=0, db_default=0, help_text="decisions taken back")
    opened_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["rank", "id"]
        constraints = [
            models.UniqueConstraint(fields=["sample", "round"], name="one_item_a_round"),
            models.UniqueConstraint(fields=["sample", "decided_by"], name="one_round_a_reviewer"),
            models.UniqueConstraint(fields=["claim"], name="one_item_a_claim"),
            models.CheckConstraint(
                condition=Q(
                    state="claimed",
                    claimed_by__isnull=False,
                    claimed_until__isnull=False,
                    claim__isnull=False,
                )
                | (~Q(state="claimed") & Q(claimed_by__isnull=True, claimed_until__isnull=True)),
                name="claimed_by_somebody",
            ),
        ]
        # a claim rewrites a row and with it its entries of every index: those that are partial cost it nothing
        indexes = [
            models.Index(fields=["rank", "id"], condition=Q(state="open"), name="queue_open"),
            models.Index(
                fields=["domain", "style", "rank", "id"],
                condition=Q(state="open"),
                name="queue_open_in_domain",
            ),
            models.Index(fields=["rule", "rank", "id"], condition=Q(state="open"), name="queue_open_of_rule"),
            models.Index(
                fields=["assigned_to", "rank", "id"],
                condition=Q(state="open", assigned_to__isnull=False),
                name="queue_open_assigned",
            ),
            models.Index(
                fields=["rank", "id"],
                condition=Q(state="open", first_by__isnull=False),
                name="queue_open_again",
            ),
            models.Index(fields=["claimed_until"], condition=Q(state="claimed"), name="queue_leases"),
            models.Index(fields=["claimed_by"], condition=Q(state="claimed"), name="queue_claimed_by"),
            models.Index(
                fields=["decided_by", "decided_at"],
                condition=Q(decided_by__isnull=False),
                name="queue_decided_by",
            ),
            models.Index(fields=["batch", "state"], condition=Q(batch__isnull=False), name="queue_of_batch"),
            models.Index(
                fields=["state", "rank", "id"], condition=Q(calibration=True), name="queue_of_calibration"
            ),
            models.Index(
                fields=["assignment", "state"],
                condition=Q(assignment__isnull=False),
                name="queue_of_assignment",
            ),
        ]

    def __str__(self) -> str:
        return f"round {self.round} of sample {self.sample_id}"


class ReviewSkip(models.Model):
    """Who put an item off: it comes to them again after all others."""

    item = models.ForeignKey(ReviewItem, on_delete=models.CASCADE, related_name="skips")
    reviewer = models.ForeignKey(USER, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["item", "reviewer"], name="one_skip")]


class SecondShare(models.Model):
    """What share of first readings gets a blind second one; the most specific row counts, none means none."""

    domain = models.ForeignKey(Domain, null=True, on_delete=models.PROTECT, related_name="+")
    style = models.CharField(max_length=14, choices=Sample.Style, blank=True)
    share = models.FloatField(help_text="0 to 1")
    set_by = models.ForeignKey(USER, null=True, on_delete=models.PROTECT, related_name="+")
    set_at = Changed()

    class Meta:
        ordering = ["domain", "style"]
        constraints = [
            models.UniqueConstraint(
                fields=["domain", "style"], nulls_distinct=False, name="one_second_share"
            ),
            models.CheckConstraint(condition=Q(share__gte=0, share__lte=1), name="second_share_is_a_share"),
        ]

    def __str__(self) -> str:
        return f"{self.share:.0%} of {self.domain_id or 'all domains'} {self.style or 'all styles'}"


# What was decided, and what is to be written again because of it.


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
    at = models.DateTimeField(db_default=Now())

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
    at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["id"], condition=Q(state="waiting"), name="regenerations_waiting")]


# What people keep and say around the queue: saved views, comments, guidelines.


class SavedView(models.Model):
    """A named selection of a list page."""

    class Page(models.TextChoices):
        REVIEW = "review"
        SAMPLES = "samples"

    owner = models.ForeignKey(USER, on_delete=models.CASCADE, related_name="+")
    page = models.CharField(max_length=8, choices=Page)
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=1000, blank=True, help_text="the filters as in the address")
    shared = models.BooleanField(default=False)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["owner", "page", "name"], name="one_view_a_name")]

    def __str__(self) -> str:
        return self.name


class SampleComment(models.Model):
    """What somebody says about a sample; append-only."""

    sample = models.ForeignKey(Sample, on_delete=models.PROTECT, related_name="comments")
    author = models.ForeignKey(USER, on_delete=models.PROTECT, related_name="+")
    text = models.TextField()
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"comment {self.pk} on sample {self.sample_id}"


class Guideline(models.Model):
    """How to review, for a domain and style; every save is a new version, the highest counts."""

    domain = models.ForeignKey(Domain, null=True, on_delete=models.PROTECT, related_name="+")
    style = models.CharField(max_length=14, choices=Sample.Style, blank=True)
    number = models.PositiveIntegerField()
    text = models.TextField()
    examples = models.JSONField(default=list, help_text="[{verdict, query, trace, answer, why}]")
    author = models.ForeignKey(USER, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = [F("domain").asc(nulls_first=True), "style", "-number"]
        constraints = [
            models.UniqueConstraint(
                fields=["domain", "style", "number"], nulls_distinct=False, name="one_guideline_a_number"
            )
        ]

    def __str__(self) -> str:
        return f"guideline {self.domain_id or 'all'} {self.style} v{self.number}"
