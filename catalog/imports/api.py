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

from catalog import examples, selectors
from catalog.core.importers.detect import FORMATS
from catalog.imports.previews import applied_import, file_import, preview_of
from catalog.imports.services import import_undo, undo_plan
from catalog.models import CatalogImport, Tool
from catalog.serializers import DomainIn
from trace_site.lib.errors import TraceError
from trace_site.rest.examples import AT, answer_example, page_example, request_example
from trace_site.rest.schema import InputSerializer, TextList, page_of
from trace_site.rest.views import ApiView, keyset_response

Out = serializers.Serializer[Any]
NOTES = "what is no tool by design, and texts that were left out or made"


class ImportIn(InputSerializer):
    """`content` or, in a form, `file`."""

    domain = serializers.CharField(max_length=60)
    content = serializers.JSONField(
        required=False, help_text="the file's text; a JSON document may stand here as it is"
    )
    file = serializers.FileField(required=False, help_text="only in a form")
    filename = serializers.CharField(
        required=False, max_length=200, help_text="the name people know the file by"
    )
    format = serializers.ChoiceField(["auto", *FORMATS], default="auto")
    licence = serializers.CharField(
        default="", allow_blank=True, max_length=100, help_text="SPDX identifier or a few words"
    )
    api_name = serializers.CharField(
        default="",
        allow_blank=True,
        max_length=300,
        help_text="what its API is called here; empty: its title",
    )
    dry_run = serializers.BooleanField(default=False, help_text="answer what it would do, write nothing")
    skip_bad_rows = serializers.BooleanField(default=False, help_text="else one bad row refuses the file")
    plan = serializers.CharField(
        default="", allow_blank=True, max_length=200, help_text="of a dry run: refuse to do anything else"
    )


class FieldChangeOut(Out):
    field = serializers.CharField()
    before = serializers.JSONField()
    after = serializers.JSONField()


class ChangedOut(Out):
    id = serializers.IntegerField(source="tool.pk")
    name = serializers.CharField(source="tool.name")
    changes = FieldChangeOut(many=True)


class NamedTool(serializers.ModelSerializer[Tool]):
    class Meta:
        model = Tool
        fields = ["id", "name"]


class SkippedOut(Out):
    where = serializers.CharField(help_text="file and line, or a JSON pointer")
    name = serializers.CharField(help_text="empty when the row has no readable name")
    message = serializers.CharField()


class ImpactOut(Out):
    name = serializers.CharField()
    count = serializers.IntegerField()
    label = serializers.CharField(help_text="read after the count")  # type: ignore[assignment]


class CountsOut(Out):
    added = serializers.IntegerField(default=0, help_text="the returning ones count too")
    changed = serializers.IntegerField(default=0)
    unchanged = serializers.IntegerField(default=0)
    removed = serializers.IntegerField(default=0, help_text="retired: the file no longer holds them")
    deprecated = serializers.IntegerField(default=0, help_text="that become deprecated")
    returned = serializers.IntegerField(default=0, help_text="retired before, active again")
    skipped = serializers.IntegerField(default=0)


class AppliedOut(Out):
    added = NamedTool(many=True)
    changed = ChangedOut(many=True)
    returned = NamedTool(many=True)
    retired = NamedTool(many=True)


class AddedOut(Out):
    name = serializers.CharField()
    description = serializers.CharField()


class PreviewOut(Out):
    """The first 200 of every kind; `counts` has them all."""

    plan = serializers.CharField(source="result.plan")
    format = serializers.CharField(source="result.format")
    domain = serializers.CharField(source="result.domain")
    counts = CountsOut()
    versions = TextList(source="result.versions", help_text="new versions of known APIs, a sentence each")
    added = AddedOut(many=True)
    changed = ChangedOut(many=True)
    returning = TextList()
    removed = NamedTool(many=True)
    deprecated = TextList()
    skipped = SkippedOut(many=True)
    notes = SkippedOut(many=True, help_text=NOTES)
    impact = ImpactOut(many=True, help_text="what would turn stale")


class ImportRow(serializers.ModelSerializer[CatalogImport]):
    domain = serializers.CharField(source="domain_id")
    counts = CountsOut()
    versions = TextList(
        source="counts.versions", default=list, help_text="new versions of known APIs, a sentence each"
    )
    actor = serializers.CharField(source="actor.username", default=None, allow_null=True)
    undone_by = serializers.CharField(source="undone_by.username", default=None, allow_null=True)

    class Meta:
        model = CatalogImport
        fields = [
            *("id", "filename", "format", "domain", "digest", "licence", "counts", "versions", "actor"),
            *("at", "undone_at", "undone_by"),
        ]


class ImportDetail(ImportRow):
    """With what it did: the first 200 tools of every kind."""

    errors = TextList(  # type: ignore[assignment]
        source="counts.errors", default=list, help_text="the skipped rows"
    )
    notes = TextList(source="counts.notes", default=list, help_text=NOTES)
    done = serializers.SerializerMethodField()

    class Meta(ImportRow.Meta):
        fields = [*ImportRow.Meta.fields, "errors", "notes", "done"]

    @extend_schema_field(AppliedOut)
    def get_done(self, row: CatalogImport) -> Any:
        return AppliedOut(applied_import(row)).data


class UndoOut(Out):
    """What undoing would do, as ids of tools; `reasons` says why it is refused, if it is."""

    retire = serializers.ListField(child=serializers.IntegerField())
    restore = serializers.ListField(child=serializers.IntegerField(), source="changed")
    bring_back = serializers.ListField(child=serializers.IntegerField())
    reasons = TextList()
    impact = ImpactOut(many=True, help_text="what uses these tools now")


class ImportsList(ApiView):
    parser_classes = [*ApiView.parser_classes, MultiPartParser]

    @extend_schema(
        parameters=[DomainIn], responses=page_of(ImportRow), examples=[page_example(examples.IMPORT, "3")]
    )
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
        examples=[
            request_example(examples.SENT),
            answer_example(examples.PREVIEW),
            answer_example(examples.APPLIED, 201),
            answer_example(examples.BAD_ROWS, 400, "a bad row"),
        ],
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
    @extend_schema(responses=ImportDetail, examples=[answer_example(examples.APPLIED)])
    def get(self, request: Request, pk: int) -> Response:
        """Read an import. What it did, and whether it was undone."""
        return Response(ImportDetail(selectors.import_row(pk)).data)


class ImportUndo(ApiView):
    operation_ids = {"get": "import_undo_plan"}

    @extend_schema(responses=UndoOut, examples=[answer_example(examples.UNDO)])
    def get(self, request: Request, pk: int) -> Response:
        """What undoing an import would do."""
        return Response(UndoOut(undo_plan(selectors.import_row(pk))).data)

    @extend_schema(
        responses=ImportDetail,
        examples=[
            answer_example({**examples.APPLIED, "undone_at": AT, "undone_by": "erin"}),
            answer_example(examples.NO_UNDO, 409, "a rule names a tool it added"),
        ],
    )
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
