"""Which definition of covered, uncovered and outside is in force.

Every finished evaluation of requests is counted by one definition, the newest `GroupDefinition`. Another one comes in
with all their numbers in one transaction (`recount.py`); what is measured meanwhile is counted by the one in force. So
a page may show any evaluations beside each other, and says by which rules and clusters they were counted.
"""

from dataclasses import dataclass

from evaluation.coverage.selectors import Definition, definition_now
from evaluation.models import GroupDefinition
from trace_site.audit import models as audit_models
from trace_site.database import hold_lock
from trace_site.jobs import Job
from training.models import ENDED_BADLY

KIND = "recount"  # of the job that brings in another definition
LOCK = 7_210_405  # advisory lock number: numbers are published by one definition at a time


class DefinitionMoved(Exception):
    """Another definition came into force while numbers were counted by the one before."""


def in_force() -> GroupDefinition | None:
    return GroupDefinition.objects.first()


def as_definition(row: GroupDefinition) -> Definition:
    return Definition(row.clusterings, row.dismissed, row.rules, row.readings, row.words)


def definition_to_count_by() -> Definition:
    """The one in force, else what will be the first."""
    row = in_force()
    return as_definition(row) if row else definition_now()


def hold(definition: Definition, job: Job | None) -> GroupDefinition:
    """The row of a definition that is in force, to the end of the transaction; the first one is made here. Raises
    DefinitionMoved."""
    lock()
    row = in_force()
    if row is None:
        return define(definition, job)
    if row.hash != definition.hash:
        raise DefinitionMoved
    return row


def lock() -> None:
    """To the end of the transaction nobody else publishes numbers of requests."""
    hold_lock(LOCK)


def define(definition: Definition, job: Job | None) -> GroupDefinition:
    """Put it in force; the caller holds the lock and publishes all numbers by it in the same transaction."""
    row = GroupDefinition.objects.create(
        hash=definition.hash,
        clusterings=definition.clusterings,
        dismissed=definition.dismissed,
        rules=definition.rules,
        readings=definition.readings,
        words=definition.words,
        job=job,
    )
    detail = {"clusterings": row.clusterings, "rules": row.rule_count, "dismissed": len(row.dismissed)}
    audit_models.record(actor=None, action="groups.defined", obj=row, detail=detail)
    return row


@dataclass(frozen=True, slots=True)
class GroupsStanding:
    """What pages with groups say of them. `stale`: rules or clusters changed since, and the recount is not through;
    `job`: the newest recount then; `failed`: it was to bring in what rules and clusters say now."""

    definition: GroupDefinition | None
    stale: bool
    job: Job | None
    failed: bool


def groups_standing() -> GroupsStanding:
    """Two queries, and one more while a recount is due."""
    row, wanted = in_force(), definition_now().hash
    stale = row is not None and row.hash != wanted
    job = newest_job() if stale else None
    return GroupsStanding(row, stale, job, has_failed(job, wanted))


def newest_job() -> Job | None:
    return Job.objects.filter(kind=KIND).order_by("-pk").first()


def has_failed(job: Job | None, wanted: str) -> bool:
    """Whether a recount for these rules and clusters ended badly: it is not tried again until they change or a person
    retries it."""
    return job is not None and job.state in ENDED_BADLY and job.params.get("hash") == wanted
