"""From a sample back to everything it was made from, and on to everything that was made of it.

What is not kept is said to be not recorded, never guessed.
"""

from dataclasses import dataclass
from typing import Any

from rules.models import RuleChange, RuleVersion
from synthesis import onward, samples
from synthesis.books import job_books
from synthesis.core.keys import shot_mark
from synthesis.models import Attempt, Decision, ReviewItem, Sample, SnapshotSample
from synthesis.selectors_lineage import (
    StageThen,
    ToolThen,
    batches_of,
    decisions_shown,
    few_shots_then,
    in_its_place,
    memberships,
    stages_then,
    tools_then,
)
from synthesis.sources import few_shot_queries


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
    made: list[onward.Made]

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
    def runs(self) -> list[onward.Made]:
        return self._of("run")

    @property
    def models(self) -> list[onward.Made]:
        return self._of("model")

    @property
    def evaluations(self) -> list[onward.Made]:
        return self._of("evaluation")

    def _of(self, kind: str) -> list[onward.Made]:
        return [made for made in self.made if made.kind == kind]


def lineage(pk: int, person: Any) -> Lineage:
    """The same queries whatever its age and use. Decisions as `person` may see them. Raises Http404."""
    sample = samples.sample(pk)
    tried = samples.attempts(sample)
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
        made=onward.made_of([one.snapshot_id for one in member]),
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
