"""manage.py demo: the whole main job on the demo data, served from the first minute on.

What the pages show is there before the site starts. The rest are ordinary jobs of its workers: samples, dataset,
trainings, evaluations and gates. A step whose result is there is not done again, so a killed demo goes on where it
stopped and a second one serves at once.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import CommandParser, call_command
from django.db import DatabaseError
from django.db.models import QuerySet
from django.urls import reverse

from catalog.imports.services import catalog_import
from catalog.lookalikes import clusters_update, neighbours_update
from catalog.models import Clustering, Domain, Tool
from catalog.queries.imports import queries_import, read_queries
from catalog.queries.registry import real_queries
from evaluation.benchmarks.selectors import RESULTS
from evaluation.benchmarks.services import benchmark_import, probe_benchmarks_build
from evaluation.benchmarks.services import evaluation_request as search_evaluation_request
from evaluation.gate.services import gate_request
from evaluation.models import Benchmark, Count, Evaluation, GateReport
from evaluation.results import rollups
from evaluation.results.strip import first_tools
from rules.changes.services import request_submit
from rules.exchange.services import file_preview, file_request, rules_import
from rules.models import ChangeRequest, Rule
from synthesis.datasets.build import snapshot_start
from synthesis.generate.services import synthesis_start
from synthesis.models import Guideline, Snapshot, SynthesisRun
from synthesis.review.services import policy_approve
from synthesis.team.guidelines import guideline_save
from trace_site.commands import TraceCommand
from trace_site.dev.supervisor import Steps, address_served, serve
from trace_site.dev.terminal import Progress
from trace_site.jobs import Job, retry, send_wake
from trace_site.lib.errors import TraceError, declared
from trace_site.people.services import DEMO_FILE, DEMO_NAMES, ensure_demo_users
from training.models import AliasMove, Model
from training.registry.registry import promote
from training.runs.job import evaluation_key, evaluation_request
from training.runs.services import run_create
from training.runs.stages import default_recipe

DATA = settings.BASE_DIR / "trace_site" / "demo"
FORMAT, MEMO = "a", "m"
WITH_RULES, WITHOUT = "r+R", "r"  # the champion, and the same without rule samples to compare it with
ANCHORS = 200
PER_RULE = 12
MORE = 3  # a rule more after the freeze, so that the reviewer has a queue


class Step(NamedTuple):
    """`seconds`: what it takes on two idle cores of an AMD EPYC. `work` may return the job that does it."""

    title: str
    seconds: float
    is_done: Callable[[], bool]
    work: Callable[[], object]


class Command(TraceCommand):
    help = "Serve the demo's catalogs and rules, and train a model on them in view."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=settings.PORT)
        parser.add_argument("--no-serve", action="store_true", help="end once the last step is done")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        self.started, self.ends = time.monotonic(), options["no_serve"]
        self.progress = Progress(sys.stdout)
        try:
            for step in self.open_steps(self.first_steps(), later=self.later_steps()):
                step.work()
            os.environ["TRACE_DEMO"] = "1"  # its sign-in page offers the logins
            serve(options["port"], self.progress.say, self.meanwhile())
        except KeyboardInterrupt as error:
            stopped, hint = "stopped; what was finished is kept.", "Run it again to go on."
            raise TraceError(stopped, code="interrupted", hint=hint) from error
        finally:
            self.progress.close()
        return {"seconds": round(time.monotonic() - self.started)}, ""

    def open_steps(self, steps: list[Step], later: list[Step]) -> Iterator[Step]:
        """Those whose result is not there, told as they begin and end."""
        for at, step in enumerate(steps, start=1):
            if not step.is_done():
                rest = [*steps[at:], *later]
                self.progress.begin(step.title, step.seconds, sum(one.seconds for one in rest))
                yield step
                self.progress.end()

    def meanwhile(self) -> Steps:
        """The later steps, while the site is served. A failure leaves the site as it is, unless the demo ends there."""
        self.tell_logins()
        try:
            yield from self.train_in_view()
        except (TraceError, DatabaseError) as error:
            if self.ends:
                raise
            self.progress.say(f"error: {error}")
            self.progress.say("The site goes on. Start the demo again to go on with what is left.")
        finally:
            self.progress.give_up()
        if self.ends:
            signal.raise_signal(signal.SIGTERM)

    def train_in_view(self) -> Iterator[None]:
        step = None
        for step in self.open_steps(self.later_steps(), later=[]):
            if isinstance(job := step.work(), Job):
                yield from self.follow(job)
        if step is not None:
            self.tell_result()

    def follow(self, job: Job) -> Iterator[None]:
        """Until a worker has done it. Raises TraceError where it does not end well."""
        retry(job)  # one that ended badly when the demo ran last
        job.refresh_from_db()
        if job.state == Job.State.QUEUED:
            send_wake(job)
        while job.is_active:
            part = job.note.partition(":")[0]
            self.progress.at(f"{part} {job.percent} %".strip() if job.total else "", job.seconds_left)
            yield
            job.refresh_from_db()
        if job.state != Job.State.DONE:
            code = declared(job.error_code, "job_failed")
            raise TraceError(job.error or f"{job.title} was {job.state}.", code=code)

    def first_steps(self) -> list[Step]:
        """All that pages need."""
        find_neighbours = partial(neighbours_update, echo=self.progress.at)
        return [
            Step("prepare the database", 5, lambda: False, self.prepare_database),
            Step(
                "import the HR and Finance catalogs", 1, lambda: Domain.objects.count() >= 2, import_catalogs
            ),
            Step("import and publish 26 rules", 1, Rule.objects.exists, import_rules),
            Step("find each tool's nearest neighbours", 6, all_embedded, find_neighbours),
            Step("find the confusable clusters", 1, Clustering.objects.exists, clusters_update),
            Step("count what the rules tell apart", 1, Count.objects.exists, self.count),
            Step("freeze the benchmarks", 1, lambda: Benchmark.objects.count() >= 9, import_benchmarks),
            Step("import requests that show the tone", 1, real_queries().exists, import_queries),
            Step("write a guideline for reviewers", 1, Guideline.objects.exists, write_guidelines),
            Step("propose two rules for approval", 1, ChangeRequest.objects.exists, propose),
            # before there are workers, which would order by themselves what the rules lack
            Step("order samples for rules", 1, lambda: bool(ordered("rule")), order_rule_samples),
        ]

    def later_steps(self) -> list[Step]:
        """The work of the site's workers."""
        frozen, promoted = Snapshot.objects.exists, AliasMove.objects.exists
        measured = Evaluation.objects.filter(RESULTS, model=None).exists
        return [
            Step("measure plain search", 15, measured, measure_search),
            Step("write samples for the rules", 12, frozen, lambda: ordered("rule")),
            # after the other: side by side, whichever writes first has the first ids, and the dataset another hash
            Step("write samples for the catalog", 7, frozen, catalog_samples),
            Step("approve what passed filter and judge", 1, frozen, lambda: policy_approve(count=None)),
            Step("freeze the dataset", 1, frozen, freeze),
            Step("order more samples, for the reviewer to decide", 1, queue_is_filled, fill_queue),
            *model_steps("the model with rules", WITH_RULES),
            Step("promote the model with rules", 1, promoted, promote_first),
            *model_steps("the model without rules", WITHOUT),
        ]

    def prepare_database(self) -> None:
        call_command("migrate", verbosity=0)
        self.logins = ensure_demo_users()
        excuse_running_jobs()

    def count(self) -> None:
        """As the sweeper would, a minute later."""
        rollups.refresh()

    def tell_logins(self) -> None:
        for login in self.logins:
            # a password goes to a terminal, not into the log of whatever runs this
            shown = login["password"] if self.stdout.isatty() else f"(password in {DEMO_FILE})"
            password = shown if login["password"] else "(password changed)"
            self.progress.say(f"  {login['role']:<16} {login['username']:<6} {password}")

    def tell_result(self) -> None:
        model = models_of(WITH_RULES).earliest("pk").pk
        (before, _), (after, asked) = first_tools(None), first_tools(model)
        minutes, seconds = divmod(round(time.monotonic() - self.started), 60)
        figures = f"first tool right in {after} of {asked} test requests, with plain search, without rules, in {before}"
        self.progress.say(
            f"All steps are done, after {minutes} min {seconds} s. Model {model} answers: {figures}."
        )
        self.progress.say(f"What the rules changed: {address_served()}{reverse('evaluation:before_after')}")


# The steps before the site starts.


def excuse_running_jobs() -> None:
    """A demo that was killed took its workers along: that is no fault of what they ran, and uses up no attempt."""
    Job.objects.filter(state=Job.State.RUNNING).update(attempt=0)


def import_catalogs() -> None:
    for slug in ("hr", "finance"):
        catalog_import(path=DATA / f"{slug}_tools.jsonl", domain=slug, licence="Apache-2.0")


def import_rules() -> None:
    rules_import(path=DATA / "rules.json", publish=True)


def all_embedded() -> bool:
    return not Tool.objects.filter(status=Tool.Status.ACTIVE, neighbour_list=None).exists()


def import_benchmarks() -> None:
    for tier, source in (("hard", "prb.jsonl"), ("plain", "prb_plain.jsonl")):
        for part, name in (("shown", f"prb-{tier}"), ("development", f"prb-{tier}-development")):
            benchmark_import(path=DATA / source, kind="prb", tier=tier, part=part, name=name)
    for part, name in (("shown", "outside"), ("development", "outside-development")):
        benchmark_import(path=DATA / "outside.jsonl", kind="outside", part=part, name=name)
    benchmark_import(path=DATA / "mcq_expert.jsonl", kind="mcq_expert", name="mcq-expert-demo")
    probe_benchmarks_build(name="demo")


def import_queries() -> None:
    path = DATA / "real_queries.txt"
    given = read_queries(path.read_bytes(), path.name)
    queries_import(given=given, collection="demo, made up", actor=None)


def write_guidelines() -> None:
    admin = User.objects.get(username=DEMO_NAMES["admin"])
    for row in json.loads((DATA / "guidelines.json").read_text()):
        guideline_save(**row, author=admin, base=0)


def propose() -> None:
    """A change request of the expert that waits for the admin: one rule edited, one new."""
    path, expert = DATA / "proposed_rules.json", User.objects.get(username=DEMO_NAMES["expert"])
    preview = file_preview(data=path.read_bytes(), filename=path.name)
    why = "Corrected payslips kept being looked up in the new payroll; credit limits had no rule at all."
    request = file_request(
        preview=preview, actor=expert, title="Corrected payslips, credit limits", description=why
    )
    request_submit(request=request, actor=expert, revision=request.revision)


def order_rule_samples() -> None:
    synthesis_start(branch="rule", per_rule=PER_RULE, writer="recorded", seed=1)


# The steps after it.


def ordered(branch: str) -> Job | None:
    run = SynthesisRun.objects.filter(branch=branch).select_related("job").order_by("pk").first()
    return run.job if run else None


def catalog_samples() -> Job | None:
    known = ordered("rrb")
    return known or synthesis_start(branch="rrb", anchors=ANCHORS, writer="recorded", seed=1).job


def measure_search() -> Job:
    known = Job.objects.filter(kind="evaluation", params__contains={"model": None}).first()
    return known or search_evaluation_request(model=None)


def freeze() -> Job:
    known = Job.objects.filter(kind="snapshot").order_by("pk").first()
    return known or snapshot_start(strategy="append", per_rule=PER_RULE, seed=1)


def queue_is_filled() -> bool:
    return SynthesisRun.objects.filter(branch="rule").count() > 1


def fill_queue() -> None:
    """By the offline writers, for nothing more is recorded. These samples are younger than the dataset."""
    synthesis_start(branch="rule", per_rule=PER_RULE + MORE, writer="offline", outdated="keep", seed=1)


def models_of(retrieval: str) -> QuerySet[Model]:
    return Model.objects.filter(run__memo=MEMO, run__retrieval=retrieval)


def model_steps(name: str, retrieval: str) -> list[Step]:
    models = models_of(retrieval)

    def train() -> Job | None:
        snapshot = Snapshot.objects.earliest("pk")
        cell = {"base": settings.BASE_MODEL, "format": FORMAT, "memo": MEMO, "retrieval": retrieval}
        recipe = default_recipe(settings.BASE_MODEL).with_cell(**cell)
        return run_create(snapshot=snapshot, recipe=recipe).job

    def evaluated() -> bool:
        key = evaluation_key(models.earliest("pk"))
        return Job.objects.filter(idempotency_key=key, state=Job.State.DONE).exists()

    def gated() -> bool:
        return GateReport.objects.filter(candidate=models.earliest("pk")).exists()

    return [
        Step(f"train {name}", 130, models.exists, train),
        Step(f"evaluate {name}", 25, evaluated, lambda: evaluation_request(model=models.earliest("pk"))),
        Step(f"ask the gate about {name}", 1, gated, lambda: gate_request(candidate=models.earliest("pk"))),
    ]


def promote_first() -> None:
    """Past its gate, as a person would: with so few requests it can hardly tell, and that is confirmed. A failed gate
    stops the demo."""
    model = models_of(WITH_RULES).earliest("pk")
    promote(model=model, actor=None, confirmed=True, note="the demo's first champion")
