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
from evaluation.coverage.selectors import learned_versions
from evaluation.models import GateReport
from evaluation.results import unanswered
from evaluation.results.rule_tests import KIND as RULE_TESTS
from evaluation.results.rule_tests import rule_tests_request
from rules.models import RuleChange, RuleVersion
from synthesis.models import LoopSettings
from trace_site.audit.models import AuditEntry
from trace_site.jobs import Job
from trace_site.notices.services import Notice, tell
from training.models import ENDED_BADLY, UNDER_WAY, AliasMove
from training.registry.registry import current_aliases

KIND = "rule_result"
# reports older than this are told nobody any more; read notices are kept longer
TOLD_WITHIN = timedelta(days=30)


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
    missing = {one.version_id for one, _ in unanswered.Unanswered.tests(champion).requests}
    last = asked.order_by("-pk").first()
    failed = last is not None and last.state in ENDED_BADLY
    if last is not None and failed:
        # it is not tried again by itself until there is something new to ask
        since = AuditEntry.objects.filter(action="rule.published", at__gt=last.finished_at or last.created_at)
        missing &= set(since.values_list("detail__version_id", flat=True))
    if not missing and (failed or not unanswered.is_due(champion)):
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
    """Versions that the candidate learned from and the champion did not, of rules that are still published."""
    assert report.champion is not None
    ours, theirs = (
        learned_versions(one.run.snapshot_id, one.run.retrieval)
        for one in (report.candidate, report.champion)
    )
    rows = RuleVersion.objects.filter(rule__published__isnull=False, pk__in=ours - theirs)
    return rows.select_related("rule").order_by("pk")


@transaction.atomic
def _tell(report: GateReport) -> int:
    """Nobody while the champion is still being asked the rules' tests. The report is held, so that one tells."""
    held = GateReport.objects.select_for_update(no_key=True, of=("self",))
    report = held.select_related("candidate__run", "champion__run").get(pk=report.pk)
    versions = list(newly_learned(report))
    asked = rule_results(model=report.champion, item__version__in=versions)
    asking = Job.objects.filter(kind=RULE_TESTS, params__model=report.champion_id, state__in=UNDER_WAY)
    waits = len(asked) < len(versions) and asking.exists()
    if not versions or waits or Notice.objects.filter(key=key_of(report)).exists():
        return 0
    by_author: defaultdict[int, list[RuleVersion]] = defaultdict(list)
    changes = RuleChange.objects.filter(version__in=versions).select_related("request")
    asked_by = {change.version_id: change.request.author_id for change in changes}
    for version in versions:
        for person in {version.author_id, asked_by.get(version.pk)}:
            if person is not None:
                by_author[person].append(version)
    active = set(User.objects.filter(pk__in=by_author, is_active=True).values_list("pk", flat=True))
    for person in active:
        text, link = _said(report, by_author[person])
        tell([person], KIND, text, link=link, key=key_of(report))
    return len(active)


def _said(report: GateReport, versions: list[RuleVersion]) -> tuple[str, str]:
    """(whether the rules helped, the page that shows it); counted over the tests that both models were asked."""
    results = rule_results(item__version__in=versions)
    new, old = (
        {row.version: row for row in results if row.model == of}
        for of in (report.candidate_id, report.champion_id)
    )
    model, before = f"model {report.candidate_id}", f"champion {report.champion_id}"
    both = new.keys() & old.keys()
    passed, was = (sum(side[version].passed for version in both) for side in (new, old))
    if both:
        word = "helped" if passed > was else "made it worse" if passed < was else "changed nothing"
        total = sum(new[version].total for version in both)
        verdict = f"{word}: {passed} of {total} tests right on {model}, {was} on {before}"
    elif new:
        passed, total = (sum(getattr(row, name) for row in new.values()) for name in ("passed", "total"))
        verdict = f"taught {model}: {passed} of {total} tests right; {before} was not asked them"
    else:
        verdict = f"taught {model}, and no test tells whether that helped"
    gate = f"The gate says of the whole model: {report.verdict}."
    if len(versions) == 1:
        version = versions[0]
        page = reverse("evaluation:loop_version", args=[version.pk])
        return f"Your rule {version.rule.code} v{version.number} {verdict}. {gate}", page
    page = reverse("training:model", args=[report.candidate_id])
    return f"{len(versions)} of your rules {verdict}. {gate}", page
