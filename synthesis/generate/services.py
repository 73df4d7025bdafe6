"""Starting synthesis and snapshot jobs."""

import asyncio
from collections.abc import Mapping
from typing import Any

from django.db import connection, transaction

from catalog.models import Domain
from rules.models import Rule
from synthesis.core.queries import WRITERS
from synthesis.core.recipe import Recipe, default_recipe
from synthesis.llm.usage import read_budget, refuse_spent, spent
from synthesis.llm.writers import clients, endpoints, recorded
from synthesis.models import Snapshot, SynthesisRun
from trace_site import jobs
from trace_site.audit import models as audit_models
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from trace_site.lib.llm import Endpoint, NoLedger
from trace_site.lib.provenance import licence_of

BRANCHES = ("rrb", "rule", "imported")
OUTDATED = ("rewrite", "keep")
PER_RULE, ANCHORS = 1_000, 100_000  # the most one may ask for
MOST_PLANNED = 1_000_000  # rules times samples per rule
MAX_SAMPLES = 1_000_000  # of a snapshot's limits


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
    _one_of("branch", branch, BRANCHES)
    _one_of("writer", writer, WRITERS)
    _one_of("outdated", outdated, OUTDATED)
    _in_range("per-rule", per_rule, most=PER_RULE)
    _in_range("anchors", anchors, most=ANCHORS)
    domain = known_domain(domain)
    rules = Rule.objects.filter(published__isnull=False, **({"domain": domain} if domain else {}))
    rules = rules.filter(code=rule) if rule else rules
    if rule and not rules.exists():
        raise TraceError(
            f"there is no published rule '{rule}'{f' in {domain}' if domain else ''}.",
            code="no_such_rule",
            where="--rule",
        )
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


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise TraceError(
            f"'{value}' is not known.",
            code="bad_option",
            where=f"--{name}",
            hint=f"Use one of: {', '.join(allowed)}.",
        )


def _in_range(name: str, value: int, least: int = 1, most: int = MAX_SAMPLES) -> None:
    if not least <= value <= most:
        raise TraceError(
            f"{value} is out of range.",
            code="bad_option",
            where=f"--{name}",
            hint=f"Use {least} to {most:,}.",
        )


def known_domain(slug: str | None) -> str:
    if slug and not Domain.objects.filter(pk=slug).exists():
        known = ", ".join(Domain.objects.values_list("pk", flat=True)) or "none yet"
        raise TraceError(
            f"there is no domain '{slug}'.",
            code="no_such_domain",
            where="--domain",
            hint=f"Known domains: {known}.",
        )
    return slug or ""


def domain_budgets(given: Mapping[str, Mapping[str, Any]] | None) -> dict[str, dict[str, int]]:
    """{domain: {"rule", "rrb", "share"}} without what is not limited. Raises TraceError naming the domain's limit."""
    found: dict[str, dict[str, int]] = {}
    for domain, limits in (given or {}).items():
        for name, number in limits.items():
            if number is None:
                continue
            most = 100 if name == "share" else MAX_SAMPLES
            whole = isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= most
            if name not in ("rule", "rrb", "share") or not whole:
                raise TraceError(
                    f"{number!r} is no budget.",
                    code="bad_option",
                    where=f"budgets.{domain}.{name}",
                    hint=f"Use rule, rrb (0 to {MAX_SAMPLES:,} samples) or share (0 to 100 percent).",
                )
            found.setdefault(str(known_domain(domain)), {})[name] = number
    return dict(sorted(found.items()))


ACTIVE = [Job.State.QUEUED, Job.State.RUNNING]
STRATEGIES = ("append", "replace")
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
    name = writer
    if writer == "llm":
        found = endpoints()
        asyncio.run(_probe(found))
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
        return queue_run(branch, name, seed, params, actor, wake, title=title)


def hold_starts() -> None:
    """Let nobody else start a run or a rebuild until this transaction ends: two that are equal are one."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])


@transaction.atomic
def queue_run(
    branch: str, writer: str, seed: int, params: dict[str, Any], actor: Any, wake: bool, *, title: str
) -> SynthesisRun:
    run = SynthesisRun.objects.create(
        branch=branch, writer=writer, seed=seed, params=params, created_by=actor
    )
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
    refuse_spent(limits, spent(run.job))
    if limits != run.params.get("budget", {}):
        detail = {"was": run.params.get("budget", {}), "budget": limits}
        audit_models.record(actor=actor, action="synthesis.budget_changed", obj=run, detail=detail)
        run.params["budget"] = limits
        run.save(update_fields=["params"])
    return run


async def _probe(found: dict[str, Endpoint]) -> None:
    """Until every model has answered."""
    asked = list(dict.fromkeys(clients(found, NoLedger()).values()))
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            await asyncio.gather(*(client.probe() for client in asked))
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


def snapshot_start(*, wake: bool = True, actor: Any = None, **options: Any) -> Job:
    """Queue the building of a snapshot; options of `snapshot_params`."""
    params = snapshot_params(**options, actor=actor)
    title = f"snapshot {params['strategy']}({params['per_rule']})"
    return jobs.enqueue("snapshot", params, title=title, created_by=actor, wake=wake)


def snapshot_params(
    *,
    strategy: str,
    per_rule: int,
    branches: list[str] | None = None,
    rrb: int | None = None,
    domain: str | None = "",
    seed: int = 0,
    strict: bool = False,
    budgets: Mapping[str, Mapping[str, Any]] | None = None,
    licence: str = "",
    actor: Any = None,
) -> dict[str, Any]:
    """The checked options, as a job that builds a snapshot reads them. Raises TraceError naming the option.

    budgets: {domain: {"rule", "rrb": at most so many, "share": percent}}. `licence` is of the dataset itself; it is
    no part of what the dataset is.
    """
    _one_of("strategy", strategy, STRATEGIES)
    chosen = branches or ["rrb", "rule"]
    for branch in chosen:
        _one_of("branches", branch, BRANCHES)
    _in_range("per-rule", per_rule, least=0)
    if rrb is not None:
        _in_range("rrb", rrb, least=0)
    return {
        "strategy": strategy,
        "per_rule": per_rule,
        "branches": [branch for branch in BRANCHES if branch in chosen],
        "rrb": rrb,
        "domain": known_domain(domain),
        "seed": seed,
        "strict": strict,
        "budgets": domain_budgets(budgets),
        "licence": licence_of(licence, "--licence"),
        "actor": actor.pk if actor else None,
    }


@transaction.atomic
def rebuild_start(*, snapshot: Snapshot, actor: Any = None, wake: bool = True) -> Job:
    """Queue the rebuilding of a snapshot's folder from the database, or return the one that is under way."""
    hold_starts()
    active = Job.objects.filter(
        kind="snapshot_rebuild", params__snapshot=snapshot.pk, state__in=[Job.State.QUEUED, Job.State.RUNNING]
    )
    if (under_way := active.first()) is not None:
        return under_way
    return jobs.enqueue(
        "snapshot_rebuild",
        {"snapshot": snapshot.pk},
        title=f"rebuild of {snapshot}",
        created_by=actor,
        wake=wake,
    )
