"""A language model answering: what is written of each request, several side by side.

In: requests on their way. Out: their predictions; see asked.py for how they come and go.
"""

from functools import cached_property
from itertools import compress
from os.path import commonprefix

import torch

from evaluation.core.confidence import BEST, ranking_features
from evaluation.ml import write
from evaluation.ml.asked import (
    AT_ONCE,
    BEAM,
    BOTH,
    FAST,
    LETTERS,
    TRACE,
    TRACE_FREE,
    Asked,
    Batch,
    Item,
)
from evaluation.ml.contexts import Context, Contexts, Scores
from evaluation.ml.export import Export
from evaluation.ml.rows import Told, fast_row, lettered, list_features, listed_row, parsed_row, ranked_row
from evaluation.ml.search import BEAMS, Search, Top, beam, most_of, top_k
from evaluation.ml.trie import Mask
from evaluation.ml.write import Running, Seen, Writer, Written

WRITES = (TRACE, BOTH, TRACE_FREE)
APART = 4  # places of a forward that no trace takes
GUESSED = 24  # tokens that all requests of a forward may guess together


class Writing(Batch):
    """A language model answering: requests join before each forward and leave after it."""

    def __init__(self, export: Export) -> None:
        super().__init__()
        self.export = export
        self.running: list[tuple[Running, Asked]] = []
        self.looks: dict[Asked, Item] = {}  # the ranked answer, before the trace is written
        chat = export.chat
        self.opening = list(chat.open_ids)
        self.skipping = [*chat.empty_ids, *chat.list_open_ids]  # an empty thinking part
        if not export.spec["reasoning"]:
            self.opening = self.skipping
        self.shared = list(commonprefix([self.opening, self.skipping]))

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

    def step(self) -> None:
        """Take in who waits, and one forward for all that is being written."""
        self._finish()
        # a place is kept for what leaves at once: it does not wait until a trace has been written
        writes = AT_ONCE - APART - len(self.running)
        room = max(APART, AT_ONCE - len(self.running))
        if asked := self.take(room, lambda one, taken: one.decode not in WRITES or taken < writes):
            self._admit(asked)
        if self.running:
            self.writer.guesses = max(1, GUESSED // len(self.running))
            write.step(self.contexts, [running for running, _ in self.running])
            self._finish()

    def _admit(self, asked: list[Asked]) -> None:
        # those that stay first, so that those that leave at once are the last rows
        asked.sort(key=lambda one: one.decode not in WRITES)
        contexts, scores = self.contexts.admit([[*one.ids, *self._start(one)] for one in asked])
        places = dict(zip(asked, zip(contexts, scores.logits, strict=True), strict=True))
        self._look({one: places[one] for one in asked if one.decode in (FAST, TRACE, BOTH)})
        self._search_beams({one: places[one] for one in asked if one.decode == BEAM})
        for one in asked:
            if one.decode == LETTERS:
                ids = self.export.chat.letter_ids(len(one.item["choices"]))
                scored = Scores(places[one][1][None]).of(0, ids)
                one.answer(lettered(one.item, scored.tolist()))
        self.contexts.drop([places[one][0] for one in asked if one.decode not in WRITES])
        self._begin({one: places[one] for one in asked if one.decode in WRITES})

    def _start(self, one: Asked) -> list[int]:
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
        ahead = [one for one in looked if self._lead(one)]
        if ahead:
            seen, _ = self.contexts.after(
                [looked[one][0] for one in ahead], [[self._lead(one)] for one in ahead]
            )
            looked |= {one: (looked[one][0], logits) for one, logits in zip(ahead, seen.logits, strict=True)}
        everyone = list(looked)
        whole = self._ranked(everyone, looked, [self.export.mask(one.item) for one in everyone])
        limited = [one for one in everyone if one.decode != TRACE and one.item.get("permissions") is not None]
        tops = self._ranked(limited, looked, [self.export.banned(one.item) for one in limited])
        granted = dict(zip(limited, tops, strict=True))
        for one, top in zip(everyone, whole, strict=True):
            features = ranking_features(top.ranking)
            if one.decode == TRACE:
                self.looks[one] = {"ranking": top.ranking, "features": features}
                continue
            row = fast_row(self.export, one.item, one.k, top, granted.get(one), features)
            if one.decode == FAST:
                one.answer(row)
                continue
            self.looks[one] = {**row, "ranking": top.ranking}
            if one.on_event is not None:
                one.on_event("fast", row)

    def _lead(self, one: Asked) -> list[int]:
        """What of an empty thinking part the context has not read that its trace will go on from."""
        return [] if one.decode == FAST else self.skipping[len(self.shared) :]

    def _ranked(
        self, asked: list[Asked], looked: dict[Asked, tuple[Context, torch.Tensor]], masks: list[Mask]
    ) -> list[Top]:
        if not asked:
            return []
        searches = [
            Search(self.export.root, max(one.k, BEST), mask, most_of(one.item), self._lead(one))
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
            heard = Told(self.export, one.item, result, one.on_event) if one.on_event is not None else None
            if one.decode == TRACE_FREE:
                writing = self.writer.free(result, seen, heard)
            else:
                ranking = Search(self.export.root, one.k, self.export.banned(one.item))
                writing = self.writer.with_trace(result, seen, ranking, self.export.mask(one.item), heard)
            running = Running(context, result, writing, seen)
            running.go_on(None)
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
            look = self.looks.pop(one, {})
            if not one.done.is_set():
                one.answer(self._written(one, running.result, look))

    def _written(self, one: Asked, result: Written, look: Item) -> Item:
        banned = self.export.banned(one.item)
        if one.decode == TRACE_FREE:
            return parsed_row(self.export, one.item, result, banned)
        row = listed_row(self.export, one.item, result, banned)
        row = {"features": look["features"] | list_features(result, look.pop("ranking"))} | row
        return row if one.decode == TRACE else {"id": one.item["id"], "fast": look, "trace": row}
