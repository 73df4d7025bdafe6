"""What was asked of language models: prompts by hash, replies by content, and the ledger of calls."""

from django.db import models
from django.db.models.functions import Now

from trace_site.jobs import Job


class PromptVersion(models.Model):
    """The text of every prompt that ever made something, by its hash: what a changed prompt is compared with."""

    hash = models.CharField(max_length=64, primary_key=True)
    name = models.CharField(max_length=40)
    source = models.TextField()
    first_used = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-first_used"]

    def __str__(self) -> str:
        return f"{self.name} {self.hash[:8]}"


class ModelReply(models.Model):
    """Valid answers by content key: what has been paid once is not asked again."""

    key = models.CharField(
        max_length=64, unique=True, help_text="hash of model, messages, schema and parameters"
    )
    purpose = models.CharField(max_length=20)
    model = models.CharField(max_length=200)
    prompt_hash = models.CharField(max_length=64)
    response = models.JSONField()
    prompt_tokens = models.PositiveIntegerField(default=0)
    completion_tokens = models.PositiveIntegerField(default=0)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "model replies"

    def __str__(self) -> str:
        return f"{self.purpose} {self.key[:8]}"


class ModelCall(models.Model):
    """The ledger: one row per HTTP exchange, committed before it is sent and again before its answer is used.

    A row still `sent` whose job is not running was lost with its process: sent, perhaps paid, never read.
    """

    class State(models.TextChoices):
        SENT = "sent"
        ANSWERED = "answered"
        FAILED = "failed"

    uid = models.UUIDField(
        unique=True, help_text="sent as X-Client-Request-Id: the endpoint's own books name it"
    )
    key = models.CharField(max_length=64, help_text="content key of what was asked")
    purpose = models.CharField(max_length=20)
    endpoint = models.CharField(max_length=200)
    model = models.CharField(max_length=200)
    prompt_hash = models.CharField(max_length=64)
    state = models.CharField(max_length=8, choices=State, default=State.SENT)
    error_code = models.CharField(max_length=60, blank=True)
    prompt_tokens = models.PositiveIntegerField(default=0)
    completion_tokens = models.PositiveIntegerField(default=0)
    cost = models.FloatField(default=0.0, help_text="in the currency of the endpoint's prices")
    seconds = models.FloatField(default=0.0)
    job = models.ForeignKey(Job, null=True, on_delete=models.PROTECT, related_name="+")
    sent_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["job", "state"], name="synthesis_m_job_id_state")]

    def __str__(self) -> str:
        return f"{self.purpose} {self.uid}"
