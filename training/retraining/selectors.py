"""What a policy stands before: what changed since the snapshot it trained on last, and what goes on meanwhile."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, F, Q, QuerySet
from django.db.models.functions import Now

from rules.models import Rule, RuleVersion
from synthesis.models import Decision, LoopSettings, Sample, Snapshot
from trace_site.audit.models import AuditEntry
from trace_site.database import database_now
from trace_site.jobs import Job
from trace_site.worker import load
from training.core.retraining import Facts, RetrainVerdict, judge
from training.models import ENDED_BADLY, UNDER_WAY, Retraining, RetrainPolicy, Run

KIND = "retraining"
QUEUE = "gpu"  # whose worker trains
ON_THE_WORKER = Q(kind__in=("training", KIND)) | Q(queue=QUEUE)
PATIENCE = timedelta(days=1)  # how long training waits for what is left to read of a rule
CHANGES = {
    "rule.published": "rules changed",
    "rule.withdrawn": "rules changed",
    "catalog.imported": "the catalog changed",
    "catalog.import_undone": "the catalog changed",
}
APPROVED = {"human": Sample.Human.APPROVED, "machine": Sample.Machine.READY}


@dataclass(frozen=True, slots=True)
class ChangedRule:
    """`was` and `now` are version numbers; None: not published then, or not now. `samples`: approved ones of `now`;
    `waiting`: written within a day, and not read."""

    pk: int | None
    domain: str
    code: str
    was: int | None
    now: int | None
    samples: int = 0
    waiting: int = 0

    @property
    def change(self) -> str:
        return "withdrawn" if self.now is None else "new" if self.was is None else "changed"

    @property
    def taught(self) -> bool:
        """Whether training now teaches it, or teaches that it is gone."""
        return self.now is None or self.samples > 0


@dataclass(slots=True)
class Standing:
    """A policy at one moment. `last`: what it is measured against; `own`: its job or run under way."""

    policy: RetrainPolicy
    facts: Facts
    verdict: RetrainVerdict
    last: Retraining | None
    own: Job | None
    failed: Job | None
    rules: list[ChangedRule] = field(default_factory=list)

    @property
    def starts_itself(self) -> bool:
        return self.policy.active and self.verdict.due and self.own is None

    def reasons(self) -> dict[str, Any]:
        """What a retraining puts down of why it was started."""
        return {
            "approved_samples": self.facts.approved,
            "changed_rules": [f"{rule.domain}/{rule.code}" for rule in self.rules if rule.taught],
            "untaught_rules": [f"{rule.domain}/{rule.code}" for rule in self.rules if not rule.taught],
            "since_run": self.last.run_id if self.last else None,
            "since_snapshot": self.last.run.snapshot_id if self.last else None,
            "words": self.verdict.reasons,
        }


def standing(policy: RetrainPolicy) -> Standing:
    """One policy now, by the database's clock; the number of queries is constant."""
    last, failed_run = last_of(policy)
    own, failed_job = own_jobs(policy, last)
    rules = changed_rules(policy, last)
    failed = failed_job or failed_run
    what = (
        "The last snapshot was not built" if failed and failed.kind == KIND else "The last run made no model"
    )
    # one retraining at a time, whoever asked for it
    training = Job.objects.filter(ON_THE_WORKER, state__in=UNDER_WAY).order_by("id").first()
    changed_at, change = newest_change()
    loop = LoopSettings.now()
    facts = Facts(
        now=database_now(),
        approved=new_samples(policy, last).count(),
        taught=sum(rule.taught for rule in rules),
        change=change,
        changed_at=changed_at,
        writing=Job.objects.filter(kind="synthesis", state__in=UNDER_WAY).count(),
        reading=sum(rule.waiting for rule in rules if 0 < rule.samples < policy.snapshot["per_rule"]),
        busy=f"job {training.pk} ({training.title}) is {training.state}" if training else "",
        load=load(QUEUE) if loop.most_load else None,
        switched_off=not loop.train,
        failed=f"{what}: {failed.error or failed.state}" if failed else "",
        failed_at=failed.finished_at if failed else None,
    )
    verdict = judge(
        facts,
        approved_samples=policy.approved_samples,
        changed_rules=policy.changed_rules,
        quiet=timedelta(minutes=policy.quiet_minutes),
        most_load=loop.most_load,
    )
    return Standing(policy, facts, verdict, last, own, failed, rules)


def last_of(policy: RetrainPolicy) -> tuple[Retraining | None, Job | None]:
    """The newest retraining whose run made a model or still may, and the job of a newer one that did not.

    A policy that has trained nothing yet is measured against what people trained of its cell, as if it had: that is
    known already.
    """
    rows = policy.retrainings.select_related("run__job", "run__model", "run__snapshot")
    failed = None
    for row in rows.defer("run__snapshot__manifest", "run__log_tail", "run__model__card")[:20]:
        job = row.run.job
        if hasattr(row.run, "model") or job is None or job.state not in ENDED_BADLY:
            return row, failed
        failed = failed or job
    cell = {name: getattr(policy, name) for name in ("base", "format", "memo", "retrieval")}
    by_hand = Run.objects.filter(model__isnull=False, **cell).select_related("job", "model", "snapshot")
    run = by_hand.defer("snapshot__manifest", "log_tail", "model__card").order_by("-pk").first()
    if run is None:
        return None, failed
    before = Decision.objects.filter(at__lte=run.snapshot.created_at).order_by("-pk")
    reasons = {"decision": before.values_list("pk", flat=True).first() or 0}
    return Retraining(run=run, reasons=reasons, at=run.created_at), failed


def own_jobs(policy: RetrainPolicy, last: Retraining | None) -> tuple[Job | None, Job | None]:
    """(the policy's job that is under way, the newest one that ended badly after its last retraining)."""
    newest = Job.objects.filter(kind=KIND, params__policy=policy.pk).order_by("-id").first()
    if newest is not None and newest.is_active:
        return newest, None
    failed = newest if newest is not None and newest.state in ENDED_BADLY else None
    if last is not None and failed is not None and last.at > failed.created_at:
        failed = None
    if last is not None and last.run.job is not None and last.run.job.is_active:
        return last.run.job, failed
    return None, failed


def newest_change() -> tuple[datetime | None, str]:
    """When rules, catalog or review changed last, and which of them."""
    found = []
    for action, change in CHANGES.items():
        entries = AuditEntry.objects.filter(action=action).order_by("-at", "-id")
        if (at := entries.values_list("at", flat=True).first()) is not None:
            found.append((at, change))
    decided = Decision.objects.order_by("-id").values_list("at", flat=True).first()
    if decided is not None:
        found.append((decided, "samples reviewed"))
    return max(found) if found else (None, "")


def new_samples(policy: RetrainPolicy, last: Retraining | None) -> QuerySet[Sample]:
    """Approved samples of the policy's branches that were decided since its last snapshot and are not in it."""
    found = Sample.objects.filter(**APPROVED, branch__in=policy.snapshot["branches"])
    if domain := policy.snapshot.get("domain"):
        found = found.filter(domain=domain)
    if last is None:
        return found
    since = Decision.objects.filter(pk__gt=last.reasons.get("decision", 0)).values("sample")
    return found.filter(pk__in=since).exclude(memberships__snapshot=last.run.snapshot_id)


def changed_rules(policy: RetrainPolicy, last: Retraining | None) -> list[ChangedRule]:
    """Published rules that the last snapshot does not hold as they are, and rules it holds that are withdrawn.

    Only a cell that learns from rule samples learns what rules say: of any other, none counts.
    """
    if policy.retrieval != Run.Retrieval.RULES or "rule" not in policy.snapshot["branches"]:
        return []
    domain = policy.snapshot.get("domain") or ""
    # {(domain, code): (version, content hash)} of the last snapshot, with the id of the version of what is published
    was: dict[tuple[str, str], tuple[int, str]] = {}
    if last is not None:
        held = Snapshot.objects.values_list("manifest__rules", flat=True).get(pk=last.run.snapshot_id)
        for row in held or []:
            if not domain or row["domain"] == domain:
                was[row["domain"], row["code"]] = row["version"], row["hash"]
    published = RuleVersion.objects.filter(rule__published_id=F("pk")).order_by()
    if domain:
        published = published.filter(rule__domain=domain)
    columns = published.values_list("rule__domain", "rule__code", "number", "content_hash", "pk")
    now = {(slug, code): (number, content, pk) for slug, code, number, content, pk in columns}
    changed = sorted(
        key
        for key in was.keys() | now.keys()
        if key not in was or key not in now or was[key][1] != now[key][1]
    )
    rules = Rule.objects.filter(code__in={code for _, code in changed})
    ids = {(rule.domain_id, rule.code): rule.pk for rule in rules}
    versions = [now[key][2] for key in changed if key in now]
    approved = Sample.objects.filter(**APPROVED, rule_version__in=versions).order_by()
    samples = dict(approved.values_list("rule_version").annotate(Count("pk")))
    unread = Sample.objects.filter(
        rule_version__in=versions,
        machine=Sample.Machine.READY,
        human__in=(Sample.Human.PENDING, Sample.Human.SECOND, Sample.Human.DISPUTED),
        created_at__gte=Now() - PATIENCE,
    )
    waiting = dict(unread.order_by().values_list("rule_version").annotate(Count("pk")))
    return [
        ChangedRule(
            ids.get(key),
            *key,
            was[key][0] if key in was else None,
            now[key][0] if key in now else None,
            samples.get(now[key][2], 0) if key in now else 0,
            waiting.get(now[key][2], 0) if key in now else 0,
        )
        for key in changed
    ]
