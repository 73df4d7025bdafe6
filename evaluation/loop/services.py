"""What closes the loop: the champion is asked the tests of new rules, and authors are told what became of theirs.

Sweepers over rows. A second one finds the same and does nothing twice: a job under way is found, a notice has its key.
"""

from collections import defaultdict
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.urls import reverse

from evaluation.benchmarks.selectors import rule_results
from evaluation.models import GateReport
from evaluation.results import kept_out
from evaluation.results.rule_tests import KIND as RULE_TESTS
from evaluation.results.rule_tests import RuleTestWork, rule_tests_request
from rules.models import RuleChange, RuleVersion
from synthesis.models import LoopSettings, SnapshotSample
from trace_site.jobs import Job
from trace_site.notices.services import Notice, tell
from training.models import ENDED_BADLY, UNDER_WAY, AliasMove, Model, Run
from training.registry.registry import current_aliases

KIND = "rule_result"
TOLD_WITHIN = timedelta(
    days=30
)  # reports older than this are told nobody any more; read notices are kept longer


def sweep() -> int:
    """How many jobs were queued and people told."""
    return ask_champion() + tell_authors()


def ask_champion() -> int:
    """Queue the tests of published rules that the champion was not asked, before another model takes its place, and the
    requests kept out of its training."""
    champion = current_aliases().get(AliasMove.Alias.CHAMPION)
    if champion is None or champion.removed_at is not None or not LoopSettings.now().evaluate:
        return 0
    asked = Job.objects.filter(kind__in=(RULE_TESTS, "evaluation"), params__model=champion.pk)
    if asked.filter(state__in=UNDER_WAY).exists():
        return 0
    missing = RuleTestWork.of(champion).versions
    last = asked.order_by("-pk").first()
    failed = last is not None and last.state in ENDED_BADLY
    if last is not None and failed:  # it is not tried again by itself until there is something new to ask
        newer = RuleVersion.objects.filter(created_at__gt=last.finished_at or last.created_at)
        missing = list(newer.filter(pk__in=[version.pk for version in missing]))
    if not missing and (failed or not kept_out.is_due(champion)):
        return 0
    rule_tests_request(model=champion)
    return 1


def tell_authors() -> int:
    """Once a gated candidate: to each author what it made of their rules; how many were told."""
    reports = GateReport.objects.filter(created_at__gte=Now() - TOLD_WITHIN, champion__isnull=False)
    rows = reports.defer("report", "counted_from").order_by("pk")
    newest = {key_of(report): report for report in rows}
    told = set(Notice.objects.filter(key__in=newest).values_list("key", flat=True))
    return sum(_tell(report) for key, report in newest.items() if key not in told)


def key_of(report: GateReport) -> str:
    return f"{KIND}:{report.candidate_id}"


def newly_learned(report: GateReport) -> QuerySet[RuleVersion]:
    """Published versions that the candidate learned from and the champion did not."""

    def learned(model: Model) -> QuerySet[SnapshotSample]:
        rows = SnapshotSample.objects.filter(
            snapshot=model.run.snapshot_id, sample__rule_version__isnull=False
        )
        return rows if model.run.retrieval == Run.Retrieval.RULES else rows.none()

    assert report.champion is not None
    rows = RuleVersion.objects.filter(rule__published__isnull=False)
    rows = rows.filter(pk__in=learned(report.candidate).values("sample__rule_version"))
    rows = rows.exclude(pk__in=learned(report.champion).values("sample__rule_version"))
    return rows.select_related("rule").order_by("pk")


@transaction.atomic
def _tell(report: GateReport) -> int:
    """Nobody while the champion is still being asked the rules' tests. The report is held, so that one tells."""
    held = GateReport.objects.select_for_update(no_key=True, of=("self",))
    report = held.select_related("candidate__run", "champion__run").get(pk=report.pk)
    versions = list(newly_learned(report))
    asking = Job.objects.filter(kind=RULE_TESTS, params__model=report.champion_id, state__in=UNDER_WAY)
    if not versions or asking.exists() or Notice.objects.filter(key=key_of(report)).exists():
        return 0
    by_author: defaultdict[int, list[RuleVersion]] = defaultdict(list)
    changes = RuleChange.objects.filter(version__in=versions).select_related("request")
    asked_by = {change.version_id: change.request.author_id for change in changes}
    for version in versions:
        for person in {version.author_id, asked_by.get(version.pk)}:
            if person is not None:
                by_author[person].append(version)
    active = set(User.objects.filter(pk__in=by_author, is_active=True).values_list("pk", flat=True))
    for person in active & by_author.keys():
        text, link = _said(report, by_author[person])
        tell([person], KIND, text, link=link, key=key_of(report))
    return len(active)


def _said(report: GateReport, versions: list[RuleVersion]) -> tuple[str, str]:
    """(whether the rules helped, the page that shows it)"""
    results = rule_results().filter(version__in=versions).defer("results")

    def counted(of: int | None) -> list[int]:
        own = [row for row in results if row.model_id == of]
        return [sum(row.passed for row in own), sum(row.total for row in own), len(own)]

    new, old = counted(report.candidate_id), counted(report.champion_id)
    model, before = f"model {report.candidate_id}", f"champion {report.champion_id}"
    if not new[1]:
        verdict = f"{model} learned from it, and has no tests to tell by"
    elif old[2] < new[2]:
        verdict = f"{new[0]} of {new[1]} tests right on {model}; {before} was not asked them all"
    else:
        word = "helped" if new[0] > old[0] else "made it worse" if new[0] < old[0] else "changed nothing"
        verdict = f"{word}: {new[0]} of {new[1]} tests right on {model}, {old[0]} on {before}"
    gate = f"The gate says of the whole model: {report.verdict}."
    if len(versions) == 1:
        version = versions[0]
        page = reverse("evaluation:loop_version", args=[version.pk])
        return f"Your rule {version.rule.code} v{version.number} {verdict}. {gate}", page
    page = reverse("training:model", args=[report.candidate_id])
    return f"{len(versions)} of your rules {verdict}. {gate}", page
