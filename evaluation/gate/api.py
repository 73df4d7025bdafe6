"""/api/v1/evaluation/models/{id}/gate: the newest gate report of a model, and asking for one."""

from datetime import datetime
from typing import Any

from django.http import Http404
from django.shortcuts import get_object_or_404
from django.urls import path
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from evaluation.core.gate import ChangedRule, Gate, GateRow
from evaluation.gate.selectors import answers, groups_moved, headline, reports, row_dict
from evaluation.gate.services import gate_request
from evaluation.models import GateReport
from trace_site.rest.schema import ID, InputSerializer
from trace_site.rest.shapes import Shape, field
from trace_site.rest.views import ApiView
from training.models import Model


class GateRowOut(Shape, of=GateRow):
    fields = (
        "opponent kind name tier decode metric domain group n candidate other difference low high won "
        "lost p p_adjusted p_better margin shows answer verdict binds note evaluation against"
    )
    answer: str = field("better, worse or cannot tell")
    verdict: GateReport.Verdict
    evaluation: int | None
    against: int | None


class GateReportOut(Shape):
    report: int = field(source="pk")
    candidate: int = field(source="candidate_id")
    champion: int | None = field("null: there was none", source="champion_id")
    verdict: GateReport.Verdict
    said: str = field(source="headline")
    answers: dict[str, str] = field(
        "{champion, embedding: whether the model is better than it, as a sentence}"
    )
    rows: list[GateRowOut]
    rules: list[ChangedRule] = field("that the candidate learned and the champion did not")
    notes: list[str]
    groups_moved: bool = field("whether rules or clusters sort queries otherwise now")
    created_at: datetime


class GateIn(InputSerializer):
    champion: int | None = field("another opponent than the champion", required=False, default=None, **ID)


class GateJobOut(Shape):
    job: int = field(source="pk")
    state: str
    title: str


class ModelGate(ApiView):
    operation_ids = {"get": "model_gate", "post": "model_gate_start"}

    @extend_schema(
        responses={
            200: GateReportOut,
            404: OpenApiResponse(description="no such model, or no report of it yet"),
        }
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
        report.answers = answers(found, report.candidate_id, report.champion_id)
        report.groups_moved = groups_moved(report)
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
