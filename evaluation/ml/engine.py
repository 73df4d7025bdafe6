"""One exported model answering requests: the five decodes behind one call.

In: items {"id","query","permissions"?,"without"?,"domain"?} or lettered questions {"id","question","choices","tool"}.
Out: predictions; none names a tool of `without` or of another domain. The same code answers the benchmark and the
playground: `predict` a list of items, `ask` one request of many that come at any time and share each forward.
"""

import fcntl
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from catalog.ml.child import Progress, emit
from evaluation.ml.asked import (
    BEAM,
    BOTH,
    FAST,
    LETTERS,
    TRACE,
    TRACE_FREE,
    Asked,
    Batch,
    Item,
    OnEvent,
)
from evaluation.ml.deciding import Deciding, PocketExport, load_pocket, untrained_pocket
from evaluation.ml.export import Export, load
from evaluation.ml.manifest import verify
from evaluation.ml.overlay import overlaid
from evaluation.ml.writing import Writing
from trace_site.lib.departure import Departure
from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_json, read_jsonl
from training.core.recipe import POCKET
from training.core.rundir import whole_lines

BATCH = {FAST: 32, BEAM: 8, TRACE: 32, TRACE_FREE: 32, LETTERS: 16}
IDLE_SECONDS = 60.0
MOST_WAITING = 1024  # at some hundred answers a second on two cores, whoever comes later had better ask again


@dataclass
class Engine:
    export: Export | PocketExport
    batch: Batch | None = None  # of the requests that come one by one
    known: dict[str, Asked] = field(default_factory=dict)  # equal requests are answered once
    changed: threading.Condition = field(default_factory=threading.Condition)

    def holding(self, tools: Sequence[Item], clauses: Sequence[Item]) -> "Engine":
        """An engine that answers with tools newer than the model too, and by the clauses that are in force."""
        if isinstance(self.export, Export):
            return Engine(overlaid(self.export, clauses))
        return Engine(self.export.holding(tools, clauses))

    def new_batch(self) -> Batch:
        return Writing(self.export) if isinstance(self.export, Export) else Deciding(self.export)

    def predict(
        self, items: Sequence[Item], decode: str, k: int, done: frozenset[str] = frozenset()
    ) -> Iterator[list[Item]]:
        """Predictions batch by batch. `done` ids are left out; batches stay what they would be without it, so
        that a resumed run computes what an uninterrupted one would."""
        asked = [self.asked(item, decode, k) for item in items]
        order = sorted(range(len(items)), key=lambda at: (len(asked[at].ids), at))
        batch = self.new_batch()
        for begin in range(0, len(order), BATCH[decode]):
            chosen = [asked[at] for at in order[begin : begin + BATCH[decode]]]
            if all(str(one.item["id"]) in done for one in chosen):
                continue
            started = time.monotonic()
            batch.run(chosen)
            seconds = round((time.monotonic() - started) / len(chosen), 5)
            yield [
                {**(one.row or {}), **self._about(one), "seconds": seconds}
                for one in chosen
                if str(one.item["id"]) not in done
            ]

    def ask(
        self,
        item: Item,
        decode: str,
        k: int = 10,
        on_event: OnEvent | None = None,
        departure: Departure | None = None,
    ) -> Callable[[], Item]:
        """One request, from any thread; it shares its forwards with all that are asked meanwhile, whose callers take
        turns. What this gives waits for the answer. `on_event` is told in the engine's thread. `departure`: of whoever
        asked; raises Departed when that ended it, and TraceError `unavailable` where too many wait."""
        begun, departure = time.monotonic(), departure or Departure()
        mine = self.asked(item, decode, k)
        mine.on_event, mine.caller = on_event, departure.caller
        key = json.dumps([decode, k, item], sort_keys=True) if on_event is None else ""
        with self.changed:
            asked = self.known.get(key, mine)
            if asked.error is not None:
                asked = mine
            if asked is mine:
                self._take(mine)
                if key:
                    self.known[key] = mine
            asked.clients.append(departure)

        def answered() -> Item:
            asked.done.wait()
            with self.changed:
                if self.known.get(key) is asked:
                    del self.known[key]
            if asked.error is not None:
                raise asked.error
            about = {**self._about(asked), "seconds": round(time.monotonic() - begun, 5)}
            row = asked.row or {}
            if decode == BOTH:
                return {part: {**row[part], **about} for part in (FAST, TRACE)}
            return {**row, **about}

        return answered

    def _take(self, asked: Asked) -> None:
        if self.batch is None:
            batch = self.new_batch()
            threading.Thread(target=self._work, name="engine", daemon=True).start()
            self.batch = batch  # not before: where no thread can be started, the next request tries
        if not self.batch.waiting.has_room(asked.caller, MOST_WAITING):
            raise TraceError("too many requests wait.", code="unavailable", hint="Ask again in a moment.")
        self.batch.waiting.put(asked.caller, asked)
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
            self.batch = self.new_batch()
            self.batch.waiting = batch.waiting
        for one in batch.taken:
            if not one.done.is_set():
                one.fail(error)

    def asked(self, item: Item, decode: str, k: int) -> Asked:
        return Asked(item, decode, k, self.export.ids_of(item, decode))

    def _about(self, asked: Asked) -> Item:
        return {} if asked.decode == LETTERS else self.export.about(asked.item)


def open_engine(folder: Path | None, threads: int = 2) -> Any:
    """The engine of a model: the server that holds it, where TRACE_BACKEND_URL names one, else our own. None: one that
    knows nothing but what it is given to hold."""
    torch.set_num_threads(threads)
    if folder is None:
        return Engine(untrained_pocket())
    digest = verify(folder)
    spec = read_json(folder / "trace.json")
    if spec["base"] == POCKET:
        return Engine(load_pocket(folder, digest, spec))
    from evaluation.ml.remote import open_remote  # loads what only it needs

    return open_remote(folder, digest, spec) or Engine(load(folder, digest, spec))


# Predictions into a file, a batch at a time, in the engine's order. Started again, ids that already stand in the file
# are skipped; a last line cut by a kill is dropped first.


def read_items(path: Path, decode: str) -> list[dict[str, Any]]:
    if decode not in BATCH:
        hint = f"Use one of {', '.join(BATCH)}."
        raise TraceError(f"unknown decode '{decode}'.", code="bad_decode", where=str(path), hint=hint)
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
    with path.open("r+b") as handle:
        whole_lines(handle.fileno())
    return frozenset(str(row["id"]) for _, row in read_jsonl(path))


@dataclass(frozen=True)
class ItemFile:
    """One file of items to decode in one way."""

    source: Path
    out: Path
    decode: str


def predict_files(
    model: Path, files: Sequence[ItemFile], k: int, threads: int, held: Path | None = None
) -> None:
    """Several files with one load of the model; `answered` is told as each is complete. `held`: a file {"tools",
    "clauses"} of what it is to answer with too, see `Engine.holding`."""
    items = [read_items(file.source, file.decode) for file in files]
    with Progress(sum(map(len, items)), f"loading {model.name}") as progress:
        engine = open_engine(model, threads)
        if held:
            found = read_json(held)
            engine = engine.holding(found["tools"], found["clauses"])
        before = 0
        for file, rows in zip(files, items, strict=True):
            file.out.parent.mkdir(parents=True, exist_ok=True)
            with file.out.open("a", encoding="utf-8") as handle:
                # whoever is at the same file goes first; its answers are ours
                fcntl.flock(handle, fcntl.LOCK_EX)
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
