"""Who writes a run: the writers, the clients of their endpoints, the ledger; and what is put down when it starts."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from django.db.models.functions import Now

from synthesis.books import LOST
from synthesis.budgets import run_budget
from synthesis.core.queries import Writers
from synthesis.core.recipe import Recipe
from synthesis.endpoints import clients, endpoints
from synthesis.ledger import DatabaseLedger
from synthesis.models import ModelCall, PromptVersion, SynthesisRun
from synthesis.stages import Outcome, Pipeline, Unit
from synthesis.writers.llm import llm_writers
from synthesis.writers.offline import offline_writers
from synthesis.writers.prompts import source
from synthesis.writers.recorded import NAME as RECORDED
from synthesis.writers.recorded import recorded_writers
from synthesis.writing import written, written_here
from trace_site.jobs import Job, JobContext
from trace_site.lib.llm import Client

PER_SLOT = 2  # samples under way for each exchange an endpoint takes: one waits or is filtered, another asks


@dataclass(frozen=True, slots=True)
class Staff:
    writers: Writers
    ledger: DatabaseLedger
    clients: list[Client] = field(default_factory=list)

    def written(
        self, pipeline: Pipeline, units: Iterable[Unit], check: Callable[[], None]
    ) -> Iterator[list[Outcome]]:
        """Outcomes in batches. Offline writers never wait, so one thread is the fastest."""
        if not self.clients:
            return written_here(pipeline, units)
        slots = {client.endpoint.base_url: client.endpoint.concurrency for client in self.clients}
        return written(pipeline, units, PER_SLOT * sum(slots.values()), check=check, close=self._close)

    async def _close(self) -> None:
        for client in self.clients:
            await client.close()


def run_staff(run: SynthesisRun, recipe: Recipe, job: Job) -> Staff:
    """With the models the run was started with, whatever the settings say by now."""
    ledger = DatabaseLedger(job)
    if run.writer == "offline":
        return Staff(offline_writers(recipe), ledger)
    if run.writer == RECORDED:
        return Staff(recorded_writers(recipe, ledger), ledger)
    models = {row["role"]: row["model"] for row in run.params.get("endpoints", ())}
    made = clients(endpoints(models), ledger, run_budget(run, job))
    return Staff(llm_writers(made, recipe), ledger, list(dict.fromkeys(made.values())))


def open_books(ctx: JobContext, run: SynthesisRun, writers: Writers) -> None:
    """At the start of every attempt: keep the prompts' texts, close the rows that a killed process left open."""
    with ctx.guard():
        _keep_prompts(writers.made_with(run.branch))
        open_rows = ModelCall.objects.filter(job=ctx.job, state=ModelCall.State.SENT)
        open_rows.update(state=ModelCall.State.FAILED, error_code=LOST, ended_at=Now())


def _keep_prompts(made_with: dict[str, dict[str, str]]) -> None:
    prompts = {part["prompt_hash"]: part["prompt"] for part in made_with.values() if "prompt_hash" in part}
    PromptVersion.objects.bulk_create(
        (PromptVersion(hash=digest, name=name, source=source(name)) for digest, name in prompts.items()),
        ignore_conflicts=True,
    )
