"""/api/v1/imports: a catalog file in, what it would do or did, and undo."""

import json
from typing import Any

from django.core.files.base import ContentFile
from django.urls import path
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from catalog import selectors
from catalog.core.importers.detect import FORMATS
from catalog.core.tool import RowError
from catalog.imports.previews import applied_import, file_import, preview_of
from catalog.imports.services import import_undo, undo_plan
from catalog.models import CatalogImport, Tool
from catalog.serializers import DomainIn
from trace_site.impact import Impact
from trace_site.lib.errors import TraceError
from trace_site.rest.schema import InputSerializer, page_of
from trace_site.rest.shapes import Shape, field
from trace_site.rest.views import ApiView, keyset_response

NOTES = "what is no tool by design, and texts that were left out or made"


class ImportIn(InputSerializer):
    """`content` or, in a form, `file`."""

    domain: str = field(max_length=60)
    content: Any = field("the file's text; a JSON document may stand here as it is", required=False)
    file = serializers.FileField(required=False, help_text="only in a form")
    filename: str = field("the name people know the file by", required=False, max_length=200)
    format: str = field(default="auto", choices=["auto", *FORMATS])
    licence: str = field("SPDX identifier or a few words", default="", max_length=100)
    api_name: str = field("what its API is called here; empty: its title", default="", max_length=300)
    dry_run: bool = field("answer what it would do, write nothing", default=False)
    skip_bad_rows: bool = field("else one bad row refuses the file", default=False)
    plan: str = field("of a dry run: refuse to do anything else", default="", max_length=200)


class FieldChangeOut(Shape):
    field: str
    before: Any
    after: Any


class ChangedOut(Shape):
    id: int = field(source="tool.pk")
    name: str = field(source="tool.name")
    changes: list[FieldChangeOut]


class NamedTool(Shape, of=Tool):
    fields = "id name"


class SkippedOut(Shape, of=RowError):
    pass


class ImpactOut(Shape, of=Impact):
    fields = "name count label"
    label: str = field("read after the count")


class CountsOut(Shape):
    added: int = field("the returning ones count too", default=0)
    changed: int = 0
    unchanged: int = 0
    removed: int = field("retired: the file no longer holds them", default=0)
    deprecated: int = field("that become deprecated", default=0)
    returned: int = field("retired before, active again", default=0)
    skipped: int = 0


class AppliedOut(Shape):
    added: list[NamedTool]
    changed: list[ChangedOut]
    returned: list[NamedTool]
    retired: list[NamedTool]


class AddedOut(Shape):
    name: str
    description: str


class PreviewOut(Shape):
    """The first 200 of every kind; `counts` has them all."""

    plan: str = field(source="result.plan")
    format: str = field(source="result.format")
    domain: str = field(source="result.domain")
    counts: CountsOut
    versions: list[str] = field("new versions of known APIs, a sentence each", source="result.versions")
    added: list[AddedOut]
    changed: list[ChangedOut]
    returning: list[str]
    removed: list[NamedTool]
    deprecated: list[str]
    skipped: list[SkippedOut]
    notes: list[SkippedOut] = field(NOTES)
    impact: list[ImpactOut] = field("what would turn stale")


class ImportRow(Shape, of=CatalogImport):
    fields = "id filename format domain digest licence counts actor at undone_at undone_by"
    licence: str = field("SPDX identifier or a few words; empty: not recorded")
    counts: CountsOut
    versions: list[str] = field(
        "new versions of known APIs, a sentence each", source="counts.versions", default=list
    )


class ImportDetail(ImportRow):
    """With what it did: the first 200 tools of every kind."""

    errors: list[str] = field("the skipped rows", source="counts.errors", default=list)
    notes: list[str] = field(NOTES, source="counts.notes", default=list)
    done: AppliedOut

    @extend_schema_field(AppliedOut)
    def get_done(self, row: CatalogImport) -> Any:
        return AppliedOut(applied_import(row)).data


class UndoOut(Shape):
    """What undoing would do, as ids of tools; `reasons` says why it is refused, if it is."""

    retire: list[int]
    restore: list[int] = field(source="changed")
    bring_back: list[int]
    reasons: list[str]
    impact: list[ImpactOut] = field("what uses these tools now")


class ImportsList(ApiView):
    parser_classes = [*ApiView.parser_classes, MultiPartParser]

    @extend_schema(parameters=[DomainIn], responses=page_of(ImportRow))
    def get(self, request: Request) -> Response:
        """List imports. Every applied file, newest first, undone ones too."""
        rows, domain = selectors.imports(), self.read_query(DomainIn)["domain"]
        return keyset_response(
            request, rows.filter(domain=domain) if domain else rows, ImportRow, newest=True
        )

    @extend_schema(
        request={"application/json": ImportIn, "multipart/form-data": ImportIn},
        responses={
            200: OpenApiResponse(PreviewOut, description="what a dry run would do"),
            201: OpenApiResponse(ImportDetail, description="the import is applied"),
        },
    )
    def post(self, request: Request) -> Response:
        """Import a catalog file. The file as JSON (`content`, its text) or as a form (`file`). All of it
        happens in one transaction. Tools of the file's APIs that the file no longer holds are retired. A bad
        row refuses the whole file unless `skip_bad_rows`. With `dry_run` nothing is written; send the `plan`
        it answers to have exactly that applied, or `stale_preview` when the catalog changed meanwhile.
        """
        given = self.read(ImportIn)
        file, fmt = _file(given), given.pop("format")
        result = file_import(file, fmt=fmt, actor=request.user, **given)
        if result.catalog_import is None:
            return Response(PreviewOut(preview_of(result)).data)
        row = selectors.import_row(result.catalog_import.pk)
        return Response(ImportDetail(row).data, status=201, headers={"Location": f"/api/v1/imports/{row.pk}"})


def _file(given: dict[str, Any]) -> Any:
    """The bytes with their name; takes `content`, `file` and `filename` out of what was given."""
    content, file, name = given.pop("content", None), given.pop("file", None), given.pop("filename", "")
    if (content is None) == (file is None):
        raise TraceError(
            "the request has no file, or two.",
            code="bad_input",
            where="/content",
            hint="Send `content` in JSON, or the part `file` of a form.",
        )
    if file is None:
        if isinstance(content, str):
            return ContentFile(content.encode(), name=name or "content")
        return ContentFile(json.dumps(content, ensure_ascii=False).encode(), name=name or "content.json")
    file.name = name or file.name
    return file


class ImportOne(ApiView):
    @extend_schema(responses=ImportDetail)
    def get(self, request: Request, pk: int) -> Response:
        """Read an import. What it did, and whether it was undone."""
        return Response(ImportDetail(selectors.import_row(pk)).data)


class ImportUndo(ApiView):
    operation_ids = {"get": "import_undo_plan"}

    @extend_schema(responses=UndoOut)
    def get(self, request: Request, pk: int) -> Response:
        """What undoing an import would do."""
        return Response(UndoOut(undo_plan(selectors.import_row(pk))).data)

    @extend_schema(responses=ImportDetail)
    def post(self, request: Request, pk: int) -> Response:
        """Undo an import. Every tool it touched goes back to what it was; tools it added are retired. Refused
        while later imports or rules stand on it, and when it is undone already.
        """
        import_undo(row=selectors.import_row(pk), actor=request.user)
        return Response(ImportDetail(selectors.import_row(pk)).data)


urlpatterns = [
    path("imports", ImportsList.as_view(), name="api-imports"),
    path("imports/<int:pk>", ImportOne.as_view(), name="api-import"),
    path("imports/<int:pk>/undo", ImportUndo.as_view(), name="api-import-undo"),
]
