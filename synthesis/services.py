"""Starting synthesis and snapshot jobs."""

import asyncio
from typing import Any

from django.db import transaction

from catalog.models import Domain
from rules.models import Rule
from synthesis.core.recipe import Recipe, default_recipe
from synthesis.endpoints import clients, endpoints
from synthesis.models import SynthesisRun
from trace_site import audit, jobs
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from trace_site.lib.llm import Endpoint, NoLedger

BRANCHES = ("rrb", "rule", "imported")
STRATEGIES = ("append", "replace")
MAX_SAMPLES = 1_000_000


def synthesis_start(
    *,
    branch: str,
    per_rule: int = 12,
    anchors: int = 100,
    domain: str | None = "",
    rule: str = "",
    writer: str = "offline",
    seed: int = 0,
    underspecified: bool = False,
    permission_share: float = 0.1,
    recipe: Recipe | None = None,
    actor: Any = None,
    wake: bool = True,
) -> SynthesisRun:
    """Queue a run, or return the equal one that is still under way (a killed command, a double click).

    With the `llm` writer the endpoint is tried first, so that a missing key fails here, in one line.
    """
    _one_of("branch", branch, BRANCHES)
    _one_of("writer", writer, ("offline", "llm"))
    _count("per-rule", per_rule)
    _count("anchors", anchors)
    domain = _domain(domain)
    _published(domain, rule)
    if not 0 <= permission_share <= 1:
        raise TraceError("must lie between 0 and 1.", code="bad_option", where="permission_share")
    params = {
        "per_rule": per_rule,
        "anchors": anchors,
        "domain": domain,
        "rule": rule,
        "underspecified": underspecified,
        "permission_share": permission_share,
        "recipe": (recipe or default_recipe()).as_dict(),
    }
    name = _probed_llm() if writer == "llm" else "offline"
    active = SynthesisRun.objects.filter(job__state__in=[Job.State.QUEUED, Job.State.RUNNING])
    same = active.filter(branch=branch, writer=name, seed=seed, params__contains=params)
    if (under_way := same.select_related("job").first()) is not None:
        return under_way
    with transaction.atomic():
        run = SynthesisRun.objects.create(
            branch=branch, writer=name, seed=seed, params=params, created_by=actor
        )
        run.job = jobs.enqueue(
            "synthesis",
            {"run": run.pk},
            title=f"synthesis of {branch} samples{f' for {domain}' if domain else ''} ({name})",
            created_by=actor,
            wake=wake,
        )
        run.save(update_fields=["job"])
        audit.record(actor=actor, action="synthesis.started", obj=run, detail={"writer": name, **params})
    return run


def _published(domain: str, code: str) -> None:
    rules = Rule.objects.filter(code=code, published__isnull=False)
    if code and not (rules.filter(domain=domain) if domain else rules).exists():
        raise TraceError(
            f"there is no published rule '{code}'{f' in {domain}' if domain else ''}.",
            code="no_such_rule",
            where="--rule",
        )


def _probed_llm() -> str:
    """The writer's name, once every model has answered."""
    found = endpoints()
    asyncio.run(_probe(found))
    return f"llm:{found['generator'].model}"[:120]


async def _probe(found: dict[str, Endpoint]) -> None:
    for client in set(clients(found, NoLedger()).values()):
        try:
            await client.probe()
        finally:
            await client.close()


def snapshot_start(
    *,
    strategy: str,
    per_rule: int,
    branches: list[str] | None = None,
    rrb: int | None = None,
    domain: str | None = "",
    seed: int = 0,
    strict: bool = False,
    actor: Any = None,
    wake: bool = True,
) -> Job:
    """Queue the building of a snapshot."""
    _one_of("strategy", strategy, STRATEGIES)
    chosen = branches or ["rrb", "rule"]
    for branch in chosen:
        _one_of("branches", branch, BRANCHES)
    _count("per-rule", per_rule, least=0)
    if rrb is not None:
        _count("rrb", rrb, least=0)
    domain = _domain(domain)
    params = {
        "strategy": strategy,
        "per_rule": per_rule,
        "branches": [branch for branch in BRANCHES if branch in chosen],
        "rrb": rrb,
        "domain": domain,
        "seed": seed,
        "strict": strict,
        "actor": actor.pk if actor else None,
    }
    title = f"snapshot {strategy}({per_rule})"
    return jobs.enqueue("snapshot", params, title=title, created_by=actor, wake=wake)


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise TraceError(
            f"'{value}' is not known.",
            code="bad_option",
            where=f"--{name}",
            hint=f"Use one of: {', '.join(allowed)}.",
        )


def _count(name: str, value: int, least: int = 1) -> None:
    if not least <= value <= MAX_SAMPLES:
        raise TraceError(
            f"{value} is out of range.",
            code="bad_option",
            where=f"--{name}",
            hint=f"Use {least} to {MAX_SAMPLES:,}.",
        )


def _domain(slug: str | None) -> str:
    if slug and not Domain.objects.filter(pk=slug).exists():
        known = ", ".join(Domain.objects.values_list("pk", flat=True)) or "none yet"
        raise TraceError(
            f"there is no domain '{slug}'.",
            code="no_such_domain",
            where="--domain",
            hint=f"Known domains: {known}.",
        )
    return slug or ""
