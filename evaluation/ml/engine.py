"""One exported model answering requests: the five decodes behind one call.

In: items {"id","query","permissions"?,"without"?,"domain"?} or lettered questions {"id","question","choices","tool"}.
Out: predictions; none names a tool of `without` or of another domain. The same code answers the benchmark and the
playground: `predict` a list of items, `answer` one request of many that come at any time and share each forward.
"""

import fcntl
import json
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from math import exp, log
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from catalog.ml.child import Progress, emit
from evaluation.core.confidence import BEST, FLOOR, NEAREST
from evaluation.core.metrics import NO_TRACE, trace_fields
from evaluation.ml import write
from evaluation.ml.contexts import Context, Contexts, Scores
from evaluation.ml.export import Export, common_start, load
from evaluation.ml.newer import with_newer
from evaluation.ml.search import BEAMS, ENOUGH, Ranking, Search, Top, beam, top_k
from evaluation.ml.trie import Mask
from evaluation.ml.write import Running, Seen, Writer, Written
from trace_site.lib.departure import Departed, Departure
from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_jsonl

Features = dict[str, Any]
FAST, BEAM, TRACE, TRACE_FREE, LETTERS, BOTH = "fast", "beam", "trace", "trace-free", "letters", "both"
DECODES = (FAST, BEAM, TRACE, TRACE_FREE, LETTERS)
BATCH = {FAST: 32, BEAM: 8, TRACE: 32, TRACE_FREE: 32, LETTERS: 16}
AT_ONCE = 32  # requests that share a forward
IDLE_SECONDS = 60.0
GUESSED = 24  # tokens that all requests of a forward may guess together
Item = dict[str, Any]


@dataclass(eq=False)
class Asked:
    """One request on its way through the engine."""

    item: Item
    decode: str
    k: int
    ids: list[int]
    on_event: Callable[[str, Any], None] | None = None
    clients: list[Departure] = field(default_factory=list)  # of whoever waits for it
    row: Item | None = None
    error: Exception | None = None
    written: Written | None = None
    done: threading.Event = field(default_factory=threading.Event)
    fast: Item | None = None  # mode both: the ranked answer, before the trace is written

    def answer(self, row: Item) -> None:
        self.row = row
        self.done.set()

    def fail(self, error: Exception) -> None:
        self.error = error
        self.done.set()

    @property
    def left(self) -> bool:
        """Does nobody wait for it any more?"""
        return bool(self.clients) and all(one.happened for one in self.clients)


class Batch:
    """What is being answered together: requests join before each forward and leave after it."""

    def __init__(self, export: Export) -> None:
        self.export = export
        self.waiting: deque[Asked] = deque()
        self.running: list[tuple[Running, Asked]] = []
        self.taken: list[Asked] = []  # whoever is not answered yet, but for those who wait
        chat = export.chat
        self.opening = list(chat.open_ids)
        self.skipping = [*chat.empty_ids, *chat.list_open_ids]  # an empty thinking part
        if not export.spec["reasoning"]:
            self.opening = self.skipping
        self.shared = common_start(self.opening, self.skipping)

    # made by the first step: what fails there is told to whoever is in it
    @cached_property
    def contexts(self) -> Contexts:
        return self.export.contexts()

    @cached_property
    def writer(self) -> Writer:
        return Writer(self.export, self.export.drafts)

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.running)

    def run(self, asked: Sequence[Asked]) -> None:
        """Answer all of them."""
        self.waiting.extend(asked)
        while self.busy:
            self.step()

    def let_go(self) -> None:
        """End what nobody waits for any more; the next step forgets it."""
        for one in (*self.waiting, *(one for _, one in self.running)):
            if one.left:
                one.fail(Departed())

    def step(self) -> None:
        """Take in who waits, and one forward for all that is being written."""
        self._finish()
        count = min(len(self.waiting), AT_ONCE - len(self.running))
        popped = [self.waiting.popleft() for _ in range(count)]
        if asked := [one for one in popped if not one.done.is_set()]:
            self._admit(asked)
        if self.running:
            self.writer.guesses = max(1, GUESSED // len(self.running))
            write.step(self.contexts, [running for running, _ in self.running])
            self._finish()

    def _admit(self, asked: list[Asked]) -> None:
        self.taken = [one for one in self.taken if not one.done.is_set()] + asked
        # those that stay first, so that those that leave at once are the last rows
        asked.sort(key=lambda one: one.decode not in (TRACE, BOTH, TRACE_FREE))
        contexts, scores = self.contexts.admit([[*one.ids, *self._lead(one)] for one in asked])
        places = {
            one: (context, scores.logits[at])
            for at, (one, context) in enumerate(zip(asked, contexts, strict=True))
        }
        gone = [places[one][0] for one in asked if one.decode in (FAST, BEAM, LETTERS)]
        looked = {one: places[one] for one in asked if one.decode in (FAST, TRACE, BOTH)}
        traced = [one for one in asked if one.decode in (TRACE, BOTH)]
        if traced and self.shared != self.skipping:
            forks = self.contexts.fork([places[one][0] for one in traced])
            gone += forks
            seen = self.contexts.feed(forks, [self.skipping[len(self.shared) :]] * len(forks))
            looked |= {
                one: (fork, seen.logits[at]) for at, (one, fork) in enumerate(zip(traced, forks, strict=True))
            }
        self._look(looked)
        named = [one for one in traced if self._answer_newer(one)]
        gone += [places[one][0] for one in named]
        self._search_beams({one: places[one] for one in asked if one.decode == BEAM})
        for one in asked:
            if one.decode == LETTERS:
                self._letters(one, Scores(places[one][1][None]))
        self.contexts.drop(gone)
        writing = [one for one in asked if one.decode in (TRACE, BOTH, TRACE_FREE) and one not in named]
        self._begin({one: places[one] for one in writing})

    def _answer_newer(self, one: Asked) -> bool:
        """A model that reasons has learned no trace of a tool that is newer than itself. Where a request lies nearest
        to one, that is the answer, and nothing is written."""
        ranking = (one.fast or {}).get("ranking") or []
        if not self.export.spec["reasoning"] or not self._newer_first(ranking):
            return False
        (tool, score), *_ = ranking
        one.answer(self._written(one, Written(tools=[tool], scores=[score], ranked=ranking[: one.k])))
        return True

    def _newer_first(self, ranking: Ranking) -> bool:
        held = self.export.held
        return held is not None and bool(ranking) and ranking[0][0] in held.tools

    def _lead(self, one: Asked) -> list[int]:
        """What a request's context reads after its prompt."""
        if one.decode == LETTERS:
            return []
        if one.decode in (FAST, BEAM):
            return self.skipping
        if one.decode in (TRACE, BOTH):
            return self.shared
        return self.opening if self.export.spec["reasoning"] else list(self.export.chat.empty_ids)

    def _look(self, looked: dict[Asked, tuple[Context, torch.Tensor]]) -> None:
        """What one pass without any thinking says of each request: a ranking and its features."""
        if not looked:
            return
        everyone = list(looked)
        whole = self._ranked(everyone, looked, [self.export.mask(one.item) for one in everyone])
        limited = [one for one in everyone if one.decode != TRACE and one.item.get("permissions") is not None]
        tops = self._ranked(limited, looked, [self.export.banned(one.item) for one in limited])
        granted = dict(zip(limited, tops, strict=True))
        contexts, items = [looked[one][0] for one in everyone], [one.item for one in everyone]
        found = request_features(self.export, self.contexts, contexts, whole, items)
        for one, top, told in zip(everyone, whole, found, strict=True):
            # what they say of an answer was fitted on tools that the model knows
            features = {} if self._newer_first(top.ranking) else told
            if one.decode == TRACE:
                one.fast = {"ranking": top.ranking, "features": features}
                continue
            row = fast_row(self.export, one.item, one.k, top, granted.get(one), features)
            one.fast = {**row, "ranking": top.ranking}
            if one.decode == FAST:
                one.answer(row)
            elif one.on_event is not None:
                one.on_event("fast", row)

    def _ranked(
        self, asked: list[Asked], looked: dict[Asked, tuple[Context, torch.Tensor]], masks: list[Mask]
    ) -> list[Top]:
        if not asked:
            return []
        searches = [
            Search(self.export.root, max(one.k, BEST), mask, None if one.item.get("exact", True) else ENOUGH)
            for one, mask in zip(asked, masks, strict=True)
        ]
        scores = Scores(torch.stack([looked[one][1] for one in asked]))
        return top_k(self.contexts, [looked[one][0] for one in asked], scores, searches)

    def _search_beams(self, searched: dict[Asked, tuple[Context, torch.Tensor]]) -> None:
        if searched:
            scores = Scores(torch.stack([logits for _, logits in searched.values()]))
            masks = [self.export.banned(one.item) for one in searched]
            width = max(BEAMS, *(one.k for one in searched))
            contexts = [context for context, _ in searched.values()]
            rankings = beam(self.contexts, contexts, scores, self.export.root, masks, width)
            for one, ranking in zip(searched, rankings, strict=True):
                one.answer(ranked_row(self.export, one.item, ranking[: one.k]))

    def _letters(self, one: Asked, scores: Scores) -> None:
        """Argmax over the option letters of a question."""
        ids = self.export.chat.letter_ids(len(one.item["choices"]))
        found = [round(float(score), 6) for score in scores.of(0, ids)]
        letter = ascii_uppercase[found.index(max(found))]
        one.answer({"id": one.item["id"], "letter": letter, "scores": found})

    def _begin(self, places: dict[Asked, tuple[Context, torch.Tensor]]) -> None:
        """Start to write. The rest of the opening is fed where the first look shared only a part of it."""
        if not places:
            return
        rest = [one for one in places if one.decode != TRACE_FREE] if self.shared != self.opening else []
        if rest:
            fed = self.contexts.feed(
                [places[one][0] for one in rest], [self.opening[len(self.shared) :]] * len(rest)
            )
            places |= {one: (places[one][0], fed.logits[at]) for at, one in enumerate(rest)}
        for one, (context, logits) in places.items():
            result, seen = Written(), Seen(Scores(logits[None]), range(1))
            heard = Told(self.export, result, one.on_event) if one.on_event is not None else None
            if one.decode == TRACE_FREE:
                writing = self.writer.free(result, seen, heard)
            else:
                ranking = Search(self.export.root, one.k, self.export.banned(one.item))
                writing = self.writer.with_trace(result, seen, ranking, self.export.mask(one.item), heard)
            running = Running(context, result, writing, seen)
            running.go_on(None)
            one.written = result
            self.running.append((running, one))
        write.rank(self.contexts, [running for running, _ in self.running])
        self._finish()

    def _finish(self) -> None:
        """Answer those that are written, and forget those that were let go."""
        ends = [running.wants is None or one.done.is_set() for running, one in self.running]
        over = list(compress(self.running, ends))
        if over:
            self.running = [pair for pair, ended in zip(self.running, ends, strict=True) if not ended]
            self.contexts.drop([running.context for running, _ in over])
        for running, one in over:
            if not one.done.is_set():
                one.answer(self._written(one, running.result))

    def _written(self, one: Asked, result: Written) -> Item:
        banned = self.export.banned(one.item)
        if one.decode == TRACE_FREE:
            return parsed_row(self.export, one.item, result, banned)
        assert one.fast is not None
        row, ranking = listed_row(self.export, one.item, result, banned), one.fast.pop("ranking")
        features = one.fast["features"]
        row["features"] = features and features | list_features(result, ranking)
        return row if one.decode == TRACE else {"id": one.item["id"], "fast": one.fast, "trace": row}


@dataclass
class Told:
    """Passes a trace on as it grows, in names; the end of it that more tokens may still change is held back."""

    export: Export
    result: Written
    on_event: Callable[[str, Any], None]
    said: str = ""

    def __call__(self) -> None:
        end = len(self.result.thinking)
        while end and self.result.thinking[end - 1] in self.export.unit_ids:
            end -= 1
        text = self.export.index.to_names(self.export.text(self.result.thinking[:end]))
        if (
            text.startswith(self.said)
            and not text.endswith("\N{REPLACEMENT CHARACTER}")
            and text != self.said
        ):
            self.on_event("text", text[len(self.said) :])
            self.said = text


@dataclass
class Engine:
    export: Export
    batch: Batch | None = None  # of the requests that come one by one
    known: dict[str, Asked] = field(default_factory=dict)  # equal requests are answered once
    changed: threading.Condition = field(default_factory=threading.Condition)

    def with_newer(self, tools: Sequence[Item]) -> "Engine":
        """An engine that answers with tools newer than the model too, as far as it can; see newer.py."""
        return Engine(with_newer(self.export, tools))

    def predict(
        self, items: Sequence[Item], decode: str, k: int = 10, done: frozenset[str] = frozenset()
    ) -> Iterator[list[Item]]:
        """Predictions batch by batch. `done` ids are left out; batches stay what they would be without it, so
        that a resumed run computes what an uninterrupted one would."""
        asked = [self.asked(item, decode, k) for item in items]
        order = sorted(range(len(items)), key=lambda at: (len(asked[at].ids), at))
        batch = Batch(self.export)
        for begin in range(0, len(order), BATCH[decode]):
            chosen = [asked[at] for at in order[begin : begin + BATCH[decode]]]
            if all(str(one.item["id"]) in done for one in chosen):
                continue
            started = time.monotonic()
            batch.run(chosen)
            seconds = round((time.monotonic() - started) / len(chosen), 5)
            read = [{} if decode == LETTERS else self.reading(one.item) for one in chosen]
            yield [
                {**(one.row or {}), **about, "seconds": seconds}
                for one, about in zip(chosen, read, strict=True)
                if str(one.item["id"]) not in done
            ]

    def answer(
        self,
        item: Item,
        decode: str,
        k: int = 10,
        on_event: Callable[[str, Any], None] | None = None,
        departure: Departure | None = None,
    ) -> Item:
        """One request, from any thread; it shares its forwards with all that are asked meanwhile. `on_event`: is told
        ("fast", prediction) and ("text", more of the trace), in the engine's thread. `departure`: of whoever asked;
        raises Departed when that ended it."""
        begun = time.monotonic()
        mine = self.asked(item, decode, k)
        mine.on_event = on_event
        key = json.dumps([decode, k, item], sort_keys=True) if on_event is None else ""
        with self.changed:
            asked = self.known.get(key, mine)
            if asked.error is not None:
                asked = mine
            if asked is mine:
                self._take(mine)
                if key:
                    self.known[key] = mine
            asked.clients.append(departure or Departure())
        asked.done.wait()
        with self.changed:
            if self.known.get(key) is asked:
                del self.known[key]
        if asked.error is not None:
            raise asked.error
        about = {**self.reading(item), "seconds": round(time.monotonic() - begun, 5)}
        row = asked.row or {}
        if decode == BOTH:
            return {part: {**row[part], **about} for part in (FAST, TRACE)}
        return {**row, **about}

    def _take(self, asked: Asked) -> None:
        if self.batch is None:
            batch = Batch(self.export)
            threading.Thread(target=self._work, name="engine", daemon=True).start()
            self.batch = batch  # not before: where no thread can be started, the next request tries
        self.batch.waiting.append(asked)
        self.changed.notify()

    def _work(self) -> None:
        """Until nothing was asked for a while: a model that nobody asks any more can be forgotten."""
        while True:
            with self.changed:
                batch = self.batch
                assert batch is not None
                if not self.changed.wait_for(lambda batch=batch: batch.busy, IDLE_SECONDS):  # type: ignore[misc]
                    self.batch = None
                    return
                batch.let_go()  # here, where nobody can join what ends
            try:
                batch.step()
            except Exception as error:  # noqa: BLE001 - whatever it was, everybody in the batch is told
                self._fail(batch, error)

    def _fail(self, batch: Batch, error: Exception) -> None:
        with self.changed:
            self.batch = Batch(self.export)
            self.batch.waiting.extend(batch.waiting)
        for one in batch.taken:
            if not one.done.is_set():
                one.fail(error)

    def asked(self, item: Item, decode: str, k: int) -> Asked:
        if decode not in (*DECODES, BOTH):
            hint = f"Use one of {', '.join(DECODES)}."
            raise TraceError(f"unknown decode '{decode}'.", code="bad_decode", hint=hint)
        ids = self.question_ids(item) if decode == LETTERS else self.query_ids(item)
        return Asked(item, decode, k, ids)

    def query_ids(self, item: Item) -> list[int]:
        return query_ids(self.export, item)

    def question_ids(self, item: Item) -> list[int]:
        return question_ids(self.export, item)

    def reading(self, item: Item) -> Item:
        return reading(self.export, item)


def open_engine(folder: Path, threads: int = 2) -> Any:
    """The engine of a model: the server that holds it, where TRACE_BACKEND_URL names one, else our own."""
    from evaluation.ml.remote import open_remote  # it says things as this module does

    return open_remote(folder, threads) or Engine(load(folder, threads))


# What is read of a request, and from what an engine found to what it says.


def query_ids(export: Export, item: Item) -> list[int]:
    return export.chat.query_ids(str(item["query"]), list(item.get("permissions") or ()))


def question_ids(export: Export, item: Item) -> list[int]:
    tool = item.get("tool")
    if tool and tool not in export.index.units:
        raise TraceError(
            f"the model has no tool {tool}.",
            code="unknown_tool",
            where=f"question {item['id']}",
            hint="Build the probes from the catalog the model was trained on.",
        )
    units = export.index.units[tool] if tool else ()
    return export.chat.choice_ids(item["question"], item["choices"], units)


def reading(export: Export, item: Item) -> Item:
    """What of a request the model does not read: whether it is cut, and words its encoder does not know."""
    chat, query = export.chat, str(item["query"])
    permissions = list(item.get("permissions") or ())
    return {"cut_request": chat.is_cut(query, permissions), "unread": chat.unread(query)}


def ranked_row(export: Export, item: Item, found: Ranking) -> Item:
    return {
        "id": item["id"],
        "tools": [export.names[tool] for tool, _ in found],
        "scores": [round(score, 6) for _, score in found],
        "trace": "",
        "raw": "",
        "off_vocabulary": 0,
        "tokens": 0,
        "withheld": [],
        **NO_TRACE,
    }


def fast_row(export: Export, item: Item, k: int, whole: Top, granted: Top | None, features: Features) -> Item:
    """`whole`: the ranking of all tools, which tells what the request is about; `granted`: of those it may use. None:
    it may use all."""
    top = granted or whole
    row = ranked_row(export, item, top.ranking[:k])
    best, kept = [export.names[tool] for tool, _ in whole.ranking[:k]], set(row["tools"])
    withheld = [] if granted is None else [name for name in best if name not in kept]
    first = bool(withheld) and withheld[0] == best[0]
    return row | {"exact": top.exact, "features": features, "withheld": withheld, "withheld_first": first}


def listed_row(export: Export, item: Item, result: Written, banned: Mask) -> Item:
    """Tools the request may not use leave the answer after decoding, whatever the trace says."""
    names = export.names
    kept = [at for at, tool in enumerate(result.tools) if tool not in banned.tools]
    return text_row(export, item, result, [names[tool] for tool in result.tools]) | {
        "tools": [names[result.tools[at]] for at in kept],
        "scores": [round(result.scores[at], 6) for at in kept],
        "ranked": [names[tool] for tool, _ in result.ranked],
        "off_vocabulary": 0,
        "list_steps": result.list_steps,
        "overruled": result.overruled,
        "withheld": [names[tool] for tool in result.tools if tool in banned.tools],
        "withheld_first": bool(result.tools) and result.tools[0] in banned.tools,
    }


def parsed_row(export: Export, item: Item, result: Written, banned: Mask) -> Item:
    """What a free list names: its quoted entries up to the first closing bracket, valid JSON or not."""
    tokens = export.index.tokens
    entries = re.findall(r'"([^"]*)"', export.text(result.answer).partition("[")[2])
    found = list(dict.fromkeys(tokens[entry] for entry in entries if entry in tokens))
    refused = {export.names[number] for number in banned.tools}
    return text_row(export, item, result, found) | {
        "tools": [name for name in found if name not in refused],
        "scores": [],
        "off_vocabulary": sum(entry not in tokens for entry in entries),
        "withheld": [name for name in found if name in refused],
    }


def text_row(export: Export, item: Item, result: Written, listed: list[str]) -> Item:
    """`listed`: every tool the model wrote; that some are withheld is no change of the model's mind."""
    raw = export.text([*result.thinking, *result.answer])
    thinking = export.text(result.thinking).replace(export.spec["thinking"]["close"], "")
    trace = export.index.to_names(thinking).strip()
    return {
        "id": item["id"],
        "trace": trace,
        "raw": raw,
        "tokens": result.tokens,
        "calls": result.calls,
        "cut": result.cut,
        **(trace_fields(export.index.named(thinking), listed) if trace else NO_TRACE),
    }


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


def predict_files(
    model: Path, files: Sequence[ItemFile], k: int, threads: int, newer: Path | None = None
) -> None:
    """Several files with one load of the model; `answered` is told as each is complete. `newer`: a file of tools that
    it is to answer with too."""
    items = [read_items(file.source, file.decode) for file in files]
    with Progress(sum(map(len, items)), f"loading {model.name}") as progress:
        engine = open_engine(model, threads)
        if newer:
            engine = engine.with_newer([row for _, row in read_jsonl(newer)])
        before = 0
        for file, rows in zip(files, items, strict=True):
            file.out.parent.mkdir(parents=True, exist_ok=True)
            with file.out.open("a", encoding="utf-8") as handle:
                fcntl.flock(
                    handle, fcntl.LOCK_EX
                )  # whoever is at the same file goes first; its answers are ours
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
# In: the contexts right before the first tool, and the ranking found there. Out: per request its features, see
# evaluation.core.confidence; those of the encoder only for a base that has one.


@torch.inference_mode()
def request_features(
    export: Export, contexts: Contexts, asked: Sequence[Context], tops: Sequence[Top], items: Sequence[Item]
) -> list[Features]:
    """`tops`: at least the BEST tools of each request."""
    found = [ranking_features(top.ranking) for top in tops]
    read = contexts.readings(asked)
    if read is not None:
        cosines = (read @ export.tool_rows.T).cpu().numpy()
        readings = read.double().round(decimals=4).tolist()
        for features, reading, near, item in zip(found, readings, cosines, items, strict=True):
            mask = export.mask(item)
            features |= nearness(near[~mask.flags] if mask.tools else near)
            features["reading"] = reading
    return found


def ranking_features(ranking: Ranking) -> Features:
    scores = [score for _, score in ranking[:BEST]] or [FLOOR]
    mass = sum(map(exp, scores))
    return {
        "first": round(max(FLOOR, scores[0]), 4),
        "lead": round(min(-FLOOR, scores[0] - scores[1]) if len(scores) > 1 else -FLOOR, 4),
        "best": round(log(mass) if mass else FLOOR, 4),
    }


def list_features(result: Written, ranking: Ranking) -> Features:
    """What a written list adds; `ranking`: that of the same request without any thinking."""
    listed = max(FLOOR, result.scores[0]) if result.tools else FLOOR
    agrees = bool(ranking) and result.tools[:1] == [ranking[0][0]]
    return {"listed": round(listed, 4), "agrees": float(agrees)}


def nearness(cosines: npt.NDArray[np.float32]) -> Features:
    """How near the request lies to the tools, whether or not it may use them."""
    if not len(cosines):
        return {"nearest": 0.0, "near": 0.0, "usual": 0.0, "stands_out": 0.0}
    count = min(NEAREST, len(cosines))
    near = np.partition(cosines, -count)[-count:]
    nearest, usual = float(near.max()), float(cosines.mean())
    return {
        "nearest": round(nearest, 4),
        "near": round(float(near.mean()), 4),
        "usual": round(usual, 4),
        "stands_out": round((nearest - usual) / (float(cosines.std()) + 1e-6), 4),
    }
