"""/api/v1/webhooks: who is told of what, tests and the delivery log, for admins."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from django.urls import path
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from trace_site.audit import models as audit_models
from trace_site.deliveries import Delivery as WebhookDelivery
from trace_site.deliveries import deliver_now
from trace_site.rest.schema import InputSerializer, page_of
from trace_site.rest.shapes import Shape, field
from trace_site.rest.views import ApiView, keyset_response
from trace_site.webhooks import services
from trace_site.webhooks.services import EVENTS, Webhook, ping


class WebhookIn(InputSerializer):
    url: str = field("https://…; it must answer 200 to 299 in 10 s", max_length=500)
    events: list[Annotated[str, field(max_length=60)]] = field(", ".join(EVENTS), max_length=len(EVENTS))


class WebhookChange(WebhookIn):
    active: bool = field("false pauses it; true resumes it and forgets its failures")


class WebhookOut(Shape, of=Webhook):
    fields = "id url events active paused_because failures created_by created_at"
    events: list[str]
    failures: int = field("failed attempts since the last that worked")


class WebhookMade(WebhookOut):
    secret: str | None = field("what signs the requests; it is not told again: null in a repeated answer")


class DeliveryAttempt(Shape):
    attempt: int
    at: datetime
    seconds: float
    status: int | None
    error: str
    excerpt: str = field("how the answer began")


class DeliveryOut(Shape, of=WebhookDelivery):
    fields = "id delivery_id webhook event payload state attempt next_at status log created_at"
    delivery_id: UUID = field("the same on every retry")
    payload: dict[str, Any]
    status: int | None = field("HTTP status of the last answer")
    log: list[DeliveryAttempt]


class WebhooksList(ApiView):
    operation_ids = {"post": "webhooks_create"}
    told_once = ("secret",)

    @extend_schema(responses=page_of(WebhookOut))
    def get(self, request: Request) -> Response:
        """List webhooks."""
        return keyset_response(request, Webhook.objects.select_related("created_by"), WebhookOut)

    @extend_schema(request=WebhookIn, responses={201: WebhookMade})
    def post(self, request: Request) -> Response:
        """Add a webhook. The answer holds its secret, which is not told again."""
        hook = services.webhook_create(**self.read(WebhookIn), actor=request.user)
        return Response(WebhookMade(hook).data, status=201)


class WebhooksOne(ApiView):
    operation_ids = {"delete": "webhooks_delete"}

    @extend_schema(responses=WebhookOut)
    def get(self, request: Request, pk: int) -> Response:
        """Read a webhook."""
        return Response(WebhookOut(_hook(pk)).data)

    @extend_schema(request=WebhookChange(partial=True), responses=WebhookOut)
    def patch(self, request: Request, pk: int) -> Response:
        """Change, pause or resume a webhook."""
        hook = _hook(pk)
        given = self.read(WebhookChange, partial=True)
        active = given.pop("active", None)
        if given:
            hook = services.webhook_update(webhook=hook, actor=request.user, **given)
        if active is not None:
            hook = services.webhook_pause(webhook=hook, actor=request.user, active=active)
        return Response(WebhookOut(hook).data)

    def delete(self, request: Request, pk: int) -> Response:
        """Remove a webhook with its log."""
        services.webhook_delete(webhook=_hook(pk), actor=request.user)
        return Response(status=204)


class WebhooksTest(ApiView):
    @extend_schema(responses=DeliveryOut)
    def post(self, request: Request, pk: int) -> Response:
        """Send a test now. Sends the event `ping` and answers with what came of it. A test is not repeated."""
        return Response(DeliveryOut(ping(webhook=_hook(pk), actor=request.user)).data)


class WebhooksReplaceSecret(ApiView):
    told_once = ("secret",)

    @extend_schema(responses=WebhookMade)
    def post(self, request: Request, pk: int) -> Response:
        """Replace the secret."""
        return Response(WebhookMade(services.webhook_rotate(webhook=_hook(pk), actor=request.user)).data)


class WebhooksDeliveries(ApiView):
    @extend_schema(responses=page_of(DeliveryOut))
    def get(self, request: Request, pk: int) -> Response:
        """The delivery log, newest first."""
        return keyset_response(request, _hook(pk).deliveries.all(), DeliveryOut, newest=True)


class WebhooksSendAgain(ApiView):
    @extend_schema(responses=DeliveryOut)
    def post(self, request: Request, pk: int, delivery: int) -> Response:
        """Send a delivery once more now. With the same id and body, so that a receiver knows it."""
        row = get_object_or_404(WebhookDelivery, pk=delivery, webhook=pk)
        audit_models.record(actor=request.user, action="webhook.sent_again", obj=row)
        return Response(DeliveryOut(deliver_now(row)).data)


def _hook(pk: int) -> Webhook:
    return get_object_or_404(Webhook.objects.select_related("created_by"), pk=pk)


urlpatterns = [
    path("webhooks", WebhooksList.as_view(), name="api-webhooks"),
    path("webhooks/<int:pk>", WebhooksOne.as_view(), name="api-webhook"),
    path("webhooks/<int:pk>/test", WebhooksTest.as_view(), name="api-webhook-test"),
    path("webhooks/<int:pk>/secret", WebhooksReplaceSecret.as_view(), name="api-webhook-secret"),
    path("webhooks/<int:pk>/deliveries", WebhooksDeliveries.as_view(), name="api-webhook-deliveries"),
    path(
        "webhooks/<int:pk>/deliveries/<int:delivery>/send",
        WebhooksSendAgain.as_view(),
        name="api-webhook-send",
    ),
]
