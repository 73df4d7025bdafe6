"""The gate: asked for, made once, and told to people.

It follows the evaluation of every new model by itself (see results.comparison.evaluated) and measures first what
either of the two was not asked; results.tasks.run_gate does that.
"""

from collections.abc import Collection
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.urls import reverse

from evaluation.gate.evidence import evidence, gate_of
from evaluation.gate.selectors import KIND, headline, newest_report
from evaluation.models import GateReport
from trace_site import jobs
from trace_site.access import ADMIN, PRODUCT_MANAGER
from trace_site.audit import models as audit_models
from trace_site.jobs import Job, JobContext
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash
from trace_site.notices.services import tell
from training.models import UNDER_WAY, Model
from training.registry.registry import current_aliases, refuse_removed

NOTICE = "candidate"


@transaction.atomic
def gate_request(*, candidate: Model, champion: Model | None = None, actor: Any = None) -> Job:
    """Queue the gate of a model against the champion, or another model; one under way is returned.

    Raises TraceError `bad_state` when the model is its own opponent, `removed` when its files are gone.
    """
    against = champion or current_aliases().get("champion")
    if against == candidate:
        hint = "Name another model as its opponent."
        raise TraceError(f"model {candidate.pk} is the champion itself.", code="bad_state", hint=hint)
    refuse_removed(candidate)
    params = {"model": candidate.pk, "champion": champion.pk if champion else None}
    active = Job.objects.filter(kind=KIND, state__in=UNDER_WAY, params__contains=params)
    if (under_way := active.first()) is not None:
        return under_way
    beside = f"champion {against.pk}" if against else "the embedding"
    title = f"gate model {candidate.pk} {candidate.run.cell} against {beside}"
    return jobs.enqueue(KIND, params, title=title, created_by=actor)


def report_make(
    *, candidate: Model, champion: Model | None, measured: Collection[int], ctx: JobContext
) -> GateReport:
    """The report of what was `measured` (ids of evaluations): the newest one where nothing has changed since. People
    are told of a new one."""
    found = evidence(candidate, champion, measured)
    opponent = champion.pk if champion else None
    newest = newest_report(candidate.pk, opponent)
    if newest is not None and newest.counted_from == found.counted_from:
        return newest
    made = gate_of(found)
    with ctx.guard():
        report, created = GateReport.objects.get_or_create(
            key=content_hash([candidate.pk, opponent, newest and newest.pk, found.counted_from]),
            defaults={
                "candidate": candidate,
                "champion": champion,
                "verdict": made.verdict,
                "report": made.as_dict(),
                "counted_from": found.counted_from,
                "job": ctx.job,
            },
        )
        if created:
            detail = {"report": report.pk, "verdict": made.verdict, "champion": opponent}
            audit_models.record(actor=ctx.job.created_by, action="model.gated", obj=candidate, detail=detail)
            _tell(report)
    return report


def _tell(report: GateReport) -> None:
    people = Q(is_superuser=True) | Q(groups__name__in=(ADMIN, PRODUCT_MANAGER))
    tell(
        User.objects.filter(people, is_active=True).distinct(),
        NOTICE,
        f"{headline(report)} A person promotes it.",
        link=reverse("evaluation:gate", args=[report.pk]),
        key=f"gate:{report.pk}",
    )
