"""When to train again: one policy a line of models, and what it decided."""

from django.conf import settings
from django.db import models

from training.models.runs import Run


class RetrainPolicy(models.Model):
    """Builds a snapshot and trains a cell on it when enough has changed and then been quiet for a while."""

    name = models.CharField(max_length=100, unique=True)
    active = models.BooleanField(default=False, help_text="off: it says what it would do, a person starts it")
    base = models.CharField(max_length=300)
    format = models.CharField(max_length=1, choices=Run.Format)
    memo = models.CharField(max_length=4, choices=Run.Memo)
    retrieval = models.CharField(max_length=4, choices=Run.Retrieval)
    recipe = models.JSONField(default=dict, help_text="empty: the base's default recipe")
    seed = models.BigIntegerField(default=0)
    snapshot = models.JSONField(
        default=dict, help_text="how the snapshot is built: strategy, per_rule, branches, rrb, seed"
    )
    approved_samples = models.PositiveIntegerField(default=50, help_text="0: never by this")
    changed_rules = models.PositiveIntegerField(default=1, help_text="0: never by this")
    quiet_minutes = models.PositiveIntegerField(default=30)
    changed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return self.name


class Retraining(models.Model):
    """Append-only: a run that a policy started, and why."""

    policy = models.ForeignKey(RetrainPolicy, on_delete=models.PROTECT, related_name="retrainings")
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="retrainings")
    reasons = models.JSONField(help_text="approved samples, changed rules, since which run")
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="who started it by hand; empty when the policy did",
    )
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.policy_id} -> {self.run_id}"
