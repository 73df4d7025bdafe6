"""One of everything that an address may name, made by the services that make it on the site; and six people."""

import json
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

from django.contrib.auth.models import Group, User
from django.utils import timezone

from catalog.imports.services import catalog_import
from catalog.models import LabelledQuery, NeighbourList, Tool
from catalog.queries.imports import GivenQuery, queries_import
from catalog.services import ledger_update
from evaluation.models import RetrievalRequest
from evaluation.requests.log import request_id
from rules.book import version_contents
from rules.changes.drafts import change_draft
from rules.changes.services import (
    request_approve,
    request_cancel,
    request_schedule,
    request_submit,
)
from rules.core.draft import draft_of
from rules.models import ChangeRequest, RuleChange, RuleSuggestion
from rules.services import recheck
from synthesis.batches.services import batch_create
from synthesis.datasets.build import snapshot_start
from synthesis.models import Attempt, ReviewItem, Snapshot
from synthesis.review import views_batches as bulk
from synthesis.review.queue import claim_item
from synthesis.samples.decisions import seen_key
from synthesis.team.guidelines import guideline_save
from synthesis.team.services import assign, comment_add, view_save
from tests.factories import (
    count_rollups,
    make_cluster,
    make_evaluation,
    make_gate_report,
    make_model,
    make_run,
    make_sample,
    make_tool,
)
from tests.matrix.bodies import FORM
from tests.synthesis import rows
from tests.synthesis.readings import decide
from tests.synthesis.runs_made import JUDGED, make_dropped, make_ready, make_started_run
from trace_site.access import ROLES
from trace_site.audit.models import AuditChange, AuditEntry
from trace_site.deliveries import Delivery
from trace_site.jobs import Job
from trace_site.notices.services import Notice, tell
from trace_site.people.services import link_of, person_invite
from trace_site.rest.tokens import SCOPES, service_token_make
from trace_site.webhooks.services import Webhook
from training.core.grid import read_plan
from training.grids.services import grid_create, snapshots_of
from training.models import AliasMove, RunMetric
from training.retraining.services import policy_save

NOBODY, NO_ROLE = "N", "-"
LETTERS = dict(zip("ERAP", ROLES, strict=True))  # expert, reviewer, admin, product manager
PEOPLE = (NOBODY, NO_ROLE, *LETTERS)


def people() -> dict[str, User]:
    made = {NO_ROLE: User.objects.create_user("noah", password="pass")}
    for letter, role in LETTERS.items():
        user = made[letter] = User.objects.create_user(role, password="pass")
        user.groups.set([Group.objects.get_or_create(name=role)[0]])
    return made


def make_world(folder: Path) -> SimpleNamespace:
    """What is one person's own is kept by letter: `claimed`, `views`, `notices`."""
    w = SimpleNamespace(people=people())
    expert, reviewer, admin = (w.people[letter] for letter in "ERA")
    w.other, w.second = (User.objects.create_user(name, password="pass") for name in ("olga", "otto"))
    for user in (w.other, w.second):
        user.groups.set(Group.objects.filter(name__in=ROLES))
    _catalog(w, folder, admin)
    _rules(w, expert, admin)
    _samples(w, reviewer, w.other, admin)
    _snapshots(w, admin)
    for letter, sample in zip("RA", w.waiting[-2:], strict=True):  # to take back: in no snapshot yet
        decide(sample, w.people[letter], "approve")
    _training(w, admin)
    _site(w, folder, admin)
    for tool in Tool.objects.filter(neighbour_list=None):
        NeighbourList.objects.create(
            tool=tool, neighbour_ids=[w.tools[0].pk, w.tools[1].pk], scores=[0.5, 0.4]
        )
    count_rollups()
    return w


def _job(kind: str, state: str, user: User) -> Job:
    ended = timezone.now() if state in ("done", "failed", "cancelled") else None
    return Job.objects.create(
        kind=kind, queue="default", title=kind, state=state, created_by=user, finished_at=ended
    )


def _catalog(w: SimpleNamespace, folder: Path, admin: User) -> None:
    w.version = rows.make_book()
    path = folder / "tools.jsonl"
    told = [{"name": f"Leave/{name}", "description": f"{name} of an absence."} for name in ("Get", "Put")]
    path.write_text("".join(json.dumps(row) + "\n" for row in told))
    w.catalog_file = path
    w.catalog_import = catalog_import(path=path, domain="leave", actor=admin).catalog_import
    w.tool = w.version.target
    w.tools = [w.version.target, *Tool.objects.filter(pk__in=w.version.confusable_ids)]
    w.tool_name = w.tool.name
    w.cluster = make_cluster(*w.tools[:2])
    dismissed = {"dismissed_reason": "enough said", "dismissed_by": admin, "dismissed_at": timezone.now()}
    w.gone_cluster = make_cluster(
        make_tool("Gone/One"), make_tool("Gone/Two"), clustering=w.cluster.clustering, **dismissed
    )
    given = [GivenQuery(1, "how many days of leave do i have left this year")]
    queries_import(given=given, collection="desk", actor=admin)
    w.query = LabelledQuery.objects.get(collection="desk")


def _rules(w: SimpleNamespace, expert: User, admin: User) -> None:
    content = draft_of(version_contents([w.version])[w.version.pk])
    w.behind = change_draft(actor=w.other, rule=w.version.rule, content=content)
    test = {"query": "my payslip of March 2024", "tools": [w.tool.name]}
    w.version = rows.publish(2, tests=[test])
    w.rule = w.version.rule
    w.loose = make_tool("Loose/One")
    two = make_tool("Loose/Two")
    content = {"target": "Loose/One", "confusables": ["Loose/Two"], "text": "", "clauses": [], "tests": []}
    w.suggestion = RuleSuggestion.objects.create(
        domain=w.loose.domain,
        kind="condition",
        target=w.loose,
        confusable_ids=[two.pk],
        score=0.9,
        content=content,
        evidence=[{"tool": "Loose/One", "text": "Only one.", "marks": [[0, 4]]}],
    )
    recheck(None)
    w.changes = {"E": _draft(expert, "OF_EXPERT"), "A": _draft(admin, "OF_ADMIN")}
    w.drafts = {letter: change.request for letter, change in w.changes.items()}
    w.request = w.drafts["E"]
    w.in_review = _submitted(w.other, "IN_REVIEW")
    w.agreed, w.planned = (_agreed(w, code) for code in ("AGREED", "PLANNED"))
    w.planned = request_schedule(request=w.planned, actor=w.other, at=timezone.now() + timedelta(days=9))
    w.cancelled = {
        letter: request_cancel(request=_draft(user, f"ENDED_{letter}").request, actor=user)
        for letter, user in (("E", expert), ("A", admin))
    }


def _draft(user: User, code: str) -> RuleChange:
    content = {"target": FORM["target"], "confusables": FORM["confusables"], "text": FORM["text"]}
    return change_draft(actor=user, content=content, domain="hr", code=code)


def _submitted(user: User, code: str) -> ChangeRequest:
    asked = _draft(user, code).request
    return request_submit(request=asked, actor=user, revision=asked.revision)


def _agreed(w: SimpleNamespace, code: str) -> ChangeRequest:
    asked = _submitted(w.other, code)
    return request_approve(request=asked, actor=w.second, revision=asked.revision)


def _samples(w: SimpleNamespace, reviewer: User, other: User, admin: User) -> None:
    w.run = make_started_run(params={"per_rule": 2, "domain": "hr"})
    w.running = make_started_run("running")
    w.failed = make_started_run("failed")
    refused = make_sample(run=w.run, rule=w.rule, tools=w.tools, machine="dropped")
    Attempt.objects.create(sample=refused, number=1, outcome="judged_out", judge=JUDGED, calls=1)
    w.dropped = make_dropped(w.run, w.rule, tools=w.tools)
    w.sample = make_ready(w.run, w.rule, tools=w.tools)
    for number in range(6):
        rows.make_sample(w.version, key=f"of-lot-{number}")
    w.batch = batch_create(rule=w.rule.code, actor=reviewer, seed=1).batch
    w.waiting = [make_sample() for _ in range(14)]
    w.claimed = {}
    for letter, sample in zip("RA", w.waiting, strict=False):
        item = ReviewItem.objects.get(sample=sample)
        w.claimed[letter] = claim_item(w.people[letter], item.pk)
    w.mine = {letter: item.sample for letter, item in w.claimed.items()}
    w.claims = {letter: str(item.claim) for letter, item in w.claimed.items()}
    w.seen = {letter: seen_key(sample) for letter, sample in w.mine.items()}
    w.bulk_items, w.bulk_tokens = {}, {}
    for letter in "RA":
        for number in range(2):
            rows.make_sample(w.version, key=f"of-{letter}-{number}")
        bulk.bulk_take(reviewer=w.people[letter], version=w.version)
        held = bulk.held_items(w.people[letter], w.version)
        w.bulk_items[letter] = held[0].pk
        w.bulk_tokens[letter] = bulk.bulk_open(reviewer=w.people[letter], item=held[0].pk)[2]
    for number in range(3):
        rows.make_sample(w.version, key=f"of-no-lot-{number}")
    w.rejected = decide(w.waiting[2], other, "reject")
    w.decided = decide(w.waiting[3], other, "approve")
    decide(w.waiting[4], other, "approve")
    w.assignments = {
        letter: assign(assignee=w.people[letter], actor=w.people[letter], filters={"branch": "rrb"}, count=1)
        for letter in "RA"
    }
    w.said = comment_add(sample=w.sample, author=other, text="Too short.")
    w.guideline = guideline_save(domain="hr", style="", text="Be plain.", author=admin, base=0)
    w.views = {
        letter: view_save(owner=w.people[letter], page="samples", name="mine", query="machine=ready")
        for letter in LETTERS
    }


def _snapshots(w: SimpleNamespace, admin: User) -> None:
    ledger_update()
    job = snapshot_start(strategy="append", per_rule=2, seed=1, actor=admin, wake=False)
    w.snapshot = Snapshot.objects.get(pk=rows.run_job(job)["id"])


def _training(w: SimpleNamespace, admin: User) -> None:
    w.trained = make_run(snapshot=w.snapshot, job=_job("training", "done", admin), log_tail="stage 1 begins")
    w.training = make_run(snapshot=w.snapshot, job=_job("training", "running", admin), log_tail="stage 1")
    w.broken = make_run(snapshot=w.snapshot, job=_job("training", "failed", admin))
    RunMetric.objects.create(run=w.training, stage="stage1", step=1, data={"loss": 8.0, "lr": 0.001})
    w.old_model = make_model(run=w.trained)
    w.model = make_model(run=make_run(snapshot=w.snapshot, job=_job("training", "done", admin)))
    for model in (w.old_model, w.model):
        AliasMove.objects.create(alias="champion", model=model, actor=admin, note="best so far")
    w.rival = make_model(run=make_run(snapshot=w.snapshot, job=_job("training", "done", admin)))
    plan = read_plan(
        {"snapshots": [w.snapshot.pk], "formats": ["a"], "memos": ["none"], "retrievals": ["n", "r"]}
    )
    w.grid = grid_create(plan=plan, snapshots=snapshots_of(plan), actor=admin)
    cell = {"base": "pocket", "format": "a", "memo": "m", "retrieval": "r+R"}
    limits = {"approved_samples": 5, "changed_rules": 1, "quiet_minutes": 0}
    built = {"strategy": "append", "per_rule": 2, "branches": ["rrb", "rule"]}
    w.policy = policy_save(actor=admin, name="hr line", snapshot=built, **cell, **limits)
    w.evaluation = make_evaluation((w.tool, [w.tool.name]), (w.tools[1], [w.tool.name]), model=w.model)
    w.benchmark = w.evaluation.benchmark
    w.request_ids = {letter: request_id(user.pk, False) for letter, user in w.people.items()}
    w.asked = RetrievalRequest.objects.create(
        key=request_id(admin.pk, True), at=timezone.now(), owner=admin, via="single", outcome="answered"
    )
    w.before = make_evaluation(
        (w.tool, [w.tools[1].name]),
        (w.tools[1], [w.tools[1].name]),
        model=w.old_model,
        benchmark=w.benchmark,
    )
    w.gate_report = make_gate_report(w.rival, w.model)


def _site(w: SimpleNamespace, folder: Path, admin: User) -> None:
    (folder / "imports" / "delivered").mkdir(parents=True)
    w.away = User.objects.create_user("ada", is_active=False)
    invited = person_invite(username="ivo", email="", roles=["expert"], actor=admin)
    w.invited, w.invitation = link_of(invited).split("/")[-3:-1]
    w.program = person_invite(username="desk-bot", email="", roles=["expert"], actor=admin, program=True)
    about = {"name": "desk", "days": 30}
    w.service_token, _ = service_token_make(owner=w.program, scopes=["retrieve"], actor=admin, **about)
    made = {
        who: service_token_make(owner=user, scopes=SCOPES, actor=user, **about)
        for who, user in w.people.items()
    }
    w.own_tokens = {who: token for who, (token, _) in made.items()}
    w.own_secrets = {who: secret for who, (_, secret) in made.items()}
    w.job = _job("probe", "running", admin)
    w.ended_job = _job("probe", "failed", admin)
    w.hook = Webhook.objects.create(url="https://x.example", salt="s", events=["ping"], created_by=admin)
    w.delivery = Delivery.objects.create(webhook=w.hook, event="ping", payload={})
    tell(w.people.values(), "assignment", "gave you 3 samples", link="/", key="matrix")
    w.notices = {letter: Notice.objects.filter(recipient=user).first() for letter, user in w.people.items()}
    w.entry = AuditEntry.objects.order_by("pk").first()
    w.row_change = AuditChange.objects.order_by("pk").first()
