"""/api/v1/rules: rules, their versions, and what the checks say."""

from django.shortcuts import get_object_or_404
from django.urls import path
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.selectors import as_stored
from rules import selectors
from rules.book import cached_book, version_contents, version_findings
from rules.changes.selectors import compare_versions
from rules.core.draft import content_of
from rules.core.rules_file import to_json
from rules.models import RuleVersion
from rules.selectors import RuleFilter, rule_list
from rules.serializers import (
    Checked,
    CheckIn,
    DiffIn,
    ListIn,
    RuleDetail,
    RuleRow,
    Version,
    VersionDiff,
    VersionRead,
    draft_input,
)
from rules.services import light_of, recheck_missing, rule_preview
from trace_site.lib.errors import TraceError
from trace_site.rest.schema import page_of
from trace_site.rest.views import ApiView, keyset_response, page_limit

NO_RULE = OpenApiResponse(description="no such rule or version")


class RulesList(ApiView):
    @extend_schema(parameters=[ListIn], responses=page_of(RuleRow))
    def get(self, request: Request) -> Response:
        """List rules. Every rule with its newest version, by domain and code."""
        recheck_missing()
        given = self.read_query(ListIn)
        page = rule_list(
            RuleFilter.read(given), request.query_params.get("after", ""), page_limit(request)
        ).page
        return Response({"results": RuleRow(page.rows, many=True).data, "next": page.next_key})


class RuleOne(ApiView):
    @extend_schema(responses=RuleDetail)
    def get(self, request: Request, pk: int) -> Response:
        """Read a rule. What its newest version says and what the checks say about it."""
        rule = selectors.rule(pk)
        newest = selectors.newest_version(rule)
        if newest is None:
            raise TraceError(f"The rule {rule.code} has no version.", code="not_found")
        answer = {
            "rule": rule,
            "published": rule.published and rule.published.number,
            "newest": with_content(newest),
            "findings": version_findings(newest, cached_book()),
        }
        return Response(RuleDetail(answer).data)


def with_content(version: RuleVersion) -> RuleVersion:
    """The version with its content in the exchange format, as VersionDetail reads it."""
    said = version_contents([version])[version.pk]
    version.content = to_json(said, code="", domain="")  # type: ignore[attr-defined]
    return version


class RuleVersionsList(ApiView):
    @extend_schema(responses=page_of(Version))
    def get(self, request: Request, pk: int) -> Response:
        """List the versions of a rule. Newest first. Versions never change."""
        rows = selectors.rule(pk).versions.select_related("author", "rule")
        return keyset_response(request, rows, Version, by="number", newest=True)


class RuleVersionOne(ApiView):
    @extend_schema(responses=VersionRead)
    def get(self, request: Request, pk: int, number: int) -> Response:
        """Read one version of a rule. With what its text says of its tools, and which of them it tells apart."""
        rows = RuleVersion.objects.select_related("author", "rule")
        version = get_object_or_404(rows, rule=pk, number=number)
        table = selectors.pair_table(version, selectors.tool_set(version))
        version.pairs = table.rows if table else []  # type: ignore[attr-defined]
        version.statements = selectors.version_clauses([version])[version.pk]  # type: ignore[attr-defined]
        return Response(VersionRead(with_content(version)).data)


class RuleVersionsCompare(ApiView):
    @extend_schema(parameters=[DiffIn], responses=VersionDiff)
    def get(self, request: Request, pk: int) -> Response:
        """Compare two versions of a rule. Sets as added and removed, the text word by word."""
        given = self.read_query(DiffIn)
        old, new, diff = compare_versions(pk, given["from"], given["to"])
        return Response(VersionDiff({"from": old.number, "to": new.number, "diff": diff}).data)


class RuleCheck(ApiView):
    @extend_schema(request=CheckIn, responses={200: Checked, 404: NO_RULE})
    def post(self, request: Request) -> Response:
        """Check a rule without saving it. What the checks would say about this content, against the catalog
        and the published rules.
        """
        given = self.read(CheckIn)
        known = given.get("rule")
        rule = selectors.rule(known) if known is not None else None
        findings = rule_preview(
            content=content_of(as_stored(draft_input(given))), rule=rule, book=cached_book()
        )
        return Response(Checked({"light": light_of(findings), "findings": findings}).data)


urlpatterns = [
    path("rules", RulesList.as_view(), name="api-rules"),
    path("rules/check", RuleCheck.as_view(), name="api-rules-check"),
    path("rules/<int:pk>", RuleOne.as_view(), name="api-rule"),
    path("rules/<int:pk>/versions", RuleVersionsList.as_view(), name="api-rule-versions"),
    path("rules/<int:pk>/versions/<int:number>", RuleVersionOne.as_view(), name="api-rule-version"),
    path("rules/<int:pk>/diff", RuleVersionsCompare.as_view(), name="api-rule-diff"),
]
