"""What the webhook API reads and answers, with examples."""

from typing import Any

from drf_spectacular.utils import OpenApiExample
from rest_framework import serializers

from trace_site.api_input import InputSerializer
from trace_site.webhooks import EVENTS, Webhook, WebhookDelivery

EXAMPLE = {"url": "https://ci.example.com/trace", "events": ["rule.published", "request.applied"]}

HOOK = {
    "id": 2,
    **EXAMPLE,
    "active": True,
    "paused_because": "",
    "failures": 0,
    "created_by": "ada",
    "created_at": "2026-11-21T09:00:00Z",
}
MADE = {**HOOK, "secret": "whsec_0c4e…"}
DELIVERY = {
    "id": 91,
    "delivery_id": "5f0c1a52-9d57-4c7e-8a55-0d7a4f6b1c1e",
    "webhook": 2,
    "event": "rule.published",
    "payload": {"id": 7, "code": "PAYSLIP_PERIOD", "domain": "hr", "version": 2},
    "state": "delivered",
    "attempt": 1,
    "next_at": "2026-11-21T09:15:00Z",
    "status": 200,
    "log": [
        {
            "attempt": 1,
            "at": "2026-11-21T09:14:02Z",
            "seconds": 0.12,
            "status": 200,
            "error": "",
            "excerpt": "received",
        }
    ],
    "created_at": "2026-11-21T09:14:02Z",
}


def got(value: Any, status: int = 200) -> OpenApiExample:
    return OpenApiExample("answer", value, response_only=True, status_codes=[str(status)])


def page_example(row: Any) -> OpenApiExample:
    return got({"results": [row], "next": None})


class WebhookIn(InputSerializer):
    url = serializers.CharField(max_length=500, help_text="https://…; it must answer 200 to 299 in 10 s")
    events = serializers.ListField(
        child=serializers.CharField(max_length=60), max_length=len(EVENTS), help_text=", ".join(EVENTS)
    )


class WebhookChange(WebhookIn):
    active = serializers.BooleanField(help_text="false pauses it; true resumes it and forgets its failures")


class WebhookOut(serializers.ModelSerializer[Webhook]):
    created_by = serializers.CharField(source="created_by.username")

    class Meta:
        model = Webhook
        fields = ["id", "url", "events", "active", "paused_because", "failures", "created_by", "created_at"]


class WebhookMade(WebhookOut):
    secret = serializers.CharField(
        allow_null=True, help_text="what signs the requests; it is not told again: null in a repeated answer"
    )

    class Meta(WebhookOut.Meta):
        fields = [*WebhookOut.Meta.fields, "secret"]


class DeliveryAttempt(serializers.Serializer[Any]):
    attempt = serializers.IntegerField()
    at = serializers.DateTimeField()
    seconds = serializers.FloatField()
    status = serializers.IntegerField(allow_null=True)
    error = serializers.CharField(allow_blank=True)
    excerpt = serializers.CharField(allow_blank=True, help_text="how the answer began")


class DeliveryOut(serializers.ModelSerializer[WebhookDelivery]):
    log = DeliveryAttempt(many=True)
    payload = serializers.DictField()

    class Meta:
        model = WebhookDelivery
        fields = [
            "id", "delivery_id", "webhook", "event", "payload", "state", "attempt", "next_at", "status", "log",
            "created_at",
        ]  # fmt: skip
