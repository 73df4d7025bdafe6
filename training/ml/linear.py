"""A fitted start of the pocket model: the best linear classifier of the requests, written into its weights.

In: a fresh pocket model that copies what it reads (ml/pocket.py), the requests of its stage with their tools, the
tools' descriptions. Out: tables and first layer set in place. Words count by their rarity; of each tool token it is
asked apart whether it belongs to a request, with a squared hinge and an L2 penalty, as LIBLINEAR's default does (Fan et
al. 2008). That problem is convex: it has one solution, found in seconds. A model started so already retrieves; on
MetaTool more than a very gentle training lost some of that again, see recipes/pocket-benchmark.yaml.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from training.core.parts import Record, Units
from training.core.records import Snapshot
from training.ml.chat import Chat
from training.ml.initial import unit_texts
from training.ml.model import Trainee

METHOD = "fitted: the best linear classifier of the requests and the descriptions by their words"
PENALTY = 1.0  # LIBLINEAR's C
STEPS = 40  # of L-BFGS; 120 gave 0.833 on the held-out tenth of MetaTool where 40 gave 0.835
UNITS_AT_ONCE = 1024  # each tool token is a problem of its own, so blocks of them bound the memory
OWN_SHARE = 6  # one in so many dimensions tells words apart; the others hold the classifier
OWN_LENGTH = 0.3  # of a word's own part, as a share of a row's usual length
LOUD = 0.5  # length of the classifier's part of a loud word (the 90th percentile), in the same measure
TOOL_LENGTH = 2.5  # of a tool token's output row: its logit then stands out among thousands of words
NOISE = 0.05  # what stays of the random start of the first layer's copying weights
TURN = (
    8.0  # length of what a token of the answer's form says about its successor; the copied words have about 3
)
STD = 0.02  # of the random start of a row's numbers, by which its usual length is meant


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests as bags of words, in the layout of a sparse matrix, and their tool tokens."""

    words: Tensor  # ids of the text tokens, request after request, each once
    starts: Tensor  # [requests + 1]
    wanted: list[list[int]]  # tool-token ids of each request


def fitted_start(trainee: Trainee, records: Iterable[Record], snapshot: Snapshot, fmt: str) -> None:
    """Set the tables and the first layer of a fresh pocket model from what its stage will be asked."""
    records = list(records)
    found = _requests(trainee.chat, records, unit_texts(snapshot, fmt))
    units = sorted({unit for wanted in found.wanted for unit in wanted})
    model: Any = trainee.model
    rows = model.get_input_embeddings().weight.shape[0]
    says = fit(found, rows, units)
    _write(model, trainee.text_ids, units, says, _form(trainee.chat, records, set(units)))
    trainee.token_init = METHOD


def _form(chat: Chat, records: Iterable[Record], units: set[int]) -> dict[int, list[int]]:
    """What an answer's form wants next, whatever the request: each such token, and those it mostly follows."""
    after: dict[int, Counter[int]] = {}
    for record in records:
        answer = [chat.empty_ids[-1], *chat.parts_ids(record.answer), *chat.end_ids]
        for one, other in pairwise(answer):
            after.setdefault(one, Counter())[other] += 1
    found: dict[int, list[int]] = {}
    for one, others in sorted(after.items()):
        other, times = others.most_common(1)[0]
        if other not in units and 2 * times > others.total():
            found.setdefault(other, []).append(one)
    return found


def _requests(chat: Chat, records: Iterable[Record], about: dict[str, str]) -> Requests:
    """Every different request with the tokens of its answer; a tool's description asks for the tool."""
    asked = {
        (
            " ".join(part for part in record.prompt if isinstance(part, str)),
            tuple(name for part in record.answer if isinstance(part, Units) for name in part.strings),
        )
        for record in records
    }
    pairs = sorted(asked) + [(text, (string,)) for string, text in about.items()]
    bags = [sorted(set(chat.text_ids(text))) for text, _ in pairs]
    lengths = torch.tensor([0, *map(len, bags)])
    words = torch.tensor([word for bag in bags for word in bag])
    return Requests(words, lengths.cumsum(0), [chat.unit_ids(names) for _, names in pairs])


def fit(found: Requests, rows: int, units: list[int]) -> Tensor:
    """[rows, units]: what a word says for a tool token, rarity included.

    A request's score is the sum over its words divided by their length as a vector; wanted tokens are to reach 2, all
    others 0, so that no token needs a bias.
    """
    count = len(found.starts) - 1
    known = torch.bincount(found.words, minlength=rows)
    rarity = 1 + torch.log((count + 1) / (known + 1))
    values = rarity[found.words]
    place = torch.repeat_interleave(torch.arange(count), found.starts.diff())
    length = torch.zeros(count).index_add_(0, place, values.square()).sqrt()
    cells = torch.stack([place, found.words])
    shape = (count, rows)
    bags = torch.sparse_coo_tensor(cells, values / length[place], shape, check_invariants=True).coalesce()
    column = {unit: number for number, unit in enumerate(units)}
    at = torch.tensor([(row, column[unit]) for row, wanted in enumerate(found.wanted) for unit in wanted]).T
    back = bags.t().coalesce()
    pieces = []
    for start in range(0, len(units), UNITS_AT_ONCE):
        size = min(UNITS_AT_ONCE, len(units) - start)
        here = at[:, (at[1] >= start) & (at[1] < start + size)]
        pieces.append(_fit(bags, back, (here[0], here[1] - start), size))
    return torch.cat(pieces, dim=1) * rarity[:, None]


def _fit(bags: Tensor, back: Tensor, wanted: tuple[Tensor, Tensor], size: int) -> Tensor:
    weights = torch.zeros(bags.shape[1], size)
    search = torch.optim.LBFGS(
        [weights], max_iter=STEPS, history_size=8, line_search_fn="strong_wolfe", tolerance_grad=1e-4
    )

    def loss() -> Tensor:
        scores = bags @ weights
        short = (2 - scores[wanted]).clamp(min=0)
        over = scores.clamp_(min=0)
        over[wanted] = 0
        slope = 2 * over
        slope[wanted] = -2 * short
        weights.grad = weights + PENALTY * (back @ slope)
        return 0.5 * weights.square().sum() + PENALTY * (over.square().sum() + short.square().sum())

    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        search.step(loss)
    return weights


def _write(
    model: Any, text_ids: tuple[int, int], units: list[int], says: Tensor, form: dict[int, list[int]]
) -> None:
    """Words as rows, tool tokens as directions.

    The first coordinates are not copied by the first layer. One is a loud constant in every input row: layer norm makes
    all rows equally long, and beside the constant a word that says little stays quiet. The others, one for each token
    of the answer's form, say that it comes next. Some dimensions tell words apart and nothing else; with more tool
    tokens than the rest can hold, their directions are random ones, nearly at right angles.
    """
    low, first = text_ids
    table, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    rows, width = table.shape
    usual = STD * width**0.5
    still = 1 + len(form)
    free = width - still
    rank = min(len(units), free - width // OWN_SHARE)
    tools = torch.eye(rank)
    if rank < len(units):
        tools = torch.nn.functional.normalize(torch.randn(len(units), rank), dim=1)
    words = says @ tools
    basis = torch.linalg.qr(torch.randn(free, free))[0]
    own = torch.nn.functional.normalize(torch.randn(rows, free - rank), dim=1) @ basis[:, rank:].T * usual
    heard = words[low:first].norm(dim=1)
    loud = LOUD * usual / heard[heard > 0].quantile(0.9)
    said = torch.zeros(rows, free)
    said[low:first] = words[low:first] @ basis[:, :rank].T * loud
    ids = torch.tensor(units)
    with torch.no_grad():
        for weight in (table, head):
            weight[:, :still] = 0
        table[:, 0], table[:, still:] = usual, said + OWN_LENGTH * own
        head[:, still:] = own
        directions = TOOL_LENGTH * tools @ basis[:, :rank].T
        head[first:, still:] = directions.mean(dim=0)
        head[ids, still:] = directions
        for place, (following, tokens) in enumerate(sorted(form.items()), start=1):
            table[tokens, place] = TURN
            head[following, place] = 1
        layer = model.model.layers[0].self_attn
        for linear in (layer.v_proj, layer.o_proj):
            same = torch.eye(width)
            linear.weight.copy_(same + NOISE * (linear.weight - same))
        layer.v_proj.weight[:, :still] = 0
        layer.q_proj.weight.mul_(NOISE)
        if hasattr(layer, "q_norm"):
            layer.q_norm.weight.mul_(NOISE)
