"""Why a sample is not as it would be written today: what it was made from, compared with what it would be made from.

In: two `keys.made_from`. Out: reasons in the order a reader wants them. Those about rule and tools are `content`: the
sample may be wrong. The others say that it was made in another way.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from synthesis.core.keys import STAGES

BEFORE_KEYS = "written before keys were kept per stage"
NO_PART = frozenset({"key", "few_shot", "prompt", "prompt_hash", "model", "writer"})


@dataclass(frozen=True, slots=True)
class Reason:
    """`kind`: rule, tool, permissions, joined, left, gone, prompt, model, writer, parameter, few_shot or before."""

    kind: str
    what: str
    was: str = ""
    now: str = ""

    @property
    def content(self) -> bool:
        return self.kind in ("rule", "tool", "permissions", "joined", "left", "gone")

    def __str__(self) -> str:
        match self.kind:
            case "rule":
                return f"rule {self.what} went from {self.was} to {self.now}"
            case "tool":
                return f"{self.what} says something else"
            case "permissions":
                return f"{self.what} asks for other permissions"
            case "joined":
                return f"{self.what} is new in the pool"
            case "left":
                return f"{self.what} left the pool"
            case "prompt":
                return f"prompt {self.what} changed"
            case "model" | "writer" | "parameter":
                return f"{self.what} went from {self.was} to {self.now}"
            case _:
                return self.what

    def as_dict(self) -> dict[str, Any]:
        said = {"kind": self.kind, "what": self.what, "was": self.was, "is": self.now}
        return {**said, "content": self.content, "text": str(self)}


def reasons(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[Reason]:
    """Empty when nothing that enters the keys differs."""
    found = list(_tools(was["tools"], now["tools"]))
    old, new = was.get("rule"), now.get("rule")
    if old and new and old != new:
        found.insert(0, Reason("rule", new["code"], f"v{old['version']}", f"v{new['version']}"))
    for stage in STAGES:
        found += _stage(stage, was["stages"][stage], now["stages"][stage])
    if not found and was["stages"]["judge"]["key"] != now["stages"]["judge"]["key"]:
        found.append(Reason("before", "keys are made in another way now"))
    return found


def _tools(was: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Reason]:
    for name in sorted(was.keys() & now.keys()):
        if was[name].partition("+")[0] != now[name].partition("+")[0]:
            yield Reason("tool", name, was[name], now[name])
        elif was[name] != now[name]:
            yield Reason("permissions", name, was[name], now[name])
    for name in sorted(now.keys() - was.keys()):
        yield Reason("joined", name, "", now[name])
    for name in sorted(was.keys() - now.keys()):
        yield Reason("left", name, was[name], "")


def _stage(stage: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Reason]:
    if was.get("prompt_hash") != now.get("prompt_hash") and "prompt" in was and "prompt" in now:
        yield Reason("prompt", f"{now['prompt']}.jinja", was["prompt_hash"], now["prompt_hash"])
    for name in ("model", "writer"):
        if was.get(name, "") != now.get(name, "") and (was.get(name) and now.get(name)):
            yield Reason(name, f"{name} of the {stage}", str(was[name]), str(now[name]))
    if ("prompt" in was) != ("prompt" in now):
        way = {True: "language model", False: "offline"}
        yield Reason("writer", f"writer of the {stage}", way["prompt" in was], way["prompt" in now])
        return
    if was.get("few_shot", []) != now.get("few_shot", []):
        yield Reason("few_shot", "other few-shot queries are shown")
    for name in sorted((was.keys() | now.keys()) - NO_PART):
        if was.get(name) != now.get(name):
            yield Reason(
                "parameter", f"{stage} {name}", _value_text(was.get(name)), _value_text(now.get(name))
            )


def _value_text(value: Any) -> str:
    if isinstance(value, str) and value.startswith("#"):
        return f"another text ({value[1:7]})"
    return "none" if value is None else str(value)
