"""The plan of one run as an object: its parts by rule and style or by domain and tier, and what each slot stands on."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rules.models import RuleVersion
from synthesis.core.keys import Ground
from synthesis.core.plan import Planned, Slot
from synthesis.core.queries import RuleText, Writers
from synthesis.core.recipe import read_recipe
from synthesis.inputs import Inputs
from synthesis.sources import CatalogView


@dataclass(frozen=True, slots=True)
class Part:
    """The plan of one rule and style, or of one domain and tier. `skipped`: why the style cannot be written."""

    domain: str
    rule: str
    kind: str
    planned: Planned
    skipped: str = ""

    def as_dict(self) -> dict[str, Any]:
        named = {"domain": self.domain, "rule": self.rule, "style": self.kind}
        return {**named, **self.planned.counts(), "skipped": self.skipped}


@dataclass(slots=True)
class RunPlan:
    """`rules`: {what a slot's `of` says: its rule}, empty for an RRB run, whose slots say the anchor."""

    inputs: Inputs
    seed: int
    parts: list[Part] = field(default_factory=list)
    rules: dict[str, tuple[RuleVersion, RuleText]] = field(default_factory=dict)

    def slots(self) -> Iterator[Slot]:
        for part in self.parts:
            yield from part.planned.slots()

    def ground(self, of: str) -> Ground:
        made = self.inputs.of_rule(self.rules[of][1]) if self.rules else self.inputs.of_anchor(of)
        assert made is not None, of
        return made

    def key_of(self, of: str, kind: str, index: int) -> str:
        return self.inputs.key(self.ground(of), kind, index, self.seed)


def inputs_of(
    branch: str,
    params: Mapping[str, Any],
    writers: Writers,
    catalog: CatalogView,
    rules: Mapping[int, RuleText],
) -> Inputs:
    share = read_recipe(params.get("recipe", {})).trace.permission_share
    return Inputs.today(catalog, rules, branch, writers, share)
