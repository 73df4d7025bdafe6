"""Random interleavings of what happens to synthesis runs, from a seed: whoever says done keeps the equation.

Steps: start a run, a second one over the same scope, work on, cancel, resume, kill the worker, kill the database's
connections, import a tool, edit a rule. At the end everything is resumed and worked off; then nothing may be missing.
"""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from django.db import DatabaseError, connection
from django.db.models import Count, F

from tests.factories import make_domain, make_tool
from tests.synthesis.killing import worker_of

RULES = 4  # of two domains
PER_RULE = (6, 9, 15)
STEPS = 14
MOST_ROUNDS = 60  # of the jobs that wait, until everything is worked off
SMALL = 3  # samples a batch
ONE_SECOND = timedelta(seconds=1)


class Killed(BaseException):
    """The worker is gone: nothing it meant to write is written."""


@dataclass
class Play:
    """One interleaving. `told`: the steps as they went; `problems`: what must not be."""

    seed: int
    processes: bool = False  # workers are processes that SIGKILL ends, else they are stopped here
    told: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    tools: int = 0

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)

    def play(self) -> "Play":
        make_world()
        steps: dict[str, tuple[int, Callable[[], str]]] = {
            "start": (2, self.start),
            "second": (3, self.second),
            "work": (2, self.work),
            "cancel": (3, self.cancel),
            "resume": (3, self.resume),
            "kill worker": (3, self.kill_worker),
            "kill database": (2, self.kill_database),
            "import": (2, self.import_tool),
            "edit rule": (2, self.edit),
        }
        order = ["start", *self.draw.choices(list(steps), [weight for weight, _ in steps.values()], k=STEPS)]
        for name in order:
            with patch("synthesis.generate.pipeline.BATCH", SMALL):
                self.told.append(f"{name}: {steps[name][1]()}")
            self.check()
        self.work_off()
        self.check()
        return self

    def start(self, **options: Any) -> str:
        from synthesis.generate.services import synthesis_start

        asked = {
            "domain": self.draw.choice(("hr", "it", "")),
            "per_rule": self.draw.choice(PER_RULE),
            **options,
        }
        run = synthesis_start(branch="rule", seed=self.draw.choice((1, 1, 2)), wake=False, **asked)
        return f"run {run.pk}, {asked}"

    def second(self) -> str:
        """Over the scope of an earlier run."""
        from synthesis.models import SynthesisRun

        old = self.draw.choice(list(SynthesisRun.objects.order_by("pk")))
        return self.start(domain=old.params["domain"])

    def work(self) -> str:
        return self._at_work(None)

    def cancel(self) -> str:
        from trace_site import jobs

        if self.draw.random() < 0.3 and (waiting := self._jobs("queued")):
            return f"waiting job {waiting[0].pk}, {jobs.cancel(waiting[0])}"
        return self._at_work(lambda job: jobs.cancel(job))

    def resume(self) -> str:
        from synthesis.generate.services import synthesis_resume
        from synthesis.models import SynthesisRun

        stopped = SynthesisRun.objects.filter(job__state__in=["failed", "cancelled", "quarantined"])
        if not stopped:
            return "nothing"
        run = self.draw.choice(list(stopped.order_by("pk")))
        synthesis_resume(run)
        return f"run {run.pk}"

    def kill_worker(self) -> str:
        def kill(job: Any) -> None:
            raise Killed

        told = self._in_process(None) if self.processes else self._at_work(kill)
        return f"{told}, {'found dead' if self.draw.random() < 0.6 and self._reaped() else 'not noticed yet'}"

    def kill_database(self) -> str:
        def kill(job: Any) -> None:
            with connection.cursor() as cursor:
                cursor.execute(ALL_BUT_ME)
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

        return self._in_process(ALL_BUT_ME) if self.processes else self._at_work(kill)

    def import_tool(self) -> str:
        """A tool without look-alikes; half of the time they are found at once."""
        self.tools += 1
        tool = make_tool(f"Added{self.tools}/Get", domain=make_domain(self.draw.choice(("hr", "it", "new"))))
        if self.draw.random() < 0.5:
            return f"{tool.name}, without look-alikes"
        find_look_alikes()
        return tool.name

    def edit(self) -> str:
        from rules.models import Rule
        from tests.synthesis.test_incremental_runs import edit_rule

        rule = self.draw.choice(list(Rule.objects.order_by("code")))
        edit_rule(rule.code)
        return str(rule.code)

    def work_off(self) -> None:
        from trace_site import jobs
        from trace_site.jobs import Job

        self._reaped()
        for job in Job.objects.filter(kind="synthesis").exclude(state__in=["done", "queued"]):
            jobs.retry(job)
        for _ in range(MOST_ROUNDS):
            find_look_alikes()
            waiting = self._jobs("queued")
            if not waiting:
                break
            for job in waiting:
                jobs.run(job.pk)
        for job in Job.objects.filter(kind="synthesis").exclude(state="done"):
            self.problems.append(f"job {job.pk} ended {job.state}: {job.error or job.note}")

    def check(self) -> None:
        self.problems += [f"after {self.told[-1]}: {one}" for one in wrong()]

    def _jobs(self, state: str) -> list[Any]:
        from trace_site.jobs import Job

        return list(Job.objects.filter(kind="synthesis", state=state).order_by("pk"))

    def _at_work(self, event: Callable[[Any], Any] | None) -> str:
        """Work on a waiting job here; the event happens before one of its batches is committed."""
        from synthesis.generate import runs
        from trace_site import jobs

        waiting = self._jobs("queued")
        if not waiting:
            return "nothing waits"
        job, commit, left = self.draw.choice(waiting), runs._commit, [self.draw.randrange(6)]

        def stops(*given: Any) -> None:
            if event is not None and left[0] == 0:
                left[0] -= 1
                event(job)
            left[0] -= 1
            commit(*given)

        with patch("synthesis.generate.runs._commit", stops):
            try:
                jobs.run(job.pk)
            except (Killed, DatabaseError):
                connection.close()
        job.refresh_from_db()
        return f"job {job.pk} is {job.state} {job.error_code}{'' if left[0] >= 0 else ' by it'}"

    def _in_process(self, statement: str | None) -> str:
        """Work on a waiting job in a process; kill it, or what it is connected to, after some samples."""
        from synthesis.models import Attempt

        waiting = self._jobs("queued")
        if not waiting:
            return "nothing waits"
        job, before = self.draw.choice(waiting), Attempt.objects.count()
        process, target = worker_of(job.pk, SMALL), before + self.draw.randrange(12)
        while Attempt.objects.count() <= target and process.poll() is None:
            time.sleep(0.005)
        if statement is None and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        elif statement:
            with connection.cursor() as cursor:
                cursor.execute(statement)
        process.wait()
        job.refresh_from_db()
        return f"job {job.pk} is {job.state}"

    def _reaped(self) -> bool:
        """Leases of dead workers end; a killed job is no poisoned one."""
        from django.db.models.functions import Now

        from trace_site import jobs
        from trace_site.jobs import Job

        Job.objects.filter(state="running").update(lease_until=Now() - ONE_SECOND, attempt=1)
        return jobs.reap() > 0


ALL_BUT_ME = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


def make_world() -> None:
    from catalog.models import Tool
    from rules.models import Rule
    from tests.synthesis.test_incremental_runs import make_catalog

    make_catalog(RULES)
    for rule in Rule.objects.filter(code__in=["RULE_1", "RULE_3"]).select_related("published"):
        Rule.objects.filter(pk=rule.pk).update(domain=make_domain("it"))
        Tool.objects.filter(pk__in=rule.published.tool_ids).update(domain=make_domain("it"))


def find_look_alikes() -> None:
    """What the refresh does, without an encoder: the new tools are each other's."""
    from catalog.models import NeighbourList, Tool
    from trace_site.jobs import Job

    new = list(Tool.objects.filter(neighbour_list=None).values_list("pk", flat=True))
    for pk in new:
        others = [other for other in new if other != pk]
        NeighbourList.objects.create(tool_id=pk, neighbour_ids=others, scores=[0.5] * len(others))
    Job.objects.filter(kind="catalog", state="queued").update(state="done")


def wrong() -> list[str]:
    """What no interleaving may lead to."""
    from synthesis.models import Attempt, Sample, SynthesisRun
    from synthesis.samples.units import equation

    found = []
    for run in SynthesisRun.objects.filter(job__state="done").select_related("job"):
        it = equation(run)
        told = run.job.result
        if it.missing:
            found.append(f"run {run.pk} is done and {it.missing} of {it.planned} are missing")
        if it.planned != told["ready"] + told["dropped"] + sum(told["given_up"].values()):
            found.append(f"run {run.pk} told {told}")
    tried = Attempt.objects.filter(number=1).values_list("sample", flat=True)
    written = Sample.objects.exclude(machine="pending")
    if Counter(tried) != Counter(written.values_list("pk", flat=True)):
        found.append("samples and first attempts differ")
    ready = Sample.objects.filter(machine="ready", run__job__isnull=False)
    twice = ready.values("run", "slot").annotate(
        rows=Count("pk"), versions=Count("rule_version", distinct=True)
    )
    if doubled := twice.filter(rows__gt=F("versions")).count():
        found.append(f"{doubled} slots were written twice by one run")
    return found
