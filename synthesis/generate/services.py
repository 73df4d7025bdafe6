"""Starting synthesis runs."""

import asyncio
from collections.abc import Mapping
from typing import Any

from django.db import transaction

from catalog.models import Domain
from rules.models import Rule
from synthesis.core.queries import WRITERS
from synthesis.core.recipe import Recipe, default_recipe
from synthesis.llm.ledger import read_budget, spent
from synthesis.llm.writers import clients, endpoints, recorded
from synthesis.models import SynthesisRun
from trace_site import jobs
from trace_site.audit import models as audit_models
from trace_site.database import hold_lock
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from trace_site.lib.llm.exchange import Endpoint, Ledger

BRANCHES = ("rrb", "rule", "imported")
OUTDATED = ("rewrite", "keep")
PER_RULE, ANCHORS = 1_000, 100_000  # the most one may ask for
MOST_PLANNED = 1_000_000  # rules times samples per rule; of a snapshot, samples


def run_params(
    *,
    branch: str,
    per_rule: int = 12,
    anchors: int = 100,
    domain: str | None = "",
    rule: str = "",
    writer: str = "offline",
    underspecified: bool = False,
    recipe: Recipe | None = None,
    budget: Mapping[str, Any] | None = None,
    outdated: str = "rewrite",
) -> dict[str, Any]:
    """What a run puts down about how it was started, but for its endpoints. Raises TraceError naming the option.

    budget: {"calls", "tokens", "money"}, each the most it may take. outdated: what to do with samples that are still
    right but made by other prompts or models than today's.
    """
    one_of("branch", branch, BRANCHES)
    one_of("writer", writer, WRITERS)
    one_of("outdated", outdated, OUTDATED)
    in_range("per-rule", per_rule, most=PER_RULE)
    in_range("anchors", anchors, most=ANCHORS)
    domain = known_domain(domain)
    rules = Rule.objects.filter(published__isnull=False, **({"domain": domain} if domain else {}))
    rules = rules.filter(code=rule) if rule else rules
    if rule and not rules.exists():
        message = f"there is no published rule '{rule}'{f' in {domain}' if domain else ''}."
        raise TraceError(message, code="no_such_rule", where="--rule")
    # counted before anything is planned
    if branch == "rule" and (number := rules.count()) * per_rule > MOST_PLANNED:
        raise TraceError(
            f"{number:,} rules of {per_rule:,} samples are more than {MOST_PLANNED:,}.",
            code="too_large",
            where="--per-rule",
            hint="Ask for fewer samples per rule, or for one domain at a time.",
        )
    return {
        "per_rule": per_rule,
        "anchors": anchors,
        "domain": domain,
        "rule": rule,
        "underspecified": underspecified,
        "recipe": (recipe or default_recipe()).as_dict(),
        "budget": read_budget(budget),
        "outdated": outdated,
        "endpoints": [],
    }


def one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        hint = f"Use one of: {', '.join(allowed)}."
        raise TraceError(f"'{value}' is not known.", code="bad_option", where=f"--{name}", hint=hint)


def in_range(name: str, value: int, least: int = 1, most: int = MOST_PLANNED) -> None:
    if not least <= value <= most:
        hint = f"Use {least} to {most:,}."
        raise TraceError(f"{value} is out of range.", code="bad_option", where=f"--{name}", hint=hint)


def known_domain(slug: str | None) -> str:
    if slug and not Domain.objects.filter(pk=slug).exists():
        hint = f"Known domains: {', '.join(Domain.objects.values_list('pk', flat=True)) or 'none yet'}."
        raise TraceError(f"there is no domain '{slug}'.", code="no_such_domain", where="--domain", hint=hint)
    return slug or ""


ACTIVE = [Job.State.QUEUED, Job.State.RUNNING]
LOCK = 7_210_403  # of pg_advisory_xact_lock: one starts at a time
PROBE_SECONDS = 10.0  # all models together: whoever starts a run waits for it in a request


def synthesis_start(
    *,
    branch: str,
    writer: str = "offline",
    seed: int = 0,
    actor: Any = None,
    wake: bool = True,
    **chosen: Any,
) -> SynthesisRun:
    """Queue a run, or return the equal one that is still under way (a killed command, a double click).

    chosen: options of `run_params`. With the `llm` writer the endpoint is tried first, so that a missing key fails
    here, in one line.
    """
    params = run_params(branch=branch, writer=writer, **chosen)
    name, learnt = writer, {}
    if writer == "llm":
        found = endpoints()
        learnt = asyncio.run(_probe(found))
        name, params["endpoints"] = f"llm:{found['generator'].model}"[:120], recorded(found)
    about = params["rule"] or params["domain"]
    title = f"synthesis of {branch} samples{f' for {about}' if about else ''} ({name})"
    with transaction.atomic():
        hold_starts()
        active = SynthesisRun.objects.filter(job__state__in=ACTIVE)
        same = active.filter(branch=branch, writer=name, seed=seed, params__contains=params)
        same = same.filter(params__budget=params["budget"])  # {} is contained in every budget
        if (under_way := same.select_related("job").first()) is not None:
            return under_way
        return queue_run(branch, name, seed, {**params, **learnt}, actor, wake, title=title)


def hold_starts() -> None:
    """Let nobody else start a run or a rebuild until this transaction ends: two that are equal are one."""
    hold_lock(LOCK)


@transaction.atomic
def queue_run(
    branch: str, writer: str, seed: int, params: dict[str, Any], actor: Any, wake: bool, *, title: str
) -> SynthesisRun:
    chosen = {"branch": branch, "writer": writer, "seed": seed, "params": params}
    run = SynthesisRun.objects.create(**chosen, created_by=actor)
    run.job = jobs.enqueue("synthesis", {"run": run.pk}, title=title, created_by=actor, wake=wake)
    run.save(update_fields=["job"])
    audit_models.record(actor=actor, action="synthesis.started", obj=run, detail={"writer": writer, **params})
    return run


@transaction.atomic
def synthesis_resume(
    run: SynthesisRun, *, budget: dict[str, Any] | None = None, actor: Any = None
) -> SynthesisRun:
    """Queue an ended run again: it goes on where it stopped, with the models, recipe and plan it was started with.

    budget: new limits in place of those named; what earlier attempts spent counts. Raises TraceError when the run is
    under way or done, or when a limit is below what is spent already.
    """
    run = SynthesisRun.objects.select_for_update().get(pk=run.pk)
    limits = {**run.params.get("budget", {}), **read_budget(budget)}
    if run.job is None or not jobs.retry(run.job, actor=actor):
        state = run.job.state if run.job else "an import"
        raise TraceError(f"it is {state}; only a stopped run can go on.", code="job_state", where=str(run))
    used = spent(run.job)
    for name, most in limits.items():
        if most <= getattr(used, name):
            raise TraceError(
                f"{getattr(used, name):,} are spent already.",
                code="bad_option",
                where=f"budget.{name}",
                hint="Choose a higher limit.",
            )
    if limits != run.params.get("budget", {}):
        detail = {"was": run.params.get("budget", {}), "budget": limits}
        audit_models.record(actor=actor, action="synthesis.budget_changed", obj=run, detail=detail)
        run.params["budget"] = limits
        run.save(update_fields=["params"])
    return run


async def _probe(found: dict[str, Endpoint]) -> dict[str, Any]:
    """Until every model has answered. {"adapted": {model: what it does not take}}, empty where all take everything."""
    asked = list(dict.fromkeys(clients(found, Ledger()).values()))
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            await asyncio.gather(*(client.probe() for client in asked))
        adapted = {client.endpoint.model: dict(client.manner) for client in asked if client.manner}
        return {"adapted": adapted} if adapted else {}
    except TimeoutError:
        raise TraceError(
            f"the endpoint did not answer within {PROBE_SECONDS:g} s, so nothing was started.",
            code="llm_timeout",
            where="LLM_BASE_URL",
            hint="Start it again when the endpoint answers; a model that is still loading takes a while.",
        ) from None
    finally:
        for client in asked:
            await client.close()
