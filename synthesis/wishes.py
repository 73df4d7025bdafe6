"""What a reviewer asks for: the verdict, the texts that stand in it, and under which claim it was shown."""

import uuid
from dataclasses import dataclass
from typing import Any

from synthesis.models import Decision, Sample
from trace_site.lib.files import content_hash

TEXTS = ("query", "trace", "answer")


@dataclass(frozen=True, slots=True)
class Wish:
    """What a reviewer asks for.

    claim: the claim the item was shown under; None: no page was shown. seen: `seen_key` of what was on screen, empty:
    not told. seconds: from the item on screen to the decision. how: as what an approval without an edit counts.
    """

    verdict: str
    query: str
    trace: str
    answer: list[str]
    reason: str = ""
    note: str = ""
    follow_up: str = ""
    claim: uuid.UUID | str | None = None
    seen: str = ""
    seconds: float | None = None
    how: str = Sample.How.READ

    @property
    def outcome(self) -> tuple[Any, ...]:
        """Two readings agree when this is equal: the same refusal, or approval of the same texts."""
        if self.verdict == Decision.Verdict.REJECT:
            return (self.verdict,)
        return (self.query, self.trace, tuple(self.answer))

    @property
    def texts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in TEXTS}

    def is_that_of(self, decision: Decision) -> bool:
        """Whether the decision came from this very submission. Texts count where the reviewer typed them."""
        said = (decision.verdict, decision.reason, decision.note, decision.follow_up)
        if said != (self.verdict, self.reason, self.note, self.follow_up):
            return False
        typed = self.verdict == Decision.Verdict.EDIT
        return not typed or all(decision.after[name] == asked for name, asked in self.texts.items())


def texts_of(sample: Sample) -> dict[str, Any]:
    return {name: getattr(sample, name) for name in TEXTS}


def wish_of(decision: Decision) -> Wish:
    """What a decision asked for."""
    asked = {name: decision.after[name] for name in TEXTS}
    return Wish(
        decision.verdict, **asked, reason=decision.reason, note=decision.note, follow_up=decision.follow_up
    )


def seen_key(sample: Sample) -> str:
    """Names the text a person has on screen, so that nobody approves words they did not see."""
    return content_hash([sample.query, sample.trace, sample.answer])[:16]
