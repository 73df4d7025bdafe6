"""The Celery application. Messages only wake workers; see trace_site/jobs.py."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trace_site.settings")
app = Celery("trace_site")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["trace_site"])
