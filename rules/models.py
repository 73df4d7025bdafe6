"""A rule is an identity; what it says lives in immutable versions."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models

from catalog.models import Domain, Tool


class Rule(models.Model):
    code = models.CharField(max_length=80)
    domain = models.ForeignKey(Domain, on_delete=models.PROTECT, related_name="rules")
    published = models.ForeignKey("RuleVersion", null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["domain", "code"]
        constraints = [models.UniqueConstraint(fields=["domain", "code"], name="one_code_per_domain")]

    def __str__(self) -> str:
        return self.code


class RuleVersion(models.Model):
    """What a rule says; a database trigger refuses UPDATE and DELETE. T(r) = {target} + confusables (paper 3.1)."""

    rule = models.ForeignKey(Rule, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    target = models.ForeignKey(Tool, on_delete=models.PROTECT, related_name="+")
    confusable_ids = ArrayField(
        models.BigIntegerField(), help_text="ids of catalog.Tool; tools are never deleted"
    )
    text = models.TextField()
    clauses = models.JSONField(default=list, help_text="[{when, route_to, exception, signals}]")
    tests = models.JSONField(default=list, help_text="[{query, tools}]")
    content_hash = models.CharField(max_length=64)
    note = models.CharField(max_length=300, blank=True)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["rule", "-number"]
        indexes = [GinIndex(fields=["confusable_ids"])]
        constraints = [models.UniqueConstraint(fields=["rule", "number"], name="one_rule_version")]

    def __str__(self) -> str:
        return f"{self.rule} v{self.number}"

    @property
    def tool_ids(self) -> list[int]:
        """T(r) as ids, target first."""
        return [self.target_id, *self.confusable_ids]
