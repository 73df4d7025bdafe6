"""Settings of the worker that tests start: the test database, and one slow job kind."""

from trace_site.settings import *  # noqa: F403

JOB_HANDLERS = {"slow": ("tests.test_worker.slow_handler", "tests")}
CELERY_BEAT_SCHEDULE = {}
