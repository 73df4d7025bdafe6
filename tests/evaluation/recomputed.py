"""Coverage, confusion and gap scores once more: in pandas from the raw tables, sharing no code with the product.

Wilson's interval is written as the roots of its equation, the attribution of wrong answers as joins.
"""

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
from django.db.models import F

from catalog.core.words import text_key
from catalog.models import Cluster, Clustering, Tool
from evaluation.models import Answer, Evaluation, LabelledRequest, RetrievalRequest
from rules.models import RuleReading, RuleVersion
from synthesis.models import SnapshotSample
from training.models import AliasMove

Z = 1.959963984540054


def frame(rows, *columns) -> pd.DataFrame:
    return pd.DataFrame(
        list(rows.values_list(*columns)), columns=[name.replace("__", "_") for name in columns]
    )


def told_apart() -> set[tuple[str, frozenset[int]]]:
    """Pairs that the newest readings of published rules tell apart, each in its rule's own domain."""
    rows = frame(
        RuleReading.objects.filter(version__rule__published_id=F("version_id")),
        *("number", "version", "version__rule__domain", "apart"),
    )
    newest = rows.sort_values("number").groupby("version").tail(1)
    return {(row.version_rule_domain, frozenset(pair)) for row in newest.itertuples() for pair in row.apart}


def held() -> set[tuple[str, frozenset[int]]]:
    """Pairs that a published rule's set holds, whether it tells them apart or only names them."""
    rows = frame(
        RuleVersion.objects.filter(rule__published_id=F("pk")), "rule__domain", "target", "confusable_ids"
    )
    found = set()
    for row in rows.itertuples():
        tools = [row.target, *row.confusable_ids]
        found |= {(row.rule_domain, frozenset((a, b))) for a in tools for b in tools if a != b}
    return found


def chance(signals: dict) -> float:
    """Rules to expect of a pair; the first line that holds."""
    best = min(filter(None, signals.get("ranks", [])), default=None)
    table = pd.Series(
        {
            0.0: signals.get("version", False),
            0.25: bool(signals.get("points")),
            0.08: bool(signals.get("deprecated")) and best in (1, 2, 3),
            0.01: signals.get("operation", False) or signals.get("title", False),
            0.0065 / (best or 1): True,
        }
    )
    return float(table[table].index[0])


def edges() -> pd.DataFrame:
    """A row a pair of the newest clusterings: domain, cluster, place (of the cluster), a, b, dismissed, told (apart),
    named (only), chance."""
    newest = frame(Clustering.objects.all(), "id", "domain", "version").sort_values("version")
    newest = newest.groupby("domain").tail(1)
    clusters = frame(
        Cluster.objects.filter(clustering__in=list(newest.id)),
        *("id", "clustering", "edges", "dismissed_reason", "position"),
    )
    clusters["domain"] = clusters.clustering.map(dict(zip(newest.id, newest.domain, strict=True)))
    told, named = told_apart(), held()
    rows = []
    for one in clusters.itertuples():
        for a, b, *more in one.edges:
            pair = (one.domain, frozenset((a, b)))
            is_told = pair in told
            is_named = pair in named and not is_told
            what = (bool(one.dismissed_reason), is_told, is_named, chance(more[2] if len(more) > 2 else {}))
            rows.append((one.domain, one.id, one.position, a, b, *what))
    columns = ["domain", "cluster", "place", "a", "b", "dismissed", "told", "named", "chance"]
    return pd.DataFrame(rows, columns=columns)


def requests(model) -> pd.DataFrame:
    """A row a labelled request: source, gold (ids), ours and embedding (first tool, -1: none), asked (of embedding)."""
    ids = dict(Tool.objects.values_list("name", "id"))
    learned = set()
    if model is not None:
        members = SnapshotSample.objects.filter(snapshot=model.run.snapshot_id)
        learned = {text_key(query) for query in members.values_list("sample__query", flat=True)}
    rows = []

    def add(source, key, names, ours, embedding, exception=False):
        gold = [ids[name] for name in names if name in ids]
        side = ours if model is not None else embedding
        if gold and side is not None and text_key(key) not in learned:
            rows.append((source, text_key(key), tuple(sorted(names)), gold, ours, embedding, exception))

    of_benchmarks = LabelledRequest.objects.filter(origin="benchmark").order_by("pk")
    items = frame(of_benchmarks, "id", "benchmark", "benchmark__name", "benchmark__version")
    data = list(of_benchmarks.values_list("data", flat=True))
    items["query"], items["tools"] = ([one[name] for one in data] for name in ("query", "tools"))
    items["exception"] = [one.get("side") == "exception" for one in data]
    made = frame(Evaluation.objects.filter(benchmark__kind="prb"), "id", "model", "benchmark", "decode")
    made = made.merge(
        items[["benchmark", "benchmark_name", "benchmark_version"]].drop_duplicates(), on="benchmark"
    )
    made = made[made.model.isna() | (made.model == (model.pk if model else -1))]
    made = made[made.benchmark_version == made.groupby("benchmark_name").benchmark_version.transform("max")]
    made["place"] = made.decode.map({"fast": 0, "trace": 1, "trace-free": 2, "beam": 3, "embedding": 0})
    made["side"] = np.where(made.model.isna(), "embedding", "ours")
    chosen = made.sort_values(["place", "id"], ascending=[True, False]).groupby(["benchmark", "side"]).head(1)
    answers = frame(
        Answer.objects.filter(evaluation__in=[int(x) for x in chosen.id]), "evaluation", "item", "output"
    )
    answers = answers.merge(chosen[["id", "side"]], left_on="evaluation", right_on="id")
    answers["first"] = [next(iter(output["tools"]), "") for output in answers.output]
    wide = answers.pivot(index="item", columns="side", values="first") if len(answers) else pd.DataFrame()
    for row in items[items.id.isin(wide.index)].itertuples():
        firsts = [wide.at[row.id, side] if side in wide else None for side in ("ours", "embedding")]
        firsts = [None if pd.isna(one) else one for one in firsts]
        add("benchmark", row.query, row.tools, *firsts, row.exception)

    if model is not None:
        out = set(
            SnapshotSample.objects.filter(snapshot=model.run.snapshot_id).values_list("sample", flat=True)
        )
        alone = Answer.objects.filter(evaluation=None).select_related("item__sample").order_by("item__sample")
        firsts = {
            (one.item_id, one.job_id, one.model_id): next(iter(one.output["tools"]), "") for one in alone
        }
        asked = {}
        for one in alone.filter(model=model):
            sides = [firsts.get((one.item_id, one.job_id, by)) for by in (model.pk, None)]
            sample = one.item.sample
            if sample is None:
                asked[one.item.request_id] = sides
                continue
            counts = (sample.human, sample.machine) == ("approved", "ready") and sample.pk not in out
            if counts and text_key(sample.query) == one.item.text_key:
                add("sample", sample.query, sample.answer, *sides)
        for row in RetrievalRequest.objects.exclude(verdict="").order_by("pk"):
            label = row.expected or (row.tools[:1] if row.verdict == "right" else [])
            ours, near = asked.get(row.pk, (None, None))
            ours = next(iter(row.tools), "") if row.model_id == model.pk else ours
            if label and ours is not None:
                add("production", row.query, label, ours, near)
    found = pd.DataFrame(rows, columns=["source", "key", "label", "gold", "ours", "embedding", "exception"])
    found = found[~found.duplicated(["key", "label"])].reset_index(drop=True)
    for side in ("ours", "embedding"):
        found[side] = [None if pd.isna(name) else ids.get(name, -1) for name in found[side]]
    found["side"] = found.ours if model is not None else found.embedding
    return found


def traffic() -> dict[int, int]:
    ids = dict(Tool.objects.values_list("name", "id"))
    end = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    rows = frame(RetrievalRequest.objects.all(), "at", "via", "outcome", "tools", "expected", "verdict")
    if rows.empty:
        return {}
    rows = rows[(rows["at"] >= end - timedelta(days=30)) & (rows["at"] < end)]
    rows = rows[(rows.via != "report") & (rows.outcome == "answered")]
    about = [row.expected if row.verdict and row.expected else row.tools[:1] for row in rows.itertuples()]
    counts = pd.Series(
        [ids[name] for names in about for name in names if name in ids], dtype=int
    ).value_counts()
    return {int(tool): int(n) for tool, n in counts.items()}


def wilson(wrong: int, n: int) -> tuple[float, float]:
    """Roots of (p - wrong/n)^2 = Z^2 p (1 - p) / n."""
    p = wrong / n
    roots = np.roots([1 + Z**2 / n, -(2 * p + Z**2 / n), p**2]).real
    return min(max(min(roots), 0.0), p), max(min(max(roots), 1.0), p)


def summed(terms: list[tuple[float, int, int]]) -> tuple[float | None, float | None, float | None]:
    terms = [term for term in terms if term[2]]
    if not terms:
        return None, None, None
    low = high = value = 0.0
    for times, wrong, n in terms:
        below, above = wilson(wrong, n)
        value += times * wrong / n
        low += (times * (wrong / n - below)) ** 2
        high += (times * (above - wrong / n)) ** 2
    return round(value, 6), round(max(0.0, value - low**0.5), 6), round(value + high**0.5, 6)


def recomputed() -> dict[str, dict]:
    """{"domains": {slug: figures}, "clusters": {id: figures}} under the names of the rollups' columns."""
    move = AliasMove.objects.filter(alias="champion").order_by("-pk").select_related("model__run").first()
    model = move.model if move else None
    pairs, labelled, asked = edges(), requests(model), traffic()
    live = pairs[~pairs.dismissed]
    state = {frozenset((row.a, row.b)): "covered" if row.told else "uncovered" for row in live.itertuples()}
    members = {
        tool: pk
        for pk, ids in Cluster.objects.filter(pk__in=[int(x) for x in live.cluster.unique()]).values_list(
            "id", "tool_ids"
        )
        for tool in ids
    }
    domain_of = dict(Tool.objects.values_list("id", "domain"))
    inside = set(live.a) | set(live.b)
    covered_tools = set(live[live.told].a) | set(live[live.told].b)

    told, waiting_tools = told_apart(), set(live[~live.told].a) | set(live[~live.told].b)

    def at(tool, chosen):
        pair = frozenset((tool, chosen))
        if pair in state:
            return state[pair]
        one_cluster = tool in members and members[tool] == members.get(chosen)
        if one_cluster and tool in waiting_tools and (domain_of[tool], pair) not in told:
            return "uncovered"
        return "elsewhere"

    def owner(gold, chosen):
        for wanted in ("uncovered", "covered"):
            for tool in gold:
                if at(tool, chosen) == wanted:
                    return tool, wanted
        return gold[0], "elsewhere"

    labelled["wrong"] = [row.side not in row.gold for row in labelled.itertuples()]
    owners = [owner(row.gold, row.side) if row.wrong else (0, "") for row in labelled.itertuples()]
    labelled["tool"], labelled["at"] = [one for one, _ in owners], [place for _, place in owners]
    labelled["domain"] = [domain_of[gold[0]] for gold in labelled.gold]
    labelled["both"] = labelled.embedding.notna() if len(labelled) else []
    labelled["embedding_wrong"] = [
        row.both and row.embedding not in row.gold for row in labelled.itertuples()
    ]
    groups = []
    for gold in labelled.gold:
        held = [tool for tool in gold if tool in inside]
        groups.append("outside" if not held else "covered" if set(held) <= covered_tools else "uncovered")
    labelled["group"] = groups
    long = labelled.explode("gold")
    per_tool = pd.DataFrame(
        {
            "n": long.groupby("gold").size(),
            "uncovered": long[(long["at"] == "uncovered") & (long.tool == long.gold)].groupby("gold").size(),
            "covered": long[(long["at"] == "covered") & (long.tool == long.gold)].groupby("gold").size(),
        }
    ).fillna(0)

    def terms(tools):
        return [
            (asked.get(tool, 0) or 1, int(per_tool.uncovered.get(tool, 0)), int(per_tool.n.get(tool, 0)))
            for tool in sorted(tools)
        ]

    def shares(rows):
        return {
            "n": len(rows),
            "wrong": int(rows.wrong.sum()),
            "n_embedding": int(rows.both.sum()),
            "wrong_embedding": int(rows.embedding_wrong.sum()),
        }

    clusters = {}
    for pk, rows in pairs.groupby("cluster"):
        dismissed = bool(rows.dismissed.iloc[0])
        waiting = set() if dismissed else set(rows[~rows.told].a) | set(rows[~rows.told].b)
        touching = [not dismissed and any(members.get(tool) == pk for tool in gold) for gold in labelled.gold]
        own = labelled[np.array(touching, dtype=bool)]
        mine = own[[members.get(tool) == pk for tool in own.tool]] if len(own) else own
        score, low, high = summed(terms(waiting))
        clusters[int(pk)] = {
            "expected_rules": 0.0 if dismissed else round(float(rows[~rows.told].chance.sum()), 6),
            "pairs": len(rows),
            "covered": int(rows.told.sum()),
            "named": int(rows.named.sum()),
            "open_tools": sorted(waiting),
            "measured": sum(n > 0 for _, _, n in terms(waiting)),
            **shares(own),
            "wrong_uncovered": int((mine["at"] == "uncovered").sum()),
            "wrong_covered": int((mine["at"] == "covered").sum()),
            "requests": sum(times for times, _, n in terms(waiting) if n),
            "score": score,
            "score_low": low,
            "score_high": high,
        }
    order = pairs.groupby("cluster").agg(domain=("domain", "first"), place=("place", "first"))
    order["gap"] = [bool(clusters[pk]["open_tools"]) for pk in order.index]
    order["score"] = [clusters[pk]["score"] or 0.0 for pk in order.index]
    order["whole"] = [clusters[pk]["measured"] == len(clusters[pk]["open_tools"]) for pk in order.index]
    order["rules"] = [clusters[pk]["expected_rules"] for pk in order.index]
    order["whole"] &= order.score == 0  # what went wrong comes first, however much was measured
    order.loc[~order.gap, ["whole", "rules"]] = False, 0.0
    order.loc[order.gap, "place"] = 0
    by = ["gap", "score", "whole", "rules", "place", "cluster"]
    ordered = order.reset_index().sort_values(by, ascending=[False, False, True, False, True, True])
    for pk, rank in zip(ordered.cluster, ordered.groupby("domain").cumcount() + 1, strict=True):
        clusters[int(pk)]["rank"] = int(rank)
    domains = {}
    for domain in sorted(set(domain_of.values())):
        rows, own = live[live.domain == domain], labelled[labelled.domain == domain]
        waiting = set(rows[~rows.told].a) | set(rows[~rows.told].b)
        told = set(rows[rows.told].a) | set(rows[rows.told].b)
        score, low, high = summed(terms(waiting))
        domains[domain] = {
            "clusters": int(rows.cluster.nunique()),
            "pairs": len(rows),
            "covered": int(rows.told.sum()),
            "named": int(rows.named.sum()),
            "tools_covered": len(told),
            "gaps": int(rows[~rows.told].cluster.nunique()),
            "groups": {
                "all": shares(own),
                **{name: shares(own[own.group == name]) for name in ("covered", "uncovered", "outside")},
                "exceptions": shares(own[own.exception.astype(bool)]),
            },
            "sources": {
                name: shares(own[own.source == name]) for name in ("benchmark", "sample", "production")
            },
            "covered_n": int(sum(per_tool.n.get(tool, 0) for tool in told)),
            "covered_wrong": int(sum(per_tool.covered.get(tool, 0) for tool in told)),
            "requests": sum(times for times, _, n in terms(waiting) if n),
            "recorded": sum(n for tool, n in asked.items() if domain_of[tool] == domain),
            "score": score,
            "score_low": low,
            "score_high": high,
        }
    return {"domains": domains, "clusters": clusters}


def assert_equal_to_recomputed() -> dict[str, dict]:
    from evaluation.coverage.counted import counted

    truth = recomputed()
    stored = {
        "domains": counted().domains,
        "clusters": {row.pk: row for rows in counted().clusters.values() for row in rows},
    }
    for kind, rows in truth.items():
        assert stored[kind].keys() == rows.keys(), kind
        for key, figures in rows.items():
            told = {name: getattr(stored[kind][key], name) for name in figures}
            if "groups" in told:  # whether it is better is a test, not a count
                told["groups"] = {
                    group: {name: n for name, n in of.items() if name != "answer"}
                    for group, of in told["groups"].items()
                }
            differs = {
                name: (told[name], figures[name]) for name in figures if not same(told[name], figures[name])
            }
            assert differs == {}, f"{kind} {key}: stored, recomputed {json.dumps(differs, default=str)}"
    return truth


def same(a, b) -> bool:
    if isinstance(a, float) and isinstance(b, (int, float)):
        return abs(a - b) <= 2e-6
    return a == b
