"""From what a language model wrote or ranked to the prediction that is kept."""

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from string import ascii_uppercase

from evaluation.core.confidence import FLOOR, Features
from evaluation.core.metrics import NO_TRACE, trace_fields
from evaluation.core.withholding import Granted
from evaluation.core.written_out import concluded, written_out
from evaluation.ml.asked import Item, OnEvent
from evaluation.ml.catalogued import Catalogued
from evaluation.ml.export import Export
from evaluation.ml.search import Ranking, Top
from evaluation.ml.trie import Mask
from evaluation.ml.write import Written


def ranked_row(export: Catalogued, item: Item, found: Ranking) -> Item:
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


def fast_row(
    export: Catalogued, item: Item, k: int, whole: Top, granted: Top | None, features: Features
) -> Item:
    """`whole`: the ranking of all tools, which tells what the request is about; `granted`: of those it may use. None:
    it may use all."""
    top = granted or whole
    row = ranked_row(export, item, top.ranking[:k])
    best, kept = [export.names[tool] for tool, _ in whole.ranking[:k]], set(row["tools"])
    withheld = [] if granted is None else [name for name in best if name not in kept]
    first = bool(withheld) and withheld[0] == best[0]
    row |= {"exact": top.exact, "features": features, "withheld": withheld, "withheld_first": first}
    return ruled(export, item, row, best[:1])


def listed_row(export: Export, item: Item, result: Written, banned: Mask) -> Item:
    listed = [export.names[tool] for tool in result.tools]
    row = text_row(export, item, result, listed)
    row |= {"ranked": [export.names[tool] for tool, _ in result.ranked]}
    row |= list_fields(export, list(zip(result.tools, result.scores, strict=True)), banned.tools)
    return ruled(export, item, row, listed[:1])


def list_fields(export: Catalogued, listed: Ranking, banned: Set[int]) -> Item:
    """Tools the request may not use leave the answer after it was decided, whatever the trace says."""
    kept = [(export.names[tool], score) for tool, score in listed if tool not in banned]
    return {
        "tools": [name for name, _ in kept],
        "scores": [round(score, 6) for _, score in kept],
        "off_vocabulary": 0,
        "withheld": [export.names[tool] for tool, _ in listed if tool in banned],
        "withheld_first": bool(listed) and listed[0][0] in banned,
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
    close = export.chat.markers.close
    thinking = export.text(result.thinking).replace(close, "")
    trace = export.shown(result.thinking, item).replace(close, "").strip()
    wrote, named = export.index.to_names(thinking).strip(), export.index.named(thinking)
    told = _in_words(export, item, wrote, named, listed)
    return {
        "id": item["id"],
        "trace": trace,
        "raw": raw,
        "tokens": result.tokens,
        "calls": result.calls,
        "cut": result.cut,
        **(trace_fields(named, listed) if trace else NO_TRACE),
        **({"trace": told, "wrote": trace} if told else {}),
    }


def _in_words(export: Export, item: Item, wrote: str, named: Sequence[str], listed: Sequence[str]) -> str:
    """What the model decided by what it wrote; nothing where its export tells no clauses."""
    if "clauses" not in export.spec or not wrote or not listed:
        return ""
    tools = {name: export.spec["tools"][export.numbers[name]] for name in named}
    found = concluded(wrote, tools, listed, export.spec["clauses"])
    return written_out(found, granted_to(item))


def ruled(export: Catalogued, item: Item, row: Item, first: Sequence[str]) -> Item:
    """The answer with the clauses that the model has not learned. `first`: the model's own tool, if any, also one that
    the request may not use. How sure the model was of it says nothing of another."""
    spoken = export.overlay(item, first[0]) if first and export.overlay else None
    if spoken is None:
        return row
    (tool,), is_list = spoken.decision.listed, "ranked" in row
    scores = dict(zip(row["tools"], row["scores"], strict=True))
    # a list was to hold as many tools: the clause's takes the place of the model's first
    gone = {tool, first[0]} if is_list and tool not in scores else {tool}
    tools = [tool, *(name for name in row["tools"] if name not in gone)][: max(1, len(scores))]
    changed = {"tools": tools, "scores": [scores.get(name) for name in tools], "withheld_first": False}
    if tool != first[0]:
        changed["features"] = {}
    if is_list:
        weighed = [one for one in spoken.decision.weighed if one.tool["name"] not in tools]
        decision = replace(spoken.decision, listed=tools, weighed=weighed)
        changed |= {
            "ranked": [tool, *(name for name in row["ranked"] if name != tool)][: max(1, len(row["ranked"]))],
            "trace": written_out(decision, granted_to(item)),
            "follows_trace": True,
            "trace_tools": tools,
        }
    return row | spoken.told | changed


def granted_to(item: Item) -> Granted:
    permissions = item.get("permissions")
    return None if permissions is None else frozenset(permissions)


def list_features(result: Written, ranking: Ranking) -> dict[str, float]:
    """What a written list adds; `ranking`: that of the same request without any thinking."""
    listed = max(FLOOR, result.scores[0]) if result.tools else FLOOR
    agrees = bool(ranking) and result.tools[:1] == [ranking[0][0]]
    return {"listed": round(listed, 4), "agrees": float(agrees)}


def lettered(item: Item, scores: Sequence[float]) -> Item:
    """Argmax over the option letters of a question."""
    found = [round(float(score), 6) for score in scores]
    return {"id": item["id"], "letter": ascii_uppercase[found.index(max(found))], "scores": found}


@dataclass
class Told:
    """Passes a trace on as it grows, in names; the end of it that more tokens may still change is held back."""

    export: Export
    item: Item
    result: Written
    on_event: OnEvent
    said: str = ""

    def __call__(self) -> None:
        end = len(self.result.thinking)
        while end and self.result.thinking[end - 1] in self.export.unit_ids:
            end -= 1
        text = self.export.shown(self.result.thinking[:end], self.item)
        fresh = text.removeprefix(self.said) if text.startswith(self.said) else ""
        if fresh and not text.endswith("\N{REPLACEMENT CHARACTER}"):
            self.on_event("text", fresh)
            self.said = text
