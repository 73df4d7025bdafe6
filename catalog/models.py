"""Tools and what is derived from them: revisions, embeddings, neighbours, clusters, tokens, labelled queries."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVector, SearchVectorField
from django.db import models
from django.db.models.functions import Now
from pgvector.django import VectorField

from catalog.core.tokens import CLAUSES
from trace_site.database import Changed


class Domain(models.Model):
    slug = models.SlugField(primary_key=True, max_length=60)
    title = models.CharField(max_length=100)

    class Meta:
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.title


class Tool(models.Model):
    class Status(models.TextChoices):
        ACTIVE = "active"
        RETIRED = "retired"

    name = models.CharField(max_length=400, unique=True)
    api = models.CharField(max_length=300, db_index=True)
    endpoint = models.CharField(max_length=300)
    description = models.TextField()
    domain = models.ForeignKey(Domain, on_delete=models.PROTECT, related_name="tools")
    permissions = models.JSONField(default=list)
    deprecated = models.BooleanField(default=False)
    version = models.CharField(max_length=60, blank=True)
    family = models.CharField(max_length=300, blank=True, help_text="the API's name without its version")
    api_version = models.BigIntegerField(null=True, help_text="the version in the API's name; sorts by age")
    source = models.CharField(max_length=300, blank=True)
    status = models.CharField(max_length=8, choices=Status, default=Status.ACTIVE)
    content_hash = models.CharField(max_length=64)
    cluster = models.ForeignKey(
        "Cluster",
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="its place in the domain's newest clustering",
    )
    words = models.TextField(help_text="the name split into words, for search")
    search = models.GeneratedField(
        expression=SearchVector("words", "description", config="english"),
        output_field=SearchVectorField(),
        db_persist=True,
    )
    embedding = VectorField(null=True)
    embedding_key = models.CharField(max_length=64, blank=True, help_text="hash of encoder and embedded text")
    blocked_at = models.DateTimeField(null=True, help_text="since when no answer may name it")
    blocked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    blocked_because = models.CharField(max_length=300, blank=True, default="", db_default="")
    created_at = models.DateTimeField(db_default=Now())
    updated_at = Changed()

    class Meta:
        ordering = ["name"]
        indexes = [
            GinIndex(fields=["search"]),
            models.Index(fields=["domain", "status", "name"]),
            models.Index(fields=["family", "endpoint"]),
            # every filter of the list is counted from this index alone
            models.Index(
                fields=["status", "domain", "deprecated", "cluster"],
                include=["id"],
                name="catalog_tool_counts",
            ),
            models.Index(
                fields=["status"], condition=models.Q(embedding_key=""), name="catalog_tool_unembedded"
            ),
            models.Index(
                fields=["name"],
                condition=models.Q(status="retired") | models.Q(blocked_at__isnull=False),
                name="catalog_tool_masked",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class CatalogImport(models.Model):
    """One applied import: what file, what it changed, and what undoing it needs."""

    filename = models.CharField(max_length=300)
    format = models.CharField(max_length=20)
    domain = models.ForeignKey(Domain, on_delete=models.PROTECT, related_name="imports")
    digest = models.CharField(max_length=64)
    licence = models.CharField(
        max_length=100,
        blank=True,
        default="",
        db_default="",
        help_text="SPDX identifier or a few words; empty: not recorded",
    )
    counts = models.JSONField()
    retired_ids = ArrayField(
        models.BigIntegerField(), default=list, help_text="tools the file no longer held"
    )
    returned_ids = ArrayField(
        models.BigIntegerField(), default=list, help_text="retired tools it brought back"
    )
    undone_at = models.DateTimeField(null=True)
    undone_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.filename} into {self.domain_id}"


class ToolRevision(models.Model):
    """Every content a tool ever had; append-only."""

    tool = models.ForeignKey(Tool, on_delete=models.PROTECT, related_name="revisions")
    content_hash = models.CharField(max_length=64)
    data = models.JSONField()
    catalog_import = models.ForeignKey(
        CatalogImport, null=True, on_delete=models.PROTECT, related_name="revisions"
    )
    undo_of = models.ForeignKey(
        CatalogImport,
        null=True,
        on_delete=models.PROTECT,
        related_name="undo_revisions",
        help_text="the import whose undoing brought this content back",
    )
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-id"]


class CatalogWord(models.Model):
    """A word of some tool's name or description: what a misspelt search is compared with. Never taken away."""

    word = models.CharField(primary_key=True, max_length=60)
    trigrams = ArrayField(models.CharField(max_length=3))

    class Meta:
        indexes = [GinIndex(fields=["trigrams"])]


class NeighbourList(models.Model):
    """H_K(t): the K nearest tools by cosine, best first, ties by name (paper, appendix B)."""

    tool = models.OneToOneField(
        Tool, primary_key=True, on_delete=models.CASCADE, related_name="neighbour_list"
    )
    neighbour_ids = ArrayField(models.BigIntegerField())
    scores = ArrayField(models.FloatField())
    embedding_key = models.CharField(
        max_length=64, default="", db_default="", help_text="of the tool when the list was found"
    )
    other_ids = ArrayField(
        models.BigIntegerField(),
        null=True,
        help_text="the nearest newest versions of other operations; null: the tool is an older version",
    )
    other_scores = ArrayField(models.FloatField(), null=True)


class Clustering(models.Model):
    """A frozen version of a domain's confusable clusters, with what it was made with."""

    domain = models.ForeignKey(Domain, on_delete=models.PROTECT, related_name="clusterings")
    version = models.PositiveIntegerField()
    tau = models.FloatField(
        null=True, help_text="the least cosine of an edge, in versions that were found by it alone"
    )
    algorithm = models.CharField(max_length=60)
    params = models.JSONField(default=dict)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["domain", "-version"]
        constraints = [models.UniqueConstraint(fields=["domain", "version"], name="one_clustering_version")]

    def __str__(self) -> str:
        return f"{self.domain_id} clustering v{self.version}"


class Cluster(models.Model):
    clustering = models.ForeignKey(Clustering, on_delete=models.CASCADE, related_name="clusters")
    position = models.PositiveIntegerField()
    label = models.CharField(max_length=200)
    tool_ids = ArrayField(models.BigIntegerField())
    edges = models.JSONField(
        help_text="[[tool id, tool id, cosine, weight, signals], ...]; versions with a tau have no weight and signals"
    )
    mean_similarity = models.FloatField()
    dismissed_reason = models.TextField(blank=True)
    dismissed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    dismissed_at = models.DateTimeField(null=True)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="who is to write what tells its tools apart",
    )
    due = models.DateField(null=True, help_text="by when; only with an owner")

    class Meta:
        ordering = ["clustering", "position"]
        indexes = [GinIndex(fields=["tool_ids"])]

    def __str__(self) -> str:
        return self.label


class TokenUnit(models.Model):
    """The token ledger: one permanent slot for every string that becomes one added token."""

    class Family(models.TextChoices):
        FLAT = "flat"
        PART = "part"
        WRAP = "wrap"
        CLAUSE = CLAUSES

    class State(models.TextChoices):
        ACTIVE = "active"
        RETIRED = "retired"

    family = models.CharField(max_length=6, choices=Family)
    slot = models.PositiveIntegerField()
    string = models.CharField(max_length=700)
    state = models.CharField(max_length=8, choices=State, default=State.ACTIVE)

    class Meta:
        ordering = ["family", "slot"]
        constraints = [
            models.UniqueConstraint(fields=["family", "slot"], name="one_unit_per_slot"),
            models.UniqueConstraint(fields=["family", "string"], name="one_slot_per_string"),
        ]

    def __str__(self) -> str:
        return self.string


class LabelledQuery(models.Model):
    """A query with its gold tools. Benchmarks, few-shot seeds and imports share this registry so they stay disjoint."""

    class Use(models.TextChoices):
        FEW_SHOT = "few_shot", "few-shot"
        BENCHMARK = "benchmark"
        IMPORT = "import"

    collection = models.CharField(max_length=100)
    use = models.CharField(max_length=10, choices=Use)
    text = models.TextField()
    text_key = models.CharField(max_length=64, db_index=True, help_text="hash of the normalised words")
    tools = models.JSONField(help_text="gold tool names")
    source = models.CharField(max_length=200, blank=True)
    extra = models.JSONField(default=dict)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["collection", "text_key", "tools"], name="one_query_per_collection"
            )
        ]

    def __str__(self) -> str:
        return self.text[:80]
