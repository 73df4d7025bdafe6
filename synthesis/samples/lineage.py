"""From a sample back to everything it was made from, and on to everything that was made of it.

What is not kept is said to be not recorded, never guessed.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from catalog.models import Tool, ToolRevision
from rules.models import RuleChange, RuleVersion
from synthesis.core.keys import STAGES, granted_mark, shot_mark, tool_mark
from synthesis.core.queries import ToolText
from synthesis.llm.usage import job_books
from synthesis.models import Attempt, Decision, PromptVersion, ReviewItem, Sample, SnapshotSample
from synthesis.samples import selectors
from synthesis.samples.sources import few_shot_queries

# Reads behind a sample's lineage: tools and prompts as they were, its place's samples, decisions one may see.


NARROWS = {
    "branch": "branch",
    "domain": "domain",
    "rule": "rule_version__rule__code",
    "style": "style",
    "tier": "tier",
}
MOST_REVISIONS = 50  # of one tool that are looked through
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
    now = {tool.name: tool for tool in Tool.objects.filter(name__in=names).defer("search", "words")}
    own = set(sample.rule_version.tool_ids) if sample.rule_version else set()
    changed = {
        name: mark for name, mark in marks.items() if name not in now or _mark(now[name], mark) != mark
    }
    old = _revisions(changed)
    found = []
    for name in names:
        tool = now.get(name)
        role = "answer" if name in sample.answer else "rule" if tool and tool.pk in own else "pool"
        found.append(_tool_then(name, role, tool, marks.get(name), old))
    return sorted(found, key=lambda one: ("answer", "rule", "pool").index(one.role))


def _tool_then(
    name: str, role: str, tool: Tool | None, mark: str | None, old: Mapping[str, tuple[str, datetime]]
) -> ToolThen:
    now = tool.description if tool else None
    if mark is None:
        return ToolThen(name, role, "not recorded", None, now)
    if name not in old and tool is not None and _mark(tool, mark) != mark:
        return ToolThen(name, role, "not recorded", None, now)
    then, since = old.get(name, (now, None))
    state = "changed" if name in old else "same"
    return ToolThen(name, role, "retired" if _gone(tool) else state, then, now, since)


def _gone(tool: Tool | None) -> bool:
    return tool is None or tool.status != Tool.Status.ACTIVE


def _mark(tool: Tool, like: str) -> str:
    text = ToolText(tool.name, tool.description, tuple(tool.permissions), tool.deprecated)
    return _mark_of(text, like)


def _mark_of(text: ToolText, like: str) -> str:
    """With permissions where the mark kept has them."""
    return granted_mark(text) if "+" in like else tool_mark(text)


def _revisions(marks: Mapping[str, str]) -> dict[str, tuple[str, datetime]]:
    """{tool: (its description, since when)} of the newest revision with the mark."""
    if not marks:
        return {}
    found: dict[str, tuple[str, datetime]] = {}
    rows = ToolRevision.objects.filter(tool__name__in=marks).order_by("-id")
    for data, at in rows.values_list("data", "at")[: MOST_REVISIONS * len(marks)]:
        text = ToolText(data["name"], data["description"], tuple(data["permissions"]), data["deprecated"])
        if text.name in marks and _mark_of(text, marks[text.name]) == marks[text.name]:
            found.setdefault(text.name, (text.description, at))
    return found


@dataclass(frozen=True, slots=True)
class StageThen:
    """What made one of query, trace and judgement: a model with a prompt, or an offline writer's version."""

    stage: str
    by: str
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
    kept = (
        set(PromptVersion.objects.filter(hash__in=hashes).values_list("hash", flat=True)) if hashes else set()
    )
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


def in_its_place(sample: Sample) -> list[Sample]:
    """Every sample of its slot, in order; of one without a slot, itself and what was written in its stead."""
    if not sample.slot:
        return [sample]
    rows = Sample.objects.filter(branch=sample.branch, slot=sample.slot).defer("trace", "pool", "explanation")
    return list(rows.select_related("rule_version", "regeneration").order_by("pk"))


def decisions_shown(sample: Sample, person: Any) -> tuple[list[Decision], int]:
    """(the decisions in order, how many are hidden).

    While a sample waits for another reading, only whoever has read it sees more than their own: it is blind.
    """
    rows = list(sample.decisions.select_related("reviewer", "item__batch").order_by("pk"))
    waits = sample.human in OPEN or (rows and sample.human == Sample.Human.PENDING and _reads(sample))
    if not waits or ReviewItem.objects.filter(sample=sample, decided_by=person).exists():
        return rows, 0
    own = [row for row in rows if row.reviewer_id == person.pk]
    return own, len(rows) - len(own)


def _reads(sample: Sample) -> bool:
    """Whether somebody is to read it: after an undo, what was taken back is not the next reader's to know."""
    return sample.review_items.filter(state__in=(ReviewItem.State.OPEN, ReviewItem.State.CLAIMED)).exists()


def batches_of(sample: Sample) -> list[ReviewItem]:
    return list(sample.review_items.filter(batch__isnull=False).select_related("batch").order_by("round"))


def memberships(sample: Sample) -> list[SnapshotSample]:
    rows = sample.memberships.select_related("snapshot").defer("snapshot__manifest", "snapshot__counts")
    return list(rows.order_by("snapshot"))


def members(snapshot: int, narrowed: Mapping[str, str]) -> QuerySet[SnapshotSample]:
    """The samples of a snapshot by position, without their traces. narrowed: {one of NARROWS: value}."""
    rows = SnapshotSample.objects.filter(snapshot=snapshot)
    rows = rows.filter(**{f"sample__{NARROWS[name]}": value for name, value in narrowed.items()})
    heavy = ("trace", "explanation", "pool", "made_from", "permissions")
    rows = rows.select_related("sample__rule_version__rule").defer(*(f"sample__{name}" for name in heavy))
    return rows.order_by("position")


def few_shots_then(marks: Iterable[str], texts: Mapping[str, str]) -> list[str]:
    return [texts.get(mark, f"not recorded ({mark})") for mark in marks]


# What was made of a snapshot by the apps to the right: runs, models, evaluations. They register a teller each.


@dataclass(frozen=True, slots=True)
class Made:
    """`kind`: run, model or evaluation; `of`: the id of what it was made of, a snapshot, a run or a model."""

    kind: str
    id: int
    of: int
    label: str
    url: str
    state: str = ""
    about: str = ""
    aliases: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


Teller = Callable[[list[int]], Iterable[Made]]
_tellers: list[Teller] = []


def register(teller: Teller) -> None:
    """teller: takes ids of snapshots."""
    if teller not in _tellers:
        _tellers.append(teller)


def made_of(snapshots: Iterable[int]) -> list[Made]:
    """In the order of the apps."""
    ids = list(snapshots)
    return [made for teller in _tellers for made in teller(ids)] if ids else []


@dataclass(frozen=True, slots=True)
class Calls:
    """`own`: calls of its attempts; `run`: of its whole run, None where no model was asked."""

    own: int
    run: int | None


@dataclass(frozen=True, slots=True)
class Lineage:
    """`published`: the version of its rule that counts now, None when withdrawn; `request`: whose approval made it."""

    sample: Sample
    published: RuleVersion | None
    request: int | None
    tools: list[ToolThen]
    stages: list[StageThen]
    few_shots: list[str]
    attempts: list[Attempt]
    calls: Calls
    place: list[Sample]
    decisions: list[Decision]
    hidden: int
    batches: list[ReviewItem]
    memberships: list[SnapshotSample]
    made: list[Made]

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
    def runs(self) -> list[Made]:
        return self._of("run")

    @property
    def models(self) -> list[Made]:
        return self._of("model")

    @property
    def evaluations(self) -> list[Made]:
        return self._of("evaluation")

    def _of(self, kind: str) -> list[Made]:
        return [made for made in self.made if made.kind == kind]


def lineage(pk: int, person: Any) -> Lineage:
    """The same queries whatever its age and use. Decisions as `person` may see them. Raises Http404."""
    sample = selectors.sample(pk)
    tried = selectors.attempts(sample)
    version = sample.rule_version
    member = memberships(sample)
    decisions, hidden = decisions_shown(sample, person)
    return Lineage(
        sample=sample,
        published=version.rule.published if version else None,
        request=_request_of(version),
        tools=tools_then(sample),
        stages=stages_then(sample),
        few_shots=_few_shots(sample),
        attempts=tried,
        calls=_calls(sample, tried),
        place=in_its_place(sample),
        decisions=decisions,
        hidden=hidden,
        batches=batches_of(sample),
        memberships=member,
        made=made_of([one.snapshot_id for one in member]),
    )


def _request_of(version: RuleVersion | None) -> int | None:
    rows = RuleChange.objects.filter(version=version) if version else RuleChange.objects.none()
    return rows.values_list("request", flat=True).first()


def _few_shots(sample: Sample) -> list[str]:
    marks = sample.made_from.get("stages", {}).get("query", {}).get("few_shot") or []
    texts = {shot_mark(text): text for text in few_shot_queries()} if marks else {}
    return few_shots_then(marks, texts)


def _calls(sample: Sample, tried: list[Attempt]) -> Calls:
    asked = sample.run.job is not None and sample.writer.startswith("llm")
    total = job_books(sample.run.job).total.calls if asked else None
    return Calls(sum(attempt.calls for attempt in tried), total)
