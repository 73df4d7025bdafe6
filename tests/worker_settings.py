"""Settings of the worker that tests start: the test database, and a slow and a crashing kind of job."""

from trace_site.settings import *  # noqa: F403

JOB_HANDLERS = {
    "slow": ("tests.test_worker.slow_handler", "tests"),
    "crash": ("tests.test_worker.crashing_handler", "tests"),
}
CELERY_BEAT_SCHEDULE = {}
