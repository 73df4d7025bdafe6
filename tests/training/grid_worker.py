"""A worker of its own process on the test database: runs training jobs until none is left, with a fake trainer."""

import time

import django


def main() -> None:
    django.setup()
    from trace_site import jobs
    from trace_site.worker import _run_polled, slots
    from training.runs import stages

    stages.TRAINER, stages.COPY_SECONDS = "tests.training.fake_trainer", 0.1
    training = jobs.Job.objects.filter(kind="training")
    while training.filter(state__in=["queued", "running"]).exists():
        jobs.reap()
        slots.acquire()
        _run_polled(list(training.filter(state="queued").order_by("pk").values_list("pk", flat=True)))
        time.sleep(0.05)


if __name__ == "__main__":
    main()
