"""An exported model answering through a server that holds its weights: vLLM, or what speaks as it does.

In: the requests that our own engine takes, and the address of the server. Out: the same predictions, each with the
`backend` that made it. The server writes greedily and names the likeliest of some tokens; what a list may hold, when
it ends and which tools rank first is decided here, by the code that our own engine runs. No weights are loaded.

A ranking is as exact as the server's arithmetic. Asked about a node, the server names its likeliest child and the
likeliest tokens of the whole vocabulary; no other child is likelier than the last of these. The node is asked again
while that could still change the ranking.
"""

import asyncio
import heapq
import os
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count, islice
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import numpy as np

from evaluation.core.confidence import BEST, ranking_features
from evaluation.ml.asked import BEAM, BOTH, FAST, LETTERS, TRACE, TRACE_FREE, Item, OnEvent
from evaluation.ml.contexts import Numbers
from evaluation.ml.contexts import Scores as OwnScores
from evaluation.ml.export import Export, load
from evaluation.ml.overlay import overlaid
from evaluation.ml.rows import Told, fast_row, lettered, list_features, listed_row, parsed_row
from evaluation.ml.search import Ranking, Search, Top, most_of
from evaluation.ml.trie import Mask, Node, build
from evaluation.ml.write import Seen, Writer, Writing, Written, thinking_cap
from trace_site.lib.departure import Departed, Departure
from trace_site.lib.errors import TraceError
from trace_site.lib.llm.completions import MOST_ALLOWED, Chosen, Completions, Served
from trace_site.lib.llm.exchange import Endpoint

ADDRESS, KEY = "TRACE_BACKEND_URL", "TRACE_BACKEND_KEY"
AT_ONCE = 64  # requests of a list that are under way together
MOST_ASKED = 128  # requests that come one by one; as many as the engine has connections
BLOCK = 32  # of them are told together
WAVE = 8  # nodes that a search asks about together
CALL_SECONDS, ATTEMPT_SECONDS = 120.0, 60.0
PIECE, LARGEST_PIECE = 8, 128  # tokens that are asked for where the first piece was not enough
NAME_DIGITS = 12
HINTS = {
    "llm_unreachable": f"Check {ADDRESS} and that the server is up.",
    "llm_host_refused": f"Check {ADDRESS}; the key belongs into {KEY}.",
    "llm_unauthorized": f"Check {KEY}.",
    "llm_bad_request": "Its log says why; docs/training.md says how the model is served.",
    "llm_bad_answer": "Serve the model with vLLM 0.32 or later, as docs/training.md says.",
    "llm_wrong_model": "Serve the export under its own name, as docs/training.md says.",
}
POOL = ThreadPoolExecutor(MOST_ASKED, "asked")
T = TypeVar("T")


class Server:
    """The completions of one server for many threads, over one event loop. Its connections end with it."""

    origin: "Server | None" = None  # kept for as long as somebody is answered

    def __init__(self, endpoint: Endpoint) -> None:
        self.departure = Departure()
        self.completions = self._run(_made(endpoint))
        weakref.finalize(self, _close, self.completions).atexit = False

    def of(self, departure: Departure) -> "Server":
        """The same for one client: what it waits for ends when he leaves, and raises Departed."""
        own = copy(self)
        own.departure, own.origin = departure, self
        return own

    def served(self) -> list[Served]:
        return self._run(self.completions.served())

    def write(
        self,
        prompt: Sequence[int],
        most: int,
        stop: Sequence[int],
        heard: Callable[[list[int]], None] | None = None,
    ) -> list[tuple[int, float]]:
        """Tokens with their log-probabilities."""
        written = self._run(self.completions.write(prompt, most, stop, heard))
        return list(zip(written.tokens, written.scores, strict=True))

    def choose(self, asked: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[Chosen]:
        """The likeliest token after each prompt, of those allowed there; all at once."""
        return self._run(_together([self.completions.choose(prompt, allowed) for prompt, allowed in asked]))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, _loop())
        self.departure.until(future.cancel)
        try:
            return future.result()
        except CancelledError:
            raise Departed from None
        finally:
            self.departure.until(None)


async def _made(endpoint: Endpoint) -> Completions:
    return Completions(endpoint, HINTS)


def _close(completions: Completions) -> None:
    asyncio.run_coroutine_threadsafe(completions.close(), _loop())


async def _together(works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="backend", daemon=True).start()
    return loop


@dataclass(eq=False)
class Line:
    """What the server writes by itself after the contexts of one request, in pieces that are remembered. A list throws
    away a piece that it may not hold, so all but the first begin small and grow while they are used."""

    server: Server
    stop: Sequence[int]
    most: int  # tokens of the next piece
    heard: "Heard | None" = None
    known: dict[tuple[int, ...], tuple[int, float]] = field(default_factory=dict)
    calls: int = 0
    end: tuple[int, ...] = ()  # of what is known

    def after(self, context: tuple[int, ...]) -> tuple[int, float]:
        """The next token and its log-probability."""
        if context not in self.known:
            if self.calls:
                self.most = min(LARGEST_PIECE, 2 * self.most) if context == self.end else PIECE
            self.calls += 1
            self.end = context
            heard = None if self.heard is None or self.heard.over else self.heard
            for token, score in self.server.write(context, self.most, self.stop, heard):
                self.known[self.end] = token, score
                self.end = (*self.end, token)
        return self.known[context]


@dataclass(eq=False)
class Scores:
    """What may follow a context, and each of the tokens guessed after it: what a Writer asks of the model's scores."""

    line: Line
    context: tuple[int, ...]
    guess: Sequence[int] = ()
    told: dict[tuple[int, int], float] = field(default_factory=dict)  # by place and token

    @property
    def best(self) -> "Scores":
        return self

    def __getitem__(self, place: int) -> int:
        return self.line.after(self._at(place))[0]

    def likeliest(self, place: int, ids: Sequence[int]) -> int:
        if len(ids) == 1 or self[place] in ids:
            return ids[0] if len(ids) == 1 else self[place]
        return self._ask(place, ids)

    def of(self, place: int, ids: Sequence[int]) -> Numbers:
        return np.array([self._score(place, token) for token in ids], dtype=np.float64)

    def _score(self, place: int, token: int) -> float:
        best, score = self.line.after(self._at(place))
        if best == token:
            return score
        if (place, token) not in self.told:
            self._ask(place, [token])
        return self.told[place, token]

    def _ask(self, place: int, ids: Sequence[int]) -> int:
        self.line.calls += 1
        ((token, score),) = of_tokens(self.line.server, self._at(place), ids, 1)
        self.told[place, token] = score
        return token

    def _at(self, place: int) -> tuple[int, ...]:
        return (*self.context, *self.guess[:place])


def seen(line: Line, context: tuple[int, ...], guess: Sequence[int] = ()) -> Seen:
    return Seen(cast(OwnScores, Scores(line, context, guess)), range(len(guess) + 1))


# Rankings.


@dataclass(eq=False)
class Branch:
    """Children of one node of the trie that the server has not named yet, in a search."""

    node: Node
    path: tuple[int, ...]
    score: float  # of the node
    left: list[int]
    bound: float = 0.0  # no child that is left has a greater log-probability

    @property
    def allowed(self) -> list[int]:
        """What the server is asked to choose from; where that is too much, from the whole vocabulary."""
        return self.left if len(self.left) <= MOST_ALLOWED else []

    def named(self, chosen: Chosen) -> dict[int, float]:
        """The children in an answer, with their log-probabilities; they are left no more."""
        left = set(self.left)
        told = {token: score for token, score in chosen.likely.items() if token in left}
        if chosen.token in left:
            told[chosen.token] = chosen.score
        self.left = [token for token in self.left if token not in told]
        self.bound = chosen.bound
        return told

    def parts(self) -> list["Branch"]:
        """What is still left, in as many parts as can be asked about."""
        starts = range(0, len(self.left), MOST_ALLOWED)
        return [replace(self, left=self.left[start : start + MOST_ALLOWED]) for start in starts]


def ranked(server: Server, context: tuple[int, ...], search: Search) -> Top:
    """The k best tools after a context, by best-first search over what the server tells."""
    mask, order = search.mask, count()
    heap: list[tuple[float, int, Branch]] = []
    found: Ranking = []

    def push(branch: Branch) -> None:
        if branch.left:
            heapq.heappush(heap, (-(branch.score + branch.bound), next(order), branch))

    def wanted() -> bool:
        return bool(heap) and (len(found) < search.k or -heap[0][0] >= found[-1][1])

    push(Branch(search.root, (), 0.0, shown(search.root, mask)))
    opened = 0
    while wanted() and opened != search.most:
        wave: list[Branch] = []
        while wanted() and len(wave) < WAVE and opened != search.most:
            wave.append(heapq.heappop(heap)[2])
            opened += 1
        told = server.choose([((*context, *branch.path), branch.allowed) for branch in wave])
        for branch, chosen in zip(wave, told, strict=True):
            for token, score in branch.named(chosen).items():
                child, total = branch.node.children[token], branch.score + score
                if child.leaf:
                    found.append((child.tool, total))
                else:
                    push(Branch(child, (*branch.path, token), total, shown(child, mask)))
            for part in branch.parts():
                push(part)
        found = sorted(found, key=lambda pair: (-pair[1], pair[0]))[: search.k]
    return Top(found, not wanted())


def shown(node: Node, mask: Mask) -> list[int]:
    return [token for token, child in node.children.items() if not mask.hides(child)]


def of_tokens(
    server: Server, context: tuple[int, ...], ids: Sequence[int], k: int
) -> list[tuple[int, float]]:
    """The k likeliest of some tokens after a context, with their log-probabilities."""
    top = ranked(server, context, Search(build([[number] for number in ids]), k))
    return [(ids[place], score) for place, score in top.ranking]


# The engine.


@dataclass(frozen=True, eq=False)
class Engine:
    export: Export
    server: Server
    backend: dict[str, str]  # {"engine", "version", "host"}

    def holding(self, tools: Sequence[Item], clauses: Sequence[Item]) -> "Engine":
        """The server holds the rows, so no tool can be added to them; clauses are in force beside it."""
        return replace(self, export=overlaid(self.export, clauses))

    def predict(
        self, items: Sequence[Item], decode: str, k: int, done: frozenset[str] = frozenset()
    ) -> Iterator[list[Item]]:
        """Predictions in the order of the items, some at a time; `done` ids are left out."""
        left = [item for item in items if str(item["id"]) not in done]
        pool = ThreadPoolExecutor(AT_ONCE, "backend")
        try:
            started = time.monotonic()
            answers = pool.map(lambda item: self._answer(item, decode, k), left)
            while rows := list(islice(answers, BLOCK)):
                seconds, started = (time.monotonic() - started) / len(rows), time.monotonic()
                yield [{**row, "seconds": round(seconds, 5)} for row in rows]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def ask(
        self,
        item: Item,
        decode: str,
        k: int = 10,
        on_event: OnEvent | None = None,
        departure: Departure | None = None,
    ) -> Callable[[], Item]:
        """One request, as our own engine takes it. `on_event` is told in a thread of the pool."""
        begun, engine = time.monotonic(), replace(self, server=self.server.of(departure or Departure()))

        def answered() -> Item:
            row = engine._answer(item, decode, k, on_event)
            seconds = {"seconds": round(time.monotonic() - begun, 5)}
            if decode == BOTH:
                return {**row, **{part: {**row[part], **seconds} for part in (FAST, TRACE)}}
            return {**row, **seconds}

        return POOL.submit(answered).result

    def _answer(self, item: Item, decode: str, k: int, on_event: OnEvent | None = None) -> Item:
        if decode == BEAM:
            why = (
                "a server's beam search does not keep to the catalog, so 'beam' is decoded by our own engine."
            )
            raise TraceError(why, code="bad_decode", hint=f"Use fast, or unset {ADDRESS}.", permanent=True)
        if decode == LETTERS:
            return self._letters(item) | {"backend": self.backend}
        about = {**self.export.about(item), "backend": self.backend}
        prompt = tuple(self.export.ids_of(item, decode))
        if decode == TRACE_FREE:
            return self._written(item, prompt, k, None) | about
        top = self._first_look(item, prompt, self.export.mask(item), max(k, BEST))
        fast = self._ranked(item, prompt, k, top) | about if decode != TRACE else {}
        if decode == FAST:
            return fast
        if decode == BOTH and on_event is not None:
            on_event("fast", fast)
        trace = self._written(item, prompt, k, top, on_event) | about
        return trace if decode == TRACE else {"id": item["id"], "fast": fast, "trace": trace}

    def _first_look(self, item: Item, prompt: tuple[int, ...], mask: Mask, k: int) -> Top:
        """What one pass without any thinking says of a request."""
        search = Search(self.export.root, k, mask, most_of(item))
        return ranked(self.server, (*prompt, *self._skipping), search)

    def _ranked(self, item: Item, prompt: tuple[int, ...], k: int, whole: Top) -> Item:
        limited = item.get("permissions") is not None
        granted = self._first_look(item, prompt, self.export.banned(item), k) if limited else None
        return fast_row(self.export, item, k, whole, granted, ranking_features(whole.ranking))

    def _written(
        self, item: Item, prompt: tuple[int, ...], k: int, top: Top | None, on_event: OnEvent | None = None
    ) -> Item:
        """What is written of a request. `top`: its first look; None: the list is free, whatever it names."""
        export, chat, result, banned = self.export, self.export.chat, Written(), self.export.banned(item)
        reasons = bool(export.spec["reasoning"])
        context = (*prompt, *(chat.open_ids if reasons else self._skipping if top else chat.empty_ids))
        heard = Heard(export, item, on_event) if reasons and on_event is not None else None
        stop = sorted({*export.brackets, *chat.end_ids})
        line = Line(self.server, stop, export.spec["max_new_tokens"], heard)
        writer, first = Writer(export), seen(line, context)
        if top is None:
            writing = writer.free(result, first)
        else:
            writing = writer.with_trace(result, first, Search(export.root, k, banned), export.mask(item))
        self._drive(writing, line, context)
        result.calls = line.calls
        if top is None:
            return parsed_row(export, item, result, banned)
        features = {**ranking_features(top.ranking), **list_features(result, top.ranking)}
        return {"features": features} | listed_row(export, item, result, banned)

    def _drive(self, writing: Writing, line: Line, context: tuple[int, ...]) -> None:
        """Give a Writer what it asks for, until it has written."""
        guess: Sequence[int] = ()
        with suppress(StopIteration):
            wants = next(writing)
            while True:
                if isinstance(wants, Search):
                    wants = writing.send(ranked(self.server, context, wants))
                else:
                    context = (*context, *guess[: wants.accepted], *wants.sure)
                    guess = tuple(wants.guess)
                    wants = writing.send(seen(line, context, guess))

    def _letters(self, item: Item) -> Item:
        """Argmax over the option letters of a question."""
        ids = self.export.chat.letter_ids(len(item["choices"]))
        prompt = tuple(self.export.ids_of(item, LETTERS))
        found = dict(of_tokens(self.server, prompt, ids, len(ids)))
        return lettered(item, [found[number] for number in ids])

    @property
    def _skipping(self) -> list[int]:
        """An empty thinking part, and the opening of the list."""
        return [*self.export.chat.empty_ids, *self.export.chat.list_open_ids]


class Heard:
    """Passes on the thinking part of what the server writes, while it does; it ends where a Writer ends it."""

    def __init__(self, export: Export, item: Item, on_event: OnEvent) -> None:
        self.export, self.result, self.over = export, Written(), False
        self.told = Told(export, item, self.result, on_event)

    def __call__(self, tokens: list[int]) -> None:
        chat, thinking = self.export.chat, self.result.thinking
        for token in tokens:
            if self.over:
                return
            thinking.append(token)
            closed = thinking[-len(chat.close_ids) :] == chat.close_ids
            self.over = closed or token in chat.end_ids or len(thinking) >= thinking_cap(self.export)
            if self.over:
                del thinking[-len(chat.close_ids) if closed else -1 :]
        self.told()


# Opening one.


def open_remote(folder: Path, digest: str, spec: dict[str, Any]) -> Engine | None:
    """The engine behind TRACE_BACKEND_URL; None where there is none. Raises TraceError where the server does not hold
    this very model, or cannot do what is needed."""
    address = os.environ.get(ADDRESS, "").strip().rstrip("/")
    if not address:
        return None
    export = load(folder, digest, spec, weights=False)
    if not urlsplit(address).path.strip("/"):
        address += "/v1"
    endpoint = Endpoint(
        base_url=address,
        model=name_of(export.digest),
        api_key=os.environ.get(KEY, "").strip(),
        timeout=CALL_SECONDS,
        attempt_timeout=ATTEMPT_SECONDS,
    )
    server = Server(endpoint)
    served = serving(server, endpoint)
    room = export.longest + LARGEST_PIECE  # a piece may go beyond the longest answer
    if served.longest is not None and served.longest < room:
        problem = f"the server reads {served.longest:,} tokens, and this model needs {room:,}."
        hint = f"Start it with --max-model-len {room}."
        raise TraceError(problem, code="llm_bad_answer", where=address, hint=hint)
    try_out(server, export, address)
    host = urlsplit(address)
    return Engine(
        export,
        server,
        {"engine": served.engine, "version": served.version, "host": host.netloc.rpartition("@")[2]},
    )


def name_of(digest: str) -> str:
    """What a server must call the model: nobody measures another one by mistake."""
    return f"trace-{digest[:NAME_DIGITS]}"


def serving(server: Server, endpoint: Endpoint) -> Served:
    rows = server.served()
    for row in rows:
        if row.name == endpoint.model:
            return row
    names = ", ".join(row.name[:60] for row in rows[:5]) or "no model"
    raise TraceError(
        f"the server offers {names}, and not {endpoint.model}, which is this model.",
        code="llm_wrong_model",
        where=endpoint.base_url,
        hint=f"Start it with --served-model-name {endpoint.model}.",
    )


def try_out(server: Server, export: Export, address: str) -> None:
    """One question that a server answers wrongly which ignores what it does not know, or masks before it counts."""
    prompt = (*export.chat.query_ids("?"), *export.chat.empty_ids)
    token = export.spec["tools"][0]["ids"][0]
    (chosen,) = server.choose([(prompt, [token])])
    if chosen.score == 0 or not chosen.likely or not set(chosen.likely) - {token}:
        raise TraceError(
            "the server tells log-probabilities that are not over the whole vocabulary.",
            code="llm_bad_answer",
            where=address,
            hint="Start it with its own --logprobs-mode (raw_logprobs) and --max-logprobs of 20 or more.",
        )
