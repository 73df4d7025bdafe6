"""The pocket model answering: one reading of a request scores every tool and every clause.

In: an export and requests. Out: predictions. The ranking orders tools by the likeliest decision that leads to each; a
trace is that decision for the first of them, written out in words: which clause speaks, which look-alikes were weighed,
the list. So a trace ends in the answer, the ranking begins with it, and another clause would lead to its own tool.

Tools and clauses that are newer than the model are held beside its own, with untrained rows (`holding`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from catalog.core.tokens import NameIndex
from catalog.core.tool import embedding_text
from evaluation.core.confidence import BEST, FLOOR, nearness, ranking_features
from evaluation.core.metrics import NO_TRACE
from evaluation.core.questions import QA_QUESTION, YES_NO
from evaluation.core.written_out import Decision, others_of, tokens_of, written_out
from evaluation.ml.asked import AT_ONCE, BOTH, LETTERS, TRACE, TRACE_FREE, Asked, Batch, Item
from evaluation.ml.catalogued import Catalogued
from evaluation.ml.rows import lettered
from training.core.recipe import Pocket as Settings
from training.core.recipe import Recipe
from training.ml.bases.encoders import embed, load_encoder
from training.ml.bases.named import device
from training.ml.bases.pocket import NEVER, Board, Joint, Pocket, Reader, load, together
from training.ml.deciding import clause_rows, grown, leading

PADDED = 1.25  # requests are read together while none is longer than the shortest by this factor
SPARE = 4  # ... and these tokens
WEIGHED = 3  # look-alikes in a trace
SPOKEN = 3  # clauses that are told with an answer, the likeliest
EXACT = Recipe(bf16=False)  # as the engine computes
UNTRAINED = "untrained"  # the digest of no model


@dataclass(frozen=True, eq=False, kw_only=True)
class PocketExport(Catalogued):
    model: Pocket
    reader: Reader
    board: Board

    @cached_property
    def rows(self) -> Tensor:
        """[tools, width], length 1."""
        with torch.inference_mode():
            return self.model.tool_rows(self.board).float().cpu()

    @cached_property
    def settings(self) -> Settings:
        return Settings(**self.spec["calibration"])

    @cached_property
    def clauses(self) -> list[dict[str, Any]]:
        """Those of the board, in its order."""
        return leading(self.spec["clauses"])

    @cached_property
    def units(self) -> dict[str, str]:
        index = NameIndex(self.names, self.spec["format"])
        return {name: "".join(units) for name, units in index.units.items()}

    def batch(self) -> "Deciding":
        return Deciding(self)

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
        "stance"}: those of the rules that are in force now. Rows that no training has seen begin as training would
        begin them."""
        known = {one["token"]: one for one in self.spec["clauses"]}
        fresh = [tool for tool in tools if tool["name"] not in self.numbers]
        first, rows = len(self.model.tokens), len(self.model.clauses)
        # a tool of its own row, whatever its format: no training has told its tokens apart
        more = [{**tool, "ids": [first + number], "newer": True} for number, tool in enumerate(fresh)]
        every = sorted([*self.spec["tools"], *more], key=lambda tool: str(tool["name"]))
        held: list[dict[str, Any]] = []
        for one in clauses:
            taught = known.get(one["token"])
            row = taught["row"] if taught else rows + len([each for each in held if each["row"] >= rows])
            held.append({**one, "row": row, "trained": taught is not None})
        model = Pocket(self.model.encoder, 0, 0)
        model.load_state_dict({**self.model.state_dict(), "tokens": model.tokens, "clauses": model.clauses})
        model.tokens = grown(self.model.tokens, first + len(fresh))
        untrained = [one for one in leading(held) if not one["trained"]]
        model.clauses = grown(self.model.clauses, max([rows, *(one["row"] + 1 for one in held)]))
        if fresh:
            texts = [embedding_text(tool["name"], tool["description"]) for tool in fresh]
            model.tokens[first:] = embed(self.model, self.reader, EXACT, texts).to(model.tokens)
        spec = {**self.spec, "tools": every, "clauses": held}
        board = board_of(spec, self.settings)
        if untrained:
            made = clause_rows(model, self.reader, EXACT, untrained, every, board)
            model.clauses[[one["row"] for one in untrained]] = made
        names = [tool["name"] for tool in every]
        return replace(self, model=model.eval(), spec=spec, names=names, board=board.to(self.model.device))


def load_pocket(folder: Path, digest: str, spec: dict[str, Any]) -> PocketExport:
    model, reader = load(folder, spec["max_prompt_tokens"])
    spec["tools"] = sorted(spec["tools"], key=lambda tool: str(tool["name"]))
    spec["clauses"] = [{**one, "trained": True} for one in spec["clauses"]]
    export = PocketExport(
        folder=folder,
        digest=digest,
        spec=spec,
        names=[tool["name"] for tool in spec["tools"]],
        model=model.to(device()),
        reader=reader,
        board=Board.of({"tools": [], "clauses": []}),
    )
    return replace(export, board=board_of(spec, export.settings).to(device()))


def untrained_pocket() -> PocketExport:
    """The encoder without a tool or clause of its own. Nothing about it was calibrated: what lies nearest decides."""
    encoder, words = load_encoder(EXACT)
    settings = Settings(bar=0.0, sharpness=1.0, untrained=0.0)
    spec = {"format": "a", "tools": [], "clauses": [], "calibration": asdict(settings)}
    return PocketExport(
        folder=Path(),
        digest=UNTRAINED,
        spec=spec,
        names=[],
        model=Pocket(encoder, 0, 0).to(device()).eval(),
        reader=Reader(words, min(EXACT.max_prompt_tokens, int(encoder.config.max_position_embeddings))),
        board=Board.of(spec),
    )


def board_of(spec: Mapping[str, Any], settings: Settings) -> Board:
    known = {tool["name"] for tool in spec["tools"]}
    spec["clauses"][:] = [one for one in spec["clauses"] if known.intersection(one["tools"])]
    clauses = leading(spec["clauses"])
    extra = {one["token"]: settings.untrained for one in clauses if not one["trained"]}
    return Board.of({**spec, "clauses": clauses}, extra)


class Found(NamedTuple):
    """What was read of one request."""

    reading: Tensor  # [width]
    joint: Joint  # of one row each
    best: Tensor  # [tools]: log-probability of the likeliest decision that leads to each


class Deciding(Batch):
    def __init__(self, export: PocketExport) -> None:
        super().__init__()
        self.export = export

    @torch.inference_mode()
    def step(self) -> None:
        asked = self.take(AT_ONCE)
        for one in [one for one in asked if one.decode == LETTERS]:
            one.answer(letters(self.export, one.item))
        order = sorted((one for one in asked if one.decode != LETTERS), key=lambda one: len(one.ids))
        while order:
            most = PADDED * len(order[0].ids) + SPARE
            count = sum(len(one.ids) <= most for one in order)
            for one, found in zip(order[:count], self._read(order[:count]), strict=True):
                one.answer(answered(self.export, one, found))
            order = order[count:]

    def _read(self, asked: Sequence[Asked]) -> list[Found]:
        export, model = self.export, self.export.model
        ids, real = together([one.ids for one in asked], export.reader.pad_id)
        readings = model.read(ids.to(model.device), real.to(model.device))
        hidden = torch.zeros(len(asked), len(export.names), dtype=torch.bool)
        for row, one in enumerate(asked):
            hidden[row, sorted(export.left_out(one.item))] = True
        logits = model.logits(readings, export.board, hidden.to(model.device))
        joint = model.joint(logits, export.board, export.settings)
        best = best_of(joint, export.board)
        parts = zip(readings.cpu(), *(one.cpu() for one in joint), best.cpu(), strict=True)
        return [
            Found(reading, Joint(free, ruled, shares), row) for reading, free, ruled, shares, row in parts
        ]


def best_of(joint: Joint, board: Board) -> Tensor:
    """[n, tools]: the log-probability of the likeliest decision together with each tool."""
    count, tools = joint.free.shape
    places = torch.where(board.leads >= 0, board.leads, tools).flatten().expand(count, -1)
    free = functional.pad(joint.free, (0, 1), value=NEVER)
    return free.scatter_reduce(1, places, joint.ruled.flatten(1), "amax")[:, :tools]


def answered(export: PocketExport, one: Asked, found: Found) -> Item:
    order = ranking(found.best, max(one.k, BEST))
    first = order[0][0] if order else None
    newer = first is not None and bool(export.spec["tools"][first].get("newer"))
    # what they say of an answer was fitted on tools that the model knows
    features = {} if newer else features_of(export, one.item, found, order)
    told = {"id": one.item["id"], "features": features, "clauses": spoken(export, found.joint), **NO_TRACE}
    fast = told | ranked_part(export, one, found, order)
    if one.decode not in (TRACE, TRACE_FREE, BOTH):
        return fast
    trace = told | listed_part(export, one, found, order)
    if one.decode != BOTH:
        return trace
    if one.on_event is not None:
        one.on_event("fast", fast)
        one.on_event("text", trace["trace"])
    return {"id": one.item["id"], "fast": fast, "trace": trace}


def ranking(best: Tensor, count: int) -> list[tuple[int, float]]:
    scores, tools = best.topk(min(count, len(best)))
    pairs = zip(tools.tolist(), scores.tolist(), strict=True)
    return [(tool, score) for tool, score in pairs if score > NEVER / 2]


def ranked_part(export: PocketExport, one: Asked, found: Found, order: Sequence[tuple[int, float]]) -> Item:
    refused = export.not_granted(one.item)
    best = found.best.clone()
    best[sorted(refused)] = NEVER
    granted = ranking(best, one.k) if refused else order[: one.k]
    kept = {tool for tool, _ in granted}
    withheld = [tool for tool, _ in order[: one.k] if tool not in kept]
    return {
        "tools": [export.names[tool] for tool, _ in granted],
        "scores": [round(score, 6) for _, score in granted],
        "trace": "",
        "raw": "",
        "off_vocabulary": 0,
        "tokens": 0,
        "exact": True,
        "withheld": [export.names[tool] for tool in withheld],
        "withheld_first": bool(withheld) and withheld[0] == order[0][0],
    }


def listed_part(export: PocketExport, one: Asked, found: Found, order: Sequence[tuple[int, float]]) -> Item:
    """The decision for the first tool, and the list that follows."""
    decision = decided(export, found, order)
    names, refused = export.names, export.not_granted(one.item)
    granted = None if one.item.get("permissions") is None else frozenset(one.item["permissions"])
    of_rule = [each for each in export.spec["clauses"] if same_rule(each, decision.clause)]
    scores = dict(order)
    listed = [export.numbers[name] for name in decision.listed]
    kept = [tool for tool in listed if tool not in refused]
    raw = tokens_of(decision, export.units)
    return {
        "tools": [names[tool] for tool in kept],
        "scores": [round(scores[tool], 6) for tool in kept],
        "ranked": [names[tool] for tool, _ in order[: one.k] if tool not in refused],
        "trace": written_out(decision, export.by_name, of_rule, granted) if listed else "",
        "raw": raw,
        "off_vocabulary": 0,
        "tokens": 1 + len(decision.weighed) + len(listed),
        "calls": 1,
        "cut": False,
        "list_steps": len(listed),
        "overruled": [],
        "clause": decision.clause and decision.clause["token"],
        "withheld": [names[tool] for tool in listed if tool in refused],
        "withheld_first": bool(listed) and listed[0] in refused,
        "follows_trace": True,
        "trace_tools": [names[tool] for tool in listed],
    }


def decided(
    export: PocketExport, found: Found, order: Sequence[tuple[int, float]], clause: str | None = None
) -> Decision:
    """The likeliest decision that leads to the first tool; with `clause`, a token, what follows from that one."""
    board, joint, names = export.board, found.joint, export.names
    place = None
    if clause is not None:
        place = next(at for at, one in enumerate(export.clauses) if one["token"] == clause)
        led = [int(tool) for tool in board.leads[place].tolist() if tool >= 0]
        first = max(led, key=lambda tool: float(joint.free[tool]))
        order = [(first, 0.0), *(pair for pair in order if pair[0] != first)]
    elif order:
        first = order[0][0]
        own = joint.ruled.masked_fill(board.leads.cpu() != first, NEVER).amax(dim=1)
        if len(own) and float(own.max()) > float(joint.free[first]):
            place = int(own.argmax())
    ranked = [names[tool] for tool, _ in order]
    length = int(export.model.length(found.reading.to(export.model.device)).argmax()) + 1
    listed = ranked[:length]
    if place is None:
        return Decision(None, listed, ranked[length : length + WEIGHED - 1])
    spoken_by = export.clauses[place]
    near = [names[tool] for tool in joint.free.argsort(descending=True).tolist()]
    return Decision(spoken_by, listed, others_of(spoken_by["set"], listed, near, WEIGHED))


def same_rule(clause: Mapping[str, Any], other: Mapping[str, Any] | None) -> bool:
    return other is not None and (clause["domain"], clause["rule"]) == (other["domain"], other["rule"])


def spoken(export: PocketExport, joint: Joint) -> list[Item]:
    """The likeliest clauses, with the probability that each of them speaks."""
    shares, places = joint.shares.topk(min(SPOKEN, len(joint.shares)))
    return [
        {
            "token": export.clauses[place]["token"],
            "share": round(float(torch.tensor(share).exp()), 4),
            "trained": export.clauses[place]["trained"],
        }
        for share, place in zip(shares.tolist(), places.tolist(), strict=True)
    ]


def features_of(
    export: PocketExport, item: Item, found: Found, order: Sequence[tuple[int, float]]
) -> dict[str, Any]:
    hidden = export.left_out(item)
    rows = export.rows @ found.reading
    near = rows.numpy()[[number for number in range(len(rows)) if number not in hidden]]
    ruled = float(found.joint.shares.logsumexp(dim=0)) if len(found.joint.shares) else FLOOR
    return {
        **ranking_features(order),
        **nearness(near),
        "ruled": round(max(FLOOR, ruled), 4),
        "reading": found.reading.double().round(decimals=4).tolist(),
    }


@torch.inference_mode()
def letters(export: PocketExport, item: Item) -> Item:
    """The option that lies nearest to the tool, or to the question where it is about none. To be true of a tool, a
    statement must lie nearer to it than to any other."""
    tool, choices = item.get("tool"), list(item["choices"])
    if tool:
        export.require(tool, item)
        number = export.numbers[tool]
        if tuple(choices) == YES_NO:
            statement = str(item["question"]).removeprefix(QA_QUESTION.format(statement=""))
            near = export.rows @ embed(export.model, export.reader, EXACT, [statement])[0]
            own, others = (
                float(near[number]),
                float(near[[at for at in range(len(near)) if at != number]].max()),
            )
            return lettered(item, [own, others])
        about = export.rows[number]
    else:
        about = embed(export.model, export.reader, EXACT, [str(item["question"])])[0]
    return lettered(item, (embed(export.model, export.reader, EXACT, choices) @ about).tolist())
