"""Models with their lineage, and the append-only history of aliases."""

from django.conf import settings
from django.db import models

from training.models.runs import Run


class Model(models.Model):
    """A trained model in the artefact store, with the run it came from."""

    run = models.OneToOneField(Run, on_delete=models.PROTECT, related_name="model")
    store_key = models.CharField(max_length=200)
    store_digest = models.CharField(max_length=64)
    bytes = models.BigIntegerField()
    parameters = models.BigIntegerField(default=0)
    card = models.TextField(blank=True)
    lineage = models.JSONField(
        default=dict, help_text="snapshot, rules, base, recipe and code revision it was made from"
    )
    kept_because = models.CharField(
        max_length=300, blank=True, db_default="", default="", help_text="why retention must not remove it"
    )
    removed_at = models.DateTimeField(null=True, help_text="when retention removed its files")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"model {self.pk}"


class AliasMove(models.Model):
    """Append-only: the newest row of an alias says which model it names."""

    class Alias(models.TextChoices):
        CHAMPION = "champion"
        CHALLENGER = "challenger"
        PREVIOUS = "previous"

    alias = models.CharField(max_length=10, choices=Alias)
    model = models.ForeignKey(Model, on_delete=models.PROTECT, related_name="alias_moves")
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    note = models.CharField(max_length=300, blank=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.alias} -> {self.model_id}"
