"""The engine beside what it is measured against, both sides in turn in one process, outputs compared before times.

    python -m tests.bench.engine fast EXPORT          exact top 10 against generate(num_beams=10) over the same tools
    python -m tests.bench.engine exact EXPORT         top 10 of random requests against the scores of all tools
    python -m tests.bench.engine select               ten tools of a vocabulary of 270,000, 320 rows, against a
                                                      processor as ToolGen's and transformers' own
    python -m tests.bench.engine guesses EXPORT       traces with and without guesses: calls, time, equal tokens
    python -m tests.bench.engine letters EXPORT       lettered questions, one forward against one a choice
    python -m tests.bench.engine bootstrap            confidence intervals against lm-evaluation-harness's way
    python -m tests.bench.engine batches EXPORT       the same requests one by one and 32 at a time: equal answers
    python -m tests.bench.engine mask EXPORT          what holding a list to tools costs; tools outside the catalog
    python -m tests.bench.engine port EXPORT [TREE]   1, 8 and 16 clients of the port; TREE: another checkout

EXPORT is the folder of a language model; `batches` and `port` also take a pocket. Requests:
tests/bench/dev_requests.jsonl, which no benchmark holds and no rule is about, or `--file`. Every line states what it is
of; the first one states the machine.
"""

import argparse
import dataclasses
import http.client
import json
import os
import random
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from multiprocessing import Pool
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from transformers import LogitsProcessor, PrefixConstrainedLogitsProcessor

from evaluation.core.asking import Stored
from evaluation.core.questions import mcq_question
from evaluation.core.stats import bootstrap_table
from evaluation.ml import trie
from evaluation.ml.drafts import Drafts
from evaluation.ml.engine import Engine, open_engine
from evaluation.ml.write import ListWriter
from tests.bench.measure import in_turn, machine
from trace_site.lib.store import Store

REQUESTS = Path(__file__).with_name("dev_requests.jsonl")
THREADS = 2
WIDTH = 10
Item = dict[str, Any]


def requests(count: int, path: Path = REQUESTS) -> list[Item]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [{"id": str(at), "query": row["query"]} for at, row in enumerate(rows[:count])]


def predicted(engine: Engine, items: Sequence[Item], decode: str, k: int = WIDTH) -> dict[str, Item]:
    return {row["id"]: row for batch in engine.predict(items, decode, k) for row in batch}


def print_pairs(ours: Callable[[], object], theirs: Callable[[], object], name: str, pairs: int = 7) -> None:
    processor, wall = in_turn(ours, theirs, pairs)
    print(processor.line(f"{name}, processor"), f"= {1 / processor.ratio:.1f}x")
    print(wall.line(f"{name}, wall"), f"= {1 / wall.ratio:.1f}x")


# fast: exact search against beams


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


def fast(args: argparse.Namespace) -> None:
    engine = open_engine(args.export, THREADS)
    export, items = engine.export, requests(args.requests)
    chat = export.chat
    lead = [*chat.empty_ids, *chat.list_open_ids]

    names = {tuple(tool["ids"]): tool["name"] for tool in export.spec["tools"]}
    depth = len(export.spec["tools"][0]["ids"])

    def by_beams() -> list[list[str]]:
        found = []
        for item in items:
            prompt = torch.tensor([[*export.ids_of(item, "fast"), *lead]])
            (written,) = beams(export.model, prompt, export.root, depth, chat.pad_id)
            found.append([names.get(tuple(ids), "?") for ids in written])
        return found

    ours = [predicted(engine, [item], "fast")[item["id"]]["tools"] for item in items]
    theirs = by_beams()
    same = sum(a == b for a, b in zip(ours, theirs, strict=True))
    print(
        f"{len(export.names):,} tools, format {export.spec['format']}, {len(items)} requests one by one;",
        end=" ",
    )
    print(f"beams found the exact top {WIDTH} of {same}")
    print_pairs(
        lambda: [predicted(engine, [item], "fast") for item in items],
        by_beams,
        "fast against 10 beams",
        args.pairs,
    )


# exact: every tool scored


def exact(args: argparse.Namespace) -> None:
    """A request is a few words of real ones, in any order. Every tool's tokens are read after it, as one tree."""
    engine, rng = open_engine(args.export, THREADS), random.Random(0)
    export = engine.export
    words = sorted({word for item in requests(1000) for word in item["query"].split()})
    items = [
        {"id": str(at), "query": " ".join(rng.choices(words, k=rng.randint(1, 24)))}
        for at in range(args.requests)
    ]
    lead = [*export.chat.empty_ids, *export.chat.list_open_ids]
    paths = [tool["ids"] for tool in export.spec["tools"]]
    beginnings = [path[:size] for path in paths for size in range(1, len(path))]
    contexts, tools, apart = export.contexts(), 0, 0.0
    for row in predicted(engine, items, "fast").values():
        (context,), first = contexts.admit([[*export.ids_of(items[int(row["id"])], "fast"), *lead]])
        scores = np.array([first.of(0, path[:1])[0] for path in paths])
        if beginnings:
            seen, _ = contexts.after([context], [beginnings])
            at = 0
            for number, path in enumerate(paths):
                for token in path[1:]:
                    scores[number] += seen.of(at, [token])[0]
                    at += 1
        contexts.drop([context])
        best = np.argsort(-scores, kind="stable")[:WIDTH]
        tools += [export.names[tool] for tool in best] == row["tools"]
        apart = max(apart, float(np.abs(scores[best] - row["scores"]).max()))
    print(
        f"{len(paths):,} tools, format {export.spec['format']}, {len(items)} random requests:"
        f" {tools} with the same top {WIDTH}, scores at most {apart:.1e} apart"
    )


# select: the ten best of the valid tokens


class ToolGenProcessor(LogitsProcessor):
    """As github.com/Reason-Wang/ToolGen does it: the prefix as a list, a dictionary walk, a mask as wide as the
    vocabulary, for each row."""

    def __init__(self, tree: dict[int, Any]) -> None:
        self.tree = tree

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        for row, ids in enumerate(input_ids):
            node = self.tree
            for token in ids.tolist():
                node = node[token]
            mask = torch.ones(scores.shape[-1], dtype=torch.bool)
            mask[list(node)] = False
            scores[row] = scores[row].masked_fill(mask, float("-inf"))
        return scores


def select(args: argparse.Namespace) -> None:
    vocabulary, tools, rows = 270_000, 8_283, 320
    root = trie.build([[vocabulary - tools + at] for at in range(tools)])
    logits = torch.randn(rows, vocabulary)
    none = torch.zeros(rows, 0, dtype=torch.long)
    tree: dict[int, Any] = {int(token): {} for token in root.ids}
    children = root.ids.tolist()
    processors: dict[str, Any] = {
        "ToolGen's processor": ToolGenProcessor(tree),
        "transformers' prefix processor": PrefixConstrainedLogitsProcessor(lambda _, ids: children, 1),
    }

    def ours() -> np.ndarray:
        valid = logits.numpy()[:, root.ids[0] : root.ids[-1] + 1] if dense else logits.numpy()[:, root.ids]
        best = np.argpartition(-valid, WIDTH - 1, axis=1)[:, :WIDTH]
        order = np.take_along_axis(-valid, best, axis=1).argsort(axis=1)
        return root.ids[np.take_along_axis(best, order, axis=1)]

    dense = bool((np.diff(root.ids) == 1).all())
    for name, processor in processors.items():

        def theirs(processor: Any = processor) -> Any:
            return processor(none, logits.clone()).topk(WIDTH, dim=1).indices

        assert (torch.from_numpy(ours()) == theirs()).all()
        print_pairs(
            ours, theirs, f"{rows} rows of {vocabulary:,}, {tools:,} tools, against {name}", args.pairs
        )


# guesses: traces with drafts and without


def guesses(args: argparse.Namespace) -> None:
    engine = open_engine(args.export, THREADS)
    items = requests(args.requests, args.file)
    without = Engine(dataclasses.replace(engine.export))
    without.export.__dict__["drafts"] = Drafts()
    plain, guessed = predicted(without, items, "trace"), predicted(engine, items, "trace")
    equal = sum(plain[key]["raw"] == guessed[key]["raw"] for key in plain)
    print(f"{len(items)} requests, {equal} written alike token for token")
    codes = args.codes.split(",") if args.codes else []
    cites = {key for key, row in plain.items() if any(code in row["trace"] for code in codes)}
    for name, keys in (("cite a rule", cites), ("cite none", plain.keys() - cites)):
        if keys:
            own = [item for item in items if item["id"] in keys]
            alone = [row for item in own for row in predicted(engine, [item], "trace").values()]
            calls = [
                sum(row["calls"] for row in rows)
                for rows in (alone, [guessed[key] for key in keys], [plain[key] for key in keys])
            ]
            same = sum(row["raw"] == plain[row["id"]]["raw"] for row in alone)
            tokens = sum(plain[key]["tokens"] for key in keys)
            print(
                f"{len(keys)} that {name}, {tokens} tokens: {calls[0] / calls[2]:.2f}x the calls alone ({same} alike),"
                f" {calls[1] / calls[2]:.2f}x of those written 32 at a time"
            )
            some = own[:20]
            print_pairs(
                lambda some=some: [predicted(engine, [item], "trace") for item in some],  # type: ignore[misc]
                lambda some=some: [predicted(without, [item], "trace") for item in some],  # type: ignore[misc]
                f"alone, {len(some)} that {name}",
                args.pairs,
            )


# letters: one forward a question


def letters(args: argparse.Namespace) -> None:
    engine = open_engine(args.export, THREADS)
    export, rng = engine.export, random.Random(0)
    names = export.names
    asked = []
    for at in range(args.requests):
        name, *others = rng.sample(names, 4)
        facts = {"id": str(at), "tool": None, "question": f"Which tool is {name.split('/')[-1]} of {name}?"}
        asked.append(mcq_question({**facts, "correct": name, "wrong": others, "domain": "x"}))

    def by_choice() -> list[str]:
        found = []
        for question in asked:
            prompt = export.ids_of(question, "letters")
            ids = export.chat.letter_ids(len(question["choices"]))
            rows = torch.tensor([[*prompt, letter] for letter in ids])
            with torch.inference_mode():
                tables = export.model(input_ids=rows).logits[:, -2].float().log_softmax(dim=-1)
            found.append("ABCD"[int(tables[range(len(ids)), ids].argmax())])
        return found

    ours = predicted(engine, asked, "letters")
    same = sum(ours[one["id"]]["letter"] == letter for one, letter in zip(asked, by_choice(), strict=True))
    print(f"{len(asked)} questions of 4 choices, {same} answered alike")
    print_pairs(
        lambda: predicted(engine, asked, "letters"), by_choice, "letters against a row a choice", args.pairs
    )


# bootstrap: as lm-evaluation-harness does it


def resampled(job: tuple[int, list[float], int]) -> list[float]:
    seed, values, count = job
    rng = random.Random(seed)
    return [statistics.fmean(rng.choices(values, k=len(values))) for _ in range(count)]


def bootstrap(args: argparse.Namespace) -> None:
    draws, queries, metrics = 1000, 254, 8
    table = np.random.default_rng(0).random((queries, metrics)).round()
    columns = [table[:, at].tolist() for at in range(metrics)]

    def theirs() -> list[tuple[float, float]]:
        with Pool(THREADS) as pool:
            found = []
            for values in columns:
                parts = pool.imap(resampled, [(seed, values, draws // 10) for seed in range(10)])
                drawn = sorted(value for part in parts for value in part)
                found.append((drawn[round(0.025 * draws)], drawn[round(0.975 * draws) - 1]))
            return found

    ours = bootstrap_table(table, seed=0, draws=draws)
    apart = max(
        max(abs(one.low - low), abs(one.high - high)) for one, (low, high) in zip(ours, theirs(), strict=True)
    )
    print(f"{draws} draws, {queries} queries, {metrics} metrics; bounds at most {apart:.3f} apart")
    _, wall = in_turn(lambda: bootstrap_table(table, seed=0, draws=draws), theirs, args.pairs)
    print(wall.line("bootstrap against lm-evaluation-harness's, wall"), f"= {1 / wall.ratio:.1f}x")


# batches: one by one against 32 at a time


def batches(args: argparse.Namespace) -> None:
    engine, items = open_engine(args.export, THREADS), requests(args.requests)
    for decode in ("fast", "trace"):
        together = predicted(engine, items, decode)
        alone = {item["id"]: predicted(engine, [item], decode)[item["id"]] for item in items}
        pairs = [(alone[key], together[key]) for key in alone]
        apart = [
            abs(one - other)
            for a, b in pairs
            if a["tools"] == b["tools"]
            for one, other in zip(a["scores"], b["scores"], strict=True)
        ]
        equal = {
            "answers": sum(
                {**a, "seconds": 0, "calls": 0} == {**b, "seconds": 0, "calls": 0} for a, b in pairs
            ),
            "lists of tools": sum(a["tools"] == b["tools"] for a, b in pairs),
            "raw texts": sum(a["raw"] == b["raw"] for a, b in pairs),
        }
        told = ", ".join(f"{count} {name}" for name, count in equal.items())
        print(
            f"{decode}, {len(items)} requests alone and 32 at a time: equal are {told};"
            f" scores of equal lists at most {max(apart, default=0):.1e} apart"
        )


# mask: what the constraint of a list costs


def mask(args: argparse.Namespace) -> None:
    """Of `trace`: choosing each token of a list among the valid ones, against choosing it among all."""
    engine, items = open_engine(args.export, THREADS), requests(args.requests)
    spent = 0.0

    def timed(method: Callable[..., Any]) -> Callable[..., Any]:
        def run(writer: ListWriter, *asked: Any) -> Any:
            nonlocal spent
            if asked:  # what is computed without a constraint too
                asked[0].best, asked[0]._norms  # noqa: B018
            begun = time.thread_time()
            try:
                return method(writer, *asked)
            finally:
                spent += time.thread_time() - begun

        return run

    predicted(engine, items, "trace")
    parts: dict[str, Any] = {name: timed(getattr(ListWriter, name)) for name in ("_take", "_forced")}
    with patch.multiple(ListWriter, **parts):
        begun = time.process_time()
        traces = predicted(engine, items, "trace")
        whole = time.process_time() - begun
    known = set(engine.export.names)
    print(
        f"{len(known):,} tools, format {engine.export.spec['format']}, {len(items)} traces:"
        f" lists chosen among valid tokens in"
        f" {1e3 * spent:.1f} ms of {whole:.2f} s of processor time, {spent / whole:.2%}"
    )
    outside = sum(name not in known for row in traces.values() for name in listed(engine, row))
    assert outside == 0, "a list that is held to tools names another"
    loose = predicted(engine, items, "trace-free").values()
    print(
        f"entries outside the catalog: {outside} in trace, {sum(row['off_vocabulary'] for row in loose)} in"
        f" trace-free, of {sum(len(row['tools']) + row['off_vocabulary'] for row in loose)} there"
    )


def listed(engine: Engine, row: Item) -> list[str]:
    """What stands between quotes in the list of a raw answer: names of tools, else as it stands."""
    tokens, close = engine.export.index.tokens, engine.export.chat.markers.close
    entries = re.findall(r'"([^"]*)"', row["raw"].rpartition(close)[2].partition("[")[2])
    return [tokens.get(entry, entry) for entry in entries]


# port: clients of an engine process


@contextmanager
def port(tree: Path, store: str) -> Iterator[int]:
    command = [sys.executable, "-m", "evaluation.ml", "serve", "--port", "0", "--threads", str(THREADS)]
    command += ["--store", store, "--cache", "unused"]
    with subprocess.Popen(
        command, cwd=tree, stdout=subprocess.PIPE, text=True, env={**os.environ}
    ) as process:
        assert process.stdout is not None
        try:
            yield next(json.loads(line)["port"] for line in process.stdout if "serving" in line)
        finally:
            process.kill()


def asked_of(line: http.client.HTTPConnection, model: Stored, query: str, mode: str) -> Item:
    """Over a connection that is kept, as the web process keeps its own."""
    body = json.dumps({"model": model._asdict(), "query": query, "mode": mode, "k": WIDTH})
    while True:
        line.request("POST", "/retrieve", body)
        answer = line.getresponse()
        found: Item = json.loads(answer.read())
        if answer.status == 200:
            return found
        if answer.status != 503:
            raise SystemExit(f"the port answered {answer.status}: {found}")
        time.sleep(0.2)


def rate(number: int, model: Stored, mode: str, clients: int, seconds: float) -> str:
    """Clients that ask one after the other, each its own requests, no two alike."""
    texts = [item["query"] for item in requests(1000)]
    took: list[float] = []
    tokens: list[float] = []
    lock, ends = threading.Lock(), time.monotonic() + seconds

    def client(which: int) -> None:
        turn, line = 0, http.client.HTTPConnection("127.0.0.1", number)
        while time.monotonic() < ends:
            text = f"{texts[(which * 31 + turn) % len(texts)]} {which}-{turn}"
            begun = time.monotonic()
            row = asked_of(line, model, text, mode)
            with lock:
                took.append(time.monotonic() - begun)
                tokens.append(row.get("tokens", 0))
            turn += 1

    begun = time.monotonic()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(client, range(clients)))
    took.sort()
    each = f", {1e3 * sum(took) / sum(tokens):.2f} ms a written token" if sum(tokens) and clients == 1 else ""
    speed, half, most = (
        len(took) / (time.monotonic() - begun),
        took[len(took) // 2],
        took[int(0.95 * len(took))],
    )
    return f"{mode}, {clients} clients: {speed:.1f} a second, p50 {half:.3f} s, p95 {most:.3f} s{each}"


def ask_port(args: argparse.Namespace) -> None:
    trees = {"here": Path.cwd(), **({"there": args.tree} if args.tree else {})}
    with TemporaryDirectory() as folder:
        store = Store(Path(folder).as_uri(), Path("unused"))
        model = Stored("bench", store.put_dir(args.export, "bench"))
        for mode, clients in product(("fast", "trace"), (1, 8, 16)):
            for name, tree in trees.items():
                with port(tree, Path(folder).as_uri()) as number:
                    asked_of(http.client.HTTPConnection("127.0.0.1", number), model, "load the model", mode)
                    print(name, rate(number, model, mode, clients, args.seconds), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    for name, run in (
        ("fast", fast),
        ("exact", exact),
        ("select", select),
        ("guesses", guesses),
        ("letters", letters),
        ("bootstrap", bootstrap),
        ("batches", batches),
        ("mask", mask),
        ("port", ask_port),
    ):
        command = commands.add_parser(name)
        if name not in ("select", "bootstrap"):
            command.add_argument("export", type=Path)
        if name == "port":
            command.add_argument("tree", type=Path, nargs="?")
            command.add_argument("--seconds", type=float, default=10.0)
        if name == "guesses":
            command.add_argument("--codes", default="", help="codes of rules, by which traces are told apart")
            command.add_argument(
                "--file", type=Path, default=REQUESTS, help="other requests, lines of {query}"
            )
        command.add_argument("--pairs", type=int, default=7)
        command.add_argument("--requests", type=int, default=20)
        command.set_defaults(run=run)
    args = parser.parse_args()
    torch.set_num_threads(THREADS)
    print(machine())
    args.run(args)


if __name__ == "__main__":
    main()
