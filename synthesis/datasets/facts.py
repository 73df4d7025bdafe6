"""What a snapshot's manifest and card say about its members: counted from rows, nothing is estimated or invented.

Yields, agreement and what people refused are of all samples of the runs its members came from: among members alone,
which are all approved, they would say nothing.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from django.db.models import Count, F, OuterRef, Q, Subquery

from catalog.models import CatalogImport, LabelledQuery, Tool, ToolRevision
from synthesis.core.keys import STAGES
from synthesis.core.review.agreement import agreeing, cohen_kappa, krippendorff_alpha, patterns_of, wilson
from synthesis.core.snapshot import Entry
from synthesis.generate.selectors import OF_ATTEMPTS, OF_SAMPLES
from synthesis.models import Attempt, Decision, ReviewItem, Sample, SynthesisRun
from synthesis.samples.inputs import CHUNK

READINGS = (Decision.Verdict.APPROVE, Decision.Verdict.EDIT, Decision.Verdict.REJECT)
NOT_RECORDED = "not recorded"
MOST_SOURCES = 20
MADE_WITH = [
    f"made_from__stages__{stage}__{name}" for stage in STAGES for name in ("prompt", "prompt_hash", "writer")
]
COLUMNS = ("branch", "domain_id", "style", "tier", "approved_how", "writer", "run_id", "labelled_query_id")


@dataclass(slots=True)
class Members:
    """Counts over the members, read once in blocks."""

    groups: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # branch, domain, style or tier
    approvals: Counter[str] = field(default_factory=Counter)
    writers: Counter[str] = field(default_factory=Counter)
    prompts: set[str] = field(default_factory=set)
    runs: set[int] = field(default_factory=set)
    queries: set[int] = field(default_factory=set)


def members(chosen: Sequence[Entry]) -> Members:
    found = Members()
    for block in _blocks([entry.id for entry in chosen]):
        rows = Sample.objects.filter(pk__in=block).values_list(*COLUMNS, *MADE_WITH)
        for branch, domain, style, tier, how, writer, run, query, *made in rows:
            found.groups[branch, domain, style or tier] += 1
            found.approvals[how or NOT_RECORDED] += 1
            found.writers[writer] += 1
            found.runs.add(run)
            found.queries |= {query} - {None}
            found.prompts |= _made_with(made)
    return found


def _blocks(ids: list[int]) -> Iterator[Sequence[int]]:
    return (ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK))


def _made_with(parts: list[Any]) -> set[str]:
    """`query_rule.jinja 0123456789abcdef`, or the name of an offline writer, of every stage."""
    stages = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    return {f"{prompt}.jinja {digest}" if prompt else writer for prompt, digest, writer in stages} - {None}


def facts(found: Members) -> dict[str, Any]:
    """The manifest's part about the members and the runs they came from."""
    groups = [
        {"branch": branch, "domain": domain, "style": style, "samples": count}
        for (branch, domain, style), count in sorted(found.groups.items())
    ]
    return {
        "groups": groups,
        "domains": sorted({domain for _, domain, _ in found.groups}),
        "approvals": dict(sorted(found.approvals.items())),
        "writers": dict(sorted(found.writers.items())),
        "models": sorted(found.writers),
        "prompts": sorted(found.prompts),
        "recipes": _recipes(found.runs),
        "yields": _yields(found.runs),
        "agreement": _agreement(found.runs),
        "judge": _judge(found.runs),
        "sources": _sources(found),
    }


def _recipes(runs: set[int]) -> list[dict[str, Any]]:
    """Each recipe once, with the runs and seeds that used it."""
    found: list[dict[str, Any]] = []
    for run in SynthesisRun.objects.filter(pk__in=runs).order_by("pk"):
        recipe = run.params.get("recipe", {})
        same = next((one for one in found if (one["recipe"], one["branch"]) == (recipe, run.branch)), None)
        if same is None:
            same = {"branch": run.branch, "recipe": recipe, "runs": [], "seeds": []}
            found.append(same)
        same["runs"].append(run.pk)
        same["seeds"].append(run.seed)
    return found


def _yields(runs: set[int]) -> dict[str, dict[str, int]]:
    """Per branch, of all samples of those runs: samples by how they ended, attempts by what refused them."""
    samples = Sample.objects.filter(run__in=runs).order_by().values(of=F("branch")).annotate(**OF_SAMPLES)
    tried = Attempt.objects.filter(sample__run__in=runs).order_by()
    attempts = tried.values(of=F("sample__branch")).annotate(**OF_ATTEMPTS)
    found: dict[str, dict[str, int]] = {}
    for row in map(dict[str, Any], [*samples, *attempts]):
        found.setdefault(row.pop("of"), {}).update(row)
    return dict(sorted(found.items()))


def _agreement(runs: set[int]) -> dict[str, Any]:
    """Of samples read twice, blind: how often both readings asked for the same, and what is left beyond chance."""
    table = [[0] * len(READINGS) for _ in READINGS]
    for first, second in _pairs(runs):
        table[READINGS.index(first)][READINGS.index(second)] += 1
    same, n = agreeing(table)
    return {
        "n": n,
        "same": same,
        "table": table,
        "kappa": cohen_kappa(table).as_dict(),
        "alpha": krippendorff_alpha(patterns_of(table)).as_dict(),
    }


def _pairs(runs: set[int]) -> Iterator[tuple[Any, Any]]:
    """(first verdict, second verdict) of every sample with two readings that stand."""
    read = ReviewItem.objects.filter(
        sample__run__in=runs, state=ReviewItem.State.DECIDED, calibration=False, round__in=(1, 2)
    )
    twice = read.values("sample").annotate(Count("pk")).filter(pk__count=2).order_by()
    rows = Decision.objects.filter(
        sample__in=twice.values("sample"), policy="", round__in=(1, 2), verdict__in=READINGS
    )
    newest = rows.order_by("sample", "round", "-take").distinct("sample", "round")
    before: tuple[int, str] = (0, "")
    for sample, verdict in newest.values_list("sample", "verdict").iterator(CHUNK):
        if sample == before[0]:
            yield before[1], verdict
        before = sample, verdict


def _judge(runs: set[int]) -> dict[str, Any]:
    """Of what judge J passed and people read: how much they refused, with its 95 % interval."""
    read = Sample.objects.filter(run__in=runs, machine=Sample.Machine.READY).filter(
        Q(human=Sample.Human.REJECTED)
        | Q(
            approved_how__in=[Sample.How.READ, Sample.How.EDITED, Sample.How.SECOND, Sample.How.ADJUDICATED],
            human=Sample.Human.APPROVED,
        )
    )
    found = read.aggregate(n=Count("pk"), rejected=Count("pk", filter=Q(human=Sample.Human.REJECTED)))
    rate = wilson(found["rejected"], found["n"])
    return {**found, "low": rate.low, "high": rate.high, "share": rate.value}


def _sources(found: Members) -> list[dict[str, Any]]:
    """Where tools and imported queries came from, most first; of queries the registry keeps no licences."""
    queries = LabelledQuery.objects.filter(pk__in=found.queries).order_by().values_list("source")
    asked = Counter({(source, NOT_RECORDED): count for source, count in queries.annotate(Count("pk"))})
    return [
        {"of": of, "source": source or NOT_RECORDED, "count": count, "licence": licence}
        for of, counts in (("tools", _tool_sources()), ("queries", asked))
        for (source, licence), count in sorted(counts.items(), key=lambda row: (-row[1], row[0]))[
            :MOST_SOURCES
        ]
    ]


def _tool_sources() -> Counter[tuple[str, str]]:
    """{(file, licence): active tools}. A file has the licence that its newest import with one states, so that it can
    be told later by importing the file again; tools that no import wrote have the source they name.
    """
    wrote = ToolRevision.objects.filter(
        tool=OuterRef("pk"), content_hash=OuterRef("content_hash"), catalog_import__isnull=False
    )
    tools = Tool.objects.filter(status=Tool.Status.ACTIVE).order_by()
    behind = tools.annotate(of=Subquery(wrote.order_by("-pk").values("catalog_import")[:1]))
    files = {
        pk: (domain, filename)
        for pk, domain, filename in CatalogImport.objects.values_list("pk", "domain_id", "filename")
    }
    stated = CatalogImport.objects.filter(undone_at=None).exclude(licence="").order_by("pk")
    licences = {
        (domain, name): told for domain, name, told in stated.values_list("domain_id", "filename", "licence")
    }
    counts: Counter[tuple[str, str]] = Counter()
    for source, pk, count in behind.values_list("source", "of").annotate(Count("pk")):
        file = files.get(pk, ("", ""))
        counts[PurePath(file[1]).name or source, licences.get(file, NOT_RECORDED)] += count
    return counts
