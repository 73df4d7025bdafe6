"""manage.py demo: the whole main job on the demo data, then the site.

Every step is an ordinary command; a step whose result exists is not run again, so a killed demo goes on where it
stopped and a second one serves at once.
"""

import io
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import CommandParser, call_command

from catalog.models import Clustering, Domain, Tool
from catalog.queries.registry import real_queries
from evaluation.benchmarks.selectors import RESULTS
from evaluation.benchmarks.services import evaluation_request, probe_benchmarks_build
from evaluation.models import Benchmark, Evaluation
from rules.changes.services import request_submit
from rules.exchange.services import file_preview, file_request
from rules.models import ChangeRequest, Rule
from synthesis.models import Guideline, Snapshot, SynthesisRun
from synthesis.team.guidelines import guideline_save
from trace_site.commands import TraceCommand, run_inline
from trace_site.dev.supervisor import serve
from trace_site.jobs import Job, reap
from trace_site.lib.errors import TraceError, declared
from trace_site.people.services import DEMO_FILE, DEMO_NAMES, ensure_demo_users
from training.models import AliasMove, Model, Run

DATA = settings.BASE_DIR / "trace_site" / "demo"
FORMAT = "a"
MEMO = "m"
RETRIEVALS = ("r+R", "r")  # the champion, and the same model without rule samples to compare it with
ANCHORS = 200
PER_RULE = 12
MEASURES = ("evaluation", "gate")
MORE = 3  # a rule more after the freeze, so that the reviewer has a queue


class Command(TraceCommand):
    help = "Run the whole main job on the demo data, then serve it."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=settings.PORT)
        parser.add_argument("--no-serve", action="store_true", help="end after the coverage page's numbers")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        started = time.monotonic()
        self.voice = _Voice()
        with self.voice.heard("prepare the database"):
            call_command("migrate", verbosity=0)
        logins = ensure_demo_users()
        steps, ran = self.steps(), 0
        for number, (title, is_done, work) in enumerate(steps, start=1):
            if is_done():
                continue
            self.echo(f"[{number}/{len(steps)}] {title}")
            with self.voice.heard(title):
                work()
            ran += 1
        if ran > 1:  # the last step only prints coverage
            self.echo(f"the main job is done; this part took {time.monotonic() - started:.0f} s")
        for login in logins:
            # a password goes to a terminal, not into the log of whatever runs this
            shown = login["password"] if self.stdout.isatty() else f"(password in {DEMO_FILE})"
            password = shown if login["password"] else "(password changed)"
            self.echo(f"  {login['role']:<16} {login['username']:<6} {password}")
        if not options["no_serve"]:
            os.environ["TRACE_DEMO"] = "1"  # its sign-in page offers the logins
            serve(options["port"], self.echo)
        return {"seconds": round(time.monotonic() - started)}, ""

    def steps(self) -> list[tuple[str, Callable[[], bool], Callable[[], Any]]]:
        """(what people read, is its result there?, the command)."""
        call, write = self.call, partial(self.call, "synthesis_run", seed=1)
        tone, queries = (
            "import requests that show the tone, without names and numbers",
            DATA / "real_queries.txt",
        )
        # by the offline writers: nothing more is recorded
        more = {"per_rule": PER_RULE + MORE, "keep_outdated": True, "writer": "offline"}
        return [
            ("import the HR and Finance catalogs", lambda: Domain.objects.count() >= 2, self.import_catalogs),
            (
                "import and publish 26 rules",
                Rule.objects.exists,
                lambda: call("rules_import", DATA / "rules.json", publish=True),
            ),
            ("find each tool's nearest neighbours", _all_embedded, lambda: call("catalog_neighbours")),
            ("find the confusable clusters", Clustering.objects.exists, lambda: call("catalog_clusters")),
            ("freeze the benchmarks", lambda: Benchmark.objects.count() >= 9, self.import_benchmarks),
            (
                tone,
                real_queries().exists,
                lambda: call("queries_import", queries, collection="demo, made up"),
            ),
            (
                "write queries and traces for the rules",
                lambda: _samples("rule"),
                lambda: write(branch="rule", per_rule=PER_RULE, writer="recorded"),
            ),
            (
                "write queries and traces for the catalog",
                lambda: _samples("rrb"),
                lambda: write(branch="rrb", anchors=ANCHORS, writer="recorded"),
            ),
            (
                "approve what passed filter and judge",
                Snapshot.objects.exists,
                lambda: call("review_policy", auto_approve="all"),
            ),
            (
                "freeze the dataset",
                Snapshot.objects.exists,
                lambda: call("snapshot_build", strategy="append", per_rule=PER_RULE, seed=1),
            ),
            ("train with and without the rules' samples, both at once, and evaluate", _trained, self.train),
            ("evaluate every model, and ask the gate", _evaluated, self.evaluate),
            ("promote the model trained with rules", AliasMove.objects.exists, self.promote),
            (
                "write more queries, for the reviewer to decide",
                _waiting,
                lambda: write(branch="rule", **more),
            ),
            ("write a guideline for reviewers", Guideline.objects.exists, self.write_guidelines),
            ("propose two rules for approval", ChangeRequest.objects.exists, self.propose),
            ("coverage", lambda: False, lambda: call("coverage")),
        ]

    def call(self, command: str, *args: Any, **options: Any) -> None:
        call_command(command, *map(str, args), stdout=self.voice, **options)

    def import_catalogs(self) -> None:
        for slug in ("hr", "finance"):
            self.call("catalog_import", DATA / f"{slug}_tools.jsonl", domain=slug, licence="Apache-2.0")

    def import_benchmarks(self) -> None:
        for tier, source in (("hard", "prb.jsonl"), ("plain", "prb_plain.jsonl")):
            for part, name in (("shown", f"prb-{tier}"), ("development", f"prb-{tier}-development")):
                self.call("benchmark_import", DATA / source, kind="prb", tier=tier, part=part, name=name)
        for part, name in (("shown", "outside"), ("development", "outside-development")):
            self.call("benchmark_import", DATA / "outside.jsonl", kind="outside", part=part, name=name)
        self.call("benchmark_import", DATA / "mcq_expert.jsonl", kind="mcq_expert", name="mcq-expert-demo")
        probe_benchmarks_build(name="demo", actor=None)

    def train(self) -> None:
        """In a process each: on two cores, two trainings of one thread end sooner than one of two after another."""
        snapshot = str(Snapshot.objects.latest("id").pk)
        cell = ("--snapshot", snapshot, "--format", FORMAT, "--memo", MEMO)
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda name: self.apart("training_run", *cell, "--retrieval", name), RETRIEVALS))

    def apart(self, *command: str) -> None:
        """Run a command in a process of its own, with its share of the threads; what it says is heard here."""
        threads = str(max(1, settings.ML_THREADS // len(RETRIEVALS)))
        child = subprocess.Popen(
            [sys.executable, settings.BASE_DIR / "manage.py", *command],
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "ML_THREADS": threads},
        )
        assert child.stdout is not None
        for line in child.stdout:
            self.voice.write(line)
        if child.wait():
            raise TraceError(f"{command[0]} ended with {child.returncode}; see above.", code="command_failed")

    def evaluate(self) -> None:
        """Training queued these; without a worker running they are worked off here."""
        reap()
        if not Job.objects.filter(kind__in=MEASURES).exclude(state="done").exists():
            for model in Model.objects.order_by("pk"):
                evaluation_request(model=model)
        for kind in MEASURES:  # the second follows from the first
            for job in Job.objects.filter(kind=kind, state__in=["queued", "running"]).order_by("id"):
                run_inline(job, self.echo)
        if failed := Job.objects.filter(kind__in=MEASURES, state="failed").first():
            raise TraceError(failed.error, code=declared(failed.error_code, "job_failed"))

    def promote(self) -> None:
        """Past its gate, as a person would: with so few requests it can hardly tell, and that is confirmed. A failed
        gate stops the demo."""
        model = str(Model.objects.get(run__retrieval="r+R").pk)
        self.call("gate", candidate=model)
        self.call("promote", model=model, confirm=True, note="the demo's first champion")

    def write_guidelines(self) -> None:
        admin = User.objects.get(username=DEMO_NAMES["admin"])
        for row in json.loads((DATA / "guidelines.json").read_text()):
            guideline_save(**row, author=admin, base=0)

    def propose(self) -> None:
        """A change request of the expert that waits for the admin: one rule edited, one new."""
        path, expert = DATA / "proposed_rules.json", User.objects.get(username=DEMO_NAMES["expert"])
        preview = file_preview(data=path.read_bytes(), filename=path.name)
        why = "Corrected payslips kept being looked up in the new payroll; credit limits had no rule at all."
        request = file_request(
            preview=preview, actor=expert, title="Corrected payslips, credit limits", description=why
        )
        request_submit(request=request, actor=expert, revision=request.revision)


def _all_embedded() -> bool:
    return not Tool.objects.filter(status=Tool.Status.ACTIVE, neighbour_list=None).exists()


def _samples(branch: str) -> bool:
    return Job.objects.filter(synthesis_run__branch=branch, state="done").exists()


def _waiting() -> bool:
    """Whether the queue was filled once: these samples are younger than the snapshot."""
    return SynthesisRun.objects.filter(branch="rule", job__state="done").count() > 1


def _trained() -> bool:
    found = Run.objects.filter(memo=MEMO, model__isnull=False).values_list("retrieval", flat=True)
    return set(RETRIEVALS) <= set(found)


def _evaluated() -> bool:
    """By this version too: what was asked another way than callers ask is gone."""
    unfinished = Job.objects.filter(kind__in=MEASURES).exclude(state="done")
    measured = Evaluation.objects.filter(RESULTS, model__isnull=False).values("model")
    return not unfinished.exists() and not Model.objects.exclude(pk__in=measured).exists()


class _Voice(io.TextIOBase):
    """Standard output; it says so when a step has been silent for 4 seconds."""

    last = 0.0

    def write(self, text: str) -> int:
        self.last = time.monotonic()
        sys.stdout.write(text)
        sys.stdout.flush()
        return len(text)

    @contextmanager
    def heard(self, title: str) -> Iterator[None]:
        self.last = started = time.monotonic()
        ended = threading.Event()

        def speak() -> None:
            while not ended.wait(0.5):
                if time.monotonic() - self.last > 4:
                    self.write(f"    {title}: {time.monotonic() - started:.0f} s\n")

        thread = threading.Thread(target=speak, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
