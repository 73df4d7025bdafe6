"""How far a published rule is on its way to the model: six steps, what is so, what each waits for, and who can act.

In: rule versions. Out: a `Course` for each. Everything is read from the rows that the steps themselves write, so a page
is right after any kill. The number of queries does not grow with the versions.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, F, Q, QuerySet, Sum
from django.urls import reverse

from evaluation.benchmarks.selectors import RuleResult, rule_results
from evaluation.coverage.selectors import champion_versions
from evaluation.models import Evaluation, GateReport
from rules.models import RuleChange, RuleVersion
from rules.selectors import clauses_leading
from synthesis.generate import automatic
from synthesis.generate.automatic import Writing
from synthesis.generate.planning import AUTOMATIC
from synthesis.generate.selectors import next_step
from synthesis.models import LoopSettings, Sample, SampleCount, SnapshotSample, SynthesisRun
from synthesis.samples.counts import BY_RULE
from trace_site.audit.models import AuditEntry
from trace_site.jobs import Job
from training.models import ENDED_BADLY, AliasMove, Model, RetrainPolicy, Run
from training.registry.registry import current_aliases, untaught_clauses
from training.retraining.selectors import Standing, standing

TITLES = ("Published", "Samples written", "Samples approved", "Trained", "Evaluated and gated", "Promoted")
DONE, RUNNING, WAITING, STOPPED, OFF = "done", "running", "waiting", "stopped", "off"
WAITS = (Sample.Human.PENDING, Sample.Human.SECOND, Sample.Human.DISPUTED)
Links = tuple[tuple[str, str, str], ...]
SOON = "It starts by itself within a minute."


@dataclass(frozen=True, slots=True)
class Step:
    """`said`: what is so. `waits`: why it does not go on by itself, in sentences. `who` can act, at `links`: (label,
    address, the address's route, which some may not open)."""

    title: str
    state: str
    said: str = ""
    waits: tuple[str, ...] = ()
    who: str = ""
    at: datetime | None = None
    links: Links = ()


@dataclass(slots=True)
class Course:
    """One version of a rule. `model`: the newest that learned from it; `asked`: [(who, its test result or None)]."""

    version: RuleVersion
    steps: list[Step]
    superseded: str = ""
    model: Model | None = None
    asked: list[tuple[str, Model, RuleResult | None]] = field(default_factory=list)
    untaught: Counter[bool] = field(default_factory=Counter)  # of its clauses; True: they wait for training

    @property
    def clauses(self) -> str:
        """Those that the champion was not trained on, in words; empty: there are none."""
        words = {False: "in force, not yet trained", True: "waiting for training"}
        return ", ".join(
            f"{many} clause{'' if many == 1 else 's'} {words[waits]}"
            for waits, many in sorted(self.untaught.items())
        )

    @property
    def done(self) -> int:
        return sum(step.state == DONE for step in self.steps)

    @property
    def at(self) -> Step | None:
        """The step it stands at; None at the end."""
        return next((step for step in self.steps if step.state != DONE), None)

    @property
    def under_way(self) -> bool:
        return not self.superseded and self.at is not None


def link(label: str, route: str, *args: Any, **query: Any) -> tuple[str, str, str]:
    address = reverse(route, args=args)
    return label, f"{address}?{urlencode(query)}" if query else address, route


@dataclass(slots=True)
class Facts:
    """What the steps of some versions are told from; {version id: ...} unless said otherwise."""

    settings: LoopSettings
    writing: Writing
    policies: list[Standing]
    champion: Model | None
    published: dict[int, AuditEntry]
    requests: dict[int, int]
    samples: dict[int, Counter[tuple[str, str]]]
    runs: dict[int, SynthesisRun]
    snapshots: dict[int, dict[int, int]]  # {version: {snapshot: samples of it}}
    trained: dict[int, list[Run]]  # {snapshot: runs that learn from rules, the newest first}
    evaluations: dict[int, Job]  # {model: the newest job that evaluates or gates it}
    measured: set[int]  # models with a finished evaluation
    reports: dict[int, GateReport]  # {model: the newest}
    tests: dict[int, dict[int, RuleResult]]  # {version: {model: its result}}
    crowned: dict[int, AliasMove]  # {model: when it became champion}
    # {rule: clauses the champion was not trained on, by whether they wait}
    untaught: dict[int, Counter[bool]]


def courses(versions: Sequence[RuleVersion]) -> list[Course]:
    """Of these versions, in their order; give them with their rule and author."""
    known = facts_of(versions)
    return [course_of(version, known) for version in versions]


def under_way() -> QuerySet[RuleVersion]:
    """Published versions that the champion has not learned from."""
    rows = RuleVersion.objects.filter(rule__published_id=F("pk")).exclude(pk__in=champion_versions())
    return rows.select_related("rule__domain", "author")


def facts_of(versions: Sequence[RuleVersion]) -> Facts:
    pks = [version.pk for version in versions]
    rules = [str(version.rule_id) for version in versions]
    entries = AuditEntry.objects.filter(action="rule.published", object_type="rule", object_id__in=rules)
    published = {one.detail.get("version_id"): one for one in entries.select_related("actor").order_by("pk")}
    changes = RuleChange.objects.filter(version__in=pks, request__applied_at__isnull=False).order_by("pk")
    counts = SampleCount.objects.filter(level__in=BY_RULE, rule_version__in=pks)
    samples: defaultdict[int, Counter[tuple[str, str]]] = defaultdict(Counter)
    for version, machine, human, n in counts.values_list("rule_version", "machine", "human").annotate(
        sum=Sum("n")
    ):
        samples[version][machine, human] += n
    snapshots: defaultdict[int, dict[int, int]] = defaultdict(dict)
    members = SnapshotSample.objects.filter(sample__rule_version__in=pks).order_by()
    held_by = members.values_list("sample__rule_version", "snapshot").annotate(Count("pk"))
    for version, snapshot, many in held_by:
        snapshots[version][snapshot] = many
    held = {snapshot for found in snapshots.values() for snapshot in found}
    learning = Run.objects.filter(snapshot__in=held, retrieval=Run.Retrieval.RULES)
    trained: defaultdict[int, list[Run]] = defaultdict(list)
    for run in learning.select_related("job", "model").defer("log_tail", "model__card").order_by("-pk"):
        trained[run.snapshot_id].append(run)
    models = [run.model.pk for found in trained.values() for run in found if hasattr(run, "model")]
    asked = Job.objects.filter(kind__in=("evaluation", "gate"), params__model__in=models).order_by("pk")
    tests: defaultdict[int, dict[int, RuleResult]] = defaultdict(dict)
    for result in rule_results(item__version__in=pks):
        tests[result.version][result.model] = result
    crowned = AliasMove.objects.filter(alias=AliasMove.Alias.CHAMPION, model__in=models).order_by("pk")
    finished = Evaluation.objects.filter(model__in=models, metrics__isnull=False).order_by()
    reports = GateReport.objects.filter(candidate__in=models).select_related("champion").order_by("pk")
    policies = RetrainPolicy.objects.filter(retrieval=Run.Retrieval.RULES).order_by("-active", "pk")
    champion = current_aliases().get(AliasMove.Alias.CHAMPION)
    waits = untaught_clauses(champion)
    untaught: defaultdict[int, Counter[bool]] = defaultdict(Counter)
    clauses = clauses_leading().filter(rule__in={version.rule_id for version in versions})
    for rule, token in clauses.values_list("rule", "token__string"):
        if token in waits:
            untaught[rule][waits[token]] += 1
    return Facts(
        settings=LoopSettings.now(),
        writing=automatic.standing(),
        policies=[standing(policy) for policy in policies],
        champion=champion,
        published=published,
        requests=dict(changes.values_list("version", "request")),
        samples=samples,
        runs=_runs(pks),
        snapshots=snapshots,
        trained=trained,
        evaluations={job.params["model"]: job for job in asked},
        measured=set(finished.values_list("model", flat=True).distinct()),
        reports={report.candidate_id: report for report in reports.defer("report", "counted_from")},
        tests=tests,
        crowned={move.model_id: move for move in crowned.select_related("actor")},
        untaught=untaught,
    )


def _runs(versions: Sequence[int]) -> dict[int, SynthesisRun]:
    """The newest run that was started for a version by itself, else the newest that wrote for it."""
    wrote = Sample.objects.filter(rule_version__in=versions).order_by("run")
    by_version = dict(wrote.values_list("rule_version", "run").distinct())
    which = Q(pk__in=by_version.values())
    for version in versions:
        which |= Q(**{f"params__{AUTOMATIC}__contains": version})
    runs = {run.pk: run for run in SynthesisRun.objects.filter(which).select_related("job").order_by("pk")}
    found = {version: runs[run] for version, run in by_version.items() if run in runs}
    for run in runs.values():
        found |= dict.fromkeys(set(run.params.get(AUTOMATIC, ())) & set(versions), run)
    return found


def course_of(version: RuleVersion, known: Facts) -> Course:
    runs = [
        run for snapshot in known.snapshots.get(version.pk, ()) for run in known.trained.get(snapshot, ())
    ]
    runs.sort(key=lambda run: -run.pk)
    made = [run.model for run in runs if hasattr(run, "model")]
    champion = known.champion
    model = next((one for one in made if champion and one.pk == champion.pk), made[0] if made else None)
    newer = next((run for run in runs if not hasattr(run, "model")), None)
    report = known.reports.get(model.pk) if model else None
    steps = [
        _published(version, known),
        _written(version, known),
        _approved(version, known),
        _trained(version, known, model, newer),
        _gated(model, report, known),
        _promoted(model, report, known),
    ]
    course = Course(version, steps, _superseded(version), model)
    if not course.superseded:
        course.untaught = known.untaught.get(version.rule_id, Counter())
    results = known.tests.get(version.pk, {})
    if version.tests and model:
        before = report.champion if report else champion
        course.asked = [("new model", model, results.get(model.pk))]
        if before is not None and before.pk != model.pk:
            course.asked.insert(0, ("champion before", before, results.get(before.pk)))
    return course


def _begun(text: str) -> str:
    """With a capital, the rest as it is: cells and names of tools have capitals of their own."""
    return text[:1].upper() + text[1:]


def _superseded(version: RuleVersion) -> str:
    now = version.rule.published_id
    return "" if now == version.pk else "another version is published" if now else "the rule was withdrawn"


def _published(version: RuleVersion, known: Facts) -> Step:
    entry, request = known.published.get(version.pk), known.requests.get(version.pk)
    links = [link(f"v{version.number}", "rules:version", version.rule_id, version.number)]
    if request:
        links.append(link(f"request {request}", "rules:request", request))
    by = f", published by {entry.actor.username}" if entry and entry.actor else ""
    if gone := _superseded(version):
        waits = f"{_begun(gone)}, so nothing more is written or trained for this version."
        return Step(TITLES[0], STOPPED, f"version {version.number}{by}", (waits,), links=tuple(links))
    at = entry.at if entry else version.created_at
    return Step(TITLES[0], DONE, f"version {version.number}{by}", at=at, links=tuple(links))


def _written(version: RuleVersion, known: Facts) -> Step:
    title, counts, run = TITLES[1], known.samples.get(version.pk, Counter()), known.runs.get(version.pk)
    ready = sum(n for (machine, _), n in counts.items() if machine == Sample.Machine.READY)
    dropped = sum(n for (machine, _), n in counts.items() if machine == Sample.Machine.DROPPED)
    pending = sum(n for (machine, _), n in counts.items() if machine == Sample.Machine.PENDING)
    said = f"{ready} written" + (f", {dropped} dropped by filter and judge" if dropped else "")
    links = [link("samples", "synthesis:samples", rule=version.rule.code, domain=version.rule.domain_id)]
    job = run.job if run else None
    if run:
        said += ", by the offline writers" if run.writer == "offline" else f", by {run.writer}"
        links.append(link(f"run {run.pk}", "synthesis:detail", run.pk))
    rows = [row for row in (run.skipped if run else ()) if row.get("rule") == version.rule.code]
    skipped = tuple(f"No {row['style']} sample: {row['reason']}" for row in rows)
    if job and job.is_active:
        put_off = (_begun(job.note),) if job.state == Job.State.QUEUED and job.note else ()
        return Step(title, RUNNING, f"{said}; {pending} to come", put_off, links=tuple(links))
    if job and run and job.state in ENDED_BADLY and (pending or not ready):
        why = (f"Run {run.pk} is {job.state}: {job.error or 'a person stopped it'}", next_step(run))
        return Step(
            title, STOPPED, said, tuple(filter(None, why)), "a domain expert or admin", links=tuple(links)
        )
    if ready:
        at = job.finished_at if job else None
        return Step(title, DONE, said, skipped, at=at, links=tuple(links))
    create = link(
        "write them now",
        "synthesis:create",
        branch="rule",
        rule=version.rule.code,
        domain=version.rule.domain_id,
    )
    if run:  # it ended well, and nothing came of it
        waits = skipped or ("Filter and judge passed none of them.",)
        links.append(link("edit the rule", "rules:update", version.rule_id))
        return Step(title, STOPPED, said, waits, "its author", links=tuple(links))
    waits = tuple(known.writing.keeps) or (SOON,)
    state = OFF if not known.settings.write else WAITING
    return Step(title, state, "", waits, "a domain expert or admin", links=(create,))


def _approved(version: RuleVersion, known: Facts) -> Step:
    title, counts = TITLES[2], known.samples.get(version.pk, Counter())
    ready = Sample.Machine.READY
    approved = counts[ready, Sample.Human.APPROVED]
    waiting = sum(counts[ready, human] for human in WAITS)
    rejected = counts[ready, Sample.Human.REJECTED]
    if not approved + waiting + rejected:
        return Step(title, WAITING, "", ("Nothing is written yet.",))
    said = f"{approved} approved" + (f", {rejected} rejected" if rejected else "")
    links = (
        link("samples", "synthesis:samples", rule=version.rule.code, domain=version.rule.domain_id),
        link("read them", "synthesis:review", rule=version.rule.code, domain=version.rule.domain_id),
    )
    if approved and (not waiting or approved >= known.settings.per_rule):
        return Step(title, DONE, said, links=links[:1])
    waits = (
        f"{waiting} wait{'s' if waiting == 1 else ''} for a reviewer." if waiting else "None was approved."
    )
    return Step(title, WAITING, said, (waits,), "a reviewer", links=links)


def _trained(version: RuleVersion, known: Facts, model: Model | None, newer: Run | None) -> Step:
    title = TITLES[3]
    if model is not None:
        samples = known.snapshots[version.pk].get(model.run.snapshot_id, 0)
        said = f"model {model.pk} learned from {samples} sample{'' if samples == 1 else 's'} of it"
        made = link(f"model {model.pk}", "training:model", model.pk)
        by_run = link(f"run {model.run_id}", "training:detail", model.run_id)
        return Step(title, DONE, said, at=model.created_at, links=(made, by_run))
    if newer is not None and newer.job is not None and newer.job.is_active:
        return Step(
            title, RUNNING, _progress(newer.job), links=(link(str(newer), "training:detail", newer.pk),)
        )
    counts = known.samples.get(version.pk, Counter())
    policy = _policy_for(version, known.policies)
    start: Links = (link("retraining", "training:policies"),)
    if policy is None:
        return Step(
            title, STOPPED, "", ("No policy trains the rules of this domain.",), "an admin", links=start
        )
    if policy.own is not None:
        own = link(policy.own.title, "jobs:detail", policy.own.pk)
        return Step(title, RUNNING, _progress(policy.own), links=(own,))
    if policy.failed is not None and policy.facts.stuck:
        why = f"{_begun(policy.failed.title)} is {policy.failed.state}: {policy.failed.error}"
        failed = link(policy.failed.title, "jobs:detail", policy.failed.pk)
        return Step(title, STOPPED, "", (why,), "an admin", links=(failed, *start))
    if not counts[Sample.Machine.READY, Sample.Human.APPROVED]:
        return Step(title, WAITING, "", ("No sample of it is approved yet.",))
    waits = tuple(map(_begun, policy.verdict.keeps))
    if not policy.policy.active:
        return Step(title, OFF, "", (f"The policy {policy.policy} is off.", *waits), "an admin", links=start)
    state = OFF if policy.facts.switched_off else WAITING
    return Step(title, state, "", waits or (SOON,), "an admin can start it now", links=start)


def _policy_for(version: RuleVersion, policies: Iterable[Standing]) -> Standing | None:
    """The first policy that teaches this rule, one that is on before one that is off."""
    domains = ("", version.rule.domain_id)
    return next(
        (
            one
            for one in policies
            if (one.policy.snapshot.get("domain") or "") in domains
            and "rule" in one.policy.snapshot["branches"]
        ),
        None,
    )


def _progress(job: Job) -> str:
    if job.state == Job.State.QUEUED:
        return f"{job.title} waits for its worker" + (f": {job.note}" if job.note else "")
    left = f", about {job.seconds_left // 60 + 1} min left" if job.seconds_left is not None else ""
    return f"{job.title}: {job.percent} %{left}"


def _gated(model: Model | None, report: GateReport | None, known: Facts) -> Step:
    title = TITLES[4]
    if model is None:
        return Step(title, WAITING, "", ("No model has learned from it yet.",))
    page = (link(f"model {model.pk}", "training:model", model.pk),)
    if report is not None:
        against = (
            f" against champion {report.champion_id}" if report.champion_id else ", there was no champion"
        )
        found = link("gate report", "evaluation:gate", report.pk)
        said = f"the gate says {report.verdict}{against}"
        return Step(title, DONE, said, at=report.created_at, links=(found, *page))
    job = known.evaluations.get(model.pk)
    if job is not None and job.is_active:
        return Step(title, RUNNING, _progress(job), links=(link(job.title, "jobs:detail", job.pk),))
    if job is not None and job.state in ENDED_BADLY:
        why = f"{_begun(job.title)} is {job.state}: {job.error}"
        return Step(title, STOPPED, "", (why,), "an admin", links=(link(job.title, "jobs:detail", job.pk),))
    if known.champion is not None and known.champion.pk == model.pk:
        return Step(title, DONE, "it is the champion; it was promoted before there was a gate", links=page)
    if job is None and model.pk not in known.measured:
        waits = (
            "Evaluation by itself is switched off." if not known.settings.evaluate else "It is not evaluated."
        )
        return Step(title, OFF, "", (waits,), "an admin", links=page)
    return Step(title, WAITING, "evaluated", ("The gate has not spoken yet.",), "an admin", links=page)


def _promoted(model: Model | None, report: GateReport | None, known: Facts) -> Step:
    title = TITLES[5]
    if model is None:
        return Step(title, WAITING, "", ("There is no candidate yet.",))
    page = (link(f"model {model.pk}", "training:model", model.pk),)
    move = known.crowned.get(model.pk)
    if known.champion is not None and known.champion.pk == model.pk:
        by = f" by {move.actor.username}" if move and move.actor else ""
        return Step(
            title, DONE, f"model {model.pk} is champion{by}", at=move.at if move else None, links=page
        )
    if report is None:
        return Step(title, WAITING, "", ("It is not gated yet.",))
    if report.champion_id != (known.champion.pk if known.champion else None):
        was = f"champion {report.champion_id}" if report.champion_id else "no champion"
        waits = f"Its gate was asked against {was}, which is not the one of now: it must be asked again."
        return Step(title, WAITING, "", (waits,), "an admin", links=page)
    was = "It was champion once, and is not now." if move else ""
    waits = {
        GateReport.Verdict.PASS: "A person promotes it.",
        GateReport.Verdict.FAIL: "The gate fails it: only an admin's written reason promotes it all the same.",
        GateReport.Verdict.CANNOT_TELL: "The gate cannot tell: a person decides.",
    }[GateReport.Verdict(report.verdict)]
    return Step(title, WAITING, was, (waits,), "an admin", links=page)
