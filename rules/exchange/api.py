"""/api/v1/rules/export and /import: files of rules out and in."""

from typing import IO, Any

from django.http import HttpResponse
from django.urls import path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.parsers import BaseParser, MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from rules.changes import api as changes_api
from rules.core.rules_file import RULE_SCHEMA
from rules.exchange.services import FilePreview, file_preview, file_request
from rules.exchange.views import download
from rules.selectors import RuleFilter
from rules.serializers import ExchangeRule, ExportIn, Imported, ImportIn
from trace_site.lib.errors import TraceError
from trace_site.limits import RULES_FILE
from trace_site.rest.views import AnyFormat, ApiView

FILE_ITEM = {key: value for key, value in RULE_SCHEMA.items() if not key.startswith("$")}


class RulesExport(ApiView):
    content_negotiation_class = AnyFormat

    @extend_schema(
        parameters=[ExportIn],
        responses={(200, "application/json"): ExchangeRule(many=True), (200, "text/csv"): OpenApiTypes.STR},
    )
    def get(self, request: Request) -> HttpResponse:
        """Export rules. The published version of each rule, or its newest draft, as a JSON or CSV file.
        Importing it again changes nothing. The CSV puts an apostrophe before cells that a spreadsheet would
        run as a formula.
        """
        given = self.read_query(ExportIn)
        return download(RuleFilter.read(given), given["format"])


class FileParser(BaseParser):
    """The body as it is; the exchange reads JSON and CSV itself to name line and column of a mistake."""

    media_type = "*/*"

    def parse(self, stream: IO[bytes], media_type: Any = None, parser_context: Any = None) -> Any:
        return stream.read(RULES_FILE + 1)


class RulesImport(ApiView):
    parser_classes = [MultiPartParser, FileParser]

    @extend_schema(
        parameters=[ImportIn],
        request={
            "application/json": {"type": "array", "items": FILE_ITEM},
            "text/csv": {"type": "string", "example": "tool_name,confusables,rule_text\r\n"},
            "multipart/form-data": {
                "type": "object",
                "required": ["file"],
                "properties": {"file": {"type": "string", "format": "binary"}},
            },
        },
        responses={
            200: OpenApiResponse(Imported, description="what a dry run would do"),
            201: OpenApiResponse(Imported, description="the change request is made"),
            413: OpenApiResponse(description="more than 5 MB or 5,000 rules"),
        },
    )
    def post(self, request: Request) -> Response:
        """Import a file of rules as one change request. A JSON or CSV file as the body, or as the part `file`
        of a form; at most 5 MB and 5,000 rules. The changes land in a draft; nothing is published before it
        is submitted, approved and applied.
        """
        given = self.read_query(ImportIn)
        data, name = self._file(given["filename"])
        preview = file_preview(data=data, filename=name, skip_bad_rows=given["skip_bad_rows"])
        if given["dry_run"]:
            return Response(_imported(preview, None))
        made = file_request(
            preview=preview, actor=request.user, title=given["title"].strip(), drafts=given["drafts"]
        )
        return Response(_imported(preview, made.pk), status=201, headers=changes_api.place_of(made))

    def _file(self, name: str) -> tuple[bytes, str]:
        body: Any = self.request.data
        if isinstance(body, bytes):
            return body, name or "body"
        file = body.get("file")
        if not hasattr(file, "read"):
            raise TraceError(
                "there is no file.",
                code="bad_input",
                hint="Send it as the body, or as the part `file` of a form.",
            )
        return file.read(RULES_FILE + 1), name or str(file.name)[:200]


def _imported(preview: FilePreview, request: int | None) -> dict[str, Any]:
    answer = {"request": request, "format": preview.format, "changes": preview.changes}
    return dict(Imported(answer | preview.counts()).data)


urlpatterns = [
    path("rules/export", RulesExport.as_view(), name="api-rules-export"),
    path("rules/import", RulesImport.as_view(), name="api-rules-import"),
]
