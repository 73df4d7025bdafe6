"""Serving a Gemma-4-E4B-shaped random model on one GPU: our engine's forwards beside those of transformers.

    python -m bench.e4b_serving [--only decode static fast guesses] [--rows 1 32 256] [--pairs 3] [--toy]

decode    300 tokens after 200, 1, 32 and 256 at a time: `Contexts` against `generate` with its dynamic cache (goal
          a4 of the project's performance targets)
static    the same with its static cache, which compiles its forward for minutes; one size of `--rows` a process, for on
          torch 2.11 it ended in an illegal memory access where graphs of other sizes had been recorded before
fast      the ten best of 8,283 tools after 150 tokens, a token a tool and wrapped, 1 and 32 requests at a time: our
          search against `generate(num_beams=10, prefix_allowed_tokens_fn=...)` (a5); neither has read any of the prompt
guesses   what a forward costs that checks 1 to 32 tokens each of 1, 8 and 32 requests (a6)

Both sides run in turn in one process after a warm-up, in which graphs are recorded and forwards compiled; their answers
are compared before times are shown. Beside each line stands its floor: the greater of weights, keys and values over the
memory's rate and of products over the processor's rate, both measured here. Random weights write nonsense, but a token
costs what it costs. They know no wrapping either, so no bound ends that search: it ends after as many nodes as a
trained model opens, and only its time counts. The last norm is scaled so that few tokens are near ties; in bf16 these
fall either way, so equal answers are counted there and asked for in a toy only. Without a GPU nothing is claimed;
`--toy` runs everything at toy size on the CPU.
"""

import argparse
import copy
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from bench import e4b
from bench.accelerator import peak_flops, synchronize
from bench.measure import NOISE, Pairs, machine
from evaluation.ml import trie
from evaluation.ml.contexts import Context, Contexts, Tree
from evaluation.ml.fused import fuse
from evaluation.ml.graphs import AGAIN
from evaluation.ml.search import Search, top_k
from training.ml.bases.named import device

READ, WRITTEN, ASKED, TOOLS = 200, 300, 150, 8283
TOY = {"READ": 20, "WRITTEN": 12, "ASKED": 15, "TOOLS": 30}
WIDTH = 10  # tools of an answer
SURE = 8.0  # standard deviation of the logits
OPENED = 40  # nodes, the most that a trained model opens for a request (evaluation/ml/search.py)
Prompts = list[list[int]]
Found = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    model: Any  # as transformers has it
    served: Any  # as we serve it; the weights are the same tensors
    weights: float  # bytes that every forward reads
    products: float  # floating-point operations of a token, and of its place in the head
    headless: float  # ... without the head
    kept: float  # bytes of keys and values that a token before costs each forward, in all layers
    rate: float  # bytes a second
    speed: float  # operations a second
    toy: bool
    pairs: int
    rows: list[int]  # requests at a time in decode; none: of the goals
    read: int = READ
    written: int = WRITTEN
    asked: int = ASKED
    tools: int = TOOLS

    @property
    def text(self) -> int:
        """The first token of a tool."""
        return e4b.rows(self.toy)[0]

    def prompts(self, count: int, length: int) -> Prompts:
        chance = random.Random(0)
        return [[chance.randrange(3, self.text) for _ in range(length)] for _ in range(count)]

    def floor(self, rows: int, tokens: int, before: int, heads: int | None = None) -> float:
        """Seconds of one forward of `tokens` a row after `before`; `heads`: places a row that reach the head."""
        heads = tokens if heads is None else heads
        bytes_read = self.weights + rows * before * self.kept
        done = rows * (tokens * self.headless + heads * (self.products - self.headless))
        return max(bytes_read / self.rate, done / self.speed)


def bandwidth() -> float:
    """Bytes a second, read and written, of a copy."""
    source = torch.ones((2**30 if torch.cuda.is_available() else 2**24), device=device())
    target = torch.empty_like(source)
    best = min(timed(lambda: target.copy_(source)) for _ in range(8))
    return 2 * source.numel() * source.element_size() / best


def timed(side: Callable[[], object]) -> float:
    synchronize()
    started = time.perf_counter()
    side()
    synchronize()
    return time.perf_counter() - started


def build(toy: bool, pairs: int, rows: list[int]) -> Bench:
    model, body, head = e4b.shaped(device(), toy)
    model.eval()
    model.generation_config.eos_token_id = None  # every answer has the same length
    text = model.config.get_text_config()
    size = model.get_input_embeddings().weight.element_size()
    with torch.no_grad():
        model.model.norm.weight.mul_(SURE / (text.hidden_size**0.5 * text.initializer_range))
    shape: dict[str, Any] = e4b.TOY if toy else e4b.SHAPE
    wide = {"sliding_attention": shape["head_dim"], "full_attention": shape["global_head_dim"]}
    kept = sum(2 * shape["num_key_value_heads"] * wide[kind] for kind in text.layer_types) * size
    sizes = {name.lower(): value for name, value in TOY.items()} if toy else {}
    served = copy.deepcopy(model, {id(weight): weight for weight in model.parameters()})
    fuse(served)
    facts = ((body + head) * size, 2 * (body + head), 2 * body, kept, bandwidth(), peak_flops())
    return Bench(model, served, *facts, toy, pairs, rows, **sizes)


def in_turn(bench: Bench, ours: Callable[[], object], theirs: Callable[[], object]) -> Pairs:
    """Seconds of A/B/A after both were warmed up by their caller."""
    rounds = [[timed(side) for side in (ours, theirs, ours)] for _ in range(bench.pairs)]
    return Pairs(*([turn[side] for turn in rounds] for side in range(3)))


def peak() -> str:
    if not torch.cuda.is_available():
        return "memory not measured"
    found = f"{torch.cuda.max_memory_allocated() / 1e9:.1f} GB at most"
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return found


def line(name: str, pairs: Pairs, floor: float, unit: float, what: str) -> Found:
    """`unit`: how many of `what` one turn makes."""
    seconds = statistics.median(pairs.ours)
    low, high = pairs.interval()
    print(
        f"{name}: ours {unit / seconds:,.1f} {what} ({1e3 * seconds:,.2f} ms), theirs"
        f" {unit / statistics.median(pairs.theirs):,.1f}, {1 / pairs.ratio:.2f}x [{1 / high:.2f}, {1 / low:.2f}];"
        f" floor {1e3 * floor:,.2f} ms, {floor / seconds:.0%} of it reached; A/A {pairs.noise:.1%}; {peak()}",
        flush=True,
    )
    return {"name": name, "seconds": seconds, "rate": unit / seconds, "floor": floor} | {
        "times": 1 / pairs.ratio,
        "noise": pairs.noise,
    }


def goal(found: Found, wanted: str, met: bool) -> bool:
    if found["noise"] > NOISE:
        print(f"  {wanted}: no verdict, A/A differs by more than {NOISE:.0%}")
        return False
    print(f"  {wanted}: {'yes' if met else 'NO'}")
    return met


# decode: tokens one by one


def decode(bench: Bench, cache: str | None = None) -> list[bool]:
    verdicts = []
    for rows in bench.rows or ((1, 4) if bench.toy else (1, 32, 256)):
        contexts, prompts = Contexts(bench.served, 0, fixed=True), bench.prompts(rows, bench.read)
        ours = partial(written, contexts, prompts, bench.written)
        theirs = partial(generated, bench, prompts, cache)
        for _ in range(AGAIN):
            plain = ours()
        floor = bench.floor(rows, bench.read, 0, 1)
        floor += sum(bench.floor(rows, 1, bench.read + at) for at in range(1, bench.written))
        name = (
            f"decode, {rows} at a time, {bench.written} tokens after {bench.read}, {cache or 'dynamic'} cache"
        )
        try:
            compare(bench, plain, theirs())
            pairs = in_turn(bench, ours, theirs)
        except (RuntimeError, ValueError, ImportError) as error:  # no memory, or no compiler
            print(f"{name}: theirs failed, {str(error).splitlines()[0]}")
            return [*verdicts, False]  # the GPU may answer nothing more
        found = line(name, pairs, floor, rows * bench.written, "tokens a second")
        verdicts += [] if cache or bench.toy else decode_goals(rows, found, bench)
        del contexts, ours
    return verdicts


def written(contexts: Contexts, prompts: Prompts, count: int) -> Prompts:
    """Greedily, as the engine feeds them."""
    asked, scores = contexts.admit(prompts)
    columns = [scores.best]
    while len(columns) < count:
        scores = contexts.feed(asked, [[token] for token in columns[-1]])
        columns.append(scores.best)
    contexts.drop(asked)
    return [list(row) for row in zip(*columns, strict=True)]


def generated(bench: Bench, prompts: Prompts, cache: str | None) -> Prompts:
    ids = torch.tensor(prompts, device=device())
    options = {"cache_implementation": cache} if cache else {}
    made = bench.model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=bench.written,
        do_sample=False,
        pad_token_id=0,
        **options,
    )
    found: Prompts = made[:, ids.shape[1] :].tolist()
    assert {len(row) for row in found} == {bench.written}
    return found


def compare(bench: Bench, ours: Sequence[Any], theirs: Sequence[Any]) -> None:
    same = sum(a == b for a, b in zip(ours, theirs, strict=True))
    print(f"{same} of {len(ours)} answers are equal", end="; ")
    assert same == len(ours) or not bench.toy or torch.cuda.is_available(), "a toy in float32 answers alike"


def decode_goals(rows: int, found: Found, bench: Bench) -> list[bool]:
    if rows == 1:
        each = 1e3 * found["seconds"] / bench.written
        return [
            goal(found, "<= 4.3 ms a token", each <= 4.3),
            goal(found, ">= 4x generate", found["times"] >= 4),
        ]
    least = {32: 6_300, 256: 20_000}[rows]
    return [goal(found, f">= {least:,} tokens a second", found["rate"] >= least)]


# fast: the ten best tools


def fast(bench: Bench) -> list[bool]:
    verdicts = []
    flat = [[bench.text + at] for at in range(bench.tools)]
    for kind, tools in (("a token a tool", flat), ("wrapped", wrapped(bench))):
        root = trie.build(tools)
        for rows in (1, 4) if bench.toy else (1, 32):
            contexts = Contexts(bench.served, 0, fixed=True)
            prompts = bench.prompts(rows, bench.asked)
            ids, depth = torch.tensor(prompts, device=device()), len(tools[0])
            ours = partial(ranked, contexts, prompts, root, None if depth == 1 else OPENED)
            theirs = partial(beams, bench.model, ids, root, depth, 0)
            for _ in range(AGAIN):
                found = [[tools[at] for at in row] for row in ours()]
            if depth == 1:
                compare(bench, found, theirs())
            floor = bench.floor(rows, bench.asked, 0, 1)
            if depth > 1:  # and one forward more, of the common beginning and an API at least
                floor += bench.floor(rows, 2, bench.asked)
            name = f"fast, {kind}, {rows} at a time"
            seen = line(name, in_turn(bench, ours, theirs), floor, rows, "requests a second")
            if not bench.toy:
                verdicts.append(goal(seen, ">= 50x beams", seen["times"] >= 50))
                if rows == 1:
                    verdicts.append(goal(seen, "<= 15 ms", seen["seconds"] <= 0.015))
                else:
                    verdicts.append(goal(seen, ">= 300 requests a second", seen["rate"] >= 300))
            del contexts, ours
    return verdicts


def beams(
    model: Any, prompts: torch.Tensor, root: trie.Node, depth: int, pad_id: int
) -> list[list[list[int]]]:
    """The tokens of the ten tools that transformers' beam search finds for each prompt, prompts being equally long."""
    size = prompts.shape[1]

    def allowed(_: int, ids: torch.Tensor) -> list[int]:
        node = root
        for token in ids[size:].tolist():
            if token not in node.children:
                return [pad_id]
            node = node.children[token]
        return list(node.children) or [pad_id]

    written = model.generate(
        prompts,
        attention_mask=torch.ones_like(prompts),
        num_beams=WIDTH,
        num_return_sequences=WIDTH,
        max_new_tokens=depth,
        prefix_allowed_tokens_fn=allowed,
        do_sample=False,
        eos_token_id=None,
    )
    found: list[list[list[int]]] = written[:, size:].unflatten(0, (len(prompts), WIDTH)).tolist()
    return found


def ranked(contexts: Contexts, prompts: Prompts, root: trie.Node, most: int | None) -> list[list[int]]:
    """As the engine answers `fast`."""
    asked, scores = contexts.admit(prompts)
    found = top_k(contexts, asked, scores, [Search(root, WIDTH, most=most) for _ in asked])
    contexts.drop(asked)
    return [[tool for tool, _ in top.ranking] for top in found]


def wrapped(bench: Bench) -> Prompts:
    """Each tool as an opening token, its API, its own token, a closing one."""
    first, apis = bench.text, e4b.rows(bench.toy)[1] - bench.tools - 2
    own = first + 2 + apis
    return [[first, first + 2 + at % apis, own + at, first + 1] for at in range(bench.tools)]


# guesses: several tokens of a request in one forward


def guesses(bench: Bench) -> list[bool]:
    verdicts = []
    free = bench.speed * bench.weights / bench.rate / bench.products
    print(f"{free:.0f} tokens a forward are free by the measured rates")
    for rows in (1, 4) if bench.toy else (1, 8, 32):
        contexts = Contexts(bench.served, 0, fixed=True)
        asked, _ = contexts.admit(bench.prompts(rows, bench.read))
        for count in (1, 2) if bench.toy else (1, 4, 8, 16, 32):
            one, several = (partial(checked, contexts, asked, size) for size in (1, count))
            for _ in range(AGAIN):
                one(), several()
            rounds = [[timed(side) for side in (one, several, one)] for _ in range(7 * bench.pairs)]
            cost = statistics.median(b / a for a, b, _ in rounds)
            noise = abs(statistics.median(c / a for a, _, c in rounds) - 1)
            print(
                f"guesses, {count} tokens each of {rows}: {1e3 * statistics.median(b for _, b, _ in rounds):.2f} ms,"
                f" {cost:.2f}x one; floor {1e3 * bench.floor(rows, count, bench.read):.2f} ms; A/A {noise:.1%}",
                flush=True,
            )
            if rows * count <= free and not bench.toy:
                verdicts.append(goal({"noise": noise}, "<= 1.25x one token", cost <= 1.25))
        del contexts, one, several
    return verdicts


def checked(contexts: Contexts, asked: list[Context], count: int) -> list[int]:
    """A forward over a guess, and what the model would have written."""
    scores, _ = contexts.look(asked, [Tree.chain(range(3, 3 + count))] * len(asked))
    return scores.best


PARTS = {"decode": decode, "static": partial(decode, cache="static"), "fast": fast, "guesses": guesses}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[], help="requests at a time in decode and static"
    )
    parser.add_argument("--toy", action="store_true", help="toy size, on the CPU too; claims nothing")
    options = parser.parse_args()
    if not options.toy and not torch.cuda.is_available():
        print("There is no GPU here, so there is nothing to claim. --toy runs the same at toy size.")
        return 2
    if options.toy:
        torch.set_num_threads(1)  # on so little work threads only wait for each other
    print(torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU, toy size: no claim")
    bench = build(options.toy, 1 if options.toy else options.pairs, options.rows)
    print(
        f"{machine() if not options.toy else 'no probe'}; copy {bench.rate / 1e9:,.0f} GB/s, products"
        f" {bench.speed / 1e12:.3g} TFLOP/s; a forward reads {bench.weights / 1e9:.3g} GB and"
        f" {bench.kept / 1e3:.3g} kB for each token before, {bench.products / 1e9:.3g} GFLOP a token",
        flush=True,
    )
    verdicts = [met for name in options.only for met in PARTS[name](bench)]
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
