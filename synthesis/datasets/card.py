"""The dataset card of a snapshot: README.md with the YAML that Hugging Face `datasets` reads, and the facts it states.

Facts are counted from rows, nothing is estimated or invented; what was not measured is said to be not recorded.
Yields, agreement and what people refused are of all samples of the runs that the members came from: among members
alone, which are all approved, they would say nothing.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path, PurePath
from typing import Any

from django.db.models import Count, F, OuterRef, Q, Subquery
from jinja2 import Environment, StrictUndefined

from catalog.models import CatalogImport, LabelledQuery, Tool, ToolRevision
from synthesis.core.agreement import agreeing, cohen_kappa, krippendorff_alpha, wilson
from synthesis.core.keys import STAGES
from synthesis.core.snapshot import WHY_LEFT_OUT
from synthesis.datasets.files import TABLE, TEXTS
from synthesis.generate.selectors import OF_ATTEMPTS, OF_SAMPLES
from synthesis.models import Attempt, Sample, SynthesisRun
from synthesis.quality.agreement import read_twice, table_of
from synthesis.samples.inputs import CHUNK
from trace_site.lib.provenance import card_lines

# what pages and cards call the ways of approval
HOW = {
    "read": "read by one person",
    "edited": "read and edited by one person",
    "second": "read by two people",
    "adjudicated": "read by three people",
    "bulk": "read in bulk",
    "batch": "accepted with its batch, not read",
    "policy": "by policy, not read",
    "import": "imported as approved, not read",
}
UNREAD = ("batch", "policy", "import")

How = Sample.How
NOT_RECORDED = "not recorded"
MOST_SOURCES = 20
MADE_WITH = [
    f"made_from__stages__{stage}__{name}" for stage in STAGES for name in ("prompt", "prompt_hash", "writer")
]
COLUMNS = ("branch", "domain_id", "style", "tier", "approved_how", "writer", "run_id", "labelled_query_id")


def facts(members: Sequence[int]) -> dict[str, Any]:
    """The manifest's part about the members (ids of samples) and the runs they came from."""
    groups: Counter[tuple[str, str, str]] = Counter()
    approvals: Counter[str] = Counter()
    writers: Counter[str] = Counter()
    prompts: set[str] = set()
    runs: set[int] = set()
    queries: set[int] = set()
    for start in range(0, len(members), CHUNK):
        rows = Sample.objects.filter(pk__in=members[start : start + CHUNK])
        for branch, domain, style, tier, how, writer, run, query, *made in rows.values_list(
            *COLUMNS, *MADE_WITH
        ):
            groups[branch, domain, style or tier] += 1
            approvals[how or NOT_RECORDED] += 1
            writers[writer] += 1
            runs.add(run)
            queries |= {query} - {None}
            stages = zip(made[::3], made[1::3], made[2::3], strict=True)
            # `query_rule.jinja 0123456789abcdef`, or the name of an offline writer
            prompts |= {f"{name}.jinja {digest}" if name else of for name, digest, of in stages} - {None}
    return {
        "groups": [
            {"branch": branch, "domain": domain, "style": style, "samples": count}
            for (branch, domain, style), count in sorted(groups.items())
        ],
        "domains": sorted({domain for _, domain, _ in groups}),
        "approvals": dict(sorted(approvals.items())),
        "writers": dict(sorted(writers.items())),
        "models": sorted(writers),
        "prompts": sorted(prompts),
        "recipes": _recipes(runs),
        "yields": _yields(runs),
        "agreement": _readings_compared(runs),
        "judge": _judge_refused(runs),
        "sources": _sources_of(queries),
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


def _readings_compared(runs: set[int]) -> dict[str, Any]:
    """Of samples read twice, blind: how often both readings asked for the same, and what is left beyond chance."""
    table = table_of(read_twice(runs))
    same, n = agreeing(table)
    kappa, alpha = asdict(cohen_kappa(table)), asdict(krippendorff_alpha(table))
    return {"n": n, "same": same, "table": table, "kappa": kappa, "alpha": alpha}


def _judge_refused(runs: set[int]) -> dict[str, Any]:
    """Of what judge J passed and people read: how much they refused, with its 95 % interval."""
    approved = Q(
        human=Sample.Human.APPROVED, approved_how__in=[How.READ, How.EDITED, How.SECOND, How.ADJUDICATED]
    )
    rejected = Q(human=Sample.Human.REJECTED)
    read = Sample.objects.filter(rejected | approved, run__in=runs, machine=Sample.Machine.READY)
    found = read.aggregate(n=Count("pk"), rejected=Count("pk", filter=rejected))
    rate = wilson(found["rejected"], found["n"])
    return {**found, "low": rate.low, "high": rate.high, "share": rate.value}


def _sources_of(queries: set[int]) -> list[dict[str, Any]]:
    """Where tools and imported queries came from, most first; of queries the registry keeps no licences.

    A file has the licence that its newest import with one states, so that it can be told later by importing the file
    again; tools that no import wrote have the source they name.
    """
    wrote = ToolRevision.objects.filter(
        tool=OuterRef("pk"), content_hash=OuterRef("content_hash"), catalog_import__isnull=False
    )
    tools = Tool.objects.filter(status=Tool.Status.ACTIVE).order_by()
    behind = tools.annotate(of=Subquery(wrote.order_by("-pk").values("catalog_import")[:1]))
    imports = CatalogImport.objects.values_list("pk", "domain_id", "filename")
    files = {pk: (domain, filename) for pk, domain, filename in imports}
    stated = CatalogImport.objects.filter(undone_at=None).exclude(licence="").order_by("pk")
    licences = {
        (domain, name): told for domain, name, told in stated.values_list("domain_id", "filename", "licence")
    }
    made: Counter[tuple[str, str]] = Counter()
    for source, pk, count in behind.values_list("source", "of").annotate(Count("pk")):
        file = files.get(pk, ("", ""))
        made[PurePath(file[1]).name or source, licences.get(file, NOT_RECORDED)] += count
    asked = LabelledQuery.objects.filter(pk__in=queries).order_by().values_list("source")
    given = Counter({(source, NOT_RECORDED): count for source, count in asked.annotate(Count("pk"))})
    return [
        {"of": of, "source": source or NOT_RECORDED, "count": count, "licence": licence}
        for of, counts in (("tools", made), ("queries", given))
        for (source, licence), count in sorted(counts.items(), key=lambda row: (-row[1], row[0]))[
            :MOST_SOURCES
        ]
    ]


def dataset_card(facts: Mapping[str, Any]) -> str:
    """facts: the manifest without its file list."""
    approvals: Mapping[str, int] = facts["approvals"]
    licence = facts.get("licence", "")
    return CARD.render(
        {**facts, "licence": licence},
        licence_lines=card_lines(licence),
        columns={
            field.name: "list: string" if field.type == TEXTS else f"dtype: {field.type}" for field in TABLE
        },
        offline=sum(count for of, count in facts["writers"].items() if of.startswith("offline")),
        why_left_out=WHY_LEFT_OUT,
        ways=HOW,
        unread=sum(approvals.get(how, 0) for how in UNREAD),
        read=sum(count for how, count in approvals.items() if how in HOW and how not in UNREAD),
    )


def _cell(value: str | int) -> str:
    """One line that no Markdown reader takes for markup."""
    if isinstance(value, int):
        return f"{value:,}"
    return escape(" ".join(value.split()), quote=False).replace("|", "\\|").replace("`", "'")


_markdown = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
_markdown.filters["cell"] = _cell
CARD = _markdown.from_string(Path(__file__).with_suffix(".jinja").read_text("utf-8"))
