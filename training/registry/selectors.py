"""Reads behind the pages of runs and models."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import FloatField, OuterRef, QuerySet, Subquery
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce
from django.urls import reverse

from synthesis.samples.impact import stale
from synthesis.samples.lineage import Made
from trace_site.impact import Impact, Subject
from training.models import AliasMove, Model, Run, RunMetric
from training.registry.registry import champion_moves, current_aliases, earlier_champions, no_way_back

LAST_FIRST = ("stage2", "plain", "stage1")


def runs() -> QuerySet[Run]:
    """Every run with its job, snapshot, model and newest loss; one query."""
    last = RunMetric.objects.filter(run=OuterRef("pk")).annotate(loss=Cast(KT("data__loss"), FloatField()))
    newest = [last.filter(stage=stage).order_by("-step").values("loss")[:1] for stage in LAST_FIRST]
    return (
        Run.objects.select_related("job", "snapshot", "model", "created_by")
        .defer("log_tail", "snapshot__manifest", "snapshot__parts", "model__card")
        .annotate(loss=Coalesce(*(Subquery(rows) for rows in newest)))
    )


def models() -> QuerySet[Model]:
    return Model.objects.select_related("run__snapshot", "run__created_by").defer(
        "run__snapshot__manifest", "card"
    )


def alias_names(current: dict[str, Model]) -> dict[int, list[str]]:
    """{model id: the aliases it holds now}."""
    names: dict[int, list[str]] = {}
    for alias, named in current.items():
        names.setdefault(named.pk, []).append(alias)
    return names


@dataclass(frozen=True, slots=True)
class Standing:
    """The newest move of champion, the model that one click brings back (None: there is none with files, `no_way_back`
    says why), and all that one may go back to."""

    move: AliasMove | None
    back: Model | None
    earlier: list[Model]
    no_way_back: str


def standing() -> Standing:
    """Who answers now, since when and by whose decision; one query."""
    moves = champion_moves()
    earlier = earlier_champions(moves)
    back = next((model for model in earlier if model.removed_at is None), None)
    return Standing(moves[-1] if moves else None, back, earlier, no_way_back(moves))


def card_parts(card: str) -> list[tuple[str, Any]]:
    """A model card's Markdown as headings, paragraphs and two-column tables; nothing in it is taken as markup."""
    parts: list[tuple[str, Any]] = []
    for line in card.splitlines():
        text = line.strip()
        if text.startswith("|"):
            cells = [cell.strip() for cell in text.strip("|").split("|")]
            if set(text) <= set("|-: ") or len(cells) < 2:
                continue
            if not (parts and parts[-1][0] == "table"):
                parts.append(("table", []))
            parts[-1][1].append((cells[0], " | ".join(cells[1:])))
        elif text.startswith("#"):
            parts.append(("heading", text.lstrip("# ")))
        elif text:
            parts.append(("text", text))
    return [(kind, content[1:] if kind == "table" else content) for kind, content in parts]


# What was trained on snapshots, for the lineage of a sample.


def made_of_snapshots(snapshots: list[int]) -> Iterator[Made]:
    """Runs and their models, with the aliases that name them now; two queries."""
    runs = list(
        Run.objects.filter(snapshot__in=snapshots)
        .select_related("job", "model")
        .only(*("snapshot", "format", "memo", "retrieval", "base", "job__state", "model__run"))
        .order_by("pk")
    )
    aliases = alias_names(current_aliases())
    for run in runs:
        state = run.job.state if run.job else "done"
        address = reverse("training:detail", args=[run.pk])
        yield Made("run", run.pk, run.snapshot_id, f"run {run.pk} {run.cell}", address, state, run.base)
    for run in runs:
        if hasattr(run, "model"):
            made = run.model.pk
            address = reverse("training:model", args=[made])
            yield Made("model", made, run.pk, f"model {made}", address, aliases=aliases.get(made, []))


# Which models a change of rules or tools makes stale: those trained on snapshots that hold its samples.


def of_rules(rules: list[int]) -> list[Impact]:
    """Only cells that learn from rule samples have learnt what the rules said."""
    return _models("rules", rules)


def of_tools(tools: list[int]) -> list[Impact]:
    return _models("tools", tools)


def _models(subject: Subject, ids: list[int]) -> list[Impact]:
    snapshots = stale(subject, ids).snapshots
    if not snapshots:
        return []
    trained = Model.objects.filter(run__snapshot__in=snapshots)
    if subject == "rules":
        trained = trained.filter(run__retrieval=Run.Retrieval.RULES)
    found = set(trained.values_list("pk", flat=True))
    if not found:
        return []
    champion = current_aliases().get("champion")
    named = ", the champion among them" if champion and champion.pk in found else ""
    label = f"model{'' if len(found) == 1 else 's'} trained on them{named}"
    return [Impact("models", len(found), label, reverse("training:models"))]
