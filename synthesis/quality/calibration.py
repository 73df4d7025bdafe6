"""The calibration draw: samples the judge refused for good, mixed into the queue to be read like any other.

Nobody is shown that an item is of the draw, and what is decided about it changes no sample: it measures the judge.
"""

import random
import secrets
from collections import Counter
from collections.abc import Mapping
from math import ceil
from typing import Any, NamedTuple

from django.db import transaction

from synthesis.core.agreement import FLOOR, TARGET, Judged, Reads, pooled, share_to_read
from synthesis.models import ReviewItem, Sample, SynthesisRun
from synthesis.quality.agreement import Figures, fetched
from synthesis.quality.second import lot
from trace_site.audit import models as audit_models
from trace_site.lib.errors import TraceError

# Judge J against people: what they decided of what it accepted and refused, per judge, domain and style.
#
# Accepted: final decisions of people about samples the judge let through; a sample approved without being read
# (policy, rest of a batch) is no decision about it, and counts in the population alone. Refused: readings of the
# calibration draw, which change no sample. Imported samples are left out: people, not the judge, vouch for their
# queries.


JUDGED = ("rule", "rrb")

# of a batch that is not read fully, n of N are read by lot: each stands for N / n
READ = """
SELECT s.run_id, i.domain_id, coalesce(nullif(i.style, ''), i.tier), NOT i.calibration, d.verdict,
  coalesce(b.lot_size::float / b.sample_size, 1), count(*)
FROM synthesis_reviewitem i
JOIN synthesis_decision d ON d.item_id = i.id AND d.take = i.takes AND d.verdict <> 'undo'
JOIN synthesis_sample s ON s.id = i.sample_id
LEFT JOIN synthesis_batch b ON b.id = i.batch_id AND b.state IN ('sampling', 'accepted') AND b.sample_size > 0
WHERE i.state = 'decided' AND i.decided_by_id IS NOT NULL AND i.branch IN ('rule', 'rrb')
  AND (i.calibration OR s.human IN ('approved', 'rejected'))
  AND (i.round = 3
    OR i.round = 2 AND i.sample_id NOT IN (
      SELECT sample_id FROM synthesis_reviewitem WHERE round = 3 AND state = 'decided')
    OR i.round = 1 AND i.sample_id NOT IN (
      SELECT sample_id FROM synthesis_reviewitem WHERE round = 2 AND state = 'decided'))
GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5, 6
"""
ACCEPTED = """
SELECT run_id, domain_id, coalesce(nullif(style, ''), tier), true, count(*)
FROM synthesis_sample WHERE machine = 'ready' AND run_id = ANY(%s) GROUP BY 1, 2, 3
"""
# the last attempt of a dropped sample tells whether the judge refused it, or the filter, or an error; the sample's
# row holds the texts of that attempt
JUDGED_OUT = """machine = 'dropped' AND 'judged_out' = (
  SELECT outcome FROM synthesis_attempt WHERE sample_id = s.id ORDER BY number DESC LIMIT 1)"""
REFUSED = f"""
SELECT run_id, domain_id, coalesce(nullif(style, ''), tier), false, count(*)
FROM synthesis_sample s WHERE {JUDGED_OUT} AND run_id = ANY(%s) GROUP BY 1, 2, 3
"""
UNREAD = f"""
SELECT id FROM synthesis_sample s
WHERE {JUDGED_OUT} AND run_id = ANY(%s) AND (%s = '' OR domain_id = %s) AND (%s = '' OR style = %s OR tier = %s)
  AND NOT EXISTS (SELECT FROM synthesis_reviewitem WHERE sample_id = s.id) ORDER BY id
"""


class Stratum(NamedTuple):
    judge: str
    domain: str
    kind: str  # the style of a rule sample, the tier of another
    accepted: bool


def judged_runs() -> dict[int, str]:
    """{run: its judge}: the model of the role judge, or the offline one."""
    runs = SynthesisRun.objects.filter(branch__in=JUDGED).values_list("pk", "writer", "params__endpoints")
    found = {}
    for pk, writer, endpoints in runs:
        models = {row["role"]: row["model"] for row in endpoints or ()}
        found[pk] = f"llm:{models['judge']}" if "judge" in models else writer
    return found


def unread_refusals(*, judge: str = "", domain: str = "", kind: str = "") -> list[int]:
    """Samples the judge refused for good and nobody has been asked to read, by id."""
    runs = [run for run, name in judged_runs().items() if judge in ("", name)]
    return [pk for (pk,) in fetched(UNREAD, runs, domain, domain, kind, kind, kind)]


def calibrations(*, strict: bool = False, target: float = TARGET, floor: float = FLOOR) -> list[Figures]:
    """One for each judge people have read something of, or could; by name: its kappa, and rows over all, per domain,
    per kind, and per domain and kind. Four queries.
    """
    strata, found = readings(), []
    for judge in sorted({at.judge for at in strata}):
        own = {at: reads for at, reads in strata.items() if at.judge == judge}
        cells = sorted({(at.domain, at.kind) for at in own})
        places = {
            "domains": sorted({(domain, "") for domain, _ in cells}),
            "kinds": sorted({("", kind) for _, kind in cells}),
            "cells": cells,
        }
        rows = {
            name: [_row(at, _judged(own, *at, strict), target, floor) for at in of]
            for name, of in places.items()
        }
        whole = _judged(own, "", "", strict)
        overall = _row(("", ""), whole, target, floor)
        found.append({"judge": judge, "kappa": whole.kappa, "overall": overall, **rows})
    return found


def _judged(strata: Mapping[Stratum, Reads], domain: str, kind: str, strict: bool) -> Judged:
    """Of a domain and kind; "": of all of them."""
    here = [
        (at, reads) for at, reads in strata.items() if domain in ("", at.domain) and kind in ("", at.kind)
    ]
    accepted, refused = (pooled(reads for at, reads in here if at.accepted is side) for side in (True, False))
    return Judged(accepted, refused, strict)


def _row(place: tuple[str, str], judged: Judged, target: float, floor: float) -> Figures:
    row: Figures = {"domain": place[0], "kind": place[1]}
    for name, reads in (("accepted", judged.accepted), ("refused", judged.refused)):
        counts = dict(zip(("approved", "edited", "rejected"), reads.counts, strict=True))
        row[name] = {**counts, "read": reads.n, "samples": reads.population}
    share, why = share_to_read(judged.false_accept, target, floor)
    proposal = {"share": share, "percent": ceil(round(100 * share, 6)), "why": why}
    rates = {"false_accept": judged.false_accept, "false_refuse": judged.false_refuse}
    return {**row, **rates, "proposal": proposal}


def readings() -> dict[Stratum, Reads]:
    """Of every judge, domain, kind and verdict: what was read, and how many samples there are."""
    judge_of = judged_runs()
    groups: dict[Stratum, list[tuple[str, int, float]]] = {}
    samples = Counter[Stratum]()
    for run, domain, kind, accepted, verdict, weight, n in fetched(READ):
        at = Stratum(judge_of[run], domain, kind, accepted)
        groups.setdefault(at, []).append((verdict, n, weight))
    for sql in (ACCEPTED, REFUSED):
        for run, domain, kind, accepted, n in fetched(sql, list(judge_of)):
            samples[Stratum(judge_of[run], domain, kind, accepted)] += n
    return {at: Reads(tuple(groups.get(at, ())), samples[at]) for at in groups | samples}


MOST = 500
CONTROLS = 0.1  # the share of other items whose verdict is hidden as well, so that hiding it tells nothing


@transaction.atomic
def calibration_draw(
    *, count: int, actor: Any, seed: int | None = None, judge: str = "", domain: str = "", kind: str = ""
) -> dict[str, int]:
    """Put `count` refused samples by lot into the queue, or all there are when they are fewer: {"drawn", "of", "seed"}.
    seed: of the lot; None: one nobody could choose. Raises TraceError when there is nothing to draw from.
    """
    if not 0 < count <= MOST:
        raise TraceError(f"draw 1 to {MOST} samples at a time.", code="bad_count", where="count")
    seed = secrets.randbelow(2**31) if seed is None else seed
    eligible = unread_refusals(judge=judge, domain=domain, kind=kind)
    chosen = random.Random(seed).sample(eligible, min(count, len(eligible)))
    locked = Sample.objects.select_for_update(no_key=True).filter(pk__in=chosen).order_by("pk")
    rows = list(locked.values_list("pk", flat=True))  # of two draws at once the later one sees the earlier
    samples = Sample.objects.filter(pk__in=rows, review_items=None).select_related("rule_version")
    copied = ("domain_id", "branch", "style", "tier", "rule_version_id")
    items = []
    for sample in samples.order_by("key"):
        rule = sample.rule_version.rule_id if sample.rule_version else None
        given = {name: getattr(sample, name) for name in copied}
        items.append(ReviewItem(sample=sample, calibration=True, rule_id=rule, **given))
    ReviewItem.objects.bulk_create(items)
    if not items:
        raise TraceError(
            "there is no refused sample left to draw.",
            code="nothing_to_draw",
            hint="The judge has refused none of this choice, or all of them were drawn before.",
        )
    drawn = {"drawn": len(items), "of": len(eligible), "seed": seed}
    detail = {**drawn, "judge": judge, "domain": domain, "kind": kind}
    audit_models.record(actor=actor, action="review.calibration", obj=items[0], detail=detail)
    return drawn


@transaction.atomic
def calibration_withdraw(*, actor: Any) -> int:
    """Take what nobody has opened yet out of the queue again; how many. It can be drawn anew."""
    waiting = ReviewItem.objects.filter(calibration=True, state=ReviewItem.State.OPEN, decisions=None)
    # what somebody takes now is theirs
    items = list(waiting.select_for_update(skip_locked=True, of=("self",)))
    if items:
        detail = {"items": len(items)}
        audit_models.record(actor=actor, action="review.calibration_withdraw", obj=items[0], detail=detail)
        ReviewItem.objects.filter(pk__in=[item.pk for item in items]).delete()
    return len(items)


def verdict_hidden(item: ReviewItem, sample: Sample) -> bool:
    """Whether a reader is not to see what the judge said before they decide, even when they ask."""
    return item.calibration or (item.round == 1 and lot("calibration", sample) < CONTROLS)
