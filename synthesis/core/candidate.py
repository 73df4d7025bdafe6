"""One sample as filter V sees it, what a run knows around it, and what a refusal says."""

from dataclasses import dataclass, field

from catalog.core.mentions import NameFinder
from synthesis.core.names import ToolNames, rule_codes
from synthesis.core.recipe import QueryStage, TraceStage
from synthesis.core.words import NearDuplicates

LONGEST_EVIDENCE = 400  # characters, as many as the longest tool name


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a sample is refused. A `span` that is not empty is the place in query or trace, where `evidence` begins."""

    check: str
    message: str
    evidence: str = ""
    span: tuple[int, int] = (0, 0)

    def as_dict(self) -> dict[str, object]:
        return {
            "check": self.check,
            "message": self.message,
            "evidence": self.evidence,
            "span": list(self.span),
        }


def failure_at(check: str, message: str, text: str, start: int, end: int) -> Failure:
    """A failure with text[start:end] as its evidence, cut where it is long."""
    return Failure(check, message, text[start : min(end, start + LONGEST_EVIDENCE)], (start, end))


@dataclass(frozen=True, slots=True)
class Candidate:
    """One sample as the filter sees it. `rule_tools` is T(r), target first; empty without a rule."""

    branch: str
    query: str
    answer: tuple[str, ...]
    pool: frozenset[str]
    trace: str = ""
    style: str = ""
    tier: str = ""
    rule_code: str = ""
    rule_tools: tuple[str, ...] = ()
    permission_tags: frozenset[str] = frozenset()


@dataclass(slots=True)
class FilterContext:
    """What a run builds once: the names and rule codes there are, dead answers, the queries so far, the word limits."""

    names: ToolNames
    deprecated: frozenset[str] = frozenset()
    seen: NearDuplicates = field(default_factory=NearDuplicates)
    codes: NameFinder = field(default_factory=rule_codes)
    query_words: tuple[int, int] = QueryStage.words
    trace_words: tuple[int, int] = TraceStage.words
