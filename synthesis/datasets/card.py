"""The dataset card of a snapshot: README.md with the YAML that Hugging Face `datasets` reads.

In: the manifest's facts. Out: Markdown. It says what was counted, and of what was not measured that it was not.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from synthesis.core.labels import HOW, REASONS, UNREAD
from trace_site.lib.provenance import card_lines

# of one format: `datasets` reads all configurations of a folder with one reader
CONFIGS = {
    "default": "samples.jsonl",
    "tools": "tools.jsonl",
    "neighbours": "neighbours.jsonl",
    "rules": "rules.jsonl",
    "tokens": "tokens.jsonl",
}
# said, because a reader would guess from the first lines; the table has types of its own
FEATURES: dict[str, str | list[str]] = {
    "id": "int64",
    **dict.fromkeys(("key", "branch", "tier", "style", "domain", "query", "trace"), "string"),
    **dict.fromkeys(("answer", "permissions"), ["string"]),
    **dict.fromkeys(("writer", "rule"), "string"),
}
LISTED = 30  # rules named one by one

Facts = Mapping[str, Any]


def dataset_card(facts: Facts) -> str:
    """facts: the manifest without its file list."""
    sections = [
        _head(facts),
        _warning(facts),
        _contents(facts),
        _left_out(facts),
        _firewall(facts),
        _making(facts),
        _approval(facts),
        _sources(facts),
        _limits(facts),
    ]
    return _yaml(facts) + "\n" + "\n".join(section for section in sections if section)


def _yaml(facts: Facts) -> str:
    name = f"pretty_name: TRACE snapshot {facts['hash'][:12]}"
    lines = ["---", name, *card_lines(facts.get("licence", "")), "configs:"]
    for name, path in CONFIGS.items():
        lines += [f"- config_name: {name}", "  data_files:", "  - split: train", f"    path: {path}"]
    lines += ["dataset_info:", "- config_name: default", "  features:"]
    for name, kind in FEATURES.items():
        lines += [f"  - name: {name}", f"    {'list' if isinstance(kind, list) else 'dtype'}: {_kind(kind)}"]
    return "\n".join([*lines, "---", ""])


def _kind(kind: str | list[str]) -> str:
    return kind if isinstance(kind, str) else kind[0]


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
    total, offline = facts["counts"]["samples"], _offline(facts)
    if not offline:
        return ""
    return (
        f"> **OFFLINE TEXT: {offline:,} of {total:,} samples were written by the offline templates, not by a language "
        "model.** They show that the pipeline works; they are no evidence of how people ask.\n"
    )


def _offline(facts: Facts) -> int:
    return sum(count for writer, count in facts["writers"].items() if writer.startswith("offline"))


def _contents(facts: Facts) -> str:
    counts = facts["counts"]
    rows = [(row["branch"], row["domain"], row["style"] or "–", row["samples"]) for row in facts["groups"]]
    return f"""## What is inside

{counts["samples"]:,} samples: {counts["rrb"]:,} RRB, {counts["rule"]:,} of rules, {counts["imported"]:,} imported.
{counts["rules_with_samples"]:,} of {counts["rules"]:,} rules have samples. {counts["tools"]:,} tools.

{_table(("branch", "domain", "style or tier", "samples"), rows)}"""


def _left_out(facts: Facts) -> str:
    rows = [
        (REASONS.get(row["reason"], row["reason"]), row["domain"], row["branch"], row["count"])
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
        f"- {_cell(one['branch'])}: runs {_listed(one['runs'])}, seeds {_listed(one['seeds'])}; "
        f"recipe in the manifest"
        for one in facts["recipes"]
    ]
    writers = [(writer, count) for writer, count in facts["writers"].items()]
    return f"""## How it was made

{_table(("writer", "samples"), writers)}
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
    if any(row["licence"] == "not recorded" for row in facts["sources"]):
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
