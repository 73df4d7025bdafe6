"""What people keep and say around the queue: saved views, comments, guidelines."""

from django.conf import settings
from django.db import models
from django.db.models import F

from catalog.models import Domain
from synthesis.models.samples import Sample

USER = settings.AUTH_USER_MODEL


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
    at = models.DateTimeField(auto_now_add=True)

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
    at = models.DateTimeField(auto_now_add=True)

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
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = [F("domain").asc(nulls_first=True), "style", "-number"]
        constraints = [
            models.UniqueConstraint(
                fields=["domain", "style", "number"], nulls_distinct=False, name="one_guideline_a_number"
            )
        ]

    def __str__(self) -> str:
        return f"guideline {self.domain_id or 'all'} {self.style} v{self.number}"
