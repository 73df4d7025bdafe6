"""Fills the home that TRACE_HOME names with made-up tools and rules, and with what stands on them.

The catalog has any size: five domains, hundreds of APIs in several versions, thousands of look-alikes. All is invented
and follows from one seed. Rows are inserted in bulk; what a page reads is there, what none reads is not.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from django.contrib.auth.models import Group, User
from django.db import models

from catalog.core.tool import ToolRecord
from catalog.imports.services import ToolContent, contents_write
from catalog.lookalikes import _place_tools, _store_embeddings, embedding_key
from catalog.models import CatalogImport, Cluster, Clustering, Domain, NeighbourList, Tool
from catalog.services import ledger_update
from rules.core.check import Finding
from rules.models import Approval, ChangeRequest, Rule, RuleChange, RuleHealth, RuleVersion
from rules.services import read_missing
from synthesis.models import Sample, SynthesisRun
from trace_site.access import ROLES
from trace_site.audit.models import AuditEntry
from trace_site.database import as_owner
from trace_site.jobs import Job
from trace_site.lib.files import content_hash

WIDTH = 384
BATCH = 2000
K = 13
STYLES = ("explicit", "implicit", "exception")


SERVICES = {
    "hr": "Payroll Leave Roster Benefits Onboarding Recruiting Timesheet Training Appraisal Pension",
    "finance": "Payout Invoice Ledger Refund Dispute Card Tax Budget Treasury Reconcile",
    "procurement": "Order Supplier Contract Catalogue Quote Receipt Approval Sourcing Bid Requisition",
    "logistics": "Shipment Parcel Customs Route Warehouse Carrier Pallet Delivery Return Fleet",
    "it": "Ticket Asset Licence Identity Backup Device Network Incident Change Monitor",
}
BRANDS = (
    "Nova Hub Aldera Brixo Corvin Delphi Emberly Fjord Garnet Helix Iolo Juno Kestrel Lumen Marlow Nimbus"
)
OBJECTS = {
    "hr": "Payslip Employee Absence Shift Allowance Deduction Candidate Bonus Dependant Certificate Holiday Overtime",
    "finance": "Payment Transfer Mandate Chargeback Statement Balance Fee Account Voucher Instalment Posting Rate",
    "procurement": "PurchaseOrder Vendor Clause Item Offer GoodsReceipt Threshold Category Milestone Rebate Note",
    "logistics": "Label Container Declaration Stop Bin Pickup Manifest Slot Damage Tariff Driver Waybill",
    "it": "Request Laptop Seat Group Snapshot Firmware Gateway Outage Release Alert Certificate Session",
}
VERBS = {
    "Get": "Returns", "List": "Lists", "Create": "Creates", "Update": "Changes", "Cancel": "Cancels",
    "Approve": "Approves", "Export": "Exports", "Search": "Finds",
}  # fmt: skip
SCOPES = {
    "": "", "Batch": " in one batch", "ByEmployee": " of one employee", "History": " with its whole history",
    "Draft": " that is still a draft", "ByCountry": " for one country", "Archived": " that was archived",
    "Preview": " as a preview that changes nothing",
}  # fmt: skip
TAILS = (
    "Answers are paged and sorted by date.",
    "Amounts are in the currency of the legal entity.",
    "Needs the scope that the tenant's administrator gives.",
    "Fields that the caller may not see are left out.",
    "Dates are those of the payroll calendar, not of posting.",
    "Changes of the last minute may be missing.",
    "Use it for a single legal entity; groups have an operation of their own.",
)


@dataclass(frozen=True, slots=True)
class MadeTool:
    """`concept` is shared by tools that look alike: one verb and object of one domain."""

    name: str
    description: str
    domain: str
    deprecated: bool
    version: str
    permissions: tuple[str, ...]
    concept: tuple[str, str, str]


def made_tools(count: int, seed: int = 7) -> Iterator[MadeTool]:
    """`count` tools, as many of each domain; every API comes in one to three versions."""
    share = -(-count // len(SERVICES))
    left = count
    for domain in SERVICES:
        yield from _domain(domain, min(share, left), random.Random(f"{seed} {domain}"))
        left -= share


def _domain(domain: str, count: int, rng: random.Random) -> Iterator[MadeTool]:
    made = 0
    apis = list(product(BRANDS.split(), SERVICES[domain].split()))
    rng.shuffle(apis)
    endpoints = list(product(VERBS, OBJECTS[domain].split(), SCOPES))
    for brand, service in apis:
        chosen = rng.sample(endpoints, 34)
        last = rng.choice([1, 2, 2, 3])
        first = rng.choice([1, 5, 12, 40])
        for step in range(last):
            for verb, thing, scope in chosen:
                if made == count:
                    return
                made += 1
                yield _tool(
                    domain, brand, service, first + 3 * step, step < last - 1, verb, thing, scope, rng
                )
            chosen = [*rng.sample(chosen, 31), *rng.sample(endpoints, 4)]
            chosen = list(dict.fromkeys(chosen))


def _tool(
    domain: str,
    brand: str,
    service: str,
    number: int,
    old: bool,
    verb: str,
    thing: str,
    scope: str,
    rng: random.Random,
) -> MadeTool:
    spaced = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in thing).strip()
    text = (
        f"{VERBS[verb]} the {spaced}{SCOPES[scope]} in {brand} {service.lower()}, version {number}. "
        f"{rng.choice(TAILS)} {rng.choice(TAILS)} Described in note {service[:2].upper()}{rng.randrange(10**6)}."
    )
    deprecated = old and rng.random() < 0.4
    return MadeTool(
        name=f"{brand}{service}V{number}/{verb}{thing}{scope}",
        description=f"Deprecated. {text}" if deprecated else text,
        domain=domain,
        deprecated=deprecated,
        version=f"{number}.{rng.randrange(10)}",
        permissions=(f"{service.lower()}.{'read' if verb in {'Get', 'List', 'Search'} else 'write'}",),
        concept=(domain, verb, thing),
    )


class Home:
    """One build; the parts follow each other in the order of the pipeline."""

    def __init__(self, tools: int, rules: int, samples: int, seed: int = 7) -> None:
        self.rng = random.Random(seed)
        self.sizes = (tools, rules, samples)

    def build(self, echo: Any) -> None:
        tools, rules, samples = self.sizes
        self.people()
        for title, part in (
            (f"{tools:,} tools", lambda: self.tools(tools)),
            ("embeddings and neighbours", self.neighbours),
            ("clusters", self.clusters),
            (f"{rules:,} rules", lambda: self.rules(rules)),
            ("change requests", lambda: self.requests(rules // 2)),
            (f"{samples:,} samples", lambda: self.samples(samples)),
            ("audit entries and jobs", lambda: self.trail(2 * tools, rules // 2)),
        ):
            echo(title)
            part()

    def people(self) -> None:
        self.users = []
        for role in ROLES:
            user = User.objects.create_user(role, password="pass")
            user.groups.add(Group.objects.get_or_create(name=role)[0])
            self.users.append(user)

    def tools(self, count: int) -> None:
        made: dict[str, list[MadeTool]] = defaultdict(list)
        for tool in made_tools(count):
            made[tool.domain].append(tool)
        self.made: dict[int, MadeTool] = {}
        for slug, rows in made.items():
            domain = Domain.objects.create(slug=slug, title=slug.title() if len(slug) > 2 else slug.upper())
            for part in range(0, len(rows), 1000):
                self.file(domain, rows[part : part + 1000])
        ledger_update()

    def file(self, domain: Domain, rows: Sequence[MadeTool]) -> None:
        """One applied import of a thousand tools."""
        counts = dict.fromkeys(
            ("added", "changed", "unchanged", "removed", "deprecated", "skipped", "returned"), 0
        )
        row = CatalogImport.objects.create(
            filename=f"{rows[0].name.partition('/')[0]}.json",
            format="openapi",
            domain=domain,
            digest="0" * 64,
            counts={**counts, "added": len(rows), "errors": [], "versions": []},
            actor=self.rng.choice(self.users),
        )
        contents = []
        for made in rows:
            record = ToolRecord(made.name, made.description, made.permissions, made.deprecated, made.version)
            data = {**record.content(domain.pk), "source": row.filename}
            contents.append(ToolContent(data, record.content_hash(domain.pk)))
        ids = contents_write(contents, catalog_import=row)
        self.made |= {ids[made.name]: made for made in rows}

    def neighbours(self) -> None:
        """Tools of one concept are each other's neighbours; vectors are wide as real ones and mean nothing."""
        self.concepts: dict[tuple[str, str, str], list[int]] = defaultdict(list)
        for pk, made in self.made.items():
            self.concepts[made.concept].append(pk)
        lists = []
        for ids in self.concepts.values():
            for place, pk in enumerate(ids):
                near = [ids[(place + step) % len(ids)] for step in range(1, min(K, len(ids) - 1) + 1)]
                scores = [round(0.97 - 0.015 * step, 6) for step in range(len(near))]
                lists.append(NeighbourList(tool_id=pk, neighbour_ids=near, scores=scores))
        NeighbourList.objects.bulk_create(lists, batch_size=BATCH)
        vectors = np.random.default_rng(7).normal(0, 0.05, (60, WIDTH)).astype(np.float32)
        names = dict(Tool.objects.values_list("pk", "name"))
        keys = {pk: embedding_key(names[pk], made.description) for pk, made in self.made.items()}
        _store_embeddings([(pk, key, vectors[pk % len(vectors)]) for pk, key in keys.items()])

    def clusters(self) -> None:
        self.groups: list[tuple[str, list[int]]] = []
        clusterings = {
            domain.pk: Clustering.objects.create(domain=domain, version=1, tau=0.8, algorithm="made up")
            for domain in Domain.objects.all()
        }
        rows = []
        for (slug, _, _), ids in self.concepts.items():
            at = 0
            while at < len(ids):
                size = self.rng.randint(3, 12)
                group, at = ids[at : at + size], at + size
                if len(group) > 2 and self.rng.random() < 0.75:
                    self.groups.append((slug, group))
                    rows.append(self.cluster(clusterings[slug], len(rows), group))
        Cluster.objects.bulk_create(rows, batch_size=BATCH)
        for clustering in clusterings.values():
            _place_tools(clustering)

    def cluster(self, clustering: Clustering, position: int, ids: list[int]) -> Cluster:
        pairs = [(a, b) for place, a in enumerate(ids) for b in ids[place + 1 : place + 3]]
        edges = [[a, b, round(self.rng.uniform(0.8, 0.98), 6)] for a, b in pairs]
        return Cluster(
            clustering=clustering,
            position=position,
            label=self.made[ids[0]].name.partition("/")[2],
            tool_ids=ids,
            edges=edges,
            mean_similarity=round(sum(edge[2] for edge in edges) / len(edges), 6),
        )

    def rules(self, count: int) -> None:
        chosen = [self.rng.choice(self.groups) for _ in range(count)]
        rules = [Rule(code=self.code(group[1], n), domain_id=group[0]) for n, group in enumerate(chosen)]
        Rule.objects.bulk_create(rows := rules, batch_size=BATCH)
        first = [self.version(rule, group[1], 1) for rule, group in zip(rows, chosen, strict=True)]
        again = [
            self.version(rule, group[1], 2)
            for rule, group in zip(rows, chosen, strict=True)
            if self.rng.random() < 0.15
        ]
        RuleVersion.objects.bulk_create([*first, *again], batch_size=BATCH)
        read_missing()
        self.newest = {version.rule_id: version for version in [*first, *again]}
        for version in first:
            if self.rng.random() < 0.94:
                version.rule.published = self.newest[version.rule_id] if self.rng.random() < 0.95 else version
        Rule.objects.bulk_update([rule for rule in rows if rule.published_id], ["published"], batch_size=500)
        self.published = [rule.published for rule in rows if rule.published_id]
        RuleHealth.objects.bulk_create(map(self.health, self.newest.values()), batch_size=BATCH)

    def code(self, group: list[int], number: int) -> str:
        _, verb, thing = self.made[group[0]].concept
        return f"{verb.upper()}_{thing.upper()}_{number}"

    def version(self, rule: Rule, group: list[int], number: int) -> RuleVersion:
        target, *others = self.rng.sample(group, min(len(group), self.rng.randint(2, 6)))
        name, other = self.made[target].name, self.made[others[0]].name
        text = (
            f"For legal entities that moved to the new contract, use {name}, not {other}, whatever the month is. "
            f"Requests about years before the move still go to {other}. Note {number} of the account team holds."
        )
        clauses = [
            {
                "when": "the entity moved to the new contract",
                "route_to": name,
                "exception": False,
                "signals": [],
            },
            {"when": "the year is before the move", "route_to": other, "exception": True, "signals": []},
        ]
        return RuleVersion(
            rule=rule,
            number=number,
            target_id=target,
            confusable_ids=others,
            text=text,
            clauses=clauses,
            tests=[{"query": f"the {self.made[target].concept[2].lower()} of march please", "tools": [name]}],
            content_hash=content_hash([rule.code, number]),
            author=self.rng.choice(self.users),
        )

    def health(self, version: RuleVersion) -> RuleHealth:
        light = self.rng.choices(["ok", "warning", "error"], [78, 19, 3])[0]
        finding = Finding("overlap", light, "Another rule holds two of these tools.", "Keep one of them.")  # type: ignore[arg-type]
        findings = [] if light == "ok" else [finding.as_dict()]
        words = f"{version.rule.code} {self.made[version.target_id].name} {version.text}".casefold()
        return RuleHealth(
            rule_id=version.rule_id, version=version, light=light, findings=findings, words=words
        )

    def requests(self, count: int) -> None:
        states = self.rng.choices(
            ["applied", "draft", "in_review", "approved", "scheduled", "rejected", "cancelled"],
            [80, 4, 4, 2, 2, 5, 3],
            k=count,
        )
        requests = [
            ChangeRequest(
                title=f"Follow the new contract, part {number}",
                description="The account team moved these entities.",
                state=state,
                author=self.rng.choice(self.users),
                reason="not yet decided" if state in ("rejected", "cancelled") else "",
            )
            for number, state in enumerate(states)
        ]
        ChangeRequest.objects.bulk_create(requests, batch_size=BATCH)
        changes = [
            self.change(request, version)
            for request in requests
            for version in self.rng.sample(self.published, self.rng.randint(1, 3))
        ]
        RuleChange.objects.bulk_create(changes, batch_size=BATCH)
        Approval.objects.bulk_create(
            [
                Approval(request=request, revision=1, verdict="approve", reviewer=self.users[0])
                for request in requests
                if request.state in ("applied", "approved", "scheduled") and request.author != self.users[0]
            ],
            batch_size=BATCH,
        )

    def change(self, request: ChangeRequest, version: RuleVersion) -> RuleChange:
        content = {
            "target": self.made[version.target_id].name,
            "confusables": [self.made[pk].name for pk in version.confusable_ids],
            "text": version.text,
            "clauses": version.clauses,
            "tests": version.tests,
        }
        applied = version if request.state == "applied" else None
        return RuleChange(
            request=request, rule_id=version.rule_id, content=content, base=version, version=applied,
            edited_by=request.author,
        )  # fmt: skip

    def samples(self, count: int) -> None:
        runs = [
            SynthesisRun.objects.create(branch=branch, writer="offline") for branch in ("rule", "rrb") * 5
        ]
        rows = [self.sample(number, self.rng.choice(runs)) for number in range(count)]
        Sample.objects.bulk_create(rows, batch_size=BATCH)

    def sample(self, number: int, run: SynthesisRun) -> Sample:
        version = self.rng.choice(self.published)
        tools = [version.target_id, *version.confusable_ids]
        names = [self.made[pk].name for pk in tools]
        ruled = run.branch == "rule"
        return Sample(
            run=run,
            key=content_hash(["sample", number]),
            branch=run.branch,
            domain_id=self.made[tools[0]].domain,
            rule_version=version if ruled else None,
            anchor_id=None if ruled else tools[0],
            style=self.rng.choice(STYLES) if ruled else "",
            tier="" if ruled else self.rng.choice(["easy", "medium", "hard"]),
            seed=number,
            pool=names,
            answer=names[:1],
            query=f"could you find document {number} of the entity that moved in march",
            trace=f"Somebody asks for one document. {names[1]} answers for the years before, {names[0]} since. "
            * 4,
            writer="offline",
            machine=self.rng.choices(["ready", "dropped", "pending"], [85, 10, 5])[0],
            human=self.rng.choices(["approved", "pending", "rejected"], [60, 30, 10])[0],
        )

    def trail(self, entries: int, jobs: int) -> None:
        actions = ["rule.published", "rule.saved", "sample.approved", "request.approved", "catalog.imported"]
        for start in range(0, entries, 20_000):
            with as_owner():  # the application may not insert
                AuditEntry.objects.bulk_create(
                    [
                        AuditEntry(
                            actor=self.rng.choice(self.users),
                            action=(action := self.rng.choice(actions)),
                            object_type=action.partition(".")[0],
                            object_id=str(number % 7000),
                            object_label=f"object {number % 7000}",
                            detail={"version": number % 5},
                        )
                        for number in range(start, min(start + 20_000, entries))
                    ],
                    batch_size=BATCH,
                )
        bulk(
            Job(
                kind=self.rng.choice(["catalog", "synthesis", "training"]),
                queue="default",
                title=f"job {number}",
                state=self.rng.choices(["done", "failed", "cancelled"], [90, 7, 3])[0],
            )
            for number in range(jobs)
        )


def bulk(rows: Iterable[models.Model]) -> None:
    found = list(rows)
    type(found[0])._default_manager.bulk_create(found, batch_size=BATCH)
