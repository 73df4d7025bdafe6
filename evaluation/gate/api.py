"""/api/v1/evaluation/models/{id}/gate: the newest gate report of a model, and asking for one."""

from typing import Any

from django.http import Http404
from django.shortcuts import get_object_or_404
from django.urls import path
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from evaluation.core.gate import Gate
from evaluation.gate.selectors import groups_moved, headline, reports, row_dict
from evaluation.gate.services import gate_request
from evaluation.models import GateReport
from trace_site.rest.examples import answer_example, examples_beside, request_example
from trace_site.rest.schema import ID, InputSerializer, TextList
from trace_site.rest.views import ApiView
from training.models import Model

Out = serializers.Serializer[Any]
EXAMPLES = examples_beside(__file__)
VERDICTS = GateReport.Verdict.choices


class GateRowOut(Out):
    opponent = serializers.CharField(help_text="champion or embedding")
    kind = serializers.CharField(help_text="of the benchmark; rules: tests of rules; changed rules: counted")
    name = serializers.CharField()
    tier = serializers.CharField(allow_blank=True)
    decode = serializers.CharField()
    metric = serializers.CharField(allow_blank=True)
    domain = serializers.CharField()
    group = serializers.CharField(help_text="all, covered, exceptions, uncovered or outside")
    n = serializers.IntegerField()
    candidate = serializers.FloatField()
    other = serializers.FloatField()
    difference = serializers.FloatField(help_text="candidate minus opponent")
    low = serializers.FloatField(help_text="95 % interval of the difference")
    high = serializers.FloatField()
    won = serializers.FloatField(help_text="queries for the candidate; parts of a query count as such")
    lost = serializers.FloatField()
    p = serializers.FloatField(help_text="one-sided, that it is not worse (changed rules: not better)")
    p_adjusted = serializers.FloatField(help_text="for all slices asked of this opponent")
    margin = serializers.FloatField()
    shows = serializers.FloatField(
        allow_null=True, help_text="the smallest loss that so many queries would show; null: none"
    )
    verdict = serializers.ChoiceField(VERDICTS)
    binds = serializers.BooleanField(help_text="whether it counts for the whole")
    note = serializers.CharField(allow_blank=True)
    evaluation = serializers.IntegerField(allow_null=True)
    against = serializers.IntegerField(allow_null=True)


class ChangedRuleOut(Out):
    rule = serializers.IntegerField()
    code = serializers.CharField()
    number = serializers.IntegerField(help_text="its version")
    total = serializers.IntegerField()
    candidate = serializers.IntegerField(help_text="tests passed")
    champion = serializers.IntegerField(allow_null=True)


class GateReportOut(Out):
    report = serializers.IntegerField(source="pk")
    candidate = serializers.IntegerField(source="candidate_id")
    champion = serializers.IntegerField(
        source="champion_id", allow_null=True, help_text="null: there was none"
    )
    verdict = serializers.ChoiceField(VERDICTS)
    said = serializers.CharField(source="headline")
    rows = GateRowOut(many=True)
    rules = ChangedRuleOut(many=True, help_text="that the candidate learned and the champion did not")
    notes = TextList()
    definition = serializers.IntegerField(
        source="definition_id",
        allow_null=True,
        help_text="of groups, that its slices were counted by; null: it has none, or none was kept",
    )
    definition_at = serializers.DateTimeField(source="definition.made_at", default=None, allow_null=True)
    groups_moved = serializers.BooleanField(help_text="whether rules or clusters sort queries otherwise now")
    moved_at = serializers.DateTimeField(
        allow_null=True, help_text="since when all else is counted by them; null: it is not"
    )
    created_at = serializers.DateTimeField()


class GateIn(InputSerializer):
    champion = serializers.IntegerField(
        required=False, allow_null=True, default=None, **ID, help_text="another opponent than the champion"
    )


class GateJobOut(Out):
    job = serializers.IntegerField(source="pk")
    state = serializers.CharField()
    title = serializers.CharField()


class ModelGate(ApiView):
    operation_ids = {"get": "model_gate", "post": "model_gate_start"}

    @extend_schema(
        responses={
            200: GateReportOut,
            404: OpenApiResponse(description="no such model, or no report of it yet"),
        },
        examples=[answer_example(EXAMPLES["report"])],
    )
    def get(self, request: Request, pk: int) -> Response:
        """Read a model's newest gate report. Slice by slice, whether it is worse than the champion or the
        embedding.
        """
        report: Any = reports().filter(candidate=pk).first()
        if report is None:
            raise Http404
        found = Gate.of(report.report)
        report.headline, report.notes = headline(report), list(found.notes)
        report.groups_moved, report.moved_at = groups_moved(report)
        report.rows, report.rules = [row_dict(row) for row in found.rows], found.rules
        return Response(GateReportOut(report).data)

    @extend_schema(
        request=GateIn,
        responses={
            202: GateJobOut,
            409: OpenApiResponse(
                description="bad_state: it is the champion itself; removed: its files are gone"
            ),
        },
        examples=[request_example({}), answer_example(EXAMPLES["job"], 202)],
    )
    def post(self, request: Request, pk: int) -> Response:
        """Ask for a model's gate. What either model was not asked is measured first; a job that is under way
        already is returned.
        """
        model = get_object_or_404(Model.objects.select_related("run"), pk=pk)
        named = self.read(GateIn)["champion"]
        champion = get_object_or_404(Model.objects.select_related("run"), pk=named) if named else None
        job = gate_request(candidate=model, champion=champion, actor=request.user)
        return Response(GateJobOut(job).data, status=202)


urlpatterns = [path("evaluation/models/<int:pk>/gate", ModelGate.as_view(), name="api-evaluation-gate")]
