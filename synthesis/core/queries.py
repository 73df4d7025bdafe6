"""What the three writers receive and return: tools, rules, requests, drafts, verdicts.

The steps of a trace have one order: restate the intent -> permission step (only when the request carries permission
targets) -> compare APIs -> narrow to endpoints -> apply the rule by its code and decisive clause -> commit.

A query writer turns a request (branch, style or tier, pool, rule) into a draft (query, answer, why). A trace writer
turns query and answer into a reasoning trace. A judge scores the result on four axes. Two implementations of each:
`offline` (templates, deterministic by seed) and `llm`.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

RULE_STYLES = ("explicit", "implicit", "exception")
TIERS = {"easy": (1, 1), "medium": (2, 3), "hard": (4, 6)}
WRITERS = ("offline", "recorded", "llm")
AXES = ("naturalness", "compliance", "label", "faithfulness")
THRESHOLDS = {"naturalness": 3, "compliance": 3, "label": 4, "faithfulness": 4}


@dataclass(frozen=True, slots=True)
class ToolText:
    """What a writer may know of a tool."""

    name: str
    description: str
    permissions: tuple[str, ...] = ()
    deprecated: bool = False
    hash: str = ""

    def __hash__(self) -> int:
        return hash((self.name, self.description))

    @property
    def api(self) -> str:
        return self.name.partition("/")[0]

    @property
    def endpoint(self) -> str:
        return self.name.partition("/")[2]


@dataclass(frozen=True, slots=True)
class Clause:
    """One case of a rule: when it holds, the request goes to `route_to`."""

    when: str
    route_to: str
    exception: bool = False
    signals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleText:
    """One rule version as the writers see it."""

    code: str
    version: int
    target: str
    confusables: tuple[str, ...]
    text: str
    clauses: tuple[Clause, ...] = ()
    hash: str = ""
    domain: str = ""

    def __hash__(self) -> int:
        return hash((self.code, self.version, self.text))

    @property
    def tools(self) -> tuple[str, ...]:
        """T(r), target first."""
        return (self.target, *self.confusables)


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """One query to write.

    `batch_seed`: queries of a rule and style with the same `index // per_call` carry the same one and the same
    `few_shot`, chosen by it, so that a writer may ask for the whole batch in one call. None: one call a query.
    """

    branch: str
    domain: str
    pool: tuple[ToolText, ...]
    seed: int
    index: int
    style: str = ""
    tier: str = ""
    rule: RuleText | None = None
    anchor: str = ""
    few_shot: tuple[str, ...] = ()
    attempt: int = 1
    critique: str = ""
    batch_seed: int | None = None


@dataclass(frozen=True, slots=True)
class QueryDraft:
    query: str
    answer: tuple[str, ...]
    explanation: str
    calls: int = 0


@dataclass(frozen=True, slots=True)
class TraceRequest:
    query: str
    answer: tuple[str, ...]
    pool: tuple[ToolText, ...]
    seed: int
    rule: RuleText | None = None
    permissions: tuple[str, ...] = ()
    explanation: str = ""
    attempt: int = 1
    critique: str = ""


def trace_request(
    request: QueryRequest, draft: QueryDraft, permissions: tuple[str, ...] = ()
) -> TraceRequest:
    """For the draft of a query."""
    return TraceRequest(
        *(draft.query, draft.answer, request.pool, request.seed, request.rule),
        *(permissions, draft.explanation, request.attempt, request.critique),
    )


@dataclass(frozen=True, slots=True)
class TraceDraft:
    trace: str
    calls: int = 0


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    id: str
    branch: str
    query: str
    trace: str
    answer: tuple[str, ...]
    pool: tuple[ToolText, ...]
    style: str = ""
    tier: str = ""
    rule: RuleText | None = None


def judge_request(request: QueryRequest, draft: QueryDraft, trace: str, id: str = "") -> JudgeRequest:
    return JudgeRequest(
        *(id, request.branch, draft.query, trace, draft.answer, request.pool),
        *(request.style, request.tier, request.rule),
    )


@dataclass(frozen=True, slots=True)
class Verdict:
    """Scores 1 (bad) to 5 (good) per axis."""

    id: str
    scores: dict[str, int]
    critique: str = ""
    calls: int = 0
    thresholds: Mapping[str, int] = field(default_factory=lambda: dict(THRESHOLDS))

    @property
    def failed_axes(self) -> tuple[str, ...]:
        """Axes under their threshold. Fails closed: a score that is missing, no whole number or outside 1..5 fails."""
        scores, least = self.scores, self.thresholds
        whole = {axis for axis in AXES if type(scores.get(axis)) is int and 1 <= scores[axis] <= 5}
        return tuple(axis for axis in AXES if not (axis in whole and scores[axis] >= least.get(axis, 6)))

    @property
    def passed(self) -> bool:
        return not self.failed_axes

    def of(self, asked: str) -> "Verdict":
        """This verdict if it is on the sample `asked`; a verdict on another sample is none and fails."""
        if self.id == asked:
            return self
        return Verdict(asked, {}, "The judge answered for another sample.", self.calls, self.thresholds)


class Keyed(Protocol):
    def made_with(self, branch: str) -> dict[str, Any]:
        """What makes its answers for a branch: model, prompt hash, parameters. Enters content keys."""


class QueryWriter(Keyed, Protocol):
    async def write(self, request: QueryRequest) -> QueryDraft: ...


class TraceWriter(Keyed, Protocol):
    async def write(self, request: TraceRequest) -> TraceDraft: ...


class Judge(Keyed, Protocol):
    async def judge(self, request: JudgeRequest) -> Verdict: ...


def tiers_of_live(anchor: str, pool: Sequence[ToolText]) -> list[str]:
    """Tiers that the pool has enough live tools for."""
    live = sum(not tool.deprecated for tool in pool)
    return [tier for tier, (least, _) in TIERS.items() if live >= least]


@dataclass(frozen=True, slots=True)
class Writers:
    """The three parts of a pipeline, what they are called on the samples they make, and what they cannot write.

    `unsupported`: styles of a rule, each with the reason; `tiers`: those they can ask for of an anchor and its pool.
    """

    name: str
    query: QueryWriter
    trace: TraceWriter
    judge: Judge
    unsupported: Callable[[RuleText, Mapping[str, ToolText]], dict[str, str]] = lambda rule, tools: {}
    tiers: Callable[[str, Sequence[ToolText]], list[str]] = tiers_of_live

    def made_with(self, branch: str) -> dict[str, dict[str, Any]]:
        """{stage: what makes its artefacts}, for content keys and "why is this stale"."""
        return {
            "query": self.query.made_with(branch),
            "trace": self.trace.made_with(branch),
            "judge": self.judge.made_with(branch),
        }


def by_name(pool: Sequence[ToolText]) -> dict[str, ToolText]:
    return {tool.name: tool for tool in pool}


def carries_permissions(share: float, seed: int) -> bool:
    """Whether a sample belongs to the share whose requests carry permission targets."""
    return random.Random(f"{seed}|permissions").random() < share


def permission_targets(
    answer: Sequence[str], pool: Sequence[ToolText], share: float, seed: int
) -> tuple[str, ...]:
    """For a share of samples: what the asking person may access, so that the permission step is learned.

    Holds one permission of every answer that asks for one, and sometimes one more from the pool.
    """
    rng = random.Random(f"{seed}|permissions")
    asking = [tool for tool in pool if tool.name in answer and tool.permissions]
    if rng.random() >= share or not asking:
        return ()
    needed = [rng.choice(tool.permissions) for tool in asking]
    others = sorted({tag for tool in pool for tag in tool.permissions} - set(needed))
    extra = rng.sample(others, min(len(others), rng.choice((0, 1, 2))))
    return tuple(sorted({*needed, *extra}))
