"""The deliberative schema of a trace.

restate the intent -> permission step (only when the request carries permission targets) -> compare APIs -> narrow to
endpoints -> apply the rule by its code and decisive clause -> commit. Writers fill the steps; this module orders them.
Names become tokens, and tokens names, in catalog/core/tokens.py alone.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from synthesis.core.queries import ToolText


@dataclass(frozen=True, slots=True)
class Steps:
    """One trace, step by step; an empty step is left out."""

    intent: str
    apis: str
    endpoints: str
    commit: str
    permissions: str = ""
    rule: str = ""

    def text(self) -> str:
        order = (self.intent, self.permissions, self.apis, self.endpoints, self.rule, self.commit)
        return " ".join(step.strip() for step in order if step.strip())


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
    if rng.random() >= share:
        return ()
    needed = [rng.choice(tool.permissions) for tool in pool if tool.name in answer and tool.permissions]
    others = sorted({tag for tool in pool for tag in tool.permissions} - set(needed))
    if not needed:
        return ()
    extra = rng.sample(others, min(len(others), rng.choice((0, 1, 2))))
    return tuple(sorted({*needed, *extra}))
