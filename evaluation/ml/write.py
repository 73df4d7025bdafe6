"""Generation: the thinking part, then the list of tools, greedily, several requests side by side.

Each request is a coroutine: it yields tokens to feed, is sent what may follow them, and ends with what was written. The
thinking part is free; the list is either held to valid tools and separators (`with_trace`), or free as well (`free`),
which is where invalid tokens can be counted. With the tokens that are sure go guesses of those after them; what the
model would have written anyway of a guess is taken, the rest forgotten, so guessing changes no token.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from evaluation.ml import trie
from evaluation.ml.contexts import Context, Contexts, Scores, Tree
from evaluation.ml.drafts import LONGEST, Drafts
from evaluation.ml.export import LONGEST_LIST, Export
from evaluation.ml.search import NOTHING, Ranking, Search, Top, top_k

LIST_RESERVE = 32  # tokens kept for the list when the thinking part is cut
NO_DRAFTS = Drafts()


@dataclass
class Written:
    """What one prompt was answered with."""

    thinking: list[int] = field(default_factory=list)
    answer: list[int] = field(default_factory=list)  # the list part, brackets included
    tools: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)  # log-probability of each tool's tokens
    ranked: Ranking = field(default_factory=list)
    cut: bool = False  # the thinking part reached its cap or ended the turn by itself
    calls: int = 0  # forwards that wrote it

    @property
    def tokens(self) -> int:
        return len(self.thinking) + len(self.answer)


class Feed(NamedTuple):
    """`accepted`: how many tokens of the last guess stay; then tokens that are sure, and a guess of what follows."""

    accepted: int
    sure: list[int]
    guess: list[int] = []


class Seen(NamedTuple):
    """What may follow the last sure token and each guessed one: the places of the scores."""

    scores: Scores
    places: range


Writing = Generator[Feed | Search, Any, None]  # is sent a Seen for a Feed, a Top for a Search
Heard = Callable[[], None]


@dataclass
class Writer:
    """How one model writes."""

    export: Export
    drafts: Drafts = NO_DRAFTS
    guesses: int = LONGEST  # tokens of a guess; fewer while many requests share a forward
    chance: float = 0.3  # a guess must have

    def with_trace(
        self,
        result: Written,
        seen: Seen,
        ranking: Search,
        mask: trie.Mask,
        heard: Heard | None = None,
    ) -> Writing:
        """Free thinking, then a list that can only hold tools, none of its mask among them; `ranked` is what `ranking`
        finds at its first place. Starts at a context that has read the opening of the thinking part, or of the list for
        a model that does not reason; `seen`: what follows."""
        if self.export.spec["reasoning"]:
            accepted, pending = yield from self._think(result, seen, heard)
            seen = yield Feed(accepted, [*pending, *self.export.chat.list_open_ids])
        top = yield ranking
        result.ranked = top.ranking
        yield from ListWriter(self.export, result, mask).run(seen)

    def _think(
        self, result: Written, seen: Seen, heard: Heard | None
    ) -> Generator[Feed, Seen, tuple[int, list[int]]]:
        """Returns how many tokens of the last guess were accepted, and tokens of the thinking part not yet fed."""
        chat, written = self.export.chat, result.thinking
        cap = thinking_cap(self.export)
        guess: list[int] = []
        while True:
            accepted = 0
            for place in seen.places:
                token = seen.scores.best[place]
                written.append(token)
                fed = accepted < len(guess) and guess[accepted] == token
                accepted += fed
                ends = token in chat.end_ids or len(written) >= cap
                if written[-len(chat.close_ids) :] == chat.close_ids:
                    return accepted, [] if fed else [token]
                if ends:
                    written[-1:] = chat.close_ids
                    result.cut = True
                    return accepted - fed, list(chat.close_ids)
                if not fed:
                    break
            if heard is not None:
                heard()
            token = written[-1]
            guess = self._guess(written, cap)
            seen = yield Feed(accepted, [token], guess)

    def _guess(self, written: Sequence[int], cap: int) -> list[int]:
        return self.drafts.after(written, min(self.guesses, cap - len(written) - 1), self.chance)

    def free(self, result: Written, seen: Seen, heard: Heard | None = None) -> Writing:
        """Plain greedy decoding up to the first closing bracket after the thinking part."""
        export, chat = self.export, self.export.chat
        thinking, cap = bool(export.spec["reasoning"]), export.spec["max_new_tokens"]
        guess: list[int] = []
        while True:
            accepted = 0
            for place in seen.places:
                token = seen.scores.best[place]
                (result.thinking if thinking else result.answer).append(token)
                fed = accepted < len(guess) and guess[accepted] == token
                accepted += fed
                if thinking and result.thinking[-len(chat.close_ids) :] == chat.close_ids:
                    thinking = False
                elif token in chat.end_ids or (token in export.brackets and not thinking):
                    return
                elif result.tokens >= cap:
                    result.cut = True
                    return
                if not fed:
                    break
            if heard is not None:
                heard()
            guess = self._guess([*result.thinking, *result.answer], cap) if thinking else []
            seen = yield Feed(accepted, [token], guess)


def thinking_cap(export: Export) -> int:
    """Tokens after which a thinking part is cut."""
    return max(1, int(export.spec["max_new_tokens"]) - LIST_RESERVE)


@dataclass
class Cursor:
    """Where one list stands: in the trie of tools, or in the trie of what may follow a tool."""

    node: trie.Node
    inside: bool = True  # within a tool
    score: float = 0.0
    used: dict[int, int] = field(default_factory=dict)  # id(node) -> tools below it already listed
    path: list[trie.Node] = field(default_factory=list)
    whole: int = 0  # tokens of the answer up to its last whole tool


class ListWriter:
    """Greedy over valid tokens: tools that are not listed yet, then a separator or the closing bracket. Where the model
    would rather repeat a tool it has no other to add, and the list ends before it."""

    def __init__(self, export: Export, result: Written, mask: trie.Mask = NOTHING) -> None:
        self.export, self.result, self.mask = export, result, mask
        chat = export.chat
        self.after = trie.build_any([chat.list_sep_ids, chat.list_close_ids])
        self.cursor = Cursor(export.root)
        result.answer = list(chat.list_open_ids)

    def run(self, seen: Seen) -> Writing:
        while True:
            token = 0
            for place in seen.places:  # after the first, the only token there is
                taken = self._take(seen.scores, place)
                if taken is None:
                    return
                token = taken
            forced = self._forced()
            seen = yield Feed(len(seen.places) - 1, [token], forced)

    def _forced(self) -> list[int]:
        """The tokens that follow because no other one may."""
        forced: list[int] = []
        node = self.cursor.node
        while self.cursor.inside and not node.leaf:
            valid = self._inside(node)
            if len(valid) != 1:
                break
            forced.append(valid[0])
            node = node.children[valid[0]]
        return forced

    def _take(self, scores: Scores, place: int) -> int | None:
        """Choose the best valid token and move the cursor over it; None: the list has ended."""
        cursor, result = self.cursor, self.result
        if cursor.node.leaf:  # a tool is followed by a separator or the end; a separator by a tool
            cursor.inside = not cursor.inside
            cursor.node = self.export.root if cursor.inside else self.after
            cursor.score, cursor.path = 0.0, []
        valid = self._valid(cursor.node)
        ends = not valid
        if valid and cursor.inside and result.tools:  # would it repeat a tool, if it might?
            every = [token for token, child in cursor.node.children.items() if not self.mask.hides(child)]
            ends = scores.likeliest(place, every) not in valid
        if ends:  # after the last whole tool
            result.answer[cursor.whole :] = self.export.chat.list_close_ids
            return None
        token = scores.likeliest(place, valid)
        result.answer.append(token)
        cursor.node = cursor.node.children[token]
        if not cursor.inside:
            return None if cursor.node.tool == 1 else token
        cursor.path.append(cursor.node)
        cursor.score += float(scores.of(place, [token])[0])
        if cursor.node.leaf:
            result.tools.append(cursor.node.tool)
            result.scores.append(cursor.score)
            cursor.whole = len(result.answer)
            for node in cursor.path:
                cursor.used[id(node)] = cursor.used.get(id(node), 0) + 1
        return token

    def _valid(self, node: trie.Node) -> list[int]:
        if self.cursor.inside:
            return self._inside(node)
        if len(self.result.tools) >= min(LONGEST_LIST, self.export.root.size - len(self.mask.tools)):
            return [token for token, child in node.children.items() if 1 in trie.leaves(child)]
        return list(node.children)

    def _inside(self, node: trie.Node) -> list[int]:
        """The tokens below which a tool is left that is neither hidden nor listed yet."""
        used, hidden = self.cursor.used, self.mask.below
        return [
            token
            for token, child in node.children.items()
            if used.get(id(child), 0) + hidden.get(id(child), 0) < child.size
        ]


@dataclass
class Running:
    """A request that is being written."""

    context: Context
    result: Written
    writing: Writing
    seen: Seen
    wants: Feed | Search | None = None  # None: it has ended

    def go_on(self, answer: Seen | Top | None) -> None:
        try:
            self.wants = self.writing.send(answer)  # type: ignore[arg-type]  # None starts it
        except StopIteration:  # it is written
            self.wants = None


def step(contexts: Contexts, running: Sequence[Running]) -> None:
    """One forward for all that is being written, and the rankings that are wanted at its places."""
    feeds = [(one, one.wants) for one in running if isinstance(one.wants, Feed)]
    trees = [Tree.chain([*feed.sure, *feed.guess]) for _, feed in feeds]
    scores, places = contexts.look([one.context for one, _ in feeds], trees)
    for (one, feed), own in zip(feeds, places, strict=True):
        one.result.calls += 1
        contexts.keep(one.context, feed.sure)
        one.seen = Seen(scores, own[len(feed.sure) - 1 :])
        one.go_on(one.seen)
        if isinstance(one.wants, Feed):
            contexts.keep(one.context, feed.guess[: one.wants.accepted])
    rank(contexts, running)


def rank(contexts: Contexts, running: Sequence[Running]) -> None:
    """The rankings that are wanted, all at once."""
    wanting = [(one, one.wants) for one in running if isinstance(one.wants, Search)]
    if wanting:
        rows = [one.seen.scores.logits[one.seen.places[0]] for one, _ in wanting]
        searches = [search for _, search in wanting]
        asked = [one.context for one, _ in wanting]
        for (one, _), top in zip(
            wanting, top_k(contexts, asked, Scores(torch.stack(rows)), searches), strict=True
        ):
            one.go_on(top)
