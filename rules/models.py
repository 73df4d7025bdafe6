"""A rule is an identity; what it says lives in immutable versions."""

from typing import cast

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models.functions import Now

from catalog.models import Domain, TokenUnit, Tool
from rules.core.reading import Stance
from rules.core.text_clauses import TextClause
from trace_site.database import Changed


class Rule(models.Model):
    code = models.CharField(max_length=80)
    domain = models.ForeignKey(Domain, on_delete=models.PROTECT, related_name="rules")
    published = models.ForeignKey("RuleVersion", null=True, on_delete=models.PROTECT, related_name="+")
    waits = models.BooleanField(
        default=False,
        help_text="its clauses decide only once a model has learned them, not from publication on",
    )
    created_at = models.DateTimeField(db_default=Now())

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
    created_at = models.DateTimeField(db_default=Now())

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


class RuleReading(models.Model):
    """Which pairs of a version's set its words tell apart. The newest of a version counts; rows are never changed:
    the reading (`core/pairs.py`) writes the first, and each correction of a person the next."""

    version = models.ForeignKey(RuleVersion, on_delete=models.PROTECT, related_name="readings")
    number = models.PositiveIntegerField()
    reader = models.PositiveSmallIntegerField(help_text="edition of the reading that found the pairs")
    said = models.JSONField(
        help_text="[{tool, kind, firm, pointer, start, end}], what the version says of a tool, by its id"
    )
    pairs = models.JSONField(
        help_text="[[tool, tool, apart | named | unnamed, place in said, place in said]] as read"
    )
    corrections = models.JSONField(
        default=list, help_text="[{pair, apart, reason, author, at}] that are in force"
    )
    apart = models.JSONField(
        help_text="[[tool, tool]] that count as told apart, corrections included; the smaller id first"
    )
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["version", "number"], name="one_reading_number")]


class RuleClause(models.Model):
    """A clause of a rule's text (`core/text_clauses.py`) and the token that it keeps, whichever versions have it; rows
    are never changed. It is in force while its token is active."""

    rule = models.ForeignKey(Rule, on_delete=models.PROTECT, related_name="text_clauses")
    number = models.PositiveIntegerField(help_text="within the rule, over all its versions")
    token = models.OneToOneField(TokenUnit, on_delete=models.PROTECT, related_name="clause")
    text = models.TextField(help_text="as it stands in the rule")
    stance = models.CharField(
        max_length=6, help_text="use, tells, limits: leads to its tools; not, dead: away"
    )
    tools = ArrayField(models.CharField(max_length=400), help_text="names; tools are never renamed")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["rule", "number"]
        constraints = [models.UniqueConstraint(fields=["rule", "number"], name="one_clause_number")]

    @property
    def clause(self) -> TextClause:
        return TextClause(self.text, cast(Stance, self.stance), tuple(self.tools))


class RuleHealth(models.Model):
    """What the checks say about the version people work on; kept so that lists never check 5,000 rules."""

    class Light(models.TextChoices):
        OK = "ok"
        WARNING = "warning"
        ERROR = "error"

    rule = models.OneToOneField(Rule, primary_key=True, on_delete=models.CASCADE, related_name="health")
    version = models.ForeignKey(RuleVersion, on_delete=models.CASCADE, related_name="+")
    light = models.CharField(max_length=7, choices=Light)
    findings = models.JSONField(
        default=list, help_text="[{code, level, sentence, fix, other, place: {pointer, start, end}, path}]"
    )
    words = models.TextField(
        default="", help_text="code, target and text, casefolded: what the list of rules is searched in"
    )
    checked_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["light"])]

    @property
    def state(self) -> str:
        if self.rule.published_id is None:
            return "draft"
        return "published" if self.rule.published_id == self.version_id else "changed"

    @property
    def findings_label(self) -> str:
        return f"{len(self.findings)} finding{'s' if len(self.findings) > 1 else ''}"


class ChangeRequest(models.Model):
    """One or several rule changes that are reviewed, approved and applied together.

    draft -> in_review -> approved -> scheduled -> applied | rejected | cancelled. Every edit raises `revision`;
    an approval names the revision it read, so an edit clears approvals.
    """

    class State(models.TextChoices):
        DRAFT = "draft"
        IN_REVIEW = "in_review", "in review"
        APPROVED = "approved"
        SCHEDULED = "scheduled"
        APPLIED = "applied"
        REJECTED = "rejected"
        CANCELLED = "cancelled"

    title = models.CharField(max_length=200)
    description = models.TextField(blank=True, help_text="why the rules change, for the person who approves")
    state = models.CharField(max_length=10, choices=State, default=State.DRAFT)
    revision = models.PositiveIntegerField(default=1)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    editor_ids = ArrayField(
        models.BigIntegerField(),
        default=list,
        help_text="everybody who wrote in it; none of them may approve",
    )
    reason = models.TextField(blank=True, help_text="why it was rejected, cancelled or applied unreviewed")
    apply_at = models.DateTimeField(null=True)
    blocked = models.TextField(blank=True, help_text="why a scheduled request could not be applied")
    bypassed = models.BooleanField(default=False, help_text="applied without the approval it needed")
    applied_at = models.DateTimeField(null=True)
    applied_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField(db_default=Now())
    updated_at = Changed()

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["state", "-id"])]
        permissions = [("bypass_review", "Can apply a change request that nobody approved")]

    def __str__(self) -> str:
        return f"change request {self.pk}: {self.title}"


State = ChangeRequest.State
OPEN = frozenset({State.DRAFT, State.IN_REVIEW, State.APPROVED, State.SCHEDULED})  # may still be applied


class RuleChange(models.Model):
    """What a request does to one rule. While the request is a draft, `content` is whatever was typed so far."""

    class Action(models.TextChoices):
        SAVE = "save", "publish a version"
        WITHDRAW = "withdraw"

    request = models.ForeignKey(ChangeRequest, on_delete=models.CASCADE, related_name="changes")
    action = models.CharField(max_length=8, choices=Action, default=Action.SAVE)
    rule = models.ForeignKey(Rule, null=True, on_delete=models.PROTECT, related_name="changes")
    domain = models.CharField(max_length=60, blank=True, help_text="of a new rule; empty means the target's")
    code = models.CharField(
        max_length=80, blank=True, help_text="of a new rule; empty means made from its target"
    )
    content = models.JSONField(
        default=dict, help_text="{target, confusables, text, clauses, tests}, by tool name"
    )
    note = models.CharField(max_length=300, blank=True)
    base = models.ForeignKey(
        RuleVersion,
        null=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="the version it began from",
    )
    base_published = models.ForeignKey(
        RuleVersion,
        null=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="the version that was published when it began",
    )
    revision = models.PositiveIntegerField(default=1, help_text="rises with every save; what If-Match names")
    edited_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    edited_at = Changed()
    version = models.ForeignKey(
        RuleVersion,
        null=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="what it became when applied",
    )

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["request", "rule"], condition=models.Q(rule__isnull=False), name="one_change_per_rule"
            )
        ]


class Approval(models.Model):
    """A reviewer's word on one revision of a request; append-only."""

    class Verdict(models.TextChoices):
        APPROVE = "approve"
        REJECT = "reject"

    request = models.ForeignKey(ChangeRequest, on_delete=models.PROTECT, related_name="approvals")
    revision = models.PositiveIntegerField()
    verdict = models.CharField(max_length=7, choices=Verdict)
    comment = models.TextField(blank=True)
    reviewer = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["request", "revision", "reviewer"], name="one_word_per_revision")
        ]


class ChangeComment(models.Model):
    """Talk beside a request; append-only."""

    request = models.ForeignKey(ChangeRequest, on_delete=models.PROTECT, related_name="comments")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    text = models.TextField()
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["id"]


class RuleSuggestion(models.Model):
    """A draft rule that the catalog or failing requests call for; never published by itself.

    A dismissed one stays, and keeps its pairs from being proposed, until the text of one of its tools changes.
    """

    class Kind(models.TextChoices):
        DEPRECATED = "deprecated"
        TWIN = "twin", "version twin"
        LINE = "line", "product line"
        CONDITION = "condition"
        FAILURES = "failures"

    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="suggestions")
    key = models.CharField(max_length=64, help_text="hash of kind and set")
    kind = models.CharField(max_length=10, choices=Kind)
    target = models.ForeignKey(Tool, on_delete=models.CASCADE, related_name="+")
    confusable_ids = ArrayField(models.BigIntegerField())
    score = models.FloatField(help_text="0..1: how surely somebody would want this rule")
    why = models.TextField()
    content = models.JSONField(help_text="{target, confusables, text, clauses, tests}, by tool name")
    evidence = models.JSONField(help_text="[{tool, text, marks}]: words of descriptions, with places in them")
    failures = models.JSONField(default=list, help_text="[{query, wanted, chosen}]: requests that went wrong")
    texts = models.CharField(max_length=64, help_text="hash of what its tools' descriptions said")
    writer = models.CharField(max_length=120, default="words", help_text="who worded it: `words` or a model")
    doubt = models.TextField(blank=True, help_text="why a language model would write no such rule")
    dismissed_reason = models.TextField(blank=True)
    dismissed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    dismissed_at = models.DateTimeField(null=True)
    found_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-score", "id"]
        indexes = [models.Index(fields=["domain", "-score", "id"])]
        constraints = [models.UniqueConstraint(fields=["domain", "key"], name="one_suggestion_per_set")]

    def __str__(self) -> str:
        return f"{self.get_kind_display()}: {self.content['target']}"

    @property
    def tool_ids(self) -> list[int]:
        """T(r) of the rule it would be, the target first."""
        return [self.target_id, *self.confusable_ids]
