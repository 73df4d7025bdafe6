"""Generation: the thinking part, then the list of tools, one greedy token at a time.

In: prompts. Out: per prompt what the model wrote. The thinking part is free; the list is either held to valid tools
and separators (`constrained`), or free as well (`unconstrained`), which is where invalid tokens can be counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from evaluation.ml import trie
from evaluation.ml.export import Export
from evaluation.ml.search import Banned, Ranking, top_k
from evaluation.ml.state import State, join, start

LONGEST_LIST = 20  # tools in one answer
LIST_RESERVE = 32  # tokens kept for the list when the thinking part is cut
KEEP_SHARE = 0.75  # the batch is made smaller once fewer of its rows than this are still being written


@dataclass
class Written:
    """What one prompt was answered with."""

    thinking: list[int] = field(default_factory=list)
    answer: list[int] = field(default_factory=list)  # the list part, brackets included
    tools: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)  # log-probability of each tool's tokens
    ranked: Ranking = field(default_factory=list)
    cut: bool = False  # the thinking part reached its cap or ended the turn by itself
    list_steps: int = 0  # tokens of the list that were chosen under the constraint
    overruled: list[dict[str, str]] = field(default_factory=list)  # unmasked argmax against the token taken

    @property
    def tokens(self) -> int:
        return len(self.thinking) + len(self.answer)


class Frontier:
    """The rows of a batch that are still being written; shrinks as rows finish."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.rows = list(range(len(state)))  # place in the state -> row; finished rows are -1
        self.live = len(state)

    def places(self) -> list[tuple[int, int]]:
        return [(place, row) for place, row in enumerate(self.rows) if row >= 0]

    def finish(self, place: int) -> None:
        self.rows[place] = -1
        self.live -= 1

    def step(self, tokens: dict[int, int], idle: int) -> None:
        """Feed each live place its token; what a finished row is fed does not matter."""
        if self.live < KEEP_SHARE * len(self.rows):
            kept = [place for place, _ in self.places()]
            tokens = {at: tokens[place] for at, place in enumerate(kept)}
            self.state, self.rows = self.state.select(kept), [self.rows[place] for place in kept]
        self.state = self.state.extend([[tokens.get(place, idle)] for place in range(len(self.rows))])


def think(
    export: Export, prompts: Sequence[Sequence[int]], results: list[Written]
) -> list[tuple[State, list[int]]]:
    """Write every thinking part. Returns per prompt its context and the tokens that must follow it."""
    chat = export.chat
    cap = max(1, export.spec["max_new_tokens"] - LIST_RESERVE)
    frontier = Frontier(start(export.model, [[*prompt, *chat.open_ids] for prompt in prompts], chat.pad_id))
    contexts: dict[int, tuple[State, list[int]]] = {}
    while frontier.live:
        choice = frontier.state.scores.argmax(dim=1).tolist()
        for place, row in frontier.places():
            written = results[row].thinking
            written.append(choice[place])
            if written[-len(chat.close_ids) :] == chat.close_ids:
                contexts[row] = (frontier.state.select([place]), [choice[place], *chat.list_open_ids])
            elif choice[place] in chat.end_ids or len(written) >= cap:
                written[-1:] = chat.close_ids
                results[row].cut = True
                contexts[row] = (frontier.state.select([place]), [*chat.close_ids, *chat.list_open_ids])
            if row in contexts:
                frontier.finish(place)
        if frontier.live:
            frontier.step(dict(enumerate(choice)), chat.pad_id)
    return [contexts[row] for row in range(len(prompts))]


def no_thinking(export: Export, prompts: Sequence[Sequence[int]]) -> State:
    """The context right before the first tool when the thinking part is given empty."""
    chat = export.chat
    lead = [*chat.empty_ids, *chat.list_open_ids]
    return start(export.model, [[*prompt, *lead] for prompt in prompts], chat.pad_id)


def constrained(
    export: Export,
    prompts: Sequence[Sequence[int]],
    k: int,
    banned: Sequence[Banned],
    masks: Sequence[trie.Mask] = (),
) -> list[Written]:
    """Free thinking, then a list that can only hold tools, none of its mask among them; `ranked` is the exact top k at
    its first place."""
    masks = masks or [trie.Mask()] * len(prompts)
    results = [Written() for _ in prompts]
    batches: list[tuple[list[int], State]] = []
    if not export.spec["reasoning"]:
        batches = [(list(range(len(prompts))), no_thinking(export, prompts))]
    else:
        contexts = think(export, prompts, results)
        # joined where the tokens that must follow are equally many, with those tokens fed
        for length in sorted({len(pending) for _, pending in contexts}):
            rows = [row for row, (_, pending) in enumerate(contexts) if len(pending) == length]
            state = join([contexts[row][0] for row in rows])
            batches.append((rows, state.extend([contexts[row][1] for row in rows])))
    for rows, state in batches:
        tops = top_k(state, export.root, k, [banned[row] for row in rows])
        for row, top in zip(rows, tops, strict=True):
            results[row].ranked = top.ranking
        ListWriter(export, [results[row] for row in rows], [masks[row] for row in rows]).run(state)
    return results


@dataclass
class Cursor:
    """Where one list stands: in the trie of tools, or in the trie of what may follow a tool."""

    node: trie.Node
    mask: trie.Mask
    inside: bool = True  # within a tool
    score: float = 0.0
    used: dict[int, int] = field(default_factory=dict)  # id(node) -> tools below it already listed
    path: list[trie.Node] = field(default_factory=list)
    whole: int = 0  # tokens of the answer up to its last whole tool
    ended: bool = False


class ListWriter:
    """Greedy over valid tokens: tools that are not listed yet, then a separator or the closing bracket. Where the model
    would rather repeat a tool it has no other to add, and the list ends before it."""

    def __init__(self, export: Export, results: list[Written], masks: Sequence[trie.Mask] = ()) -> None:
        self.export = export
        self.results = results
        self.masks = masks or [trie.Mask()] * len(results)
        chat = export.chat
        self.after = trie.build_any([chat.list_sep_ids, chat.list_close_ids])
        for result in results:
            result.answer = list(chat.list_open_ids)

    def run(self, state: State) -> None:
        frontier = Frontier(state)
        cursors = [Cursor(self.export.root, mask) for mask in self.masks]
        while frontier.live:
            fed: dict[int, int] = {}
            for place, row in frontier.places():
                fed[place] = self._take(frontier.state, place, cursors[row], self.results[row])
                if cursors[row].ended:
                    frontier.finish(place)
            if frontier.live:
                frontier.step(fed, self.export.chat.pad_id)

    def _take(self, state: State, place: int, cursor: Cursor, result: Written) -> int:
        """Choose the best valid token, move the cursor over it, and log where the model wanted another."""
        if cursor.node.leaf:  # a tool is followed by a separator or the end; a separator by a tool
            cursor.inside = not cursor.inside
            cursor.node = self.export.root if cursor.inside else self.after
            cursor.score, cursor.path = 0.0, []
        scores = state.scores[place]
        valid = self._valid(cursor, len(result.tools))
        ends = not valid
        if valid and cursor.inside and result.tools:  # would it repeat a tool, if it might?
            every = [token for token, child in cursor.node.children.items() if not cursor.mask.hides(child)]
            ends = every[int(scores[every].argmax())] not in valid
        if ends:  # after the last whole tool; what is fed now is read by nobody
            result.answer[cursor.whole :] = self.export.chat.list_close_ids
            cursor.ended = True
            return self.export.chat.pad_id
        token = valid[int(scores[valid].argmax())]
        result.answer.append(token)
        result.list_steps += 1
        wish = int(scores.argmax())
        if wish != token:
            text = self.export.text
            result.overruled.append({"wanted": text([wish]), "taken": text([token])})
        cursor.node = cursor.node.children[token]
        if not cursor.inside:
            cursor.ended = cursor.node.tool == 1
            return token
        cursor.path.append(cursor.node)
        cursor.score += float(scores[token])
        if cursor.node.leaf:
            result.tools.append(cursor.node.tool)
            result.scores.append(cursor.score)
            cursor.whole = len(result.answer)
            for node in cursor.path:
                cursor.used[id(node)] = cursor.used.get(id(node), 0) + 1
        return token

    def _valid(self, cursor: Cursor, listed: int) -> list[int]:
        children, hidden = cursor.node.children, cursor.mask.below
        if cursor.inside:
            return [
                token
                for token, child in children.items()
                if cursor.used.get(id(child), 0) + hidden.get(id(child), 0) < child.size
            ]
        if listed >= min(LONGEST_LIST, self.export.root.size - len(cursor.mask.tools)):
            return [token for token, child in children.items() if 1 in trie.leaves(child)]
        return list(children)


def unconstrained(export: Export, prompts: Sequence[Sequence[int]]) -> list[Written]:
    """Plain greedy decoding up to the first closing bracket after the thinking part."""
    chat, results = export.chat, [Written() for _ in prompts]
    reasoning = bool(export.spec["reasoning"])
    lead = chat.open_ids if reasoning else chat.empty_ids
    # text tokens that hold a closing bracket; tool tokens may hold one in their name and do not count
    own = set(chat.tokenizer.added_tokens_decoder)
    brackets = {at for token, at in chat.tokenizer.get_vocab().items() if "]" in token and at not in own}
    frontier = Frontier(start(export.model, [[*prompt, *lead] for prompt in prompts], chat.pad_id))
    thinking = [reasoning] * len(prompts)
    while frontier.live:
        choice = frontier.state.scores.argmax(dim=1).tolist()
        for place, row in frontier.places():
            token, result = choice[place], results[row]
            (result.thinking if thinking[row] else result.answer).append(token)
            if thinking[row] and result.thinking[-len(chat.close_ids) :] == chat.close_ids:
                thinking[row] = False
            elif token in chat.end_ids or (token in brackets and not thinking[row]):
                frontier.finish(place)
            elif result.tokens >= export.spec["max_new_tokens"]:
                result.cut = True
                frontier.finish(place)
        if frontier.live:
            frontier.step(dict(enumerate(choice)), chat.pad_id)
    return results
