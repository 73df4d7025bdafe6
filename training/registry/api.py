"""/api/v1/training/models and /aliases: trained models, which of them answers, and moving the champion."""

from datetime import datetime
from typing import Any

from django.shortcuts import get_object_or_404
from django.urls import path
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from trace_site.rest.schema import ID, InputSerializer, page_of
from trace_site.rest.shapes import Shape, field
from trace_site.rest.views import ApiView, keyset_response
from training.models import AliasMove, Model
from training.registry import gate, registry, selectors
from training.registry.registry import newer_tools

MOST_NEWER = 100
REFUSED = OpenApiResponse(
    description="bad_state: it never was champion, is, or was rolled back itself; removed: its files are gone"
)
UNGATED = OpenApiResponse(
    description="gate_failed: worse than the champion; no_gate: no report counts; not_confirmed: it cannot tell; "
    "stale_preview: another report counts by now; removed: its files are gone"
)


class ModelOut(Shape, of=Model):
    fields = "id run snapshot base cell parameters bytes digest created_at removed_at kept_because"
    snapshot: int = field(source="run.snapshot_id")
    base: str = field(source="run.base")
    cell: str = field("(format, Stage 1, Stage 2)", source="run.cell")
    digest: str = field("over every file; verified before it loads", source="store_digest")
    removed_at: datetime | None = field("when retention removed its files")
    kept_because: str = field("why retention passes it by; empty: it need not")


class NewerTools(Shape):
    count: int
    names: list[str] = field(f"in the order of the alphabet, at most {MOST_NEWER}")


class ModelDetailOut(ModelOut):
    lineage: Any = field("snapshot, rules, base, recipe, stages and code it was made from")
    newer_tools: NewerTools | None = field(
        "active tools that came after it, which it was not trained on; null once its files are gone"
    )


class AliasMoveOut(Shape, of=AliasMove):
    fields = "alias model note gate override by at"
    gate: Any = field(
        "of a promotion: the gate report, its verdict and what it said; of going back: back_from, the model "
        "that was left; else empty"
    )
    override: str = field("why it was promoted without a passed gate; empty: none was needed")
    by: str | None = field(source="actor.username", default=None)


class MoveIn(InputSerializer):
    note: str = field("why; kept in the history", required=False, default="", max_length=200)


class PromoteIn(MoveIn, total=False):
    confirm: bool = field("promote although the gate cannot tell whether it is worse", default=False)
    override: str = field(
        f"promote although the gate failed or was not asked: why, in {gate.SHORTEST} characters or more; "
        "kept in the history",
        default="",
        max_length=gate.LONGEST,
    )
    report: int | None = field(
        "the gate report that was read; refused when another one counts by now", default=None, **ID
    )


class TrainingModelsList(ApiView):
    @extend_schema(responses=page_of(ModelOut))
    def get(self, request: Request) -> Response:
        """List trained models. Newest first."""
        return keyset_response(request, selectors.models(), ModelOut, newest=True)


class TrainingModelOne(ApiView):
    @extend_schema(responses=ModelDetailOut)
    def get(self, request: Request, pk: int) -> Response:
        """Read a trained model. With the lineage that was written down when it was published, and the tools
        it was not trained on.
        """
        model = get_object_or_404(selectors.models(), pk=pk)
        tools = newer_tools(model)
        newer = None
        if tools is not None:
            names = tools.order_by("name").values_list("name", flat=True)
            newer = {"count": len(names), "names": list(names[:MOST_NEWER])}
        model.newer_tools = newer  # type: ignore[attr-defined]
        return Response(ModelDetailOut(model).data)


class TrainingAliases(ApiView):
    @extend_schema(responses=AliasMoveOut(many=True))
    def get(self, request: Request) -> Response:
        """List what the aliases name. The newest move of champion, challenger and previous; the history is
        append-only.
        """
        moves = AliasMove.objects.order_by("alias", "-id").distinct("alias").select_related("actor")
        return Response(AliasMoveOut(moves, many=True).data)


class TrainingModelPromote(ApiView):
    decides = True

    @extend_schema(request=PromoteIn, responses={200: AliasMoveOut, 409: UNGATED})
    def post(self, request: Request, pk: int) -> Response:
        """Promote a model to champion. The old champion becomes previous. Its gate report must pass; where it
        cannot tell, confirm; where it fails or there is none, an admin's written override is needed. Promoting
        the champion again changes nothing.
        """
        model, given = get_object_or_404(selectors.models(), pk=pk), self.read(PromoteIn)
        confirmed = given.pop("confirm")
        move = registry.promote(model=model, actor=request.user, confirmed=confirmed, **given)
        return Response(AliasMoveOut(move).data)


class TrainingModelRollback(ApiView):
    decides = True

    @extend_schema(request=MoveIn, responses={200: AliasMoveOut, 409: REFUSED})
    def post(self, request: Request, pk: int) -> Response:
        """Go back to an earlier champion. No gate is asked, so not to one that was rolled back itself. What it
        replaces becomes previous, and the move records what was rolled back.
        """
        model = get_object_or_404(selectors.models(), pk=pk)
        move = registry.roll_back(model=model, actor=request.user, **self.read(MoveIn))
        return Response(AliasMoveOut(move).data)


urlpatterns = [
    path("training/models", TrainingModelsList.as_view(), name="api-training-models"),
    path("training/models/<int:pk>", TrainingModelOne.as_view(), name="api-training-model"),
    path("training/models/<int:pk>/promote", TrainingModelPromote.as_view(), name="api-training-promote"),
    path("training/models/<int:pk>/rollback", TrainingModelRollback.as_view(), name="api-training-rollback"),
    path("training/aliases", TrainingAliases.as_view(), name="api-training-aliases"),
]
