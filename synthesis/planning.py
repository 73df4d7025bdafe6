"""What a run has to write: sample rows planned before anything is written, so that a killed run knows what is left.

A rule run fills each published rule up to `per_rule` samples over the styles it supports; an RRB run fills its domains
up to `anchors` samples, stratified by domain and API; planning again when nothing is missing plans nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from django.db.models import QuerySet

from rules.models import RuleVersion
from synthesis.core.clauses import reasons_unsupported
from synthesis.core.keys import made_from, sample_key, sample_seed
from synthesis.core.pools import anchor_pool, rule_pool, stratified
from synthesis.core.queries import RULE_STYLES, TIERS, RuleText, ToolText, Writers
from synthesis.models import Sample, SynthesisRun
from synthesis.selectors import GONE
from synthesis.sources import CatalogView, published_rules
from trace_site.jobs import Job, JobContext
from trace_site.lib.errors import TraceError


def plan(ctx: JobContext, run: SynthesisRun, writers: Writers, catalog: CatalogView) -> None:
    """Create the run's sample rows, once; a resumed run finds them made."""
    with ctx.guard():
        run.refresh_from_db()
        if run.params.get("planned"):
            return
        _forget_abandoned(run)
        if run.branch == SynthesisRun.Branch.RULE:
            samples = list(_rule_samples(run, writers, catalog))
        elif run.branch == SynthesisRun.Branch.RRB:
            samples = list(_anchor_samples(run, writers, catalog))
        else:
            samples = []
        Sample.objects.bulk_create(samples, ignore_conflicts=True, batch_size=500)
        run.params["planned"] = True
        run.save(update_fields=["params", "skipped"])


def _forget_abandoned(run: SynthesisRun) -> None:
    """Plans of ended runs that were never written; they are planned anew here."""
    ended = [Job.State.DONE, Job.State.FAILED, Job.State.CANCELLED, Job.State.QUARANTINED]
    rows = Sample.objects.filter(branch=run.branch, machine=Sample.Machine.PENDING, attempts__isnull=True)
    rows.filter(run__job__state__in=ended).exclude(run=run).delete()


def _rule_samples(run: SynthesisRun, writers: Writers, catalog: CatalogView) -> Iterator[Sample]:
    params = run.params
    rules = published_rules(params.get("domain", ""), params.get("rule", ""))
    if not rules:
        raise TraceError(
            "no rule is published.",
            code="no_rules",
            hint="Publish one first: manage.py rules_import --publish.",
        )
    wanted = [*RULE_STYLES, *(["underspecified"] if params.get("underspecified") else [])]
    have, made = _counts([version.pk for version, _ in rules])
    for version, rule in rules:
        reasons = reasons_unsupported(rule, catalog.tools)
        run.skipped += [
            {"rule": rule.code, "style": style, "reason": reasons[style]}
            for style in wanted
            if style in reasons
        ]
        styles = [style for style in wanted if style not in reasons]
        for style, goal in _shares(styles, params["per_rule"]).items():
            missing = max(0, goal - have[version.pk, style])
            first = made[version.pk, style]
            for index in range(first, first + missing):
                yield _rule_sample(run, version, rule, style, index, writers, catalog)


def _counts(versions: list[int]) -> tuple[Counter[tuple[int, str]], Counter[tuple[int, str]]]:
    """Per (rule version, style): samples that count, and all ever planned (their indexes are taken)."""
    rows = Sample.objects.filter(rule_version__in=versions)
    return _tally(rows.exclude(GONE)), _tally(rows)


def _tally(rows: QuerySet[Sample]) -> Counter[tuple[int, str]]:
    return Counter((version or 0, style) for version, style in rows.values_list("rule_version_id", "style"))


def _shares(styles: list[str], per_rule: int) -> dict[str, int]:
    """An equal mix: 12 over three styles is 4 each; a remainder goes to the first styles."""
    each, left = divmod(per_rule, len(styles)) if styles else (0, 0)
    return {style: each + (place < left) for place, style in enumerate(styles)}


def _rule_sample(
    run: SynthesisRun,
    version: RuleVersion,
    rule: RuleText,
    style: str,
    index: int,
    writers: Writers,
    catalog: CatalogView,
) -> Sample:
    seed = sample_seed(run.seed, rule.domain, rule.code, rule.version, style, index)
    names = rule_pool([name for name in rule.tools if name in catalog.tools], catalog.neighbours, seed)
    return _sample(
        run,
        writers,
        pool=catalog.pool(names),
        rule=rule,
        style=style,
        seed=seed,
        index=index,
        domain_id=rule.domain,
        rule_version=version,
    )


def _anchor_samples(run: SynthesisRun, writers: Writers, catalog: CatalogView) -> Iterator[Sample]:
    domain = run.params.get("domain", "")
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name, tool in catalog.tools.items():
        if not tool.deprecated and domain in ("", catalog.domains[name]):
            groups[f"{catalog.domains[name]} {tool.api}"].append(name)
    live = sum(map(len, groups.values()))
    if not live:
        raise TraceError(f"the domain {domain!r} has no tool to ask for.", code="no_tools", where="--domain")
    rows = Sample.objects.filter(branch=SynthesisRun.Branch.RRB)
    rows = rows.filter(domain_id=domain) if domain else rows
    missing = run.params["anchors"] - rows.exclude(GONE).count()
    used = Counter(rows.values_list("anchor__name", flat=True))
    order = stratified(groups, live, 0)
    # the anchors least asked so far first; within a round the stratified order
    turns = sorted(
        ((count, place) for place, name in enumerate(order) for count in range(used[name], used[name] + 50)),
    )[: max(0, missing)]
    tiers = list(TIERS)
    for position, (count, place) in enumerate(turns):
        anchor = order[place]
        yield _anchor_sample(run, anchor, tiers[(position + count) % 3], count, writers, catalog)


def _anchor_sample(
    run: SynthesisRun, anchor: str, tier: str, index: int, writers: Writers, catalog: CatalogView
) -> Sample:
    seed = sample_seed(run.seed, anchor, index)
    pool = catalog.pool(anchor_pool(anchor, catalog.neighbours, seed))
    live = sum(not tool.deprecated for tool in pool)
    if live < TIERS[tier][0]:
        tier = "easy"
    return _sample(
        run,
        writers,
        pool=pool,
        anchor=anchor,
        tier=tier,
        seed=seed,
        index=index,
        domain_id=catalog.domains[anchor],
        anchor_id=catalog.ids[anchor],
    )


def _sample(
    run: SynthesisRun,
    writers: Writers,
    *,
    pool: tuple[ToolText, ...],
    seed: int,
    index: int,
    rule: RuleText | None = None,
    anchor: str = "",
    style: str = "",
    tier: str = "",
    **fields: Any,
) -> Sample:
    inputs = made_from(
        branch=run.branch,
        rule=rule,
        anchor=anchor,
        pool=pool,
        writers=writers.made_with(run.branch),
        style=style,
        tier=tier,
        seed=seed,
        index=index,
        params={"permissions": run.params.get("permission_share", 0)},
    )
    return Sample(
        run=run,
        key=sample_key(inputs),
        branch=run.branch,
        style=style,
        tier=tier,
        seed=seed,
        pool=[tool.name for tool in pool],
        writer=writers.name,
        made_from=inputs,
        **fields,
    )
