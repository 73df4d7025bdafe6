"""The figures about readers and judges as pages, CSV files and the API show them: plain dicts, each number with its n.

Who may see whom: an admin everybody, a reviewer the totals, the own row and the pairs one is part of.
"""

from dataclasses import asdict
from math import ceil
from typing import Any

from django.contrib.auth.models import User

from synthesis.core.review.calibration import FLOOR, TARGET, Reads
from synthesis.quality.agreement import Agreement, agreements, qualities
from synthesis.quality.calibration import Calibration, Slice, calibrations
from trace_site.access import ADMIN, roles_of

Row = dict[str, Any]


def only_own(viewer: Any) -> int | None:
    """The id that what `viewer` sees of persons is about; None: everybody."""
    return None if ADMIN in roles_of(viewer) else viewer.pk


def agreement_report(viewer: Any) -> Row:
    """{"overall", "domains", "styles", "pairs", "more_pairs"}. Two queries."""
    found = agreements(reviewer=only_own(viewer))
    people = {who for pair in found.pairs for who in (pair.one, pair.other)}
    names = dict(User.objects.filter(pk__in=people).values_list("pk", "username"))
    pairs = [
        {
            "one": names[pair.one],
            "other": names[pair.other],
            "n": pair.kappa.n,
            "kappa": pair.kappa.as_dict(),
            "collapsed": pair.collapsed.as_dict(),
            "same_verdict": asdict(pair.same_verdict),
        }
        for pair in found.pairs
    ]
    return {
        "overall": _agreement(found.overall),
        "domains": [_agreement(one) for one in found.domains],
        "styles": [_agreement(one) for one in found.styles],
        "pairs": pairs,
        "more_pairs": found.more_pairs,
    }


def judge_report(*, strict: bool = False, target: float = TARGET, floor: float = FLOOR) -> list[Row]:
    """One for each judge: kappas, and rows over all, per domain, per kind, and per domain and kind. Four queries."""
    return [_judge(found) for found in calibrations(strict=strict, target=target, floor=floor)]


def reviewer_report(viewer: Any) -> list[Row]:
    """Four queries."""
    return [asdict(one) for one in qualities(only_own(viewer))]


def _agreement(found: Agreement) -> Row:
    return {
        "name": found.name,
        "n": found.alpha.n,
        "alpha": found.alpha.as_dict(),
        "same_verdict": asdict(found.same_verdict),
        "same_outcome": asdict(found.same_outcome),
    }


def _judge(found: Calibration) -> Row:
    matrix = found.overall.matrix
    return {
        "judge": found.judge,
        "kappa": matrix.weighted_kappa.as_dict(),
        "raw_kappa": matrix.raw_kappa.as_dict(),
        "overall": _slice(found.overall),
        "domains": [_slice(one) for one in found.domains],
        "kinds": [_slice(one) for one in found.kinds],
        "cells": [_slice(one) for one in found.cells],
    }


def _slice(found: Slice) -> Row:
    return {
        "domain": found.domain,
        "kind": found.kind,
        "accepted": _reads(found.matrix.accepted),
        "refused": _reads(found.matrix.refused),
        "false_accept": asdict(found.matrix.false_accept),
        "false_refuse": asdict(found.matrix.false_refuse),
        "proposal": {
            **asdict(found.proposal),
            "percent": ceil(round(100 * found.proposal.share, 6)),
            "why": found.proposal.why,
        },
    }


def _reads(reads: Reads) -> Row:
    approved, edited, rejected = reads.counts
    return {
        "approved": approved,
        "edited": edited,
        "rejected": rejected,
        "read": reads.n,
        "effective": reads.effective,
        "samples": reads.population,
    }
