"""Kill -9 of a process that runs a synthesis job, and whether the books hold afterwards.

The process group is killed once the model server has received a given number of requests; then the lease is ended, as
time would do, and another process goes on. `python -m tests.synthesis.killing JOB [BATCH]` is that process, which
commits so many samples at once.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

PER_RULE = 60
# 3 styles of 20: 15 query calls, then a trace and a judge call for each sample
CALLS = 15 + 2 * PER_RULE


@dataclass(slots=True)
class Outcome:
    """What was lost, paid twice or doubled over all kills of one run; every field but the first three must be 0.

    resent: equal bodies the server received again. in_flight: ledger rows that were open when a process died.
    """

    kills: int = 0
    in_flight: int = 0
    resent: int = 0
    unbooked: int = 0
    paid_twice: int = 0
    wrong_tokens: int = 0
    doubled: int = 0
    unwritten: int = 0
    left_open: int = 0

    @property
    def problems(self) -> dict[str, int]:
        names = ("unbooked", "paid_twice", "wrong_tokens", "doubled", "unwritten", "left_open")
        found = {name: getattr(self, name) for name in names if getattr(self, name)}
        return found | ({"resent": self.resent} if self.resent > self.in_flight else {})


def kill_and_resume(server: Any, moments: list[int], seed: int = 1) -> Outcome:
    """Start a run over the test rule, kill it when the server has received each of `moments` requests, finish it."""
    from dataclasses import replace

    from synthesis.core.recipe import default_recipe
    from synthesis.generate.services import synthesis_start
    from synthesis.models import ModelCall

    recipe = default_recipe()
    recipe = replace(recipe, trace=replace(recipe.trace, permission_share=0.0))
    run = synthesis_start(
        branch="rule", per_rule=PER_RULE, writer="llm", recipe=recipe, seed=seed, wake=False
    )
    server.control(reset=True)  # the probe is in no book
    found = Outcome()
    for moment in moments:
        process = worker_of(run.job_id)
        while len(server.exchanges()) < moment and process.poll() is None:
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        found.kills += 1
        found.in_flight += ModelCall.objects.filter(job=run.job_id, state="sent").count()
        queue_again(run.job_id)
    assert worker_of(run.job_id).wait(timeout=120) == 0
    return _checked(found, run, server)


def worker_of(job: int, *batch: int) -> "subprocess.Popen[bytes]":
    from django.conf import settings
    from django.db import connection

    database = connection.settings_dict
    place = f"{database['HOST']}:{database['PORT']}/{database['NAME']}"
    environment = {
        **os.environ,
        "DATABASE_URL": f"postgresql://{database['USER']}:{database['PASSWORD']}@{place}",
        "DJANGO_SETTINGS_MODULE": "trace_site.settings",
        **{
            name: str(getattr(settings, name))
            for name in (
                "LLM_BASE_URL",
                "LLM_API_KEY",
                "LLM_GENERATOR_MODEL",
                "LLM_TEACHER_MODEL",
                "LLM_JUDGE_MODEL",
                "LLM_CONCURRENCY",
            )
        },
    }
    command = [sys.executable, "-m", "tests.synthesis.killing", *map(str, [job, *batch])]
    return subprocess.Popen(command, cwd=settings.BASE_DIR, env=environment, start_new_session=True)


def queue_again(job: int) -> None:
    """End the dead process's lease; the reaper does the rest. A killed job is no poisoned one."""
    from django.db.models.functions import Now

    from trace_site import jobs
    from trace_site.jobs import Job

    row = Job.objects.filter(pk=job)
    row.update(lease_until=Now() - timedelta(seconds=1), attempt=1)
    jobs.reap()
    assert row.get().state == Job.State.QUEUED


def _checked(found: Outcome, run: Any, server: Any) -> Outcome:
    from django.db.models import Count

    from synthesis.models import Attempt, ModelCall, ModelReply, Sample

    rows = {str(row.uid): row for row in ModelCall.objects.filter(job=run.job_id)}
    received = server.exchanges()
    found.resent = sum(times - 1 for times in Counter(one.body for one in received).values())
    found.unbooked = sum(one.uid not in rows for one in received)
    answered = {uid: row for uid, row in rows.items() if row.state == "answered"}
    found.paid_twice = len(answered) - len({row.key for row in answered.values()})
    found.paid_twice += len(answered) - ModelReply.objects.count()
    told = {one.uid: (one.prompt_tokens, one.completion_tokens) for one in received}
    found.wrong_tokens = sum(
        told.get(uid) != (row.prompt_tokens, row.completion_tokens) for uid, row in answered.items()
    )
    samples = Sample.objects.filter(run=run)
    slots = samples.values("slot").annotate(rows=Count("pk")).filter(rows__gt=1).count()
    attempts = Attempt.objects.filter(sample__run=run)
    firsts = attempts.filter(number=1)
    found.doubled = slots + abs(samples.count() - PER_RULE) + firsts.count() - samples.count()
    found.unwritten = samples.exclude(machine="ready").count()
    found.left_open = sum(row.state == "sent" for row in rows.values())
    return found


def main() -> int:
    import django

    django.setup()
    from synthesis.generate import pipeline
    from trace_site import jobs

    job, *batch = map(int, sys.argv[1:])
    pipeline.BATCH = batch[0] if batch else pipeline.BATCH
    done = jobs.run(job)
    if done is None or done.state != "done":
        print(done and (done.state, done.error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
