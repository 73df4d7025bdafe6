"""Clauses that a language model has not learned, in force beside it.

In: an export and the clauses of the rules that are in force. Out: the export with them beside it. The untrained pocket
reads each request too. Where of all clauses in force the nearest is one that the model has not learned, and it lies
nearer than the description of the model's first tool, the clause's tool takes the first place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch

from catalog.core.tool import embedding_text
from evaluation.core.confidence import BEST
from evaluation.core.written_out import LookAlike
from evaluation.ml.asked import FAST, Asked, Item
from evaluation.ml.catalogued import Spoken
from evaluation.ml.deciding import (
    PocketExport,
    clause_about,
    decided,
    likeliest_clauses,
    ranking,
    read,
    told_of,
    untrained_pocket,
)
from evaluation.ml.export import Export
from training.ml.deciding import leading

sentence_encoder = cache(untrained_pocket)


@dataclass(frozen=True, eq=False)
class Unlearned:
    """The overlay of a model. `pocket`: holds all clauses in force and the tools of their rules; `tools`: the model's,
    by name; `taught`: the tokens of the clauses that it has learned.

    A clause has the lead that it has in the pocket (`training.ml.bases.pocket.MARGIN`), learned ones too. On the
    development halves, each rule in turn unlearned and the nearest description in place of the model's first tool, a
    lead of .05 puts the right tool first for .47 of the demo's plain requests of the target side and .68 of the other
    (.02 and .12 without clauses), and for .49 and .35 of the public ones (.10 and .22). With 0 it is .45, .60, .28 and
    .27, with .10 .47, .68, .57 and .38. Of the requests of other rules and of none a trained model answers .0096 fewer
    right in the demo (.0085, .0111), and .2 or more where learned clauses are not compared; in public .0000.
    """

    pocket: PocketExport
    tools: Mapping[str, Item]
    taught: frozenset[str]

    @torch.inference_mode()
    def __call__(self, item: Item, first: str) -> Spoken | None:
        pocket, own = self.pocket, self.tools[first]
        (found,) = read(pocket, [Asked(item, FAST, 1, pocket.ids_of(item, FAST))])
        place = int(found.clauses.argmax())
        clause = pocket.clauses[place]
        (about,) = pocket.embedded([embedding_text(first, own["description"])])
        if clause["token"] in self.taught or found.clauses[place] <= found.reading @ about.cpu().numpy():
            return None
        decision = decided(pocket, found, ranking(found.best, BEST), clause["token"])
        (tool,) = decision.listed
        if pocket.not_granted(item)[pocket.numbers[tool]]:
            return None
        if first != tool:
            said = clause_about(first, pocket, found, clause)
            others = [one for one in decision.weighed if one.tool["name"] != first]
            decision = replace(decision, weighed=[LookAlike(own, said, True), *others])
        likeliest = [
            (share, {**one, "trained": one["token"] in self.taught})
            for share, one in likeliest_clauses(pocket, found)
        ]
        return Spoken(decision, told_of(decision, likeliest))


def overlaid(export: Export, clauses: Sequence[Item]) -> Export:
    """With those of `clauses` (see `PocketExport.holding`) that it has not learned in force beside it. An export of
    before it was told which it has learned stays as it is."""
    taught = frozenset(one["token"] for one in export.spec.get("clauses", ()))
    held = [{**one, "waits": False} for one in clauses if one["token"] in taught or not one.get("waits")]
    if "clauses" not in export.spec or all(one["token"] in taught for one in leading(held)):
        return export
    tools = {tool["name"]: tool for tool in export.spec["tools"]}
    named = sorted({name for one in held for name in one["set"] if name in tools})
    pocket = sentence_encoder().holding([tools[name] for name in named], held)
    return replace(export, overlay=Unlearned(pocket, tools, taught)) if pocket.clauses else export
