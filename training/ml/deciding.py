"""Training the pocket model: decisions as readings, and the loss over what is chosen.

In: a pocket model and its reader. Out: a `Trainee` whose loss is the mean over texts of the cross-entropy of the clause
that speaks, or where none does of the tools. Only the rows that a batch names move: AdamW would move every row a full
step for the faintest gradient, and a catalog has thousands of tools that no sample names.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from catalog.core.tokens import telling_units
from catalog.core.tool import embedding_text
from catalog.ml.encoder import locate
from rules.core.text_clauses import LEADING
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash, read_json
from training.core.decisions import Decision, memorized, reread, retrieved
from training.core.recipe import Recipe, Stage
from training.core.records import Snapshot
from training.core.stages import encoder_digest
from training.ml.bases.encoders import Progress, embed, load_encoder
from training.ml.bases.named import base_licence, device
from training.ml.bases.pocket import LONGEST_LIST, NEVER, Board, Logits, Pocket, Reader, load, together
from training.ml.trainee import Batch, Dataset, Example, Trainee

# with 0, .3 and 1: .44, .51 and .53 of the hard requests that a rule decides are right, of the others .73, .64 and .62
# (development half of the demo, seed 0, one run each, rows_lr 3e-3, replay 1; bars of 1.8, 2 and 2)
BY_TOOLS = 0.3


@dataclass(frozen=True, slots=True)
class Choice(Example):
    """A decision in numbers of the board."""

    tools: tuple[int, ...]
    clauses: tuple[int, ...]
    among: tuple[int, ...]
    together: bool
    weighs: bool
    counts: bool
    composed: bool


@dataclass(kw_only=True)
class PocketTrainee(Trainee[Choice]):
    """A pocket model. `spec`: its tools and clauses as trace.json has them."""

    model: Pocket
    reader: Reader
    board: Board
    spec: dict[str, Any]

    def to(self, where: torch.device) -> None:
        super().to(where)
        self.board = self.board.to(where)

    def memory(self, snapshot: Snapshot, recipe: Recipe) -> Dataset[Choice]:
        examples = self._encoded(memorized(snapshot, recipe))
        return examples, [], {"Records": len(examples)}

    def retrieval(self, snapshot: Snapshot, recipe: Recipe) -> Dataset[Choice]:
        examples = self._encoded(retrieved(snapshot, recipe))
        facts = {
            "Records": len(examples),
            "Records that a clause decides": sum(bool(example.clauses) for example in examples),
        }
        return examples, self._encoded(reread(snapshot, recipe)), facts

    def _encoded(self, decisions: Sequence[Decision]) -> list[Choice]:
        tools = {tool["name"]: number for number, tool in enumerate(self.spec["tools"])}
        places = {int(row): number for number, row in enumerate(self.board.clauses)}
        clauses = {one["token"]: places.get(one["row"]) for one in self.spec["clauses"]}
        return [
            Choice(
                self.reader.ids(one.text),
                tuple(tools[name] for name in one.tools),
                tuple(place for token in one.clauses if (place := clauses.get(token)) is not None),
                tuple(tools[name] for name in one.among),
                one.together,
                one.weighs,
                one.counts,
                one.composed,
            )
            for one in decisions
        ]

    def collate(self, examples: Sequence[Choice]) -> Batch[Choice]:
        ids, _ = together([example.ids for example in examples], self.reader.pad_id)
        return Batch(examples, ids, len(examples))

    def loss(self, batch: Batch[Choice]) -> Tensor:
        where, examples = self.model.device, batch.examples
        ids, real = together([example.ids for example in examples], self.reader.pad_id)
        reading = self.model.read(ids.to(where), real.to(where))
        composed = torch.tensor([[example.composed] for example in examples], device=where)
        reading = torch.where(composed, reading.detach(), reading)
        with torch.autocast(where.type, enabled=False):
            found = self.model.logits(reading, self.board)
            total = choice_loss(found, examples)
            counted = [at for at, example in enumerate(examples) if example.counts]
            if counted:
                wanted = [min(len(examples[at].tools), LONGEST_LIST) - 1 for at in counted]
                # it is read off, and moves no reading
                lengths = self.model.length(reading[counted].detach())
                target = torch.tensor(wanted, device=where)
                total = total + functional.cross_entropy(lengths, target, reduction="sum")
        return total / batch.weight

    def peak(self, name: str, stage: Stage) -> float:
        """The encoder's word rows stay: a text holds a few of thirty thousand, and training would move only those that
        samples hold."""
        if name.startswith("encoder."):
            return 0.0 if ".word_embeddings." in name or "pooler" in name else stage.encoder_lr
        return stage.rows_lr if name in ("tokens", "clauses") else stage.lr

    def hold(self, weights: Mapping[str, nn.Parameter], batch: Batch[Choice]) -> None:
        tools = sorted({number for example in batch.examples for number in example.tools})
        rows = self.board.tools[tools].flatten()
        clauses = sorted({number for example in batch.examples for number in example.clauses})
        for name, moved in (("tokens", rows[rows >= 0]), ("clauses", self.board.clauses[clauses])):
            if name in weights and (gradient := weights[name].grad) is not None:
                own = torch.zeros(len(gradient), 1, device=gradient.device)
                own[moved] = 1.0
                gradient *= own

    @property
    def attending(self) -> Any:
        return self.model.encoder


def choice_loss(found: Logits, examples: Sequence[Choice]) -> Tensor:
    """Summed over examples."""
    where, (count, tools) = found.tools.device, found.tools.shape
    logits, wanted = torch.cat(found, dim=1), torch.zeros(count, tools + found.clauses.shape[1])
    allowed = torch.ones_like(wanted, dtype=torch.bool)
    together = torch.tensor([bool(one.clauses) or one.together for one in examples], device=where)
    for row, one in enumerate(examples):
        if not one.weighs:
            allowed[row, tools:] = False
        if one.among:
            allowed[row] = False
            allowed[row, list(one.among)] = True
        if one.clauses:
            wanted[row, [tools + number for number in one.clauses]] = 1.0
        else:
            wanted[row, list(one.tools)] = 1.0
    chances = logits.masked_fill(~allowed.to(where), NEVER).log_softmax(dim=1)
    wanted = wanted.to(where)
    each = -(chances * wanted).sum(dim=1) / wanted.sum(dim=1)
    whole = -chances.masked_fill(wanted == 0, NEVER).logsumexp(dim=1)
    return torch.where(together, whole, each).sum() + BY_TOOLS * tools_loss(found, examples)


def tools_loss(found: Logits, examples: Sequence[Choice]) -> Tensor:
    """Of what a clause decides: the tools by their own rows, so that they are found where no clause is sure enough."""
    ruled = [row for row, one in enumerate(examples) if one.clauses]
    chances = found.tools[ruled].log_softmax(dim=1)
    return -sum(
        (chances[place, list(examples[row].tools)].mean() for place, row in enumerate(ruled)),
        chances.new_zeros(()),
    )


# The untrained model, and one that goes on from an export: rows of what is new begin as what the encoder makes of it.

OF_TOOLS = 0.3  # of the tools that a clause leads to, in its row beside its own words; development requests


def spec_of(snapshot: Snapshot, recipe: Recipe) -> dict[str, Any]:
    """{"tools", "clauses"} as trace.json tells them; numbers are places in the ledger."""
    places = {text: number for number, text in enumerate(snapshot.family_strings(recipe.format))}
    clauses = {text: number for number, text in enumerate(snapshot.clause_strings())}
    return {
        "tools": tool_facts(
            snapshot, lambda name: [places[text] for text in telling_units(name, recipe.format)]
        ),
        "clauses": [
            {
                "token": one["token"],
                "row": clauses[one["token"]],
                "rule": rule["code"],
                "domain": rule["domain"],
                "version": rule["version"],
                "set": [rule["target"], *rule["confusables"]],
                "tools": one["tools"],
                "text": one["text"],
                "stance": one["stance"],
            }
            for rule in snapshot.rules
            if recipe.with_rules
            for one in rule.get("statements", ())
        ],
    }


def tool_facts(snapshot: Snapshot, ids_of: Callable[[str], list[int]]) -> list[dict[str, Any]]:
    """What trace.json says of each tool, with the ids of its tokens."""
    return [
        {
            "name": tool["name"],
            "ids": ids_of(tool["name"]),
            "domain": tool["domain"],
            "permissions": tool.get("permissions") or [],
            "deprecated": tool["deprecated"],
        }
        for tool in snapshot.tools
    ]


def untrained(recipe: Recipe, tokens: int, clauses: int) -> tuple[Pocket, Reader]:
    """The encoder as it is, and rows of nothing yet."""
    encoder, words = load_encoder(recipe)
    longest = min(recipe.max_prompt_tokens, int(encoder.config.max_position_embeddings))
    return Pocket(encoder, tokens, clauses).eval(), Reader(words, longest)


def build_pocket(recipe: Recipe, snapshot: Snapshot, init: Path | None, report: Progress) -> PocketTrainee:
    """Untrained, or the export `init` to go on from. Raises TraceError `wrong_init` where that was made around another
    encoder, `stale_init` where its tokens are not the ledger's."""
    tokens, clauses = snapshot.family_strings(recipe.format), snapshot.clause_strings()
    if init is None:
        model, reader = untrained(recipe, len(tokens), len(clauses))
        first = 0
        known: dict[str, Any] = {"licence": base_licence(locate(recipe.pocket.encoder))}
    else:
        spec = read_json(init / "trace.json")
        if spec.get("encoder") != encoder_digest(recipe.pocket.encoder):
            raise _refused("it was made around another encoder.", "wrong_init", init, "with this recipe")
        model, reader = load(init, min(recipe.max_prompt_tokens, spec["max_prompt_tokens"]))
        first = len(model.tokens)
        if spec["tokens"] != content_hash(tokens[:first]):
            problem = "the tool tokens of this model come from another catalog's ledger."
            raise _refused(problem, "stale_init", init, "on this snapshot")
        model.tokens, model.clauses = grown(model.tokens, len(tokens)), grown(model.clauses, len(clauses))
        known = {"licence": spec["licence"], "stages": list(spec["stages"]), "grown": len(tokens) - first}
    own = spec_of(snapshot, recipe)
    board = Board.of({**own, "clauses": leading(own["clauses"])})
    trainee = PocketTrainee(model=model, reader=reader, board=board, spec=own, **known)
    trainee.to(device())
    _set_rows(trainee, recipe, snapshot, first, report)
    return trainee


def _refused(problem: str, code: str, init: Path, how: str) -> TraceError:
    return TraceError(problem, code=code, where=str(init), hint=f"Run Stage 1 again {how}.")


def grown(rows: nn.Parameter, count: int) -> nn.Parameter:
    return nn.Parameter(torch.cat([rows, rows.new_zeros(max(0, count - len(rows)), rows.shape[1])]))


@torch.no_grad()
def _set_rows(
    trainee: PocketTrainee, recipe: Recipe, snapshot: Snapshot, first: int, report: Progress
) -> None:
    """Of tool tokens from `first` on, and of all clauses, which Stage 1 teaches nothing. A token of several tools
    begins as the mean of theirs."""
    model, spec = trainee.model, trainee.spec
    if recipe.token_init == "opaque":
        chance = torch.Generator().manual_seed(recipe.seed)
        for rows in (model.tokens[first:], model.clauses):
            rows.copy_(functional.normalize(torch.randn(rows.shape, generator=chance), dim=1))
        return
    if first < len(model.tokens):
        texts = [embedding_text(tool["name"], tool["description"]) for tool in snapshot.tools]
        made = embed(model, trainee.reader, recipe, texts, report)
        sums = torch.zeros(len(model.tokens), made.shape[1])
        for tool, row in zip(spec["tools"], made, strict=True):
            sums[tool["ids"]] += row
        usual = functional.normalize(made.mean(dim=0), dim=0)
        sums[sums.norm(dim=1) == 0] = usual  # of tools that are gone
        model.tokens[first:] = functional.normalize(sums, dim=1)[first:].to(model.tokens)
    if own := leading(spec["clauses"]):
        rows = clause_rows(model, trainee.reader, recipe, own, spec["tools"], trainee.board)
        model.clauses[[one["row"] for one in own]] = rows


@torch.no_grad()
def clause_rows(
    model: Pocket,
    reader: Reader,
    recipe: Recipe,
    clauses: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    board: Board,
) -> Tensor:
    """[clauses, width], length 1: what the encoder makes of their words, and the rows of the tools they lead to."""
    rows, numbers = model.tool_rows(board).cpu(), {tool["name"]: number for number, tool in enumerate(tools)}
    found = embed(model, reader, recipe, [one["text"] for one in clauses])
    led = [[numbers[name] for name in one["tools"] if name in numbers] for one in clauses]
    beside = torch.stack([rows[own].mean(dim=0) if own else rows.new_zeros(rows.shape[1]) for own in led])
    return functional.normalize(found + OF_TOOLS * beside, dim=-1).to(model.clauses)


def leading(clauses: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that lead to a tool."""
    return [one for one in clauses if one["stance"] in LEADING]
