"""The site's own tables, defined beside the code that uses them."""
# ruff: noqa: F401

from trace_site.audit.models import AuditChange, AuditEntry
from trace_site.database import Generation
from trace_site.deliveries import Delivery
from trace_site.jobs import Job
from trace_site.notices.services import Notice, NoticeChoice
from trace_site.people.sessions import Session
from trace_site.rest.idempotency import IdempotencyKey
from trace_site.rest.tokens import ApiToken
from trace_site.webhooks.services import Webhook
from trace_site.worker import Worker
