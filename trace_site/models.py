"""The site's own tables, defined beside the code that uses them."""

from trace_site.audit import AuditChange, AuditEntry
from trace_site.generation import Generation
from trace_site.idempotency import IdempotencyKey
from trace_site.jobs import Job
from trace_site.notices import MailChoice, Notice
from trace_site.sessions import Session
from trace_site.tokens import ApiToken
from trace_site.webhooks import Webhook, WebhookDelivery
from trace_site.workers import Worker

__all__ = [
    "ApiToken",
    "AuditChange",
    "AuditEntry",
    "Generation",
    "IdempotencyKey",
    "Job",
    "MailChoice",
    "Notice",
    "Session",
    "Webhook",
    "WebhookDelivery",
    "Worker",
]
