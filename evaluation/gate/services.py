"""The gate: asked for, made once, told to people, and the word it gives when somebody promotes.

It follows the evaluation of every new model by itself (see results.comparison.evaluated) and measures first what
either of the two was not asked; results.tasks.run_gate does that.
"""

from dataclasses import asdict
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.urls import reverse

from evaluation.core import gate
from evaluation.core.gate import CHAMPION, EMBEDDING, FAIL, PASS, ChangedRule, Gate, GateRow
from evaluation.core.metrics import ALL
from evaluation.gate.selectors import evidence, is_outdated, newest_report
from evaluation.models import GateReport
from trace_site import jobs
from trace_site.access import ADMIN, PRODUCT_MANAGER
from trace_site.audit import models as audit_models
from trace_site.jobs import Job, JobContext
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash
from trace_site.notices.services import tell
from training.models import UNDER_WAY, Model
from training.registry.gate import GateWord
from training.registry.registry import current_aliases, refuse_removed

KIND = "gate"
NOTICE = "candidate"
VERSION = 1  # of the rule that decides: reports of another version are other reports
NAMED = 3  # slices or rules that a sentence names


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


def report_make(*, candidate: Model, champion: Model | None, ctx: JobContext) -> GateReport:
    """The report of what is stored now; equal evidence is the same report. People are told of a new one."""
    found = evidence(candidate, champion)
    opponent = champion.pk if champion else None
    key = content_hash([candidate.pk, opponent, VERSION, found.counted_from])
    if (known := GateReport.objects.filter(key=key).first()) is not None:
        return known
    made = gate_of(found)
    with ctx.guard():
        report, created = GateReport.objects.get_or_create(
            key=key,
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


def gate_of(found: Any, *, flips: int = gate.FLIPS) -> Gate:
    """Both opponents judged; the candidate's losses to the embedding that the champion shares bind nobody."""
    rows, critical = gate.judge(found.champion, CHAMPION, flips=flips)
    ours, reach = gate.judge(found.embedding[0], EMBEDDING, flips=flips)
    theirs, _ = gate.judge(found.embedding[1], EMBEDDING, flips=flips)
    changed = gate.rules_row(found.rules)
    return Gate(
        rows=(
            *((changed,) if changed else ()),
            *rows,
            *found.unmeasured,
            *gate.known_weakness(ours, theirs),
        ),
        rules=tuple(found.rules),
        notes=tuple(found.notes),
        critical={CHAMPION: critical, EMBEDDING: reach},
        flips=flips,
    )


def _tell(report: GateReport) -> None:
    people = Q(is_superuser=True) | Q(groups__name__in=(ADMIN, PRODUCT_MANAGER))
    tell(
        User.objects.filter(people, is_active=True).distinct(),
        NOTICE,
        f"{headline(report)} A person promotes it.",
        link=reverse("evaluation:gate", args=[report.pk]),
        key=f"gate:{report.pk}",
    )


# The report in sentences: for notices, the command, and whoever promotes.


def headline(report: GateReport) -> str:
    """Verdict, and the slices it rests on."""
    found = Gate.of(report.report)
    beside = f"champion {report.champion_id}" if report.champion_id else "the embedding"
    said = f"Gate: {report.verdict}. Model {report.candidate_id}"
    binding = [row for row in found.rows if row.binds]
    failed = [row for row in binding if row.verdict == FAIL]
    if failed:
        return f"{said} is worse on {len(failed)} of {len(binding)} slices: {slice_words(failed[0])}."
    if report.verdict == PASS:
        loss = f"{points(found.margin)} points or more"
        return f"{said} is nowhere worse than {beside} by {loss}, on {len(binding)} slices."
    if not binding:
        return f"{said} and {beside} were measured on nothing in the same way."
    unsure = sum(row.verdict != PASS for row in binding)
    return f"{said} is not shown to be worse than {beside}; {unsure} of {len(binding)} slices cannot tell."


def changes(report: GateReport) -> tuple[str, ...]:
    """What callers would notice, or what nobody can know, a sentence each."""
    found = Gate.of(report.report)
    failed = [row for row in found.rows if row.verdict == FAIL]
    said = [f"Worse: {slice_words(row)}." for row in failed[:NAMED]]
    if len(failed) > NAMED:
        said.append(f"Worse on {len(failed) - NAMED} slices more.")
    whole = [row for row in found.rows if (row.domain, row.group) == (ALL, ALL) and row.n and row.shows]
    for row in [row for row in whole if row.opponent == CHAMPION and row.verdict != FAIL and row.shows][
        :NAMED
    ]:
        loss = f"a loss of less than {points(row.shows or 0)} points would not be seen"
        said.append(f"On all of {row.name}, {row.decode}, {row.metric} (n {row.n}): {loss}.")
    for word, what in (
        ("better", "Rules whose tests it passes more of"),
        ("worse", "Rules it loses tests of"),
    ):
        rules = [rule for rule in found.rules if rule.word == word]
        if rules:
            said.append(f"{what}: {', '.join(map(_rule_words, rules[:NAMED]))}{_more(len(rules) - NAMED)}.")
    return tuple(said)


def _rule_words(rule: ChangedRule) -> str:
    return f"{rule.code} ({rule.candidate} of {rule.total}, before {rule.champion})"


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""


def points(share: float) -> str:
    """0.036 -> 3.6, in the points of a percentage."""
    return f"{100 * share:.1f}".removesuffix(".0")


def row_dict(row: GateRow) -> dict[str, Any]:
    """A row as the API and the command give it."""
    links = dict(zip(("evaluation", "against"), row.ids or (None, None), strict=True))
    fields = {name: value for name, value in asdict(row).items() if name != "ids"}
    return {**fields, "difference": row.difference, **links}


def slice_words(row: GateRow) -> str:
    """prb-hard v1, trace, recall@gen, hr, covered: 0.31 against 0.44 of the champion (n 83)."""
    place = [row.name, row.decode, row.metric, *(part for part in (row.domain, row.group) if part != ALL)]
    numbers = f"{row.candidate:.2f} against {row.other:.2f} of the {row.opponent} (n {row.n})"
    return f"{', '.join(filter(None, place))}: {numbers}"


def of_model(model: int, champion: int | None) -> GateWord:
    """What the gate says of a model against this champion: the hook of training.registry.gate."""
    under_way = Job.objects.filter(kind__in=(KIND, "evaluation"), state__in=UNDER_WAY, params__model=model)
    running, report = under_way.exists(), newest_report(model, champion)
    if report is not None and not is_outdated(report):
        url = reverse("evaluation:gate", args=[report.pk])
        return GateWord(report.verdict, headline(report), report.pk, url, changes(report), running)
    if report is not None:
        said = (
            f"Gate report {report.pk} is older than a benchmark that was frozen since, so it counts no more."
        )
    else:
        beside = f"against champion {champion}" if champion else "against the embedding"
        said = f"Model {model} has no gate report {beside} yet."
    return GateWord(said=said, url=f"{reverse('training:model', args=[model])}#gate", running=running)
