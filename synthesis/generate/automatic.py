"""Samples that are written by themselves: what published rules lack, once nothing else is written.

What is due follows from the rows alone: a published version with fewer samples than wanted that no automatic run was
started for. So a kill loses nothing, two sweepers start one run between them, and a run that failed is left to people.
A language model is asked within what an admin lets automatic runs spend in a calendar month, and never without that.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, Sum
from django.forms import model_to_dict

from rules.models import RuleVersion
from synthesis.generate.estimates import estimate_new
from synthesis.generate.planning import AUTOMATIC
from synthesis.generate.services import ACTIVE, PER_RULE, hold_starts, in_range, queue_run, run_params
from synthesis.llm.ledger import read_budget, spent, spent_on
from synthesis.llm.writers import configured, endpoints, recorded
from synthesis.models import LoopSettings, ModelCall, Sample, SampleCount, SynthesisRun
from synthesis.samples.counts import BY_RULE
from synthesis.samples.staleness import newest_recipe
from trace_site.audit import models as audit_models
from trace_site.database import database_now
from trace_site.lib.errors import TraceError

AT_ONCE = 500  # rules that one automatic run writes for
BRANCH = SynthesisRun.Branch.RULE
HIGHEST_LOAD = 16.0  # a core
FIELDS = ("write", "per_rule", "budget", "train", "most_load", "evaluate", "answer")


@dataclass(slots=True)
class Writing:
    """What automatic writing stands before. `due`: {rule version: samples it lacks}; `keeps`: why nothing starts now;
    `left`: what of this month's budget is left, empty without a language model."""

    settings: LoopSettings
    writer: str
    due: dict[int, int]
    keeps: list[str] = field(default_factory=list)
    left: dict[str, float] = field(default_factory=dict)


def standing() -> Writing:
    """A constant number of queries, and no catalog is read."""
    chosen, llm = LoopSettings.now(), configured()
    found = Writing(chosen, "llm" if llm else "offline", lacking(chosen.per_rule))
    if not chosen.write:
        found.keeps.append("Writing by itself is switched off.")
    running = SynthesisRun.objects.filter(job__state__in=ACTIVE).order_by("pk").first()
    if running is not None:
        found.keeps.append(f"{str(running).capitalize()} is under way: one at a time.")
    if llm:
        found.left = budget_left(chosen)
        if why := _unpaid(found):
            found.keeps.append(why)
    return found


def lacking(per_rule: int) -> dict[int, int]:
    """{published rule version: how many samples it lacks}, of those that no automatic run was started for."""
    published = RuleVersion.objects.filter(rule__published_id=F("pk")).order_by("pk")
    taken = {pk for pks in automatic_runs().values_list(f"params__{AUTOMATIC}", flat=True) for pk in pks}
    wanted = [pk for pk in published.values_list("pk", flat=True) if pk not in taken]
    rows = SampleCount.objects.filter(level__in=BY_RULE, rule_version__in=wanted)
    rows = rows.exclude(machine=Sample.Machine.DROPPED).exclude(human=Sample.Human.REJECTED)
    have = dict(rows.values_list("rule_version").annotate(sum=Sum("n")).order_by())
    return {pk: lacks for pk in wanted if (lacks := per_rule - have.get(pk, 0)) > 0}


def automatic_runs() -> Any:
    return SynthesisRun.objects.filter(params__has_key=AUTOMATIC).order_by("pk")


def month() -> datetime:
    """Its first moment, UTC."""
    return database_now().replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def budget_left(chosen: LoopSettings) -> dict[str, float]:
    """Without what automatic runs, and those that wrote their rejected samples again, have spent this month."""
    if not chosen.budget:
        return {}
    calls = ModelCall.objects.filter(job__in=automatic_runs().values("job"), sent_at__gte=month())
    used = spent_on(calls)
    return {name: most - getattr(used, name) for name, most in chosen.budget.items()}


def payable() -> dict[str, float] | None:
    """What an automatic run may spend of a language model now, as its budget; None: nothing. What another one under
    way may still spend is its own."""
    chosen = LoopSettings.now()
    try:
        if limits_nothing(chosen):
            return None
    except TraceError:  # no language model is there to be paid
        return None
    left = budget_left(chosen)
    for run in automatic_runs().filter(job__state__in=ACTIVE).select_related("job"):
        used = spent(run.job)
        for name, most in (run.params.get("budget") or {}).items():
            if name in left:
                left[name] -= max(0, most - getattr(used, name))
    return _whole(left) if all(value > 0 for value in left.values()) else None


def limits_nothing(chosen: LoopSettings) -> bool:
    """Whether there is no budget, or one of money alone where no endpoint has a price: every call is free of that."""
    priced = any(one.price_in or one.price_out for one in endpoints().values())
    return not (chosen.budget.keys() - ({"money"} if not priced else set()))


def _unpaid(found: Writing) -> str:
    """Why the language model may not be asked for what is due; empty where it may."""
    try:
        endpoints()
    except TraceError as error:
        return str(error)
    chosen = found.settings
    if not chosen.budget:
        return "A language model writes here, and no admin has said what automatic runs may spend in a month."
    if limits_nothing(chosen):
        return "No prices are set (LLM_GENERATOR_PRICE_IN and the like), so a budget of money alone limits nothing."
    month_name = f"{month():%B}"
    if gone := [name for name, left in found.left.items() if left <= 0]:
        told = ", ".join(f"{chosen.budget[name]:,.10g} {name}" for name in gone)
        return f"The budget of {month_name} is spent: {told}."
    numbers = list(found.due.values())[:AT_ONCE]
    over = estimate_new(numbers, budget=found.left).over if numbers else ()
    return f"More is needed than what {month_name} has left: {', '.join(over)}." if over else ""


def sweep() -> int:
    """Start a run for what is due; how many rules it writes for."""
    if not _starts(standing()):
        return 0
    with transaction.atomic():
        hold_starts()
        found = standing()  # again under the lock: another sweeper may have been first
        return len(_start(found)) if _starts(found) else 0


def _starts(found: Writing) -> bool:
    return bool(found.due) and not found.keeps


def _start(found: Writing) -> list[int]:
    versions = list(found.due)[:AT_ONCE]
    recipe, _ = newest_recipe(BRANCH, found.writer)
    params = run_params(
        branch=BRANCH,
        writer=found.writer,
        per_rule=found.settings.per_rule,
        recipe=recipe,
        budget=_whole(found.left),
        outdated="keep",
    )
    params[AUTOMATIC] = versions
    name = found.writer
    if name == "llm":
        asked_of = endpoints()
        name, params["endpoints"] = f"llm:{asked_of['generator'].model}"[:120], recorded(asked_of)
    codes = RuleVersion.objects.filter(pk__in=versions[:1]).values_list("rule__code", flat=True)
    about = codes[0] if len(versions) == 1 else f"{len(versions):,} published rules"
    queue_run(BRANCH, name, 0, params, None, True, title=f"samples for {about}, by itself ({name})")
    return versions


def _whole(left: Mapping[str, float]) -> dict[str, float]:
    """As a run's budget: calls and tokens are whole numbers."""
    return {name: value if name == "money" else int(value) for name, value in left.items()}


@transaction.atomic
def loop_save(*, actor: Any, **fields: Any) -> LoopSettings:
    """Change what goes on by itself. fields: those of LoopSettings. Raises TraceError naming the field."""
    row, _ = LoopSettings.objects.select_for_update(of=("self",)).get_or_create(pk=LoopSettings.ROW)
    before = model_to_dict(row, FIELDS)
    for name, value in fields.items():
        setattr(row, name, value)
    in_range("per_rule", row.per_rule, most=PER_RULE)
    row.budget = read_budget(row.budget)
    if not 0 <= row.most_load <= HIGHEST_LOAD:
        hint = f"Use 0 (not asked) to {HIGHEST_LOAD:g}."
        raise TraceError(f"{row.most_load} is out of range.", code="bad_option", where="most_load", hint=hint)
    if (now := model_to_dict(row, FIELDS)) != before:
        row.changed_by = actor
        row.save()
        audit_models.record(actor=actor, action="loop.changed", obj=row, detail={"was": before, "now": now})
    return row
