"""Reads of gate reports: which benchmarks a gate asks, which report counts, and what it says in sentences."""

from dataclasses import asdict
from typing import Any

from django.db.models import QuerySet
from django.urls import reverse

from evaluation.benchmarks.selectors import TIERS, backend_of, newest_benchmarks
from evaluation.core.gate import CHAMPION, EMBEDDING, FAIL, PASS, Gate, GateRow
from evaluation.core.metrics import ALL
from evaluation.core.paired import BETTER, CANNOT_TELL, WORSE
from evaluation.coverage.selectors import definition_now
from evaluation.models import Benchmark, GateReport
from trace_site.jobs import Job
from training.models import UNDER_WAY, Model
from training.registry.gate import GateWord

KIND = "gate"
KINDS = list(Benchmark.Kind.values)
NAMED = 3  # slices or rules that a sentence names


def gated_benchmarks() -> list[Benchmark]:
    """The newest versions that a gate asks, the requests first; one query."""
    found = [one for one in newest_benchmarks() if not one.is_development]
    return sorted(found, key=lambda one: (KINDS.index(one.kind), TIERS.index(one.tier), one.name))


def reports() -> QuerySet[GateReport]:
    return GateReport.objects.select_related("candidate__run", "champion__run").defer(
        "candidate__card", "champion__card", "candidate__run__log_tail", "champion__run__log_tail"
    )


def newest_report(candidate: int, champion: int | None) -> GateReport | None:
    return reports().filter(candidate=candidate, champion=champion).first()


def asked_of(candidate: Model, champion: Model | None) -> dict[str, Any]:
    """Whose answers a report counts: both models' weights, and through which backends they answer now."""
    both = [one for one in (candidate, champion) if one]
    return {
        "weights": [one.store_digest for one in both],
        "backends": [backend_of(one) for one in both],
    }


def outdated(report: GateReport) -> str:
    """Why it counts no more, as the end of a sentence; empty where it counts. One query."""
    known = report.counted_from
    if sorted(one.pk for one in gated_benchmarks()) != known.get("benchmarks", []):
        return "benchmarks were frozen since that it does not know"
    now = asked_of(report.candidate, report.champion)
    if now["weights"] != known.get("weights", now["weights"]):
        return "a model was trained again since"
    if now["backends"] != known.get("backends", now["backends"]):
        return "a model answers through another backend by now"
    return ""


def groups_moved(report: GateReport) -> bool:
    """Whether rules or clusters sort queries otherwise by now. One query."""
    return report.counted_from.get("groups") not in (None, definition_now().hash)


def answers(
    found: Gate, model: int, other: int | None, domain: str = ALL, group: str = ALL
) -> dict[str, str]:
    """{opponent: whether the model is better than it, as a sentence}, of those that both answered labelled requests."""
    names = {CHAMPION: f"model {other}", EMBEDDING: "plain search"}
    told = {}
    for opponent, name in names.items():
        if row := found.first_tools(opponent).get((domain, group)):
            shares = (
                f"{100 * row.candidate:.0f} % against {100 * row.other:.0f} % of {row.n} labelled requests"
            )
            spread = f"a difference of {points(row.difference)} points, 95 % {points(row.low)} to {points(row.high)}"
            said = {
                BETTER: f"Model {model} is better than {name}",
                WORSE: f"Model {model} is worse than {name}",
                CANNOT_TELL: f"Nobody can tell whether model {model} is better than {name}",
            }[row.answer]
            told[opponent] = f"{said}: first tool right in {shares} ({spread}).".replace("-", "−")
    return told


# The report in sentences: for notices, the command, and whoever promotes.


def headline(report: GateReport) -> str:
    """Verdict, and the slices it rests on."""
    found = Gate.of(report.report)
    beside = f"champion {report.champion_id}" if report.champion_id else "the embedding"
    said = f"Gate: {report.verdict}. Model {report.candidate_id}"
    binding = [row for row in found.rows if row.binds]
    slices = f"{len(binding)} slice{'' if len(binding) == 1 else 's'}"
    if failed := sorted((row for row in binding if row.verdict == FAIL), key=_largest_first):
        return f"{said} is worse on {len(failed)} of {slices}: {slice_words(failed[0])}."
    if report.verdict == PASS:
        loss = f"{points(found.margin)} points or more"
        return f"{said} is nowhere worse than {beside} by {loss}, on {slices}."
    if not binding:
        return f"{said} and {beside} were measured on nothing in the same way."
    unsure = sum(row.verdict != PASS for row in binding)
    return f"{said} is not shown to be worse than {beside}; {unsure} of {slices} cannot tell."


def changes(report: GateReport) -> tuple[str, ...]:
    """What callers would notice, or what nobody can know, a sentence each."""
    found = Gate.of(report.report)
    failed = sorted((row for row in found.slices if row.verdict == FAIL), key=_largest_first)
    said = [f"Worse: {slice_words(row)}." for row in failed[:NAMED]]
    if len(failed) > NAMED:
        more = len(failed) - NAMED
        said.append(f"Worse on {more} slice{'' if more == 1 else 's'} more.")
    opponent = CHAMPION if report.champion_id else EMBEDDING
    whole: dict[tuple[str, str], GateRow] = {}  # the first metric of each benchmark and decoding
    for row in found.slices:
        if row.opponent == opponent and (row.domain, row.group) == (ALL, ALL) and row.shows:
            whole.setdefault((row.name, row.decode), row)
    for row in [row for row in whole.values() if row.verdict != FAIL][:NAMED]:
        loss = f"a loss of less than {points(row.shows or 0)} points may go unseen"
        said.append(f"On all of {row.name}, {row.decode} (n {row.n}): {loss}.")
    for word, what in (
        ("better", "Rules whose tests it passes more of"),
        ("worse", "Rules it loses tests of"),
    ):
        rules = [rule for rule in found.rules if rule.word == word]
        if rules:
            named = [
                f"{rule.code} ({rule.candidate} of {rule.total}, before {rule.champion})"
                for rule in rules[:NAMED]
            ]
            rest = f" and {len(rules) - NAMED} more" if len(rules) > NAMED else ""
            said.append(f"{what}: {', '.join(named)}{rest}.")
    return tuple(said)


def _largest_first(row: GateRow) -> tuple[bool, bool, float]:
    """What holds all domains and groups first, then the largest loss."""
    return row.domain != ALL, row.group != ALL, row.difference


def points(share: float) -> str:
    """0.036 -> 3.6, in the points of a percentage."""
    return f"{100 * share:.1f}".removesuffix(".0")


def row_dict(row: GateRow) -> dict[str, Any]:
    """A row as the API and the command give it."""
    links = dict(zip(("evaluation", "against"), row.ids or (None, None), strict=True))
    fields = {name: value for name, value in asdict(row).items() if name != "ids"}
    fields["answer"] = row.answer
    return {**fields, "difference": row.difference, **links}


def slice_words(row: GateRow) -> str:
    """prb-hard v1, trace, recall@gen, hr, covered: 0.31 against 0.44 of the champion (n 83)."""
    place = [row.name, row.decode, row.metric, *(part for part in (row.domain, row.group) if part != ALL)]
    numbers = f"{row.candidate:.2f} against {row.other:.2f} of the {row.opponent} (n {row.n})"
    if not row.n:
        numbers = row.note
    return f"{', '.join(filter(None, place))}: {numbers}"


def of_model(model: int, champion: int | None) -> GateWord:
    """What the gate says of a model against this champion: the hook of training.registry.gate."""
    under_way = Job.objects.filter(kind__in=(KIND, "evaluation"), state__in=UNDER_WAY, params__model=model)
    running, report = under_way.exists(), newest_report(model, champion)
    why = outdated(report) if report else ""
    if report is not None and not why:
        url = reverse("evaluation:gate", args=[report.pk])
        return GateWord(report.verdict, headline(report), report.pk, url, changes(report), running)
    if report is not None:
        said = f"Gate report {report.pk} counts no more: {why}."
    else:
        beside = f"against champion {champion}" if champion else "against the embedding"
        said = f"Model {model} has no gate report {beside} yet."
    return GateWord(said=said, url=f"{reverse('training:model', args=[model])}#gate", running=running)
