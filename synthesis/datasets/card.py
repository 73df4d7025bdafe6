"""The dataset card of a snapshot: README.md with the YAML that Hugging Face `datasets` reads, and the facts it states.

Facts are counted from rows, nothing is estimated or invented; what was not measured is said to be not recorded.
Yields, agreement and what people refused are of all samples of the runs that the members came from: among members
alone, which are all approved, they would say nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import PurePath
from typing import Any

from django.db.models import Count, F, OuterRef, Q, Subquery

from catalog.models import CatalogImport, LabelledQuery, Tool, ToolRevision
from synthesis.core.agreement import agreeing, cohen_kappa, krippendorff_alpha, patterns_of, wilson
from synthesis.core.keys import STAGES
from synthesis.core.snapshot import HOW, UNREAD, WHY_LEFT_OUT
from synthesis.generate.selectors import OF_ATTEMPTS, OF_SAMPLES
from synthesis.models import Attempt, Decision, ReviewItem, Sample, SynthesisRun
from synthesis.samples.inputs import CHUNK
from trace_site.lib.provenance import card_lines

READINGS = (Decision.Verdict.APPROVE, Decision.Verdict.EDIT, Decision.Verdict.REJECT)
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
    read = ReviewItem.objects.filter(
        sample__run__in=runs, state=ReviewItem.State.DECIDED, calibration=False, round__in=(1, 2)
    )
    twice = read.values("sample").annotate(Count("pk")).filter(pk__count=2).order_by().values("sample")
    rows = Decision.objects.filter(sample__in=twice, policy="", round__in=(1, 2), verdict__in=READINGS)
    newest = rows.order_by("sample", "round", "-take").distinct("sample", "round")
    table = [[0] * len(READINGS) for _ in READINGS]
    before: tuple[int, str] = (0, "")
    for sample, verdict in newest.values_list("sample", "verdict").iterator(CHUNK):
        if sample == before[0]:
            table[READINGS.index(before[1])][READINGS.index(verdict)] += 1
        before = sample, verdict
    same, n = agreeing(table)
    kappa, alpha = cohen_kappa(table).as_dict(), krippendorff_alpha(patterns_of(table)).as_dict()
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


# of one format: `datasets` reads all configurations of a folder with one reader
CONFIGS = {
    "default": "samples.jsonl",
    "tools": "tools.jsonl",
    "neighbours": "neighbours.jsonl",
    "rules": "rules.jsonl",
    "tokens": "tokens.jsonl",
}
# said, because a reader would guess from the first lines; the table has types of its own
FEATURES = {
    "id": "dtype: int64",
    **dict.fromkeys(("key", "branch", "tier", "style", "domain", "query", "trace"), "dtype: string"),
    **dict.fromkeys(("answer", "permissions"), "list: string"),
    **dict.fromkeys(("writer", "rule"), "dtype: string"),
}
LISTED = 30  # rules named one by one

Facts = Mapping[str, Any]


def dataset_card(facts: Facts) -> str:
    """facts: the manifest without its file list."""
    parts = (_head, _warning, _contents, _left_out, _firewall, _making, _approval, _sources, _limits)
    return _yaml(facts) + "\n" + "\n".join(section for part in parts if (section := part(facts)))


def _yaml(facts: Facts) -> str:
    name = f"pretty_name: TRACE snapshot {facts['hash'][:12]}"
    lines = ["---", name, *card_lines(facts.get("licence", "")), "configs:"]
    for name, path in CONFIGS.items():
        lines += [f"- config_name: {name}", "  data_files:", "  - split: train", f"    path: {path}"]
    lines += ["dataset_info:", "- config_name: default", "  features:"]
    for name, kind in FEATURES.items():
        lines += [f"  - name: {name}", f"    {kind}"]
    return "\n".join([*lines, "---", ""])


def _head(facts: Facts) -> str:
    budgets = "; ".join(
        f"{domain}: {', '.join(f'{name} {number}' for name, number in limits.items())}"
        for domain, limits in facts["budgets"].items()
    )
    return f"""# TRACE snapshot {facts["hash"][:12]}

A frozen dataset of approved samples (query, reasoning trace, tools) for tool retrieval, with the tools, look-alikes,
rules and tokens they were made from. Identity: `{facts["hash"]}`, over the five JSON-lines files. The Parquet table and
this card are made from them and are no part of the identity: their bytes also depend on the versions of the programs
that write them. `manifest.json` has the digest of every file.

`datasets.load_dataset(folder)` reads the samples, `load_dataset(folder, "tools")` the tools, and so on;
`load_dataset("parquet", data_files="samples.parquet")` and pandas read the table.

- composition: {facts["strategy"]}({facts["per_rule"]}), seed {facts["seed"]}
- branches: {_cell(", ".join(facts["branches"]))}
- RRB samples asked for: {"all" if facts["rrb"] is None else facts["rrb"]}
- budgets of domains: {_cell(budgets) or "none"}
"""


def _warning(facts: Facts) -> str:
    total, writers = facts["counts"]["samples"], facts["writers"]
    offline = sum(count for writer, count in writers.items() if writer.startswith("offline"))
    if not offline:
        return ""
    return (
        f"> **OFFLINE TEXT: {offline:,} of {total:,} samples were written by the offline templates, not by a language "
        "model.** They show that the pipeline works; they are no evidence of how people ask.\n"
    )


def _contents(facts: Facts) -> str:
    counts = facts["counts"]
    rows = [(row["branch"], row["domain"], row["style"] or "–", row["samples"]) for row in facts["groups"]]
    return f"""## What is inside

{counts["samples"]:,} samples: {counts["rrb"]:,} RRB, {counts["rule"]:,} of rules, {counts["imported"]:,} imported.
{counts["rules_with_samples"]:,} of {counts["rules"]:,} rules have samples. {counts["tools"]:,} tools.

{_table(("branch", "domain", "style or tier", "samples"), rows)}"""


def _left_out(facts: Facts) -> str:
    rows = [
        (WHY_LEFT_OUT.get(row["reason"], row["reason"]), row["domain"], row["branch"], row["count"])
        for row in facts["left_out"]
    ]
    if not rows:
        return "## Approved samples left out\n\nNone.\n"
    return "## Approved samples left out\n\n" + _table(("why", "domain", "branch", "samples"), rows)


def _firewall(facts: Facts) -> str:
    found = facts["contaminated"]
    kinds = {(use, kind): 0 for use in ("benchmark", "few_shot") for kind in ("exact", "near")}
    for row in found:
        kinds[row["use"], row["kind"]] = kinds.get((row["use"], row["kind"]), 0) + 1
    guarded = facts["guarded"]
    rows = [(use.replace("_", "-"), guarded.get(use, 0), kind, count) for (use, kind), count in kinds.items()]
    return f"""## Contamination firewall

Every approved sample was compared with every benchmark and few-shot query: same words in the same order (exact), or
sets of telling words with a Jaccard similarity of 0.85 or more (near). {len(found):,} samples were kept out; the
manifest lists them with both texts. Below 13 telling words one changed word is below 0.85 and is not found; neither
are paraphrases.

{_table(("queries of", "in the registry", "kind", "samples kept out"), rows)}"""


def _making(facts: Facts) -> str:
    tried = ["planned", "attempts", "filtered", "judged_out", "errors"]
    names = [*tried, "ready", "dropped", "approved", "rejected"]
    rows = [(branch, *(counts.get(name, 0) for name in names)) for branch, counts in facts["yields"].items()]
    recipes = [
        f"- {_cell(one['branch'])}: runs {_listed(one['runs'])}, seeds {_listed(one['seeds'])}; recipe in the manifest"
        for one in facts["recipes"]
    ]
    return f"""## How it was made

{_table(("writer", "samples"), facts["writers"].items())}
Prompts and templates: {_cell(", ".join(facts["prompts"])) or "not recorded"}

{chr(10).join(recipes) or "Recipes: not recorded."}

Yields of those runs, all their samples (`filtered`, `judged_out`, `errors` count attempts):

{_table(("branch", *names), rows)}"""


def _approval(facts: Facts) -> str:
    rows = [(HOW.get(how, how), count) for how, count in facts["approvals"].items()]
    return f"""## Approval

{_table(("how", "samples"), rows)}
{_agreement(facts["agreement"])}

{_judge(facts["judge"])}
"""


def _agreement(found: Facts) -> str:
    if not found["n"]:
        return "Agreement: no sample of these runs was read twice, so it is not known."
    said = f"Agreement: of {found['n']:,} samples read twice, blind, {found['same']:,} got the same verdict"
    return (
        f"{said} ({found['same'] / found['n']:.1%}). "
        f"Cohen's kappa {_estimate(found['kappa'])}; Krippendorff's alpha {_estimate(found['alpha'])}."
    )


def _estimate(found: Facts) -> str:
    if found["value"] is None:
        return f"has no value ({found['why'] or 'too few readings'})"
    if found["low"] is None:
        return f"{found['value']:.2f} (n {found['n']:,})"
    return f"{found['value']:.2f} (95 % interval {found['low']:.2f} to {found['high']:.2f}, n {found['n']:,})"


def _judge(found: Facts) -> str:
    if not found["n"]:
        return "Judge J: people read none of what it passed in these runs, so its false-accept rate is not known."
    return (
        f"Judge J: of {found['n']:,} samples that it passed and people read, {found['rejected']:,} were rejected "
        f"({found['share']:.1%}, 95 % interval {found['low']:.1%} to {found['high']:.1%})."
    )


def _sources(facts: Facts) -> str:
    rows = [(row["of"], row["source"], row["count"], row["licence"]) for row in facts["sources"]]
    own = _cell(facts.get("licence", "")) or "not recorded"
    table = _table(("of", "source", "number", "licence"), rows)
    return f"## Sources and licences\n\nLicence of this dataset: {own}.\n\n{table}"


def _limits(facts: Facts) -> str:
    counts, approvals = facts["counts"], facts["approvals"]
    unread = sum(approvals.get(how, 0) for how in UNREAD)
    known = sum(count for how, count in approvals.items() if how in HOW and how not in UNREAD)
    short = facts["shortfall"]
    lines = [
        f"{unread:,} of {counts['samples']:,} samples were approved without being read; of {known:,} it is recorded "
        "that a person read them."
    ]
    if short:
        named = ", ".join(f"{rule} ({count})" for rule, count in list(short.items())[:LISTED])
        more = f" and {len(short) - LISTED:,} more" if len(short) > LISTED else ""
        lines.append(
            f"{len(short):,} rules have fewer than {facts['per_rule']} samples: {_cell(named)}{more}."
        )
    if without := counts["rules"] - counts["rules_with_samples"]:
        lines.append(f"{without:,} published rules have no sample at all.")
    if not facts["agreement"]["n"]:
        lines.append("Nobody measured how far reviewers agree.")
    if any(row["licence"] == NOT_RECORDED for row in facts["sources"]):
        lines.append("Licences of sources are not recorded, see above; ask before passing the dataset on.")
    return "## Limits\n\n" + "".join(f"- {line}\n" for line in lines)


def _listed(values: Sequence[Any]) -> str:
    shown = ", ".join(str(value) for value in values[:8])
    return f"{shown} and {len(values) - 8} more" if len(values) > 8 else shown


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [_row(head), _row(["---"] * len(head)), *(_row(row) for row in rows)]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[Any]) -> str:
    return f"| {' | '.join(f'{cell:,}' if isinstance(cell, int) else _cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    """One line that no Markdown reader takes for markup."""
    return escape(" ".join(str(text).split()), quote=False).replace("|", "\\|").replace("`", "'")
