"""The pocket model answering: one reading of a request scores every tool and every clause.

In: an export and requests. Out: predictions. The ranking orders tools by the likeliest decision that leads to each; a
trace is that decision for the first of them, written out in words: which clause speaks, which look-alikes were weighed,
the list. So a trace ends in the answer, the ranking begins with it, and another clause would lead to its own tool.

Tools and clauses that are newer than the model are held beside its own, with untrained rows (`holding`).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import count
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from catalog.core.tokens import NameIndex
from catalog.core.tool import embedding_text
from evaluation.core.confidence import BEST, FLOOR, nearness, ranking_features
from evaluation.core.metrics import NO_TRACE
from evaluation.core.questions import QA_QUESTION, YES_NO
from evaluation.core.written_out import Clause, Decision, LookAlike, tokens_of, written_out
from evaluation.ml.asked import AT_ONCE, BOTH, LETTERS, TRACE, TRACE_FREE, Asked, Batch, Item
from evaluation.ml.catalogued import Catalogued, Flags
from evaluation.ml.manifest import refused
from evaluation.ml.packed import pack
from evaluation.ml.rows import fast_row, granted_to, lettered, list_fields
from evaluation.ml.search import Ranking, Top
from training.core.recipe import Pocket as Settings
from training.core.recipe import Recipe
from training.ml.bases.encoders import embed
from training.ml.bases.named import device
from training.ml.bases.pocket import NEVER, Board, Joint, Pocket, Reader, Rows, load, together
from training.ml.deciding import clause_rows, grown, leading, untrained

PADDED = 1.25  # requests are read together while none is longer than the shortest by this factor
SPARE = 4  # ... and these tokens
WEIGHED = 3  # look-alikes in a trace
UNRULED = 2  # ... where no rule speaks
SPOKEN = 3  # clauses that are told with an answer, the likeliest
SECOND = 0.25  # share from which on a clause of another rule is named beside the one that decides
EXACT = Recipe(bf16=False)  # as the engine computes
UNTRAINED = "untrained"  # the digest of no model
Numbers = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False, kw_only=True)
class PocketExport(Catalogued):
    """`texts`: what its encoder made of texts that were held; most of them will be again."""

    model: Pocket
    reader: Reader
    texts: dict[str, Tensor] = field(default_factory=dict)

    @cached_property
    def settings(self) -> Settings:
        return Settings(**self.spec["calibration"])

    @cached_property
    def clauses(self) -> list[Item]:
        """Those that may speak."""
        return leading(self.spec["clauses"])

    @cached_property
    def of_rule(self) -> dict[tuple[str, str], list[Item]]:
        """Every clause of each rule, by domain and code."""
        found = defaultdict(list)
        for one in self.spec["clauses"]:
            found[one["domain"], one["rule"]].append(one)
        return found

    @cached_property
    def places(self) -> dict[str, int]:
        """Of clauses that may speak, by token."""
        return {one["token"]: place for place, one in enumerate(self.clauses)}

    @cached_property
    def board(self) -> Board:
        extra = {one["token"]: self.settings.untrained for one in self.clauses if not one["trained"]}
        return Board.of({"tools": self.spec["tools"], "clauses": self.clauses}, extra).to(self.model.device)

    @cached_property
    def leads(self) -> npt.NDArray[np.int64]:
        return self.board.leads.cpu().numpy()

    @cached_property
    def rows(self) -> Rows:
        with torch.inference_mode():
            return self.model.rows(self.board)

    @cached_property
    def units(self) -> dict[str, str]:
        index = NameIndex(self.names, self.spec["format"])
        return {name: "".join(units) for name, units in index.units.items()}

    def ids_of(self, item: Item, decode: str) -> list[int]:
        return [] if decode == LETTERS else self.reader.ids(str(item["query"]))

    def about(self, item: Item) -> Item:
        """What of a request the model does not read: whether it is cut, and words its encoder does not know."""
        query = str(item["query"])
        return {"cut_request": self.reader.is_cut(query), "unread": self.reader.unread(query)}

    @torch.inference_mode()
    def holding(
        self, tools: Sequence[Mapping[str, Any]], clauses: Sequence[Mapping[str, Any]]
    ) -> "PocketExport":
        """The same model with tools that it was not trained on, {"name", "description", "domain", "permissions",
        "deprecated"}, and with `clauses` for its own, {"token", "rule", "domain", "version", "set", "tools", "text",
        "stance", "waits"}: those of the rules that are in force now; what waits speaks only where training saw it.
        Rows that no training has seen begin as training would begin them."""
        model = deepcopy(self.model, {id(self.model.encoder): self.model.encoder})
        fresh = [tool for tool in tools if tool["name"] not in self.numbers]
        # a tool of its own row, whatever its format: no training has told its tokens apart
        tokens, rows = count(first := len(model.tokens)), count(len(model.clauses))
        is_model = bool(self.names)  # else all that is held is of one kind
        newer = [{**tool, "ids": [next(tokens)], "newer": is_model} for tool in fresh]
        every = sorted([*self.spec["tools"], *newer], key=lambda tool: str(tool["name"]))
        taught = {one["token"]: one["row"] for one in self.spec["clauses"]}
        held = [
            {**one, "trained": True, "row": taught[one["token"]]}
            if one["token"] in taught
            else {**one, "trained": False, "row": next(rows)}
            for one in clauses
            if one["token"] in taught or not one.get("waits")
        ]
        export = replace(self, model=model, spec=spec_of(self.spec, every, held))
        model.tokens = grown(model.tokens, next(tokens))
        model.clauses = grown(model.clauses, next(rows))
        if fresh:
            texts = [embedding_text(tool["name"], tool["description"]) for tool in fresh]
            model.tokens[first:] = self.embedded(texts).to(model.tokens)
        if untrained := [one for one in export.clauses if not one["trained"]]:
            made = clause_rows(model, self.reader, EXACT, untrained, every, export.board)
            model.clauses[[one["row"] for one in untrained]] = made
        return export

    def embedded(self, texts: Sequence[str]) -> Tensor:
        unknown = [text for text in texts if text not in self.texts]
        self.texts.update(zip(unknown, embed(self.model, self.reader, EXACT, unknown), strict=True))
        return torch.stack([self.texts[text] for text in texts])


def load_pocket(folder: Path, digest: str, spec: Item) -> PocketExport:
    """Raises TraceError `bad_export`, also for a pocket of before, which wrote."""
    if "calibration" not in spec:
        problem = "it is a pocket model of an earlier version, which wrote its traces."
        raise refused(problem, folder, hint="Train it again, and ask plain search until then.")
    model, reader = load(folder, spec["max_prompt_tokens"])
    model.to(device())
    pack(model.encoder)
    tools = sorted(spec["tools"], key=lambda tool: str(tool["name"]))
    clauses = [{**one, "trained": True} for one in spec["clauses"]]
    spec = spec_of(spec, tools, clauses)
    return PocketExport(folder=folder, digest=digest, model=model, reader=reader, spec=spec)


def untrained_pocket() -> PocketExport:
    """The encoder without a tool or clause of its own. Nothing about it was calibrated: what lies nearest decides."""
    model, reader = untrained(EXACT, 0, 0)
    model.to(device())
    pack(model.encoder)
    calibration = asdict(Settings(bar=0.0, untrained=0.0))
    spec = {"format": "a", "calibration": calibration, "tools": [], "clauses": []}
    return PocketExport(folder=Path(), digest=UNTRAINED, model=model, reader=reader, spec=spec)


def spec_of(spec: Item, tools: Sequence[Item], clauses: Iterable[Item]) -> Item:
    """With these tools, and with the clauses that name one of them."""
    known = {tool["name"] for tool in tools}
    kept = [one for one in clauses if not known.isdisjoint(one["tools"])]
    return {**spec, "tools": tools, "clauses": kept}


class Found(NamedTuple):
    """What one reading says of a request. Arrays, as each answer asks for little of much."""

    length: int  # of the list of tools
    speaks: float  # log-probability that a clause does
    reading: Numbers  # [width]
    hidden: Flags  # [tools]: must not be named
    cosines: Numbers  # [tools], of those that may
    clauses: Numbers  # [clauses]: as near as each counts, in cosines
    best: Numbers  # [tools]: log-probability of the likeliest decision that leads to each
    free: Numbers  # these, as in `Joint`
    ruled: Numbers
    shares: Numbers


class Deciding(Batch):
    """The pocket model answering: who waits is read together with those of like length."""

    def __init__(self, export: PocketExport) -> None:
        super().__init__()
        self.export = export

    @torch.inference_mode()
    def step(self) -> None:
        asked = self.take(AT_ONCE)
        for one in asked:
            if one.decode == LETTERS:
                one.answer(letters(self.export, one.item))
        left = sorted((one for one in asked if one.decode != LETTERS), key=lambda one: len(one.ids))
        while left:
            longest = PADDED * len(left[0].ids) + SPARE
            size = sum(len(one.ids) <= longest for one in left)
            for one, found in zip(left[:size], read(self.export, left[:size]), strict=True):
                one.answer(answered(self.export, one, found))
            left = left[size:]


@torch.inference_mode()
def read(export: PocketExport, asked: Sequence[Asked]) -> list[Found]:
    model, board, where = export.model, export.board, export.model.device
    ids, real = together([one.ids for one in asked], export.reader.pad_id)
    hidden = torch.from_numpy(np.stack([export.left_out(one.item) for one in asked])).to(where)
    reading = model.read(ids.to(where), real.to(where))
    logits = model.logits(reading, board, hidden, export.rows)
    joint = model.joint(logits, board, export.settings)
    best = best_of(joint, board).masked_fill(hidden, NEVER)
    lengths = model.length(reading).argmax(dim=1) + 1
    speaks = joint.shares.logsumexp(dim=1)
    near = [part / model.scale.exp() for part in logits]
    parts = [part.cpu().numpy() for part in (reading, hidden, *near, best, *joint)]
    return list(map(Found, lengths.tolist(), speaks.tolist(), *parts))


def best_of(joint: Joint, board: Board) -> Tensor:
    """[n, tools]: the log-probability of the likeliest decision together with each tool."""
    count, tools = joint.free.shape
    places = torch.where(board.leads >= 0, board.leads, tools).flatten().expand(count, -1)
    free = functional.pad(joint.free, (0, 1), value=NEVER)
    return free.scatter_reduce(1, places, joint.ruled.flatten(1), "amax")[:, :tools]


def answered(export: PocketExport, one: Asked, found: Found) -> Item:
    order = ranking(found.best, max(one.k, BEST))
    refused = export.not_granted(one.item)
    granted = ranking(np.where(refused, NEVER, found.best), one.k) if refused.any() else order[: one.k]
    decision = decided(export, found, order)
    # what features say of an answer was fitted on tools and clauses that the model knows
    is_new = bool(order) and export.spec["tools"][order[0][0]].get("newer", False)
    is_new = is_new or (decision.clause is not None and not decision.clause["trained"])
    features = {} if is_new else features_of(found, order)
    fast = fast_row(export, one.item, one.k, Top(order, True), Top(granted, True), features)
    told = told_of(decision, likeliest_clauses(export, found, decision.clause))
    fast |= told
    if one.decode not in (TRACE, TRACE_FREE, BOTH):
        return fast
    trace = {"id": one.item["id"], "features": features, "ranked": fast["tools"], **told}
    trace |= traced(export, one.item, found, decision, refused)
    if one.on_event is not None:
        if one.decode == BOTH:
            one.on_event("fast", fast)
        one.on_event("text", trace["trace"])
    return trace if one.decode != BOTH else {"id": one.item["id"], "fast": fast, "trace": trace}


def told_of(decision: Decision, likeliest: Sequence[tuple[float, Item]]) -> Item:
    return {
        "clause": decision.clause and decision.clause["token"],
        "clauses": [
            {"token": clause["token"], "share": round(share, 4), "trained": clause["trained"]}
            for share, clause in likeliest
        ],
    }


def ranking(best: Numbers, most: int) -> Ranking:
    tools = largest(best, most)
    pairs = zip(tools.tolist(), best[tools].tolist(), strict=True)
    return [(tool, score) for tool, score in pairs if score > NEVER / 2]


def largest(values: Numbers, most: int) -> npt.NDArray[np.int64]:
    """Where the largest of them stand, the largest first."""
    places = np.sort(np.argpartition(-values, most)[:most]) if most < len(values) else np.arange(len(values))
    return places[np.argsort(-values[places], kind="stable")]


def traced(export: PocketExport, item: Item, found: Found, decision: Decision, refused: Flags) -> Item:
    text = written_out(decision, granted_to(item)) if decision.listed else ""
    listed = [(export.numbers[name], float(found.best[export.numbers[name]])) for name in decision.listed]
    return {
        **list_fields(export, listed, set(np.flatnonzero(refused).tolist())),
        "trace": text,
        "raw": tokens_of(decision, export.units),
        "tokens": 1 + (decision.second is not None) + len(decision.weighed) + len(listed),
        **({"follows_trace": True, "trace_tools": list(decision.listed)} if text else NO_TRACE),
    }


def decided(export: PocketExport, found: Found, order: Ranking, clause: str | None = None) -> Decision:
    """The decision for the first tool of the ranking; with `clause`, the token of one that may speak, what follows from
    that one."""
    if not order:
        return Decision(None, ())
    leads, ruled = export.leads, found.ruled
    if clause is not None:
        place: int | None = export.places[clause]
        first = int(leads[place][ruled[place].argmax()])
    else:
        first = order[0][0]
        own = np.where(leads == first, ruled, NEVER).max(axis=1)
        place = int(own.argmax()) if (own > found.free[first]).any() else None
    others = [tool for tool, _ in order if tool != first]
    listed, near = [first, *others][: found.length], others[found.length - 1 :][:UNRULED]
    speaks = None if place is None else export.clauses[place]
    if speaks is not None:
        rule = {export.numbers[name] for name in speaks["set"] if name in export.numbers}
        shown = [number for number in rule.difference(listed) if not found.hidden[number]]
        near = sorted(shown, key=lambda number: -float(found.cosines[number]))[:WEIGHED]
    weighed = [
        LookAlike(
            export.spec["tools"][number],
            speaks and clause_about(export.names[number], export, found, speaks),
            bool(found.cosines[number] < found.cosines[first]),
        )
        for number in near
    ]
    second = speaks and of_another_rule(export, found, speaks)
    return Decision(speaks, [export.names[number] for number in listed], weighed, second)


def of_another_rule(export: PocketExport, found: Found, speaks: Clause) -> Clause | None:
    """The likeliest clause of another rule, where that speaks at once."""
    own = export.of_rule[speaks["domain"], speaks["rule"]]
    near = (one for share, one in likeliest_clauses(export, found) if share >= SECOND)
    return next((one for one in near if one not in own), None)


def clause_about(name: str, export: PocketExport, found: Found, speaks: Clause) -> Clause | None:
    """Which other clause of the same rule is about a tool: rather one that leads to it, and of those the nearest."""

    def share(one: Clause) -> float:
        place = export.places.get(one["token"])
        return -inf if place is None else float(found.shares[place])

    rule = export.of_rule[speaks["domain"], speaks["rule"]]
    return max((one for one in rule if name in one["tools"] and one is not speaks), key=share, default=None)


def likeliest_clauses(
    export: PocketExport, found: Found, decides: Clause | None = None
) -> list[tuple[float, Item]]:
    """With the probability that each of them speaks; the one that decides is always among them."""
    shares = np.exp(found.shares)
    places = largest(shares, SPOKEN).tolist()
    if decides is not None and (own := export.places[decides["token"]]) not in places:
        places[-1] = own
    return [(share, export.clauses[place]) for place in places if (share := float(shares[place]))]


def features_of(found: Found, order: Ranking) -> Item:
    return {
        **ranking_features(order),
        **nearness(found.cosines[~found.hidden]),
        "ruled": round(max(FLOOR, found.speaks), 4),
        "reading": found.reading.astype(np.float64).round(4).tolist(),
    }


@torch.inference_mode()
def letters(export: PocketExport, item: Item) -> Item:
    """The option that lies nearest to the tool, or to the question where it is about none. To be true of a tool, a
    statement must lie nearer to it than to any other."""
    tool, choices, rows = item.get("tool"), list(item["choices"]), export.rows.tools.cpu()

    def read_texts(texts: Sequence[str]) -> Tensor:
        return embed(export.model, export.reader, EXACT, texts)

    if not tool:
        (about,) = read_texts([str(item["question"])])
        return lettered(item, (read_texts(choices) @ about).tolist())
    export.require(tool, item)
    number = export.numbers[tool]
    if tuple(choices) != YES_NO:
        return lettered(item, (read_texts(choices) @ rows[number]).tolist())
    (said,) = read_texts([str(item["question"]).removeprefix(QA_QUESTION.format(statement=""))])
    near = rows @ said
    others = torch.cat([near[:number], near[number + 1 :]])
    return lettered(item, [float(near[number]), float(others.max())])
