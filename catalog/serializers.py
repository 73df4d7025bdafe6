"""What the API reads and answers about tools, domains and clusters."""

from datetime import datetime
from typing import Any, Literal

from catalog.core.tokens import FORMATS, tool_units
from catalog.models import Cluster, Domain, Tool, ToolRevision
from catalog.search import RANKED
from catalog.selectors import pair_reasons
from catalog.services import LONGEST_REASON
from trace_site.rest.schema import InputSerializer
from trace_site.rest.shapes import Shape, field

YES_NO = ["yes", "no"]


class ToolsIn(InputSerializer):
    """Filters of the list of tools; what is left out narrows nothing."""

    q: str = field("words of the name or the description", default="", max_length=200)
    domain: str = field(default="", max_length=60)
    api: str = field("an API's whole name, or how it begins", default="", max_length=400)
    state: Literal["current", "deprecated", "retired", "all"] = field(
        "active tools unless said otherwise", default="", allow_blank=True
    )
    clustered: str = field("inside a cluster", default="", allow_blank=True, choices=YES_NO)
    ruled: str = field("held by a published rule", default="", allow_blank=True, choices=YES_NO)


class DomainIn(InputSerializer):
    domain: str = field(default="", max_length=60)


class ToolRow(Shape, of=Tool):
    fields = (
        "id name api endpoint family api_version description domain permissions deprecated version status cluster "
        "source"
    )
    family: str = field("the API's name without its version")
    api_version: int | None = field("the version in the API's name; sorts by age")
    permissions: list[str]
    blocked: bool = field("an admin blocked it: no answer names it")

    def get_blocked(self, tool: Tool) -> bool:
        return tool.blocked_at is not None


class ToolPage(Shape):
    results: list[ToolRow] = field(source="page.rows")
    next: str | None = field("what ?after= takes; null on the last page", source="page.next_key")
    total: int = field("matching tools")
    more: bool = field(f"a search matched more than {RANKED}; they are listed by name")
    meant: dict[str, list[str]] = field(
        "words that were searched for beside a typed one, when few tools matched"
    )


class BlockIn(InputSerializer):
    because: str = field("why; kept in the audit log", max_length=LONGEST_REASON)


class ToolDetail(ToolRow, of=Tool):
    fields = "blocked_at blocked_by blocked_because content_hash created_at updated_at"
    blocked_at: datetime | None = field("since when no answer may name it")
    tokens: dict[str, str] = field("the tokens that name the tool, by token format")

    def get_tokens(self, tool: Tool) -> dict[str, str]:
        return {fmt: "".join(tool_units(tool.name, fmt)) for fmt in FORMATS}


class NeighbourOut(Shape):
    score: float = field("cosine")
    tool: ToolRow


class NeighbourList(Shape):
    results: list[NeighbourOut]


class TwinOut(Shape):
    newer: bool = field("a newer version than the tool's own")
    tool: ToolRow


class TwinList(Shape):
    results: list[TwinOut]


class RevisionOut(Shape, of=ToolRevision):
    fields = "id at content_hash data undo_of"
    data: dict[str, Any]
    imported_by: int | None = field("an import", source="catalog_import_id")
    undo_of: int | None = field("the import whose undoing brought this content back", source="undo_of_id")


class DomainOut(Shape, of=Domain):
    fields = "slug title"
    active: int = field("tools")
    deprecated: int = field("of the active ones")
    retired: int


class ClusterOut(Shape, of=Cluster):
    fields = "id label mean_similarity dismissed_reason dismissed_by"
    domain: str = field(source="clustering.domain_id")
    clustering: int = field("version of the clustering", source="clustering.version")
    tools: list[int] = field(source="tool_ids")
    edges: list[list[float]] = field("[tool, tool, cosine]")
    reasons: list[list[str]] = field("of each edge: why the two are look-alikes, in words")

    def get_edges(self, cluster: Cluster) -> list[list[float]]:
        return [edge[:3] for edge in cluster.edges]

    def get_reasons(self, cluster: Cluster) -> list[list[str]]:
        return pair_reasons(cluster)
