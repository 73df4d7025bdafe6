"""The pocket model: a sentence encoder that reads a request, and rows that it compares the request with.

A row stands for every tool and for every clause of a rule that leads to a tool, so what the model says of a request is
a choice: which clause speaks to it, or that none does, and which tool follows. Untrained, rows are what the encoder
makes of the texts themselves; training moves both. Nothing is written letter by letter.

Inside a rule the clauses compete: the rule is as near as the nearest of its tools and clauses, and the clause that is
nearest to the request takes that place (`Pocket.logits`). So a request that lies near a look-alike of a rule is decided
by what the rule says, before anything was trained.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoConfig, AutoModel, AutoTokenizer

from trace_site.lib.errors import TraceError
from training.core.recipe import Pocket as Settings
from training.core.scripts import readable_scripts, request_words, scripts_of
from training.ml.trainee import padded

SCALE = 20.0  # of cosines: sentence-transformers'
# what a clause's cosine is given before its tools' own, untrained; development requests of the public catalog
MARGIN = 0.05
# what a tool is given that no training has seen: with it 48 of 60 requests for 20 new tools found theirs first, with 0
# 45, with 2 50; of 214 for known ones 144, 145 and 139 were right (demo, development half)
NEWER = 1.0
NEVER = -1e4  # of a logit
LONGEST_LIST = 5  # tools
WEIGHTS = "model.safetensors"


class Reader:
    """The encoder's tokenizer: requests as ids, and what of a request is not read."""

    def __init__(self, words: Any, longest: int) -> None:
        self.words, self.longest = words, longest
        self.pad_id = int(words.pad_token_id or 0)
        self.scripts = readable_scripts(words.get_vocab())
        # many threads read at once, and `words` changes how it cuts and pads with each call
        self._pieces = deepcopy(words.backend_tokenizer)
        self._pieces.no_truncation()
        self._pieces.no_padding()
        self._pieces.encode_special_tokens = True  # `[SEP]` in a request is text

    def ids(self, text: str) -> list[int]:
        """Of a text that is too long its beginning, and the mark of its end."""
        found = self._whole(text)
        return found if len(found) <= self.longest else [*found[: self.longest - 1], found[-1]]

    def is_cut(self, text: str) -> bool:
        return len(self._whole(text)) > self.longest

    def _whole(self, text: str) -> list[int]:
        found: list[int] = self._pieces.encode(text).ids
        return found

    def unread(self, query: str) -> list[str]:
        """The words that the encoder cannot read: those with letters of a script in which its vocabulary has no words,
        and those of which it only knows that they are unknown.

        Other languages in the encoder's script are not found. How finely words fall apart does not tell them from
        English: into three or more pieces fall 13 to 50 % of the words of German and French requests, and up to 45 %
        of English ones with names and codes (default encoder, 12 requests).
        """
        unknown = self.words.unk_token_id
        any_unknown = unknown in self._whole(query)
        return [
            word
            for word in request_words(query)
            if scripts_of(word) - self.scripts or (any_unknown and unknown in self._whole(word))
        ]


@dataclass(frozen=True, eq=False)
class Board:
    """What the rows stand for; -1 fills what is shorter than the longest."""

    tools: Tensor  # [tools, tokens]: rows of the tokens that name a tool
    clauses: Tensor  # [clauses]: rows of the clauses that may speak
    rules: Tensor  # [clauses]: number of a clause's rule
    sets: Tensor  # [rules, most]: T(r), the tools that a rule tells apart
    leads: Tensor  # [clauses, most]: tools that a clause leads to
    extra: Tensor  # [clauses]: what is added to its logit
    newer: Tensor  # [tools]: the same of a tool that no training has seen

    @classmethod
    def of(cls, spec: Mapping[str, Any], extra: Mapping[str, float] | None = None) -> "Board":
        """From what trace.json says of tools {"name", "ids"} and clauses {"token", "row", "rule", "tools", "set"}; a
        clause none of whose tools is there does not count. `extra`: by token."""
        numbers = {tool["name"]: number for number, tool in enumerate(spec["tools"])}
        clauses = [one for one in spec["clauses"] if any(name in numbers for name in one["tools"])]
        sets = {(one["domain"], one["rule"]): one["set"] for one in clauses}
        order = {rule: number for number, rule in enumerate(sets)}
        known = [[numbers[name] for name in found if name in numbers] for found in sets.values()]
        leads = [[numbers[name] for name in one["tools"] if name in numbers] for one in clauses]
        return cls(
            padded([tool["ids"] for tool in spec["tools"]], -1, 1),
            torch.tensor([one["row"] for one in clauses], dtype=torch.long),
            torch.tensor([order[one["domain"], one["rule"]] for one in clauses], dtype=torch.long),
            padded(known, -1, 1),
            padded(leads, -1, 1),
            torch.tensor([(extra or {}).get(one["token"], 0.0) for one in clauses]),
            torch.tensor([NEWER if tool.get("newer") else 0.0 for tool in spec["tools"]]),
        )

    def to(self, device: torch.device) -> "Board":
        return replace(self, **{name: value.to(device) for name, value in vars(self).items()})


def together(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """[rows, longest] ids, padded on the right, and which of them are real."""
    ids, lengths = padded(rows, pad, 1), torch.tensor([len(row) for row in rows])
    return ids, torch.arange(ids.shape[1]) < lengths[:, None]


class Rows(NamedTuple):
    """Of length 1."""

    tools: Tensor  # [tools, width]
    clauses: Tensor  # [clauses, width]


class Logits(NamedTuple):
    tools: Tensor  # [n, tools], by the tools' own rows
    clauses: Tensor  # [n, clauses]


class Joint(NamedTuple):
    """Log-probabilities of a decision and a tool together: that no rule speaks, [n, tools]; that a clause does, of its
    tools, [n, clauses, most]."""

    free: Tensor
    ruled: Tensor
    shares: Tensor  # [n, clauses]: log-probability that this clause speaks


class Pocket(nn.Module):
    """An encoder and its rows. `tokens`: [tool tokens, width], `clauses`: [clause tokens, width], in ledger order."""

    def __init__(self, encoder: Any, tokens: int, clauses: int) -> None:
        super().__init__()
        self.encoder = encoder
        width = encoder.config.hidden_size
        self.tokens = nn.Parameter(torch.zeros(tokens, width))
        self.clauses = nn.Parameter(torch.zeros(clauses, width))
        self.scale = nn.Parameter(torch.tensor(SCALE).log())
        self.margin = nn.Parameter(torch.tensor(MARGIN * SCALE))
        self.length = nn.Linear(width, LONGEST_LIST)  # how many tools a request wants
        nn.init.zeros_(self.length.weight)
        nn.init.zeros_(self.length.bias)

    @property
    def device(self) -> torch.device:
        return self.scale.device

    def read(self, ids: Tensor, real: Tensor) -> Tensor:
        """[n, length] ids -> [n, width]: the mean of the encoder's states, of length 1. `real`: False on padding."""
        states = self.encoder(input_ids=ids, attention_mask=real.long()).last_hidden_state.float()
        mean = (states * real[..., None]).sum(dim=1) / real.sum(dim=1, keepdim=True)
        return functional.normalize(mean, dim=-1)

    def tool_rows(self, board: Board) -> Tensor:
        """[tools, width], length 1: of a tool's tokens together."""
        rows = functional.normalize(self.tokens, dim=-1)
        if board.tools.shape[1] == 1:
            return rows[board.tools[:, 0]]
        parts = rows[board.tools.clamp(min=0)] * (board.tools >= 0)[..., None]
        return functional.normalize(parts.sum(dim=1), dim=-1)

    def rows(self, board: Board) -> Rows:
        return Rows(self.tool_rows(board), functional.normalize(self.clauses[board.clauses], dim=-1))

    def logits(
        self, reading: Tensor, board: Board, hidden: Tensor | None = None, rows: Rows | None = None
    ) -> Logits:
        """`hidden`: [n, tools], True for those that may not be named. `rows`: the board's, where they are known."""
        scale, rows = self.scale.exp(), rows or self.rows(board)
        tools = scale * (reading @ rows.tools.T) + board.newer
        if hidden is not None:
            tools = tools.masked_fill(hidden, NEVER)
        if not len(board.clauses):
            return Logits(tools, tools[:, :0])
        own = scale * (reading @ rows.clauses.T)
        padded = functional.pad(tools, (0, 1), value=NEVER)
        leads_nowhere = (padded[:, board.leads] <= NEVER).all(dim=-1)
        own = own.masked_fill(leads_nowhere, NEVER)
        rules = board.rules.expand(len(reading), -1)
        best = own.new_full((len(reading), len(board.sets)), NEVER).scatter_reduce(1, rules, own, "amax")
        near = torch.maximum(padded[:, board.sets].amax(dim=-1), best)
        clauses = (near - best).gather(1, rules) + own + self.margin + board.extra
        return Logits(tools, clauses.masked_fill(leads_nowhere, NEVER))

    def joint(self, found: Logits, board: Board, settings: Settings) -> Joint:
        """`settings.bar`: how much likelier the clauses together must be than the tools, because samples speak of
        rules more often than requests do. The tools that the likeliest clause's rule tells apart speak for it as
        little as against it."""
        free = found.tools.log_softmax(dim=-1)
        if not found.clauses.shape[1]:
            return Joint(free, found.tools.new_zeros(*found.clauses.shape, 1), found.clauses)
        padded = functional.pad(found.tools, (0, 1), value=NEVER)
        told_apart = board.sets[board.rules[found.clauses.argmax(dim=-1)]]  # -1 is the padding
        others = padded.scatter(1, told_apart.where(told_apart >= 0, found.tools.shape[1]), NEVER)
        lead = found.clauses.logsumexp(dim=-1) - others.logsumexp(dim=-1)
        speaks = lead - settings.bar
        shares = found.clauses.log_softmax(dim=-1) + functional.logsigmoid(speaks)[:, None]
        shares = shares.masked_fill(found.clauses <= NEVER, NEVER)
        of_tools = padded[:, board.leads].log_softmax(dim=-1)
        return Joint(free + functional.logsigmoid(-speaks)[:, None], shares[..., None] + of_tools, shares)


def save(model: Pocket, reader: Reader, folder: Path) -> None:
    """The encoder's configuration and tokenizer, and all weights in one file."""
    model.encoder.config.save_pretrained(folder)
    reader.words.save_pretrained(folder)
    state = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    save_file(state, folder / WEIGHTS)


def load(folder: Path, longest: int) -> tuple[Pocket, Reader]:
    """Raises TraceError `bad_export` where a tensor is missing or has another shape."""
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    words = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    state = load_file(folder / WEIGHTS)
    try:
        model = Pocket(
            AutoModel.from_config(config, add_pooling_layer=False),
            len(state["tokens"]),
            len(state["clauses"]),
        )
        model.load_state_dict(state)
    except (KeyError, RuntimeError) as error:  # RuntimeError: torch's word for other names and shapes
        raise TraceError(
            "the weights are not those of a pocket model of this version.",
            code="bad_export",
            where=str(folder),
            hint="Train the model again.",
            permanent=True,
        ) from error
    return model.eval(), Reader(words, longest)
