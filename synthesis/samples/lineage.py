"""From a sample back to everything it was made from, and on to everything that was made of it.

What is not kept is said to be not recorded, never guessed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal

from django.db.models import QuerySet

from catalog.models import Tool
from rules.models import RuleChange
from synthesis.core.keys import STAGES, shot_mark
from synthesis.llm.ledger import job_books
from synthesis.models import Decision, PromptVersion, ReviewItem, Sample, SnapshotSample
from synthesis.samples import selectors
from synthesis.samples.sources import few_shot_queries, has_mark, texts_then, tool_text
from trace_site.impact import functions_named

NARROWS = {
    "branch": "branch",
    "domain": "domain",
    "rule": "rule_version__rule__code",
    "style": "style",
    "tier": "tier",
}
OPEN = (Sample.Human.SECOND, Sample.Human.DISPUTED)


@dataclass(frozen=True, slots=True)
class ToolThen:
    """A tool of the pool. `then`, `now`: its description, None where not known; `since`: of the content then."""

    name: str
    role: str  # answer, rule or pool
    state: str  # same, changed, retired or not recorded
    then: str | None = None
    now: str | None = None
    since: datetime | None = None


def tools_then(sample: Sample) -> list[ToolThen]:
    """P, the answer first, then T(r), with what each said by the mark kept, and says now; two queries."""
    marks: Mapping[str, str] = sample.made_from.get("tools", {})
    names = list(dict.fromkeys([*sample.answer, *marks, *sample.pool]))
    tools = {tool.name: tool for tool in Tool.objects.filter(name__in=names).defer("search", "words")}
    own = set(sample.rule_version.tool_ids) if sample.rule_version else set()
    same = {name for name in marks if name in tools and has_mark(tool_text(tools[name]), marks[name])}
    old = texts_then({name: mark for name, mark in marks.items() if name not in same})
    found = []
    for name in names:
        tool = tools.get(name)
        role = "answer" if name in sample.answer else "rule" if tool and tool.pk in own else "pool"
        now = tool.description if tool else None
        if name not in marks or (tool is not None and name not in same and name not in old):
            found.append(ToolThen(name, role, "not recorded", None, now))
            continue
        then, since = old.get(name, (now, None))
        gone = tool is None or tool.status != Tool.Status.ACTIVE
        state = "retired" if gone else "changed" if name in old else "same"
        found.append(ToolThen(name, role, state, then, now, since))
    return sorted(found, key=lambda one: ("answer", "rule", "pool").index(one.role))


@dataclass(frozen=True, slots=True)
class StageThen:
    """What made one of query, trace and judgement: a model with a prompt, or an offline writer's version."""

    stage: str
    by: Annotated[str, "model, or version of the offline writer"]
    prompt: str
    prompt_hash: str
    kept: bool  # the prompt's text is here
    key: str
    parameters: dict[str, Any]


NAMED = ("model", "writer", "prompt", "prompt_hash", "key")


def stages_then(sample: Sample) -> list[StageThen]:
    """One query."""
    stages: Mapping[str, Mapping[str, Any]] = sample.made_from.get("stages") or {}
    hashes = {made["prompt_hash"] for made in stages.values() if "prompt_hash" in made}
    kept = set(PromptVersion.objects.filter(hash__in=hashes).values_list("hash", flat=True))
    return [
        StageThen(
            stage,
            str(made.get("model") or made.get("writer") or ""),
            made.get("prompt", ""),
            made.get("prompt_hash", ""),
            made.get("prompt_hash", "") in kept,
            made.get("key", ""),
            {name: value for name, value in made.items() if name not in NAMED},
        )
        for stage, made in sorted(stages.items(), key=lambda pair: STAGES.index(pair[0]))
    ]


def decisions_shown(sample: Sample, person: Any) -> tuple[list[Decision], int]:
    """(the decisions in order, how many are hidden).

    While a sample waits for another reading, only whoever has read it sees more than their own: it is blind.
    """
    rows = list(sample.decisions.select_related("reviewer", "item__batch").order_by("pk"))
    # after an undo somebody reads it anew: what was taken back is not theirs to know
    again = rows and sample.human == Sample.Human.PENDING
    reading = (ReviewItem.State.OPEN, ReviewItem.State.CLAIMED)
    waits = sample.human in OPEN or (again and sample.review_items.filter(state__in=reading).exists())
    if not waits or ReviewItem.objects.filter(sample=sample, decided_by=person).exists():
        return rows, 0
    own = [row for row in rows if row.reviewer_id == person.pk]
    return own, len(rows) - len(own)


def members(snapshot: int, narrowed: Mapping[str, str]) -> QuerySet[SnapshotSample]:
    """The samples of a snapshot by position, without their traces. narrowed: {one of NARROWS: value}."""
    rows = SnapshotSample.objects.filter(snapshot=snapshot)
    rows = rows.filter(**{f"sample__{NARROWS[name]}": value for name, value in narrowed.items()})
    heavy = ("trace", "explanation", "pool", "made_from", "permissions")
    rows = rows.select_related("sample__rule_version__rule").defer(*(f"sample__{name}" for name in heavy))
    return rows.order_by("position")


# What was made of a snapshot by the apps to the right: runs, models, evaluations. Each names its function in its
# AppConfig.


@dataclass(frozen=True, slots=True)
class Made:
    kind: Literal["run", "model", "evaluation"]
    id: int
    of: Annotated[int, "the snapshot of a run, the run of a model, the model of an evaluation"]
    label: str
    url: str
    state: str = ""
    about: str = ""
    aliases: list[str] = field(default_factory=list)


def made_of(snapshots: Iterable[int]) -> list[Made]:
    """In the order of the apps."""
    ids = list(snapshots)
    return [made for tell in functions_named("made_of_snapshots") for made in tell(ids)] if ids else []


class Lineage:
    """The same queries whatever its age and use. Decisions as `person` may see them. Raises Http404.

    `request`: whose approval made its rule version. `calls`: {"own": of its attempts, "run": of its whole run, None
    where no model was asked}. `place`: every sample of its slot; of one without a slot, itself.
    """

    def __init__(self, pk: int, person: Any) -> None:
        self.sample = sample = selectors.sample(pk)
        version, run = sample.rule_version, sample.run
        self.tools, self.stages = tools_then(sample), stages_then(sample)
        self.attempts = list(sample.attempts.order_by("number"))
        requests = RuleChange.objects.filter(version=version).values_list("request", flat=True)
        self.request = requests.first() if version else None
        marks = sample.made_from.get("stages", {}).get("query", {}).get("few_shot") or []
        shots = {shot_mark(text): text for text in few_shot_queries()} if marks else {}
        self.few_shots = [shots.get(mark, f"not recorded ({mark})") for mark in marks]
        asked = run.job is not None and sample.writer.startswith("llm")
        self.calls = {
            "own": sum(attempt.calls for attempt in self.attempts),
            "run": job_books(run.job)["total"]["calls"] if asked else None,
        }
        self.place = [sample]
        if sample.slot:
            rows = Sample.objects.filter(branch=sample.branch, slot=sample.slot)
            rows = rows.defer("trace", "pool", "explanation").select_related("rule_version", "regeneration")
            self.place = list(rows.order_by("pk"))
        self.decisions, self.hidden = decisions_shown(sample, person)
        batches = sample.review_items.filter(batch__isnull=False).select_related("batch")
        self.batches = list(batches.order_by("round"))
        held = sample.memberships.select_related("snapshot").defer("snapshot__manifest", "snapshot__counts")
        self.memberships = list(held.order_by("snapshot"))
        self.made = made_of([one.snapshot_id for one in self.memberships])

    @property
    def changed(self) -> list[ToolThen]:
        """Tools that are not as they were, or not known to be."""
        return [tool for tool in self.tools if tool.state != "same"]

    @property
    def unknown(self) -> int:
        """Tools whose content then is not recorded."""
        return sum(tool.state == "not recorded" for tool in self.tools)

    @property
    def moved(self) -> int:
        """Tools that say something else now, or are retired."""
        return len(self.changed) - self.unknown

    @property
    def of_kind(self) -> dict[str, list[Made]]:
        """{run, model or evaluation: what was made}"""
        kinds = ("run", "model", "evaluation")
        return {kind: [made for made in self.made if made.kind == kind] for kind in kinds}
