"""One exported model answering requests: the five decodes behind one call.

In: items {"id","query","permissions"?,"without"?} or lettered questions {"id","question","choices","tool"}. Out:
predictions in the order of the items; none names a tool of `without`. The same code answers the benchmark and the
playground.
"""

import fcntl
import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from catalog.ml.child import Progress, emit
from evaluation.core.confidence import BEST, FLOOR, NEAREST
from evaluation.core.metrics import NO_TRACE, trace_fields
from evaluation.ml import write
from evaluation.ml.export import Export, load
from evaluation.ml.search import BEAMS, Banned, Ranking, Top, beam, top_k
from evaluation.ml.state import State, start
from evaluation.ml.trie import Mask
from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_jsonl
from training.ml.bases.pocket import PocketConfig

Features = dict[str, Any]
DECODES = ("fast", "beam", "trace", "trace-free", "letters")
LETTERS = "letters"
BATCH = {"fast": 32, "beam": 8, "trace": 32, "trace-free": 32, LETTERS: 16}
Item = dict[str, Any]
Prompts = list[list[int]]


@dataclass(frozen=True)
class Engine:
    export: Export

    def predict(
        self, items: Sequence[Item], decode: str, k: int = 10, done: frozenset[str] = frozenset()
    ) -> Iterator[list[Item]]:
        """Predictions batch by batch. `done` ids are left out; batches stay what they would be without it, so
        that a resumed run computes what an uninterrupted one would."""
        run = {
            "fast": self._fast,
            "beam": self._beam,
            "trace": self._trace,
            "trace-free": self._trace_free,
            LETTERS: self._letters,
        }.get(decode)
        if run is None:
            hint = f"Use one of {', '.join(DECODES)}."
            raise TraceError(f"unknown decode '{decode}'.", code="bad_decode", hint=hint)
        prompt = self.question_ids if decode == LETTERS else self.query_ids
        prompts = [prompt(item) for item in items]
        order = sorted(range(len(items)), key=lambda at: (len(prompts[at]), at))
        for begin in range(0, len(order), BATCH[decode]):
            chosen = order[begin : begin + BATCH[decode]]
            if all(str(items[at]["id"]) in done for at in chosen):
                continue
            started = time.monotonic()
            rows = run([items[at] for at in chosen], [prompts[at] for at in chosen], k)
            seconds = round((time.monotonic() - started) / len(chosen), 5)
            read = [{} if decode == LETTERS else self.reading(items[at]) for at in chosen]
            yield [
                {**row, **about, "seconds": seconds}
                for row, about in zip(rows, read, strict=True)
                if str(row["id"]) not in done
            ]

    def query_ids(self, item: Item) -> list[int]:
        return self.export.chat.query_ids(str(item["query"]), list(item.get("permissions") or ()))

    def question_ids(self, item: Item) -> list[int]:
        tool = item.get("tool")
        if tool and tool not in self.export.index.units:
            raise TraceError(
                f"the model has no tool {tool}.",
                code="unknown_tool",
                where=f"question {item['id']}",
                hint="Build the probes from the catalog the model was trained on.",
            )
        return self.export.chat.choice_ids(
            item["question"], item["choices"], self.export.index.units[tool] if tool else ()
        )

    def reading(self, item: Item) -> Item:
        """What of a request the model does not read: whether it is cut, and words its encoder does not know."""
        chat, query = self.export.chat, str(item["query"])
        permissions = list(item.get("permissions") or ())
        return {"cut_request": chat.is_cut(query, permissions), "unread": chat.unread(query)}

    def _fast(self, items: Sequence[Item], prompts: Prompts, k: int) -> list[Item]:
        return [
            self._ranked(item, top.ranking[:k]) | {"exact": top.exact, "features": features}
            for item, (top, features) in zip(items, self._first_look(items, prompts, k), strict=True)
        ]

    def _first_look(self, items: Sequence[Item], prompts: Prompts, k: int) -> list[tuple[Top, Features]]:
        """What one pass without any thinking says of each request."""
        state, banned = write.no_thinking(self.export, prompts), self._banned(items)
        tops = top_k(state, self.export.root, max(k, BEST), banned)
        found = request_features(self.export, state, [top.ranking for top in tops], banned)
        return list(zip(tops, found, strict=True))

    def _beam(self, items: Sequence[Item], prompts: Prompts, k: int) -> list[Item]:
        state = write.no_thinking(self.export, prompts)
        rankings = beam(state, self.export.root, self._banned(items), max(k, BEAMS))
        return [self._ranked(item, found[:k]) for item, found in zip(items, rankings, strict=True)]

    def _trace(self, items: Sequence[Item], prompts: Prompts, k: int) -> list[Item]:
        banned, looked = self._banned(items), self._first_look(items, prompts, 1)
        written = write.constrained(self.export, prompts, k, banned, [self._mask(item) for item in items])
        rows = []
        for item, result, skip, (top, features) in zip(items, written, banned, looked, strict=True):
            listed = max(FLOOR, result.scores[0]) if result.tools else FLOOR
            agrees = bool(top.ranking) and result.tools[:1] == [top.ranking[0][0]]
            of_list = {"listed": round(listed, 4), "agrees": float(agrees)}
            rows.append(self._listed(item, result, skip) | {"features": {**features, **of_list}})
        return rows

    def _listed(self, item: Item, result: write.Written, banned: Banned) -> Item:
        """Tools the request may not use leave the answer after decoding, whatever the trace says."""
        names = self.export.names
        kept = [at for at, tool in enumerate(result.tools) if tool not in banned]
        return self._with_text(item, result, [names[tool] for tool in result.tools]) | {
            "tools": [names[result.tools[at]] for at in kept],
            "scores": [round(result.scores[at], 6) for at in kept],
            "ranked": [names[tool] for tool, _ in result.ranked],
            "off_vocabulary": 0,
            "list_steps": result.list_steps,
            "overruled": result.overruled,
        }

    def _trace_free(self, items: Sequence[Item], prompts: Prompts, k: int) -> list[Item]:
        written = write.unconstrained(self.export, prompts)
        return [self._parsed(*row) for row in zip(items, written, self._banned(items), strict=True)]

    def _parsed(self, item: Item, result: write.Written, banned: Banned) -> Item:
        """What a free list names: its quoted entries up to the first closing bracket, valid JSON or not."""
        tokens = self.export.index.tokens
        entries = re.findall(r'"([^"]*)"', self.export.text(result.answer).partition("[")[2])
        found = list(dict.fromkeys(tokens[entry] for entry in entries if entry in tokens))
        refused = {self.export.names[number] for number in banned}
        return self._with_text(item, result, found) | {
            "tools": [name for name in found if name not in refused],
            "scores": [],
            "off_vocabulary": sum(entry not in tokens for entry in entries),
        }

    def _letters(self, items: Sequence[Item], prompts: Prompts, k: int) -> list[Item]:
        """Argmax over the option letters of a question, one forward for all of them."""
        state = start(self.export.model, prompts, self.export.chat.pad_id)
        rows: list[Item] = []
        for place, item in enumerate(items):
            ids = self.export.chat.letter_ids(len(item["choices"]))
            scores = [round(float(score), 6) for score in state.scores[place][ids]]
            letter = ascii_uppercase[scores.index(max(scores))]
            rows.append({"id": item["id"], "letter": letter, "scores": scores})
        return rows

    def _ranked(self, item: Item, found: Ranking) -> Item:
        return {
            "id": item["id"],
            "tools": [self.export.names[tool] for tool, _ in found],
            "scores": [round(score, 6) for _, score in found],
            "trace": "",
            "raw": "",
            "off_vocabulary": 0,
            "tokens": 0,
            **NO_TRACE,
        }

    def _with_text(self, item: Item, result: write.Written, listed: list[str]) -> Item:
        """`listed`: every tool the model wrote; that some are withheld is no change of the model's mind."""
        raw = self.export.text([*result.thinking, *result.answer])
        thinking = self.export.text(result.thinking).replace(self.export.spec["thinking"]["close"], "")
        trace = self.export.index.to_names(thinking).strip()
        return {
            "id": item["id"],
            "trace": trace,
            "raw": raw,
            "tokens": result.tokens,
            "cut": result.cut,
            **(trace_fields(self.export.index.named(thinking), listed) if trace else NO_TRACE),
        }

    def _banned(self, items: Sequence[Item]) -> list[Banned]:
        """Tools that no ranking holds: those left out, and those the request may not use."""
        return [
            self.export.banned(list(item.get("permissions") or ())) | self._mask(item).tools for item in items
        ]

    def _mask(self, item: Item) -> Mask:
        return self.export.mask(list(item.get("without") or ()))


def open_engine(folder: Path, threads: int = 2) -> Engine:
    return Engine(load(folder, threads))


# Predictions into a file, a batch at a time, in the engine's order. Started again, ids that already stand in the file
# are skipped; a last line cut by a kill is dropped first.


def read_items(path: Path, decode: str) -> list[dict[str, Any]]:
    needed = ("id", "question", "choices") if decode == LETTERS else ("id", "query")
    items: list[dict[str, Any]] = []
    seen: set[str] = set()
    for number, row in read_jsonl(path):
        missing = [name for name in needed if not row.get(name)]
        if missing:
            raise TraceError(
                f"has no '{missing[0]}'.", code="bad_item", where=f"{path}:{number}", permanent=True
            )
        if str(row["id"]) in seen:
            raise TraceError(f"id {row['id']!r} appears twice.", code="bad_item", where=f"{path}:{number}")
        seen.add(str(row["id"]))
        items.append(row)
    return items


def finished_ids(path: Path) -> frozenset[str]:
    """Ids already predicted; cuts the file after its last whole line."""
    if not path.is_file():
        return frozenset()
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        with path.open("r+b") as handle:
            handle.truncate(len(whole))
    return frozenset(str(row["id"]) for _, row in read_jsonl(path))


@dataclass(frozen=True)
class ItemFile:
    """One file of items to decode in one way."""

    source: Path
    out: Path
    decode: str


def predict_files(model: Path, files: Sequence[ItemFile], k: int, threads: int) -> None:
    """Several files with one load of the model; `answered` is told as each is complete."""
    items = [read_items(file.source, file.decode) for file in files]
    progress = Progress(sum(map(len, items)), f"loading {model.name}")
    engine = open_engine(model, threads)
    before = 0
    for file, rows in zip(files, items, strict=True):
        file.out.parent.mkdir(parents=True, exist_ok=True)
        with file.out.open("a", encoding="utf-8") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)  # whoever is at the same file goes first; its answers are ours
            known = finished_ids(file.out) & {str(row["id"]) for row in rows}
            count = before + len(known)
            for answers in engine.predict(rows, file.decode, k, known):
                handle.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in answers))
                handle.flush()
                count += len(answers)
                progress(count, f"{file.decode} predictions")
        before += len(rows)
        emit("answered", out=str(file.out), decode=file.decode, predictions=len(rows))
    progress(progress.total, "all predictions")
    emit("done", predictions=before, model=str(model), digest=engine.export.digest)


# What a request looks like to a model, in numbers that tell whether its answer can be relied on.
#
# In: the state right before the first tool, and the ranking found there. Out: per request its features, see
# evaluation.core.confidence; those of the encoder only for a base that has one.


@torch.inference_mode()
def request_features(
    export: Export, state: State, rankings: Sequence[Ranking], banned: Sequence[Banned]
) -> list[Features]:
    """`rankings`: at least the BEST tools of each request."""
    read = readings(state)
    found = [ranking_features(ranking) for ranking in rankings]
    if read is not None:
        cosines = (read @ export.tool_rows.T).cpu()
        for features, reading, near, skip in zip(found, read.cpu(), cosines, banned, strict=True):
            features |= nearness(near, skip)
            features["reading"] = [round(value, 4) for value in reading.tolist()]
    return found


def ranking_features(ranking: Ranking) -> Features:
    scores = [score for _, score in ranking[:BEST]] or [FLOOR]
    mass = sum(map(exp, scores))
    return {
        "first": round(max(FLOOR, scores[0]), 4),
        "lead": round(min(-FLOOR, scores[0] - scores[1]) if len(scores) > 1 else -FLOOR, 4),
        "best": round(log(mass) if mass else FLOOR, 4),
    }


def nearness(cosines: Tensor, banned: Banned) -> Features:
    """How near the request lies to the tools that may be answered."""
    allowed = torch.ones(len(cosines), dtype=torch.bool)
    allowed[list(banned)] = False
    ordered = cosines[allowed].sort(descending=True).values
    if not len(ordered):
        return {"nearest": 0.0, "near": 0.0, "usual": 0.0, "stands_out": 0.0}
    nearest, usual = float(ordered[0]), float(ordered.mean())
    return {
        "nearest": round(nearest, 4),
        "near": round(float(ordered[:NEAREST].mean()), 4),
        "usual": round(usual, 4),
        "stands_out": round((nearest - usual) / (float(ordered.std(correction=0)) + 1e-6), 4),
    }


def readings(state: State) -> Tensor | None:
    """[requests, width], length 1: the mean state of each request's words, which pocket keeps in its cache."""
    config = state.model.config
    if config.model_type != PocketConfig.model_type:
        return None
    layer = state.layers[config.num_hidden_layers]
    assert layer is not None
    asked, states = layer[0][:, 0, :, 0], layer[1][:, 0]
    mean = states.sum(dim=1) / asked.sum(dim=1, keepdim=True).clamp(min=1)
    return functional.normalize(mean.float(), dim=-1)
