"""A made-up catalog of any size: five domains, hundreds of APIs in several versions, thousands of look-alikes.

Everything here is invented; the same seed gives the same tools.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

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
