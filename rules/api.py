"""/api/v1/rules: rules, their versions, what the checks say, and files in and out."""

from typing import IO, Any

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser, MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from rules import api_examples as examples
from rules import api_requests, selectors
from rules.api_shapes import (
    Checked,
    CheckIn,
    DiffIn,
    ExchangeRule,
    ExportIn,
    Imported,
    ImportIn,
    ListIn,
    RuleDetail,
    RuleRow,
    Version,
    VersionDetail,
    VersionDiff,
    draft_input,
)
from rules.book import cached_book, version_contents, version_findings
from rules.core.draft import fill_draft
from rules.core.rule import to_json
from rules.core.schema import RULE_SCHEMA
from rules.exchange_requests import MOST_BYTES, FilePreview, file_preview, file_request
from rules.health import light_of, recheck_missing
from rules.models import RuleVersion
from rules.selectors_changes import compare_versions
from rules.selectors_list import RuleFilter, rule_list
from rules.services import rule_preview
from rules.views_exchange import download
from trace_site.access import ADMIN, EXPERT
from trace_site.api import ApiView, keyset_response, page_limit
from trace_site.api_schema import PAGE_PARAMETERS, page_of
from trace_site.lib.errors import TraceError

FILE_ITEM = {key: value for key, value in RULE_SCHEMA.items() if not key.startswith("$")}
NO_RULE = OpenApiResponse(description="no such rule or version")


class Rules(ApiView):
    @extend_schema(
        tags=["rules"],
        operation_id="rules_list",
        summary="List rules",
        description="Every rule with its newest version, by domain and code.",
        parameters=[ListIn, *PAGE_PARAMETERS],
        responses=page_of(RuleRow),
        examples=[examples.page(examples.ROW, "hr/PAYSLIP_PERIOD")],
    )
    def get(self, request: Request) -> Response:
        recheck_missing()
        given = self.read_query(ListIn)
        chosen = RuleFilter(search=given.pop("q").strip(), **given)
        page = rule_list(chosen, request.query_params.get("after", ""), page_limit(request)).page
        published = RuleVersion.objects.filter(pk__in=[row.rule.published_id for row in page.rows])
        numbers = {"numbers": dict(published.values_list("pk", "number"))}
        return Response(
            {"results": RuleRow(page.rows, many=True, context=numbers).data, "next": page.next_key}
        )


class RuleOne(ApiView):
    @extend_schema(
        tags=["rules"],
        operation_id="rule_read",
        summary="Read a rule",
        description="What its newest version says and what the checks say about it.",
        responses={200: RuleDetail, 404: NO_RULE},
        examples=[examples.got(examples.DETAIL)],
    )
    def get(self, request: Request, pk: int) -> Response:
        rule = selectors.rule(pk)
        newest = selectors.newest_version(rule)
        if newest is None:
            raise TraceError(f"The rule {rule.code} has no version.", code="not_found")
        answer = {
            "id": rule.pk,
            "code": rule.code,
            "domain": rule.domain_id,
            "published": rule.published.number if rule.published else None,
            "newest": with_content(newest),
            "findings": [finding.as_dict() for finding in version_findings(newest, cached_book())],
        }
        return Response(RuleDetail(answer).data)


def with_content(version: RuleVersion) -> RuleVersion:
    """The version with its content in the exchange format, as VersionDetail reads it."""
    said = version_contents([version])[version.pk]
    version.content = to_json(said, code="", domain="")  # type: ignore[attr-defined]
    return version


class Versions(ApiView):
    @extend_schema(
        tags=["rules"],
        operation_id="rule_versions_list",
        summary="List the versions of a rule",
        description="Newest first. Versions never change.",
        parameters=PAGE_PARAMETERS,
        responses={200: page_of(Version), 404: NO_RULE},
        examples=[examples.page(examples.VERSION, "2")],
    )
    def get(self, request: Request, pk: int) -> Response:
        rows = selectors.rule(pk).versions.select_related("author", "rule")
        return keyset_response(request, rows, Version, by="number", newest=True)


class VersionOne(ApiView):
    @extend_schema(
        tags=["rules"],
        operation_id="rule_version_read",
        summary="Read one version of a rule",
        responses={200: VersionDetail, 404: NO_RULE},
        examples=[examples.got({**examples.VERSION, "content": examples.CONTENT})],
    )
    def get(self, request: Request, pk: int, number: int) -> Response:
        rows = RuleVersion.objects.select_related("author", "rule")
        version = get_object_or_404(rows, rule=pk, number=number)
        return Response(VersionDetail(with_content(version)).data)


class RuleCompare(ApiView):
    @extend_schema(
        tags=["rules"],
        operation_id="rule_versions_compare",
        summary="Compare two versions of a rule",
        description="Sets as added and removed, the text word by word.",
        parameters=[DiffIn],
        responses={200: VersionDiff, 404: NO_RULE},
        examples=[examples.got({"from": 1, "to": 2, "diff": examples.DIFF})],
    )
    def get(self, request: Request, pk: int) -> Response:
        given = self.read_query(DiffIn)
        old, new, diff = compare_versions(pk, given["from"], given["to"])
        return Response(
            VersionDiff({"from": old.number, "to": new.number, "diff": api_requests.diff_data(diff)}).data
        )


class Check(ApiView):
    write_roles = None  # it changes nothing

    @extend_schema(
        tags=["rules"],
        operation_id="rule_check",
        summary="Check a rule without saving it",
        description="What the checks would say about this content, against the catalog and the published rules.",
        request=CheckIn,
        responses={200: Checked, 404: NO_RULE},
        examples=[
            examples.sent(examples.CONTENT),
            examples.got({"light": "warning", "findings": [examples.FINDING]}),
            examples.got(examples.BAD_RULE, 400, "no complete rule"),
        ],
    )
    def post(self, request: Request) -> Response:
        given = self.read(CheckIn)
        known = given.get("rule")
        rule = selectors.rule(known) if known is not None else None
        findings = rule_preview(**fill_draft(draft_input(given)), rule=rule, book=cached_book())
        answer = {"light": light_of(findings), "findings": [finding.as_dict() for finding in findings]}
        return Response(Checked(answer).data)


class Whatever(BaseContentNegotiation):
    """`?format=` says what is wanted; REST framework would look for a renderer of that name."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return parsers[0]

    def select_renderer(self, request: Request, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


class Export(ApiView):
    content_negotiation_class = Whatever

    @extend_schema(
        tags=["rules"],
        operation_id="rules_export",
        summary="Export rules",
        description="The published version of each rule, or its newest draft, as a JSON or CSV file. Importing it "
        "again changes nothing. The CSV puts an apostrophe before cells that a spreadsheet would run as a formula.",
        parameters=[ExportIn],
        responses={(200, "application/json"): ExchangeRule(many=True), (200, "text/csv"): OpenApiTypes.STR},
        examples=[examples.got(examples.RULE)],
    )
    def get(self, request: Request) -> HttpResponse:
        given = self.read_query(ExportIn)
        fmt = given.pop("format")
        return download(RuleFilter(search=given.pop("q").strip(), **given), fmt)


class FileParser(BaseParser):
    """The body as it is; the exchange reads JSON and CSV itself to name line and column of a mistake."""

    media_type = "*/*"

    def parse(self, stream: IO[bytes], media_type: Any = None, parser_context: Any = None) -> Any:
        return stream.read(MOST_BYTES + 1)


class Import(ApiView):
    write_roles = (EXPERT, ADMIN)
    parser_classes = [MultiPartParser, FileParser]

    @extend_schema(
        tags=["rules"],
        operation_id="rules_import",
        summary="Import a file of rules as one change request",
        description="A JSON or CSV file as the body, or as the part `file` of a form; at most 5 MB and 5,000 rules. "
        "The changes land in a draft; nothing is published before it is submitted, approved and applied.",
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
        examples=[
            examples.sent([examples.RULE]),
            examples.got({**examples.IMPORTED, "request": None}),
            examples.got(examples.IMPORTED, 201),
            examples.got(examples.BAD_FILE, 400, "a rule with a mistake"),
        ],
    )
    def post(self, request: Request) -> Response:
        given = self.read_query(ImportIn)
        data, name = self._file(given["filename"])
        preview = file_preview(data=data, filename=name, skip_bad_rows=given["skip_bad_rows"])
        if given["dry_run"]:
            return Response(_imported(preview, None))
        made = file_request(
            preview=preview, actor=request.user, title=given["title"].strip(), drafts=given["drafts"]
        )
        return Response(_imported(preview, made.pk), status=201, headers=api_requests.place_of(made))

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
        return file.read(MOST_BYTES + 1), name or str(file.name)[:200]


def _imported(preview: FilePreview, request: int | None) -> dict[str, Any]:
    changes = [
        {"kind": change.kind, "domain": change.entry.domain, "code": change.entry.code}
        for change in preview.changes
    ]
    answer = {"request": request, "format": preview.format, "changes": changes, **preview.counts()}
    return dict(Imported(answer).data)


urlpatterns = [
    path("rules", Rules.as_view(), name="api-rules"),
    path("rules/check", Check.as_view(), name="api-rules-check"),
    path("rules/export", Export.as_view(), name="api-rules-export"),
    path("rules/import", Import.as_view(), name="api-rules-import"),
    path("rules/<int:pk>", RuleOne.as_view(), name="api-rule"),
    path("rules/<int:pk>/versions", Versions.as_view(), name="api-rule-versions"),
    path("rules/<int:pk>/versions/<int:number>", VersionOne.as_view(), name="api-rule-version"),
    path("rules/<int:pk>/diff", RuleCompare.as_view(), name="api-rule-diff"),
    *api_requests.urlpatterns,
]
